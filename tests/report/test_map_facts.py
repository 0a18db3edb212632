"""What the live map is given of a run is what the library and plain NumPy say of it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from data import flat, graph_of, roll, two
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist

from scalemani import LLE, Isomap, IsometricProjection, KernelIsomap, LaplacianEigenmaps, StressIsomap
from scalemani.embedding.by_point import correlations, neighbors_kept, stress_by_point
from scalemani.model import Run
from scalemani.report import sections
from scalemani.report.charts import CHARTS
from scalemani.report.map_facts import NewPoints
from scalemani.report.sections import run_page
from scalemani.steps import uncorrected
from scalemani.storage.run import RunStore

pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")
K, FAR = 6, 8  # more than K + 1, so that no edge leads to them


@pytest.fixture
def shown(monkeypatch):
    """What the live map of a store gets, with all text below it; nothing is drawn."""
    for name in ("png", "distance_panels", "residual_chart", "dimension_panels"):
        monkeypatch.setattr(sections, name, lambda *_: b"")
    for name in ("kernel_sections", "map_sections"):
        monkeypatch.setattr(sections, name, lambda *_: iter(()))
    monkeypatch.setattr(sections, "CHARTS", dict.fromkeys(CHARTS, lambda *_: b""))
    monkeypatch.setattr(sections, "page", lambda title, lead, parts, footer, live, still: (live, parts))

    def call(store, *columns, **more):
        return run_page(Run(RunStore(store)), columns, **more)

    return call


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Isomap of rows of which some are equal and eight, far off, are left out; with the rows and the store."""
    store = tmp_path_factory.mktemp("facts") / "run.zarr"
    X = roll(150, noise=0.3)
    X = np.vstack([X[:40], X[3], X[3], X[40:], X[:FAR] + 1e4])
    X = np.c_[X, np.full(len(X), 3.3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Isomap(K, disconnected="largest", store=store).fit(X), X, store


def test_neighbours_kept_are_those_of_a_search_by_hand(fitted, shown):
    model, X, store = fitted
    live, _ = shown(store)
    kept = model.kept_
    points, first = np.unique(X[kept], axis=0, return_index=True)
    mapped = model.embedding_[kept][first]
    along, across = cdist(points, points), cdist(mapped, mapped)
    np.fill_diagonal(along, np.inf)
    np.fill_diagonal(across, np.inf)
    nearest = np.argsort(along, axis=1)[:, :K], np.argsort(across, axis=1)[:, :K]
    expected = [len(set(a) & set(b)) / K for a, b in zip(*nearest, strict=True)]
    same = (X[kept][:, None] == points).all(axis=2).argmax(axis=1)
    np.testing.assert_allclose(live.quality[0].values, np.array(expected)[same])
    assert np.array_equal(live.rows, kept) and len(kept) == len(X) - FAR
    assert np.array_equal(live.coordinates, model.embedding_[kept])
    assert 0.2 < np.mean(expected) < 0.98


def test_stress_and_rings_are_of_the_models_geodesics(fitted, shown):
    model, X, store = fitted
    live, _ = shown(store, rows=len(X))
    D = model.geodesics(live.rows)[:, live.rows]
    E = cdist(live.coordinates, live.coordinates)
    stress = np.sqrt(((D - E) ** 2).sum(axis=0) / (D**2).sum(axis=0))
    np.testing.assert_allclose(live.quality[1].values, stress, rtol=1e-5)
    at, rings = live.rings
    np.testing.assert_allclose(rings, D[at], rtol=1e-5)
    assert len(at) == 24
    for j in range(1, 24):  # each is the farthest from those before it
        nearest = D[at[:j]].min(axis=0)
        assert nearest[at[j]] == pytest.approx(nearest.max())


def test_a_perfect_map_keeps_all_and_points_on_one_place_say_nothing(tmp_path, shown):
    store = tmp_path / "line"
    Isomap(2, 1, store=store).fit(np.cumsum(np.random.default_rng(0).uniform(1, 1.3, 60))[:, None] * [[1.0, 2.0]])
    neighbors, stress = (column.values for column in shown(store)[0].quality)
    assert (neighbors == 1).all() and stress.max() < 1e-6
    side = 9
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=2).reshape(-1, 2)
    pairs = np.argwhere(np.triu(cdist(grid, grid) == 1))
    edges = graph_of(pairs, np.ones(len(pairs)), len(grid))
    turned = (grid @ [[0.6, 0.8], [-0.8, 0.6]]) * 1e-30
    assert (neighbors_kept(edges, turned, 4) == 1).all()  # of equally far ones any may be the nearest
    assert np.isnan(neighbors_kept(edges, np.zeros((len(grid), 2)), 4)).all()
    some = np.array([3, 40])
    found = neighbors_kept(edges, grid[np.random.default_rng(0).permutation(len(grid))].astype(float), 4, some)
    assert np.isnan(np.delete(found, some)).all() and (found[some] < 1).all()


def test_stress_leaves_out_pairs_without_a_distance():
    Y = flat(20, 2)
    D = 2 * cdist(Y, Y)[:4]
    D[1, 5:9] = np.inf
    np.testing.assert_allclose(stress_by_point(D, Y, np.arange(4)), 0.5)
    np.testing.assert_allclose(stress_by_point(D * 1e-200, Y * 1e-200, np.arange(4)), 0.5)


def test_arrows_are_correlations_over_all_rows_with_coordinates(fitted, shown):
    model, X, store = fitted
    live, parts = shown(store)
    kept = model.kept_
    expected = np.corrcoef(X[kept, :3].T, live.coordinates.T)[3:, :3]
    np.testing.assert_allclose(live.arrows.values, expected, atol=1e-12)
    assert list(live.arrows.features) == ["feature 0", "feature 1", "feature 2"]  # the last is constant
    section = next(part for part in parts if part.heading == "Which features go with an axis")
    for table, axis in zip(section.tables, expected, strict=True):
        assert [row[0] for row in table.rows] == [f"feature {j}" for j in np.argsort(-np.abs(axis))]


def test_correlations_of_sparse_and_of_huge_features():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((90, 4)) < 0.4, rng.normal(size=(90, 4)), 0)
    X[:, 3] = 0
    order, counts = rng.permutation(90)[:60], rng.integers(1, 4, 60)
    Y = np.c_[rng.normal(size=(60, 2)) + X[order, :2], np.zeros(60)]
    both = np.repeat(np.arange(60), counts)
    expected = np.corrcoef(X[order][both, :3].T, Y[both, :2].T)[3:, :3]
    for rows in (X, sp.csr_array(X), X * 1e200 + 1e180):
        found = correlations(rows, order, Y, counts)
        np.testing.assert_allclose(found[:2, :3], expected, atol=1e-9)
        assert np.isnan(found[2]).all() and np.isnan(found[:, 3]).all()


