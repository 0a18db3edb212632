"""Stage 1: every kind of array gives the same points, twins are one point, bad input is named in one line."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani.errors import ScalemaniError
from scalemani.points import reading
from scalemani.points.digests import RowIndex, row_digests
from scalemani.points.reading import row_blocks
from scalemani.points.rows import looks_like_distances, read_points
from scalemani.steps.inputs import FeatureInput


def twins(m=40, r=2, d=3, seed=0):
    """m points, each r times, shuffled."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.normal(size=(m, d)), r, axis=0)[rng.permutation(m * r)]


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def slow_distinct(X):
    """First occurrences and the map to them, row by row; the obvious reference."""
    first, distinct, known = [], [], {}
    for i, row in enumerate(np.asarray(X, dtype=np.float64) + 0.0):
        key = row.tobytes()
        if key not in known:
            known[key] = len(first)
            first.append(i)
        distinct.append(known[key])
    return np.array(first), np.array(distinct)


@pytest.fixture
def sources(tmp_path):
    """The same matrix as every kind of array that can be read."""

    def make(X):
        np.save(tmp_path / "x.npy", X)
        stored = zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, chunks=(7, 2), dtype=X.dtype)
        stored[:] = X
        return {
            "numpy": X,
            "fortran": np.asfortranarray(X),
            "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
            "csr": sp.csr_array(X),
            "coo_matrix": sp.coo_matrix(X),
            "dask": da.from_array(X, chunks=(11, 2)),
            "zarr": stored,
            "list": X.tolist(),
            "object": X.astype(object),
            "big-endian": X.astype(">f8"),
            "longdouble": X.astype(np.longdouble),
        }

    return make


def test_every_kind_of_array_gives_the_same_points(sources, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 8 * 3 * 9)  # nine rows a block: twins lie in different blocks
    X = twins()
    X[X < -1] = 0
    first, distinct = slow_distinct(X)
    for kind, source in sources(X).items():
        points = read_points(source)
        assert np.array_equal(dense(points.rows), X[first]), kind
        assert np.array_equal(points.distinct, distinct), kind
        assert (points.n_rows, points.n_features, points.n_distinct) == (80, 3, len(first)), kind
        assert np.array_equal(points.digests, row_digests(points.rows)), kind


def test_dense_kinds_have_one_fingerprint_and_it_knows_content_and_order(sources):
    X = twins()
    made = {kind: read_points(source).fingerprint() for kind, source in sources(X).items()}
    assert len({value for kind, value in made.items() if kind not in ("csr", "coo_matrix")}) == 1
    assert made["csr"] == made["coo_matrix"]
    assert read_points(X[::-1]).fingerprint() != made["numpy"]
    changed = X.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], 1)
    assert read_points(changed).fingerprint() != made["numpy"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1.0, 2.5]), st.sampled_from([0, 1])), min_size=1))
def test_twins_are_merged_as_by_the_slow_reference(rows):
    X = np.array(rows, dtype=np.float64)
    first, distinct = slow_distinct(X)
    for source in (X, sp.csr_array(X)):
        points = read_points(source)
        assert np.array_equal(points.distinct, distinct)
        assert np.array_equal(dense(points.rows), X[first] + 0.0)


def test_minus_zero_is_zero_and_is_stored_so():
    points = read_points(np.array([[0.0, 1.0], [-0.0, 1.0]]))
    assert points.n_distinct == 1
    assert not np.signbit(read_points(np.array([[-0.0, 1.0]])).rows).any()
    assert np.array_equal(row_digests(np.array([[-0.0]])), row_digests(np.array([[0]])))


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i4", "f2", "f4", "f8"])
def test_exact_dtypes_are_kept_and_equal_the_same_rows_as_float64(dtype):
    X = np.random.default_rng(0).integers(0, 100, (30, 4)).astype(dtype)
    points = read_points(X)
    assert points.rows.dtype == np.dtype(dtype)
    assert np.array_equal(points.digests, read_points(X.astype(np.float64)).digests)


