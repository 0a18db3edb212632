"""Raw stress: coordinates whose distances are nearest to D in the sum of squares (Trosset & Büyükbaş; Guttman 1968).

The raw stress of X (n, p) is s(X) = Σ_{i<j} (D_ij - d_ij)², d_ij = |x_i - x_j|. Guttman's transform

    G(X)_i = 1/n Σ_j D_ij / d_ij (x_i - x_j)    (0 where d_ij = 0)

never raises it, and its gradient at a centred X is 2 n (X - G(X)). One read of D gives both. :func:`minimize` is
limited-memory BFGS from the matrix I / 2n, so that its first step is Guttman's. Stress is a sum of squared differences:
ΣD² - 2 ΣDd + Σd² would cancel four digits where it is small. Sums are in float64 whatever D is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64
from scalemani.cluster.kernel_cache import compiled
from scalemani.kernel import blas

SUMS = 3  # columns of a read behind the axes
MEMORY = 10  # pairs of steps and changes of the gradient that are remembered
MOST_READS = 300
ARMIJO = 1e-4  # of the fall that the slope promises
SHORTEST = 1e-3  # step, below which Guttman's is taken
RESOLVED = 2.0**-48  # of ΣD², below which stress is the rounding of float32 distances
STILL = 1e-15  # of the stress: a fall that float64 can't show
STEPS = 300  # of a point that is placed
SETTLED = 1e-18  # of a point's stress: where a step promises less, it is placed
LATELY = 5  # steps whose highest stress the next one stays below
ROUNDING = 1e-13  # of a point's stress, by which a step may seem to raise it


@compiled(fastmath={"reassoc", "contract"})
def _share(tile: Any, here: Any, there: Any, ours: Any, theirs: Any, both: bool) -> None:
    """Add what a tile gives its rows, and where `both` is true its columns, to `ours` and `theirs`; see `share`."""
    count, width = tile.shape
    p = here.shape[0]
    squares, gaps, ratios, far = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    for i in range(count):
        for j in range(width):
            squares[j] = 0.0
        for a in range(p):
            x = here[a, i]
            for j in range(width):
                apart = x - there[a, j]
                squares[j] += apart * apart
        stress, falls, lengths = 0.0, 0.0, 0.0
        for j in range(width):
            distance, wanted = np.sqrt(squares[j]), np.float64(tile[i, j])
            gap = wanted - distance
            ratios[j] = wanted / distance if distance > 0 else 0.0
            gaps[j] = gap * gap
            far[j] = gap * distance
            stress += gap * gap
            falls += gap * distance
            lengths += squares[j]
        ours[p, i] += stress
        ours[p + 1, i] += falls
        ours[p + 2, i] += lengths
        if both:
            for j in range(width):
                theirs[p, j] += gaps[j]
                theirs[p + 1, j] += far[j]
                theirs[p + 2, j] += squares[j]
        for a in range(p):
            x, moved = here[a, i], 0.0
            if both:
                for j in range(width):
                    pull = ratios[j] * (x - there[a, j])
                    moved += pull
                    theirs[a, j] -= pull
            else:
                for j in range(width):
                    moved += ratios[j] * (x - there[a, j])
            ours[a, i] += moved


def share(tile: NDArray[Any], there: F64, here: F64 | None = None) -> tuple[F64, F64 | None]:
    """What a tile D[I, J] gives the rows of I and of J: a share of :func:`scalemani.geodesics.reads.sweep`.

    tile (a, b)
    there (b, p), here (a, p): Coordinates of J and I; None on the diagonal, where I is J.
    -> (a, p + 3): n G, Σ (D - d)², Σ (D - d) d, Σ d² over the columns; and the same (b, p + 3) over the rows.
    """
    own, p = there if here is None else here, there.shape[1]
    ours = np.zeros((p + SUMS, len(tile)))
    theirs = np.zeros((p + SUMS, 0 if here is None else len(there)))
    _share(tile, blas.by_rows(own.T), blas.by_rows(there.T), ours, theirs, here is not None)
    return ours.T, None if here is None else theirs.T


@dataclass(frozen=True)
class Minimum:
    """Where :func:`minimize` ends, in the unit of D.

    coordinates (n, p): Centred.
    by_point (n,): Σ_j (D_ij - d_ij)²; they add up to twice the stress.
    stresses: Stress of the best coordinates that were known after each read; the first is that of the dilated start.
    undilated: Stress of the start as it was given.
    total: Σ_{i<j} D².
    converged: Whether it ended by itself, and not for the number of reads.
    """

    coordinates: F64
    by_point: F64
    stresses: list[float]
    undilated: float
    total: float
    converged: bool

    def stress_1(self, stress: float) -> float:
        """The root of a stress over ΣD²: Kruskal's normalised stress."""
        return float(np.sqrt(stress / self.total)) if self.total > 0 else 0.0


