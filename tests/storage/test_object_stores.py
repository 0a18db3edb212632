"""Stores in object storage: the same bits as on a disk, the same damage found, and nothing lost to a kill.

Claims about runs are made of ``memory://``, which takes the same way as a bucket does; what a server must keep
(conditional puts, errors, listings) is asked of a real one, in a process of its own.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from data import roll
from object_server import BUCKET, object_server
from processes import Fleet, until

import scalemani
from scalemani import KernelIsomap, load
from scalemani.cluster.workers import SharedFolder
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError, StoreUnreachableError
from scalemani.formats.outputs import check_output, check_page
from scalemani.formats.points import open_points
from scalemani.integrity import repair, verify
from scalemani.storage import buckets, user_arrays, writer
from scalemani.storage.buckets import Bucket
from scalemani.storage.files import create_once, open_location
from scalemani.storage.folders import FilePath
from scalemani.storage.objects import ObjectPath
from scalemani.storage.pieces import drop_finished, kept_results
from scalemani.storage.run import RunStore
from scalemani.storage.targets import check_writable, kind_of
from scalemani.storage.tiles import Tiles
from scalemani.storage.user_arrays import NewOutput, open_output, refuse_existing
from scalemani.storage.writer import Writer

pytest.importorskip("obstore", reason="the extra cloud")
X = roll(150)
DOCUMENTS = ("zarr.json", "document.json")


def model(store, **more):
    return KernelIsomap(n_components=2, n_neighbors=8, correction=None, store=str(store), random_state=0, **more)


@pytest.fixture
def shelf(request):
    """A place in memory that nothing else has."""
    found = open_location(f"memory://{request.node.name.replace('/', '-')}")
    found.remove()
    yield found
    found.remove()


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Who takes over from a killed writer looks again at once: here is no other."""
    monkeypatch.setattr(writer, "SETTLE", 0.0)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """A run on the disk."""
    path = tmp_path_factory.mktemp("disk") / "run"
    return model(path).fit(X)


def contents(path):
    """Every object below, by its name."""
    return {entry.relative_to(path): entry.read_bytes() for entry in path.rglob()}


def files_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# ---- the same as on a disk ---------------------------------------------------------------------------------


def same_bits(store, disk):
    """Arrays, tiles and the ledger are the same to the byte; of the document what is not a time or an id."""
    here, there = RunStore(store), RunStore(disk)
    assert here.document.arrays == there.document.arrays
    stages, others = here.document.stages, there.document.stages
    assert stages.keys() == others.keys()
    assert all(stages[name] == others[name] for name in stages.keys() - {"solve"})
    assert stages["solve"].fields == others["solve"].fields
    assert len(here.blocks) == len(there.blocks) > 1
    for row in range(len(here.blocks)):
        assert here.tiles.line(row).crc32c == there.tiles.line(row).crc32c
    found, wanted = open_location(here.path), open_location(there.path)
    names = {name for name in files_of(wanted) if name not in DOCUMENTS}
    assert {entry.relative_to(found) for entry in found.rglob()} - {*DOCUMENTS} == names
    for name in names - {f"ledger/{row}.json" for row in range(len(here.blocks))}:
        assert (found / name).read_bytes() == (wanted / name).read_bytes(), name


def test_a_run_in_object_storage_has_the_bits_of_one_on_disk_and_does_all_that_it_does(shelf, on_disk, tmp_path):
    fitted = model(shelf / "run").fit(X)
    assert np.array_equal(fitted.embedding_, on_disk.embedding_)
    same_bits(shelf / "run", on_disk.store_)
    again = load(str(shelf / "run"))
    assert np.array_equal(again.transform(X[:9] + 0.01), on_disk.transform(X[:9] + 0.01))
    assert np.array_equal(again.geodesics([3, 5]), on_disk.geodesics([3, 5]))
    again.export(str(shelf / "model"))
    on_disk.export(str(tmp_path / "model"))
    assert np.array_equal(load(str(shelf / "model")).transform(X[:9]), on_disk.transform(X[:9]))
    assert {entry.relative_to(shelf / "model") for entry in (shelf / "model").rglob()} == set(
        files_of(tmp_path / "model")
    )
    with pytest.raises(ScalemaniError, match="exists: give another path"):
        again.export(str(shelf / "model"))
    assert verify(str(shelf / "run")).faults == verify(str(shelf / "model")).faults == ()
    assert {entry.name for entry in shelf.iterdir()} == {"run", "model"}  # no writer, no journal, no probe


