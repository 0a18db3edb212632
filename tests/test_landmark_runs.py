"""A run by landmarks is the same product: verify, repair, export, resume, plan, command line, report.

The numerics are in test_landmarks.py. Each damage is found by verify, mended by repair to the bits that were there, and
met by a projection as an error that names the remedy.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from corruption import tree
from data import roll

from scalemani import KernelIsomap, load
from scalemani.engine.objects import PARTIAL
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.landmarks import needs, rows
from scalemani.repair import repair
from scalemani.verification import verify

pytestmark = [pytest.mark.filterwarnings("ignore")]
POINTS = roll(300)
MATRIX = "distances_to_landmarks"
CHANGING = ("zarr.json", "document.json")


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Five blocks of points, four of landmarks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(needs, "MOST_POINTS", 64)
        yield


def estimator(store, **given):
    return KernelIsomap(**{"n_neighbors": 7, "landmarks": 24, "store": store, **given})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An undisturbed run."""
    return estimator(tmp_path_factory.mktemp("landmarks") / "run.zarr").fit(POINTS)


@pytest.fixture
def run(made, tmp_path):
    """A copy of it to be changed."""
    return Path(shutil.copytree(made.store_, tmp_path / "r"))


def flip(file, at=-1):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def numbers(store):
    """Files with numbers and their ledgers: what must come back to the bit."""
    return {name: content for name, content in tree(store).items() if name not in CHANGING}


DAMAGE = {  # name: what is done to the folder of a run, what verify calls it
    "a bit of a chunk": (lambda run: flip(run / f"{MATRIX}/c/2/0"), f"{MATRIX}/2"),
    "a lost chunk": (lambda run: (run / f"{MATRIX}/c/0/0").unlink(), f"{MATRIX}/0"),
    "a short chunk": (
        lambda run: (run / f"{MATRIX}/c/1/0").write_bytes(b"1234"),
        f"{MATRIX}/1",
    ),
    "a lost line": (lambda run: (run / f"{MATRIX}/ledger/3.json").unlink(), f"{MATRIX}/3"),
    "another line": (
        lambda run: shutil.copy(run / MATRIX / "ledger/3.json", run / MATRIX / "ledger/1.json"),
        f"{MATRIX}/1",
    ),
    "two chunks for one another": (
        lambda run: shutil.copy(run / f"{MATRIX}/c/1/0", run / f"{MATRIX}/c/2/0"),
        f"{MATRIX}/2",
    ),
    "metadata": (lambda run: flip(run / f"{MATRIX}/zarr.json", 40), f"{MATRIX}/zarr.json"),
    "the whole matrix": (lambda run: shutil.rmtree(run / MATRIX), f"{MATRIX}/0"),
    "landmarks": (lambda run: flip(run / "landmarks/c/0"), "landmarks"),
    "lost landmarks": (lambda run: shutil.rmtree(run / "landmarks"), "landmarks"),
    "counts": (lambda run: flip(run / "landmark_counts/c/0"), "landmark_counts"),
    "square": (lambda run: flip(run / "landmark_square/c/0/0"), "landmark_square"),
    "lost square": (lambda run: shutil.rmtree(run / "landmark_square"), "landmark_square"),
    "coordinates": (lambda run: flip(run / "coordinates/c/0/0"), "coordinates"),
    "axes": (lambda run: flip(run / "vectors/c/0/0"), "vectors"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_verify_finds_damage_and_repair_makes_the_same_bits(run, made, name):
    damage, called = DAMAGE[name]
    damage(run)
    found = verify(str(run))
    assert found.damaged and called in {fault.name for fault in found.faults}
    done, left = repair(str(run))
    assert done and not left.faults
    assert numbers(run) == numbers(made.store_)
    assert np.array_equal(load(run).embedding_, made.embedding_)
