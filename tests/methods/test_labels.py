"""A method that takes labels has a graph within classes, in a store that is resumed, verified, mended and planned."""

import numpy as np
import pytest
from data import roll

from scalemani import Isomap, methods
from scalemani.errors import ScalemaniError, StoreMismatchError
from scalemani.integrity import repair, verify
from scalemani.steps.graph import GraphStep
from scalemani.steps.records import GraphRecord
from scalemani.storage.run import RunStore

X = np.vstack([roll(120), roll(120)[:5]])
Y = np.arange(125) % 3
Y[120:] = (Y[:5] + 1) % 3  # equal rows of two classes
pytestmark = pytest.mark.usefixtures("quick_calibration")


@pytest.fixture(scope="module")
def within(toy):
    """The toy method, within classes."""

    class WithinClasses(toy.DistancesToRows):
        def _found(self, work):
            found = super()._found(work)
            return np.where(np.isfinite(found), found, 0.0)

    class WithinMethod(toy.ToyMethod):
        takes_labels = True

        def steps(self, parameters):
            return *super().steps(parameters)[:2], WithinClasses()

    class Within(toy.Toy):
        method = WithinMethod()

    Within.__qualname__, globals()["Within"] = "Within", Within  # where a store says that it is
    methods.register("within", Within, ("start",))
    yield Within
    methods.REGISTRY.pop("within")


@pytest.fixture
def fitted(within, tmp_path):
    return within(n_neighbors=6, store=tmp_path / "run").fit(X, Y)


def test_a_fit_has_edges_within_classes_alone(fitted):
    store = RunStore(fitted.store_)
    assert fitted.spectrum_["n_distinct"] == 125 and fitted.spectrum_["n_components_of_graph"] == 3
    assert store.read_array("class_starts").tolist() == [0, *np.cumsum(np.bincount(Y))]
    assert store.needed(GraphRecord).n_classes == 3 and "class_starts" in GraphStep().left(store)
    vertex_class = np.empty(125, int)
    vertex_class[store.read_array("vertex")] = Y
    indptr, indices = store.read_array("graph_indptr"), store.read_array("graph_indices")
    assert (vertex_class[indices] == np.repeat(vertex_class, np.diff(indptr))).all()
    assert (np.diff(vertex_class) >= 0).all()
    assert not verify(fitted.store_).faults


def test_a_run_goes_on_with_the_same_labels_and_no_others(fitted, within, tmp_path):
    def again(y):
        return within(n_neighbors=6, store=tmp_path / "run", start=2).fit(X, y)

    assert again(Y.astype(float)).spectrum_["start"] == 2, "the graph is that of the first fit"
    other = Y.copy()
    other[7] = (other[7] + 1) % 3
    for y in (other, Y.astype("U1")[::-1], None):
        with pytest.raises(StoreMismatchError, match="other data, labels or kernel"):
            again(y)


def test_damage_to_where_classes_begin_is_found_and_mended_by_the_same_fit(fitted, within, tmp_path):
    whole = RunStore(fitted.store_).read_array("class_starts")
    file = tmp_path / "run" / "class_starts" / "c" / "0"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    assert [fault.name for fault in verify(fitted.store_).faults] == ["class_starts"]
    repair(fitted.store_)
    within(n_neighbors=6, store=tmp_path / "run").fit(X, Y)
    assert (RunStore(fitted.store_).read_array("class_starts") == whole).all() and not verify(fitted.store_).faults


def test_other_methods_ignore_labels(toy, tmp_path):
    prints = []
    for name, y in (("a", None), ("b", Y), ("c", X), ("d", "nothing of the kind")):
        model = toy.Toy(n_neighbors=6, store=tmp_path / name).fit(X, y)
        store = RunStore(model.store_)
        prints.append(store.document.stages["data"].fields.fingerprint)
        assert "class_starts" not in store.document.arrays and store.needed(GraphRecord).n_classes is None
        assert b"n_classes" not in (tmp_path / name / "zarr.json").read_bytes()
    assert len(set(prints)) == 1
    assert (Isomap(n_neighbors=6).fit_transform(X[:60], Y[:60]) == Isomap(n_neighbors=6).fit_transform(X[:60])).all()


def test_a_plan_is_of_the_labelled_graph(within, toy):
    assert within(n_neighbors=6).plan(X, Y).n_vertices == 125
    assert within(n_neighbors=6).plan(X).n_vertices == toy.Toy(n_neighbors=6).plan(X, Y).n_vertices == 120


@pytest.mark.parametrize(
    ("y", "said"),
    [(Y[:-1], "124 labels"), (Y[:, None], "shape"), ([None] * 125, "missing at row 0"), ([1] * 125, "two classes")],
)
def test_labels_are_refused_before_a_file_is_made(y, said, within, tmp_path):
    for use in ("fit", "plan"):
        with pytest.raises(ScalemaniError, match=said):
            getattr(within(n_neighbors=6, store=tmp_path / "run"), use)(X, y)
    with pytest.raises(ScalemaniError, match="takes no labels"):
        within(store=tmp_path / "run", metric="precomputed").fit(np.zeros((125, 125)), Y)
    assert list(tmp_path.iterdir()) == []
