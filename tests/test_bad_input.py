"""What can't be meant is refused in one line that says what came and what to do, before any file is made."""

import os
import warnings
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import roll
from scipy.spatial.distance import cdist

from scalemani import Isomap, KernelIsomap
from scalemani.errors import (
    DisconnectedGraphError,
    FarRowsWarning,
    NoPathLengthsWarning,
    RankWarning,
    ScalemaniError,
    SolverError,
)
from scalemani.steps.inputs import read_input

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

X = roll(40)
D = cdist(X, X)
G = sp.csr_array(np.where(D < 12, D, 0))


def changed(array, **places):
    """A copy with array[row, column] = value for "row_column" = value."""
    out = array.copy()
    for place, value in places.items():
        row, column = map(int, place.strip("_").split("_"))
        out[row, column] = value
    return out


def refused(message, X, arguments, path):
    """fit refuses X with `message`, in one line, and nothing is at `path` then."""
    with pytest.raises(ScalemaniError, match=message) as caught:
        KernelIsomap(**{"n_neighbors": 5, "store": path, **arguments}).fit(X)
    text = str(caught.value)
    assert isinstance(caught.value, ValueError) and "\n" not in text and 20 < len(text) < 2000
    assert not os.path.lexists(path)


# ---- X -------------------------------------------------------------------------------------------

POINTS = {
    "nan": (changed(X, _7_1=np.nan), "NaN at row 7, column 1.*drop or fill"),
    "inf": (changed(X, _7_1=-np.inf), "inf at row 7, column 1.*drop or fill"),
    "nan in float16": (changed(X, _7_1=np.nan).astype(np.float16), "NaN at row 7, column 1"),
    "inf from a long double": (X * np.longdouble("1e4000"), "inf at row 0, column 0"),
    "nan in csr": (sp.csr_array(changed(X, _7_1=np.nan)), "NaN at row 7, column 1"),
    "nan in dask": (da.from_array(changed(X, _37_1=np.nan), chunks=(9, 3)), "NaN at row 37, column 1"),
    "complex": (X + 1j, "Complex data.*real numbers"),
    "complex csr": (sp.csr_array(X + 1j), "Complex data.*real numbers"),
    "strings": (X.astype(str), "dtype <U.*real numbers"),
    "bytes": (X.astype(bytes), "dtype .S.*real numbers"),
    "object strings": (np.array([["1", "x"]] * 9, object), "holds '1' at row 0, column 0"),
    "dates": (np.zeros((9, 2), "datetime64[s]"), "datetime64.*real numbers"),
    "structured": (np.zeros(9, [("a", float), ("b", float)]), "real numbers"),
    "ragged": ([[1.0, 2.0], [3.0]], "matrix of numbers"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "no rows in csr": (sp.csr_array((0, 3)), "0 sample"),
    "none": (None, "0 dimensions"),
    "a number": (np.float64(3), "0 dimensions"),
    "1-d": (X[:, 0], r"shape \(40,\).*reshape"),
    "3-d": (X[None], r"3 dimensions, shape \(1, 40, 3\)"),
    "one row": (X[:1], "1 distinct.*minimum of 2"),
    "all rows equal": (np.ones((40, 3)), "1 distinct.*39 of them repeats"),
    "twins of zeros": (np.array([[0.0], [-0.0]]), "1 distinct"),
    "integer beyond float64": (np.full((9, 2), 2**53 + 1), "2\\*\\*53"),
    "masked": (np.ma.array(X, mask=X > 5), "masked entries; fill or drop"),
}


@pytest.mark.parametrize("case", POINTS)
def test_points_that_are_none(case, tmp_path):
    refused(POINTS[case][1], POINTS[case][0], {}, tmp_path / "run.zarr")


def test_data_frames_with_text_name_the_place(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(9.0), "b": ["x"] * 9})
    refused("'x' at row 0, column 1", frame, {}, tmp_path / "run.zarr")


def test_zarr_chunks_that_are_not_there_are_the_fill_value(tmp_path):
    """zarr reads a missing chunk as fill: NaN is refused by row; 0 can't be told from data."""
    stored = zarr.create_array(tmp_path / "x.zarr", shape=(40, 3), chunks=(10, 3), dtype="f8", fill_value=np.nan)
    stored[:20] = X[:20]
    refused("NaN at row 20, column 0", stored, {}, tmp_path / "run.zarr")


