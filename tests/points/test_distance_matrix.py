"""A matrix of distances is read by blocks, from any kind of array, and refused with row and column."""

import re
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import flat_distances, random_distances
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

from scalemani import Isomap, KernelIsomap
from scalemani.errors import NoPathLengthsWarning, ScalemaniError
from scalemani.points import given_matrix
from scalemani.points.given_matrix import DistanceMatrix, SymmetrySketch, distance_rows

N = 30


@pytest.fixture(params=[2, 7, N])
def rows_a_block(request, monkeypatch):
    """Blocks of two rows, of some, and all at once: nothing may depend on it."""
    monkeypatch.setattr(given_matrix, "BLOCK_BYTES", request.param * 8 * N)
    return request.param


@pytest.fixture
def D():
    return random_distances(N)


def components(sizes):
    """Distances inside components, inf between them; rows shuffled."""
    n = sum(sizes)
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    D = random_distances(n)
    D[labels[:, None] != labels] = np.inf
    return D, labels


# ---- what is read ------------------------------------------------------------------------------


def test_every_kind_of_array_is_the_same_matrix(D, tmp_path, rows_a_block):
    np.save(tmp_path / "D.npy", D)
    stored = zarr.create_array(tmp_path / "D.zarr", shape=D.shape, dtype="f8", chunks=(8, 8))
    stored[...] = D
    kinds = [
        D,
        np.asfortranarray(D),
        np.load(tmp_path / "D.npy", mmap_mode="r"),
        D.tolist(),
        da.from_array(D, chunks=(7, 11)),
        stored,
    ]
    made = [DistanceMatrix(kind) for kind in kinds]
    assert len({m.fingerprint for m in made}) == 1
    for matrix in made:
        assert matrix.n == N
        np.testing.assert_array_equal(matrix.block(slice(3, 9), slice(2, 5)), D[3:9, 2:5])
        np.testing.assert_array_equal(matrix.labels, np.zeros(N))


def test_the_fingerprint_knows_content_and_order_and_not_blocks_or_dtype(D, monkeypatch):
    D = np.rint(D * 100)
    base = DistanceMatrix(D).fingerprint
    assert DistanceMatrix(D.astype(np.int32)).fingerprint == base
    assert DistanceMatrix(D.astype(np.uint8)).fingerprint == base
    monkeypatch.setattr(given_matrix, "BLOCK_BYTES", 8 * N)
    assert DistanceMatrix(D).fingerprint == base
    swapped = D[np.ix_(np.r_[1, 0, 2:N], np.r_[1, 0, 2:N])]
    other = D.copy()
    other[3, 7] = other[7, 3] = D[3, 7] * (1 + 1e-15) + 1e-12
    assert len({base, DistanceMatrix(swapped).fingerprint, DistanceMatrix(other).fingerprint}) == 3


def test_it_is_never_read_whole(D, monkeypatch):
    """No slice is larger than a block; the matrix is symmetric, so half is read twice."""
    monkeypatch.setattr(given_matrix, "BLOCK_BYTES", 5 * 8 * N)
    seen = []
    block = DistanceMatrix.block

    def counted(self, rows, columns=slice(None)):
        found = block(self, rows, columns)
        seen.append(found.size)
        return found

    monkeypatch.setattr(DistanceMatrix, "block", counted)
    DistanceMatrix(D)
    assert max(seen) <= 5 * N
    assert sum(seen) <= 1.7 * D.size


@pytest.mark.parametrize(
    "rows",
    [np.arange(4, 11), np.array([3, 8, 20]), np.array([0, 2, 1, 3]), np.array([9, 8]), np.array([5, 5]), np.arange(0)],
)
def test_a_part_has_the_rows_and_columns_that_were_asked_for(D, rows_a_block, rows):
    """In that order: rows that only begin and end like a run are not one."""
    columns = np.array([0, 5, 6, 29])
    np.testing.assert_array_equal(DistanceMatrix(D).part(rows, columns), D[np.ix_(rows, columns)])


def test_the_sample_is_of_distances_off_the_diagonal(rows_a_block):
    """All other distances are 2: a diagonal entry among them would be a 0."""
    matrix = DistanceMatrix(2.0 * (1 - np.eye(N)))
    assert len(matrix.sample) >= 1000
    assert (matrix.sample == 2).all()


def test_the_median_of_the_sample_is_near_the_dense_one(rows_a_block):
    D = flat_distances(N)
    sample = DistanceMatrix(D).sample
    dense = D[~np.eye(N, dtype=bool)]
    assert np.median(sample) == pytest.approx(np.median(dense), rel=0.1)
    assert np.isin(sample, dense).all()


