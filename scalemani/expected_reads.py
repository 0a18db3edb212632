"""Reads of D that a fit takes: a figure by the solver, or what a sample of the user's own vertices takes."""

import warnings
from typing import Any

import numpy as np

from scalemani.corrections import solve
from scalemani.eigensolver import first_block
from scalemani.errors import ConvergenceWarning
from scalemani.kernel import DenseKernels
from scalemani.parameters import Parameters

#: Reads of D at 1,000 points by solver, as measured on rolls, spheres and Gaussian points; "none": c is not sought.
EXPECTED_READS = {"none": 5, "ritz": 8, "power": 3000, "arnoldi": 120}
MORE_READS = 2.5  # each time the points double, where "ritz" seeks c
READS_SAMPLE = 320  # vertices; up to 300 the solver takes the whole space at once


def expected_reads(parameters: Parameters, n: int, most_columns: int) -> int:
    """Reads of D after the first, which is taken while D is written: measured figures, to a factor of 2 mostly."""
    width = first_block(n, parameters.n_components)
    solver = parameters.constant_solver if parameters.correction == "cailliez" else "none"
    if width == n - 1 and solver in ("none", "ritz"):
        return 0
    reads = EXPECTED_READS[solver] + (MORE_READS * max(0.0, np.log2(n / 1000)) if solver == "ritz" else 0.0)
    return round(reads * _restarting(width, most_columns))


def sampled_reads(distances: Any, parameters: Parameters, n: int, most_columns: int) -> int | None:
    """Reads of D that the solver takes, from those that it takes on a sample of the vertices.

    Parameters
    ----------
    distances : ndarray, shape (s, s)

    Returns
    -------
    int or None
        None where a sample can't tell.

    Notes
    -----
    Measured on rolls, spheres and Gaussian points of 4,000 to 20,000: with a constant to be found the reads grow like
    (n / s)^0.2, from a sample of 320, and without one hardly at all; to a third.
    """
    sample = len(distances)
    width = first_block(n, parameters.n_components)
    sought = parameters.correction == "cailliez"
    whole = first_block(sample, parameters.n_components) == sample - 1  # it would be solved at once
    if whole or (sought and parameters.constant_solver != "ritz"):
        return None
    kernels = DenseKernels(distances)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solve(kernels, parameters.n_components, correction=parameters.correction, tol=parameters.tol, seed=0)
    growth = (n / sample) ** (0.2 if sought else 0.05)
    return max(1, int(np.rint((kernels.n_reads - 1) * growth * _restarting(width, most_columns))))


def _restarting(width: int, most_columns: int) -> float:
    """How many times as many reads a smaller basis takes."""
    return float(max(1.0, 10 * width / most_columns) ** 0.65)
