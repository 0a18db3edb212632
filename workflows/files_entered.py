"""How many files of the package a reader walks through with the program, for three things that it does.

fit    2,000 rows by the default method with exact neighbours, in this thread, as small fits are
tiles  the last task that reads tiles of D for the solver of the same fit on a cluster: a row of them, or about as many
row    one test row, by a model that has placed one before

A file counts if a Python function of it is entered; what runs while a module is imported does not count, nor does what
numba has compiled: a process of its own has it compiled before. A task is known by what can be seen from outside: in a
thread that is not the caller's it is the call that enters the package, and it opens files of the distances of the store
while the stage is "solve".

    python workflows/files_entered.py --out files            # a table, and the names
    python workflows/files_entered.py --json                 # the names, printed
    python workflows/files_entered.py --small --out files    # 400 rows: a smoke test
"""

import argparse
import inspect
import json
import multiprocessing
import sys
import tempfile
import threading
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = str(Path(str(find_spec("scalemani").origin)).parent) + "/"


class Here(threading.local):
    """Where a thread is: within so many imports and functions of the package, and what its outermost one has done."""

    imports, depth, reads, entered = 0, 0, False, set()


class Watch:
    """Collects the files that are entered within a ``with`` block, by its thread and by those that begin there.

    files: All of them.
    tasks: Those of each task that opens a tile of the fit at `store` while it is being solved.
    """

    def __init__(self, store: Path) -> None:
        self.files, self.tasks = set(), []
        self._tiles, self._solving, self._here = str(store / "distances" / "c"), False, Here()
        sys.addaudithook(self._opened)

    def __enter__(self) -> "Watch":
        self.files.clear()
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def report(self, stage: str, done: int, total: int) -> None:
        """Called by the fit."""
        self._solving = stage == "solve"

    def _entered(self, frame: Any, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code, here, step = frame.f_code, self._here, 1 if event == "call" else -1
        if code.co_name == "<module>":
            here.imports += step
        elif code.co_filename.startswith(PACKAGE) and code.co_flags & inspect.CO_OPTIMIZED and not here.imports:
            if here.depth == 0:
                here.entered, here.reads = set(), False
            here.depth += step
            here.entered.add(code.co_filename.removeprefix(PACKAGE))
            self.files.add(code.co_filename.removeprefix(PACKAGE))
            if here.depth == 0 and here.reads and threading.current_thread() is not threading.main_thread():
                self.tasks.append(here.entered)

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self._solving and str(arguments[0]).startswith(self._tiles):
            self._here.reads = True


def measure(n: int) -> dict[str, list[str]]:
    """Names of files by what was done."""
    from scalemani import KernelIsomap

    warnings.simplefilter("ignore")  # that the constant is large
    u, v, off = np.random.default_rng(0).random((3, n))
    X = np.column_stack([4 * u, 3 * v, u * u + v * v + 0.1 * off])
    with tempfile.TemporaryDirectory() as folder:
        stores = [Path(folder).resolve() / name for name in ("run", "on_cluster")]
        watch = Watch(stores[1])
        model = KernelIsomap(knn="exact", store=str(stores[0]))
        with watch:
            model.fit(X)
        fit = sorted(watch.files)
        model.transform(X[:1])
        with watch:
            model.transform(X[:1])
        row = sorted(watch.files)
        from distributed import Client  # not before: where it is imported, a fit looks for an active client

        with Client(processes=False, dashboard_address=None) as client, watch:
            KernelIsomap(knn="exact", store=str(stores[1]), scheduler=client, progress=watch.report).fit(X)
        tiles = sorted(max(watch.tasks, key=len))
        return {"fit": fit, "tiles": tiles, "row": row}


def compile_kernels() -> None:
    """Leave in numba's cache what a fit and a projection take."""
    from scalemani import KernelIsomap

    warnings.simplefilter("ignore")
    X = np.random.default_rng(0).random((400, 3))
    KernelIsomap(knn="exact").fit(X).transform(X[:1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="400 rows: a smoke test")
    parser.add_argument("--out", type=Path, help="directory for the names as files_entered.json")
    parser.add_argument("--json", action="store_true", help="print the names instead of the table")
    options = parser.parse_args()
    before = multiprocessing.get_context("spawn").Process(target=compile_kernels)
    before.start()
    before.join()
    found = measure(400 if options.small else 2000)
    total = len(list(Path(PACKAGE).rglob("*.py")))
    table = [f"| scalemani {version('scalemani')}, {total} files | entered |", "| --- | ---: |"]
    table += [f"| {what} | {len(files)} |" for what, files in found.items()]
    print(json.dumps(found, indent=1) if options.json else "\n".join(table))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "files_entered.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
