"""How many reads of D a solver takes: a figure by solver and axes, or what a sample of the user's own vertices takes.

Measured on rolls, spheres, Gaussian points in 5 and 30 dimensions and images, 1,000 to 10,000 points and 2 to 60 axes,
from Nyström's block, which a fit begins with.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np

from scalemani.errors import ConvergenceWarning
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import first_block
from scalemani.kernel.operators import DenseKernels
from scalemani.parameters import Parameters
from scalemani.steps.start import block_from

#: Reads of D by how the constant is found, at 1,000 points and one axis; "none": there is none to find.
EXPECTED_READS = {"none": 2.5, "lingoes": 4.0, "ritz": 7.5, "power": 3000.0, "arnoldi": 120.0}
MORE_AXES = {"none": 1.6, "lingoes": 1.1}  # reads more each time the axes double; "ritz" is as long about c*
MORE_POINTS = 0.9  # each time the points double, where "ritz" seeks c*
READS_SAMPLE = 320  # vertices; up to 300 the solver takes the whole space at once
BLOCKS_OF_SAMPLE = 8  # first blocks that a sample has room for, where it can tell anything


def expected_reads(parameters: Parameters, n: int, most_columns: int) -> int:
    """Reads of D after the first, which is taken while D is written: measured figures, to a factor of 2 mostly."""
    width, solver = first_block(n, parameters.n_components), _solver(parameters)
    if width == n - 1 and solver not in ("power", "arnoldi"):
        return 0
    reads = EXPECTED_READS[solver] + MORE_AXES.get(solver, 0.0) * np.log2(parameters.n_components)
    if solver == "ritz":
        reads += MORE_POINTS * max(0.0, np.log2(n / 1000))
    return int(np.rint(reads * _restarting(width, most_columns)))


def sampled_reads(distances: Any, parameters: Parameters, n: int, most_columns: int, scale: float) -> int | None:
    """Reads of D that the solver takes, from those that it takes on a sample of the vertices.

    distances (s, s): Of vertices in their order.
    scale: Their unit in the user's.
    -> None where a sample can't tell.

    From a sample of 320 the reads grow like (n / s)^0.13 where Cailliez' constant is sought, and hardly at all
    elsewhere: to a third mostly, and to 1.6 for Gaussian points in 30 dimensions, where they fall again as n grows.
    """
    sample = len(distances)
    width, solver = first_block(n, parameters.n_components), _solver(parameters)
    whole = first_block(sample, parameters.n_components) == sample - 1  # it would be solved at once
    if whole or BLOCKS_OF_SAMPLE * width > sample or solver in ("power", "arnoldi"):
        return None
    axes, correction, kernels = parameters.n_components, parameters.correction_in(scale), DenseKernels(distances)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = partial(block_from, lambda at: distances[at].astype(np.float32), sample, axes, correction, 0, sample)
        solve(kernels, axes, correction=correction, tol=parameters.tol, start=start)
    growth = (n / sample) ** (0.13 if solver == "ritz" else 0.04)
    return max(1, int(np.rint((kernels.n_reads - 1) * growth * _restarting(width, most_columns))))


def _solver(parameters: Parameters) -> str:
    """What the reads depend on, a key of `EXPECTED_READS`."""
    if parameters.correction == "cailliez":
        return parameters.constant_solver
    return str(parameters.correction) if parameters.correction in EXPECTED_READS else "none"


def _restarting(width: int, most_columns: int) -> float:
    """How many times as many reads a smaller basis takes."""
    return float(max(1.0, 8 * width / most_columns) ** 0.6)
