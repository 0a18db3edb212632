"""Raw stress: coordinates whose distances are nearest to D in the sum of squares (Trosset & Büyükbaş; Guttman 1968).

The raw stress of X (n, p) is s(X) = Σ_{i<j} (D_ij - d_ij)², d_ij = |x_i - x_j|. Guttman's transform

    G(X)_i = 1/n Σ_j D_ij / d_ij (x_i - x_j)    (0 where d_ij = 0)

never raises it, and its gradient at a centred X is 2 n (X - G(X)). One read of D gives both. :func:`minimise` is
limited-memory BFGS from the matrix I / 2n, so that its first step is Guttman's. Stress is a sum of squared differences:
ΣD² - 2 ΣDd + Σd² would cancel four digits where it is small. Sums are in float64 whatever D is.

Kernels add up in the order that the processor does fastest, which is the same for the same shapes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64
from scalemani.cluster.kernel_cache import compiled
from scalemani.kernel import blas

SUMS = 3  # columns of a read behind the axes
MEMORY = 10  # pairs of steps and changes of the gradient that are remembered
MOST_READS = 1000
ARMIJO = 1e-4  # of the fall that the slope promises
SHORTEST = 1e-3  # step, below which Guttman's is taken
RESOLVED = 2.0**-48  # of ΣD², below which stress is the rounding of float32 distances
STILL = 1e-15  # of the stress: a fall that float64 can't show
STEPS = 300  # of a point that is placed
LEAST_CURVATURE = 1e-3  # of n, in a direction: of less, Newton's step would be long
PLACED = 1e-13  # of its own stress, that a step lowers it by at least


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
    """Where :func:`minimise` ends, in the unit of D.

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
    X: F64
    guttman: F64
    by_point: F64
    stress: float

    @classmethod
    def of(cls, X: F64, found: F64) -> "_State":
        p = X.shape[1]
        return cls(X, found[:, :p] / len(X), found[:, p].copy(), float(found[:, p].sum() / 2))

    @property
    def gradient(self) -> F64:
        return 2 * len(self.X) * (self.X - self.guttman)


def dilated(X: F64, found: F64) -> _State:
    """The start times ΣDd / Σd², which lowers its stress most: no further read, since G does not change with it."""
    p = X.shape[1]
    stress, falls, lengths = found[:, p:].T
    more = falls.sum() / lengths.sum() if lengths.sum() > 0 else 0.0
    by_point = np.maximum(stress - 2 * more * falls + more**2 * lengths, 0.0)
    return _State((1 + more) * X, found[:, :p] / len(X), by_point, float(by_point.sum() / 2))


def minimise(read: Callable[[F64], F64], start: F64, tol: float, most: int = MOST_READS) -> Minimum:
    """Coordinates of least raw stress near a start: L-BFGS by unit steps, Armijo's rule, Guttman's step as the way out.

    It ends once two steps running each lower the stress by `tol` of it or less. (A share of ΣD², as scikit-learn has
    it, would end early where the fit is good.)

    read: X (n, p) -> (n, p + 3) as :func:`share` has them, of all of D.
    start (n, p)
    most: Reads.

    >>> D = np.array([[0.0, 1, 3], [1, 0, 1], [3, 1, 0]])
    >>> found = minimise(lambda X: share(D, X)[0], np.array([[-1.0], [0.1], [1.0]]), 1e-12)
    >>> round(found.stresses[-1], 9), np.diff(found.coordinates.ravel()).round(6).tolist()
    (0.333333333, [1.333333, 1.333333])
    """
    X = start - start.mean(axis=0)
    found, p = read(X), X.shape[1]
    undilated, falls, lengths = (float(total) for total in found[:, p:].sum(axis=0) / 2)
    now, total = dilated(X, found), undilated + 2 * falls + lengths
    stresses, memory, small = [now.stress], list[tuple[F64, F64]](), 0

    def look(X: F64) -> _State:
        state = _State.of(X, read(X))
        stresses.append(min(state.stress, stresses[-1]))
        return state

    while small < 2 and now.stress > RESOLVED * total:
        gradient = now.gradient
        step, slope = _direction(gradient, memory)
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
        moved, turned = then.X - now.X, then.gradient - gradient
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
def _own(row: Any, fixed: Any, y: Any, moved: Any, bent: Any) -> Any:
    """The stress of a point at y, and what its derivatives there are made of.

    r_j is D_j / d_j, and u_j has the direction of y - x_j and length 1.

    moved (p,): Filled with Σ_j r_j (y - x_j).
    bent (p, p): Its lower half is filled with Σ_j r_j (u_j u_j' - I).
    """
    p, n = fixed.shape
    stress, ratios = 0.0, 0.0
    pull, squares, apart = np.empty(n), np.zeros(n), np.empty((p, n))
    for a in range(p):
        x = y[a]
        for j in range(n):
            apart[a, j] = x - fixed[a, j]
            squares[j] += apart[a, j] * apart[a, j]
    for j in range(n):
        distance = np.sqrt(squares[j])
        gap = row[j] - distance
        pull[j] = row[j] / distance if distance > 0 else 0.0
        squares[j] = pull[j] / squares[j] if distance > 0 else 0.0
        stress += gap * gap
        ratios += pull[j]
    for a in range(p):
        total = 0.0
        for j in range(n):
            total += pull[j] * apart[a, j]
        moved[a] = total
        for b in range(a + 1):
            total = 0.0
            for j in range(n):
                total += squares[j] * apart[a, j] * apart[b, j]
            bent[a, b] = total
        bent[a, a] -= ratios
    return stress