@pytest.mark.slow
def test_a_run_by_landmarks_has_the_bits_of_one_on_disk(shelf, tmp_path):
    more = {"landmarks": 40}
    fitted, wanted = model(shelf, **more).fit(X), model(tmp_path / "run", **more).fit(X)
    assert np.array_equal(fitted.embedding_, wanted.embedding_)
    assert np.array_equal(fitted.transform(X[:9] + 0.01), wanted.transform(X[:9] + 0.01))
    here, there = contents(shelf), files_of(tmp_path / "run")
    assert here.keys() == there.keys()
    assert {name for name in here if here[name] != there[name]} <= {
        name for name in here if name.startswith("ledger") or "/ledger/" in name or name in DOCUMENTS
    }  # these name the run
    assert RunStore(shelf).document.arrays == RunStore(tmp_path / "run").document.arrays
    assert verify(str(shelf)).faults == ()


def test_a_fit_goes_on_from_what_is_in_the_bucket(shelf, on_disk, monkeypatch):
    class StopError(Exception):
        pass

    written, most, write = [], [3], Tiles.write

    def writing(store, row, *rest):
        if len(written) >= most[0]:
            raise StopError
        written.append(row)
        write(store, row, *rest)

    monkeypatch.setattr(Tiles, "write", writing)
    with pytest.raises(StopError):
        model(shelf).fit(X)
    missing = RunStore(shelf).tiles.missing()
    assert sorted(written) == [row for row in range(len(RunStore(shelf).blocks)) if row not in missing] and missing
    del written[:]
    most[0] = 10**6
    fitted = model(shelf).fit(X)
    assert sorted(written) == missing
    assert np.array_equal(fitted.embedding_, on_disk.embedding_)
    same_bits(shelf, on_disk.store_)


