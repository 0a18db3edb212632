"""The solver's first block, by Nyström's approximation from the geodesic rows of a few vertices.

The kernel of m vertices, its sums scaled to n points, has nearly the constant and the extreme eigenvectors of the
whole. Each is carried to all points by its own kernel (Williams & Seeger, NIPS 13, 2001): the vector of a point is the
mean of those m, weighted by their kernel with the point. The rows are m/n of the work of D; what
they save was measured at 10,000 points, against a Gaussian block: 2 to 3 of 7 to 12 reads of D.

Only where the iteration begins depends on this, never what it ends with.
"""

import numpy as np
import scipy.linalg as sl

from scalemani.aliases import F32, F64, I64
from scalemani.kernel import blas
from scalemani.kernel.constant import DEFINITE, projected_constant
from scalemani.kernel.eigensolver import GUARDS, first_block, gaussian_block, orthonormal

FEWEST, MOST = 128, 512  # vertices to start from
POINTS_A_VERTEX = 16
NOISE = 1e-3  # of a Gaussian block, added so that nothing is missed because the vertices lie symmetrically
PANEL = 1024  # points at once


def start_vertices(n: int, most_columns: int, seed: int) -> I64:
    """One vertex out of each of m equal ranges of the vertex order, in which what is near in number is near in space.

    most_columns: Of the solver's basis. Their rows (float32) take less memory than it does, and are gone before it is
        there.
    -> (m,): Ascending; m is n/16, within 128 and 512, and at most n/2 and 2 `most_columns`.
    """
    count = min(max(FEWEST, n // POINTS_A_VERTEX), MOST, 2 * most_columns, n // 2)
    edges = np.linspace(0, n, count + 1).astype(np.int64)
    inside = np.random.default_rng(seed).random(count) * np.diff(edges)
    return edges[:-1] + inside.astype(np.int64)


def start_count(n: int, n_components: int, most_columns: int) -> int:
    """Rows of D that the first block asks for; 0 where it does without."""
    width, count = first_block(n, n_components), len(start_vertices(n, most_columns, 0))
    return 0 if width == n - 1 or width >= count // 2 else count


def nystrom_block(rows: F32, vertices: I64, width: int, n_top: int, correction: str | float | None, seed: int) -> F64:
    """The first block (n, width): orthonormal, orthogonal to 1.

    vertices (m,): Whose they are.
    width: Columns; fewer than m.
    n_top: Pairs wanted: half the block and more is the low end's where a constant is sought, else all is the top's.
    correction ({"cailliez", "lingoes", "flip", None} or float): As :func:`scalemani.kernel.constant.solve` takes it.
    """
    m, n = rows.shape
    square = rows[:, vertices].astype(np.float64)
    square = (square + square.T) / 2
    k1, k2 = (centered_kernel(square) * (n / m), centered_kernel(square**2) * (n / m))
    c = 0.0
    if correction == "cailliez":
        c = projected_constant(k1, k2)
    elif not isinstance(correction, str) and correction is not None:
        c = float(correction)
    values, vectors = sl.eigh(k2 + 2 * c * k1)
    n_low = max(width - n_top - GUARDS, 0) if correction in DEFINITE else 0
    if correction == "flip":
        chosen = np.argsort(-np.abs(values), kind="stable")[:width]
    else:
        chosen = np.r_[np.arange(n_low), np.arange(m - width + n_low, m)]
    u = vectors[:, chosen]
    u -= u.mean(axis=0)
    block = np.empty((n, width))
    for at in range(0, n, PANEL):
        d = rows[:, at : at + PANEL].astype(np.float64)
        block[at : at + PANEL] = blas.product((d * (d + 2 * c)).T, u)
    block -= block.mean(axis=0)
    block /= np.maximum(np.linalg.norm(block, axis=0), np.finfo(float).tiny)
    block += NOISE * gaussian_block(n, width, seed)
    return orthonormal(block)


def centered_kernel(a: F64) -> F64:
    """-1/2 J A J."""
    means = a.mean(axis=0)
    return np.asarray(-0.5 * (a - means - means[:, None] + means.mean()))


def start_block_bytes(n: int, vertices: int, columns: int) -> int:
    """The block from its rows: eight small matrices, two panels of rows in float64, the block and noise."""
    carrying = 2 * 8 * vertices * min(n, PANEL) + 8 * n * columns
    return 8 * 8 * vertices**2 + max(carrying, 7 * 8 * n * columns)
