"""A repair, or the fit that it leaves work to, may be stopped anywhere: the store says so, and the next one ends it."""

import numpy as np
import pytest
from stored_models import fitted, same

from scalemani import load
from scalemani.integrity import repair as mend
from scalemani.integrity import verify
from scalemani.methods.base import method_of
from scalemani.steps.distances import stored_histogram
from scalemani.steps.records import NamesRecord, RedoRecord
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


def flip(run, name):
    chunk = next(file for file in (run / name / "c").rglob("*") if file.is_file())
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])


class Stop:
    """Ends the process that calls a store's method the `count`-th time, before it does anything."""

    def __init__(self, patch, name, count):
        real, self.calls = getattr(RunStore, name), 0

        def method(store, *arguments, **found):
            self.calls += 1
            if self.calls == count:
                raise KeyboardInterrupt
            return real(store, *arguments, **found)

        patch.setattr(RunStore, name, method)


@pytest.fixture
def marked(run):
    """A run whose graph was damaged, and is left to the fit."""
    flip(run, "graph_weights")
    mend(str(run))
    assert RunStore(run).record(RedoRecord) is not None
    return run


@pytest.mark.parametrize(("name", "count"), [("write_array", 5), ("finish", 1), ("forget", 1)])
def test_a_stop_while_the_graph_is_made_again(undisturbed, marked, monkeypatch, name, count):
    """The same graph: D stays, whichever arrays had been written, and what is half done is seen until it is whole."""
    before = {file: file.stat().st_mtime_ns for file in marked.glob("distances/c/*/*")}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Stop(patch, name, count)
        fitted(marked)
    assert RunStore(marked).record(RedoRecord) is not None
    same(fitted(marked), undisturbed)
    assert {file: file.stat().st_mtime_ns for file in marked.glob("distances/c/*/*")} == before
    assert verify(str(marked)).faults == ()


@pytest.mark.parametrize(("name", "count"), [("forget", 1), ("drop_distances", 1)])
def test_another_graph_never_goes_with_the_old_distances(undisturbed, marked, monkeypatch, name, count):
    """As after an upgrade; the stop comes when the new graph is recorded and the old distances are still there."""
    store = RunStore(marked)
    other = {name: value ^ 1 for name, value in store.needed(RedoRecord).arrays.items()}
    store.finish(RedoRecord(arrays=other))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Stop(patch, name, count)
        fitted(marked)
    made, real = [], Tiles.write

    def write(store, row, upper, use=None):
        made.append(row)
        return real(store, row, upper, use)

    monkeypatch.setattr(Tiles, "write", write)
    same(fitted(marked), undisturbed)
    assert sorted(made) == list(range(7)), "distances of another graph were kept"


def test_a_repair_that_is_stopped_while_it_solves_leaves_the_fit_there(undisturbed, run, monkeypatch):
    flip(run, "means")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("scalemani.steps.axes.solve", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        mend(str(run))
    assert {"fit", "solve"} <= RunStore(run).document.stages.keys()
    done, left = mend(str(run))
    assert any("solved again" in sentence for sentence in done) and not left.faults
    same(load(run), undisturbed)


def test_a_repair_that_is_stopped_while_it_reads_again_is_gone_on_with(undisturbed, run, monkeypatch):
    """What it had written was no leftover."""
    flip(run, "first_found")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Stop(patch, "finish", 1)
        mend(str(run))
    assert {fault.kind for fault in verify(str(run)).faults} == {"array"}
    assert not mend(str(run))[1].faults
    assert (run / "distance_counts").is_dir() and stored_histogram(str(run)) is not None
    same(load(run), undisturbed)


def test_an_array_that_a_finished_stage_needs_is_missed_wherever_it_has_gone(run):
    """The document may have lost it too: it takes a name out before an array is written anew."""
    store = RunStore(run)
    needed = set().union(*(step.left(store) for step in method_of(store).steps_in(store)))
    assert needed >= {"vertex", "order", "graph_weights", "vectors", "distance_counts", "first_found"}
    assert needed <= set(store.document.arrays)
    for name in ("vertex", "vectors", "distance_counts"):
        store.remove_array(name)
    assert {(fault.kind, fault.name) for fault in verify(str(run)).faults} == {
        ("array", name) for name in ("vertex", "vectors", "distance_counts")
    }


def test_a_kill_between_the_documents_two_files_is_no_damage(undisturbed, run, capsys):
    before = (run / "document.json").read_bytes()
    RunStore(run).finish(NamesRecord(features=["a", "b", "c"]))
    (run / "document.json").write_bytes(before)
    found = verify(str(run))
    assert [fault.kind for fault in found.faults] == ["behind"] and not found.damaged
    done, left = mend(str(run))
    assert len(done) == 1 and not left.faults
    assert load(run).feature_names_in_.tolist() == ["a", "b", "c"]


def test_distances_that_the_graph_contradicts_are_dropped_once(undisturbed, run):
    """Tiles and their checksums made anew from other numbers, in a run without a model to solve again."""
    store = RunStore(run)
    store.forget("fit", "solve")
    for row, here in enumerate(store.blocks):
        upper = store.read_rows(np.arange(here.start, here.stop))[:, here.start :]
        store.tiles.unfinish(row)
        store.tiles.write(row, upper * np.float32(1.5))
    assert {fault.kind for fault in verify(str(run)).faults} == {"model"}
    done, left = mend(str(run))
    assert len(done) == 1 and "dropped" in done[0] and not left.damaged
    same(fitted(run), undisturbed)


@pytest.mark.parametrize("count", [1, 3])
def test_a_repair_that_is_stopped_where_distances_were_dropped(undisturbed, tmp_path, monkeypatch, count):
    """The model is to be made again, and so is D: the same fit goes on from wherever that was left."""
    fitted(tmp_path / "r", keep_distances=False)
    flip(tmp_path / "r", "vectors")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Stop(patch, "remove_array", count)
        mend(str(tmp_path / "r"))
    same(fitted(tmp_path / "r", keep_distances=False), undisturbed)
    store = RunStore(tmp_path / "r")
    store.forget("fit", "solve")  # as an earlier release's repair left it
    same(fitted(tmp_path / "r", keep_distances=False), undisturbed)
