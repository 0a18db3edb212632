"""A solve that is stopped goes on from the reads of D that it made: the same bits, and no read is made twice."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from data import roll
from stored_models import same

from scalemani import KernelIsomap
from scalemani.integrity import repair, verify
from scalemani.kernel import eigensolver
from scalemani.kernel.eigensolver import Combination, ReadBlock, block_rayleigh_ritz, start_block
from scalemani.kernel.operators import CenteredKernels
from scalemani.steps.records import StartRecord
from scalemani.storage.pieces import Pieces
from scalemani.storage.run import RunStore

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]
X = roll(400)


def fitted(path, **arguments):
    """A fit that takes eight reads of D."""
    return KernelIsomap(**{"n_neighbors": 8, "tol": 1e-9, "store": path, **arguments}).fit(X)


class Reads:
    """Counts products that are really made of D; stops in one if told."""

    def __init__(self, monkeypatch):
        self.made, self.stop, real = 0, None, CenteredKernels.products

        def products(kernels, vectors, precision=None):
            if self.made == self.stop:
                raise KeyboardInterrupt
            self.made += 1
            return real(kernels, vectors, precision)

        monkeypatch.setattr(CenteredKernels, "products", products)


@pytest.fixture
def reads(iterate, monkeypatch):
    return Reads(monkeypatch)


@pytest.fixture(scope="module")
def expected():
    """An undisturbed solve, by the iteration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eigensolver, "FULL_BASIS", 1)
        return fitted(None)


