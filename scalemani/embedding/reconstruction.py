"""Locally linear embedding: weights that rebuild each row from its neighbours, and A = I - W. Pure functions.

W (n, n) holds each row's weights, which sum to 1, so A 1 = 0. The axes are the right singular vectors of A from below,
without the constant one (:mod:`scalemani.kernel.bottom`). A new row lies where its own weights put it.

Sources: Roweis and Saul, "Nonlinear dimensionality reduction by locally linear embedding" (Science 290, 2000); for
kernels DeCoste (2001); Vladymyrov and Carreira-Perpiñán, "Locally linear landmarks for large-scale manifold learning"
(2013).
"""

from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.kernel import blas
from scalemani.kernel.eigensolver import fixed_signs


def weights_of(grams: F64, reg: float = 1e-3, equal: NDArray[np.bool_] | None = None) -> F64:
    """Weights w (m, k) of neighbours, from local Gram matrices C (m, k, k): (C + reg tr(C) I) w = 1, w /= Σw.

    reg: Where tr(C) is 0, the matrix is reg I and all weights are alike. (Scikit-learn's rule.)
    equal (m, k): Which neighbours equal the row: the first of them has weight 1, which reg would make a little less.
    Raises ScalemaniError: C + reg tr(C) I is singular.

    >>> weights_of(np.array([[[1.0, -1.0], [-1.0, 1.0]]])).tolist()  # a row in the middle between two
    [[0.5, 0.5]]
    """
    k = grams.shape[1]
    trace = np.trace(grams, axis1=1, axis2=2)
    ridge = np.where(trace > 0, reg * trace, reg)[:, None, None] * np.eye(k)
    try:
        weights = np.linalg.solve(grams + ridge, np.ones((len(grams), k, 1)))[:, :, 0]
    except np.linalg.LinAlgError:
        raise ScalemaniError(
            f"reg={reg:g}: a row has neighbours that rebuild it with many weights; give a larger one, such as 1e-3"
        ) from None
    weights /= weights.sum(axis=1, keepdims=True)
    if equal is not None:
        same = equal.any(axis=1)
        weights[same] = np.eye(k)[equal[same].argmax(axis=1)]
    return np.asarray(weights)


def reconstruction(indptr: I64, indices: I64, weights: F64) -> Any:
    """A = I - W (n, n), CSR: row i of W has `weights` at `indices`, both from indptr[i] to indptr[i + 1]."""
    n = len(indptr) - 1
    return (eye_array(n, format="csr") - csr_array((weights.ravel(), indices.ravel(), indptr), (n, n))).tocsr()


def closed_classes(indptr: I64, indices: I64) -> tuple[I64, NDArray[np.bool_]]:
    """The closed classes of neighbour lists: sets in which every row leads to every other, and which no list leaves.

    A has a null vector for each of them, however connected the graph without directions is: an embedding needs one.

    Returns the number of each row's class (n,), the largest first, -1 of rows in none; and which rows lead into the
    largest class and into no other (n,): all their neighbours are among them.
    """
    n = len(indptr) - 1
    lists = csr_array((np.ones(len(indices)), indices, indptr), (n, n), copy=True)
    lists.sum_duplicates()  # of which SciPy never finds the components
    count, label = connected_components(lists, directed=True, connection="strong")
    start, end = np.repeat(label, np.diff(indptr)), label[indices]
    closed = np.ones(count, bool)
    closed[start[start != end]] = False
    sizes, first = np.bincount(label), np.unique(label, return_index=True)[1]
    number = np.full(count, -1, np.int64)
    number[np.lexsort((first, -sizes, ~closed))[: closed.sum()]] = np.arange(closed.sum())
    classes = number[label]
    back, others = lists.T.tocsr(), np.flatnonzero(classes > 0)
    indices = np.concatenate([back.indices, others])  # of one more row, which leads back from all other classes
    indptr = np.append(back.indptr, len(indices))
    reached = breadth_first_order(
        csr_array((np.ones(len(indices)), indices, indptr), (n + 1, n + 1)), n, return_predecessors=False
    )
    alone = np.ones(n + 1, bool)
    alone[reached] = False
    return classes, alone[:n]


def placed(idx: I64, weights: F64, coordinates: F64) -> F64:
    """New rows (m, p) by their weights (m, k) of the training rows idx (m, k), whose coordinates are (n, p)."""
    return np.asarray(blas.product(weights[:, None, :], coordinates[idx])[:, 0])


# ---- landmarks ---------------------------------------------------------------------------------------


def landmark_weights(idx: I64, weights: F64, count: int, landmarks: I64 | None = None) -> Any:
    """Z (m, count), CSR: each row's weights of the landmarks idx (m, k) that are nearest to it.

    landmarks (count,): Where the rows are the training rows, which of them are the landmarks: their own weight is 1.
    """
    if landmarks is not None:
        idx, weights = idx.copy(), weights.copy()
        idx[landmarks], weights[landmarks] = np.arange(count)[:, None], np.eye(1, idx.shape[1])
    m, k = idx.shape
    return csr_array((weights.ravel(), idx.ravel(), np.arange(0, m * k + 1, k)), (m, count))


def ritz_in_span(energy: Any, span: Any, p: int, mass: F64 | None = None) -> tuple[F64, F64, F64]:
    """The lowest pairs of a symmetric H among the vectors Z U, without the first, which is constant.

    energy (m, m): Z'HZ, sparse; of locally linear embedding (AZ)'(AZ).
    span (n, m): Z, sparse.
    mass (n,): Of each point, 1 unless given: U'Z' diag(mass) Z U = I.

    Returns p + 1 eigenvalues, the vectors Z U (n, p), and U (m, p), which places new rows by their own rows of Z.
    """
    weighted = span if mass is None else blas.product(diags_array(mass), span)
    inside, within = energy.toarray(), blas.product(span.T, weighted).toarray()
    last = min(p + 1, len(inside) - 1)
    values, turn = sl.eigh((inside + inside.T) / 2, (within + within.T) / 2, subset_by_index=[1, last])
    found = blas.product(span, turn[:, :p])
    fixed = fixed_signs(found)
    return values, fixed, turn[:, :p] * np.sign((fixed * found).sum(axis=0))
