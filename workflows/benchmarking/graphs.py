"""Graphs to measure shortest paths on: neighbour graphs of points, and graphs made to be hard.

All are as the geodesic stage gets them: symmetric, vertices in vertex order, float32 weights over a power of two
near their median, the largest component.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, triu

from scalemani.demo import swiss_roll
from scalemani.formats.points import open_points
from scalemani.geodesics.rows import power_of_two_scale
from scalemani.graph.build import make_graph, symmetric_graph
from scalemani.neighbors.search import find_neighbors
from scalemani.points.rows import read_points

SHORT = 1e-4  # of an edge of the graph with two scales, against a long one


def gaussian(features: int) -> Callable[[int], np.ndarray]:
    """Maker of n standard normal points; their graph's hops grow with the features, and its windows with them."""
    return lambda n: np.random.default_rng(0).standard_normal((n, features))


def sphere(n: int) -> np.ndarray:
    points = gaussian(3)(n)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def bump_images(n: int, side: int = 28, width: float = 3.0) -> np.ndarray:
    """Images of one Gaussian bump, its centre uniform over the inner part of a pixel grid: two dimensions in 784.

    Two images whose bumps are apart by a small shift are at a distance proportional to it.

    Returns
    -------
    ndarray of float32, shape (n, side²)
    """
    pixels = np.arange(side)
    centers = np.random.default_rng(0).uniform(width, side - 1 - width, (n, 2, 1))
    rows, columns = np.exp(-((pixels - centers) ** 2) / (2 * width**2)).astype(np.float32).transpose(1, 0, 2)
    return np.einsum("nr,nc->nrc", rows, columns).reshape(n, side * side)


POINTS: dict[str, Callable[[int], np.ndarray]] = {
    "roll": lambda n: swiss_roll(n, random_state=0).points,
    "gauss5": gaussian(5),
    "gauss10": gaussian(10),
    "sphere": sphere,
    "bump": bump_images,
}


def neighbour_graph(points: np.ndarray, k: int, threads: int) -> csr_array:
    """Union of k-neighbour lists; searched exactly in few features, as ``knn="auto"`` chooses in many."""
    knn = "exact" if points.shape[1] <= 10 else "auto"
    lists = find_neighbors(read_points(points), n_neighbors=k, knn=knn, threads=threads)
    return prepared(symmetric_graph(lists))


def prepared(matrix: csr_array) -> csr_array:
    """A symmetric matrix of weights as the geodesic stage gets it."""
    matrix = make_graph(matrix, disconnected="largest").matrix
    weights = (matrix.data / power_of_two_scale(matrix.data)).astype(np.float32)
    return csr_array((weights, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)), shape=matrix.shape)


def star(n: int) -> csr_array:
    """One hub; every path has two edges."""
    leaves = np.arange(1, n)
    return prepared(undirected(np.zeros(n - 1, np.int64), leaves, n))


def line(n: int) -> csr_array:
    """One path of n - 1 edges: sums of as many roundings, and no two sources near each other in hops."""
    return prepared(undirected(np.arange(n - 1), np.arange(1, n), n))


def power_law(n: int, m: int = 3) -> csr_array:
    """Each vertex joined to m earlier ones in proportion to their degrees (Batagelj and Brandes, 2005)."""
    draws = (np.random.default_rng(0).random(m * n) * (2 * np.arange(m * n) + 1)).astype(np.int64)
    ends = [0] * (2 * m * n)
    for edge, draw in enumerate(draws.tolist()):
        ends[2 * edge] = edge // m
        ends[2 * edge + 1] = ends[draw]
    return prepared(undirected(np.array(ends[::2]), np.array(ends[1::2]), n))


def two_scales(n: int) -> csr_array:
    """A roll's graph, half of whose edges are shortened to a ten-thousandth: the order of arrival has no windows."""
    upper = triu(neighbour_graph(POINTS["roll"](n), 10, 1), format="csr").astype(np.float64)
    upper.data[np.random.default_rng(0).random(upper.nnz) < 0.5] *= SHORT
    return prepared(csr_array(upper + upper.T))


HARD: dict[str, Callable[[int], csr_array]] = {
    "star": star,
    "line": line,
    "power law": power_law,
    "two scales": two_scales,
}


def undirected(rows: np.ndarray, columns: np.ndarray, n: int) -> csr_array:
    """Edges between two lists of vertices, each once, with lengths uniform in [0.5, 1.5]."""
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    low, high = np.unique(np.column_stack([low, high])[low < high], axis=0).T
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(low))
    half = csr_array((weights, (low, high)), shape=(n, n))
    return csr_array(half + half.T)


def graph(name: str, n: int, k: int, threads: int, file: str | None = None, kept: Path | None = None) -> csr_array:
    """A graph by its name in `POINTS` or `HARD`, or of the first n rows of a file ("file").

    Parameters
    ----------
    kept : Path, optional
        Folder in which graphs are kept for the next run; searching neighbours takes longer than measuring.
    """
    label = Path(str(file)).name.replace(":", "-") if name == "file" else name.replace(" ", "-")
    path = None if kept is None else kept / f"{label}-{n}-{k}.npz"
    if path is not None and path.exists():
        return read_graph(path)
    if name in HARD:
        made = HARD[name](n)
    elif name == "file":
        made = neighbour_graph(np.asarray(open_points(str(file)).values[:n], dtype=np.float32), k, threads)
    else:
        made = neighbour_graph(POINTS[name](n), k, threads)
    if path is not None:
        write_graph(path, made)
    return made


def write_graph(path: Path, matrix: csr_array) -> None:
    np.savez(path, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr)


def read_graph(path: Path) -> csr_array:
    with np.load(path) as kept:
        n = len(kept["indptr"]) - 1
        return csr_array((kept["data"], kept["indices"], kept["indptr"]), shape=(n, n))
