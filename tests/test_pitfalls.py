"""How tools of this kind give wrong answers in silence: each fault of graph, paths, kernel, projection and use.

Tests are end to end; numbers are those of the project's list of faults. Where another file holds the
test, it is named (its first words suffice).

1  self removed by position: `test_twins_have_no_loops_...`; lists: test_neighbors `test_twins_are_no_...`
2  self counted: `test_k_counts_other_points`; NN-descent: test_nndescent `test_every_row_lists_k_others_once`
3  -1 as an index: test_graph `test_index_out_of_range_...`, test_neighbors `test_candidates_with_self_...`
4  a neighbour listed twice: test_graph `test_repeated_neighbour_...`; here `test_repeated_entries_count_once`
5  stored zeros dropped: `test_zero_edges_hold_a_graph_together`
6  an edge "deleted" by 0 is a shortcut: `test_no_bridge_and_no_gap_becomes_a_free_shortcut`
7  twins become an island: `test_many_twins_are_no_island`
8  low recall unnoticed: test_neighbors `test_low_recall_is_warned_...`; here `test_recall_is_reported`
9  threads change the graph: test_nndescent `test_the_same_seed_...`; test_invariance `test_the_number_of_threads_...`
10 offset or tiny spread: `test_a_large_offset_loses_no_neighbour`; test_invariance `test_a_common_offset_...`
11 integers overflow: `test_bytes_do_not_overflow`; test_invariance `test_the_dtype_changes_nothing`
12 k >= n, n = 1, p >= n: test_bad_input `test_too_few_rows_gives_both_numbers`
13 distances as features: `test_distances_given_as_features_...`; test_bad_input `test_distances_that_are_none`
14 no path becomes 0: `test_two_blobs_are_an_error_with_sizes_and_a_way_out`
15 rows slide when a component is dropped: `test_dropped_rows_stay_in_their_places`
16 weak and strong components: `test_a_one_way_neighbour_joins_both_ways`
17 directed paths: `test_distances_are_symmetric_where_lists_are_not`
18 absolute tolerances: `test_twins_and_rank_do_not_hang_...`; test_invariance `test_the_unit_scales_...`
19 eigenpairs by modulus: `test_ring_by_value`; test_invariance `test_the_eigenvalues_of_a_torus_...`
20 c by modulus: `test_ring_by_value`; tightness: test_oracles `test_the_constant_is_tight`
21 Euclidean data: test_invariance `test_flat_data_...`, `test_two_and_three_points_...`
22 roots of negative values: `test_a_line_has_one_axis`, `test_axes_of_nugget_only_are_zero`
23 rank by 1e-12 with float32 D: `test_rank_is_judged_in_the_precision_of_d`
24 too few iterations: `test_leading_plane_is_right_after_the_shift`
25 start vector of ones, signs: `test_signs_are_fixed_and_saved`
26 a test block centred by itself: `test_a_lone_point_is_not_the_origin`; test_projection `test_the_batch_...`
27 c forgotten for test points: test_projection `test_held_out_digits_...`, `test_held_out_points_...`
28 results by batch: test_projection `test_the_batch_the_order_and_the_threads_change_nothing`
29 far points, dropped components, 0 rows: test_projection, "rows that have no place"
30 landmarks: there are none yet
41 a warning and a file of NaN, exit code 0: `test_a_file_with_nan_is_no_success`
42 pickled models: `test_a_model_holds_numbers_and_json_only`
"""

import json
import warnings
from pathlib import Path

import naive
import numpy as np
import pytest
import scipy.linalg as sl
import scipy.sparse as sp
from data import dup, flat, line_graph, ring, ring_distances, roll, two
from scipy.spatial.distance import cdist

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import DisconnectedGraphError, LooksLikeDistancesWarning, RankWarning
from scalemani.terminal.commands import main

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.ShortcutWarning"),  # so few points of a roll have some
]


def reference_distances(points, k):
    """Geodesics of the union graph of k nearest OTHER rows, slow and dense."""
    D = cdist(points, points)
    np.fill_diagonal(D, np.inf)
    near = np.argsort(D, axis=1, kind="stable")[:, :k]
    W = np.full(D.shape, np.inf)
    for i, row in enumerate(near):
        W[i, row] = W[row, i] = D[i, row]
    np.fill_diagonal(W, 0)
    for via in range(len(W)):  # Floyd and Warshall
        W = np.minimum(W, W[:, via : via + 1] + W[via : via + 1])
    return W


