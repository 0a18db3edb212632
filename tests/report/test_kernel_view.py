"""A kernel view holds the kernel's own eigenvalues and feature distances, by dense matrices and closed forms."""

import contextlib
import html
from pathlib import Path

import numpy as np
import pytest
import zarr
from data import ring, roll, two
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist

from scalemani import LLE, Isomap, IsometricProjection, KernelIsomap, LaplacianEigenmaps, kernel_view
from scalemani.cluster import machine
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.projection.kernel_values import TrainingRows
from scalemani.report import maps, sections
from scalemani.words import percent

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore:the next eigenvalue"),
]
CURVE = {
    name.removeprefix("scurve_"): value
    for name, value in np.load(Path(__file__).parent.parent / "oracles" / "lle.npz").items()
}
X = CURVE["X"]  # 240 rows
EXACT = 1e-6  # of the largest value: D is float32, and M+ is known so well


def near(ours, theirs, relative=EXACT):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=relative * np.abs(theirs).max())


def lle():
    return LLE(int(CURVE["k"]), 3, scale="kernel").fit(X)


def residual_matrix():
    """I - W of the oracle."""
    W = np.zeros((len(X), len(X)))
    np.put_along_axis(W, CURVE["idx"], CURVE["weights"], axis=1)
    return np.eye(len(X)) - W


def in_users_order(view, distances):
    """Of a view of all rows."""
    out = np.empty_like(distances)
    out[np.ix_(view.rows, view.rows)] = distances
    return out


def feature_distances(K):
    return np.sqrt(np.maximum(np.add.outer(np.diag(K), np.diag(K)) - 2 * K, 0))


def test_lle_has_the_pseudo_inverse_between_training_rows_and_the_shifted_matrix_beside_it(tmp_path):
    A, model = residual_matrix(), lle()
    inverse = np.linalg.pinv(A)
    K = model.kernel_to(tmp_path / "K")[:]
    near(K, inverse @ inverse.T)
    assert zarr.open_array(tmp_path / "K").shape == (240, 240)
    V = model.embedding_
    near(K @ V, V / model.eigenvalues_)
    view = kernel_view(model)
    first, second = view.kernels
    assert first.name == "M+"
    near(in_users_order(view, first.distances), feature_distances(K))
    J = np.eye(240) - 1 / 240
    shifted = J @ (np.linalg.norm(A, 2) ** 2 * np.eye(240) - A.T @ A) @ J
    near(second.eigenvalues, np.linalg.eigvalsh(shifted)[::-1])
    near(in_users_order(view, second.distances), feature_distances(shifted))


@pytest.mark.parametrize("make", [lambda: Isomap(8, 3), lambda: KernelIsomap(8, 3), lambda: LaplacianEigenmaps(8, 3)])
def test_a_view_has_the_eigenvalues_of_the_kernel_and_of_fewer_rows_those_of_the_axes(make):
    model = make().fit(X)
    K = model.kernel()
    view, some = kernel_view(model), kernel_view(model, 61, random_state=2)
    (first, *_), values = view.kernels, np.linalg.eigvalsh(K)[::-1]
    near(first.eigenvalues, values)
    assert view.center == view.center  # its old name
    assert first.trace == pytest.approx(np.trace(K))
    np.testing.assert_allclose(some.kernels[0].eigenvalues, values[:3], rtol=1e-4)
    assert some.kernels[0].trace == pytest.approx(np.trace(K), rel=0.03)
    assert len(some.kernels) == 1
    assert len(some.rows) <= 61
    for one in (view, some):
        near(one.kernels[0].distances, feature_distances(K)[np.ix_(one.rows, one.rows)], 1e-5)
        near(one.embedded, cdist(model.embedding_[one.rows], model.embedding_[one.rows]))
        near(one.straight, cdist(X[one.rows], X[one.rows]))
        assert len(one.near) >= len(one.rows) // 4
        furthest = np.sort(cdist(X, X), axis=1)[:, 8]  # of the neighbours of each row
        i, j = one.rows[one.near.T]
        assert (np.linalg.norm(X[i] - X[j], axis=1) <= np.maximum(furthest[i], furthest[j]) + 1e-12).all()


def test_feature_distances_have_their_closed_forms():
    model = LaplacianEigenmaps(2, 2, scale="ham").fit(ring(12))
    (kernel,) = kernel_view(model).kernels
    steps = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    view = kernel_view(model)
    near(in_users_order(view, kernel.distances) ** 2, 12 * steps * (12 - steps) / 12, 1e-10)  # of a cycle
    model = KernelIsomap(8, 2).fit(X)
    view, D = kernel_view(model), model.geodesics(np.arange(240))
    with_constant, without = (in_users_order(view, kernel.distances) for kernel in view.kernels)
    assert [kernel.name for kernel in view.kernels] == ["K(c)", "K2"]
    near(with_constant, (D + model.additive_constant_) * (1 - np.eye(240)))
    near(without, D, 1e-5)
    assert view.correlation(view.embedded, view.straight) == pytest.approx(
        np.corrcoef(pdist(model.embedding_), pdist(X))[0, 1]
    )
    view = kernel_view(Isomap(8, 2).fit(X))
    (kernel,) = view.kernels
    assert kernel.name == "K2"  # where edges are as long as their straight lines
    near(view.pairs(kernel.distances, local=True), view.pairs(view.straight, local=True), 1e-5)
    assert (
        view.correlation(kernel.distances, view.straight, local=True)
        > 0.999
        > 0.9
        > (view.correlation(kernel.distances, view.straight))
    )


