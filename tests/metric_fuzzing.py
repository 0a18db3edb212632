"""What metrics are, after SciPy's definitions (scikit-learn's and pynndescent's where it has none), and rows to try.

    python tests/metric_fuzzing.py SECONDS [SEED]

tries metrics on rows in and out of their domains: what is found must be equal, or refused where that is right.
"""

import sys
import time
import warnings
from collections import Counter

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from scipy.stats import entropy, spearmanr, wasserstein_distance
from sklearn.metrics.pairwise import haversine_distances

from scalemani import Isomap
from scalemani.errors import NothingInCommonWarning, ScalemaniError, UnreachableWarning
from scalemani.neighbors.metrics import METRICS, domain_check
from scalemani.neighbors.search import find_neighbors
from scalemani.points.rows import read_points

COMPILED = ("kantorovich", "sinkhorn")  # pynndescent's, which takes a minute to compile: they have tests of their own
TRIED = [name for name in METRICS if name not in COMPILED]
YES_OR_NO = ("jaccard", "dice", "matching", "kulsinski", "rogerstanimoto", "russellrao", "sokalsneath", "sokalmichener")
SHARES = ("hellinger", "wasserstein_1d", "circular_kantorovich", "jensen_shannon")


def takes(name, X):
    """Whether a metric is defined on dense rows, as the documentation says it."""
    constant = X.max(1) == X.min(1)
    if name in ("cosine", "dot", "true_angular"):
        return X.any(1).all()
    if name in ("correlation", "spearmanr"):
        return not constant.any()
    if name == "braycurtis":
        return (X >= 0).all()
    if name in (*SHARES, "tsss"):
        return (X >= 0).all() and X.any(1).all()
    if name == "symmetric_kl":
        return (X > 0).all()
    if name in YES_OR_NO or name == "yule":
        return np.isin(X, (0, 1)).all() and (name != "yule" or not constant.any())
    if name.startswith("bit_"):
        return np.isin(X, np.arange(256)).all()
    return name != "haversine" or (X.shape[1] == 2 and (np.abs(X) <= [np.pi / 2 + 1e-7, 2 * np.pi + 1e-7]).all())


def each(function, X):
    return np.array([[function(x, y) for y in X] for x in X], float)


def between_rows(name, X, params):
    """Distances (n, n) between dense rows; the diagonal means nothing."""
    if name in YES_OR_NO or name == "yule" or name.startswith("bit_"):
        given = np.unpackbits(X.astype(np.uint8), axis=1) if name.startswith("bit_") else X
        given, d = given.astype(bool), given.shape[1]
        if name == "bit_hamming":
            return cdist(given, given, "hamming") * d
        if name == "bit_jaccard":
            return -np.log(1 - cdist(given, given, "jaccard"))
        if name == "kulsinski":
            return each(lambda x, y: ((x != y).sum() - (x & y).sum() + d) / ((x != y).sum() + d), given)
        return cdist(given, given, "rogerstanimoto" if name == "sokalmichener" else name)
    P = X / X.sum(1, keepdims=True) if name in (*SHARES, "symmetric_kl") else None
    if name == "hellinger":
        return np.sqrt(np.maximum(1 - np.sqrt(P) @ np.sqrt(P).T, 0))
    if name == "jensen_shannon":
        return np.nan_to_num(cdist(X, X, "jensenshannon")) ** 2  # the root of a rounded -1e-17 is NaN there
    if name == "symmetric_kl":
        return each(lambda x, y: entropy(x, y) + entropy(y, x), X)
    if name == "wasserstein_1d" and params["p"] == 1:
        bins = np.arange(X.shape[1])
        return each(lambda x, y: wasserstein_distance(bins, bins, x, y), X)
    if name == "wasserstein_1d":
        return cdist(P.cumsum(1), P.cumsum(1), "minkowski", p=params["p"])
    if name == "circular_kantorovich":  # mass that goes once round is free to be chosen: the best of all starts
        return each(lambda x, y: min(np.abs(x - y - g).sum() for g in x - y), P.cumsum(1))
    if name == "haversine":
        return haversine_distances(X)
    if name == "spearmanr":
        return each(lambda x, y: 1 - spearmanr(x, y).statistic, X)
    if name == "true_angular":
        return np.arccos(np.clip(1 - cdist(X, X, "cosine"), -1, 1)) / np.pi
    if name == "dot":
        return np.minimum(cdist(X, X, "cosine"), 1)
    if name == "tsss":  # Heidarian and Dinneen, 2016

        def tsss(x, y):
            a, b = np.linalg.norm(x), np.linalg.norm(y)
            theta = np.arccos(np.clip(x @ y / (a * b), -1, 1)) + np.radians(10)
            sector = (np.linalg.norm(x - y) + abs(a - b)) ** 2 * theta / 2
            return a * b * np.sin(theta) / 2 * sector

        return each(tsss, X)
    theirs = {"manhattan": "cityblock", "wminkowski": "minkowski"}.get(name, name)
    return cdist(X, X, theirs, **params)


