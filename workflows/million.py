"""A million points, end to end, by landmarks: plan, fit, report, and another million points placed.

    python workflows/million.py --out million              # 1,000,000 x 3 noisy Swiss roll, 1,000 landmarks
    python workflows/million.py --images --out million     # 200,000 images of 784 pixels
    python workflows/million.py --growth --out million     # tables: time by points and by landmarks
    python workflows/million.py --truth --out million      # tables: against true geodesics, and the full method
    python workflows/million.py --small --out tmp          # a smoke test of all of it

Points come from a Zarr array and go into one, by chunks of 100,000 rows. A table says what each stage took: seconds,
memory of the process's own, and pages of files, which the system takes back. A claim that does not hold is said, and
the exit code is 1. All figures are in --out, as JSON; the last line says in which files. What memory a fit may take is
a claim at full size alone, or with --memory-limit.

On paper: 100,000,000 points
----------------------------
Of 3 features, k = 10, 1,000 landmarks, on 100 machines of 16 cores, 128 GB and 10 Gbit/s that share 20 GB/s of storage.
100,000 points took on two busy cores: points 0.9 s, neighbours 3.5, graph 2.3, landmarks 0.5, geodesics 4.9, turning
3.8, solve 0.9, coordinates 1.3. Ten times as many take 15 times as long where the caches are left behind (graph and
geodesics), and else 11 times. Memory is the arithmetic by which a fit is refused (:mod:`scalemani.planning.memory`),
for the 12.1 entries a point that such a roll's graph has; neighbours have up to 20, and then it is half as much again.

===========  ================  ==============  ==========================================  ============================
stage        on                memory, GB      storage and network                         time
===========  ================  ==============  ==========================================  ============================
points       client, 1 core    11              2.4 GB read                                 10 min
neighbours   client, all       45              17 GB written                               70 min by 2 cores, 9 by 16
graph        client, 1 core    143             20 GB written                               2 h
landmarks    client, 1 core    42              8 kB written                                10 min
geodesics    32 of 100         92              15 GB to each, 0.5 TB in all; 400 GB        30 min, and 10 until a
                                               written, 0.8 million files                  process has its graph
turning      all               17 and less     400 GB read, 400 GB written, all to all     5 min
solve        client            20              none                                        6 s
coordinates  all               client 12       400 GB read; 1.6 GB through the client      1 min
projection   all               15 a process    2.4 GB in; 152 TB read                      2 h and more
===========  ================  ==============  ==========================================  ============================

The first to break is the graph, twice. Its making holds 88 bytes an entry and 80 a point on the one machine of the
client, beside lists of 17 GB and 11 GB of points, maps and digests: a fit is refused there before it begins. With a
client of 256 GB it is time: one core of it keeps 99 machines waiting for 2 of 4 hours. Next come, in this order:

- Workers. Each holds the graph twice (31 GB) and 476 bytes a point for each thread that searches: one thread a machine,
  two with 192 GB. A hundredth of the graph would do for rows of near landmarks, if paths that leave it were known.
- The cut. A task has 32 landmarks, a batch of the search, however many workers there are: 68 machines have nothing to
  do. Fewer would leave lanes of the batch idle (below 8 rows are found one by one), so that all would take as long.
- Files. A row of chunks is 23,855 files of 4,192 points each, written one after the other: 0.1 s each on a bucket are
  40 minutes a task. A line of the ledger has 286 kB, takes 0.25 s to check, and each process checks all of them while
  it turns: 250 lines are a minute. 400 GB are on the disk twice meanwhile.
- Projection. A group of 262,144 rows touches nearly every one of the 23,855 chunks, of 17 MB, 11 of them in each: 381
  groups read all 400 GB each. Groups of 8 million rows would read 5 TB.

Turning and coordinates do not break: what a machine moves is 8 GB, and nothing of it goes through the client.
"""

import argparse
import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from millions import arrays, claims, growth, truth
from millions.stages import Stages, disk_bytes, megabytes, stage_table

from scalemani import KernelIsomap
from scalemani.cluster.machine import parse_memory
from scalemani.demo import aligned
from scalemani.errors import AdditiveConstantWarning
from scalemani.formats.outputs import write_page
from scalemani.model import Run
from scalemani.report.sections import run_page
from scalemani.steps.sources import Layout
from scalemani.storage.run import RunStore

SMALL = {"points": 5000, "tests": 5000, "landmarks": 100}
FULL = {"roll": 1_000_000, "images": 200_000}  # points, unless given
MEMORY = 6 << 30  # bytes that a fit of so many may take
RECALL = 0.95
NOUNS = {"roll": "points of a noisy Swiss roll", "images": "images of 784 pixels"}


