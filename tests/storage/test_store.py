"""A run on disk gives back what was written, or says that it can't: never a fill value, never another's files."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from data import random_distances, store_of
from hostile import one_line, sealed_document

from scalemani import load
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.geodesics.rows import shared_graph, shared_paths
from scalemani.integrity import verify
from scalemani.steps.records import DistancesRecord, NamesRecord, StartFields, StartRecord
from scalemani.storage import tiles
from scalemani.storage.files import checksum, create_once, open_location
from scalemani.storage.run import RunStore, shared_run
from scalemani.storage.targets import check_writable, kind_of

N, TILE = 37, 8  # five blocks, the last of five


@pytest.fixture
def distances():
    D = random_distances(N).astype(np.float32)
    return np.minimum(D, D.T)


@pytest.fixture
def run(distances, tmp_path):
    return store_of(distances, TILE, tmp_path / "run.zarr")


def chunk(run, row, column):
    return Path(run.path) / "distances" / "c" / str(row) / str(column)


def tree(path):
    """Every file below a path with its bytes."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()}


# ---- what is written is read -------------------------------------------------------------------


def test_tiles_are_read_as_written(run, distances):
    for row, column in run.blocks.tiles():
        part = distances[run.blocks[row], run.blocks[column]]
        np.testing.assert_array_equal(run.tiles.read(row, column), part)
        np.testing.assert_array_equal(run.tiles.read(row, column), part)


def test_rows_are_gathered_from_upper_tiles_alone(run, distances):
    """In any order, with repeats; none of them is below the diagonal on disk."""
    wanted = np.array([36, 0, 7, 8, 8, 20])
    np.testing.assert_array_equal(run.read_rows(wanted), distances[wanted])
    assert run.read_rows(np.empty(0, np.int64)).shape == (0, N)
    assert not chunk(run, 3, 1).exists()


