"""What goes into each matrix product is laid out in one way, however the operands came: so bits are the same.

With AVX-512, OpenBLAS gives other last bits where the same operand has another memory order. Here the shape and the
strides of every operand are recorded, and compared between ways to the same result: any machine sees a difference.
"""

import ast
import threading
from collections import Counter
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from data import roll
from distributed import Client, LocalCluster
from scipy.spatial.distance import cdist
from stored_models import T, same

import scalemani
from scalemani import Isomap, KernelIsomap, load
from scalemani.cluster import choice
from scalemani.kernel import blas, eigensolver
from scalemani.kernel.operators import CenteredKernels

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]
X = roll(400)
D = cdist(X, X)
FUNCTIONS = ("product", "row_dots")


def layout(array):
    """Shape and strides; of an axis of one entry the stride says nothing."""
    strides = (stride if size > 1 else 0 for size, stride in zip(array.shape, array.strides, strict=True))
    return array.shape, tuple(strides), str(array.dtype)


class Products:
    """Records the operands of every product that is made in this process, by who made it: the client or a task."""

    def __init__(self):
        self.client, self.tasks, self.real = [], Counter(), {}

    def start(self):
        for name in FUNCTIONS:
            self.real[name] = getattr(blas, name)
            setattr(blas, name, self._recording(name))
        return self

    def stop(self):
        for name, function in self.real.items():
            setattr(blas, name, function)

    def _recording(self, name):
        def made(a, b):
            found = (name, layout(a), layout(b))
            if threading.current_thread() is threading.main_thread():
                self.client.append(found)
            else:
                self.tasks[found] += 1
            return self.real[name](a, b)

        return made


def recorded(make):
    """What `make` gives, and the products that it took."""
    seen = Products().start()
    try:
        return make(), seen
    finally:
        seen.stop()


@pytest.fixture(scope="module")
def iterating():
    """Small problems go through the iteration too, and their tasks through threads: those are told apart by these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eigensolver, "FULL_BASIS", 1)
        patch.setattr(choice, "SMALL", 0)
        yield


def fitted(path=None, points=X, **arguments):
    asked = {"n_neighbors": 8, "tol": 1e-9, "random_state": 0, "store": path, **arguments}
    return KernelIsomap(**asked).fit(points)


def by_landmarks(path=None, **arguments):
    return fitted(path, landmarks=80, **arguments)


FITS = {"full": fitted, "landmarks": by_landmarks}


@pytest.fixture(scope="module", params=FITS)
def fresh(request, iterating):
    """A way to fit, an undisturbed fit by it, and its products."""
    model, products = recorded(FITS[request.param])
    assert len(products.client) > 20 and (products.tasks or request.param == "landmarks")
    return FITS[request.param], model, products


def test_a_fit_that_was_stopped_makes_the_products_of_one_that_was_not(fresh, tmp_path, monkeypatch):
    """In its third read of D, by landmarks before the solve: the same, one after another, but for finished pieces."""
    fit, model, expected = fresh
    reads, real = [], CenteredKernels.products

    def products(kernels, vectors, precision=None):
        reads.append(1)
        if len(reads) == 3:
            raise KeyboardInterrupt
        return real(kernels, vectors, precision)

    with monkeypatch.context() as patch:
        patch.setattr(CenteredKernels, "products", products)
        if fit is by_landmarks:
            patch.setattr("scalemani.steps.axes.solve", stopped)
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "run")
    again, found = recorded(lambda: fit(tmp_path / "run"))
    same(again, model)
    rest = iter(expected.client)
    assert all(made in rest for made in found.client) and len(found.client) > 0.8 * len(expected.client)
    assert set(found.tasks) <= set(expected.tasks)


def stopped(*_, **__):
    raise KeyboardInterrupt


def start_recording(dask_worker):
    dask_worker.products = Products().start()


def stop_recording(dask_worker):
    dask_worker.products.stop()
    return dask_worker.products.tasks


@pytest.mark.slow
def test_worker_processes_make_the_products_of_threads(iterating):
    """Tasks and their results are pickled on the way."""
    cloudpickle.register_pickle_by_value(__import__(__name__))
    try:
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            for fit in FITS.values():
                client.run(start_recording)
                there, seen = recorded(lambda fit=fit: fit(scheduler=client))
                tasks = sum(client.run(stop_recording).values(), Counter())
                here, expected = recorded(fit)
                same(here, there)
                assert seen.client == expected.client
                assert tasks == expected.tasks
    finally:
        cloudpickle.unregister_pickle_by_value(__import__(__name__))


@pytest.mark.parametrize(
    "points", [np.asfortranarray(X), X.astype(">f8"), X[::-1][::-1]], ids=["F", "big-endian", "views"]
)
def test_the_memory_order_of_the_points_changes_nothing(fresh, points):
    fit, model, expected = fresh
    again, found = recorded(lambda: fit(points=points))
    same(again, model)
    assert (found.client, found.tasks) == (expected.client, expected.tasks)


@pytest.mark.parametrize("kind", ["features", "geodesic", "landmarks"])
def test_a_point_is_placed_by_the_products_of_its_batch(kind, tmp_path):
    """Alone, among others, and by a model that was loaded."""
    if kind == "geodesic":
        rows, fit = cdist(T[:4], X), lambda: Isomap(metric="geodesic", n_components=3, store=tmp_path / "run").fit(D)
    else:
        rows, fit = T[:4], lambda: FITS["full" if kind == "features" else kind](tmp_path / "run")
    model = fit()
    together, products = recorded(lambda: model.transform(rows))
    loaded = load(tmp_path / "run")
    for some in (loaded, model):
        alone, of_each = recorded(lambda some=some: np.concatenate([some.transform(row[None]) for row in rows]))
        np.testing.assert_array_equal(alone, together)
        assert set(of_each.client) | set(of_each.tasks) <= set(products.client) | set(products.tasks)
    turned, _ = recorded(lambda: model.transform(np.asfortranarray(rows)))
    np.testing.assert_array_equal(turned, together)


def test_every_product_of_a_fit_and_a_projection_is_one_that_is_recorded():
    """Elsewhere products are bounds, pictures, quality on a sample, or yes and no: no bits hang on them."""
    root = Path(scalemani.__file__).parent
    free = {"kernel/blas", "embedding/quality", "points/given_matrix", "planning/seconds", "demo"}
    made = ("dot", "vdot", "einsum", "vecdot", "inner", "tensordot")  # np.matmul is for questions
    for path in root.rglob("*.py"):
        name = str(path.relative_to(root).with_suffix(""))
        if name in free or name.split("/")[0] in ("neighbors", "report"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.BinOp | ast.AugAssign):
                assert not isinstance(node.op, ast.MatMult), f"{name}:{node.lineno}"
            if isinstance(node, ast.Call):
                assert getattr(node.func, "attr", None) not in made, f"{name}:{node.lineno}"