@pytest.mark.parametrize("dtype", ["i8", "u8", "?", "g"])
def test_other_dtypes_become_float64(dtype):
    X = np.random.default_rng(0).integers(0, 2, (30, 9)).astype(dtype)
    assert read_points(X).rows.dtype == np.float64


def test_the_users_array_is_neither_changed_nor_shared():
    X = np.array([[-0.0, 1.0], [2.0, 3.0]])
    points = read_points(X)
    assert np.signbit(X[0, 0])
    assert not np.shares_memory(points.rows, X)
    S = sp.csr_array(([1.0, -1.0, 2.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))  # a repeated entry
    read_points(S)
    assert S.nnz == 3


def test_repeated_and_stored_zero_entries_of_csr_do_not_hide_twins():
    S = sp.csr_array(([2.0, 0.0, 1.0, 1.0], [0, 1, 0, 0], [0, 2, 4]), shape=(2, 2))
    points = read_points(S)
    assert points.n_distinct == 1
    assert points.rows.nnz == 1
    assert np.array_equal(*row_digests(S))


def test_chunks_of_a_stored_array_are_read_whole_and_once(monkeypatch):
    read = []

    class Stored:
        """What a Zarr array looks like; records the rows that are read."""

        shape, dtype, chunks = (100, 3), np.dtype(float), (7, 3)

        def __getitem__(self, rows):
            read.append((rows.start, min(rows.stop, 100)))
            return np.arange(300.0).reshape(100, 3)[rows]

    monkeypatch.setattr(reading, "BLOCK_BYTES", 8 * 3 * 30)
    assert read_points(Stored()).n_distinct == 100
    assert read == [(0, 28), (28, 56), (56, 84), (84, 100)]


def test_dask_blocks_are_computed_once_and_unknown_lengths_are_read():
    calls = []

    def counted(block):
        calls.append(len(block))
        return block

    X = twins()
    lazy = da.from_array(X, chunks=(10, 3)).map_blocks(counted, dtype=float, meta=np.empty((0, 0)))
    assert read_points(lazy).n_rows == 80
    assert calls == [10] * 8
    unknown = lazy[lazy[:, 0] > -np.inf]
    assert np.isnan(unknown.shape[0])
    assert read_points(unknown).fingerprint() == read_points(X).fingerprint()


def test_row_blocks_follow_the_kind_of_the_training_rows():
    X = twins()
    for like in (X, sp.csr_array(X)):
        for source in (X, sp.csr_array(X)):
            blocks = [block for _, block in row_blocks(source, like=like)]
            assert all(sp.issparse(block) == sp.issparse(like) for block in blocks)
            assert np.array_equal(np.concatenate([dense(block) for block in blocks]), X)


def test_a_test_set_may_have_no_rows_but_not_another_number_of_columns():
    assert list(row_blocks(np.empty((0, 3)), n_features=3)) == []
    with pytest.raises(ScalemaniError, match=r"T has 4 features, but \w+ is expecting 3 features as input"):
        list(row_blocks(np.empty((5, 4)), "T", n_features=3))


BAD = {
    "complex": (np.ones((2, 2)) + 1j, "Complex data not supported"),
    "complex object": (np.array([[1, 2j]], dtype=object), "Complex data not supported"),
    "complex csr": (sp.csr_array(np.ones((2, 2)) + 1j), "Complex data not supported"),
    "strings": ([["a", "b"]], "dtype <U1"),
    "dates": (np.array([["2020-01-01"]], dtype="M8[D]"), "dtype datetime64"),
    "object of strings": (np.array([[1, "2"]], dtype=object), "'2' at row 0, column 1"),
    "object of lists": (np.array([[[1, 2], 3]], dtype=object), "row 0, column 0"),
    "ragged": ([[1, 2], [3]], "can't be read as a matrix"),
    "no rows": (np.empty((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
    "no columns": (np.empty((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
    "1-d": (np.arange(3.0), r"Reshape your data either using array.reshape\(-1, 1\)"),
    "3-d": (np.ones((2, 2, 2)), r"shape \(2, 2, 2\).*array.reshape\(len\(array\), -1\)"),
    "scalar": (3.0, "0 dimensions"),
    "None": (None, "0 dimensions"),
    "masked": (np.ma.masked_less(np.arange(6.0).reshape(2, 3), 2), "masked"),
    "large integers": (np.array([[2**53 + 1, 0]]), "9007199254740993"),
    "NaN": (np.where(np.eye(40) * (np.arange(40) == 33), np.nan, 1.0), "NaN at row 33, column 33"),
    "inf": (np.where(np.eye(40) * (np.arange(40) == 33), -np.inf, 1.0), "inf at row 33, column 33"),
    "NaN in csr": (sp.csr_array(np.diag([1.0, 1.0, np.nan])), "NaN at row 2, column 2"),
    "NaN in dask": (da.from_array(np.diag([1.0, np.nan]), chunks=1), "NaN at row 1, column 1"),
    "too large": (np.array([[np.longdouble("1e400")]]), "inf at row 0, column 0"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_line_that_says_what_came(kind, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 8 * 40 * 7)  # rows are counted from the start of X
    source, message = BAD[kind]
    with pytest.raises(ScalemaniError, match=message) as caught:
        read_points(source)
    assert "\n" not in str(caught.value)


def test_an_object_that_is_no_number_is_a_type_error():
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        read_points(np.array([[{"foo": "bar"}, 1.0]], dtype=object))


def test_row_index_finds_rows_of_any_dtype_and_nothing_else():
    X = np.random.default_rng(0).integers(0, 50, (200, 3)).astype(np.uint8)
    points = read_points(X)
    index = RowIndex(points.digests)
    assert np.array_equal(index.find(row_digests(X.astype(np.float64))), points.distinct)
    assert (index.find(row_digests(X + 0.5)) == -1).all()
    assert len(index.find(np.empty((0, 2), np.uint64))) == 0


def test_row_index_tells_digests_with_the_same_first_word_apart():
    digests = np.array([[5, 1], [5, 2], [4, 9], [5, 0]], dtype=np.uint64)
    wanted = np.array([[5, 0], [5, 2], [5, 3], [4, 9], [5, 1]], dtype=np.uint64)
    assert RowIndex(digests).find(wanted).tolist() == [3, 1, -1, 2, 0]


@pytest.mark.parametrize("n", [30, 700])
def test_distances_given_as_features_are_recognised(n, tmp_path):
    x = np.random.default_rng(0).normal(size=n)
    D = np.abs(x[:, None] - x)
    D[:, -1], D[-1, :] = D[:, 0], D[0, :]  # a twin, which read_points merges
    D[-1, 0] = D[0, -1] = D[-1, -1] = 0
    stored = zarr.create_array(str(tmp_path / "d.zarr"), shape=D.shape, chunks=(64, 64), dtype=D.dtype)
    stored[:] = D
    kinds = (D, D.astype(np.float32), D.tolist(), sp.csr_array(D), da.from_array(D), stored)
    for source in kinds:
        assert looks_like_distances(read_points(source))
    skewed = D + np.arange(n)[:, None] * 1e-3 * (1 - np.eye(n))
    for other in (D[:, :-1], D + np.eye(n), skewed, -D, np.zeros((n, n))):
        assert not looks_like_distances(read_points(other))


def test_reading_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_points(np.array([[1e30, 2]], dtype=np.longdouble))


def test_a_square_dask_array_is_computed_once_by_a_fit():
    """The look for distances is at the rows that were read, not at the source again."""
    computed = []

    def block(values):
        computed.append(len(values))
        return values

    X = np.random.default_rng(0).standard_normal((60, 60))
    source = da.from_array(X, chunks=(10, 60)).map_blocks(block, dtype=X.dtype, meta=np.empty((0, 0)))
    assert FeatureInput(source, "euclidean").n_distinct == 60
    assert computed == [10] * 6
