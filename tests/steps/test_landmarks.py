"""Landmarks: m = n is the full method; fewer stand for the points that lie nearest to them, to the bit and by the book.

The oracle of the kernel is the full method's dense solver on n points that are put where their landmarks are; that of
the choice is the greedy rule on a dense matrix; that of the distances is the search from each landmark.
"""

import os

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import ScalemaniError, StoreMismatchError
from scalemani.geodesics.farthest import farthest_points
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import shared_graph
from scalemani.kernel.constant import solve
from scalemani.kernel.operators import DenseKernels
from scalemani.steps.axes import stored_embedding
from scalemani.steps.records import GraphRecord, SourcesRecord
from scalemani.steps.sources import Layout, symmetric_square
from scalemani.storage.run import RunStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.ShortcutWarning"),  # so few points of a roll have some
]
CORRECTIONS = ("cailliez", "lingoes", "flip", None, 0.5)
ONE_AND_THE_OTHERS = ["cailliez", *(pytest.param(each, marks=pytest.mark.slow) for each in CORRECTIONS[1:])]


def roll(n, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    t, height = 1.5 * np.pi * (1 + 2 * rng.random(n)), 21 * rng.random(n)
    points = np.c_[t * np.cos(t), height, t * np.sin(t)]
    return points + noise * rng.standard_normal((n, 3))


def procrustes(found, wanted):
    """Distance after the best rotation and shift, relative to the spread of what is wanted."""
    a, b = found - found.mean(axis=0), wanted - wanted.mean(axis=0)
    u, _, v = np.linalg.svd(a.T @ b)
    return np.linalg.norm(a @ u @ v - b) / np.linalg.norm(b)


@pytest.fixture(scope="module")
def points():
    return roll(400)


@pytest.fixture(scope="module")
def fitted(points, tmp_path_factory):
    return KernelIsomap(landmarks=60, store=tmp_path_factory.mktemp("landmarks") / "run").fit(points)


# ---- the whole ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", ONE_AND_THE_OTHERS)
def test_as_many_landmarks_as_points_are_the_full_method(points, correction):
    full = KernelIsomap(correction=correction, tol=1e-9).fit(points)  # its own error is of the size of its tolerance
    found = KernelIsomap(correction=correction, tol=1e-9, landmarks=len(points)).fit(points)
    size = np.abs(full.embedding_).max()
    assert np.abs(found.embedding_ - full.embedding_).max() < 1e-6 * size
    assert found.additive_constant_ == pytest.approx(full.additive_constant_, rel=2e-6)
    for name in ("trace_unshifted", "eigenvalues", "share_of_squares", "max_distance", "rel_corr_eig", "broken_stick"):
        assert found.spectrum_[name] == pytest.approx(full.spectrum_[name], rel=1e-5), name
    assert np.abs(found.transform(points[:9]) - full.transform(points[:9])).max() < 1e-5 * size


def test_other_kinds_of_input_give_the_same(points):
    """The finished graph, and D itself."""
    model = KernelIsomap(landmarks=np.arange(0, 400, 8)).fit(points)
    d = model.geodesics(np.arange(400))
    given_d = KernelIsomap(metric="geodesic", landmarks=np.arange(0, 400, 8)).fit((d + d.T) / 2)
    assert procrustes(given_d.embedding_, model.embedding_) < 1e-5
    assert np.abs(given_d.transform(d[:7]) - given_d.embedding_[:7]).max() < 1e-5
    store = model._run.store
    graph = shared_graph(store.path, store.identity).astype(np.float64) * model._run.store.needed(GraphRecord).scale
    vertex = model._run.vertex
    by_graph = KernelIsomap(metric="precomputed", landmarks=np.arange(0, 400, 8)).fit(graph[vertex][:, vertex])
    assert procrustes(by_graph.embedding_, model.embedding_) < 1e-5


@pytest.mark.parametrize("correction", ["cailliez", pytest.param(None, marks=pytest.mark.slow)])
def test_landmarks_come_near_the_full_method(correction):
    """Measured: 0.009 and 0.0009; without the numbers of the points that they stand for 0.27 and 0.005."""
    points = roll(1500, noise=0.05)
    full = KernelIsomap(correction=correction).fit(points)
    found = KernelIsomap(correction=correction, landmarks=500).fit(points)
    assert procrustes(found.embedding_, full.embedding_) < (0.03 if correction else 0.002)
    assert found.additive_constant_ == pytest.approx(full.additive_constant_, rel=0.1)


# ---- the kernel --------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_landmark_stands_for_the_points_nearest_to_it(fitted, correction):
    """The dense kernel of n points at their landmarks' places has the same constant, eigenvalues and coordinates."""
    store = fitted._run.store
    square, counts = symmetric_square(store), store.read_array("landmark_counts")
    place = np.repeat(np.arange(len(counts)), counts)
    kernels = DenseKernels(square, counts)
    dense = DenseKernels(square[np.ix_(place, place)])
    ours = solve(kernels, 3, correction=correction, tol=1e-9)
    theirs = solve(dense, 3, correction=correction, tol=1e-9)
    assert ours.constant == pytest.approx(theirs.constant, rel=1e-7)
    assert ours.nugget == pytest.approx(theirs.nugget, rel=1e-7)
    assert ours.pairs.values == pytest.approx(theirs.pairs.values, rel=1e-7)
    on_points = kernels.on_points(ours.pairs.vectors) / counts[:, None]
    overlaps = np.abs(on_points[place].T @ theirs.pairs.vectors)
    assert overlaps == pytest.approx(np.eye(3), abs=1e-6)
    for c, g in ((0.0, 0.0), (ours.constant, ours.nugget)):
        assert kernels.sums.trace(c, g) == pytest.approx(dense.sums.trace(c, g), rel=1e-12)
        assert kernels.sums.squared_norm(c, g) == pytest.approx(dense.sums.squared_norm(c, g), rel=1e-9)
    assert kernels.sums.n == 400


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_products_are_those_of_the_weighted_kernel(m, seed):
    """-1/2 P R A R P, reflected; and 1 is mapped to 0."""
    rng = np.random.default_rng(seed)
    a, counts = rng.random((m, m)), rng.integers(1, 50, m)
    d = a + a.T - np.diag(2 * np.diag(a))
    kernels = DenseKernels(d, counts)
    roots = np.sqrt(counts / counts.sum())
    r, p = np.diag(np.sqrt(counts)), np.eye(m) - np.outer(roots, roots)
    vectors = rng.standard_normal((m, 3))
    vectors -= vectors.mean(axis=0)
    turned = kernels.on_points(vectors)  # R H v
    for image, matrix in zip(kernels.products(vectors), (d, d * d), strict=True):
        assert kernels.on_points(image) == pytest.approx(-0.5 * r @ p @ r @ matrix @ r @ p @ np.linalg.inv(r) @ turned)
    assert np.abs(np.ones(m) @ turned).max() < 1e-10 * np.abs(turned).max() * m


# ---- the distances -----------------------------------------------------------------------------------


def test_distances_are_those_of_the_search_to_the_bit_and_any_reader_of_zarr_has_them(fitted):
    store = fitted._run.store
    graph, landmarks = shared_graph(store.path, store.identity), store.read_array("landmarks")
    rows = geodesic_rows(graph, landmarks)
    points = Layout.of(store).by_point(store)
    assert np.array_equal(points.read_rows(np.arange(400)), rows.T)
    assert np.array_equal(zarr.open_array(f"{store.path}/distances_to_landmarks", mode="r")[:], rows.T)
    nearest = rows.argmin(axis=0)
    nearest[landmarks] = np.arange(len(landmarks))
    assert np.array_equal(store.read_array("landmark_counts"), np.bincount(nearest))
    assert not os.path.exists(f"{store.path}/landmark_rows")


def test_training_points_come_back_to_the_bit_in_any_batch(fitted, points):
    whole = fitted.transform(points)
    assert np.array_equal(whole, fitted.embedding_)
    assert np.array_equal(np.concatenate([fitted.transform(part) for part in np.split(points, [1, 8, 150])]), whole)
    new = roll(50, seed=1)
    assert np.array_equal(fitted.transform(new)[13:14], fitted.transform(new[13:14]))


@pytest.mark.parametrize("projection", ["continuous", "paper"])
@pytest.mark.parametrize("correction", ONE_AND_THE_OTHERS)
def test_landmarks_land_on_themselves(points, correction, projection):
    """On Y = V |λ|^{1/2}, from their eigenvectors."""
    model = KernelIsomap(landmarks=50, correction=correction, projection=projection).fit(points)
    run = model._run
    own = stored_embedding(run.store).coordinates()
    assert np.abs(model.embedding_[model.landmarks_] - own).max() < 1e-6 * np.abs(own).max()


def test_a_new_point_is_as_far_as_its_neighbours_say(fitted, points):
    """Its distances are least sums over its k nearest training points; the projection of these by a dense formula."""
    store, scale = fitted._run.store, fitted._run.store.needed(GraphRecord).scale
    new = roll(5, seed=3)
    rows = Layout.of(store).by_point(store).read_rows(fitted._run.vertex).astype(np.float64) * scale
    apart = np.linalg.norm(new[:, None] - points, axis=2)
    near = np.argsort(apart, axis=1)[:, :10]
    d = (np.take_along_axis(apart, near, 1)[:, :, None] + rows[near]).min(axis=1)
    counts, c = store.read_array("landmark_counts"), fitted.additive_constant_
    square = symmetric_square(store) * scale
    mean = counts @ (square**2 + 2 * c * square) / counts.sum()
    vectors, values = store.read_array("vectors"), fitted.eigenvalues_
    wanted = (-0.5 * (d**2 + 2 * c * d - mean) @ vectors) * np.sqrt(values) / (values - c**2 / 2)
    assert fitted.transform(new) == pytest.approx(wanted, rel=1e-6, abs=1e-6 * np.abs(wanted).max())


# ---- the choice --------------------------------------------------------------------------------------


def greedy(d, count):
    """The rule, on a dense matrix."""
    chosen = [int(d[0].argmax())]
    while len(chosen) < count:
        nearest = d[chosen].min(axis=0)
        nearest[chosen] = -1
        chosen.append(int(nearest.argmax()))
    return chosen


def test_ten_points_by_hand():
    """A line with gaps 1 1 1 5 1 1 1 1 1: ends first, then the edge of the gap that is farther from both, ..."""
    gaps = [1, 1, 1, 5, 1, 1, 1, 1, 1]
    line = sp.diags_array([np.array(gaps, float)] * 2, offsets=[-1, 1]).tocsr()
    found = farthest_points(line, 5)
    # places 0 1 2 3 8 9 10 11 12 13; 9 is farthest from 0; from both ends place 8, vertex 4, 5 away
    assert found.vertices.tolist() == [9, 0, 4, 3, 6]
    assert found.distances.tolist() == [np.inf, 13, 5, 3, 2]
    assert found.reach == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 40), st.integers(0, 10**6))
