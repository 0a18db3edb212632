"""AnnData in and out: scanpy's conventions, the same coordinates as from NumPy, graphs that keep what they had."""

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scalemani.anndata
from scalemani import LLE, Isomap, IsometricProjection, KernelIsomap, LaplacianEigenmaps, StressIsomap, load
from scalemani.anndata import isomap, isometric_projection, kernel_isomap, laplacian_eigenmaps, lle, project, stress
from scalemani.errors import ScalemaniError
from scalemani.points.reading import row_blocks

FIT = {"n_neighbors": 6, "correction": None}
RNG = np.random.default_rng(0)
ROWS = RNG.random((60, 3))
COUNTS = sp.random_array((60, 7), density=0.6, format="csr", rng=RNG)


@pytest.fixture
def adata():
    """60 cells, 7 genes, 3 components."""
    names = pd.DataFrame(index=[f"gene-{i}" for i in range(7)])
    return anndata.AnnData(sp.csr_matrix(COUNTS), var=names, obsm={"X_pca": ROWS})


@pytest.fixture(scope="module")
def expected():
    """Fits of the same rows from NumPy and SciPy."""
    return {name: KernelIsomap(**FIT).fit(rows).embedding_ for name, rows in (("X_pca", ROWS), ("X", COUNTS))}


def test_the_name_is_nobody_elses():
    assert scalemani.anndata is not anndata and Path(anndata.__file__).parent.parent == Path(pd.__file__).parent.parent
    assert hasattr(anndata, "AnnData") and not hasattr(scalemani.anndata, "AnnData")


def test_results_are_those_from_numpy_and_survive_a_file(adata, expected, tmp_path):
    """From principal components and from a sparse X; a copy leaves the original alone."""
    copied = kernel_isomap(adata, copy=True, **FIT)
    assert "X_isomap" not in adata.obsm and "isomap" not in adata.uns
    assert kernel_isomap(copied, "X", "genes", store=tmp_path / "run.zarr", **FIT) is None
    copied.write_h5ad(tmp_path / "x.h5ad")
    back = anndata.read_h5ad(tmp_path / "x.h5ad")
    for key, rep in (("isomap", "X_pca"), ("genes", "X")):
        assert back.obsm[f"X_{key}"].dtype == np.float64
        np.testing.assert_array_equal(back.obsm[f"X_{key}"], expected[rep])
        account = back.uns[key]
        assert account["params"]["use_rep"] == rep and account["params"]["n_neighbors"] == 6
        assert (account["params"]["correction"], account["additive_constant"]) == ("none", 0)
        centered = expected[rep] - expected[rep].mean(axis=0)
        np.testing.assert_allclose((centered**2).sum(axis=0), account["eigenvalues"])
        assert len(account["spectrum"]["share"]) == 2 and account["spectrum"]["knn_recall"] == 1
    assert "store" not in back.uns["isomap"] and back.uns["genes"]["store"] == str(tmp_path / "run.zarr")


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_isomap_and_kernel_isomap_are_their_estimators(adata, tmp_path):
    """The plain one adds no constant; the other one does unless told; a store knows which it was."""
    isomap(adata, key_added="plain", n_neighbors=6, store=tmp_path / "plain.zarr")
    kernel_isomap(adata, key_added="kernel", n_neighbors=6, store=tmp_path / "kernel.zarr")
    for key, kind, correction in (("plain", Isomap, "none"), ("kernel", KernelIsomap, "cailliez")):
        np.testing.assert_array_equal(adata.obsm[f"X_{key}"], kind(n_neighbors=6).fit(ROWS).embedding_)
        assert adata.uns[key]["params"]["correction"] == correction
        assert type(load(tmp_path / f"{key}.zarr")) is kind
    assert adata.uns["plain"]["additive_constant"] == 0 < adata.uns["kernel"]["additive_constant"]
    with pytest.raises(TypeError, match="correction"):
        isomap(adata, correction="cailliez")


