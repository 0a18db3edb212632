"""Whole fits: beside scikit-learn's at sizes that it can do, alone at sizes that it can't; and the transform."""

import statistics
import tempfile
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarking import children
from benchmarking.graphs import POINTS
from benchmarking.machine import amount, say, table
from scipy.spatial import procrustes

from scalemani.demo import swiss_roll
from scalemani.formats.points import open_points

OWN = ("Isomap", "KernelIsomap")
TARGETS = {"Isomap": (10, 8), "KernelIsomap": (5, 8)}  # scikit-learn's time and memory over ours, at least
TARGET_SIZE = 20_000
WHOLE_TARGETS = "at most 15 minutes; the roll of 100,000: 6 GiB, 21.5 GB"


def methods(options: Namespace, n: int, folder: Any, test: int = 0, kernel: bool = False) -> list[dict[str, Any]]:
    """Arguments of the fits of a roll, whose points are written here; scikit-learn's comes last."""
    points = Path(folder, f"points-{n}.npy")
    np.save(points, POINTS["roll"](n))
    shared = {"points": str(points), "neighbors": options.neighbors, "cores": options.cores}
    if test:
        np.save(Path(folder, "test.npy"), swiss_roll(test, random_state=1).points)
        shared["test"] = str(Path(folder, "test.npy"))
    names = (*(OWN if kernel else OWN[:1]), "scikit-learn")
    return [{"method": name, "out": str(Path(folder, f"{name}-{n}.npy")), **shared} for name in names]


def all_of(options: Namespace, arguments: list[dict[str, Any]], ending: str = "") -> dict[str, Any]:
    """What the fits found, and how far apart Isomap's coordinates are from scikit-learn's, laid on each other."""
    found = {one["method"]: children.run("fit", apart=not options.small, **one) for one in arguments}
    return {**found, **agreement(arguments, ending)}


def agreement(arguments: list[dict[str, Any]], ending: str = "") -> dict[str, Any]:
    """Procrustes disparity of the first's coordinates and the last's; shapes of all."""
    coordinates = [np.load(one["out"] + ending) for one in arguments]
    apart = float(procrustes(coordinates[0], coordinates[-1])[2])
    return {"apart": apart, "shapes": [list(one.shape) for one in coordinates]}


def part_fit(options: Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Ours once in a process that has to compile its kernels, then in some that find them; scikit-learn's once."""
    found, rows = [], []
    for n in options.fit_sizes:
        arguments = methods(options, n, folder, kernel=True)
        one: dict[str, Any] = {"n": n}
        say("scikit-learn's fit of", n)
        other = one["scikit-learn"] = children.run("fit", apart=not options.small, **arguments[-1])
        for asked in arguments[:-1]:
            name = asked["method"]
            say(f"{name} of", n)
            one[name] = children.run("fit", apart=not options.small, cold=True, **asked)
            runs = [children.run("fit", apart=not options.small, **asked) for _ in range(options.repeats)]
            one[name]["cached_seconds"] = statistics.median(run["seconds"] for run in runs)
            one[name]["tree_bytes"] = max(run["tree_bytes"] for run in [one[name], *runs])
        found.append(one | agreement(arguments))
        rows += [fit_row(n, name, one[name], other, found[-1]["apart"]) for name in OWN]
    headings = ["n", "", "s, compiling", "s, kernels cached", "scikit-learn, s"]
    headings += ["times as fast, compiling", "kernels cached", "at least"]
    headings += ["peak MB", "scikit-learn, MB", "times less", "at least", "apart (Procrustes)"]
    title = f"A roll, k = {options.neighbors}, {options.cores} cores; imports are not in the seconds"
    return found, table(title, headings, rows)


def fit_row(n: int, name: str, own: dict[str, Any], other: dict[str, Any], apart: float) -> list[str]:
    """One line of the table; the memory is that of the tree of processes, compiling or not."""
    targets = [str(target) if n == TARGET_SIZE else "" for target in TARGETS[name]]
    times = [own["seconds"], own["cached_seconds"], other["seconds"]]
    faster = [other["seconds"] / seconds for seconds in times[:2]]
    memory = [f"{run['tree_bytes'] / 1e6:,.0f}" for run in (own, other)]
    less = amount(other["tree_bytes"] / own["tree_bytes"])
    said = f"{apart:.0e}" if name == "Isomap" else ""  # with a constant the axes are others
    return [f"{n:,}", name, *map(amount, [*times, *faster]), targets[0], *memory, less, targets[1], said]


def part_whole(options: Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """A roll with two axes and Cailliez' constant; with a file of rows, those with ten."""
    roll = Path(folder, "whole.npy")
    np.save(roll, POINTS["roll"](options.whole_size))
    wanted = [("roll", str(roll), options.whole_size, 2)]
    if options.images:
        rows_there = len(open_points(options.images).values)
        wanted.append(("file", options.images, min(options.images_rows, rows_there), 10))
    found, rows = [], []
    for name, points, count, components in wanted:
        say("the whole method on", name, count)
        shared = {"neighbors": options.neighbors, "cores": options.cores, "memory_limit": options.memory_limit}
        with tempfile.TemporaryDirectory(dir=folder) as place:
            asked = {"points": points, "rows": count, "store": f"{place}/run.zarr", "components": components}
            one = children.run("whole", apart=not options.small, cold=True, **asked, **shared)
        found.append({"data": name, "components": components, **one})
        began = [*one["began"].items(), ("", one["seconds"])]
        spent = {stage: later - at for (stage, at), (_, later) in pairwise(began)}
        figures = [f"{one['seconds'] / 60:.2f}", f"{one['tree_bytes'] / 2**30:.2f}", f"{one['disk_bytes'] / 1e9:.2f}"]
        counts = [str(one["reads"]), f"{one['constant_over_median']:.3g}", f"{one['knn_recall']:.3f}"]
        stages = ", ".join(f"{stage} {amount(seconds)}" for stage, seconds in spent.items())
        rows.append([name, f"{one['n']:,}", str(components), *figures, *counts, stages])
    headings = ["data", "n", "axes", "minutes", "peak GiB", "disk, GB", "reads", "c* / median", "recall", "stages, s"]
    title = f"The full method with Cailliez, k = {options.neighbors}, {options.cores} cores ({WHOLE_TARGETS})"
    return found, table(title, headings, rows)


def part_transform(options: Namespace, folder: Path) -> tuple[list[dict[str, Any]], str]:
    say("transform into", options.transform_size)
    one = all_of(options, methods(options, options.transform_size, folder, options.transform_rows), ".test.npy")
    speeds = [run["rows"] / statistics.median(run["transform_seconds"]) for run in (one["Isomap"], one["scikit-learn"])]
    row = [f"{options.transform_rows:,}", f"{options.transform_size:,}", *map(amount, speeds)]
    headings = ["new rows", "into n", "scalemani, rows/s", "scikit-learn, rows/s", "ratio", "apart (Procrustes)"]
    page = table("Transform", headings, [[*row, amount(speeds[0] / speeds[1]), f"{one['apart']:.0e}"]])
    return [{"n": options.transform_size, **one}], page