def test_maxmin_is_the_greedy_rule(n, seed):
    """Whole lengths: sums are exact, and ties are broken alike."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, n)) < 4 / n, rng.integers(0, 6, (n, n)), -1)
    dense[np.arange(n - 1), np.arange(1, n)] = rng.integers(0, 6, n - 1)  # connected; zeros are edges
    a, b = np.nonzero(np.triu(dense >= 0, 1))
    lengths = dense[a, b].astype(float)
    graph = sp.csr_array((np.r_[lengths, lengths], (np.r_[a, b], np.r_[b, a])), shape=(n, n))
    spread = sp.csr_array((np.r_[lengths, lengths] + 2.0**-20, (np.r_[a, b], np.r_[b, a])), shape=(n, n))
    d = np.round(dijkstra(spread))
    count = int(rng.integers(1, n + 1))
    found = farthest_points(graph, count)
    assert found.vertices.tolist() == greedy(d, count)
    assert found.reach == d[found.vertices].min(axis=0).max()


def test_the_choices_are_kept(points, tmp_path):
    """By the rows of X, whatever their order in the graph; the seed counts for "random" alone."""
    doubled = np.vstack([points, points[:20]])
    rows = [419, 3, -420 + 77, 200, 150]
    model = KernelIsomap(landmarks=rows, store=tmp_path / "given").fit(doubled)
    assert sorted(model.landmarks_) == [3, 19, 77, 150, 200]  # the first of equal rows
    assert sorted(load(tmp_path / "given").landmarks_) == [3, 19, 77, 150, 200]
    drawn = (Isomap(landmarks=40, landmark_method="random", random_state=seed).fit(points) for seed in (1, 1, 2))
    random = [set(model.landmarks_) for model in drawn]
    assert random[0] == random[1] != random[2]
    maxmin = [tuple(Isomap(landmarks=40, random_state=seed).fit(points).landmarks_) for seed in (1, 2)]
    assert maxmin[0] == maxmin[1]


def test_no_point_is_farther_than_the_reach(fitted):
    d = fitted.geodesics(fitted.landmarks_)
    reach = fitted._run.store.needed(SourcesRecord).reach * fitted._run.store.needed(GraphRecord).scale
    assert d.min(axis=0).max() == pytest.approx(reach, rel=1e-5)


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("landmarks", "said"),
    [
        (2, "n_components=2 needs at least 3"),
        (0, "needs at least 3"),
        (401, "400 distinct rows"),
        ([1, 2], "2 landmarks"),
        ([1, 2, 400], "400"),
        ([1, 2, 2, 9], "rows 2 and 2 are one point"),
        ([1.0, 2.0, 3.0], "float64"),
        ([[1, 2, 3]], "shape (1, 3)"),
        (True, "shape ()"),
        ("all", "row numbers"),
        ([[1, 2], [3]], "[[1, 2], [3]]"),
        (np.array([2**64 - 1, 1, 2, 3], np.uint64), "18446744073709551615"),
        (np.ma.array([1, 2, 3, 4], mask=[0, 0, 1, 0]), "masked"),
    ],
)
def test_landmarks_that_X_does_not_have(points, tmp_path, landmarks, said):
    with pytest.raises(ScalemaniError) as caught:
        KernelIsomap(landmarks=landmarks, store=tmp_path / "run").fit(points)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_given_landmarks_are_a_set(points, tmp_path):
    KernelIsomap(landmarks=[5, 1, 200, 300], store=tmp_path / "run").fit(points)
    stages, again = [], {"landmarks": [300, 200, 5, 1], "store": tmp_path / "run"}
    KernelIsomap(**again, progress=lambda stage, *_: stages.append(stage)).fit(points)
    assert set(stages) <= {"points"}
    with pytest.raises(StoreMismatchError, match="4 given rows"):
        KernelIsomap(landmarks=[5, 1, 201, 300], store=tmp_path / "run").fit(points)


@pytest.mark.slow
@pytest.mark.parametrize("far", [1e6, 1e12])
def test_far_points_are_where_the_full_method_has_them(points, far):
    """On the line through what their nearest vertices say; distances from 1e12 keep four digits below a unit."""
    where = np.full((1, 3), far)
    full = KernelIsomap(tol=1e-9).fit(points).transform(where)
    found = KernelIsomap(tol=1e-9, landmarks=400).fit(points).transform(where)
    assert found == pytest.approx(full, rel=1e-4)


def test_unreachable_landmarks(points, tmp_path):
    apart = np.vstack([points, points[:30] + 1000])
    with pytest.raises(ScalemaniError, match=r"no path leads to 1 of 4 of them .*row 401"):
        KernelIsomap(landmarks=[1, 2, 3, 401], disconnected="largest", store=tmp_path / "run").fit(apart)
    model = KernelIsomap(landmarks=40, disconnected="largest").fit(apart)
    assert np.isnan(model.embedding_[400:]).all() and np.isfinite(model.embedding_[:400]).all()


def test_unknown_methods_and_what_does_not_go_together(points):
    for arguments, said in (({"landmark_method": "kmeans"}, "'maxmin', 'random'"), ({"compression": "lz4"}, "lz4")):
        with pytest.raises(ScalemaniError, match=said):
            KernelIsomap(landmarks=10, **arguments).fit(points)


def test_a_run_of_other_landmarks_is_another_run(fitted, points):
    for arguments, said in (
        ({"landmarks": 61}, "landmarks=60"),
        ({"landmarks": None}, "landmarks=60"),
        ({"landmarks": 60, "landmark_method": "random"}, "landmark_method='maxmin'"),
    ):
        with pytest.raises(StoreMismatchError, match=said):
            KernelIsomap(store=fitted.store_, **arguments).fit(points)


def test_another_correction_keeps_the_distances(points, tmp_path):
    first = KernelIsomap(landmarks=30, store=tmp_path / "run").fit(points)
    stages = []
    second = KernelIsomap(
        landmarks=30, store=tmp_path / "run", correction=None, progress=lambda stage, done, total: stages.append(stage)
    ).fit(points)
    assert set(stages) <= {"points", "solve", "coordinates"}
    assert RunStore(tmp_path / "run").identity == first._run.store.identity
    fresh = KernelIsomap(landmarks=30, correction=None).fit(points)
    assert np.array_equal(second.embedding_, fresh.embedding_)
