"""Geodesics against SciPy, whole fits against scikit-learn: times and memory as ratios from one run.

    python workflows/benchmark.py --out benchmark                        # all parts; about an hour, 21 GB of disk
    python workflows/benchmark.py --part rates --sizes 10000 --out tmp   # some of them
    python workflows/benchmark.py --images fashion.npz:X --out benchmark # with a file of rows among the graphs
    python workflows/benchmark.py --small --out tmp                      # a smoke test

start      what a new process costs: the import, the help, the kernels from their cache
rates      rows of geodesic distances on one core, own kernel and SciPy's Dijkstra, on neighbour graphs and hard ones
threads    the geodesic stage on two cores against one
stage      the geodesic stage into Zarr tiles: rate, peak memory, bytes on disk
fit        scalemani.Isomap and scikit-learn's, each in a process of its own: time, peak memory, agreement
transform  3,000 new rows placed in a fit of 10,000

The tables (Markdown) are printed; they and all figures (JSON) are written to --out after each part.
--small measures too, but what it checks are counts and rows, which don't depend on the machine's load.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarking import checks, children, graphs, machine, rates
from benchmarking.machine import amount, table
from scipy.spatial import procrustes

from scalemani.demonstration.datasets import swiss_roll
from scalemani.engine.budget import check_disk, tile_sizes
from scalemani.errors import DoesNotFitError

SMALL = {"sizes": [800], "hard_size": 600, "stage_size": 700, "threads_size": 500, "fit_sizes": [400], "tile": 256}
SMALL |= {"transform_size": 400, "transform_rows": 60, "repeats": 1, "block": 96, "few": 16}


def main() -> None:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.graphs is not None:
        options.graphs.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"machine": machine.facts(), "options": {k: str(v) for k, v in vars(options).items()}}
    facts = results["machine"]
    pages = [f"{facts['processor']}, {facts['cores']} cores, {amount(facts['memory_bytes'] / 2**30)} GiB\n"]
    print(pages[0])
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        if options.small:
            options.images, options.images_rows = f"{folder}/images.npz:X", 300
            np.savez(Path(folder, "images.npz"), X=graphs.bump_images(300))
        else:
            check_room(options, Path(folder))
            children.run("fit", **libraries(options, 200, folder)[0])  # compiles, so that no figure has it in
        for name in options.part or PARTS:
            results[name], page = PARTS[name](options, Path(folder))
            print(page, flush=True)
            pages.append(page)
            (options.out / "benchmark.json").write_text(json.dumps(results, indent=1))
            (options.out / "benchmark.md").write_text("\n".join(pages))
    if options.small:
        checks.check(results)
        say("all counts hold")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, help="only these")
    parser.add_argument("--out", type=Path, default=Path("benchmark"), help="folder of benchmark.json and benchmark.md")
    parser.add_argument("--images", metavar="FILE", help="a file of rows too: .npy, .npz:key, .csv or .zarr:path")
    parser.add_argument("--images-rows", type=int, default=70_000, help="its first rows (default: %(default)s)")
    parser.add_argument("--data", nargs="+", choices=[*graphs.POINTS, *graphs.HARD], help="only these graphs")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000], help="points of part rates")
    parser.add_argument("--hard-size", type=int, default=100_000, help="vertices of the hard graphs")
    parser.add_argument("--stage-size", type=int, default=100_000, help="points of part stage")
    parser.add_argument("--threads-size", type=int, default=20_000, help="points of part threads")
    parser.add_argument("--fit-sizes", nargs="+", type=int, default=[5_000, 10_000, 20_000])
    parser.add_argument("--transform-size", type=int, default=10_000, help="training rows of part transform")
    parser.add_argument("--transform-rows", type=int, default=3_000)
    parser.add_argument("-k", "--neighbors", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2, help="of fits, of the stage and of both libraries")
    parser.add_argument("--tile", type=int, help="rows of a tile in parts stage and threads; as in a fit unless given")
    parser.add_argument("--block", type=int, default=1024, help="sources of the kernel at each place")
    parser.add_argument("--few", type=int, default=24, help="sources of SciPy at each place")
    parser.add_argument("--repeats", type=int, default=3, help="interleaved measurements, whose median is given")
    parser.add_argument("--scratch", type=Path, help="folder for stores; the system's for temporary files by default")
    parser.add_argument("--graphs", type=Path, help="folder that keeps the neighbour graphs for another run")
    parser.add_argument("--small", action="store_true", help="a smoke test of all parts, with counts checked")
    options = parser.parse_args()
    if options.small:
        vars(options).update(SMALL)
    return options


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def check_room(options: argparse.Namespace, folder: Path) -> None:
    """Stop before any work if the tiles of the largest stage have no room."""
    if "stage" in (options.part or PARTS):
        n = max(options.stage_size, options.images_rows if options.images else 0)
        try:
            check_disk(folder, n, options.tile or next(tile_sizes(n)))
        except DoesNotFitError as error:
            raise SystemExit(f"part stage: {error} (--scratch), or give a smaller --stage-size") from None


# ---- a new process -------------------------------------------------------------------------------


def part_start(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], str]:
    """What a process costs before it works: the import, the help, the kernels once they are kept."""
    say("new processes")
    command = [sys.executable, "-c"]
    help_ = "import sys; sys.argv = ['scalemani', '--help']; from scalemani.terminal.cli import main; main()"
    starts = {"python": "pass", "import scalemani": "import scalemani", "scalemani --help": help_}
    found: dict[str, Any] = {
        name: statistics.median(
            rates.timed(lambda c=code: subprocess.run([*command, c], stdout=subprocess.DEVNULL, check=True))[0]
            for _ in range(1 if options.small else 7)
        )
        for name, code in starts.items()
    }
    children.run("kernels")
    found["kernels"] = children.run("kernels")
    rows = [[name, f"{found[name]:.2f}"] for name in starts]
    rows.append(["own kernels, from the cache", f"{found['kernels']['seconds']:.2f}"])
    return found, table("A new process", ["", "seconds"], rows)


# ---- rates ---------------------------------------------------------------------------------------


def cases(options: argparse.Namespace) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Graph, vertices, orders of sources: all orders on the first neighbour graph and on the hard ones."""
    wanted = options.data or [*graphs.POINTS, *graphs.HARD]
    for name in wanted:
        if name in graphs.POINTS:
            for n in options.sizes:
                yield name, n, rates.ORDERS if name == "roll" else rates.ORDERS[:1]
    if options.images:
        yield "file", options.images_rows, rates.ORDERS[:1]
    for name in wanted:
        if name in graphs.HARD:
            yield name, options.hard_size, tuple(order for order in rates.ORDERS if order != "scattered")


