"""What takes its part of D while it is written: a step names a consumer, and finds what it took, with the same bits.

Steps may use the rows of X and labels, too; here they do.
"""

import numpy as np
import pytest
from data import roll
from distributed import Client, LocalCluster

from scalemani import Isomap, load
from scalemani.errors import DamagedTilesWarning
from scalemani.integrity import verify
from scalemani.methods import REGISTRY, register
from scalemani.methods.isomap import IsomapMethod
from scalemani.steps.base import Step
from scalemani.steps.distances import TileDistances
from scalemani.steps.records import DistancesRecord, GraphRecord
from scalemani.storage.records import StepRecord
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

X, LABELS = roll(150), np.arange(150) % 4
SEEN = {}


class SquareSums:
    """Row sums of D∘D, of a row's tiles: of both blocks that a tile belongs to."""

    def begin(self, store, row):
        return SquareSumsOfRow(store.blocks, row)

    def combine(self, total, part):
        total[len(total) - len(part) :] += part


class SquareSumsOfRow:
    def __init__(self, blocks, row):
        self.blocks, self.start = blocks, blocks[row].start
        self.result = np.zeros(blocks.n - self.start)

    def take(self, row, column, tile):
        squares = tile.astype(float) ** 2
        for block, sums in ((row, squares.sum(1)), (column, squares.sum(0)))[: 2 if row != column else 1]:
            here = self.blocks[block]
            self.result[here.start - self.start : here.stop - self.start] += sums


class HalfRows:
    """A copy of D in float16, laid down beside the run, and how many tiles it has."""

    def __init__(self, folder):
        self.folder = folder

    def begin(self, store, row):
        return HalfRowsOfRow(self.folder)

    def combine(self, total, part):
        total += part


class HalfRowsOfRow:
    def __init__(self, folder):
        self.folder, self.result = folder, np.zeros(1, int)

    def take(self, row, column, tile):
        np.save(self.folder / f"{row}_{column}.npy", tile.astype(np.float16))
        self.result += 1


class AskRecord(StepRecord, frozen=True, kw_only=True):
    STEP = "ask"


class LookRecord(StepRecord, frozen=True, kw_only=True):
    STEP = "look"


class Ask(Step):
    """Names consumers, before D is made."""

    record = AskRecord

    def run(self, work):
        work.consumers["squares"] = SquareSums()
        if "folder" in SEEN:
            work.consumers["halves"] = HalfRows(SEEN["folder"])


class Look(Step):
    """Looks at what they found, at the rows of X and at the labels."""

    record = LookRecord

    def run(self, work):
        SEEN.update({name: work.made[name] for name in work.consumers})
        order = work.store.read_array("order")
        rows = work.points.points.rows[order] if work.points.kind == "features" else None
        first = np.unique(work.points.distinct, return_index=True)[1]
        SEEN.update(rows=rows, labels=None if work.y is None else np.asarray(work.y)[first[order]])


class WatchedMethod(IsomapMethod):
    def steps(self, parameters):
        made = [*super().steps(parameters)]
        at = next(at for at, step in enumerate(made) if isinstance(step, TileDistances))
        return [*made[:at], Ask(), made[at], Look(), *made[at + 1 :]]


class Watched(Isomap):
    method = WatchedMethod()


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr("scalemani.methods.REGISTRY", dict(REGISTRY))
    monkeypatch.setattr("scalemani.steps.cuts.LARGEST_TILE", 32)
    register("watched", Watched)
    SEEN.clear()


def watched(path, **arguments):
    return Watched(n_neighbors=8, store=path, **arguments)


