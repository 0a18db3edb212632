"""Slow, obvious, dense references: what each stage must equal. None of them shares code with the library."""

import numpy as np
import scipy.linalg as sl
from scipy.sparse.csgraph import dijkstra


def geodesics(graph):
    """All shortest paths (n, n) in float64, by SciPy; stored zeros are edges."""
    return dijkstra(graph, directed=True)


def rounded_rows(graph, sources):
    """Float32 weights summed in float64, rounded once to float32: relax every edge until nothing changes."""
    n = graph.shape[0]
    tails = np.repeat(np.arange(n), np.diff(graph.indptr))
    heads, weights = graph.indices, graph.data.astype(np.float32)
    rows = np.full((len(sources), n), np.inf)
    for row, source in zip(rows, sources, strict=True):
        row[source] = 0
        while True:
            before = row.copy()
            np.minimum.at(row, heads, before[tails] + weights)
            if np.array_equal(row, before):
                break
    return rows.astype(np.float32)


def centring(n):
    """J = I - 11'/n."""
    return np.eye(n) - 1 / n


def doubly_centred(A):
    """B(A) = -1/2 J A J."""
    J = centring(len(A))
    return -0.5 * J @ A @ J


def kernels(D):
    """K1 = B(D) and K2 = B(D∘D)."""
    D = np.asarray(D, float)
    return doubly_centred(D), doubly_centred(D**2)


def shifted(D, c):
    """D + c off the diagonal."""
    return np.asarray(D, float) + c * (1 - np.eye(len(D)))


def kernel(D, c):
    """K(c), from the shifted distances themselves."""
    return doubly_centred(shifted(D, c) ** 2)


def cailliez_matrix(D):
    """[[0, 2 K2], [-J, -4 K1]], 2n x 2n; Cailliez writes I for J, which differs on the vector 1 alone."""
    K1, K2 = kernels(D)
    n = len(D)
    return np.block([[np.zeros((n, n)), 2 * K2], [-centring(n), -4 * K1]])


def constant_by_matrix(D, imaginary=1e-6):
    """c*: the largest real eigenvalue of Cailliez's matrix, at least 0."""
    values = sl.eigvals(cailliez_matrix(D))
    real = values.real[np.abs(values.imag) <= imaginary * np.abs(values).max()]
    return max(0.0, float(real.max()))


def constant_by_bisection(D):
    """c*: the end of the set of c where K(c) is positive semidefinite on the complement of 1."""
    off_ones = sl.null_space(np.ones((1, len(D))))

    def lowest(c):
        return sl.eigvalsh(off_ones.T @ kernel(D, c) @ off_ones)[0]

    if lowest(0.0) >= 0:
        return 0.0
    high = 1.0
    while lowest(high) < 0:
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lowest(middle) < 0 else (low, middle)
    return high


def constant_by_newton(D):
    """c*: from 0, go to the root of v'K(c)v for the lowest eigenvector v of K(c), until it is no longer negative."""
    K1, K2 = kernels(D)
    n, c = len(D), 0.0
    J = centring(n)
    out_of_the_way = np.abs(K2).sum() + 1.0  # 1 is a null vector of every K(c): lift it
    for _ in range(200):
        K = K2 + 2 * c * K1 + c * c / 2 * J + out_of_the_way * np.ones((n, n)) / n
        values, vectors = sl.eigh(K, subset_by_index=[0, 0])
        v = vectors[:, 0]
        a, b = v @ K1 @ v, v @ K2 @ v
        if values[0] >= 0 or 4 * a * a < 2 * b:
            return c
        new = -2 * a + np.sqrt(4 * a * a - 2 * b)
        if new <= c * (1 + 1e-14):
            return c
        c = new
    raise AssertionError("Newton's iteration did not end")


def constant_by_fourier(d):
    """c* of a translation-invariant D, from its first row as an array over the group (a circulant: the DFT)."""
    a = (-np.fft.fftn(d) / 2).real.ravel()[1:]
    b = (-np.fft.fftn(d**2) / 2).real.ravel()[1:]
    bound = 4 * a * a >= 2 * b
    return max(0.0, float((-2 * a + np.sqrt(np.where(bound, 4 * a * a - 2 * b, 0)))[bound].max()))


def top_pairs(K, p):
    """The p largest eigenvalues of K, descending, and their vectors."""
    values, vectors = sl.eigh(K)
    return values[::-1][:p], vectors[:, ::-1][:, :p]


def same_up_to_sign(ours, theirs, atol):
    """Columns agree after their signs are aligned."""
    signs = np.sign(np.einsum("ij,ij->j", ours, theirs))
    np.testing.assert_allclose(ours * np.where(signs == 0, 1, signs), theirs, rtol=0, atol=atol)


def same_subspace(ours, theirs, atol):
    """Orthonormal columns span the same space: the sine of the largest angle is below atol."""
    assert ours.shape == theirs.shape
    assert np.linalg.norm(ours - theirs @ (theirs.T @ ours), 2) <= atol


def conformal(D, lists, bridges=()):
    """C-Isomap: mean distance M of each point to those it lists, and all paths of the union graph of |ij| / √(M_i M_j).

    A point that lists nobody has the mean of its bridges.
    """
    joined = {i: [j for pair in bridges for j in pair if i in pair and j != i] for i in range(len(D))}
    M = np.array([D[i, near if len(near) else joined[i]].mean() for i, near in enumerate(lists)])
    lengths = np.full(D.shape, np.inf)
    for i, near in [*enumerate(lists), *((i, [j]) for i, j in bridges)]:
        for j in near:
            lengths[i, j] = lengths[j, i] = D[i, j] / np.sqrt(M[i] * M[j])
    return M, dense_paths(lengths)


def dense_paths(lengths):
    """All shortest paths of dense lengths, inf where there is no edge."""
    return dijkstra(np.where(np.isfinite(lengths), lengths, 0), directed=False)


def conformal_rows(paths, M, near, far):
    """The paths of new points, which lie `far` (l, k) from their neighbours `near` (l, k), to all others."""
    edges = far / np.sqrt(far.mean(axis=1, keepdims=True) * M[near])
    return (edges[:, :, None] + paths[near]).min(axis=1)


def scaled(D, p=2):
    """Classical scaling: coordinates, eigenvalues, vectors, and column means of D∘D."""
    values, vectors = np.linalg.eigh(doubly_centred(D**2))
    values, vectors = values[::-1][:p], vectors[:, ::-1][:, :p]
    return vectors * np.sqrt(values), values, vectors, (D**2).mean(axis=0)


def placed(rows, values, vectors, means):
    """Classical projection of points by their paths to all (l, n)."""
    k = -0.5 * (rows**2 - means)
    return (k - k.mean(axis=1, keepdims=True)) @ vectors / np.sqrt(values)


def turned(points, onto):
    """The turn with a dilation (p, p), and the shift (p,), that bring points (n, p) nearest to others: y = x T + t."""
    mean, there = points.mean(axis=0), onto.mean(axis=0)
    left, sizes, right = np.linalg.svd((points - mean).T @ (onto - there))
    turn = left @ right * sizes.sum() / ((points - mean) ** 2).sum()
    return turn, there - mean @ turn