@compiled()
def _newton(downhill: Any, bent: Any, n: int, step: Any) -> float:
    """Newton's step, and by how much it should lower the stress; -1 where the stress is not convex.

    downhill (p,): n (G(y) - y), half of the gradient, turned round. bent (p, p): From `_own`; overwritten.
    """
    p = len(downhill)
    for a in range(p):  # Cholesky's factor of n I + bent, half of the second derivatives
        bent[a, a] += n
        for b in range(a + 1):
            left = bent[a, b]
            for c in range(b):
                left -= bent[a, c] * bent[b, c]
            if a > b:
                bent[a, b] = left / bent[b, b]
            elif left > LEAST_CURVATURE * n:
                bent[a, a] = np.sqrt(left)
            else:
                return -1.0
    fall = 0.0
    for a in range(p):
        left = downhill[a]
        for c in range(a):
            left -= bent[a, c] * step[c]
        step[a] = left / bent[a, a]
        fall += step[a] * step[a]
    for back in range(p):
        a = p - 1 - back
        left = step[a]
        for c in range(a + 1, p):
            left -= bent[c, a] * step[c]
        step[a] = left / bent[a, a]
    return fall


@compiled()
def _place(rows: Any, fixed: Any, mean: Any, found: Any, steps: int, tol: float) -> None:
    """Each row by itself, and until it moves no more: no other row changes its bits.

    A step is Newton's; where that does not lower the stress, Guttman's, over-relaxed, and else plain.
    """
    p, n = fixed.shape
    new, downhill, step = np.empty(p), np.empty(p), np.empty(p)
    moved, then = np.empty(p), np.empty(p)
    bent, bends = np.empty((p, p)), np.empty((p, p))
    for i in range(rows.shape[0]):
        y = found[i]
        stress = _own(rows[i], fixed, y, moved, bent)
        if not np.isfinite(stress):
            y[:] = np.nan
            continue
        for _ in range(steps):
            for a in range(p):
                downhill[a] = n * (mean[a] - y[a]) + moved[a]
            promised = _newton(downhill, bent, n, step)
            if 0 <= promised <= tol * stress:
                break
            lower = np.inf
            if promised > 0:
                for a in range(p):
                    new[a] = y[a] + step[a]
                lower = _own(rows[i], fixed, new, then, bends)
            for times in (2.0, 1.0):
                if not lower <= stress:
                    for a in range(p):
                        new[a] = y[a] + times * downhill[a] / n
                    lower = _own(rows[i], fixed, new, then, bends)
            last = not stress - lower > tol * stress
            if lower < stress:
                stress = lower
                for a in range(p):
                    y[a], moved[a] = new[a], then[a]
                    for b in range(a + 1):
                        bent[a, b] = bends[a, b]
            if last:
                break


def place(distances: F64, fixed: F64, start: F64) -> F64:
    """New points, each of which has the least stress by itself: y = argmin Σ_j (D_j - |y - x_j|)².

    By steps of its own: Newton's, or where that does not lower the stress Guttman's, over-relaxed to 2 G(y) - y, and
    plain where that rises. Newton's take a quarter of the time; a minimum is a minimum by either.

    distances (l, n): To the points whose coordinates are known; a row that is not finite is NaN.
    fixed (n, p): These, in the unit of the distances.
    start (l, p)
    -> (l, p): The bits of a row do not depend on the other rows.

    >>> square = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    >>> there = np.array([[0.3, 0.4]])
    >>> place(np.linalg.norm(there[:, None] - square, axis=2), square, np.array([[0.5, 0.6]])).round(6).tolist()
    [[0.3, 0.4]]
    """
    found = np.array(start, np.float64, order="C")
    known = blas.by_rows(fixed.T, np.float64)
    _place(blas.by_rows(distances, np.float64), known, fixed.mean(axis=0), found, STEPS, PLACED)
    return found


def turned(points: F64, onto: F64) -> tuple[F64, F64]:
    """The turn with a dilation (p, p), and the shift (p,), that bring points (n, p) nearest to others: y = x T + t."""
    mean, there = points.mean(axis=0), onto.mean(axis=0)
    left, sizes, right = np.linalg.svd(blas.product((points - mean).T, onto - there))
    spread = _dot(points - mean, points - mean)
    turn = blas.product(left, right) * (sizes.sum() / spread if spread > 0 else 1.0)
    return turn, there - blas.product(mean, turn)