def test_of_a_linear_map_arrows_are_its_own(tmp_path, shown):
    X = roll(120, noise=0.3) * [1, 5, 0.1]
    model = IsometricProjection(K, store=tmp_path / "run").fit(X)
    live, parts = shown(tmp_path / "run")
    moved = [model.transform(X[:1] + X.std(axis=0) * one)[0] - model.transform(X[:1])[0] for one in np.eye(3)]
    np.testing.assert_allclose(live.arrows.values.T, moved, rtol=1e-6)
    headings = [part.heading for part in parts]
    assert "Which features make the axes" in headings and "Which features go with an axis" not in headings


@pytest.mark.parametrize("how", [{}, {"correction": "lingoes"}, {"correction": 3.0}, {"landmarks": 40}])
def test_beside_it_is_the_map_without_the_constant(tmp_path, shown, how):
    X = roll(200, noise=0.3)
    X = np.vstack([X, X[:9], X[:FAR] + 1e4])
    how = {"correction": "cailliez", "disconnected": "largest", **how}
    KernelIsomap(K, store=tmp_path / "run", **how).fit(X)
    plain = KernelIsomap(K, **{**how, "correction": None}).fit(X).embedding_[:-FAR]
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}
    steps = []
    live, _ = shown(tmp_path / "run", report=lambda *step: steps.append(step))
    assert procrustes(live.other, plain)[2] < 1e-6
    np.testing.assert_allclose(cdist(live.other[:9], live.other), cdist(plain[:9], plain), rtol=1e-3, atol=1e-3)
    centered = [points - points.mean(axis=0) for points in (live.other, live.coordinates)]
    np.testing.assert_allclose(orthogonal_procrustes(*centered)[0], np.eye(2), atol=1e-9)  # it lies on the map
    assert steps and all(done <= total for _, done, total in steps if total)
    assert files == {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}


def test_why_there_is_no_map_without_the_constant_is_said(tmp_path, shown, monkeypatch):
    def said(**how):
        KernelIsomap(K, store=tmp_path / "run", overwrite=True, **how).fit(roll(80))
        live, parts = shown(tmp_path / "run")
        notices = [one for one in parts[0].notices if "without the constant" in one.headline]
        return live.other, [word for one in notices for word in one.words]

    assert said(correction=None) == (None, [])
    other, words = said(keep_distances=False)
    assert other is None and "not kept" in words[0] and "--correction none" in words[0]
    monkeypatch.setattr(uncorrected, "MOST_BYTES", 6 * 2 * 80**2 - 1)
    assert "it takes reads of 77 kB" in said()[1][0]
    monkeypatch.setattr(uncorrected, "MOST_BYTES", 6 * 2 * 80**2)
    assert said()[0] is not None