@dataclass(frozen=True)
class _State:
    """Coordinates, and what a read gives of them: G(X), and the stress by point."""

    X: F64
    guttman: F64
    by_point: F64

    @cached_property
    def stress(self) -> float:
        """Of all pairs."""
        return float(self.by_point.sum() / 2)

    @cached_property
    def gradient(self) -> F64:
        """Of the stress."""
        return 2 * len(self.X) * (self.X - self.guttman)


def minimize(read: Callable[[F64], F64], start: F64, tol: float, most: int = MOST_READS) -> Minimum:
    """Coordinates of least raw stress near a start: L-BFGS by unit steps, Armijo's rule, Guttman's step as the way out.

    The start is dilated by ΣDd / Σd² first, which lowers its stress most and takes no read: G does not change with it.
    It ends once two steps running each lower the stress by `tol` of it or less. (A share of ΣD², as scikit-learn has
    it, would end early where the fit is good.)

    read: X (n, p) -> (n, p + 3) as :func:`share` has them, of all of D.
    start (n, p)
    most: Reads.

    >>> D = np.array([[0.0, 1, 3], [1, 0, 1], [3, 1, 0]])
    >>> found = minimize(lambda X: share(D, X)[0], np.array([[-1.0], [0.1], [1.0]]), 1e-12)
    >>> round(found.stresses[-1], 9), np.diff(found.coordinates.ravel()).round(6).tolist()
    (0.333333333, [1.333333, 1.333333])
    """
    X, (n, p) = start - start.mean(axis=0), start.shape
    found = read(X)
    by_point, falls, lengths = found[:, p:].T
    more = falls.sum() / lengths.sum() if lengths.sum() > 0 else 0.0
    undilated, total = float(by_point.sum() / 2), float((by_point + 2 * falls + lengths).sum() / 2)
    by_point = np.maximum(by_point - 2 * more * falls + more**2 * lengths, 0.0)
    now = _State((1 + more) * X, found[:, :p] / n, by_point)
    stresses, memory, small = [now.stress], list[tuple[F64, F64]](), 0

    def look(X: F64) -> _State:
        found = read(X)
        state = _State(X, found[:, :p] / n, found[:, p].copy())
        stresses.append(min(state.stress, stresses[-1]))
        return state

    while small < 2 and now.stress > RESOLVED * total:
        step, slope = _direction(now.gradient, memory)
        if -slope <= STILL * now.stress:
            break
        if len(stresses) >= most:
            return Minimum(now.X, now.by_point, stresses, undilated, total, False)
        length, then = 1.0, look(now.X + step)
        while then.stress > now.stress + ARMIJO * length * slope and len(stresses) < most:
            beyond = then.stress - now.stress - length * slope
            length *= max(0.1, min(0.5, -slope * length / (2 * beyond)))  # a parabola through both, with the slope
            if length < SHORTEST:
                memory.clear()
                then = look(now.guttman)
                break
            then = look(now.X + length * step)
        if then.stress > now.stress:  # by rounding, or for want of reads
            small = 2 if len(stresses) < most else 0
            continue
        moved, turned = then.X - now.X, then.gradient - now.gradient
        if _dot(moved, turned) > 1e-12 * np.sqrt(_dot(moved, moved) * _dot(turned, turned)):
            memory = [*memory, (moved, turned)][-MEMORY:]
        small = small + 1 if now.stress - then.stress <= tol * then.stress else 0
        now = then
    return Minimum(now.X, now.by_point, stresses, undilated, total, True)