def tiles_of(path):
    """D as it lies in the store."""
    store = RunStore(path)
    return store.read_rows(np.arange(store.blocks.n))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The same fit with nobody else at D."""
    return Isomap(n_neighbors=8, store=tmp_path_factory.mktemp("plain") / "run").fit(X)


def test_what_a_consumer_takes_is_of_all_of_d(tmp_path, plain):
    SEEN["folder"] = tmp_path
    model = watched(tmp_path / "run").fit(X)
    D = tiles_of(tmp_path / "run")
    np.testing.assert_allclose(SEEN["squares"], (D.astype(float) ** 2).sum(1), rtol=1e-12)
    store = RunStore(tmp_path / "run")
    rows = len(store.blocks)
    assert SEEN["halves"].tolist() == [rows * (rows + 1) // 2] == [len(list(tmp_path.glob("*_*.npy")))]
    for row, here in enumerate(store.blocks):
        for column in range(row, rows):
            half = np.load(tmp_path / f"{row}_{column}.npy")
            np.testing.assert_array_equal(half, D[here, store.blocks[column]].astype(np.float16))
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)
    assert not verify(tmp_path / "run").faults


def stopper(rows):
    def report(stage, done, total):
        if (stage, done) == ("geodesics", rows):
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_and_a_stop_give_the_same_bits(tmp_path, workers):
    watched(tmp_path / "alone", scheduler="synchronous").fit(X)
    expected = SEEN.pop("squares")
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, memory_limit=0, **addresses) as local,
        Client(local, set_as_default=False) as client,
    ):
        watched(tmp_path / "whole", scheduler=client).fit(X)
        np.testing.assert_array_equal(SEEN.pop("squares"), expected)
        with pytest.raises(KeyboardInterrupt):
            watched(tmp_path / "stopped", scheduler=client, progress=stopper(2)).fit(X)
        assert "squares" not in SEEN
        assert 2 <= len(RunStore(tmp_path / "stopped").blocks) - len(RunStore(tmp_path / "stopped").tiles.missing())
        watched(tmp_path / "stopped", scheduler=client).fit(X)
        np.testing.assert_array_equal(SEEN["squares"], expected)


def test_of_a_d_that_is_whole_it_is_read_back_and_no_row_is_written(tmp_path, monkeypatch):
    """As after a stop behind D; a row that was damaged is made again, and found as it was."""
    watched(tmp_path / "run").fit(X)
    expected = SEEN.pop("squares")
    store = RunStore(tmp_path / "run")
    written, real = [], Tiles.write
    monkeypatch.setattr(Tiles, "write", lambda self, row, *more: (written.append(row), real(self, row, *more))[1])
    store.forget("solve", "fit")
    watched(tmp_path / "run").fit(X)
    np.testing.assert_array_equal(SEEN.pop("squares"), expected)
    assert written == []
    chunk = store.tiles.file(1, 2)
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    with pytest.warns(DamagedTilesWarning):
        watched(tmp_path / "run").fit(X)
    np.testing.assert_array_equal(SEEN["squares"], expected)
    assert written == [1]


def test_of_a_d_that_is_given_as_well(tmp_path, plain):
    D = plain.geodesics(np.arange(len(X)))
    watched(tmp_path / "run", metric="geodesic").fit(D)
    np.testing.assert_allclose(SEEN["squares"], (tiles_of(tmp_path / "run").astype(float) ** 2).sum(1), rtol=1e-12)


def test_a_step_has_the_rows_of_x_and_the_labels(tmp_path):
    """By vertex, as it puts them; through `fit`, `fit_transform`, and of rows that are there twice."""
    twice, labels = np.concatenate([X, X[:20]]), np.concatenate([LABELS, LABELS[:20]])
    for call in (Watched.fit, Watched.fit_transform):
        SEEN.clear()
        call(watched(None), twice, labels)
        found = {(*row, label) for row, label in zip(SEEN["rows"].tolist(), SEEN["labels"].tolist(), strict=True)}
        assert found == {(*row, label) for row, label in zip(X.tolist(), LABELS.tolist(), strict=True)}
    watched(None).fit(X)
    assert SEEN["labels"] is None


def test_the_method_of_a_store_is_the_one_that_made_it(tmp_path, plain):
    watched(tmp_path / "run").fit(X)
    model = load(tmp_path / "run")
    assert type(model) is Watched
    np.testing.assert_array_equal(model.transform(X[:9]), plain.transform(X[:9]))
    steps = RunStore(tmp_path / "run").document.stages
    assert {DistancesRecord.STEP, GraphRecord.STEP} <= steps.keys() and "look" not in steps