def main() -> None:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=AdditiveConstantWarning)  # the tables say it
    held, left = claims.Claims(), []
    if options.small or not (options.truth or options.growth):
        left.append(write_record(options, "million", whole(options, held)))
    if options.truth or options.small:
        sizes = truth.SMALL if options.small else truth.Sizes()
        print("\n== truth: landmarks against true distances, and against the full method")
        progress = sys.stderr.isatty()
        found = truth.against_truth(options.out, sizes, held, progress)
        found += truth.against_full(options.out, sizes, held, progress)
        left.append(write_record(options, "truth", {"fits": found}))
    if options.growth or options.small:
        print("\n== growth: time by points and by landmarks")
        left.append(write_record(options, "growth", growth.growth(fit_of(options, held), small=options.small)))
    if held.failed:
        print(f"{len(held.failed)} claims failed: {'; '.join(held.failed)}", file=sys.stderr)
        raise SystemExit(1)
    page = page_of(options)
    drawn = f", report in {page}" if any(path.stem == "million" for path in left) and not options.fit_only else ""
    print(f"\nall claims hold; figures in {', '.join(map(str, left))}{drawn}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("On paper")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, help="rows to fit (default: 1,000,000; 200,000 images)")
    parser.add_argument("--tests", type=int, help="rows to project (default: 1,000,000; 20,000 images)")
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("-k", "--neighbors", type=int, default=10)
    parser.add_argument("--correction", choices=["none", "cailliez"], default="cailliez")
    parser.add_argument("--knn", choices=["auto", "exact", "nndescent"], default="auto")
    parser.add_argument("--memory-limit", help="as the estimators take it: 2GiB")
    parser.add_argument("--images", action="store_true", help="images of one bump instead of the roll")
    parser.add_argument("--no-plan", action="store_true", help="no plan, which searches the neighbours once more")
    parser.add_argument("--fit-only", action="store_true", help="neither plan nor report nor projection")
    parser.add_argument("--growth", action="store_true", help="tables by points and by landmarks, nothing else")
    parser.add_argument("--truth", action="store_true", help="tables against the truth, nothing else")
    parser.add_argument("--out", type=Path, default=Path("million"), help="directory of arrays, stores and the report")
    parser.add_argument("--keep", action="store_true", help="leave the store there, and what was placed")
    parser.add_argument("--small", action="store_true", help="all of it in seconds")
    options = parser.parse_args()
    if options.small:
        vars(options).update(SMALL)
    if options.points is None:
        options.points = FULL[kind_of(options)]
    if options.tests is None:
        options.tests = 20_000 if options.images else 1_000_000
    return options


def kind_of(options: argparse.Namespace) -> str:
    return "images" if options.images else "roll"


def page_of(options: argparse.Namespace) -> Path:
    """Where the report goes."""
    page: Path = options.out / f"{kind_of(options)}.html"
    return page


def whole(options: argparse.Namespace, held: claims.Claims) -> dict[str, Any]:
    """One run from its array to its report; prints what it took and gives that as JSON values."""
    out, kind = options.out, kind_of(options)
    store, page, placed_at = out / f"{kind}.store.zarr", page_of(options), out / f"{kind}.placed.zarr"
    for left in (store, placed_at):
        shutil.rmtree(left, ignore_errors=True)
    layouts: dict[str, Layout] = {}

    def name_of(stage: str, done: int, total: int) -> str:
        """The stage "geodesics" ends with the turning of what was found."""
        if stage != "geodesics":
            return stage
        if stage not in layouts:
            layouts[stage] = Layout.of(RunStore(str(store)))
        return "turning" if done >= -(-layouts[stage].m // layouts[stage].landmarks_a_task) else stage

    print(f"\n== {options.points:,} {NOUNS[kind]}, {options.landmarks:,} landmarks, {machine()}")
    stages, found = Stages(name_of), {"kind": kind, "points": options.points, "landmarks": options.landmarks}
    with stages.whole("making the arrays"):
        X, places = made(options, "train", options.points, 0)
        T = None if options.fit_only else made(options, "test", options.tests, 1)[0]
    model = estimator(options, options.correction, store, stages)
    if not (options.no_plan or options.fit_only):
        with stages.whole("plan"):
            plan = model.plan(X)
        print(f"{plan}\n")
        found["plan"] = plan.record()
    with stages.parts("points"):
        model.fit(X)
    if T is not None:
        with stages.whole("projection"):
            placed = model.transform_to(T, str(placed_at))
        with stages.whole("report"):
            write_report(options, store, page, list(zip(arrays.NAMES[kind], places.T, strict=True)))
    found |= {"disk_bytes": disk_bytes(store), "spectrum": model.spectrum_, "machine": machine()}
    found["neighbours"] = model.spectrum_["knn_account"]
    found["correlations"] = {options.correction: claims.correlation(model.embedding_, places)}
    model.set_params(progress=False)
    claims.check_fit(held, model, X)
    check_needs(options, held, stages, model)
    if T is not None:
        claims.check_projection(held, model, T, placed)
        other = "none" if options.correction == "cailliez" else "cailliez"
        with stages.whole(f"again, {other}"):  # the distances are there
            again = estimator(options, other, store, stages).fit(X)
        found["correlations"][other] = claims.correlation(again.embedding_, places)
    stages.close()
    found["stages"] = [row for row in stages.records() if row["name"] in FIT or not options.fit_only]
    say(found)
    if not options.keep:
        for used in (store, placed_at):
            shutil.rmtree(used, ignore_errors=True)
    return found


def estimator(options: argparse.Namespace, correction: str, store: Path, stages: Stages) -> KernelIsomap:
    return KernelIsomap(
        options.neighbors,
        2,
        landmarks=options.landmarks,
        correction=None if correction == "none" else correction,
        disconnected="join",
        knn=options.knn,
        memory_limit=options.memory_limit,
        store=str(store),
        progress=stages.report,
    )


def write_report(options: argparse.Namespace, store: Path, page: Path, columns: list[Any]) -> None:
    """The page of the fit, coloured by where points lie on their surface."""
    name = f"{options.points:,} {NOUNS[kind_of(options)]}"
    few = {"columns": columns[:1], "rows": 64} if options.small else {"columns": columns}
    write_page(page, run_page(Run(RunStore(str(store))), name=name, **few))


def check_needs(options: argparse.Namespace, held: claims.Claims, stages: Stages, model: KernelIsomap) -> None:
    """What the fit held in memory, and whether its neighbours are the true ones."""
    most, allowed = max(row.bytes for row in stages.rows if row.name in FIT), MEMORY
    if options.memory_limit is not None:  # above the size at the start
        most, allowed = most - stages.start_bytes, parse_memory(options.memory_limit)
    if options.memory_limit is not None or options.points >= FULL[kind_of(options)]:  # little says nothing of much
        held.hold(f"{megabytes(most)} MB of memory are {megabytes(allowed)} or less", most <= allowed)
    recall = model.knn_recall_
    held.hold(f"{recall:.4f} of the neighbours, {RECALL} or more, are the true ones", recall >= RECALL)


FIT = ("points", "neighbors", "graph", "landmarks", "geodesics", "turning", "solve", "coordinates")


def made(options: argparse.Namespace, name: str, n: int, seed: int) -> Any:
    """A Zarr array of rows, and where each lies on its surface."""
    place = options.out / f"{kind_of(options)}.{name}"
    if options.images:
        return arrays.array(place, n, arrays.images, seed=seed, width=arrays.WIDTH)
    return arrays.array(place, n, arrays.roll(arrays.NOISE_VARIANCE), seed=seed, noise_variance=arrays.NOISE_VARIANCE)


def say(found: dict[str, Any]) -> None:
    """The table of a run, and a few lines."""
    headings, rows = stage_table(found["stages"])
    fit = [row for row in found["stages"] if row["name"] in FIT]
    peak = megabytes(max(row["bytes"] for row in fit))
    rows.append(["the fit", f"{sum(row['seconds'] for row in fit):,.1f}", peak, ""])
    print("\n" + "\n".join(aligned(headings, rows)))
    spectrum, counted = found["spectrum"], found["neighbours"].get("n_distances")  # not there where SciPy searched
    print(
        f"store {found['disk_bytes'] / 1e9:.2f} GB; neighbours by {spectrum['knn_method']}, recall "
        f"{spectrum['knn_recall']:.4f}{'' if counted is None else f', {counted:,} distances'}; "
        f"{spectrum['n_edges']:,} edges; c / median distance {spectrum['constant_over_median']:.3f}"
    )
    compared = min(claims.SAMPLED, found["points"])
    print(
        f"distances between {compared:,} of the {found['points']:,} points, correlation with true ones: "
        + ", ".join(f"{one:.5f} (correction {name})" for name, one in found["correlations"].items())
    )


def fit_of(options: argparse.Namespace, held: claims.Claims) -> growth.Fit:
    """What fits n points with m landmarks for the tables of growth."""
    given = ["--images"] * options.images + ["--correction", options.correction, "--knn", options.knn]
    if options.memory_limit is not None:
        given += ["--memory-limit", options.memory_limit]
    if not options.small:
        return growth.in_a_process(options.out, given)

    def fit(points: int, landmarks: int) -> dict[str, Any]:
        sizes = {"points": points, "landmarks": landmarks, "fit_only": True}
        return whole(argparse.Namespace(**{**vars(options), **sizes}), held)

    return fit


def machine() -> str:
    return f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores"


def write_record(options: argparse.Namespace, name: str, found: dict[str, Any]) -> Path:
    """All figures as JSON, in a file that is given back."""
    path: Path = options.out / f"{name}.json"
    path.write_text(json.dumps(found, indent=1))
    return path


if __name__ == "__main__":
    main()
