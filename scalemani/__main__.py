"""``python -m scalemani`` is the ``scalemani`` program."""

from scalemani.terminal.commands import main

if __name__ == "__main__":
    main()
