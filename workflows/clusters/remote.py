"""Programs on other machines by ssh: takes a host and a command, gives a process that lives as long as it is wanted.

The other machine's shell starts the program, says its process number and reads its own input: when that ends (this
process closes it, is killed, or the connection is cut) it ends the program by that number. No terminal is needed, no
file is left, and nothing is looked for by name.
"""

import re
import shlex
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Self

ENDING = 20  # seconds that a program may take
KILLING = 30  # seconds for a second login
SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4")

# The program's output is the connection's; `cat` ends with the connection's input.
KEEPER = (
    "exec 3<&0; {program} </dev/null 2>&1 3<&- & pid=$!; echo process $pid; "
    "{{ cat <&3 >/dev/null 2>&1; kill $pid; }} 2>/dev/null & watch=$!; exec 3<&-; "
    "wait $pid; code=$?; kill $watch 2>/dev/null; exit $code"
)


def shell_words(shell: Sequence[str], host: str, *, extra: Sequence[str] = ()) -> list[str]:
    """Up to where the command comes: never a question to the user, and a lost connection is noticed in a minute."""
    options = [word for option in SSH_OPTIONS for word in ("-o", option)]
    return [*shell, *options, *extra, host]


def kept(program: Sequence[str], environment: dict[str, str]) -> str:
    """A command line for the other machine's shell, of any kind, that keeps a program and ends it."""
    words = ["env", *(f"{name}={value}" for name, value in environment.items()), *program]
    return shlex.join(["sh", "-c", KEEPER.format(program=shlex.join(words))])


class Remote:
    """A program that runs on a host while the ``with`` block does.

    Parameters
    ----------
    shell : sequence of str
        ssh, or what takes the same arguments.
    host : str
    program : sequence of str
    environment : dict
        Variables of the program.
    """

    def __init__(
        self, shell: Sequence[str], host: str, program: Sequence[str], environment: dict[str, str] | None = None
    ) -> None:
        self.shell, self.host = shell, host
        self.process: int | None = None
        self._lines: deque[str] = deque(maxlen=500)
        self._changed = threading.Condition()
        # A session of its own: Ctrl-C is this process's alone, which then ends the programs in order.
        self._local = subprocess.Popen(
            [*shell_words(shell, host), kept(program, environment or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._local.stdout is not None
        for line in self._local.stdout:
            with self._changed:
                self._lines.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._local.wait()
            self._changed.notify_all()

    def wait_for(self, pattern: str, seconds: float) -> str:
        """The first group of a pattern in a line of the program's output.

        Raises
        ------
        RuntimeError
            It ended, or said no such thing in time; with its last line.
        """

        def found() -> str | None:
            return next((match[1] for line in self._lines if (match := re.search(pattern, line))), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None or self._local.poll() is not None, seconds)
        if self._local.poll() is not None:
            self._reader.join(1)  # its last lines may still be on their way
        with self._changed:
            if (answer := found()) is not None:
                return answer
            last = self._lines[-1] if self._lines else "it said nothing"
        raise RuntimeError(f"{self.host}: {self.shell[0]} and what it started gave no answer in {seconds:g} s: {last}")

    def __enter__(self) -> Self:
        return self

    def started(self, seconds: float) -> int:
        """The process number on the host."""
        self.process = int(self.wait_for(r"^process (\d+)$", seconds))
        return self.process

    def let_go(self) -> None:
        """Ask the program to end; doesn't wait."""
        if self._local.stdin is not None and not self._local.stdin.closed:
            self._local.stdin.close()

    def end(self) -> None:
        """End the program: as SIGTERM does, or by its number where that does not come through in time.

        A host that gives no answer is named; nothing is raised, for the others are to be ended too.
        """
        self.let_go()
        try:
            self._local.wait(ENDING)
        except subprocess.TimeoutExpired:
            if self.process is not None:
                self._kill()
            self._local.kill()
            self._local.wait()
        self._reader.join(5)
        if self._local.stdout is not None:
            self._local.stdout.close()

    def _kill(self) -> None:
        command = [*shell_words(self.shell, self.host), f"kill -KILL {self.process}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=KILLING, check=False)
            answered = done.returncode == 0
        except (subprocess.TimeoutExpired, OSError):
            answered = False
        if not answered:
            line = f"{self.host} gives no answer: process {self.process} may still run there: end it"
            print(line, file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        self.end()


class Tunnel:
    """A port of this machine's loopback that leads to one of a host's, for the length of a ``with`` block."""

    def __init__(self, shell: Sequence[str], host: str, here: int, there: int) -> None:
        extra = ["-o", "ExitOnForwardFailure=yes", "-N", "-L", f"127.0.0.1:{here}:127.0.0.1:{there}"]
        self._local = subprocess.Popen(
            shell_words(shell, host, extra=extra), stdin=subprocess.DEVNULL, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._local.terminate()
        self._local.wait()


# ---- a stand-in ---------------------------------------------------------------------------------

STAND_IN = '''#!{python}
"""Takes ssh's arguments and does on this machine what ssh would have done on the other."""
import os, socket, sys, threading

words, forward = sys.argv[1:], None
while words and words[0].startswith("-"):
    option = words.pop(0)
    if option in ("-o", "-L"):
        value = words.pop(0)
        forward = value if option == "-L" else forward
host, command = words[0], " ".join(words[1:])  # as ssh hands a command over


def copy(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


if forward is None:
    os.execvp("sh", ["sh", "-c", command])
address, port, there, remote = forward.split(":")
listener = socket.create_server((address, int(port)))
while True:
    near, _ = listener.accept()
    far = socket.create_connection((there, int(remote)))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
'''