def _direction(gradient: F64, memory: list[tuple[F64, F64]]) -> tuple[F64, float]:
    """Where to go, and the slope of the stress along it; where the memory leads up, it is forgotten."""
    step, factors = gradient, list[tuple[float, float]]()
    for moved, turned in reversed(memory):
        rho = 1 / _dot(moved, turned)
        factors.append((rho * _dot(moved, step), rho))
        step = step - factors[-1][0] * turned
    step = step * (_dot(*memory[-1]) / _dot(memory[-1][1], memory[-1][1]) if memory else 0.5 / len(gradient))
    for (moved, turned), (factor, rho) in zip(memory, reversed(factors), strict=True):
        step = step + (factor - rho * _dot(turned, step)) * moved
    slope = -_dot(gradient, step)
    if slope >= 0 and memory:
        memory.clear()
        return _direction(gradient, memory)
    return -step, slope


def _dot(a: F64, b: F64) -> float:
    """In an order that no number of threads changes."""
    return float((a * b).sum())


# ---- points that come later --------------------------------------------------------------------------


@compiled(fastmath={"reassoc", "contract"})
def _own(row: Any, fixed: Any, y: Any, pull: Any) -> float:
    """The stress of a point at y; `pull` (p,) is filled with Σ_j D_j / d_j (y - x_j)."""
    p, n = fixed.shape
    stress, ratios, squares = 0.0, np.empty(n), np.zeros(n)
    for a in range(p):
        x = y[a]
        for j in range(n):
            apart = x - fixed[a, j]
            squares[j] += apart * apart
    for j in range(n):
        distance = np.sqrt(squares[j])
        gap = row[j] - distance
        ratios[j] = row[j] / distance if distance > 0 else 0.0
        stress += gap * gap
    for a in range(p):
        x, total = y[a], 0.0
        for j in range(n):
            total += ratios[j] * (x - fixed[a, j])
        pull[a] = total
    return stress


@compiled()
def _place(rows: Any, fixed: Any, mean: Any, found: Any) -> None:
    """Each row by itself, and until it moves no more: no other row changes its bits."""
    p, n = fixed.shape
    new, pull, step, recent = np.empty(p), np.empty(p), np.empty(p), np.empty(LATELY)
    for i in range(rows.shape[0]):
        row, y = rows[i], found[i]
        nearest = np.argmin(row)
        for a in range(p):
            y[a] = fixed[a, nearest]
        stress, length = _own(row, fixed, y, pull), 2.0
        if not np.isfinite(stress):
            y[:] = np.nan
            continue
        recent[:] = stress
        for a in range(p):
            step[a] = mean[a] - y[a] + pull[a] / n
        for k in range(STEPS):
            if n * length * (step * step).sum() <= SETTLED * stress:
                break
            lower, most = np.inf, recent.max() * (1 + ROUNDING)
            for times in (length, 1.0):
                if not lower <= most:
                    for a in range(p):
                        new[a] = y[a] + times * step[a]
                    lower = _own(row, fixed, new, pull)
            if not lower <= most:
                break
            recent[k % LATELY] = lower
            stress, moved, turned = lower, 0.0, 0.0
            for a in range(p):
                then = mean[a] - new[a] + pull[a] / n
                moved += (new[a] - y[a]) ** 2
                turned += (new[a] - y[a]) * (step[a] - then)
                y[a], step[a] = new[a], then
            length = moved / turned if turned > 0 else 2.0


def place(distances: F64, fixed: F64) -> F64:
    """New points, each of which has the least stress by itself: y = argmin Σ_j (D_j - |y - x_j|)².

    A point begins at the fixed one that is nearest. Its steps are Guttman's, G(y) - y, times Barzilai and Borwein's
    length (1988), and plain where that would raise the stress above that of the last five: in the long flat valley of
    a far point a step that has to lower it is short.

    distances (l, n): To the points whose coordinates are known; a row that is not finite is NaN.
    fixed (n, p): These, in the unit of the distances.
    -> (l, p): The bits of a row do not depend on the other rows.

    >>> square = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    >>> there = np.array([[0.3, 0.4]])
    >>> place(np.linalg.norm(there[:, None] - square, axis=2), square).round(6).tolist()
    [[0.3, 0.4]]
    """
    found = np.empty((len(distances), fixed.shape[1]))
    known = blas.by_rows(fixed.T, np.float64)
    _place(blas.by_rows(distances, np.float64), known, fixed.mean(axis=0), found)
    return found