def read(X):
    """Rows as the library reads them, dense."""
    return np.concatenate([block.toarray() if sp.issparse(block) else block for _, block in row_blocks(X)])


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, np.asarray])
def test_a_backed_x_is_read_by_blocks(adata, tmp_path, monkeypatch, form):
    adata.X = form(COUNTS.toarray())
    adata.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    monkeypatch.setattr(scalemani.anndata, "_ROWS_TOGETHER", 25)
    monkeypatch.setattr("scalemani.points.reading.BLOCK_BYTES", 8 * 7 * 30)
    where, X = scalemani.anndata._representation(backed, "X")
    assert where == "X" and sp.issparse(X) == (form is sp.csc_matrix)
    np.testing.assert_array_equal(read(X), COUNTS.toarray())
    if form is not sp.csc_matrix:
        assert [start for start, _ in row_blocks(X)] == ([0, 25, 50] if form is sp.csr_matrix else [0, 30])
    with pytest.raises(ScalemaniError, match="backed by a file and can't be copied"):
        kernel_isomap(backed, copy=True)
    with pytest.raises(ScalemaniError, match="written to through a view"):
        kernel_isomap(backed[:5])


@pytest.mark.slow
def test_a_backed_file_is_fitted_and_another_one_placed(adata, expected, tmp_path):
    adata.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r+")
    kernel_isomap(backed, "X", key_added="X_again", store=tmp_path / "run.zarr", **FIT)
    project(backed, tmp_path / "run.zarr", "X", "placed")
    backed.file.close()
    np.testing.assert_array_equal(backed.obsm["X_again"], expected["X"])
    np.testing.assert_allclose(backed.obsm["X_placed"], expected["X"], atol=1e-10)
    with pytest.raises(ScalemaniError, match="in another order"):
        project(adata[:, ::-1].copy(), tmp_path / "run.zarr", "X")


def directed(rows, k):
    """The k nearest others of each row, as scanpy leaves them: one direction, zeros of duplicates stored."""
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.fill_diagonal(distances, np.inf)
    columns = np.argsort(distances, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(distances, columns, axis=1)
    return sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(0, k * len(rows) + 1, k)))


def test_the_graph_of_scanpy_is_used_in_both_directions_with_its_zeros(adata):
    """Twins hang together by a stored zero alone, and have one place in the map."""
    rows = np.concatenate([ROWS[:57], ROWS[:3]])
    graph = directed(rows, 6)
    assert (graph.data == 0).sum() == 6
    adata.obsp["distances"] = graph
    adata.uns["neighbors"] = {"distances_key": "distances", "params": {"n_neighbors": 7}}
    kernel_isomap(adata, use_distances=True, correction=None)
    assert adata.uns["isomap"]["params"]["distances_key"] == "distances"
    found = adata.obsm["X_isomap"]
    np.testing.assert_allclose(found[:3], found[57:], atol=1e-6)
    lengths = np.full((60, 60), np.inf)
    coo = graph.tocoo()
    lengths[coo.row, coo.col] = lengths[coo.col, coo.row] = coo.data  # both directions have one length here
    np.fill_diagonal(lengths, 0)
    for through in range(60):
        lengths = np.minimum(lengths, lengths[:, through, None] + lengths[through])
    assert np.isfinite(lengths).all()
    np.testing.assert_allclose(
        found, KernelIsomap(metric="geodesic", correction=None).fit(lengths).embedding_, atol=1e-5
    )


def test_edges_of_one_direction_are_left_to_the_fit_and_those_of_two_lengths_take_the_shorter(adata):
    one = sp.csr_matrix(([1.0, 2.0, 3.0, 0.0], ([0, 1, 2, 3], [1, 0, 0, 2])), shape=(60, 60))
    adata.obsp["far"], adata.uns["other"] = one, {"distances_key": "far"}
    where, found = scalemani.anndata._distances(adata, "other")
    coo = found.tocoo()
    assert where == "far"
    edges = dict(zip(zip(coo.row.tolist(), coo.col.tolist(), strict=True), coo.data, strict=True))
    assert edges == {(0, 1): 1.0, (1, 0): 1.0, (2, 0): 3.0, (3, 2): 0.0}


