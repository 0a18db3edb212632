"""What a process that was killed leaves: the same command again goes on from it, and in the end nothing of it is there.

A fit is killed before each of its operations on files in turn, so that no state between two of them is left out; the
kills at random moments of a cluster's run are in test_kills.py.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from data import roll

from scalemani import KernelIsomap, load
from scalemani.cluster.health import Calls
from scalemani.errors import ClusterLostError
from scalemani.integrity import verify
from scalemani.kernel import eigensolver
from scalemani.neighbors import exact, lists, prepared
from scalemani.neighbors import exact as brute
from scalemani.steps.records import SolveRecord
from scalemani.storage.files import open_location
from scalemani.storage.pieces import Pieces
from scalemani.storage.run import RunStore

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


class Killed(BaseException):
    """Not caught on the way, as a kill is not."""


def killed(*_, **__):
    raise Killed


def arguments(path):
    return {"n_neighbors": 8, "n_components": 2, "store": str(path)}


def test_a_solve_that_was_killed_when_it_was_done_leaves_no_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(eigensolver, "FULL_BASIS", 1)  # else one read is all that is needed
    X = roll(100)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        real = Pieces.drop
        patch.setattr(Pieces, "drop", lambda self: (killed if self.folder.name == "pieces_solve" else real)(self))
        KernelIsomap(**arguments(tmp_path / "r")).fit(X)
    left = RunStore(tmp_path / "r")
    assert len(list((tmp_path / "r" / "pieces_solve").iterdir())) > 1 and left.record(SolveRecord) is not None
    again = KernelIsomap(**arguments(tmp_path / "r")).fit(X)
    assert not (tmp_path / "r" / "pieces_solve").exists()
    np.testing.assert_array_equal(again.embedding_, KernelIsomap(n_neighbors=8).fit(X).embedding_)
    assert verify(str(tmp_path / "r")).faults == ()


def test_what_a_killed_process_was_making_goes(tmp_path):
    """In the folder when the next one begins, since it may be a whole D; of tiles and lines at the end."""
    X = roll(60)
    KernelIsomap(**arguments(tmp_path / "r")).fit(X)
    run = tmp_path / "r"
    before = {str(path.relative_to(run)) for path in run.rglob("*")}
    for place in ("distances", "document.json", "distances/c/0/0", "ledger/0.json"):
        (run / f"{place}.{'0' * 32}.partial").mkdir() if place == "distances" else None
        (run / f"{place}.{'1' * 32}.partial").write_text("half")
    open_location(run).remove_scratch()
    assert len(list(run.rglob("*.partial"))) == 2, "those of tasks that may still be at work"
    KernelIsomap(**arguments(run)).fit(X)
    assert {str(path.relative_to(run)) for path in run.rglob("*")} == before


def test_a_search_is_no_further_ahead_than_its_threads(monkeypatch):
    """What is found and not yet kept is lost when a search is killed; counted on an executor that works when asked."""

    class Executor(ThreadPoolExecutor):
        def submit(self, task, *arguments):
            waiting.append(arguments)
            most.append(len(waiting))
            return Taken(task, arguments)

    class Taken:
        def __init__(self, task, arguments):
            self.task, self.arguments = task, arguments

        def result(self):
            waiting.remove(self.arguments)
            return self.task(*self.arguments)

    waiting, most = [], []
    monkeypatch.setattr(prepared, "ThreadPoolExecutor", Executor)
    monkeypatch.setattr(brute, "_TABLE_ROWS", 10)
    points = np.random.default_rng(0).normal(size=(230, 12))
    found, _ = exact.ExactSearch(points, threads=2).nearest(points, 3)
    assert max(most) == 4 and len(most) == 23
    np.testing.assert_array_equal(found, exact.ExactSearch(points).nearest(points, 3)[0])


def test_a_search_ends_where_the_scheduler_is_gone(tmp_path, monkeypatch, embedded):
    """It asks nothing of the cluster, and may take hours; what it has found is kept."""
    monkeypatch.setattr(lists, "PIECE_SECONDS", 0.0)
    monkeypatch.setattr(lists, "BYTES_A_SECOND", np.inf)
    monkeypatch.setattr(brute, "_TABLE_ROWS", 20)
    points = np.random.default_rng(0).normal(size=(200, 12))
    seen, real = [], Calls.check

    def check(self, error=None):
        if len(seen) > 4:
            raise self.lost()
        real(self, error)

    with monkeypatch.context() as patch, pytest.raises(ClusterLostError, match=r"scheduler at .* is gone"):
        patch.setattr(Calls, "check", check)
        KernelIsomap(**arguments(tmp_path / "r"), progress=lambda *said: seen.append(said)).fit(points)
    assert seen[-1][0] == "neighbors" and 0 < seen[-1][1] < 200
    assert list((tmp_path / "r" / "pieces_neighbors").iterdir())
    assert "neighbors" not in RunStore(tmp_path / "r").document.stages


# Each fit is a process, forked from one that has imported everything and has no threads: a kill is the process's end.
EACH = """
import json, os, sys, warnings
import numpy as np
import scipy.sparse as sp
sys.path.insert(0, sys.argv[1])
from data import roll
import scalemani.fitting
from scalemani import KernelIsomap
from scalemani.kernel import eigensolver
from scalemani.steps import cuts as budget
from scalemani.geodesics.reads import count_distances, new_counts
from scalemani.geodesics.paths import geodesic_rows
from scalemani.neighbors import exact as brute, lists as kept_blocks
folder, keep, stride, first = sys.argv[2], sys.argv[3] == "keep", int(sys.argv[4]), int(sys.argv[5])
warnings.simplefilter("ignore")
eigensolver.FULL_BASIS, budget.LARGEST_TILE, kept_blocks.PIECE_SECONDS, kept_blocks.BYTES_A_SECOND = 1, 32, 0.0, 1e300
brute._TABLE_ROWS = 20
turned = np.linalg.qr(np.random.default_rng(9).standard_normal((12, 3)))[0]
X = roll(80) @ turned.T
for kind in (np.float32, np.float64):  # the kernels are read once, here
    graph = sp.csr_array(np.ones((40, 40), kind) - np.eye(40, dtype=kind))
    geodesic_rows(graph, np.arange(16))
    count_distances(np.ones((32, 32), np.float32), new_counts(), diagonal=False)