def every(model):
    return model.geodesics(np.arange(len(model.embedding_)))


# ---- graph ---------------------------------------------------------------------------------------


def test_k_counts_other_points():
    """On a line with growing gaps one neighbour joins each point to the one before; with self counted, to none."""
    line = (1.5 ** np.arange(12.0))[:, None]
    model = Isomap(n_neighbors=1, n_components=1).fit(line)
    assert model.spectrum_["n_edges"] == 11
    np.testing.assert_allclose(every(model), cdist(line, line), rtol=1e-6)
    complete = Isomap(n_neighbors=3, n_components=1).fit(flat(4))
    assert complete.spectrum_["n_edges"] == 6


def test_twins_have_no_loops_and_k_distinct_others():
    rows = dup(40, 2)
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    model = KernelIsomap(n_neighbors=3, disconnected="join").fit(rows)
    alone = KernelIsomap(n_neighbors=3, disconnected="join").fit(rows[first])
    assert model.spectrum_["n_edges"] == alone.spectrum_["n_edges"] and model.spectrum_["n_distinct"] == 40
    np.testing.assert_array_equal(model.embedding_[first], alone.embedding_)
    twins = np.array([np.flatnonzero((rows == row).all(1)) for row in rows[first]])
    np.testing.assert_array_equal(model.embedding_[twins[:, 0]], model.embedding_[twins[:, 1]])
    assert (every(model)[twins[:, 0], twins[:, 1]] == 0).all()


def test_many_twins_are_no_island():
    """20 points, each 12 times, k = 5: by position every list would be full of twins."""
    rows = dup(20, 12)
    model = KernelIsomap(n_neighbors=5).fit(rows)
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_allclose(every(model), reference_distances(distinct, 5)[np.ix_(place, place)], rtol=1e-5)
    assert model.spectrum_["n_components_of_graph"] == 1 and model.spectrum_["n_distinct"] == 20


@pytest.mark.parametrize("form", ["csr", "coo", "csc"])  # SciPy's lil drops stored zeros itself
def test_zero_edges_hold_a_graph_together(form):
    """A chain whose every second edge has length 0; `G.maximum(G.T)` and sums drop those."""
    chain = line_graph(12)
    chain.data[:] = [0.0 if min(i, j) % 2 else 1.0 for i, j in zip(*chain.nonzero(), strict=True)]
    model = Isomap(metric="precomputed", n_components=1).fit(chain.asformat(form))
    steps = np.cumsum([0] + [0.0 if i % 2 else 1.0 for i in range(11)])
    np.testing.assert_allclose(every(model), np.abs(steps[:, None] - steps), atol=1e-6)


def test_repeated_entries_count_once():
    """COO sums repeated entries: an edge given twice is not twice as long."""
    chain = line_graph(8).tocoo()
    twice = sp.coo_array(
        (np.r_[chain.data, chain.data], (np.r_[chain.row, chain.row], np.r_[chain.col, chain.col])), shape=(8, 8)
    )
    model = Isomap(metric="precomputed", n_components=1).fit(twice)
    np.testing.assert_allclose(every(model)[0], np.arange(8), rtol=1e-6)


def test_no_bridge_and_no_gap_becomes_a_free_shortcut():
    """Joined blobs are as far apart as their nearest points; nothing between them costs 0."""
    rows = two(60)
    model = KernelIsomap(n_neighbors=5, disconnected="join").fit(rows)
    D, gap = every(model), cdist(rows[:30], rows[30:]).min()
    assert D[:30, 30:].min() >= gap * (1 - 1e-6)
    np.testing.assert_allclose(D[:30, 30:].min(), gap, rtol=1e-6)
    assert (D >= cdist(rows, rows) * (1 - 1e-5)).all()  # no geodesic is shorter than the straight line


def test_recall_is_reported():
    model = KernelIsomap(n_neighbors=8, knn="exact").fit(roll(80))
    assert model.knn_recall_ == model.spectrum_["knn_recall"] == 1.0
    assert model.spectrum_["knn_method"] in ("kdtree", "brute")


