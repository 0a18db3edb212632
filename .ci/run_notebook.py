"""Run a notebook from top to bottom in a fresh kernel; any error, or output left in the file, fails."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(path: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    kept = [number for number, cell in enumerate(notebook.cells, start=1) if cell.get("outputs")]
    if kept:
        raise SystemExit(f"{path}: cells {kept} have output stored; clear it before committing")
    resources = {"metadata": {"path": str(Path(path).parent)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    print(f"{path}: {len(notebook.cells)} cells ran")


if __name__ == "__main__":
    main(*sys.argv[1:])