def test_what_a_file_has_no_form_for_is_left_out_of_the_account_or_named(tmp_path):
    def city_block(x, y):
        return abs(x - y).sum()

    given = {
        "a": None,
        "b": {},
        "c": [],
        "d": [1.5, None],
        "e": {"p": 3, "none": None},
        "f": city_block,
        "g": ["x", "y"],
    }
    kept = scalemani.anndata._storable(given)
    made = anndata.AnnData(np.ones((1, 1)), uns={"isomap": kept})
    made.write_h5ad(tmp_path / "x.h5ad")
    back = anndata.read_h5ad(tmp_path / "x.h5ad").uns["isomap"]
    assert set(back) == {"d", "e", "f", "g"} and back["e"] == {"p": 3} and "city_block" in back["f"]
    np.testing.assert_array_equal(back["d"], [1.5, np.nan])
    assert list(back["g"]) == ["x", "y"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"use_rep": "X_umap"}, "('X', 'X_pca'); give one of these"),
        ({"key_added": "a/b"}, "without '/'"),
        ({"key_added": "X_"}, "give a name"),
        ({"use_distances": True}, "obsp has nothing, and no 'distances'; run sc.pp.neighbors"),
        ({"use_distances": True, "neighbors_key": "mine"}, "neighbors_key='mine' has no 'distances_key'"),
        ({"use_distances": True, "use_rep": "X_pca"}, "use_rep='X_pca' is not used"),
        ({"use_distances": True, "metric": "cosine"}, "metric='cosine' is not used"),
        ({"neighbors_key": "mine"}, "is for use_distances=True"),
    ],
)
def test_wrong_use_is_one_line_before_any_work(adata, options, words):
    with pytest.raises(ScalemaniError) as caught:
        kernel_isomap(adata, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ScalemaniError, match="an AnnData is needed"):
        kernel_isomap(ROWS)


@pytest.mark.parametrize("wrong", [np.inf, np.nan, -np.inf])
@pytest.mark.parametrize("at", [(0, 1), (1, 0)])
def test_an_edge_that_is_not_finite_is_said_to_be_that(adata, wrong, at):
    """Whichever direction has it: the other one's length is no reason to speak of symmetry."""
    graph = (directed(ROWS, 6) + directed(ROWS, 6).T).tolil()
    graph[at], graph[at[::-1]] = wrong, 2.7
    adata.obsp["distances"], adata.uns["neighbors"] = graph.tocsr(), {"distances_key": "distances"}
    for options in ({}, {"graph": "mutual"}):
        with pytest.raises(ScalemaniError, match=r"^obsp\['distances'\] has entries that are not finite"):
            kernel_isomap(adata, use_distances=True, **options)


def test_isometric_projection_leaves_loadings_of_x_alone_and_takes_labels_from_obs(adata, tmp_path):
    kinds = np.array(["a", "b"] * 30)
    adata.obs["kind"] = pd.Categorical(kinds)
    options = {"n_neighbors": 6, "disconnected": "join"}
    isometric_projection(adata, labels="kind", key_added="pcs", **options)
    isometric_projection(adata, "X", labels="kind", store=tmp_path / "run.zarr", **options)
    isometric_projection(adata, "X", key_added="rbf", kernel="rbf", **options)
    assert list(adata.varm) == ["isometric_projection"]
    for key, rows in (("pcs", ROWS), ("isometric_projection", COUNTS)):
        model = IsometricProjection(**options).fit(rows, kinds)
        np.testing.assert_array_equal(adata.obsm[f"X_{key}"], model.embedding_)
        assert adata.uns[key]["params"]["labels"] == "kind" and "correction" not in adata.uns[key]["params"]
    np.testing.assert_array_equal(adata.varm["isometric_projection"], model.components_.T)
    project(adata, tmp_path / "run.zarr", "X", "placed")
    np.testing.assert_allclose(adata.obsm["X_placed"], adata.obsm["X_isometric_projection"], atol=1e-9)
    adata.write_h5ad(tmp_path / "x.h5ad")