# ---- sizes ---------------------------------------------------------------------------------------

TWINS = np.concatenate([X[:6], X[:6]])


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (X, {"n_neighbors": 40}, "n_neighbors=40 needs at least 41 distinct rows; X has 40"),
        (X, {"n_neighbors": 10**30}, "distinct rows; X has 40"),
        (TWINS, {"n_neighbors": 6}, r"n_neighbors=6 needs at least 7 .* X has 6 \(12 rows, 6 of them repeats\)"),
        (X, {"n_components": 40}, "n_components=40 needs at least 41 distinct rows; X has 40"),
        (TWINS, {"n_components": 6}, "n_components=6 needs at least 7 distinct rows; X has 6"),
        (D, {"n_neighbors": 40, "metric": "precomputed"}, "n_neighbors=40 .* 40"),
        (D, {"n_components": 40, "metric": "geodesic"}, "n_components=40 .* 40"),
        (G, {"n_components": 40, "metric": "precomputed"}, "n_components=40 .* 40"),
    ],
)
def test_too_few_rows_gives_both_numbers(rows, arguments, message, tmp_path):
    refused(message, rows, arguments, tmp_path / "run.zarr")


# ---- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": 3.0}, "both n_neighbors=5 and radius=3.0.*None"),
        ({"n_neighbors": None}, "n_neighbors=None and radius=None: give one"),
        ({"n_neighbors": 0}, "n_neighbors=0: an integer of 1 or more"),
        ({"n_neighbors": -1}, "n_neighbors=-1"),
        ({"n_neighbors": 5.0}, "n_neighbors=5.0: an integer"),
        ({"n_neighbors": True}, "n_neighbors=True: an integer"),
        ({"n_neighbors": "5"}, "n_neighbors='5': an integer"),
        ({"n_neighbors": None, "radius": 0.0}, "radius=0.0: a positive number"),
        ({"n_neighbors": None, "radius": -1}, "radius=-1: a positive number"),
        ({"n_neighbors": None, "radius": np.nan}, "radius=nan: a positive number"),
        ({"n_neighbors": None, "radius": np.inf}, "radius=inf: a positive number"),
        ({"n_neighbors": None, "radius": "far"}, "radius='far': a positive number"),
        ({"n_components": 0}, "n_components=0: an integer of 1 or more"),
        ({"n_components": 2.0}, "n_components=2.0: an integer"),
        ({"n_components": None}, "n_components=None: an integer"),
        ({"metric": "euclid"}, "metric='euclid'.*euclidean"),
        ({"metric": "Eucldean"}, "did you mean 'euclidean'"),
        ({"metric": "precompute"}, "did you mean 'precomputed'"),
        ({"knn": "nndecent"}, "did you mean 'nndescent'"),
        ({"landmark_method": "MaxMin"}, "did you mean 'maxmin'"),
        ({"compression": "zst"}, "did you mean 'zstd'.*None"),
        ({"metric": 5}, "metric=5"),
        ({"metric": None}, "metric=None"),
        ({"metric": "minkowski", "metric_params": {"q": 3}}, "has 'q': allowed are 'p'"),
        ({"metric": "minkowski", "metric_params": {"p": "x"}}, "metric_params.*p.*number"),
        ({"metric": "mahalanobis", "metric_params": {"vinv": np.eye(2)}}, "."),
        ({"graph": "both"}, "graph='both': allowed are 'union', 'mutual'"),
        ({"graph": None}, "graph=None: allowed are"),
        ({"disconnected": "ignore"}, "disconnected='ignore': allowed are 'error', 'join', 'largest'"),
        ({"correction": "lingo"}, "did you mean 'lingoes'. Allowed are 'cailliez', .*'flip', None or a number from 0"),
        ({"correction": -1.0}, "correction=-1.0: .*from 0"),
        ({"correction": np.nan}, "correction=nan"),
        ({"correction": np.inf}, "correction=inf"),
        ({"correction": True}, "correction=True"),
        ({"constant_solver": "lanczos"}, "constant_solver='lanczos': allowed are 'ritz', 'power', 'arnoldi'"),
        ({"projection": "linear"}, "projection='linear': allowed are 'continuous', 'paper'"),
        ({"knn": "faiss"}, "knn='faiss': allowed are 'auto', 'exact', 'nndescent'"),
        ({"tol": 0}, "tol=0: a number from 1e-12 to 1"),
        ({"tol": 1.0}, "tol=1.0: a number from 1e-12 to 1"),
        ({"tol": None}, "tol=None: a number from 1e-12 to 1"),
        ({"random_state": -1}, "random_state=-1"),
        ({"random_state": "seed"}, "random_state='seed'"),
        ({"random_state": 1.5}, "random_state=1.5"),
        ({"memory_limit": "much"}, "memory_limit='much': give bytes, or text such as '4GB'"),
        ({"memory_limit": -1}, "memory_limit=-1: give a positive number"),
        ({"memory_limit": 0}, "memory_limit=0"),
        ({"memory_limit": np.nan}, "memory_limit=nan"),
        ({"memory_limit": [1]}, r"memory_limit=\[1\]"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_parameters_that_can_not_be_meant(arguments, message, tmp_path):
    refused(message, X, arguments, tmp_path / "run.zarr")


def test_parameters_are_refused_before_x_is_looked_at(tmp_path):
    refused("tol", "not even data", {"tol": 2}, tmp_path / "run.zarr")


def test_an_address_without_a_scheduler(tmp_path):
    refused("'nowhere': .*check the address", X, {"scheduler": "nowhere"}, tmp_path / "run.zarr")


@pytest.mark.parametrize("name", ["metric", "graph", "disconnected", "correction", "knn"])
def test_an_array_for_a_word(name, tmp_path):
    with pytest.raises((ScalemaniError, TypeError)) as caught:
        KernelIsomap(**{"n_neighbors": 8, "store": tmp_path / "r", name: np.ones(2)}).fit(X)
    assert name in str(caught.value) and not (tmp_path / "r").exists()


@pytest.mark.parametrize("c", [1e200, 1e300])
def test_a_constant_whose_square_is_none(c, tmp_path):
    refused(r"correction=1e\+[23]00", X, {"correction": c}, tmp_path / "r")


def test_an_integer_beyond_float64(tmp_path):
    refused("correction=1000", X, {"correction": 10**400}, tmp_path / "r")
    refused("tol=1000", X, {"tol": 10**400}, tmp_path / "r")


def test_a_constant_whose_fourth_power_is_none_is_said_to_be_too_large(tmp_path):
    for c in (1e76, 1e150):
        with pytest.raises(SolverError, match="out of range; give a smaller one"):
            KernelIsomap(n_neighbors=8, correction=c).fit(X)


@pytest.mark.parametrize("half", [np.float32(0.5), Fraction(1, 2)])
def test_a_number_of_another_kind(half):
    expected = KernelIsomap(n_neighbors=8, correction=0.5).fit(X).embedding_
    np.testing.assert_array_equal(KernelIsomap(n_neighbors=8, correction=half).fit(X).embedding_, expected)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_lengths_whose_squares_are_none_are_right_or_refused(scale):
    try:
        model = Isomap(n_neighbors=8).fit(X * scale)
    except ScalemaniError as error:
        assert "scale" in str(error)
    else:
        plain = Isomap(n_neighbors=8).fit(X).embedding_
        np.testing.assert_allclose(model.embedding_ / scale, plain, atol=1e-5 * np.abs(plain).max())


def test_a_memory_limit_that_is_too_small_gives_both_numbers(tmp_path):
    refused(r"need [1-9][\d,]+ bytes .*memory_limit allows 1,000: raise", X, {"memory_limit": 1000}, tmp_path / "r")


@pytest.mark.parametrize("far", [1e19, 1e45, 1e120])
def test_lengths_that_float32_can_not_hold_beside_the_others_are_refused(far, tmp_path):
    """And nothing of D is written; what is dropped may be as far as it likes."""
    rows = np.concatenate([X, X[:1] + far])
    distant = changed(D, _3_9=far, _9_3=far)
    edges = G.tolil()
    edges[3, 9] = edges[9, 3] = far
    for given, arguments in (
        (distant, {"metric": "geodesic"}),
        (sp.csr_array(edges), {"metric": "precomputed"}),
        (rows, {"disconnected": "join"}),
    ):
        path = tmp_path / arguments.get("metric", "features")
        with pytest.raises(ScalemaniError, match=r"distances are \S+e\+\d+ times the median.*float32") as caught:
            KernelIsomap(n_neighbors=5, store=path, **arguments).fit(given)
        assert "\n" not in str(caught.value)
        assert not (path / "distances").exists()
    apart = np.full((42, 42), np.inf)
    apart[:40, :40] = D
    apart[40:, 40:] = [[0, far], [far, 0]]
    for given in (apart, sp.csr_array(sp.block_diag([G, apart[40:, 40:]]))):
        metric = "precomputed" if sp.issparse(given) else "geodesic"
        model = Isomap(metric=metric, disconnected="largest").fit(given)
        np.testing.assert_array_equal(np.isnan(model.embedding_).any(1), np.arange(42) >= 40)


def test_lengths_far_apart_within_float32_are_right():
    distant = changed(D, _3_9=1e17, _9_3=1e17)
    with (
        pytest.warns(NoPathLengthsWarning, match=r"rows 3 and 9 are at 1e\+17"),
        pytest.warns(FarRowsWarning, match="rows 3, 9 of X"),
        pytest.warns(RankWarning, match="rounding"),  # the rest is past float32 beside that one axis
    ):
        model = Isomap(metric="geodesic").fit(distant)
    assert model.geodesics([3])[0, 9] == pytest.approx(1e17, rel=1e-6)
    assert np.isfinite(model.embedding_).all()


# ---- distances and graphs ------------------------------------------------------------------------

DISTANCES = {
    "not square": (D[:, :-1], r"shape \(40, 39\): .*square"),
    "1-d": (D[0], r"shape \(40,\): .*square"),
    "empty": (D[:0, :0], "0 sample"),
    "negative": (changed(D, _3_9=-1.0, _9_3=-1.0), "negative distance at row 3, column 9"),
    "nan": (changed(D, _3_9=np.nan, _9_3=np.nan), "NaN at row 3, column 9"),
    "asymmetric": (changed(D, _3_9=D[3, 9] * 1.001), "not symmetric: .* at row 3, column 9"),
    "diagonal": (changed(D, _3_3=0.5), "0.5 on its diagonal at row 3"),
    "complex": (D + 1j, "complex128.*real"),
    "text": (D.astype(str), "real"),
    "masked": (np.ma.array(D, mask=D > 2), "masked"),
    "ragged": ([[0.0, 1.0], [2.0]], "X"),
}


@pytest.mark.parametrize(("given", "metric"), [(D, "precomputed"), (G, "precomputed"), (D, "geodesic")])
def test_given_distances_take_no_parameters_of_a_metric(given, metric):
    with pytest.raises(ScalemaniError, match=rf"{metric}' takes no metric_params, and .*'p': 3"):
        read_input(given, metric, {"p": 3})
    assert read_input(given, metric, {}).n_rows == 40


@pytest.mark.parametrize("metric", ["precomputed", "geodesic"])
@pytest.mark.parametrize("case", DISTANCES)
def test_distances_that_are_none(case, metric, tmp_path):
    refused(DISTANCES[case][1], DISTANCES[case][0], {"metric": metric}, tmp_path / "run.zarr")


@pytest.mark.parametrize("case", ["asymmetric", "nan", "negative", "diagonal"])
def test_distances_in_zarr_are_checked_too(case, tmp_path):
    stored = zarr.create_array(tmp_path / "d.zarr", shape=(40, 40), chunks=(7, 11), dtype="f8")
    stored[:] = DISTANCES[case][0]
    refused(DISTANCES[case][1], stored, {"metric": "geodesic"}, tmp_path / "run.zarr")


def test_asymmetry_far_below_the_first_blocks_is_found(tmp_path, monkeypatch):
    from scalemani.points import given_matrix

    monkeypatch.setattr(given_matrix, "BLOCK_BYTES", 8 * 40 * 7)
    refused("not symmetric: .* at row 37, column 38", changed(D, _38_37=99.0), {"metric": "geodesic"}, tmp_path / "r")
    refused("not symmetric: .* at row 1, column 38", changed(D, _38_1=99.0), {"metric": "geodesic"}, tmp_path / "r")


def test_infinite_distances(tmp_path):
    apart = D.copy()
    apart[:10, 10:] = apart[10:, :10] = np.inf
    refused("inf at row 0, column 10.*geodesic", apart, {"metric": "precomputed"}, tmp_path / "r")
    with pytest.raises(DisconnectedGraphError, match=r"2 components \(sizes 30, 10\).*largest"):
        KernelIsomap(metric="geodesic").fit(apart)
    with pytest.raises(ScalemaniError, match="can't be joined"):
        KernelIsomap(metric="geodesic", disconnected="join").fit(apart)
    holes = D.copy()
    holes[3, 9] = holes[9, 3] = np.inf
    refused("infinite between some points", holes, {"metric": "geodesic", "disconnected": "largest"}, tmp_path / "r")


GRAPHS = {
    "not square": (G[:, :-1], r"square.*\(40, 39\)"),
    "negative": (sp.csr_array(-G), r"-\d.* at \(\d+, \d+\).*not negative"),
    "nan": (sp.csr_array(G * np.nan), "nan"),
    "inf": (sp.csr_array(G * np.inf), "inf"),
    "asymmetric": (sp.csr_array(G + np.triu(G.toarray())), "not symmetric: .*one length"),
    "complex": (sp.csr_array(G * 1j), "real.*complex"),
    "empty": (sp.csr_array((0, 0)), "square"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_graphs_that_are_none(case, tmp_path):
    refused(GRAPHS[case][1], GRAPHS[case][0], {"metric": "precomputed"}, tmp_path / "run.zarr")


def test_a_sparse_matrix_is_no_matrix_of_geodesics(tmp_path):
    refused("sparse.*precomputed", G, {"metric": "geodesic"}, tmp_path / "run.zarr")


def test_a_given_graph_in_pieces_can_not_be_joined():
    pieces = sp.csr_array(sp.block_diag([G, G]))
    with pytest.raises(DisconnectedGraphError, match=r"2 components of 40, 40.*impossible"):
        KernelIsomap(metric="precomputed", disconnected="join").fit(pieces)


# ---- what is odd, and right ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        np.hstack([X, X])[:, ::2][:, [0, 1, 2]][:, ::-1][:, ::-1],
        X.astype(object),
        X.astype(">f8"),
        np.ma.array(X),
        np.asmatrix(X),
        X.tolist(),
        tuple(map(tuple, X)),
        sp.coo_array(X),
        sp.csc_matrix(X),
        da.from_array(X, chunks=(9, 2)),
    ],
    ids=("fortran", "strided", "columns", "object", "big", "masked", "matrix", "list", "tuple", "coo", "csc", "dask"),
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_every_other_form_of_the_same_rows_gives_the_same_coordinates(rows):
    reference = Isomap(n_neighbors=8, knn="exact").fit_transform(X)
    np.testing.assert_allclose(Isomap(n_neighbors=8, knn="exact").fit_transform(rows), reference, atol=1e-5 * 30)


def test_the_users_array_is_not_changed_and_may_be_read_only():
    rows = X.copy()
    rows[3, 1] = -0.0
    copy = rows.copy()
    rows.setflags(write=False)
    KernelIsomap(n_neighbors=8).fit(rows).transform(rows)
    np.testing.assert_array_equal(rows, copy)
    assert np.signbit(rows[3, 1])


def test_bits_are_numbers():
    bits = np.random.default_rng(0).random((60, 12)) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = Isomap(n_neighbors=8, metric="hamming").fit(bits)
        same = Isomap(n_neighbors=8, metric="hamming").fit(bits.astype(float))
    np.testing.assert_array_equal(ours.embedding_, same.embedding_)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_smallest_fits(n):
    rows = X[:n]
    model = KernelIsomap(n_neighbors=n - 1, n_components=1).fit(rows)
    assert model.additive_constant_ == 0 or n == 4
    np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=1e-5 * np.abs(model.embedding_).max())


def test_as_many_components_as_there_can_be():
    flat = np.random.default_rng(0).random((30, 40))
    model = KernelIsomap(n_neighbors=29, n_components=29).fit(flat)
    assert model.additive_constant_ == 0
    np.testing.assert_allclose(cdist(model.embedding_, model.embedding_), cdist(flat, flat), rtol=1e-5, atol=1e-5)
