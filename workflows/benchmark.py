"""Geodesics against SciPy, whole fits against scikit-learn: times and memory as ratios from one run.

    python workflows/benchmark.py --out benchmark                        # all parts; hours, 21 GB of disk
    python workflows/benchmark.py --part rates --sizes 10000 --out tmp   # some of them
    python workflows/benchmark.py --images fashion.npz:X --out benchmark # with a file of rows among the graphs
    python workflows/benchmark.py --small --out tmp                      # a smoke test

start      what a new process costs: the import, the help, the kernels from their cache
rates      rows of geodesic distances on one core, own kernel and SciPy's Dijkstra, on neighbour graphs and hard ones
threads    the geodesic stage on two cores against one
stage      the geodesic stage into Zarr tiles: rate, peak memory, bytes on disk
reads      reads of D that whole fits take, by correction, beside ARPACK's for the constant
read-cost  one such read against a plain loop over the same tiles
fit        Isomap and KernelIsomap beside scikit-learn's Isomap, each in a process of its own, compiling and not
transform  3,000 new rows placed in a fit of 10,000
whole      100,000 points (and the rows of a file) by the full method: minutes by stage, peak memory, disk

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
from benchmarking import checks, children, fits, graphs, machine, rates, reads
from benchmarking.machine import amount, say, table

from scalemani.steps.cuts import tile_sizes
from scalemani.storage.files import open_location
from scalemani.storage.tiles import disk_bytes

SMALL = {"sizes": [800], "hard_size": 600, "stage_size": 700, "threads_size": 500, "fit_sizes": [400], "tile": 256}
SMALL |= {"transform_size": 400, "transform_rows": 60, "repeats": 1, "block": 96, "few": 16}
SMALL |= {"reads_size": 350, "reads_large": 0, "arpack_reads": 600, "read_cost_size": 700, "whole_size": 700}


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
            children.run("fit", **fits.methods(options, 200, folder)[0])  # compiles, so that no figure has it in
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
    parser.add_argument("--reads-size", type=int, default=10_000, help="points of part reads")
    parser.add_argument("--reads-large", type=int, default=50_000, help="of its larger roll; 0: without it")
    parser.add_argument("--arpack-size", type=int, default=10_000, help="most points that ARPACK is tried on")
    parser.add_argument("--arpack-reads", type=int, default=3_000, help="reads after which it is given up")
    parser.add_argument("--read-cost-size", type=int, default=20_000, help="points of part read-cost")
    parser.add_argument("--whole-size", type=int, default=100_000, help="points of part whole")
    parser.add_argument("--memory-limit", help="of part whole, as KernelIsomap takes it")
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


def check_room(options: argparse.Namespace, folder: Path) -> None:
    """Stop before any work if the tiles of the largest stage have no room."""
    sizes = {"stage": options.stage_size, "whole": options.whole_size}
    sizes["reads"] = max(options.reads_size, options.reads_large)
    wanted = set(sizes) & set(options.part or PARTS)
    if wanted:
        file = options.images_rows if options.images and wanted - {"reads"} else 0
        n = max(file, *(sizes[name] for name in wanted))
        needed, free = disk_bytes(n, options.tile or next(tile_sizes(n))), open_location(folder).free_bytes()
        if needed > free:
            raise SystemExit(
                f"parts {', '.join(sorted(wanted))}: the distances of {n} points need {needed:,} bytes and {free:,} "
                f"are free at {str(folder)!r}: give a larger disk (--scratch), or ask for fewer points"
            )


# ---- a new process -------------------------------------------------------------------------------


def part_start(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], str]:
    """What a process costs before it works: the import, the help, the kernels once they are kept."""
    say("new processes")
    command = [sys.executable, "-c"]
    help_ = "import sys; sys.argv = ['scalemani', '--help']; from scalemani.terminal.commands import main; main()"
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


# ---- reads of D ----------------------------------------------------------------------------------


def part_reads(options: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    found = []
    limits = {"arpack_size": options.arpack_size, "arpack_reads": options.arpack_reads}
    for name, points in reads.cases(options):
        say("reads of", name, len(points))
        shared = {"neighbors": options.neighbors, "cores": options.cores, **limits}
        found.append(reads.measure(name, points, folder, **shared))
    title = f"Reads of D after writing, k = {options.neighbors}, {reads.COMPONENTS} axes, tol = {reads.TOL:g}"
    return found, table(f"{title} (ARPACK's are of one column)", reads.HEADINGS, [reads.row(one) for one in found])


def part_read_cost(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], str]:
    say("one read of", options.read_cost_size)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place, "graph.npz")
        graphs.write_graph(path, graph(options, "roll", options.read_cost_size))
        arguments = {"graph": str(path), "store": f"{place}/run.zarr", "cores": options.cores, "tile": options.tile}
        found = children.run("read_cost", apart=not options.small, repeats=options.repeats, **arguments)
    rows = []
    for precision in ("float32", "float64"):
        one = found[precision]
        counts = [f"{one['different_tiles']} of {found['tiles']}", "{} to {}".format(*one["tile_reads"])]
        speeds = [amount(one[name]) for name in ("product", "plain", "ratio")]
        sizes = [f"{found['n']:,}", f"{found['tile']:,}"]
        rows.append([precision, *sizes, *speeds, "1.5", *counts, f"{one['apart']:.0e}"])
    headings = ["precision", "n", "tile", "product, s", "plain loop, s", "ratio", "at most"]
    headings += ["tiles read", "times each", "apart"]
    return found, table("One read of D, 16 columns by both products", headings, rows)


PARTS = {
    "start": part_start,
    "rates": part_rates,
    "threads": part_threads,
    "stage": part_stage,
    "reads": part_reads,
    "read-cost": part_read_cost,
    "fit": fits.part_fit,
    "transform": fits.part_transform,
    "whole": fits.part_whole,
}


if __name__ == "__main__":
    main()