def test_rows_that_are_not_looked_at_are_not_asked_of_the_kernel(monkeypatch):
    asked, place = [], TrainingRows.place
    monkeypatch.setattr(TrainingRows, "place", lambda self, found: asked.append(len(found.own)) or place(self, found))
    kernel_view(lle(), 40)
    assert 20 <= sum(asked) <= 40


@pytest.mark.slow
def test_views_of_given_distances_of_one_axis_and_of_parts_are_drawn():
    D = cdist(X[:80], X[:80])
    with_twins = np.concatenate([two(80), two(80)[:30]])
    for model in (
        Isomap(metric="geodesic").fit(D),
        Isomap(8, 1).fit(X[:80]),
        LaplacianEigenmaps(8, 2, disconnected="largest").fit(with_twins),
    ):
        view = kernel_view(model)
        assert np.isfinite(view.points).all()
        assert len(view.rows) == view.n in (40, 80)
        assert len(view.draw().axes) >= 6


def test_sparse_rows_stay_so_and_a_kernel_of_zeros_is_drawn(monkeypatch, recwarn, tmp_path):
    model, made, toarray = LaplacianEigenmaps(8, 2).fit(csr_array(X[:40])), [], csr_array.toarray
    with monkeypatch.context() as patched:
        patched.setattr(csr_array, "toarray", lambda self: made.append(self.shape) or toarray(self))
        view = kernel_view(model)
    assert X[:40].shape not in made  # rows of many columns take gigabytes
    near(view.straight, cdist(X[view.rows], X[view.rows]))
    recwarn.clear()
    view = kernel_view(LLE(1, 1).fit(X[:2]))
    assert view.kernels[1].eigenvalues.max() < 1e-12  # of two points M is 2J
    view.draw(tmp_path / "view.png")
    assert not recwarn
    assert (tmp_path / "view.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(TypeError):
        view.draw(2)  # no file of Python's own


def test_the_page_has_a_section_of_the_kernel_where_there_is_one(monkeypatch):
    for module in (sections, maps):
        monkeypatch.setattr(module, "png", lambda figure: b"\x89PNG\r\n\x1a\n")

    def page(model):
        with monkeypatch.context() as patched:
            patched.setattr("scalemani.report.kernel_view.squared_distances", None)  # the page shows none of X
            return html.unescape(sections.run_page(model.fit(X)._run))

    shares = {"K2": Isomap(8, 2), "L+": LaplacianEigenmaps(8, 2), "M+": LLE(8, 2)}
    for name, model in shares.items():
        said, kernel = page(model), kernel_view(model).kernels[0]
        assert "The method's kernel" in said
        assert f"PCA with {name}, and hold {percent(kernel.shares[:2].sum())} of its trace" in said
    assert "method's kernel" not in page(IsometricProjection(8, 2))
    assert "method's kernel" not in page(LaplacianEigenmaps(8, 2, normalized=True))


def test_what_can_not_be_looked_at_is_refused_in_a_line(monkeypatch, tmp_path):
    model, rows = Isomap(8, 2).fit(X), roll(150)
    for call, cause in (
        (lambda: kernel_view(Isomap()), "or the path of a store; Isomap is not fitted"),
        (lambda: kernel_view(3), "or the path of a store; int is none"),
        (lambda: kernel_view(IsometricProjection(8, 2).fit(rows)), "isometric-projection has no kernel between rows"),
        (lambda: kernel_view(Isomap(8, 2, landmarks=40).fit(rows)), "fit without landmarks"),
        (lambda: kernel_view(LLE(8, 2, landmarks=40).fit(rows)), "fit without landmarks"),
        (lambda: kernel_view(LaplacianEigenmaps(8, 2, alpha=1.0).fit(rows)), "without normalized, alpha"),
        (lambda: lle().kernel_to(tmp_path / "K", X), "lle gives no kernel values of new rows"),
        *((lambda n=n: kernel_view(model, n), f"n_rows={n}: a whole number") for n in (2, 10.0, True)),
        (lambda: kernel_view(model, 10, random_state=-1), "random_state=-1"),
    ):
        with pytest.raises(ScalemaniError, match=cause) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert not [*tmp_path.iterdir()]
    replaced = Isomap(8, 2, store=tmp_path / "store").fit(rows)
    Isomap(8, 2, store=tmp_path / "store", landmarks=40, overwrite=True).fit(rows)
    with pytest.raises(ScalemaniError, match="was fitted again since"):
        kernel_view(replaced)
    with monkeypatch.context() as patched, contextlib.ExitStack() as held:
        patched.setattr(machine, "free_memory", lambda: 10**5)
        held.enter_context(pytest.raises(DoesNotFitError, match="240 rows of a kernel of 240 points take 1,843,200"))
        kernel_view(model)