@pytest.mark.parametrize("change", [lambda X: X + 1e6, lambda X: X * 1e-6 + 1])
def test_a_large_offset_loses_no_neighbour(change):
    rows = change(roll(150))
    shifted, plain = (KernelIsomap(n_neighbors=8).fit(part) for part in (rows, rows - rows[0]))
    assert shifted.spectrum_["n_edges"] == plain.spectrum_["n_edges"] and shifted.spectrum_["n_distinct"] == 150
    np.testing.assert_allclose(every(shifted), reference_distances(rows - rows[0], 8), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_bytes_do_not_overflow(dtype):
    rows = np.random.default_rng(0).integers(0, 255, (60, 3)).astype(dtype)
    model = KernelIsomap(n_neighbors=6, disconnected="join").fit(rows)
    straight = cdist(rows.astype(float), rows.astype(float))
    D = every(model)
    assert (D >= straight * (1 - 1e-6)).all()
    nearest = (straight + np.diag(np.full(60, np.inf))).min(1)
    np.testing.assert_allclose((D + np.diag(np.full(60, np.inf))).min(1), nearest, rtol=1e-6)


def test_distances_given_as_features_are_warned_about():
    D = cdist(roll(40), roll(40))
    with pytest.warns(LooksLikeDistancesWarning):
        KernelIsomap(n_neighbors=5, disconnected="join").fit(D)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LooksLikeDistancesWarning)
        KernelIsomap(n_neighbors=5, disconnected="join").fit(roll(40))
        KernelIsomap(n_neighbors=5, disconnected="join", metric="precomputed").fit(D)


# ---- components and paths ------------------------------------------------------------------------


def test_two_blobs_are_an_error_with_sizes_and_a_way_out():
    rows = two(100)
    with pytest.raises(DisconnectedGraphError, match=r"2 components of 50, 50 points.*join.*largest"):
        KernelIsomap(n_neighbors=10).fit(rows)
    close_by = np.concatenate([flat(30), flat(30) + [1.6, 0, 0]])
    with pytest.raises(DisconnectedGraphError) as caught:
        KernelIsomap(n_neighbors=3).fit(close_by)
    least = int(str(caught.value).split("n_neighbors=")[2].split(" ")[0])
    assert KernelIsomap(n_neighbors=least).fit(close_by).spectrum_["n_components_of_graph"] == 1
    with pytest.raises(DisconnectedGraphError):
        KernelIsomap(n_neighbors=least - 1).fit(close_by)


def test_dropped_rows_stay_in_their_places():
    """Rows of the small component come first and in the middle: labels would slide."""
    small, large = flat(12) + 50, roll(50)
    rows = np.concatenate([small[:5], large[:20], small[5:], large[20:]])
    kept = np.r_[5:25, 32:62]
    model = KernelIsomap(n_neighbors=6, disconnected="largest").fit(rows)
    np.testing.assert_array_equal(model.kept_, kept)
    assert model.embedding_.shape == (62, 2)
    assert np.isnan(model.embedding_[np.setdiff1d(np.arange(62), kept)]).all()
    alone = KernelIsomap(n_neighbors=6).fit(large)
    np.testing.assert_allclose(model.embedding_[kept], alone.embedding_, atol=1e-5 * np.abs(alone.embedding_).max())


def test_a_one_way_neighbour_joins_both_ways():
    """The last point lists others and no one lists it: weakly connected, and with directed edges unreachable."""
    rows = np.concatenate([flat(30), [[9.0, 9.0, 9.0]]])
    model = KernelIsomap(n_neighbors=3, disconnected="join").fit(rows)
    D = every(model)
    np.testing.assert_allclose(D[30, :30], D[:30, 30], rtol=1e-6)
    assert np.isfinite(D).all() and D[30, :30].min() >= cdist(rows[30:], rows[:30]).min() * (1 - 1e-6)
    with pytest.raises(DisconnectedGraphError):  # under "mutual" that edge is none
        KernelIsomap(n_neighbors=3, graph="mutual").fit(rows)


