"""A method as kernel PCA: its kernel's spectrum, and distances in feature space against those on the map and in X.

The squared distance of two points in the feature space of K is K_ii + K_jj - 2 K_ij. Over all axes it is that of kernel
PCA's map, so the two say how much of the kernel the map's axes show. Rows of K are asked of the method, those of some
hundred points at a time: no K of n points is made unless all are looked at.

Source: Ham, Lee, Mika and Schölkopf, "A kernel view of the dimensionality reduction of manifolds" (ICML 2004).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from scalemani.aliases import F64, I64
from scalemani.cluster.machine import parse_memory
from scalemani.embedding.kernel_functions import squared_distances
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.geodesics.rows import shared_graph
from scalemani.kernel import blas
from scalemani.methods.words import Chart, Section
from scalemani.model import Run, run_of
from scalemani.parameters import Parameters
from scalemani.report.charts import kernel_panels
from scalemani.report.drawing import Figure, kind_of_picture, picture
from scalemani.steps.records import MethodRecord
from scalemani.steps.weights import rows_in
from scalemani.words import count, percent

MOST_VIEWED, MOST_NONZEROS = 10_000, 5_000_000  # points, and of a factor, up to which a report has it for seconds
SAMPLED, MOST_WHOLE = 200, 1000  # points of it, where there are more than so many


@dataclass(frozen=True, eq=False)
class ViewedKernel:
    """A kernel among the points that were looked at.

    name: Such as "K(c)", "L+", "M+".
    eigenvalues: From above: all n where all points were looked at, else the p of the map's axes.
    trace: Where not all points were looked at, an estimate by K_ii of those that were drawn.
    distances (m, m): In feature space: the root of K_ii + K_jj - 2 K_ij, 0 where rounding makes it negative.
    """

    name: str
    eigenvalues: F64
    trace: float
    distances: F64

    @property
    def shares(self) -> F64:
        """Of each eigenvalue in the trace."""
        return self.eigenvalues / self.trace


@dataclass(frozen=True, eq=False)
class KernelView:
    """What :func:`kernel_view` finds of m of a fit's n points.

    rows (m,): The user's rows that were looked at.
    points (m, p): Their coordinates.
    embedded (m, m): Distances on the map.
    straight (m, m): Euclidean distances of the rows of X, sparse ones to 1e-7 of their sizes; None without features.
    near (e, 2): Pairs of them, by their places in `rows`, that are neighbours in the graph.
    border, center: Places of a point at the end of axis 1, and of the one that is nearest to the middle of the map.
    kernels: The method's own, then others of it.
    n: Points in the graph; equal rows are one.
    """

    rows: I64
    points: F64
    embedded: F64
    straight: F64 | None
    near: I64
    border: int
    center: int
    kernels: tuple[ViewedKernel, ...]
    n: int

    @property
    def centre(self) -> int:
        """The old name of `center`."""
        return self.center

    def correlation(self, one: F64, other: F64, *, local: bool = False) -> float:
        """Of two kinds of distances (m, m) over all pairs, or over neighbours in the graph; NaN of too few or equal."""
        x, y = self.pairs(one, local=local), self.pairs(other, local=local)
        if len(x) < 2 or min(np.ptp(x) / max(x.max(), 1e-300), np.ptp(y) / max(y.max(), 1e-300)) < 1e-12:
            return float("nan")
        return float(np.corrcoef(x, y)[0, 1])

    def pairs(self, distances: F64, *, local: bool = False) -> F64:
        """Distances (m, m) of each pair once, or of each pair of neighbours in the graph."""
        i, j = self.near.T if local else np.triu_indices(len(self.rows), 1)
        return np.asarray(distances[i, j])

    def draw(self, path: Any = None) -> Figure:
        """Eigenvalues, distances against one another, and contours of feature distance.

        path: Of a file to write; its end says the kind, .png, .svg or .pdf. Others are a ScalemaniError.
        """
        kind = None if path is None else kind_of_picture(path)
        figure = kernel_panels(self)
        if kind is not None:
            Path(path).write_bytes(picture(figure, kind))
        return figure


def kernel_view(model: Any, n_rows: int = 500, random_state: Any = 0) -> KernelView:
    """Look at a fitted model as kernel PCA of its method's kernel.

    That is the one of `model.kernel`, and of LLE M+, M = (I - W)'(I - W). Where all points are looked at there is
    beside it K2 without the correction (kernel Isomap), or the largest eigenvalue of M less M (LLE).

    model: A fitted Isomap, KernelIsomap, LaplacianEigenmaps or LLE, not by landmarks.
    n_rows: At most so many points, 3 or more; of a fit of no more all of them, and all eigenvalues are found. Else half
        are drawn at random, and with each one of its neighbours in the graph. L+ and M+ take a solve a point.
    random_state: Draws them: an integer, a NumPy generator or None.
    -> Arrays, and `draw`.
    Raises ScalemaniError: The model is not fitted, or has no kernel between its rows. DoesNotFitError: Rows of the
        kernel don't fit in memory.
    """
    run = run_of(model, "kernel_view")
    if isinstance(n_rows, bool) or not isinstance(n_rows, int | np.integer) or n_rows < 3:
        raise ScalemaniError(f"n_rows={n_rows!r}: a whole number of points to look at, 3 or more, is allowed")
    return _look(run, int(n_rows), Parameters(random_state=random_state).seeded(None).random_state)


def _look(run: Run, n_rows: int, seed: Any = 0, *, whole: bool = True) -> KernelView:
    """At all that a view has; else at the method's own kernel, and not at X."""
    run.check_current()
    kernels = run.method.kernels(run.store)
    if not kernels:
        name = run.store.needed(MethodRecord).name
        raise ScalemaniError(f"{name} has no kernel between rows to look at; isomap, laplacian-eigenmaps and lle have")
    row_of = np.unique(run.vertex, return_index=True)[1][-(run.vertex.max() + 1) :]  # of each vertex one row
    n, m = len(row_of), min(n_rows, len(row_of))
    if (size := 8 * m * (len(run.vertex) + 3 * n)) > (free := parse_memory(None)):
        raise DoesNotFitError(
            f"n_rows={n_rows}: {m:,} rows of a kernel of {n:,} points take {size:,} bytes, and half of the free memory "
            f"is {free:,}: give a smaller n_rows"
        )
    graph = csr_array((n, n)) if run.data.given else shared_graph(run.store.path, run.store.identity)
    chosen, drawn = _chosen(graph, m, np.random.default_rng(seed))
    Y, seen = run.embedding()[row_of], list[ViewedKernel]()
    for name, maker in list(kernels.items())[: None if whole and m == n else 1]:
        values = run.kernel_rows(row_of[chosen], maker)[:, row_of]
        own = values[:, chosen]
        distances = np.sqrt(np.maximum(np.add.outer(own.diagonal(), own.diagonal()) - own - own.T, 0.0))
        if m < n:
            found, trace = _of_axes(values, Y, chosen, drawn)
        else:
            found, trace = np.asarray(np.linalg.eigvalsh((own + own.T) / 2)[::-1]), float(np.trace(own))
        seen.append(ViewedKernel(name, found, trace, distances))
    points, near = Y[chosen], graph[chosen][:, chosen].tocoo().coords
    shown = whole and run.data.fields.kind == "features"
    X = rows_in(run.store)[run.store.read_array("order")[chosen]] if shown else None
    return KernelView(
        rows=row_of[chosen],
        points=points,
        embedded=cdist(points, points),
        straight=None if X is None else np.sqrt(squared_distances(X, X)),
        near=np.stack(near, axis=1)[near[0] < near[1]],
        border=int(points[:, 0].argmin()),
        center=int(np.linalg.norm(points - np.median(points, axis=0), axis=1).argmin()),
        kernels=tuple(seen),
        n=n,
    )