@pytest.mark.parametrize("sizes", [[18, 12], [3] * 10, [28, 1, 1]])
def test_the_sample_within_a_component_is_of_its_distances_alone(sizes, rows_a_block):
    """Each component has distances of its own size: those of the others give no median."""
    D, labels = components(sizes)
    D[labels[:, None] == labels] = 0
    D += np.where(labels[:, None] == labels, 1.0 + labels, np.inf)
    np.fill_diagonal(D, 0)
    matrix = DistanceMatrix(D, allow_inf=True)
    for label, size in enumerate(sizes):
        found = matrix.sample_within(np.flatnonzero(labels == label))
        assert len(found) == (size * 35 if size > 1 else 0)
        assert (found == 1.0 + label).all()
    assert len(matrix.sample_within(np.arange(N))) == len(matrix.sample) == len(matrix.sample_rows)


def test_the_longest_distance_of_each_row_is_exact(D, rows_a_block):
    D[3, 20] = D[20, 3] = 1e45
    np.testing.assert_array_equal(DistanceMatrix(D).row_longest, D.max(1))
    apart, labels = components([18, 12])
    expected = np.where(labels[:, None] == labels, apart, 0).max(1)
    np.testing.assert_array_equal(DistanceMatrix(apart, allow_inf=True).row_longest, expected)


def test_one_point_is_a_matrix():
    matrix = DistanceMatrix(np.zeros((1, 1)))
    assert (matrix.n, matrix.labels.tolist(), len(matrix.sample)) == (1, [0], 0)


# ---- components --------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[30], [20, 10], [1, 28, 1], [10, 10, 10], [1] * 30])
def test_components_are_found_from_the_pattern_of_inf(sizes, rows_a_block):
    D, labels = components(sizes)
    matrix = DistanceMatrix(D, allow_inf=True)
    np.testing.assert_array_equal(matrix.labels[:, None] == matrix.labels, labels[:, None] == labels)
    assert set(matrix.labels) == set(range(len(sizes)))
    assert np.isfinite(matrix.sample).all()


def test_inf_that_does_not_separate_components_is_refused(D, rows_a_block):
    D[4, 17] = D[17, 4] = np.inf
    with pytest.raises(ScalemaniError, match=r"infinite between some points that others connect \(row (4|17)\)"):
        DistanceMatrix(D, allow_inf=True)


def test_inf_on_one_side_alone_is_refused(D, rows_a_block):
    for i, j in ((4, 17), (17, 4)):
        bad = D.copy()
        bad[i, j] = np.inf
        with pytest.raises(ScalemaniError, match=r"not symmetric|others connect"):
            DistanceMatrix(bad, allow_inf=True)


# ---- what is refused ---------------------------------------------------------------------------

