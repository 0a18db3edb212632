"""What must hold of a run whatever its size: takes what was found, remembers what does not hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from scalemani.storage.run import RunStore

TRUE_CORRELATION = 0.999  # of embedding distances with geodesics of the clean roll, without a constant
SAME = 1e-10  # of the longest coordinate: a test point's, alone or among a million
SAMPLED = 2000  # points whose pairs are compared; 1,000 rows that are placed again


class Claims:
    """Claims as they are looked at.

    Attributes
    ----------
    failed : list of str
    """

    def __init__(self, say: Callable[[str], Any] = print) -> None:
        self.failed: list[str] = []
        self._say = say

    def hold(self, claim: str, true: bool) -> None:
        """Say a claim, and whether it is true."""
        self._say(f"{'holds' if true else 'FAILS'}: {claim}")
        if not true:
            self.failed.append(claim)


def correlation(coordinates: np.ndarray, places: np.ndarray, seed: int = 0) -> float:
    """Of distances in an embedding with those on the flat sheet, over all pairs of sampled points."""
    some = np.random.default_rng(seed).choice(len(places), min(SAMPLED, len(places)), replace=False)
    return float(np.corrcoef(pdist(coordinates[some]), pdist(places[some]))[0, 1])


def procrustes_error(coordinates: np.ndarray, reference: np.ndarray) -> float:
    """|Y - F| over |F - mean F|, Y being moved and turned (mirrored, too) to where that is least; never scaled."""
    moved, fixed = coordinates - coordinates.mean(axis=0), reference - reference.mean(axis=0)
    left, _, right = np.linalg.svd(moved.T @ fixed)
    return float(np.linalg.norm(moved @ (left @ right) - fixed) / np.linalg.norm(fixed))


def check_fit(claims: Claims, model: Any, X: Any) -> None:
    """Of a fitted model: every count adds up, and training rows land on themselves."""
    store, spectrum = RunStore(model.store_), model.spectrum_
    n, m = len(model.embedding_), len(model.landmarks_)
    cells = store.read_array("landmark_counts")
    claims.hold(
        f"{n:,} rows, {spectrum['n_distinct']:,} different ones, {spectrum['n_vertices']:,} vertices, "
        f"{int(cells.sum()):,} points in the cells of {m:,} landmarks",
        n == X.shape[0] == spectrum["n_rows"]
        and spectrum["n_distinct"] == spectrum["n_vertices"] == int(cells.sum())
        and m == spectrum["n_landmarks"] == len(np.unique(model.landmarks_))
        and int(cells.min()) >= 1,
    )
    some = np.sort(np.random.default_rng(0).choice(n, min(1000, n), replace=False))
    placed = model.transform(taken(X, some))
    claims.hold(
        f"{len(some):,} training rows, given again, land on themselves to the bit",
        bool(np.isfinite(model.embedding_).all()) and np.array_equal(placed, model.embedding_[some]),
    )


def check_projection(claims: Claims, model: Any, T: Any, placed: Any) -> None:
    """Of a projected test set: no row is missing, and each is where it is alone or in any other batch."""
    claims.hold(f"{placed.shape[0]:,} points were placed", placed.shape == (T.shape[0], model.embedding_.shape[1]))
    rng = np.random.default_rng(1)
    some = np.sort(rng.choice(T.shape[0], min(300, T.shape[0]), replace=False))
    there = taken(placed, some)
    again = np.concatenate([model.transform(taken(T, part)) for part in np.split(some, [1, 8, len(some) // 2])])
    apart = float(np.abs(again - there).max()) / float(np.abs(model.embedding_).max())
    claims.hold(f"{len(some)} of them, in batches of 1 to {len(some) // 2}, differ by {apart:.0e}", apart <= SAME)


def taken(rows: Any, numbers: np.ndarray) -> np.ndarray:
    """Some rows of a Zarr array or any other."""
    return np.asarray(rows.oindex[numbers] if hasattr(rows, "oindex") else rows[numbers])