@pytest.mark.slow
def test_damage_is_found_as_on_disk_and_mended(shelf, tmp_path, on_disk):
    import shutil

    model(shelf).fit(X)
    shutil.copytree(on_disk.store_, tmp_path / "run")
    disk = tmp_path / "run"
    names = ("distances/c/0/1", "ledger/2.json", "vectors/c/0/0", "first_sums/zarr.json", "neighbors_indices/c/0")

    def damage(name):
        content = bytearray((disk / name).read_bytes())
        content[len(content) // 2] ^= 4
        (disk / name).write_bytes(content)
        content = bytearray((shelf / name).read_bytes())
        content[len(content) // 2] ^= 4
        (shelf / name).put(bytes(content))

    there = [name for name in names if (disk / name).exists()]
    assert len(there) >= 4
    for name in there:
        damage(name)
    for name in ("distances/c/1/1", "means/c/0"):
        (disk / name).unlink()
        (shelf / name).unlink()
    (disk / "notes.txt").write_text("mine")
    (shelf / "notes.txt").put(b"mine")
    found, wanted = verify(str(shelf)), verify(str(disk))
    assert [(fault.kind, fault.name) for fault in found.faults] == [(fault.kind, fault.name) for fault in wanted.faults]
    assert len(found.faults) >= 6
    with pytest.raises(DamagedStoreError, match=r"tile \(0, 1\) of D is damaged \(checksum differs\)"):
        RunStore(shelf).tiles.read(0, 1)
    with pytest.raises(DamagedStoreError, match=r"tile \(1, 1\) of D is damaged \(its file is missing\)"):
        RunStore(shelf).tiles.read(1, 1)
    done, left = repair(str(shelf))
    assert done and [fault.kind for fault in left.faults] == ["stray"]
    same_but_stray = open_location(shelf / "notes.txt")
    same_but_stray.unlink()
    assert np.array_equal(load(str(shelf)).embedding_, on_disk.embedding_)


# ---- nothing is lost ---------------------------------------------------------------------------------------


class Killed(BaseException):
    """What no handler takes for an error."""


def killed_at(monkeypatch, count, act):
    """Whether an action was killed at its request of that number; its own handlers find the bucket gone, too."""
    asked, real = [0], Bucket.ask

    def asking(bucket, name, *arguments, **named):
        asked[0] += 1
        if asked[0] > count:
            raise Killed
        return real(bucket, name, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "ask", asking)
        try:
            act()
        except Killed:
            return True
    return False


def a_run(path, number):
    store = RunStore.create(path, replace=kind_of(path) == "run")
    store.write_array("order", np.arange(number))
    return store


def test_a_run_that_is_replaced_is_the_old_one_or_the_new_one_whatever_is_killed(shelf, monkeypatch):
    target, seen, count, more = shelf / "run", set(), 0, True
    while more:
        shelf.remove()
        old = a_run(target, 5)
        old.write_array("vertex", np.arange(5))  # which the new one lacks
        new = RunStore.create(target.scratch_name())
        new.write_array("order", np.arange(7))
        more = killed_at(monkeypatch, count, lambda new=new: new.moved_to(target, replace=True))
        found = RunStore(target)  # settles
        number = len(found.read_array("order"))
        assert (number, found.has_array("vertex")) in ((5, True), (7, False)), count
        assert found.identity == (old.identity if number == 5 else new.identity)
        with Writer(target):
            pass
        assert not list(target.workshop().rglob()) and target.interrupted() is None
        seen.add(number)
        count += 1
    assert seen == {5, 7} and count > 8


def test_who_may_not_settle_is_told_of_a_replacement(shelf, monkeypatch):
    """A reader without the right to write, in the middle of one."""
    target = shelf / "run"
    a_run(target, 5)
    new = RunStore.create(target.scratch_name())
    for head in ("zarr.json", "document.json"):
        (target / head).unlink()
    (target.workshop() / "replacing.json").put(json.dumps({"comes": open_location(new.path).name}).encode())
    with Writer(target):
        pass
    assert RunStore(target).identity == new.identity  # which came to its place
    (target.workshop() / "replacing.json").put(json.dumps({"comes": "../../else"}).encode())
    assert target.interrupted() is None  # a stranger's journal leads nowhere


def test_an_array_that_is_half_written_is_none(shelf, monkeypatch):
    store, count, more, seen = RunStore.create(shelf), 0, True, set()
    while more:
        store.write_array("means", np.zeros(3))
        more = killed_at(monkeypatch, count, lambda: store.write_array("means", np.ones(40)))
        try:
            seen.add(len(RunStore(shelf).read_array("means")))
        except DamagedStoreError as error:
            assert more and "lacks 'means'" in str(error)
            seen.add(0)
        count += 1
    assert seen == {0, 3, 40} and RunStore(shelf).read_array("means").all()


def test_a_copy_that_was_killed_leaves_nothing_that_stands_in_its_way(shelf, on_disk, monkeypatch):
    source = load(on_disk.store_)
    source.export(str(shelf / "whole"))
    wanted, count, more = len(list((shelf / "whole").rglob())), 0, True
    for count in (3, 9, 25, 10**9):
        more = killed_at(monkeypatch, count, lambda: source.export(str(shelf / "model")))
    assert not more
    assert len(list((shelf / "model").rglob())) == wanted
    assert {entry.name for entry in shelf.iterdir()} == {"whole", "model"}


def written(out, numbers):
    """What `transform_to` does with blocks."""
    drop_finished(out)
    refuse_existing(out)
    with kept_results(out) as kept:
        array = NewOutput(kept.folder, numbers.shape)
        array.write(0, numbers[:60])
        array.write(60, numbers[60:])
        array.finish(out)


def test_coordinates_come_into_a_bucket_whole_and_what_a_killed_copy_left_goes(shelf, monkeypatch):
    monkeypatch.setattr(user_arrays, "_output_chunks", lambda shape: (50, 2))
    numbers = np.random.default_rng(0).random((150, 2))
    written(shelf / "undisturbed", numbers)
    wanted, out, seen = contents(shelf / "undisturbed"), shelf / "new" / "y.zarr", set()
    assert len(wanted) == 4 and np.array_equal(open_output(shelf / "undisturbed")[:], numbers)
    for count in range(10**6):
        if not killed_at(monkeypatch, count, lambda: written(out, numbers)):
            break
        there = contents(out)
        if not there:  # begun anew, or what is gone on with would take fewer requests than the count goes on by
            (shelf / "new").remove()
        seen.add("whole" if there == wanted else "part" if there else "nothing")
        if "zarr.json" in there:  # never under a name that reads before it is whole
            assert there == wanted
            drop_finished(out)
            break
    assert seen == {"nothing", "part", "whole"}
    with pytest.raises(ScalemaniError, match="exists: give another path"):
        written(out, numbers)
    drop_finished(out)
    assert {entry.name for entry in out.parent.iterdir()} == {"y.zarr"}  # kept results went, no groups of Zarr's came


def test_what_is_somebody_elses_is_never_removed(shelf, monkeypatch):
    """Neither at an output's path nor at a run's, also where a copy to it was begun."""
    numbers = np.zeros((150, 2))
    (shelf / "y" / "notes.txt").put(b"mine")
    with pytest.raises(ScalemaniError, match="exists"):
        written(shelf / "y", numbers)
    with pytest.raises(ScalemaniError, match="is not a scalemani run: it is left alone"):
        RunStore.create(shelf / "y", replace=True)
    assert contents(shelf / "y") == {"notes.txt": b"mine"}
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(ObjectPath, "_copy", lambda *_: (_ for _ in ()).throw(Killed))
        written(shelf / "z", numbers)
    (shelf / "z" / "notes.txt").put(b"mine")  # in the place of what was on its way
    with pytest.raises(ScalemaniError, match="exists"):
        written(shelf / "z", numbers)
    assert contents(shelf / "z") == {"notes.txt": b"mine"}


def test_kept_results_are_found_again(shelf):
    with pytest.raises(RuntimeError), kept_results(shelf / "out.npy") as kept:
        kept.put("a", [np.arange(3.0)], "of")
        raise RuntimeError
    with kept_results(shelf / "out.npy") as kept:
        assert np.array_equal(kept.get("a", "of")[0], np.arange(3.0)) and kept.get("a", "other") is None
    assert not list(shelf.rglob())


def test_points_are_read_from_a_zarr_array_in_a_bucket(shelf, on_disk):
    at = zarr.storage.StorePath(zarr.storage.ObjectStore(shelf.bucket.store), (shelf / "x.zarr").key)
    array = zarr.create_array(at, shape=X.shape, chunks=(40, 3), dtype="float64")
    array[:] = X
    read = open_points(str(shelf / "x.zarr")).values
    assert np.array_equal(read[:], X)
    assert np.array_equal(model(shelf / "run").fit(read).embedding_, on_disk.embedding_)
    with pytest.raises(ScalemaniError, match="there is none"):
        open_points(str(shelf / "y.zarr"))
    metadata = json.loads((shelf / "x.zarr" / "zarr.json").read_bytes())
    metadata["codecs"] = [{"name": "pickle"}]
    (shelf / "x.zarr" / "zarr.json").put(json.dumps(metadata).encode())
    with pytest.raises(ScalemaniError, match="needs the codec 'pickle', which is not read"):
        open_points(str(shelf / "x.zarr"))


# ---- who may write -----------------------------------------------------------------------------------------


def test_one_of_many_puts_an_object_where_none_was(shelf):
    won, start = [], threading.Barrier(8)

    def putting(number):
        start.wait()
        if create_once(shelf / "line", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=putting, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and (shelf / "line").read_bytes() == str(won[0]).encode()


@pytest.mark.parametrize("done", [True, False])
def test_a_conditional_put_that_is_refused_though_nobody_else_was_first(done, shelf, on_disk, monkeypatch):
    """The answer of the first try was lost and the second finds what the first put; or the server says 409 to one."""
    ask, refused = Bucket.ask, set()

    def losing(bucket, name, *arguments, **more):
        again = more.get("mode") != "create" or arguments[0] in refused
        if again:
            return ask(bucket, name, *arguments, **more)
        refused.add(arguments[0])
        if done:
            ask(bucket, name, *arguments, **more)
        raise FileExistsError

    monkeypatch.setattr(Bucket, "ask", losing)
    model(shelf / "run").fit(X)
    kinds = {key.rpartition("/")[2] for key in refused}
    assert {".run.writer.json", "zarr.json", "0.json"} <= kinds
    same_bits(shelf / "run", on_disk.store_)
    assert create_once(shelf / "line", b"mine") and not create_once(shelf / "line", b"yours")


def test_a_second_fit_is_refused(shelf):
    with Writer(shelf), pytest.raises(StoreInUseError, match=r"at work on 'memory://.*: this process"):
        model(shelf).fit(X)
    assert not list(shelf.rglob())


def test_memory_is_refused_where_workers_are_other_processes(shelf):
    from obstore.store import MemoryStore

    other = MemoryStore()

    class Elsewhere:
        def ask(self, function, *arguments):
            """A process of its own has a memory of its own."""
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(buckets, "_memory", lambda: other)
                buckets._bucket.cache_clear()
                return {"tcp://127.0.0.1:1": function(*arguments)}

    try:
        with pytest.raises(
            ScalemaniError, match=r"1 of 1 workers can't see .*: memory:// is of one process; give a path"
        ):
            SharedFolder(Elsewhere(), str(shelf), writing=True).check()
    finally:
        buckets._bucket.cache_clear()
    assert not list(shelf.rglob())


# ---- errors of one line, before any work -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket", "a bucket and a name in it are needed, such as s3://bucket/name"),
        ("s3:///run", "a bucket and a name in it are needed"),
        ("memory://", "such as memory://name"),
        ("gs://bucket/a/../b", "a bucket and a name in it are needed, such as gs://"),
        ("ftp://host/run", "is of no kind that is known: s3://, gs://, az://, memory:// or a local path"),
        ("s3://me:secret@shelf/x", "'s3://...@shelf/x' has a user, a password or a port"),
        ("s3://me:sec/ret@shelf/x", "'s3://...@shelf/x' has a user, a password or a port"),
        ("gs://me@shelf/x", "has a user, a password or a port, which no store's URL has: give gs://bucket/name"),
        ("memory://me:secret@shelf/x", "has a user, a password or a port"),
        ("s3://shelf:99/x", "has a user, a password or a port"),
        ("ftp://me:secret@host/run", "'ftp://...@host/run' is of no kind that is known"),
        ("az://box/run", "Account must be specified; look at the name and at the AZURE_"),
    ],
)
def test_a_url_that_is_none_is_said_in_one_line(url, said, monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    for act in (lambda: model(url).fit(X), lambda: load(url)):
        with pytest.raises(ScalemaniError) as raised:
            act()
        assert said in str(raised.value) and not any(part in str(raised.value) for part in ("\n", "sec"))


@pytest.mark.parametrize(
    "near", ["s3:/shelf/x", "s3:shelf/x", "S3A:/x", "memory:x", "memory:/x", " memory://x", "\tftp://x/y", "gs :x"]
)
def test_what_is_nearly_a_url_makes_no_folder_of_that_name(near, on_disk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for act in (
        lambda: model(near).fit(X),
        lambda: KernelIsomap(store=Path(near)).fit(X),
        lambda: load(near),
        lambda: on_disk.transform_to(X, near),
        lambda: on_disk.export(near),
        lambda: check_output(f"{near}.npy"),
        lambda: check_page(f"{near}.html"),
    ):
        with pytest.raises(ScalemaniError, match="is no URL, and too like one") as raised:
            act()
        assert "\n" not in str(raised.value)
    assert not any(tmp_path.iterdir())


def test_other_names_with_colons_are_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("C:/runs", "C:\\runs", "a:b", "s3", "s3/x", "memoryx:y", str(tmp_path / "s3:x")):
        assert open_location(name) == Path(name)


@pytest.mark.parametrize("given", [None, 5, b"x", "", np.zeros((2, 2))])
def test_what_is_no_path_is_said_in_one_line(given, on_disk):
    for act in (lambda: on_disk.transform_to(X, given), lambda: on_disk.export(given), lambda: load(given)):
        with pytest.raises(ScalemaniError, match=r"(out|path) is (empty|of the type .*): a path or a URL is needed$"):
            act()


def test_what_is_not_installed_is_named(monkeypatch):
    buckets._bucket.cache_clear()
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(
        ScalemaniError, match=r"needs obstore, which is not installed: pip install 'scalemani\[cloud\]'"
    ):
        model("s3://box/run").fit(X)


def test_both_kinds_of_place_answer_the_same_calls():
    """Beside what pathlib has: no caller asks of which kind a place is."""
    disk, bucket = ({name for name in vars(kind) if not name.startswith("_")} for kind in (FilePath, ObjectPath))
    assert disk - set(dir(ObjectPath)) == {"open_plain"}
    assert bucket - set(dir(FilePath)) == {"bucket", "key", "of", "workshop"}


def test_a_local_path_never_asks_for_a_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert not isinstance(open_location(str(tmp_path / "a:b")), ObjectPath)
    RunStore.create(tmp_path / "run").write_array("means", np.ones(3))
    assert len(RunStore(str(tmp_path / "run")).read_array("means")) == 3


# ---- a real server -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("moto", reason="the extra test")
    with object_server() as found:
        yield found


@pytest.fixture
def bucket(server, monkeypatch):
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}"


def test_a_server_keeps_what_stores_stand_on(bucket):
    folder = open_location(f"{bucket}/a/b")
    assert create_once(folder / "line", b"first") and not create_once(folder / "line", b"second")
    assert (folder / "line").read_bytes() == b"first"
    (folder / "line").put(b"third")
    buffer = np.arange(1 << 18, dtype=np.float32)
    (folder / "c" / "0").put(buffer)
    read = np.empty_like(buffer)
    assert (folder / "c" / "0").read_into(read) == buffer.nbytes and np.array_equal(read, buffer)
    with pytest.raises(ValueError, match="more than 8 bytes"):
        (folder / "c" / "0").read_into(np.empty(2, np.float32))
    with pytest.raises(ValueError, match="where at most 4 are expected"):
        (folder / "line").read(4)
    open_location(f"{bucket}/a/bc").put(b"beside")
    assert sorted(entry.name for entry in folder.iterdir()) == ["c", "line"]
    assert [entry.name for entry in (folder / "c").glob("*")] == ["0"]
    assert folder.is_dir() and not folder.is_file() and (folder / "line").is_file() and not (folder / "line").is_dir()
    assert not (folder / "nothing").exists() and folder.bytes_below() == buffer.nbytes + 5
    with pytest.raises(FileNotFoundError):
        (folder / "nothing").read_bytes()
    folder.remove()
    assert not folder.exists() and open_location(f"{bucket}/a/bc").read_bytes() == b"beside"


def test_a_run_begins_and_is_replaced_on_a_server(bucket):
    target = open_location(f"{bucket}/run")
    a_run(target, 5)
    with pytest.raises(ScalemaniError, match="a run exists"):
        RunStore.create(target)
    new = RunStore.create(target.scratch_name())
    new.write_array("order", np.arange(7))
    assert np.array_equal(new.moved_to(target, replace=True).read_array("order"), np.arange(7))
    assert {entry.name for entry in open_location(f"{bucket}/run").rglob()} >= {"zarr.json", "document.json", "0"}
    assert not list(target.workshop().rglob())


@pytest.mark.slow
@pytest.mark.timeout(100)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_is_told_to_spawn_once_its_parent_used_a_server(bucket):
    """The threads that speak with servers are not in it: it would wait for ever."""
    fitted = model(f"{bucket}/forked").fit(X)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for function, argument in ((load, fitted.store_), (kind_of, f"{bucket}/another")):
            with pytest.raises(ScalemaniError, match=r"had used object storage, .* 'spawn' or 'forkserver'"):
                pool.apply_async(function, (argument,)).get(60)


def test_what_can_t_be_reached_is_said_before_any_work(server, bucket, monkeypatch):
    def said(url):
        lines = []
        for act in (lambda: model(url).fit(X), lambda: load(url)):
            with pytest.raises((ScalemaniError, StoreUnreachableError)) as raised:
                act()
            lines.append(str(raised.value))
        assert not any("\n" in line for line in lines)
        return lines

    monkeypatch.setattr("scalemani.steps.inputs.FeatureInput.lists", None, raising=False)  # the first long step
    assert all("s3://nowhere-at-all is not there: make it" in line for line in said("s3://nowhere-at-all/run"))
    with server.strict():
        lines = said(f"{bucket}/run2")
    assert all("access is refused (InvalidAccessKeyId); look at the name and at the AWS_" in line for line in lines)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ScalemaniError, match=r"can't be written: s3://shelf can't be used: .*error sending request"):
        check_writable(f"{bucket}/run2")


# ---- killed in the middle, on a server ---------------------------------------------------------------------

CLIENT = """
import sys, time
import numpy as np
from scalemani import KernelIsomap
from scalemani.storage.tiles import Tiles
write, pace = Tiles.write, float(sys.argv[3])
def writing(store, row, *rest):
    time.sleep(pace)
    write(store, row, *rest)
Tiles.write = writing
points = np.load(sys.argv[1])
KernelIsomap(n_components=2, n_neighbors=8, correction=None, random_state=0, store=sys.argv[2]).fit(points)
"""


def killed_and_resumed(n, folder, url, pace, monkeypatch):
    """A fit in a process that is killed amid its geodesics, and the same fit again, held against one on the disk."""
    points = roll(n)
    np.save(folder / "x.npy", points)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CLIENT, str(folder / "x.npy"), url, str(pace)],
        env={**os.environ, "PYTHONPATH": str(Path(scalemani.__file__).parent.parent)},
    )
    try:
        ledger = open_location(url) / "ledger"
        until(lambda: process.poll() is not None or len(list(ledger.iterdir())) >= 2, 300, "a row")
        assert process.poll() is None
        with pytest.raises(StoreInUseError, match=f"process {process.pid} on this machine"):
            model(url).fit(points)
    finally:
        process.kill()
        process.wait()
    store, made, write = RunStore(url), [], Tiles.write
    missing = store.tiles.missing()
    assert 0 < len(missing) < len(store.blocks) - 1

    def writing(here, row, *rest):
        made.append(row)
        write(here, row, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Tiles, "write", writing)
        fitted = model(url).fit(points)
    assert sorted(made) == missing  # what the ledger had was not made again
    wanted = model(folder / "run").fit(points)
    assert np.array_equal(fitted.embedding_, wanted.embedding_)
    assert np.array_equal(fitted.eigenvalues_, wanted.eigenvalues_)
    same_bits(url, folder / "run")
    assert verify(url).faults == ()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scalemani.errors.ShortcutWarning")
def test_a_killed_fit_on_a_server_goes_on_to_the_bits_of_one_on_disk(bucket, tmp_path, monkeypatch):
    killed_and_resumed(300, tmp_path, f"{bucket}/killed/run", 0.4, monkeypatch)


@pytest.mark.long
def test_five_thousand_points_on_a_server_killed_once(bucket, tmp_path, monkeypatch):
    killed_and_resumed(5000, tmp_path, f"{bucket}/killed/large", 0.2, monkeypatch)


@pytest.mark.slow
def test_workers_of_other_processes_see_a_bucket_and_no_memory(server, bucket, tmp_path, on_disk):
    with Fleet(tmp_path, 1, **server.environment) as fleet:
        with pytest.raises(ScalemaniError, match=r"1 of 1 workers can't see .*: memory:// is of one process"):
            model("memory://elsewhere", scheduler=fleet.address).fit(X)
        fitted = model(f"{bucket}/fleet", scheduler=fleet.address).fit(X)
        assert np.array_equal(fitted.embedding_, on_disk.embedding_)
        assert np.array_equal(fitted.transform(X[:9]), on_disk.transform(X[:9]))
        same_bits(f"{bucket}/fleet", on_disk.store_)