@pytest.fixture(scope="module")
def stopped_after_four(tmp_path_factory):
    """A run that was stopped in its fifth read; no test may change it."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eigensolver, "FULL_BASIS", 1)
        stopped(Reads(patch), path, 4)
    return path


@pytest.fixture
def four(stopped_after_four, tmp_path):
    return Path(shutil.copytree(stopped_after_four, tmp_path / "run"))


def kept(path):
    return sorted((path / "pieces_solve").glob("*.kept"))


def stopped(reads, path, after, **arguments):
    reads.stop = after
    with pytest.raises(KeyboardInterrupt):
        fitted(path, **arguments)
    reads.stop = None


def test_stops_anywhere_cost_no_read(reads, expected, tmp_path):
    """Before the first, in the middle and in the last, one after another."""
    total, path = expected.n_passes_, tmp_path / "run"
    assert total >= 5
    for after in (0, 2, total - 1):
        stopped(reads, path, after)
        assert len(kept(path)) == after
    resumed = fitted(path)
    assert reads.made == total == resumed.n_passes_
    same(resumed, expected)
    assert not (path / "pieces_solve").exists()


@pytest.mark.parametrize("change", [{"correction": None}, {"n_components": 3}, {"tol": 1e-6}, {"random_state": 1}])
def test_reads_of_another_solve_are_not_taken(reads, expected, four, change):
    other = fitted(four, **change)
    assert reads.made == other.n_passes_ and not (four / "pieces_solve").exists()


@pytest.mark.parametrize(("at", "number"), [(0, 0), (0.5, 2), (1, 3)])
def test_a_damaged_read_is_made_again_and_those_behind_it_are_found(reads, expected, four, number, at):
    """They follow from the bits of the one before them, which are the same."""
    file = four / "pieces_solve" / f"read_{number}.kept"
    content = bytearray(file.read_bytes())
    content[int(at * (len(content) - 1))] ^= 4
    file.write_bytes(content)
    same(fitted(four), expected)
    assert reads.made == expected.n_passes_ - 3


def test_reads_that_are_no_directions_of_this_basis_are_not_taken(reads, expected, four):
    """As a run by another release might leave them: whole, and wrong."""
    block = np.random.default_rng(0).standard_normal((len(X), 16))
    of = json.loads((four / "pieces_solve" / "read_1.kept").read_bytes().split(b"\n", 2)[1])["of"]
    RunStore(four).pieces("solve").put("read_1", [block, block, block], of)
    same(fitted(four), expected)
    assert reads.made == expected.n_passes_ - 3


@pytest.mark.parametrize("shape", [(400,), (399, 16), (400, 0)])
def test_reads_of_another_shape_are_not_taken(reads, expected, four, shape):
    of = json.loads((four / "pieces_solve" / "read_1.kept").read_bytes().split(b"\n", 2)[1])["of"]
    RunStore(four).pieces("solve").put("read_1", [np.ones(shape)] * 3, of)
    same(fitted(four), expected)
    assert reads.made == expected.n_passes_ - 3


def test_a_damaged_read_is_named_and_removed_and_the_fit_goes_on(reads, expected, four):
    assert verify(str(four)).faults == ()
    file = four / "pieces_solve" / "read_1.kept"
    file.write_bytes(file.read_bytes()[:-1])
    (four / "pieces_solve" / "mine.txt").write_text("mine")
    found = verify(str(four)).faults
    assert [(fault.kind, fault.name.split("/")[-1]) for fault in found] == [("stray", "mine.txt"), ("array", file.name)]
    done, left = repair(str(four))
    assert len(done) == 1 and [fault.kind for fault in left.faults] == ["stray"]
    assert not file.exists() and len(kept(four)) == 3
    same(fitted(four), expected)
    assert reads.made == expected.n_passes_ - 3


def test_a_temporary_store_keeps_none(reads, monkeypatch):
    monkeypatch.setattr(Pieces, "put", None)
    assert fitted(None).n_passes_ == reads.made


def test_a_model_takes_none_of_them_along(four, tmp_path):
    RunStore(four).copy_without_distances(tmp_path / "model")
    assert not kept(tmp_path / "model") and len(kept(four)) == 4


def test_a_basis_that_is_limited_by_memory_is_kept_to(reads, four, monkeypatch):
    """Or another memory limit would end with other bits: the columns are recorded with the first block."""
    store = RunStore(four)
    state = store.needed(StartRecord)
    assert state.most_columns > 100
    store.finish(StartRecord(fields=state.fields, most_columns=100))
    seen, real = [], eigensolver.Subspace

    def subspace(basis, images, most):
        seen.append(most)
        return real(basis, images, most)

    monkeypatch.setattr(eigensolver, "Subspace", subspace)
    fitted(four)
    assert 100 <= max(seen) < state.most_columns


# ---- the iteration -------------------------------------------------------------------------------


class Log(dict):
    """A log in memory."""

    def put(self, number, block):
        self[number] = block


def test_the_iteration_takes_logged_blocks_and_ends_where_it_did():
    """With restarts in between; a prefix, all, and none of the log."""
    rng = np.random.default_rng(3)
    n = 150
    basis = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, n - 1))]))[0][:, 1:]
    matrix = (basis * np.concatenate([[9.0, 5.0, 4.0], np.linspace(1, -3, n - 4)])) @ basis.T
    made = []

    def products(V):
        made.append(V.shape[1])
        return (matrix @ V,)

    def solve(log):
        block = start_block(n, 12, 0)
        start = ReadBlock(block, (matrix @ block,))
        asked = {"low": True, "tol": 1e-9, "block": 4, "most_columns": 40, "start": start, "log": log}
        return block_rayleigh_ritz(products, n, 3, lambda _: Combination((1.0,), low_scale=1.0), **asked)

    log = Log()
    whole = solve(log)
    total = len(made)
    assert len(log) == total and sum(made) + 12 > 40, "no restart"
    for known in (0, 1, total // 2, total):
        made.clear()
        again = solve(Log({number: log[number] for number in range(known)}))
        assert len(made) == total - known
        np.testing.assert_array_equal(again.vectors, whole.vectors)
        np.testing.assert_array_equal(again.values, whole.values)


def test_a_run_that_moved_goes_on(reads, expected, four, tmp_path):
    model = fitted(shutil.move(four, tmp_path / "moved"))
    same(model, expected)
    assert reads.made == expected.n_passes_ - 4
