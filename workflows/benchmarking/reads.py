"""Reads of D: of whole fits with every correction, and of ARPACK's Arnoldi iteration for the constant alone."""

import tempfile
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarking.graphs import POINTS, sphere
from benchmarking.read_cost import counted_tiles

from scalemani import KernelIsomap
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import AdditiveConstantWarning, SolverError
from scalemani.formats.points import open_points
from scalemani.kernel.constant import arnoldi_constant
from scalemani.kernel.operators import CenteredKernels
from scalemani.steps.records import GraphRecord
from scalemani.storage.run import RunStore

CORRECTIONS = ("cailliez", "lingoes", "flip", None)
TARGETS = {("roll", 10_000): 12, ("roll", 50_000): 16, ("sphere", 10_000): 8, ("gauss30", 10_000): 13}
TARGETS[("file", 10_000)] = 12
WITHOUT = 5  # with correction=None
COMPONENTS, TOL = 3, 1e-6


def decaying(n: int) -> np.ndarray:
    """Gaussian points in 30 features whose standard deviations fall like 1/sqrt(i)."""
    return np.random.default_rng(0).standard_normal((n, 30)) / np.sqrt(1 + np.arange(30))


DATA: dict[str, Callable[[int], np.ndarray]] = {"roll": POINTS["roll"], "sphere": sphere, "gauss30": decaying}


def cases(options: Namespace) -> Iterator[tuple[str, np.ndarray]]:
    """Name and points: every kind at one size, the roll at a larger one too (0: not); of a small run the roll alone."""
    for name, make in DATA.items():
        if options.small and name != "roll":
            return
        yield name, make(options.reads_size)
        if name == "roll" and options.reads_large:
            yield name, make(options.reads_large)
    if options.images:
        yield "file", np.asarray(open_points(options.images).values[: options.reads_size], np.float32)


def measure(
    name: str, points: np.ndarray, folder: Path, *, neighbors: int, cores: int, arpack_size: int, arpack_reads: int
) -> dict[str, Any]:
    """Whole fits with each correction, from the first row on; on the D of the first, Arnoldi's reads too.

    Parameters
    ----------
    arpack_size : int
        Most points for it.
    arpack_reads : int
        Reads after which it is given up.
    """
    found: dict[str, Any] = {"data": name, "n": len(points), "target": TARGETS.get((name, len(points)))}
    for correction in CORRECTIONS:
        with tempfile.TemporaryDirectory(dir=folder) as place, counted_tiles() as seen:
            model = KernelIsomap(neighbors, COMPONENTS, tol=TOL, correction=correction, disconnected="join")
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AdditiveConstantWarning)
                model.set_params(store=f"{place}/run.zarr").fit(points)
            one: dict[str, Any] = {"reads": model.n_passes_, "seconds": time.perf_counter() - started}
            tiles = len(RunStore(model.store_).blocks.tiles())
            one |= {"tiles": tiles, "tile_reads": sum(seen.values()), "residual": float(model.residuals_.max())}
            account = ("additive_constant", "lingoes_constant", "constant_over_median", "converged", "gap", "shift")
            one |= {key: model.spectrum_[key] for key in account}
            if correction == "cailliez":
                one["first_over_square"] = float(model.eigenvalues_[0] / max(model.additive_constant_**2, 1e-300))
                if len(points) <= arpack_size:
                    found["arpack"] = arnoldi(model, cores, arpack_reads)
            found[str(correction)] = one
    return found


def arnoldi(model: KernelIsomap, cores: int, most: int) -> dict[str, Any]:
    """ARPACK's `eigs`, which="LR", on the 2n operator over the tiles of a fit: reads, of one column each, and c*."""
    store = RunStore(model.store_)
    scale = store.needed(GraphRecord).scale
    started = time.perf_counter()
    with DaskCluster(threads=cores) as cluster:
        kernels = CenteredKernels(cluster, store)
        try:
            constant = float(arnoldi_constant(kernels, tol=TOL, most_reads=most)) * scale
        except SolverError:
            return {"reads": kernels.n_reads, "constant": None, "seconds": time.perf_counter() - started}
    # the last read is of the vector that it found, for its Rayleigh quotient
    return {"reads": kernels.n_reads - 1, "constant": constant, "seconds": time.perf_counter() - started}


HEADINGS = ["data", "n", "Cailliez", "at most", "Lingoes", "flip", "none", "at most", "ARPACK, c* alone"]
HEADINGS += ["c*", "c* / median", "λ1/c²", "ARPACK's c* apart"]


def row(found: dict[str, Any]) -> list[str]:
    """One line of the table."""
    ours, arpack = found["cailliez"], found.get("arpack")
    reads = [str(found[name]["reads"]) for name in ("cailliez", "lingoes", "flip", "None")]
    target = found["target"]
    theirs, apart = "not run", ""
    if arpack is not None and arpack["constant"] is None:
        theirs = f"none in {arpack['reads']}"
    elif arpack is not None:
        theirs = str(arpack["reads"])
        apart = f"{abs(arpack['constant'] / ours['additive_constant'] - 1):.0e}" if ours["additive_constant"] else ""
    counts = [reads[0], str(target or ""), reads[1], reads[2], reads[3], str(WITHOUT) if target else "", theirs]
    sizes = [f"{ours['additive_constant']:.9g}", f"{ours['constant_over_median']:.3g}"]
    return [found["data"], f"{found['n']:,}", *counts, *sizes, f"{ours['first_over_square']:.3g}", apart]