def test_the_diagonal_tile_is_made_symmetric_from_its_upper_half(tmp_path):
    upper = np.array([[0, 1, 2, 6], [99, 0, 3, 7], [98, 97, 0, 8]], np.float32)
    store = RunStore.create(tmp_path / "run")
    store.create_distances(4, 3)
    used = []
    store.tiles.write(0, upper, use=lambda row, column, tile: used.append((row, column, tile.tolist())))
    assert store.tiles.read(0, 0).tolist() == [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    assert used == [(0, 0, [[0, 1, 2], [1, 0, 3], [2, 3, 0]]), (0, 1, [[6], [7], [8]])]


def test_what_is_used_while_it_is_written_is_confirmed_after_it(distances, tmp_path):
    """Every tile of the row, as it is read later; a use that fails leaves the row undone."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(N, TILE)
    used = {}

    def use(row, column, tile):
        assert not store.tiles.done(row)
        used[row, column] = tile.copy()
        if (row, column) == (1, 3):
            raise KeyboardInterrupt

    store.tiles.write(0, distances[:TILE], use)
    with pytest.raises(KeyboardInterrupt):
        store.tiles.write(1, distances[TILE : 2 * TILE, TILE:], use)
    assert store.tiles.missing() == [1, 2, 3, 4]
    for column in range(5):
        np.testing.assert_array_equal(used[0, column], store.tiles.read(0, column))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(5, dtype=np.int64),
        np.array([2**64 - 1, 0], np.uint64),
        np.empty((0, 2), np.int64),
        np.empty(0),
        np.full(7, np.nan),
        np.zeros((2, 3), np.float32),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20)[::3],
    ],
)
def test_small_arrays_come_back_with_their_dtype_shape_and_bits(tmp_path, array):
    store = RunStore.create(tmp_path / "run")
    store.write_array("a", array)
    back = RunStore(tmp_path / "run").read_array("a")
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_an_array_is_replaced_whole(tmp_path):
    store = RunStore.create(tmp_path / "run")
    store.write_array("a", np.arange(10))
    store.write_array("a", np.ones((2, 2)))
    np.testing.assert_array_equal(store.read_array("a"), np.ones((2, 2)))


def test_stages_are_recorded_forgotten_and_seen_by_another_opening(run):
    run.finish(NamesRecord(features=["x"]))
    fields = StartFields(n_components=2, correction=None, random_state=0)
    run.finish(StartRecord(fields=fields, most_columns=2))
    other = RunStore(run.path)
    assert other.record(NamesRecord) == NamesRecord(features=["x"])
    other.forget("start", "never")
    assert run.record(StartRecord) is None
    assert run.record(NamesRecord) is not None
    with pytest.raises(DamagedStoreError, match="lacks its step 'start'"):
        run.needed(StartRecord)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_a_record_that_could_not_be_read_back_is_not_written(run, wrong):
    before = tree(run.path)
    with pytest.raises(DamagedStoreError, match="geodesics"):
        run.finish(DistancesRecord(tile_size=3, median=wrong))
    with pytest.raises(DamagedStoreError, match="names"):
        run.finish(NamesRecord(features=["\ud800"]))
    assert tree(run.path) == before


def test_what_changes_nothing_writes_nothing(run):
    run.finish(NamesRecord(features=["x"]))
    before = {name: (Path(run.path) / name).stat().st_mtime_ns for name in ("zarr.json", "document.json")}
    run.finish(NamesRecord(features=["x"]))
    run.forget("solve", "fit")
    run.remove_arrays("neighbors_")
    assert before == {name: (Path(run.path) / name).stat().st_mtime_ns for name in before}


def test_a_step_that_this_release_does_not_know_is_refused_by_its_name(run):
    sealed_document(run.path, lambda found: found["stages"].update(wights={"fields": {}}))
    for opened in (RunStore, load, lambda path: verify(str(path))):
        with pytest.raises(ScalemaniError, match=r"step 'wights' that this scalemani does not know: a newer") as told:
            opened(run.path)
        one_line(told.value)


def test_a_chunk_that_equals_the_fill_or_zero_is_still_written(tmp_path):
    """Twins give a tile of zeros, unreachable parts one of inf; a file that isn't there would read as NaN."""
    D = np.zeros((32, 32))
    D[:16, 16:], D[16:, :16] = np.inf, np.inf
    store = store_of(D, 8, tmp_path / "run")
    for row, column in store.blocks.tiles():
        assert chunk(store, row, column).stat().st_size == 4 * 8 * 8
    store.write_array("zeros", np.zeros(4))
    store.write_array("nan", np.full(4, np.nan))
    assert (Path(store.path) / "zeros" / "c" / "0").exists()
    np.testing.assert_array_equal(store.read_array("nan"), np.full(4, np.nan))


# ---- the ledger --------------------------------------------------------------------------------


def test_a_tile_row_is_done_when_the_ledger_says_so_and_not_before(distances, tmp_path):
    store = RunStore.create(tmp_path / "run")
    store.create_distances(N, TILE)
    assert store.tiles.missing() == [0, 1, 2, 3, 4]
    for row in (3, 0):
        here = store.blocks[row]
        store.tiles.write(row, distances[here, here.start :])
    assert store.tiles.missing() == [1, 2, 4]
    for path in Path(store.path, "distances", "c", "0").iterdir():  # chunks that a stopped task left
        shutil.copytree(path.parent, path.parent.with_name("1"), dirs_exist_ok=True)
    assert store.tiles.missing() == [1, 2, 4]


def test_the_ledger_line_follows_the_last_tile(distances, tmp_path, monkeypatch):
    """A stop in the middle of a row leaves it undone."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(N, TILE)
    calls = []

    def stop(tile):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return checksum(tile)

    monkeypatch.setattr(tiles, "checksum", stop)
    with pytest.raises(KeyboardInterrupt):
        store.tiles.write(0, distances[:TILE])
    assert not store.tiles.done(0)


def test_the_ledger_keeps_the_first_line(run):
    before = (Path(run.path) / "ledger" / "2.json").read_bytes()
    assert not create_once(open_location(run.path) / "ledger" / "2.json", b"another")
    assert (Path(run.path) / "ledger" / "2.json").read_bytes() == before
    assert not list(Path(run.path).rglob("*.partial"))


def test_of_many_writers_of_one_line_exactly_one_wins(run):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: create_once(open_location(run.path) / "new.json", f"{i}".encode() * 1000), range(40)))
    text = (Path(run.path) / "new.json").read_text()
    assert text in {f"{i}" * 1000 for i in range(40)}
    assert not list(Path(run.path).rglob("*.partial"))


# ---- damage ------------------------------------------------------------------------------------


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def delete(path):
    path.unlink()


DAMAGES = [flip, truncate, empty, delete]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_tile_is_an_error_that_names_the_store(run, damage):
    damage(chunk(run, 1, 3))
    with pytest.raises(DamagedStoreError, match=r"tile.*1, 3"):
        run.tiles.read(1, 3)
    np.testing.assert_array_equal(run.tiles.read(1, 2).shape, (TILE, TILE))


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_of_a_damaged_tile_are_an_error_and_never_nan(run, damage):
    """Rows on both sides of the diagonal come from the one tile."""
    damage(chunk(run, 1, 3))
    for vertex in (TILE, 3 * TILE):
        with pytest.raises(DamagedStoreError):
            run.read_rows(np.array([vertex]))
    assert np.isfinite(run.read_rows(np.array([0]))).all()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_small_array_is_an_error(run, damage):
    run.write_array("means", np.arange(100.0))
    damage(Path(run.path) / "means" / "c" / "0")
    with pytest.raises(DamagedStoreError, match="'means' is damaged"):
        run.read_array("means")


def test_a_missing_array_is_an_error(run):
    with pytest.raises(DamagedStoreError, match="lacks 'vectors'"):
        run.read_array("vectors")
    with pytest.raises(DamagedStoreError, match=r"lacks 'ledger'|not an array"):
        run.read_array("ledger")


@pytest.mark.parametrize("text", [None, "", "{", "{}", '{"crc32c": []}', "[1]"])
def test_a_missing_or_damaged_ledger_line_is_an_error(run, text):
    line = Path(run.path) / "ledger" / "1.json"
    line.unlink()
    if text is not None:
        line.write_text(text)
    with pytest.raises(DamagedStoreError, match=r"tile row 1|ledger"):
        run.tiles.read(1, 2)


# ---- what is at a path -------------------------------------------------------------------------


def test_another_format_version_is_refused_with_both_numbers(run):
    group = zarr.open_group(run.path, mode="r+")
    group.attrs["scalemani"] = {**group.attrs["scalemani"], "format_version": 99}
    with pytest.raises(ScalemaniError, match=r"format version 99; this release reads 1:"):
        RunStore(run.path)


def folder_of_files(path):
    path.mkdir()
    (path / "thesis.txt").write_text("do not lose")


def another_group(path):
    zarr.create_group(path).create_array("a", shape=3, dtype="f8")[...] = 1


def a_file(path):
    path.write_text("do not lose")


def a_broken_link(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("make", [folder_of_files, another_group, a_file, a_broken_link])
def test_what_is_not_a_run_is_never_removed(tmp_path, make, replace):
    path = tmp_path / "mine"
    make(path)
    before = tree(tmp_path)
    with pytest.raises(ScalemaniError, match="not a scalemani run: it is left alone"):
        RunStore.create(path, replace=replace)
    assert tree(tmp_path) == before
    assert os.path.lexists(path)
    with pytest.raises(ScalemaniError, match="is not a scalemani run"):
        RunStore(path)


def test_a_run_goes_only_when_replacing_is_asked_for(run):
    before = tree(run.path)
    with pytest.raises(ScalemaniError, match="a run exists"):
        RunStore.create(run.path)
    assert tree(run.path) == before
    new = RunStore.create(run.path, replace=True)
    assert not new.has_distances
    assert new.document.stages == {}


def test_an_empty_folder_may_become_a_run(tmp_path):
    assert kind_of(tmp_path) == "nothing"
    RunStore.create(tmp_path)
    assert kind_of(tmp_path) == "run"
    assert kind_of(tmp_path / "distances") == "nothing"


def test_nothing_there_is_said(tmp_path):
    with pytest.raises(ScalemaniError, match="nothing is there"):
        RunStore(tmp_path / "no")


def test_checking_a_path_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "a" / "b" / "run.zarr")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ScalemaniError, match="can't be written"):
        check_writable(tmp_path / "file" / "run.zarr")
    with pytest.raises(ScalemaniError, match="File name too long; give another path"):
        check_writable(tmp_path / ("r" * 256))


def test_a_replaced_run_is_not_read_under_its_old_identity(run):
    identity = run.document.id
    assert shared_run(run.path, identity) is shared_run(run.path, identity)
    RunStore.create(run.path, replace=True)
    with pytest.raises(DamagedStoreError, match="was replaced"):
        shared_run(run.path, identity)


# ---- what a store may hold ---------------------------------------------------------------------


@pytest.mark.parametrize("array", [np.array([{}, 1], object), np.array(["a", "bc"]), np.array([(1, 2)], "i4,i4")])
def test_only_numbers_go_into_a_store(tmp_path, array):
    """Nothing that would have to be unpickled or interpreted."""
    store = RunStore.create(tmp_path / "run")
    with pytest.raises(TypeError, match="numbers"):
        store.write_array("a", array)
    assert not store.has_array("a")


def test_nothing_on_disk_is_pickled_or_compressed(run):
    """Every metadata file is JSON, every chunk is the bytes of its numbers, for any Zarr reader."""
    run.write_array("means", np.arange(4.0))
    content = (Path(run.path) / "means" / "c" / "0").read_bytes()
    assert np.frombuffer(content[:-4]).tolist() == [0, 1, 2, 3]
    assert int.from_bytes(content[-4:], "little") == checksum(np.arange(4.0)), "Zarr's own codec crc32c"
    assert np.frombuffer(chunk(run, 0, 1).read_bytes(), np.float32).shape == (TILE * TILE,)
    for path in Path(run.path).rglob("*.json"):
        json.loads(path.read_bytes())
    array = zarr.open_array(run.path, path="distances", mode="r")
    assert (array.dtype, array.metadata.zarr_format, array.compressors) == (np.float32, 3, ())
    assert np.isnan(array.fill_value)


# ---- copies ------------------------------------------------------------------------------------


def test_a_copy_without_distances_has_the_rest_and_leaves_the_original(run, tmp_path):
    run.write_array("vectors", np.eye(3))
    run.write_array("neighbors_indices", np.arange(4))
    run.finish(NamesRecord(features=["x"]))
    before = tree(run.path)
    run.copy_without_distances(tmp_path / "model")
    model = RunStore(tmp_path / "model")
    np.testing.assert_array_equal(model.read_array("vectors"), np.eye(3))
    assert model.needed(NamesRecord) == run.needed(NamesRecord)
    assert not model.has_distances
    assert not model.has_array("neighbors_indices")
    assert tree(run.path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "run.zarr"]
    with pytest.raises(ScalemaniError, match="exists"):
        run.copy_without_distances(tmp_path / "model")


def test_dropping_distances_leaves_the_model(run):
    run.write_array("vectors", np.eye(3))
    run.drop_distances()
    assert not run.has_distances
    assert not (Path(run.path) / "ledger").exists()
    np.testing.assert_array_equal(RunStore(run.path).read_array("vectors"), np.eye(3))
    run.drop_distances()


# ---- what a process keeps ----------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_process_takes_a_d_that_was_made_again_for_what_it_is(run, distances, compression):
    """Dropped and made again by another object, as a repair or another process does: other tiles, another codec."""
    mine = shared_run(run.path, run.identity)
    mine.tiles.read(0, 0)
    loaded = RunStore(run.path)
    loaded.read_rows(np.array([3]))
    run.drop_distances()
    run.create_distances(N, 16, compression)
    again = shared_run(run.path, run.identity)
    assert again is mine and len(again.blocks) == 3
    for row, here in enumerate(again.blocks):
        again.tiles.write(row, distances[here, here.start :])
    for row, column in run.blocks.tiles():
        part = distances[run.blocks[row], run.blocks[column]]
        np.testing.assert_array_equal(RunStore(run.path).tiles.read(row, column), part)
        np.testing.assert_array_equal(again.tiles.read(row, column), part)
    np.testing.assert_array_equal(loaded.read_rows(np.array([3, 30])), distances[[3, 30]])


def test_a_process_takes_a_graph_that_was_made_again_for_what_it_is(run):
    """Under the same id; one that is the same is read once."""

    def graph(length):
        for part, array in (("indptr", [0, 1, 2]), ("indices", [1, 0]), ("weights", [length, length])):
            run.write_array(f"graph_{part}", np.array(array, {"indptr": "i8", "indices": "i4"}.get(part, "f4")))
        run.finish()
        return shared_graph(run.path, run.identity)

    first = graph(1.0)
    assert shared_graph(run.path, run.identity) is first and graph(1.0) is first
    assert graph(2.0).data.tolist() == [2, 2]
    assert shared_paths(run.path, run.identity) is shared_paths(run.path, run.identity)


def test_a_process_asks_for_a_run_with_one_reading_of_its_document(run, monkeypatch):
    """Work is counted: tasks are many."""
    shared_run(run.path, run.identity).tiles.read(0, 0)
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda path, *more: (opened.append(os.path.basename(path)), real(path, *more))[1])
    shared_run(run.path, run.identity)
    assert set(opened) == {"zarr.json"} and len(opened) <= 2


# ---- whose run is written ----------------------------------------------------------------------


def test_nothing_is_written_into_another_run_that_came_to_the_path(run, distances):
    RunStore.create(run.path, replace=True).create_distances(N, TILE)
    before = tree(run.path)
    for change in (
        lambda: run.finish(NamesRecord(features=None)),
        lambda: run.forget("early"),
        lambda: run.write_array("a", np.arange(3)),
        lambda: run.remove_array("a"),
        lambda: run.remove_arrays("a"),
        run.drop_distances,
        lambda: run.create_distances(N, TILE),
        lambda: run.tiles.write(0, distances[:TILE]),
        lambda: run.tiles.unfinish(0),
    ):
        with pytest.raises(DamagedStoreError, match="was replaced while it was in use"):
            change()
    assert {name: text for name, text in tree(run.path).items() if "/c/" not in name} == before


# ---- the ledger on a network -------------------------------------------------------------------


def test_lines_that_are_not_there_are_not_asked_for(distances, tmp_path, monkeypatch):
    """A host that asked is told so for half a minute after another has put the line; the folder is listed once."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(N, TILE)
    store.tiles.write(2, distances[16:24, 16:])
    asked, listed, real, names = [], [], store.tiles.line, os.listdir
    monkeypatch.setattr(store.tiles, "line", lambda row: (asked.append(row), real(row))[1])
    monkeypatch.setattr(os, "listdir", lambda path: (listed.append(path), names(path))[1])
    assert store.tiles.missing() == [0, 1, 3, 4]
    assert asked == [2] and len(listed) == 1
    monkeypatch.setattr(store.tiles, "line", lambda row: real(row) if len(listed) > 1 else None)  # as it was remembered
    assert store.tiles.read(2, 3).shape == (TILE, TILE)


# ---- a store that leads out of its folder ------------------------------------------------------


@pytest.mark.parametrize("where", ["distances", "ledger", "vectors", "distances/c", "vectors/c", "ledger/1.json"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_store_that_leads_out_of_its_folder_is_not_opened(run, tmp_path, where, kind):
    run.write_array("vectors", np.eye(3))
    place = Path(run.path) / where
    place.rename(tmp_path / "outside")
    place.symlink_to(tmp_path / "outside") if kind == "link" else os.mkfifo(place)
    with pytest.raises(DamagedStoreError, match=f"{where}.*(symbolic link|neither a folder nor a plain file)"):
        RunStore(run.path)


@pytest.mark.parametrize("where", ["distances/c/1/3", "distances/c/1", "vectors/c/0", "vectors/c/0/0"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_deeper_is_refused_where_it_is_used_and_never_written_through(run, distances, tmp_path, where, kind):
    """Opening does not look at each of 100,000 tiles; a pipe is not waited for."""
    run.write_array("vectors", np.eye(3))
    place, outside = Path(run.path) / where, tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside) if kind == "link" else os.mkfifo(place)
    store, before = RunStore(run.path), tree(tmp_path / "outside") or outside.read_bytes()
    with pytest.raises(DamagedStoreError):
        store.tiles.read(1, 3) if "distances" in where else store.read_array("vectors")
    if kind == "link" and "distances" in where:
        with pytest.raises(DamagedStoreError, match="leads out of the store"):
            store.tiles.write(1, distances[8:16, 8:])
    store.write_array("vectors", np.ones((3, 3)))
    assert (tree(tmp_path / "outside") or outside.read_bytes()) == before


# ---- what no document names ----------------------------------------------------------------------


def test_pieces_of_a_stage_are_not_in_the_document_however_many(tmp_path):
    store = RunStore.create(tmp_path / "run")
    before, pieces = store.document, store.pieces("neighbors")
    for number in range(3):
        pieces.put(f"lists_{number}", [np.arange(number)])
    assert store.document == before
    assert [len(pieces.get(f"lists_{number}")[0]) for number in range(3)] == [0, 1, 2]
    store.finish()
    pieces.drop()
    assert pieces.get("lists_1") is None
