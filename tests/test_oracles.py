"""Values from R (cmdscale), ape and scikit-learn, reached through every way that leads to the same D.

The files in oracles/ hold points, neighbour graphs, geodesic distances, and what those programs
made of them (R 4.2.2, ape 5.7, scikit-learn 1.9.1). Tiles are float32: D carries a relative error of
6e-8, which moved c by at most 2e-8 and eigenvalues by 3e-8 when it was measured; the tolerances
1e-6 and 1e-5 are what users are promised.
"""

import functools
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg as sl
import scipy.sparse as sp

from scalemani import Isomap, KernelIsomap
from scalemani.kernel.operators import centered

CASES = ("scurve200_k8", "sphere150_k7", "gauss120_k5", "iris150_k10")
COMPONENTS = 3
pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.LooksLikeDistancesWarning"),
]


def oracle(name):
    with np.load(Path(__file__).parent / "oracles" / f"{name}.npz") as file:
        return dict(file)


def given_graph(values):
    """The case's graph, bridges included, as a symmetric sparse matrix with its zero edges stored."""
    edges, weights, n = values["edges"], values["weights"], len(values["D"])
    rows, columns = np.concatenate([edges, edges[:, ::-1]]).T
    return sp.coo_array((np.tile(weights, 2), (rows, columns)), shape=(n, n)).tocsr()


def input_of(values, way):
    if way == "geodesic":
        return values["D"], {"metric": "geodesic"}
    if way == "graph":
        return given_graph(values), {"metric": "precomputed"}
    if way == "complete":
        return values["D"], {"metric": "precomputed", "n_neighbors": len(values["D"]) - 1}
    return values["X"], {"n_neighbors": int(values["k"])}


WAYS = [(case, way) for case in CASES for way in ("geodesic", "graph", "complete", "points")]
WAYS.remove(("iris150_k10", "points"))  # its twin rows are one point there: another, smaller problem


def same_subspaces(ours, theirs, values, rtol):
    """Coordinates agree after signs; where eigenvalues are close, the planes of the cluster do."""
    scale = np.abs(theirs).max()
    start = 0
    for stop in range(1, len(values) + 1):
        if stop < len(values) and values[stop - 1] - values[stop] < 0.05 * values[stop - 1]:
            continue  # the same cluster goes on
        a, b = ours[:, start:stop], theirs[:, start:stop]
        u, _, v = np.linalg.svd(a.T @ b)
        np.testing.assert_allclose(a @ (u @ v), b, rtol=0, atol=rtol * scale)
        start = stop


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """A function to fits with the constant and without, of one D for both."""

    @functools.cache
    def of(case, way):
        path = tmp_path_factory.mktemp(f"{case}-{way}") / "run"
        X, arguments = input_of(oracle(case), way)
        return [kind(n_components=COMPONENTS, store=path, **arguments).fit(X) for kind in (KernelIsomap, Isomap)]

    return of


@pytest.mark.parametrize(("case", "way"), WAYS)
def test_cailliez_agrees_with_r(case, way, fits):
    values, (model, _) = oracle(case), fits(case, way)
    np.testing.assert_allclose(model.additive_constant_, values["R_ac"].item(), rtol=1e-6)
    np.testing.assert_allclose(model.eigenvalues_, values["R_add_eig"][:COMPONENTS], rtol=1e-5)
    same_subspaces(model.embedding_, values["R_add_points"], values["R_add_eig"][:COMPONENTS], 1e-5)


@pytest.mark.parametrize(("case", "way"), WAYS)
def test_no_correction_agrees_with_r_and_scikit_learn(case, way, fits):
    values, (_, model) = oracle(case), fits(case, way)
    np.testing.assert_allclose(model.eigenvalues_, values["R_noadd_eig"][:COMPONENTS], rtol=1e-5)
    same_subspaces(model.embedding_, values["R_noadd_points"], values["R_noadd_eig"][:COMPONENTS], 1e-5)
    same_subspaces(model.embedding_, values["sklearn_embedding_sameD"], values["R_noadd_eig"][:COMPONENTS], 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_constant_is_tight(case, fits):
    """min eig K(c) is 0 and min eig K(0.9 c) is well below: a constant that is merely large enough fails."""
    values = oracle(case)
    n = len(values["D"])
    c = fits(case, "geodesic")[0].additive_constant_

    def ends(c):
        k1, k2 = (-0.5 * centered(centered(a).T) for a in (values["D"], values["D"] ** 2))
        return sl.eigvalsh(k2 + 2 * c * k1 + c**2 / 2 * (np.eye(n) - 1 / n))[[0, -1]]

    low, high = ends(c)
    assert low >= -1e-6 * high
    assert ends(0.9 * c)[0] <= -0.09 * c**2 / 2


def test_twins_of_iris_are_one_point_from_rows_and_two_from_distances(fits):
    """Rows 101 and 142 are equal. As distances they stay two points (c = 2.89740), one of them less gives 2.89581."""
    values = oracle("iris150_k10")
    model = KernelIsomap(n_neighbors=10, n_components=3, disconnected="join").fit(values["X"])
    assert model.spectrum_["n_distinct"] == 149
    np.testing.assert_array_equal(model.embedding_[101], model.embedding_[142])
    both = fits("iris150_k10", "geodesic")[0]
    np.testing.assert_allclose(both.additive_constant_, 2.89740, rtol=2e-6)  # five digits are printed
    kept = np.delete(np.arange(150), 142)
    one = KernelIsomap(metric="geodesic", n_components=3).fit(values["D"][np.ix_(kept, kept)])
    np.testing.assert_allclose(one.additive_constant_, 2.89581, rtol=2e-6)