def parameters(name, d, rng):
    spread = rng.normal(size=(d, d))
    return {
        "minkowski": {"p": float(rng.choice([1, 1.5, 2, 3, 9]))},
        "seuclidean": {"V": rng.random(d) + 0.1},
        "wminkowski": {"w": rng.random(d) + 0.1, "p": float(rng.choice([1, 2, 3]))},
        "mahalanobis": {"VI": spread @ spread.T + np.eye(d)},
        "wasserstein_1d": {"p": float(rng.choice([1, 2, 3]))},
    }.get(name, {})


KINDS = ["normal", "offset", "positive", "shares", "sparse", "counts", "groups", "bits", "bit_groups", "bytes"]
KINDS += ["few_bytes", "angles", "degrees"]


def rows_to_try(rng, n, d):
    """Rows of some kind, and sometimes one or a few entries or rows that are of another."""
    X = {
        "normal": lambda: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4),
        "offset": lambda: rng.normal(size=(n, d)) + 100,
        "positive": lambda: rng.random((n, d)) + 1e-3,
        "shares": lambda: rng.dirichlet(np.full(d, 0.3), n),
        "sparse": lambda: rng.random((n, d)) * (rng.random((n, d)) < 0.4),
        "counts": lambda: rng.poisson(0.8, (n, d)).astype(float),
        "groups": lambda: np.kron(np.eye(2), np.ones((n // 2, d // 2))) * rng.random((2 * (n // 2), 2 * (d // 2))),
        "bits": lambda: (rng.random((n, d)) < rng.choice([0.15, 0.5, 0.9])).astype(float),
        "bit_groups": lambda: (
            np.kron(np.eye(2), np.ones((n // 2, d // 2))) * (rng.random((2 * (n // 2), 2 * (d // 2))) < 0.7)
        ),
        "bytes": lambda: rng.integers(0, 256, (n, d)).astype(float),
        "few_bytes": lambda: 2.0 ** rng.integers(0, 8, (n, d)) * (rng.random((n, d)) < 0.5),
        "angles": lambda: (rng.random((n, d)) - 0.5) * np.pi,
        "degrees": lambda: (rng.random((n, d)) - 0.5) * 180,
    }[rng.choice(KINDS)]()
    spoil = rng.choice(["", "", "", "zeros", "constant", "negative", "twins", "opposite", "half"])
    at = rng.integers(len(X))
    if spoil == "zeros":
        X[at] = 0
    elif spoil == "constant":
        X[at] = X[at, 0]
    elif spoil == "negative":
        X[at, rng.integers(X.shape[1])] *= -1
    elif spoil == "twins":
        X[at] = X[0]
    elif spoil == "opposite":
        X[at] = -X[0]
    elif spoil == "half":
        X[at, rng.integers(X.shape[1])] += 0.5
    return X + 0.0


def distances_found(name, X, params, given):
    """Distances (n, n) between distinct rows that are listed; inf where one is not."""
    points = read_points(given, check=domain_check(name))
    lists = find_neighbors(points, n_neighbors=points.n_distinct - 1, metric=name, metric_params=params, knn="exact")
    D = np.full((points.n_distinct, points.n_distinct), np.inf)
    D[np.repeat(np.arange(len(D)), np.diff(lists.indptr)), lists.indices] = lists.distances
    assert lists.left_out == np.isinf(D).sum() - len(D)
    return D, np.unique(points.distinct, return_index=True)[1]


def expected_edges(name, X, params):
    """The reference's distances, inf where rows have nothing in common, as the documentation says it."""
    with np.errstate(all="ignore"):
        D = between_rows(name, X, params)
    known = METRICS[name]
    if known.apart is not None and ((X >= 0).all() or not known.non_negative):
        D[known.apart * (X.shape[1] if known.by_feature else 1) * (1 - 1e-9) <= D] = np.inf
    np.fill_diagonal(D, np.inf)
    return D


# Root of a sum that SciPy has with an error of 1e-16: angles and Hellinger's distance are known to 1e-8 near 0.
NEAR = dict.fromkeys(("true_angular", "hellinger", "haversine"), 3e-7)


def trial(rng, fitted):
    """One metric on some rows: what came of it ("equal", "refused"), or an AssertionError."""
    name = TRIED[rng.integers(len(TRIED))]
    n, d = int(rng.integers(6, 16)), 2 if name == "haversine" and rng.random() < 0.8 else int(rng.integers(1, 9))
    X = rows_to_try(rng, n, max(d, 2))[:, :d] if d < 2 else rows_to_try(rng, n, d)
    params = parameters(name, X.shape[1], rng)
    given = sp.csr_array(X) if rng.random() < 0.3 else X.astype(rng.choice(["f8", "f8", "f4"]))
    X = np.asarray(given.toarray() if sp.issparse(given) else given, np.float64)
    if len(np.unique(X, axis=0)) < 4:
        return "too few rows"
    defined, told = bool(takes(name, X)), f"{name} {params} {X.tolist()}"
    try:
        D, first = distances_found(name, X, params, given)
    except ScalemaniError as error:
        assert not defined, f"{error}: {told}"
        assert "\n" not in str(error) and name in str(error), str(error)
        return "refused"
    assert defined, f"not refused: {told}"
    expected = expected_edges(name, X[first], params)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    near = NEAR.get(name, 1e-11) * max(scale, 1)
    np.testing.assert_allclose(D, expected, rtol=1e-7, atol=near, err_msg=told)
    if fitted:
        check_fit(name, X, params, given, first, expected, told)
    return "equal"


def check_fit(name, X, params, given, first, expected, told):
    """An estimator's geodesics are the shortest paths along the reference's distances."""
    labels = sp.csgraph.connected_components(np.isfinite(expected), directed=False)[1]
    inside = labels == np.bincount(labels).argmax()
    if inside.sum() < 3:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Isomap(n_neighbors=len(first) - 1, metric=name, metric_params=params or None, disconnected="largest",
                       knn="exact", n_components=1)  # fmt: skip
        lengths = expected[np.triu_indices(len(first), 1)]
        lengths = lengths[np.isfinite(lengths)]
        try:
            found = model.fit(given).geodesics(first)[:, first]
        except ScalemaniError as error:  # what float32 can't hold with its square is refused, and nothing else is
            wide = lengths.sum() > 1e17 * np.median(lengths)
            assert wide and "float32 can't hold both" in str(error), f"{error}: {told}"
            return
        assert np.isfinite(model.transform(given[first])).all(axis=1).tolist() == inside.tolist(), told
    edges = np.where(np.isfinite(expected), np.maximum(expected, 1e-300), 0)
    paths = shortest_path(sp.csr_array(edges), directed=False)
    both = np.ix_(inside, inside)
    near = max(NEAR.get(name, 1e-11), 1e-6) * max(float(paths[both].max()), 1e-3)
    np.testing.assert_allclose(found[both], paths[both], rtol=1e-5, atol=near, err_msg=told)
    assert np.isnan(found[~inside]).all()


def fuzz(seconds, seed, most=10**9, fits=20):
    """Trials until the time or their number is used up: how many of them had which end."""
    ends, until, number = Counter(), time.monotonic() + seconds, 0
    while time.monotonic() < until and number < most:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingInCommonWarning)
            warnings.simplefilter("ignore", UnreachableWarning)
            ends[trial(np.random.default_rng([seed, number]), fitted=number % fits == 0)] += 1
        number += 1
    return ends


if __name__ == "__main__":
    begun = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 10**6
    print(f"seed {begun}: {dict(fuzz(float(sys.argv[1]), begun))}")