@pytest.mark.parametrize("k", [4, 8])
def test_distances_are_symmetric_where_lists_are_not(k):
    rows = np.random.default_rng(0).standard_normal((150, 3)) ** 3  # dense middle, thin rim: lists are one-way
    model = KernelIsomap(n_neighbors=k, disconnected="join").fit(rows)
    D = every(model)
    np.testing.assert_allclose(D, D.T, rtol=1e-6)
    assert (np.diag(D) == 0).all()
    expected = reference_distances(rows, k)
    if np.isfinite(expected).all():
        np.testing.assert_allclose(D, expected, rtol=1e-5)


@pytest.fixture(scope="module")
def with_twins():
    """80 rows of a roll and nine of them again, and where a fit puts them."""
    rows = np.concatenate([roll(80), roll(80)[:9]])
    return rows, KernelIsomap(n_neighbors=8, n_components=3).fit(rows).embedding_


@pytest.mark.parametrize("scale", [1e-9, 1e9, 1e-45, 1e45])  # the last two are beyond float32
def test_twins_and_rank_do_not_hang_on_the_unit(scale, with_twins):
    rows, plain = with_twins
    model = KernelIsomap(n_neighbors=8, n_components=3).fit(rows * scale)
    assert model.spectrum_["n_distinct"] == 80
    np.testing.assert_allclose(model.embedding_ / scale, plain, atol=1e-5 * np.abs(plain).max())


# ---- kernel --------------------------------------------------------------------------------------


def test_ring_by_value():
    """RING(40) without a constant has 40, 40, 4.52, 4.52 by value, and 40, 40, -10.1, -10.1 by modulus."""
    D = ring_distances(40)
    closed = naive.constant_by_fourier(D[0])
    assert round(closed, 3) == 4.486
    for rows, arguments in ((ring(40), {"n_neighbors": 2}), (D, {"metric": "geodesic"})):
        plain = Isomap(n_components=4, **arguments).fit(rows)
        np.testing.assert_allclose(plain.eigenvalues_, [40, 40, 4.52, 4.52], rtol=0.02)
        np.testing.assert_allclose(plain.eigenvalues_, naive.top_pairs(naive.kernel(D, 0.0), 4)[0], rtol=1e-5)
        model = KernelIsomap(n_components=4, **arguments).fit(rows)
        np.testing.assert_allclose(model.additive_constant_, closed, rtol=1e-6)
        np.testing.assert_allclose(model.eigenvalues_, naive.top_pairs(naive.kernel(D, closed), 4)[0], rtol=1e-5)
        c = model.additive_constant_
        assert sl.eigvalsh(naive.kernel(D, 0.9 * c))[0] <= -0.09 * c**2 / 2


@pytest.mark.parametrize("kind", [KernelIsomap, Isomap])
def test_a_line_has_one_axis(kind):
    line = np.sort(flat(60, 1), axis=0) * [[3.0, -4.0]]
    with pytest.warns(RankWarning, match=r"2 of 3 axes.*n_components=1") as caught:
        model = kind(n_neighbors=6, n_components=3, disconnected="join").fit(line)
    assert len(caught) == 1
    assert (model.embedding_[:, 1:] == 0).all()
    along = np.abs(model.embedding_[:, 0] - model.embedding_[0, 0])
    np.testing.assert_allclose(along, cdist(line, line[:1])[:, 0], atol=1e-5)
    placed = model.transform(line + [[0, 1e-3]])
    assert np.isfinite(placed).all() and (placed[:, 1:] == 0).all()


def test_axes_of_nugget_only_are_zero():
    """With as many axes as there can be, those with λ <= c²/2 would have Λ - c²/2 <= 0 to divide by."""
    rows = roll(40)
    with pytest.warns(RankWarning, match="nugget only") as caught:
        model = KernelIsomap(n_neighbors=6, n_components=39).fit(rows)
    assert len([w for w in caught if w.category is RankWarning]) == 1
    empty = model.eigenvalues_ <= (1 + 1e-6) * model.additive_constant_**2 / 2
    assert 3 < empty.sum() < 36
    for coordinates in (model.embedding_, model.transform(rows), model.transform(rows + 0.1)):
        assert np.isfinite(coordinates).all()
        assert (coordinates[:, empty] == 0).all() and (coordinates[:, ~empty] != 0).any(0).all()