def test_bridges_and_leaps_are_those_of_the_graph(tmp_path, shown):
    X = two(60)
    X = np.vstack([X[:5], X])  # vertices are not rows
    Isomap(K, disconnected="join", store=tmp_path / "run").fit(X)
    live, _ = shown(tmp_path / "run")
    (bridges,) = [edges for edges in live.edges if edges.name == "bridges"]
    gaps = cdist(X[:35], X[35:])
    a, b = np.unravel_index(gaps.argmin(), gaps.shape)
    assert sorted(bridges.pairs[0]) == [a, 35 + b] and len(bridges.pairs) == 1
    store = tmp_path / "bent"
    model = Isomap(8, store=store).fit(roll(500, noise=0.1))
    (leaps,) = shown(store)[0].edges
    assert leaps.pairs.tolist() == [edge["rows"] for edge in model.spectrum_["shortcut_edges"]]
    assert "still in the graph" in leaps.about


def test_new_points_and_landmarks_are_layers_with_their_names(tmp_path, shown):
    X = roll(120)
    model = Isomap(K, landmarks=20, store=tmp_path / "run").fit(X)
    model._run.name_rows([f"p{i}" for i in range(len(X))])
    new = X[:6] + 0.01
    live, _ = shown(tmp_path / "run", new=[NewPoints("a.csv", new, ["x", *"abcde"]), NewPoints("b.csv", new[:2])])
    first, second, landmarks = live.layers
    assert np.array_equal(first.coordinates, model.transform(new)) and list(first.ids) == ["x", *"abcde"]
    assert (first.name, second.name, second.ids) == ("new points: a.csv", "new points: b.csv", None)
    assert live.ids == [f"p{i}" for i in range(len(X))]
    rows = model.landmarks_
    assert (landmarks.name, landmarks.ids) == ("landmarks", [f"p{row}" for row in rows])
    assert np.array_equal(landmarks.coordinates, model.embedding_[rows])


def test_new_points_without_a_place_are_left_out_and_told(tmp_path, shown):
    graph = sp.csr_array(np.where(cdist(np.arange(30)[:, None], np.arange(30)[:, None]) == 1, 1.0, 0))
    Isomap(metric="precomputed", n_components=1, n_neighbors=None, radius=2.0, store=tmp_path / "run").fit(graph)
    new = sp.csr_array(([0.5, 0.5], ([0, 2], [3, 7])), shape=(3, 30))
    live, parts = shown(tmp_path / "run", new=[NewPoints("n.npz", new)])
    assert list(live.layers[0].ids) == ["0", "2"] and len(live.layers[0].coordinates) == 2
    assert "1 row of n.npz is not on the map." in [one.headline for one in parts[0].notices]
    assert live.arrows is None  # no rows of features


@pytest.mark.parametrize("kept", [True, False])
def test_given_distances_have_no_neighbours_in_a_graph(tmp_path, shown, kept):
    X = flat(40)
    Isomap(metric="geodesic", store=tmp_path / "run", keep_distances=kept).fit(cdist(X, X))
    live, _ = shown(tmp_path / "run")
    assert [column.name for column in live.quality] == ["stress of distances"] * kept
    assert (live.rings is not None) == kept and live.arrows is None and not live.edges


def test_every_method_has_a_live_map(tmp_path, shown):
    X = roll(120, noise=0.1)
    kinds = ["a", "b", ""] * 40
    for number, model in enumerate([LLE(8), LaplacianEigenmaps(8, landmarks=30), StressIsomap(8), KernelIsomap(8, 3)]):
        store = tmp_path / f"{number}"
        model.set_params(store=store).fit(X)
        live, _ = shown(store, ("x", X[:, 0]), ("kind", kinds))
        distances = number >= 2
        assert [column.name for column in live.quality] == ["neighbours kept", *["stress of distances"] * distances]
        assert np.array_equal(live.columns[0].values, X[:, 0]) and list(live.columns[1].values) == kinds
        assert live.arrows.values.shape == (model.n_components, 3) and live.rings is not None
        assert len(live.axis_names) == model.n_components
    assert live.axis_names[0].startswith("axis 1 (") and live.axis_names[0].endswith(" %)")