def part_rates(options: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    found, rows = [], []
    for name, n, orders in cases(options):
        say("graph of", name, n)
        matrix = graph(options, name, n)
        for order in orders:
            say("rates on", name, matrix.shape[0], order)
            # Sources that aren't neighbours are a task's nowhere: fewer of them say enough.
            block = options.block if order in ("adjacent", "reversed") and name in graphs.POINTS else options.block // 4
            rate = rates.measure(name, matrix, order, block=block, repeats=options.repeats, few=options.few)
            found.append(asdict(rate))
            work = rate.work
            pops = f"{work['pops'] / (work['batches'] * rate.n):.2f}" if work["batches"] else ""
            speeds = [amount(speed / 1e6) for speed in (rate.own, rate.directed, rate.undirected)]
            against = [amount(rate.against_directed), amount(rate.against_undirected)]
            counts = [pops, f"{work['heap_rows'] / rate.rows:.0%}", f"{rate.deviation:.1e}"]
            rows.append([name, f"{rate.n:,}", order, *speeds, *against, *counts])
    headings = ["graph", "n", "sources", "own, Mpairs/s", "SciPy directed", "SciPy undirected"]
    headings += ["own / directed", "own / undirected", "pops a vertex and batch", "rows by heap", "deviation"]
    return found, table("Geodesic rows, one core", headings, rows)


def graph(options: argparse.Namespace, name: str, n: int) -> Any:
    return graphs.graph(name, n, options.neighbors, options.cores, options.images, options.graphs)


# ---- the geodesic stage --------------------------------------------------------------------------


def one_stage(options: argparse.Namespace, folder: Path, matrix: Any, cores: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place, "graph.npz")
        graphs.write_graph(path, matrix)
        arguments = {"graph": str(path), "store": f"{place}/run.zarr", "cores": cores, "tile": options.tile}
        return children.run("stage", apart=not options.small, **arguments)


def part_threads(options: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    matrix = graph(options, "roll", options.threads_size)
    found: list[dict[str, Any]] = []
    for repeat in range(options.repeats):
        for cores in (1, options.cores):
            say("stage on cores:", cores, "repeat", repeat + 1)
            found.append(one_stage(options, folder, matrix, cores))
    speed = [
        statistics.median(one["pairs_per_second"] for one in found if one["cores"] == cores)
        for cores in (1, options.cores)
    ]
    row = ["roll", f"{matrix.shape[0]:,}", *(amount(one / 1e6) for one in speed), amount(speed[1] / speed[0])]
    headings = ["graph", "n", "1 core, Mpairs/s", f"{options.cores} cores", "ratio"]
    return found, table("The geodesic stage, a thread a core", headings, [row])


def part_stage(options: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    found, rows = [], []
    for name, n in [
        ("roll", options.stage_size),
        *([("file", options.images_rows)] if options.images and not options.small else []),
    ]:
        say("stage on", name, n)
        one = one_stage(options, folder, graph(options, name, n), options.cores)
        found.append({"graph": name, **one})
        sizes = [amount(one["peak_bytes"] / 2**30), f"{one['disk_bytes'] / 1e9:.2f}"]
        speed = [amount(one["seconds"]), amount(one["pairs_per_second"] / 1e6)]
        rows.append([name, f"{one['n']:,}", *speed, *sizes, f"{one['deviation']:.1e}"])
    headings = ["graph", "n", "seconds", "Mpairs/s", "peak memory, GiB", "disk, GB", "deviation"]
    return found, table(f"The geodesic stage into tiles, {options.cores} cores", headings, rows)


# ---- fits ----------------------------------------------------------------------------------------


def libraries(options: argparse.Namespace, n: int, folder: Any, test: int = 0) -> list[dict[str, Any]]:
    """Arguments of the two libraries' fits of a roll, whose points are written here."""
    points = Path(folder, f"points-{n}.npy")
    np.save(points, swiss_roll(n, random_state=0).points)
    shared = {"points": str(points), "neighbors": options.neighbors, "cores": options.cores}
    if test:
        np.save(Path(folder, "test.npy"), swiss_roll(test, random_state=1).points)
        shared["test"] = str(Path(folder, "test.npy"))
    names = ("scalemani", "scikit-learn")
    return [{"library": name, "out": str(Path(folder, f"{name}-{n}.npy")), **shared} for name in names]


def both(options: argparse.Namespace, arguments: list[dict[str, Any]], ending: str = "") -> dict[str, Any]:
    """What the two fits found, and how far apart their coordinates are once they are laid on each other."""
    found = {one["library"]: children.run("fit", apart=not options.small, **one) for one in arguments}
    coordinates = [np.load(one["out"] + ending) for one in arguments]
    return {**found, "apart": float(procrustes(*coordinates)[2]), "shapes": [list(one.shape) for one in coordinates]}


def part_fit(options: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    found, rows = [], []
    for n in options.fit_sizes:
        say("fits of", n)
        one = both(options, libraries(options, n, folder))
        own, other = one["scalemani"], one["scikit-learn"]
        found.append({"n": n, **one})
        times = [own["seconds"], other["seconds"], other["seconds"] / own["seconds"]]
        memory = [f"{run['peak_bytes'] / 1e6:,.0f}" for run in (own, other)]
        ratio = amount(other["peak_bytes"] / own["peak_bytes"])
        rows.append([f"{n:,}", *map(amount, times), *memory, ratio, f"{one['apart']:.0e}"])
    headings = ["n", "scalemani, s", "scikit-learn, s", "ratio", "scalemani, peak MB", "scikit-learn, peak MB"]
    title = f"Isomap of a roll, k = {options.neighbors}, {options.cores} cores"
    return found, table(title, [*headings, "ratio", "apart (Procrustes)"], rows)


def part_transform(options: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    say("transform into", options.transform_size)
    one = both(options, libraries(options, options.transform_size, folder, options.transform_rows), ".test.npy")
    speeds = [
        run["rows"] / statistics.median(run["transform_seconds"]) for run in (one["scalemani"], one["scikit-learn"])
    ]
    row = [f"{options.transform_rows:,}", f"{options.transform_size:,}", *map(amount, speeds)]
    headings = ["new rows", "into n", "scalemani, rows/s", "scikit-learn, rows/s", "ratio", "apart (Procrustes)"]
    page = table("Transform", headings, [[*row, amount(speeds[0] / speeds[1]), f"{one['apart']:.0e}"]])
    return [{"n": options.transform_size, **one}], page


PARTS = {
    "start": part_start,
    "rates": part_rates,
    "threads": part_threads,
    "stage": part_stage,
    "fit": part_fit,
    "transform": part_transform,
}


if __name__ == "__main__":
    main()
