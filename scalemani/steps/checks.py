"""What every fit is checked by before it is recorded: takes tiles, sums, solution and model, raises if they disagree.

None of it reads D again: some columns of a few tiles are looked at, and the rows of a few vertices are found a second
time, from the other end of their paths. What the operators, the sums and the projection say of those vertices must be
what these rows say. The largest deviations go into the account of the spectrum.

| check | of | allowed |
|---|---|---|
| pairs | d_ij in the tiles, from i, against d_ji found again from j | rounding of the sums along a path |
| sums | row sums of D and D∘D and row maxima, of the first read | 1e-5 |
| symmetry | v'K_i w - w'K_i v over the solver's basis | 1e-8, or 1e-4 with float32 products |
| constants | V'1, which K maps to 0 | 1e-9 |
| residuals | of pairs that are said to have converged, as the solver has them | tol, or rounding |
| lowest | K v of those vertices, v the lowest Ritz vector: λ v, with λ 0 at c* or s | ten times its residual |
| projection | those vertices placed as test points, against their coordinates | 1e-3 of an axis, and the residual |

`lowest` and `projection` are residuals row by row, made of rows that the solver did not see; `lowest` also sees a
constant that is too large.
"""

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.embedding.coordinates import Embedding
from scalemani.errors import SelfCheckError
from scalemani.geodesics.batches import MOST_HOPS
from scalemani.geodesics.rows import MOST_ASYMMETRY, ROUNDING
from scalemani.kernel import blas
from scalemani.kernel.constant import DEFINITE, Solution
from scalemani.kernel.eigensolver import rounding
from scalemani.kernel.operators import DistanceSums
from scalemani.projection.linear_map import Axes
from scalemani.storage.run import RunStore

CHECKED = 32  # vertices whose rows are found again
TILES = 8  # that some columns of are looked at
SUMS_ALLOWED = 1e-5  # of float32 distances, relative
ASYMMETRY_ALLOWED = {"float64": 1e-8, "float32": 1e-4}
PLACED_ALLOWED = 1e-3  # of the longest coordinate of an axis
NOISE = 1e-6  # of float32 tiles and products, relative to the largest eigenvalue


def some_of(n: int, most: int, seed: int = 0) -> I64:
    """Numbers below n, ascending: all of them, or as many as are looked at."""
    return np.sort(np.random.default_rng(seed).choice(n, min(n, most), replace=False))