def test_rank_is_judged_in_the_precision_of_d():
    """Three-dimensional data have three axes: what float32 rounding adds behind them is not divided by."""
    rows = flat(90)
    with pytest.warns(RankWarning, match="3 of 6 axes"):
        model = KernelIsomap(n_neighbors=89, n_components=6).fit(rows)
    assert model.additive_constant_ == 0 and (model.embedding_[:, 3:] == 0).all()
    placed = model.transform(rows[:5] + 0.01)
    assert (placed[:, 3:] == 0).all() and np.abs(placed).max() < 2


def test_leading_plane_is_right_after_the_shift():
    """n above the size that is solved whole; the shift leaves small gaps between eigenvalues."""
    rows = roll(320)
    model = KernelIsomap(n_neighbors=8, n_components=3).fit(rows)
    assert model.n_passes_ > 1 and (model.residuals_ <= 1e-6).all() and model.spectrum_["converged"]
    D = every(model)
    c = naive.constant_by_newton((D + D.T) / 2)
    np.testing.assert_allclose(model.additive_constant_, c, rtol=1e-6)
    values, V = naive.top_pairs(naive.kernel(D, c), 3)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    ours = model.embedding_ / np.linalg.norm(model.embedding_, axis=0)
    assert np.degrees(np.arcsin(min(1.0, np.linalg.norm(ours - V @ (V.T @ ours), 2)))) < 0.01


def test_signs_are_fixed_and_saved(tmp_path):
    rows = roll(310)  # above the size that is solved whole, where the start vectors are random
    models = [KernelIsomap(n_neighbors=8, n_components=3, random_state=seed).fit(rows) for seed in (0, 1)]
    scale = np.abs(models[0].embedding_).max()
    np.testing.assert_allclose(models[1].embedding_, models[0].embedding_, atol=1e-4 * scale)
    saved = KernelIsomap(n_neighbors=8, n_components=3, store=tmp_path / "r").fit(rows)
    np.testing.assert_array_equal(load(tmp_path / "r").embedding_, saved.embedding_)
    np.testing.assert_array_equal(saved.embedding_, models[0].embedding_)
    for column in saved.embedding_.T:
        assert column[np.abs(column).argmax()] > 0


# ---- projection ----------------------------------------------------------------------------------


def test_a_lone_point_is_not_the_origin():
    rows = roll(100)
    model = KernelIsomap(n_neighbors=8).fit(rows)
    whole = model.transform(rows + 0.05)
    for i in (0, 50, 99):
        alone = model.transform(rows[i : i + 1] + 0.05)
        np.testing.assert_allclose(alone[0], whole[i], atol=1e-10 * np.abs(whole).max())
        assert np.linalg.norm(whole[i]) > 1e-3


def test_a_point_next_to_a_training_row_is_next_to_it():
    """No jump: a row recognised as equal and one beside it have coordinates that differ by the step and not by c."""
    rows = roll(120)
    model = KernelIsomap(n_neighbors=8).fit(rows)
    assert model.additive_constant_ > 1
    beside = model.transform(rows + 1e-7)
    np.testing.assert_allclose(beside, model.embedding_, atol=1e-4 * np.abs(model.embedding_).max())


# ---- use -----------------------------------------------------------------------------------------


def test_a_file_with_nan_is_no_success(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = two(60)
    rows = np.concatenate([rows, rows[:20] + [[0, 500, 0]]])
    np.save(tmp_path / "x.npy", rows)
    KernelIsomap(n_neighbors=5, disconnected="largest", store=tmp_path / "r.zarr").fit(rows)
    with pytest.raises(SystemExit) as end:
        main(["project", "r.zarr", "x.npy", "y.npy"])
    assert end.value.code == 1
    assert "NaN" in capsys.readouterr().err


def test_a_model_holds_numbers_and_json_only(tmp_path):
    """Nothing in a store is ever unpickled: JSON, and chunks of numeric arrays."""
    model = KernelIsomap(n_neighbors=5, disconnected="join", store=tmp_path / "r").fit(roll(60))
    for file in Path(model.store_).rglob("*"):
        if file.suffix == ".json":
            document = json.loads(file.read_text())
            assert document.get("data_type", "float64") in ("float32", "float64", "int32", "int64", "uint64")
        elif file.is_file():
            assert not file.read_bytes().startswith(b"\x80\x04") and "c" in file.relative_to(model.store_).parts