NAMES = ("rename", "replace", "link", "mkdir", "unlink", "rmdir")

def fit(path, last):
    count = 0
    def before(function):
        def counted(*arguments, **options):
            nonlocal count
            count += 1
            if count == last:
                os._exit(9)
            return function(*arguments, **options)
        return counted
    for name in NAMES:
        setattr(os, name, before(getattr(os, name)))
    model = KernelIsomap(n_neighbors=8, store=path, keep_distances=keep).fit(X)
    np.save(path + ".npy", model.embedding_)
    os._exit(0)

def run(path, last=0):
    child = os.fork()
    if child == 0:
        try:
            fit(path, last)
        finally:
            os._exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

codes, last = [], first
while True:
    path = f"{folder}/{last}"
    codes.append([last, run(path, last)])
    if codes[-1][1] != 9:
        break
    codes[-1].append(run(path))
    last += stride
print(json.dumps(codes))
"""


def every(tmp_path, keep, stride, first=1):
    """Runs killed before every so many-th operation; how many there were."""
    command = [sys.executable, "-c", EACH, "tests", str(tmp_path), keep, str(stride), str(first)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *killed, (last, whole) = json.loads(done.stdout)
    assert whole == 0 and done.stderr == "", done.stderr
    expected = np.load(tmp_path / f"{last}.npy")
    for at, _, code in killed:
        assert code == 0, at
        np.testing.assert_array_equal(np.load(tmp_path / f"{at}.npy"), expected)
        assert verify(str(tmp_path / str(at))).faults == (), at
        assert load(tmp_path / str(at)).additive_constant_ == load(tmp_path / str(last)).additive_constant_
    more = [path for path in tmp_path.iterdir() if path.suffix not in ("", ".npy")]
    begun = [path for path in more if ".writer.json." in path.name]  # some bytes each, of a writer that was not one yet
    assert len(begun) <= 2
    more = [path for path in more if path not in begun]
    assert not [path for path in more if path.suffix != ".partial" or len(list(path.iterdir())) > 2]  # not begun yet
    return len(killed)


@pytest.mark.slow
def test_a_fit_that_is_killed_between_two_operations_on_files_goes_on(tmp_path):
    assert every(tmp_path, "drop", 61, 60) >= 3


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("keep", ["keep", "drop"])
def test_a_fit_that_is_killed_before_any_operation_on_files_goes_on(tmp_path, keep):
    stride = int(os.environ.get("SCALEMANI_KILLS_STRIDE", "1"))
    assert every(tmp_path, keep, stride) > 150 // stride