def checked_vertices(store: RunStore, seed: int) -> I64:
    """The vertices whose rows are to be found again: some in each of a few blocks; ascending."""
    blocks, rng = store.blocks, np.random.default_rng(seed)
    some = rng.choice(len(blocks), min(TILES, len(blocks)), replace=False)
    each = -(-CHECKED // len(some))
    found = [rng.integers(blocks[int(block)].start, blocks[int(block)].stop, each) for block in some]
    return np.unique(np.concatenate(found))


def check_fit(
    store: RunStore | None,
    rows: F32,
    vertices: I64,
    solution: Solution,
    embedding: Embedding,
    sums: DistanceSums,
    *,
    precision: str,
    projection: str,
    tol: float,
    seed: int = 0,
    square: F64 | None = None,
) -> dict[str, float]:
    """Make every check of the module docstring.

    store: Whose tiles are looked at; None where D is `square`, that of landmarks (m, m).
    rows (m, n): Rows of D for `vertices`, found again, in the unit of the tiles; of landmarks as every point's are
        read.
    precision ({"float32", "float64"}): Of the products.
    -> The largest relative deviation of each check.
    """
    try:
        if store is not None:
            pairs = _pairs(store, rows, vertices, seed)
        else:
            assert square is not None
            pairs = check_same(rows.astype(np.float64), square[vertices], MOST_HOPS)
        return {
            "pairs": pairs,
            "sums": _sums(rows, vertices, sums),
            **_solution(solution, precision, tol),
            **_lowest(rows, vertices, solution, embedding),
            "projection": check_placed(rows, vertices, embedding, solution.pairs.residuals, projection),
        }
    except SelfCheckError as why:
        raise SelfCheckError(f"self-check of the fit: {why}; nothing was recorded: fit again with overwrite") from None


def check_stored(
    store: RunStore,
    rows: F32,
    vertices: I64,
    embedding: Embedding | None,
    sums: DistanceSums | None,
    *,
    residuals: F64,
    projection: str,
    distances: bool,
) -> dict[str, float]:
    """The checks that a run as it lies on the disk allows: pairs of D, sums, constants, and the projection.

    rows (m, n): Rows of D for `vertices`, found again, in the unit of the tiles.
    embedding, sums: What the store has of them; what it lacks is not checked.
    residuals (p,): Of the pairs, as they were recorded.
    distances: Whether D is there, and whole.
    """
    found = {"pairs": _pairs(store, rows, vertices, 0)} if distances else {}
    if sums is not None:
        found["sums"] = _sums(rows, vertices, sums)
    if embedding is not None:
        found["constants"] = check_centered(embedding.vectors)
        found["projection"] = check_placed(rows, vertices, embedding, residuals, projection)
    return found


def _refuse(what: str, found: float, allowed: float, why: str) -> None:
    if not found <= allowed:  # NaN, too
        raise SelfCheckError(f"{what} ({found:.1e}, where {allowed:.1e} is allowed): {why}")


def check_centered(vectors: F64) -> float:
    """Largest |V'1| of unit columns, 1 a unit vector too."""
    found = float(np.abs(vectors.sum(axis=0)).max()) / float(np.sqrt(len(vectors)))
    _refuse("eigenvectors are not orthogonal to 1", found, 1e-9, "centring failed")
    return found


def _pairs(store: RunStore, rows: F32, vertices: I64, seed: int) -> float:
    """Largest relative difference of a tile's entries from their mirror images; a few thousand pairs."""
    blocks, rng = store.blocks, np.random.default_rng(seed + 1)
    block_of, worst = vertices // blocks.size, 0.0
    for block in np.unique(block_of):
        inside = np.flatnonzero(block_of == block)
        row = int(rng.integers(0, block + 1))
        ours = store.read_columns(row, vertices[inside]).astype(np.float64)
        theirs = rows[inside][:, blocks[row]].T.astype(np.float64)
        worst = float(np.max([worst, check_same(ours, theirs, min(blocks.n, MOST_HOPS))]))
    return worst


def check_same(ours: F64, theirs: F64, hops: int) -> float:
    """Largest relative difference of distances that should be the same, summed over paths of so many hops at most."""
    longer = np.maximum(ours, theirs)
    found = float((np.abs(ours - theirs) / np.where(longer > 0, longer, 1.0)).max())
    _refuse(
        "distances in D are not those found from their other ends",
        found,
        MOST_ASYMMETRY + 2 * ROUNDING * hops,  # longer paths are summed in float64
        "they are damaged, or the graph is not the one that they were made from",
    )
    return found


def _sums(rows: F32, vertices: I64, sums: DistanceSums) -> float:
    apart = []
    for at, vertex in enumerate(vertices):
        row = rows[at].astype(np.float64)
        for found, kept in (
            (sums.over_points(row), sums.row_sums[vertex]),
            (sums.over_points(row**2), sums.row_sums_squared[vertex]),
            (row.max(), sums.row_maxima[vertex]),
        ):
            apart.append(abs(found - kept) / max(abs(found), np.finfo(float).tiny) if found != kept else 0.0)
    worst = float(np.max(apart))  # a NaN stays, which Python's own max would lose
    _refuse("row sums of the first read of D are not those of its rows", worst, SUMS_ALLOWED, "the read was incomplete")
    return worst


def _solution(solution: Solution, precision: str, tol: float) -> dict[str, float]:
    pairs = solution.pairs
    asymmetry, residual = pairs.asymmetry, float(pairs.residuals.max())
    least = rounding(len(pairs.vectors), pairs.values) / np.maximum(np.abs(pairs.values), np.finfo(float).tiny)
    _refuse("the operators are not symmetric", asymmetry, ASYMMETRY_ALLOWED[precision], "a product of D is wrong")
    found = {"symmetry": asymmetry, "constants": check_centered(pairs.vectors), "residuals": residual}
    if pairs.converged:
        beyond = float(np.max(pairs.residuals - least))
        _refuse("residuals of pairs that are said to have converged", beyond, max(tol, NOISE), "the solver is wrong")
    return found


def _lowest(rows: F32, vertices: I64, solution: Solution, embedding: Embedding) -> dict[str, float]:
    """|K v - λ v| over the checked vertices, relative to the largest eigenvalue, where the low end gave the constant.

    With S = D∘D + 2c D + 2g (11' - I), the corrected squared distances, (K v)_j = -1/2 ((S v)_j - m'v), m S's means.
    Of landmarks v are sums over the points that each stands for, whose entries are what K v is compared with.
    """
    pairs, v = solution.pairs, solution.pairs.low_vector
    if solution.correction not in DEFINITE or solution.nugget == 0:
        return {}
    first = max(abs(float(pairs.values[0])), np.finfo(float).tiny)
    wide = rows.astype(np.float64)
    one = np.ones(len(v)) if embedding.counts is None else embedding.counts
    entries = (v / one)[vertices]
    s = blas.product(wide * (wide + 2 * solution.constant), v) - 2 * solution.nugget * entries
    apart = (-0.5 * (s - blas.product(embedding.means, v)) - pairs.lowest * entries) * np.sqrt(one[vertices])
    found, share = float(np.linalg.norm(apart)), np.sqrt(len(vertices) / len(v))
    allowed = 10 * (pairs.low_residual * max(share, 0.1) + NOISE * first * share)
    _refuse(
        "the lowest eigenvector of the kernel is none by rows of D, in parts of the largest eigenvalue",
        found / first,
        allowed / first,
        "the constant is wrong",
    )
    return {"lowest": found / first}


def check_placed(rows: F32, vertices: I64, embedding: Embedding, residuals: F64, form: str) -> float:
    """Largest deviation of a placed vertex from its coordinates, of what is allowed; the longest coordinate is 1."""
    axes, active = Axes(embedding, form), embedding.active
    if not active.any():
        return 0.0
    expected = embedding.coordinates()[:, active]
    longest = np.abs(expected).max(axis=0)
    values, first = np.abs(embedding.eigenvalues[active]), float(embedding.sizes[0])
    wide = np.maximum(residuals[active] * values * 3, NOISE * first)
    allowed = PLACED_ALLOWED * longest + np.abs(axes.gains) * wide
    apart = np.abs(axes.place_rows(rows, vertices)[:, active] - expected[vertices])
    _refuse(
        "training points that are projected are not where the embedding has them, in parts of what is allowed",
        float((apart / allowed).max()),
        1.0,
        "the means, the constant or the eigenvectors are wrong",
    )
    return float((apart / longest).max())
