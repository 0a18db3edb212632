"""A disk that is full in the middle of any stage: a line with what was to be written and what is free, and then on.

The disk is a small file system in memory, which only the system's administrator may mount.
"""

import os
import re
import subprocess

import numpy as np
import pytest
from data import roll
from stored_models import same

from scalemani import KernelIsomap, load
from scalemani.errors import DiskFullError
from scalemani.neighbors import lists
from scalemani.storage import folders
from scalemani.storage.files import create_once, open_location
from scalemani.storage.folders import FilePath, room_for
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as run_command

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]
X, T = roll(400), roll(90, seed=1)
STAGES = [("neighbors", 1), ("graph", 0), ("geodesics", 0), ("geodesics", 4), ("solve", 0), ("solve", 3)]
SAID = r"the disk of '.*' is full: [\d,]+ bytes were to be written and [\d,]+ bytes are free; free some, then give the"


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A file system of 16 MB."""
    place = tmp_path_factory.mktemp("disk")
    if os.geteuid() != 0:
        pytest.skip("a small disk takes the right to mount one")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mount is not permitted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


class Ballast:
    """Takes all of a disk, and gives it back."""

    def __init__(self, disk):
        self.file = disk / "ballast"

    def fill(self):
        with self.file.open("ab", buffering=0) as stream:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        stream.write(bytes(size))
                except OSError:
                    continue

    def drop(self):
        self.file.unlink(missing_ok=True)


@pytest.fixture
def ballast(disk):
    made = Ballast(disk)
    yield made
    made.drop()


def filling(ballast, stage, done):
    """A progress function that fills the disk once."""

    def report(now, count, total):
        if now == stage and count >= done and not ballast.file.exists():
            ballast.fill()

    return report


@pytest.fixture(scope="module")
def expected():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalemani.kernel.eigensolver.FULL_BASIS", 1)
        yield KernelIsomap(n_neighbors=8, tol=1e-9).fit(X)


def fitted(store, **arguments):
    return KernelIsomap(n_neighbors=8, tol=1e-9, store=store, **arguments).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "done"), STAGES)
def test_each_stage_says_so_and_goes_on_when_there_is_room(disk, ballast, iterate, expected, stage, done):
    store = disk / f"{stage}{done}"
    with pytest.raises(DiskFullError, match=SAID) as caught:
        fitted(store, progress=filling(ballast, stage, done))
    assert "\n" not in str(caught.value)
    before = {file: file.stat().st_ino for file in store.glob("distances/c/*/*") if file.suffix != ".partial"}
    ballast.drop()
    same(fitted(store), expected)
    done_rows = {file.parent.name for file in before}
    kept = [file for file, inode in before.items() if file.stat().st_ino == inode]
    assert len(kept) >= len(before) - 2 * 7, "rows that were finished were written again"
    assert (len(done_rows) >= 2) == ((stage, done) in STAGES[3:])
    assert not list(store.rglob("*.partial"))


@pytest.mark.slow
def test_pieces_of_the_neighbour_search(disk, ballast, expected, iterate, monkeypatch):
    monkeypatch.setattr(lists, "PIECE_SECONDS", 0)
    monkeypatch.setattr(lists, "BYTES_A_SECOND", float("inf"))
    with pytest.raises(DiskFullError, match=SAID):
        fitted(disk / "pieces", progress=filling(ballast, "neighbors", 1))
    ballast.drop()
    same(fitted(disk / "pieces"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["y.npy", "y.csv", "y.zarr"])
def test_the_shell_says_it_in_one_line_with_exit_code_1(disk, ballast, iterate, monkeypatch, capsys, tmp_path, out):
    """A fit whose coordinates don't fit any more, and a projection; both end well when there is room."""
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "T.npy", T)
    store = disk / "shell"
    fit = ["fit", str(tmp_path / "X.npy"), str(store), "-k", "8", "-q"]
    assert run_command(cli, fit) == 0
    project = ["project", str(store), str(tmp_path / "T.npy"), str(disk / out), "-q"]
    ballast.fill()
    capsys.readouterr()
    assert run_command(cli, project) == 1
    error = capsys.readouterr().err
    assert re.search(SAID, error) and error.count("\n") == 1
    assert not (disk / out).exists()
    ballast.drop()
    assert run_command(cli, project) == 0
    placed = load(store).transform(T)
    found = {"npy": np.load, "csv": lambda path: np.loadtxt(path, delimiter=",", skiprows=1)}.get(out[2:])
    if found is not None:
        np.testing.assert_array_equal(found(disk / out), placed)
    assert sorted(entry.name for entry in disk.iterdir() if entry.name.startswith((".y", ".shell"))) == []


# ---- without a disk of one's own -----------------------------------------------------------------


@pytest.fixture
def full(monkeypatch):
    """Any write of a store's object finds the disk full."""

    def write(path, content):
        path.write_bytes(b"the half of it")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(folders, "_write", write)


@pytest.mark.parametrize("function", [FilePath.put, create_once])
def test_what_was_there_stays_and_no_half_is_left(full, tmp_path, function):
    (tmp_path / "object").write_bytes(b"before")
    with pytest.raises(DiskFullError, match=rf"'{tmp_path}/object' is full: 1,234 bytes were .* [\d,]+ bytes are"):
        function(open_location(tmp_path / "object"), bytes(1234))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("object", b"before")]


def test_a_quota_is_said_to_be_one(tmp_path):
    with pytest.raises(DiskFullError, match=r"10 bytes were .* and the quota is used up"), room_for(tmp_path, 10):
        raise OSError(122, "Disk quota exceeded")


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(PermissionError), room_for(tmp_path, 10):
        raise PermissionError(13, "Permission denied")
    with pytest.raises(FileNotFoundError):
        open_location(tmp_path / "nowhere" / "object").put(b"")


def test_a_fit_on_a_full_disk_leaves_its_path_free(full, tmp_path):
    with pytest.raises(DiskFullError):
        fitted(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