def _chosen(graph: Any, m: int, rng: np.random.Generator) -> tuple[I64, NDArray[np.bool_]]:
    """At most m vertices, rising, and which of them were drawn: the others are neighbours of one that was."""
    n = graph.shape[0]
    if m == n:
        return np.arange(n), np.ones(n, bool)
    drawn = rng.choice(n, (m + 1) // 2 if graph.nnz else m, replace=False)
    begin, degree = graph.indptr[drawn[: m // 2]], np.diff(graph.indptr)[drawn[: m // 2]]
    some = degree > 0
    beside = graph.indices[begin[some] + rng.integers(degree[some])].astype(np.int64)
    chosen = np.union1d(drawn, beside)
    return chosen, np.isin(chosen, drawn)


def _of_axes(values: F64, Y: F64, chosen: I64, drawn: NDArray[np.bool_]) -> tuple[F64, float]:
    """Eigenvalues of K by the axes Y (n, p), multiples of its eigenvectors, and rows of it (m, n); and its trace.

    To their sum the trace adds n times the mean of what the axes leave of K_ii, over the points that were drawn.
    """
    V = Y[:, np.abs(Y).max(axis=0) > 0]
    V = V / np.linalg.norm(V, axis=0)
    here = V[chosen]
    found = (blas.product(values, V) * here).sum(axis=0) / (here**2).sum(axis=0)
    left = values[drawn, chosen[drawn]] - (here[drawn] ** 2 * found).sum(axis=1)
    return np.asarray(np.sort(found)[::-1]), float(found.sum() + len(Y) * left.mean())


def kernel_sections(run: Run) -> list[Section]:
    """The section of the page, where the kernel takes but seconds; none where there is no kernel."""
    n, spectrum = int((run.vertex >= 0).sum()), run.spectrum
    most = MOST_WHOLE if spectrum.get("correction") == "flip" else MOST_VIEWED  # flip takes all eigenpairs
    if not run.method.kernels(run.store) or n > most or (spectrum.get("factor_nonzeros") or 0) > MOST_NONZEROS:
        return []
    try:
        view = _look(run, SAMPLED if n > MOST_WHOLE else MOST_WHOLE, whole=False)
    except ScalemaniError:  # of landmarks, of a diffusion, of distances that are gone
        return []
    kernel, whole = view.kernels[0], len(view.rows) == view.n
    far, near = (view.correlation(kernel.distances, view.embedded, local=local) for local in (False, True))
    made = " K2 is the squared distances times -1/2, with rows and columns centred." if "K2" in kernel.name else ""
    words = [
        f"The axes are those of kernel PCA with {kernel.name}, and hold {'' if whole else 'about '}"
        f"{percent(float(kernel.shares[: view.points.shape[1]].sum()))} of its trace. Distances in the kernel's "
        f"feature space correlate with distances on the map by {far:.3f}, over all {'' if whole else 'sampled '}pairs"
        f"{'' if np.isnan(near) else f', and by {near:.3f} over neighbours in the graph'}.{made}"
    ]
    caption = (
        f"Of {count(len(view.rows), 'point')}. Left: eigenvalues. Middle: distances of pairs, of all above and of "
        "neighbours in the graph below. Right: feature distance from the cross, which is at an end of axis 1 above and "
        "in the middle below. Colours that spread evenly around it say that feature distance is distance on the map."
    )
    alt = "Eigenvalues of the kernel, distances in its feature space against those on the map, and their contours."
    return [Section("The method's kernel", words, pictures=[Chart("kernel", [view], caption, alt)])]