FAULTS = {
    "NaN": (3, 8, np.nan, r"NaN at row 3, column 8: .*remove or fill"),
    "negative": (8, 13, -1.0, r"a negative distance at row 8, column 13"),
    "inf": (2, 20, np.inf, r"inf at row 2, column 20: .*disconnected='largest'"),
    "minus inf": (2, 20, -np.inf, r"a negative distance at row 2, column 20"),
    "diagonal": (11, 11, 0.5, r"0\.5 on its diagonal at row 11: .*fill_diagonal\(D, 0\)"),
    "small diagonal": (29, 29, 1e-2, r"0\.01 on its diagonal at row 29: .*up to 0\.000\d is rounding"),
    "inf on the diagonal": (29, 29, np.inf, r"inf on its diagonal at row 29: .*fill_diagonal\(D, 0\)"),
    "NaN on the diagonal": (29, 29, np.nan, r"NaN at row 29, column 29: .*fill_diagonal\(D, 0\)"),
    "negative diagonal": (29, 29, -0.5, r"-0\.5 on its diagonal at row 29"),
    "small negative": (8, 13, -1e-5, r"a negative distance at row 8, column 13 \(-1e-05\)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_entry_is_named_by_row_and_column(D, rows_a_block, name):
    i, j, value, message = FAULTS[name]
    D[i, j] = D[j, i] = value
    with pytest.raises(ScalemaniError, match=rf"^distances has {message}") as caught:
        DistanceMatrix(D, "distances")
    assert "\n" not in str(caught.value)


class Chunked:
    """A matrix as Zarr's are: regular chunks, each read whole by whatever touches it; reads are counted."""

    def __init__(self, D, rows, columns):
        self.D, self.chunks, self.shape, self.dtype = D, (rows, columns), D.shape, D.dtype
        self.reads = np.zeros((-(-len(D) // rows), -(-len(D) // columns)), int)

    def __getitem__(self, key):
        rows, columns = (range(N)[part] for part in key)
        (r, c) = self.chunks
        self.reads[rows[0] // r : rows[-1] // r + 1, columns[0] // c : columns[-1] // c + 1] += 1
        return self.D[key]


@pytest.mark.parametrize("chunks", [(1, N), (4, N), (7, 11), (N, 3), (N, N)])
def test_each_chunk_of_a_symmetric_matrix_is_read_once(D, rows_a_block, chunks):
    apart = components([18, 12])[0]
    for given, allow in ((D, False), (D.astype(np.float32), False), (apart, True), (np.rint(D * 9), False)):
        source = Chunked(given, *chunks)
        found, plain = DistanceMatrix(source, allow_inf=allow), DistanceMatrix(given, allow_inf=allow)
        assert (source.reads == 1).all()
        assert found.fingerprint == plain.fingerprint
        np.testing.assert_array_equal(found.sample, plain.sample)
        np.testing.assert_array_equal(found.labels, plain.labels)


def test_each_block_of_a_dask_array_is_computed_once(D, monkeypatch):
    monkeypatch.setattr(given_matrix, "BLOCK_BYTES", 2 * 8 * N)
    computed = []

    def block(values):
        computed.append(values.shape)
        return values

    source = da.from_array(D, chunks=((5, 1, 9, 15), (10, 20))).map_blocks(block, dtype=D.dtype, meta=np.empty((0, 0)))
    DistanceMatrix(source)
    assert sorted(computed) == sorted((rows, columns) for rows in (5, 1, 9, 15) for columns in (10, 20))


@pytest.mark.parametrize("chunks", [(1, N), (4, N), (7, 11), (N, 3)])
@pytest.mark.parametrize(("i", "j"), [(0, 29), (29, 0), (5, 6), (16, 4)])
def test_chunks_and_arrays_are_judged_alike(D, rows_a_block, chunks, i, j):
    """One pair that is off by ten times what is allowed; rounding everywhere; inf around it."""
    rounded = D * (1 + 1e-7 * np.random.default_rng(0).standard_normal(D.shape))
    DistanceMatrix(Chunked(rounded, *chunks))
    for given in (D, rounded, D * 1e140, D * 1e200):
        bad = given.copy()
        bad[i, j] *= 1 + 1e-5
        with pytest.raises(ScalemaniError) as expected:
            DistanceMatrix(bad)
        source = Chunked(bad, *chunks)
        with pytest.raises(ScalemaniError, match=f"row {min(i, j)}, column {max(i, j)}") as found:
            DistanceMatrix(source)
        assert str(found.value) == str(expected.value)


def test_only_rows_that_differ_are_searched(D, rows_a_block):
    D[3, 9] *= 1 + 1e-8  # within what is allowed, beyond rounding: one more pass for two rows
    source = Chunked(D, 4, N)
    DistanceMatrix(source)
    assert (source.reads == 2).all()


def test_rounding_of_the_sums_raises_no_suspicion():
    """The largest are no metric, which would take 2000 searches and is not asked about here."""
    weights = np.random.default_rng(0).uniform(0.1, 1.0, (2000, 2000)).astype(np.float32).astype(np.float64)
    for D in (random_distances(3), random_distances(300), np.minimum(weights, weights.T)):
        n = len(D)
        for given in (D, D * 1e-9, D**8, np.ones((n, n))):
            sketch = SymmetrySketch(n)
            for start in range(0, n, 37):
                sketch.add(slice(start, start + 37), given[start : start + 37])
            assert len(sketch.suspects()) == 0


@pytest.mark.parametrize(("i", "j"), [(0, 29), (29, 0), (5, 6), (16, 4)])
def test_an_asymmetric_pair_is_named_with_both_numbers(D, rows_a_block, i, j):
    D[min(i, j), max(i, j)], D[max(i, j), min(i, j)] = 0.25, 0.75
    message = rf"not symmetric: 0\.25 at row {min(i, j)}, column {max(i, j)} and 0\.75 across.*\(D \+ D\.T\)/2"
    with pytest.raises(ScalemaniError, match=message):
        DistanceMatrix(D)


def test_rounding_of_float32_is_no_asymmetry_and_a_relative_thousandth_is(D):
    """At any scale: the tolerance is relative."""
    rng = np.random.default_rng(0)
    for scale in (1e-9, 1.0, 1e9):
        DistanceMatrix(D * scale * (1 + 1e-7 * rng.standard_normal(D.shape)))
        with pytest.raises(ScalemaniError, match="not symmetric"):
            DistanceMatrix(D * scale * (1 + 1e-3 * rng.standard_normal(D.shape)))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((3, 4)), r"shape \(3, 4\): a distance matrix is square"),
        (np.zeros(5), r"shape \(5,\).*squareform makes one of a condensed vector"),
        (np.zeros((1, 5)), r"shape \(1, 5\).*squareform makes one of a condensed vector"),
        (np.full((4, 4), 2.0) + np.diag(np.full(4, np.inf)), r"inf on its diagonal at row 0.*fill_diagonal"),
        (np.corrcoef(np.random.default_rng(0).random((6, 9))), "looks like similarities: the diagonal"),
        (np.exp(-flat_distances(9)), r"looks like similarities: the diagonal \(1 to 1\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.zeros((0, 0)), r"0 sample\(s\)"),
        (np.zeros((3, 3), complex), "(?i)complex"),
        (sp.csr_array((3, 3)), "is sparse.*metric='precomputed'"),
    ],
)
def test_what_is_no_matrix_of_distances_is_refused(matrix, message):
    with pytest.raises(ScalemaniError, match=message):
        DistanceMatrix(matrix)


def test_text_and_objects_are_refused():
    for matrix in (np.array([["a", "b"], ["c", "d"]]), np.array([[{}, 1], [1, {}]], object)):
        with pytest.raises((ScalemaniError, TypeError), match=r"X "):
            DistanceMatrix(matrix)


# ---- rounding ----------------------------------------------------------------------------------

T = np.random.default_rng(0).normal(size=(N, 60))
T[7] = T[3]  # at a distance of 0 but for rounding


def roots_in_float32(T):
    T = T.astype(np.float32)
    squares = (T * T).sum(1)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * T @ T.T, 0)) + 1e-3 * np.eye(len(T))


ROUNDED = {
    "1 - numpy.corrcoef": 1 - np.corrcoef(T),
    "scipy's correlation": cdist(T, T, "correlation"),
    "the squares of sums": np.sqrt(np.maximum(0, 2 * N * (1 - np.corrcoef(T)) + 1e-16)),
    "float32": (1 - np.corrcoef(T)).astype(np.float32),
    "the roots of |x|² + |y|² - 2xy in float32": roots_in_float32(T),
    "float16": cdist(T, T).astype(np.float16) + np.diag(np.full(N, 1e-3, np.float16)),
}


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_rounding_beside_the_other_distances_is_zero(name, scale, rows_a_block):
    """On the diagonal, and below 0; whatever the blocks, and for chunks alike."""
    given = ROUNDED[name] * (scale if name != "float16" else 1)
    given[7, 3], given[3, 7] = -2e-16 * given.max(), 1e-16 * given.max()
    before, expected = given.copy(), np.maximum(given.astype(np.float64), 0)
    np.fill_diagonal(expected, 0)
    for form in (given, da.from_array(given, chunks=(7, 11)), Chunked(given, 4, N)):
        matrix = DistanceMatrix(form)
        np.testing.assert_array_equal(matrix.block(slice(0, N)), expected)
        np.testing.assert_array_equal(matrix.block(slice(5, 9), slice(2, 8)), expected[5:9, 2:8])
        np.testing.assert_array_equal(matrix.part(np.array([3, 7]), np.array([7, 3])), expected[[3, 7]][:, [7, 3]])
        assert matrix.fingerprint == DistanceMatrix(expected).fingerprint, "it is of what is used"
    np.testing.assert_array_equal(given, before)


def test_two_directions_are_compared_beside_the_other_distances(D, rows_a_block):
    """A small distance may be all rounding; a share of a usual one is none."""
    D[4, 9], D[9, 4] = 1e-9, 3e-9
    DistanceMatrix(D)
    D[4, 9], D[9, 4] = 1e-4, 3e-4
    with pytest.raises(ScalemaniError, match=r"not symmetric: 0\.0001 at row 4, column 9 and 0\.0003 across"):
        DistanceMatrix(D)


@pytest.mark.parametrize("metric", ["precomputed", "geodesic"])
def test_rounding_changes_no_coordinate(metric):
    """Of a fit and of test rows."""
    rounded, D = 1 - np.corrcoef(T), cdist(T, T, "correlation")
    D = np.maximum((D + D.T) / 2, 0)
    np.fill_diagonal(D, 0)
    options = {"metric": metric, "n_neighbors": 8, "correction": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoPathLengthsWarning)
        model, plain = (KernelIsomap(**options).fit(given) for given in (rounded, D))
    np.testing.assert_allclose(model.embedding_, plain.embedding_, atol=1e-6)
    np.testing.assert_allclose(model.transform(rounded - 1e-15), model.embedding_, atol=1e-5)


# ---- triangles ---------------------------------------------------------------------------------


def test_distances_that_are_no_path_lengths_are_told():
    """Squares are none; what a graph or points have are, whatever float32 makes of them."""
    D = flat_distances(200)
    paths = shortest_path(np.where(D < 0.25, D, 0), directed=False)
    written = [np.round(100 * paths, places) for places in range(4)]
    written += [np.array([[float(f"{x:.{digits}g}") for x in row] for row in paths]) for digits in (3, 4, 5)]
    written += [matrix.astype(np.float32) for matrix in written]
    given = [D, D.astype(np.float32), D.astype(np.float16), np.zeros((5, 5)), components([20, 10])[0], *written]
    for matrix in given:
        assert DistanceMatrix(matrix, allow_inf=True).longer_sides() is None
    said = DistanceMatrix(D**2).longer_sides()
    found, i, j, first, via, second = re.search(
        r"^X breaks the triangle inequality, as some dissimilarities do: ([\d,]+) of 41,664 sampled .*"
        r"\(rows (\d+) and (\d+) are at (\S+), and by row (\d+) at (\S+)\)",
        said,
    ).groups()
    i, j, via = int(i), int(j), int(via)
    assert float(first) == pytest.approx(D[i, j] ** 2, rel=1e-3)
    assert float(second) == pytest.approx(D[i, via] ** 2 + D[via, j] ** 2, rel=1e-3) and float(second) < float(first)
    assert 0 < int(found.replace(",", "")) < 41_664
    with pytest.warns(NoPathLengthsWarning, match="final distances.*metric='precomputed' would choose neighbours"):
        Isomap(metric="geodesic").fit(D[:60, :60] ** 2)


# ---- rows of distances to the training points --------------------------------------------------


def test_rows_of_distances_are_given_by_blocks_in_order(rows_a_block, D):
    for T in (D[:11], da.from_array(D[:11], chunks=(4, 9)), D[:11].tolist()):
        pieces = list(distance_rows(T, N, "T", sparse=False))
        assert [start for start, _ in pieces] == list(range(0, 11, rows_a_block))
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in pieces]), D[:11])


