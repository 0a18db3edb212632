"""A million points, end to end, by landmarks: plan, fit, report, and another million points placed.

python workflows/million.py --out million              # 1,000,000 x 3 noisy Swiss roll, 1,000 landmarks
python workflows/million.py --images --out million     # 200,000 images of 784 pixels
python workflows/million.py --growth --out million     # tables: time by points and by landmarks
python workflows/million.py --truth --out million      # tables: against true geodesics, and the full method
python workflows/million.py --small --out tmp          # a smoke test of all of it
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
from scalemani.demonstration.experiment import NOISE_VARIANCE, aligned
from scalemani.engine.store import RunStore
from scalemani.errors import AdditiveConstantWarning
from scalemani.landmarks.layout import Layout
from scalemani.reporting.run_report import run_page
from scalemani.run import Run
from scalemani.terminal.outputs import write_page

SMALL = {"points": 5000, "tests": 5000, "landmarks": 100}


def main() -> None:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=AdditiveConstantWarning)  # the tables say it
    held = claims.Claims()
    if options.small or not (options.truth or options.growth):
        write_record(options, "million", whole(options, held))
    if options.truth or options.small:
        sizes = truth.SMALL if options.small else truth.Sizes()
        progress = sys.stderr.isatty()
        found = truth.against_truth(options.out, sizes, held, progress)
        found += truth.against_full(options.out, sizes, held, progress)
        write_record(options, "truth", {"fits": found})
    if options.growth or options.small:
        write_record(options, "growth", growth.growth(fit_of(options, held), small=options.small))
    if held.failed:
        print(f"{len(held.failed)} claims failed: {'; '.join(held.failed)}", file=sys.stderr)
        raise SystemExit(1)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, help="rows to fit (default: 1,000,000; 200,000 images)")
    parser.add_argument("--tests", type=int, help="rows to project (default: 1,000,000; 20,000 images)")
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("-k", "--neighbors", type=int, default=10)
    parser.add_argument("--correction", choices=["none", "cailliez"], default="cailliez")
    parser.add_argument(
        "--knn", choices=["auto", "exact", "nndescent"], default="auto"
    )
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
        options.points = 200_000 if options.images else 1_000_000
    if options.tests is None:
        options.tests = 20_000 if options.images else 1_000_000
    return options


def whole(options: argparse.Namespace, held: claims.Claims) -> dict[str, Any]:
    """One run from its array to its report; prints what it took and gives that as JSON values."""
    out, kind = options.out, "images" if options.images else "roll"
    store, page, placed_at = out / f"{kind}.store.zarr", out / f"{kind}.html", out / f"{kind}.placed.zarr"
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

    stages, found = Stages(name_of), {"kind": kind, "points": options.points, "landmarks": options.landmarks}
    with stages.whole("making the arrays"):
        X, places = made(options, "train", options.points, 0)
        T = None if options.fit_only else made(options, "test", options.tests, 1)[0]
    model = KernelIsomap(
        options.neighbors,
        2,
        landmarks=options.landmarks,
        correction=None if options.correction == "none" else options.correction,
        disconnected="join",
        knn=options.knn,
        memory_limit=options.memory_limit,
        store=str(store),
        progress=stages.report,
    )
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
            columns = list(zip(arrays.NAMES[kind], places.T, strict=True))[: 1 if options.small else None]
            write_page(page, run_page(Run(RunStore(str(store))), columns, name=f"{options.points:,} {kind}"))
    stages.close()
    model.set_params(progress=False)
    claims.check_fit(held, model, X)
    if T is not None:
        claims.check_projection(held, model, T, placed)
    found |= {"disk_bytes": disk_bytes(store), "spectrum": model.spectrum_, "machine": machine()}
    found["neighbours"] = RunStore(str(store)).stage("neighbors").get("account")
    if kind == "roll":
        found["correlation"] = claims.correlation(model.embedding_, places)
    found["stages"] = [row for row in stages.records() if row["name"] in FIT] if options.fit_only else stages.records()
    say(found)
    if not options.keep:
        for used in (store, placed_at):
            shutil.rmtree(used, ignore_errors=True)
    return found


FIT = ("points", "neighbors", "graph", "landmarks", "geodesics", "turning", "solve", "coordinates")


def made(options: argparse.Namespace, name: str, n: int, seed: int) -> Any:
    """A Zarr array of rows, and where each lies on its surface."""
    place = options.out / f"{'images' if options.images else 'roll'}.{name}"
    if options.images:
        return arrays.array(place, n, arrays.images, seed=seed, width=arrays.WIDTH)
    return arrays.array(place, n, arrays.roll(NOISE_VARIANCE), seed=seed, noise_variance=NOISE_VARIANCE)


def say(found: dict[str, Any]) -> None:
    """The table of a run, and a few lines."""
    headings, rows = stage_table(found["stages"])
    fit = [row for row in found["stages"] if row["name"] in FIT]
    peak = megabytes(max(row["bytes"] for row in fit))
    rows.append(["the fit", f"{sum(row['seconds'] for row in fit):,.1f}", peak, ""])
    print(f"\n{found['points']:,} {found['kind']}, {found['landmarks']:,} landmarks, {found['machine']}")
    print("\n".join(aligned(headings, rows)))
    spectrum = found["spectrum"]
    print(
        f"store {found['disk_bytes'] / 1e9:.2f} GB; neighbours by {spectrum['knn_method']}, recall "
        f"{spectrum['knn_recall']:.4f}, {found['neighbours']['n_distances']:,} distances; "
        f"{spectrum['n_edges']:,} edges; c / median distance {spectrum['constant_over_median']:.3f}"
        + (f"; correlation with the truth {found['correlation']:.5f}" if "correlation" in found else "")
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


def write_record(options: argparse.Namespace, name: str, found: dict[str, Any]) -> None:
    """All figures as JSON."""
    (options.out / f"{name}.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