def test_labels_of_obs_that_are_none_are_refused(adata):
    adata.obs["kind"] = pd.Categorical(["a", None, *["b"] * 58])
    adata.obs["number"] = [0.0, np.nan, *[1.0] * 58]
    for column in ("kind", "number"):
        with pytest.raises(ScalemaniError, match="y is missing at row 1"):
            isometric_projection(adata, labels=column)
    with pytest.raises(
        ScalemaniError, match=r"labels='other' is no column of obs \('kind', 'number'\): give the name of one"
    ):
        isometric_projection(adata, labels="other")
    with pytest.raises(ScalemaniError, match="an AnnData is needed"):
        isometric_projection(ROWS)


def test_raw_stress_is_its_estimator_and_has_no_eigenvalues(adata, tmp_path):
    stress(adata, n_neighbors=8, store=tmp_path / "run.zarr")
    model, told = load(tmp_path / "run.zarr"), adata.uns["stress"]
    np.testing.assert_array_equal(adata.obsm["X_stress"], StressIsomap(n_neighbors=8).fit(ROWS).embedding_)
    assert "eigenvalues" not in told and told["spectrum"]["stress_1"] == model.stress_[-1]
    adata.write_h5ad(tmp_path / "x.h5ad")
    before = adata.obsm["X_stress"]
    project(adata, model)
    np.testing.assert_array_equal(adata.obsm["X_stress"], before)


@pytest.mark.filterwarnings("ignore:the next eigenvalue", "ignore:commute times follow")
@pytest.mark.parametrize(
    ("call", "kind", "given"),
    [(lle, LLE, {"reg": 1e-2}), (laplacian_eigenmaps, LaplacianEigenmaps, {"weights": "gaussian"})],
    ids=["lle", "laplacian_eigenmaps"],
)
def test_methods_without_distances_are_their_estimators(adata, tmp_path, call, kind, given):
    key = call.__name__
    call(adata, n_neighbors=8, store=tmp_path / "run.zarr", **given)
    call(adata, "X", "genes", n_neighbors=8, **given)
    for name, rows in ((key, ROWS), ("genes", COUNTS)):
        model = kind(n_neighbors=8, **given).fit(rows)
        np.testing.assert_array_equal(adata.obsm[f"X_{name}"], model.embedding_)
        np.testing.assert_array_equal(adata.uns[name]["eigenvalues"], model.eigenvalues_)
        np.testing.assert_array_equal(model.eigenvalues_, model.spectrum_["eigenvalues"])
    assert "additive_constant" not in adata.uns[key] and adata.uns[key]["params"] | given == adata.uns[key]["params"]
    assert adata.uns[key]["spectrum"].get("sigma") == load(tmp_path / "run.zarr").spectrum_["sigma"]
    adata.write_h5ad(tmp_path / "x.h5ad")
    before = adata.obsm[f"X_{key}"]
    project(adata, tmp_path / "run.zarr")
    np.testing.assert_array_equal(adata.obsm[f"X_{key}"], before)
    with pytest.raises(ScalemaniError, match=f"labels='kind': {kind.__name__} takes none"):
        call(adata, labels="kind")


@pytest.mark.filterwarnings("ignore:the next eigenvalue", "ignore:commute times follow")
def test_a_graph_is_enough_for_laplacian_eigenmaps_alone(adata):
    adata.obsp["distances"], adata.uns["neighbors"] = directed(ROWS, 8), {"distances_key": "distances"}
    laplacian_eigenmaps(adata, use_distances=True)
    np.testing.assert_allclose(
        adata.obsm["X_laplacian_eigenmaps"], LaplacianEigenmaps(n_neighbors=8).fit(ROWS).embedding_, atol=1e-9
    )
    with pytest.raises(ScalemaniError, match="weights are found from rows of features"):
        lle(adata, use_distances=True)