def test_stored_entries_of_sparse_rows_are_edges_and_repeats_count_by_their_minimum():
    T = sp.coo_array(([0.0, 5.0, 2.0, 3.0], ([0, 1, 1, 1], [4, 2, 2, 0])), shape=(3, 6))
    ((_, rows),) = distance_rows(T, 6, "T", sparse=True)
    assert rows.indptr.tolist() == [0, 1, 3, 3]
    assert dict(zip(rows.indices.tolist(), rows.data.tolist(), strict=True)) == {4: 0.0, 0: 3.0, 2: 2.0}


def test_rounding_below_zero_in_rows_of_distances_is_zero(D):
    T = D[:3].copy()
    T[1, 4] = -1e-16
    for given in (T, sp.csr_array(T)):
        ((_, rows),) = distance_rows(given, N, "T", sparse=True)
        found = rows.toarray() if sp.issparse(rows) else rows
        np.testing.assert_array_equal(found, np.maximum(T, 0))


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (-2.0, "-2.0")])
def test_a_wrong_row_of_distances_is_named(D, rows_a_block, value, shown):
    T = D[:11].copy()
    T[7, 3] = value
    with pytest.raises(ScalemaniError, match=rf"T has {shown} at row 107, column 3"):
        list(distance_rows(T, N, "T", sparse=False, first=100))
    with pytest.raises(ScalemaniError, match=rf"T has {shown} at a stored entry"):
        list(distance_rows(sp.csr_array(T), N, "T", sparse=True))


def test_rows_to_another_number_of_points_are_refused(D):
    with pytest.raises(ScalemaniError, match=rf"shape \(4, 29\): distances to the {N} training rows"):
        list(distance_rows(D[:4, :29], N, "T", sparse=False))
    with pytest.raises(ScalemaniError, match=r"sparse: .* dense"):
        list(distance_rows(sp.csr_array(D), N, "T", sparse=False))
