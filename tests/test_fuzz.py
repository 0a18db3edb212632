"""Whatever is in a file, a store or a command line, the program ends with a code and one line in its own words.

The default tier takes a few examples of each. The `long` one goes on for SCALEMANI_FUZZ_SECONDS (600 unless set), from
SCALEMANI_FUZZ_SEED (another each time, printed): pytest -m long -s tests/test_fuzz.py
"""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import zarr
from fuzzing import Faults, spoiled, spoiled_array, spoiled_json
from hostile import sealed_array
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from scalemani.storage.run import RunStore

POINTS = np.random.default_rng(0).random((24, 3))
POINTS_FILES = (
    "x.npy",
    "x.npz",
    "s.npz",
    "x.csv",
    "x.tsv",
    "x.zarr/zarr.json",
    "v2.zarr/.zarray",
    "g.zarr/a/zarr.json",
)
FIT = ("-k", "4", "-p", "2")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with points of every kind, a finished store and two half-finished ones, all made by the program."""
    at = tmp_path_factory.mktemp("world")
    np.save(at / "x.npy", POINTS)
    np.savez(at / "x.npz", a=POINTS)
    scipy.sparse.save_npz(at / "s.npz", scipy.sparse.csr_array(POINTS))
    for name, sign in (("x.csv", ","), ("x.tsv", "\t")):
        rows = [sign.join([f"p{i}", *map(repr, row)]) for i, row in enumerate(POINTS.tolist())]
        (at / name).write_text("\n".join([sign.join(["who", "a", "b", "c"]), *rows]) + "\n")
    zarr.create_array(str(at / "x.zarr"), data=POINTS, chunks=(10, 3))
    zarr.create_array(str(at / "v2.zarr"), data=POINTS, chunks=(10, 3), zarr_format=2)
    zarr.open_group(str(at / "g.zarr"), mode="w").create_array("a", data=POINTS)
    faults = Faults()
    assert faults.run(["fit", str(at / "x.npy"), str(at / "run"), *FIT]) == 0
    for name, stages in (("solved", ("fit", "solve")), ("tiles", ("fit", "solve", "geodesics"))):
        shutil.copytree(at / "run", at / name)
        RunStore(at / name).forget(*stages)
    (at / "tiles/ledger/1.json").unlink()
    assert not faults.found, str(faults)
    return at


def fuzz(body, given_by, rounds, examples, start):
    """Run `body` on examples, `rounds` times from seeds that follow `start`; all of them run."""
    for number in range(rounds):
        calm = list(HealthCheck)
        manner = settings(
            max_examples=examples, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=calm
        )
        seed(start + number)(manner(given(given_by)(body)))()


def points_body(world, place, faults, *, whole):
    """Spoil a file of points and have it read, and, where `whole`, fitted and projected."""

    def body(data):
        name = data.draw(st.sampled_from(POINTS_FILES))
        top = Path(name).parts[0]
        fresh(place)
        (shutil.copytree if (world / top).is_dir() else shutil.copy)(world / top, place / top)
        content = (world / name).read_bytes()
        json = name.endswith((".json", ".zarray"))
        new = data.draw(spoiled_json(content, name) if json else spoiled(content))
        (place / name).write_bytes(new)
        given = str(place / top)
        more = ("--id-column", "who") if top in ("x.csv", "x.tsv") else ()
        told = repr(new[:300])
        if whole:
            faults.run(["fit", given, str(place / "run"), *FIT, *more], told)
        faults.run(["project", str(world / "run"), given, str(place / "y.npy"), "--overwrite", *more], told)
        faults.run(
            ["report", str(world / "run"), str(place / "y.html"), "--colour", f"{given}:1", "--rows", "2"], told
        ) if (whole) else None

    return body


def store_body(world, place, faults, stores, commands):
    """Spoil a JSON file of a store and run every command that opens it."""

    def body(data):
        name = data.draw(st.sampled_from(stores))
        files = sorted(str(path.relative_to(world / name)) for path in (world / name).rglob("*.json"))
        roots = [file for file in files if "/" not in file]
        file = data.draw(st.sampled_from(roots) if data.draw(st.booleans()) else st.sampled_from(files))
        fresh(place)
        shutil.copytree(world / name, place / "run")
        new = data.draw(spoiled_json((world / name / file).read_bytes(), file))
        (place / "run" / file).write_bytes(new)
        if data.draw(st.integers(0, 2)) == 0 and file in roots:  # both copies of a document
            for other in roots:
                (place / "run" / other).unlink() if other != file else None
        for command in commands:
            faults.run(
                [part.format(run=place / "run", world=world, at=place) for part in command], f"{file} {new[:300]}"
            )

    return body


COMMANDS = [
    ["info", "{run}"],
    ["info", "{run}", "--json"],
    ["export", "{run}", "{at}/model"],
    ["project", "{run}", "{world}/x.npy", "{at}/y.npy", "--overwrite"],
    ["report", "{run}", "{at}/y.html", "--overwrite", "--rows", "4"],
    ["fit", "{world}/x.npy", "{run}", *FIT],
    ["fit", "{world}/x.npy", "{run}", *FIT, "--overwrite"],
]
VERIFY = [["verify", "{run}"]]
REPAIR = [*VERIFY, ["verify", "{run}", "--repair"], ["fit", "{world}/x.npy", "{run}", *FIT], ["info", "{run}"]]

FACTORS = st.sampled_from([0.0, -1.0, 0.5, 1e30, 1e38, np.nan, np.inf])
WORDS = st.one_of(
    st.sampled_from(
        ["fit", "plan", "project", "info", "export", "report", "verify", "--help", "--version", "-k", "-p"]
    ),
    st.sampled_from(
        ["{world}/x.npy", "{world}/x.csv", "{world}/x.zarr", "{world}/run", "{world}/absent", "{at}/y.npy"]
    ),
    st.sampled_from(["--id-column", "--delimiter", "--overwrite", "--json", "--radius", "--metric", "--correction"]),
    st.sampled_from(
        ["0", "-1", "3", "9" * 400, "nan", "inf", "1e400", "0x10", "1_0", "²", "=", "--", "-", ":", "\udcff"]
    ),
    st.sampled_from(["--seed", "--tol", "--memory", "--tile-size", "--scheduler", "--colour", "--rows", "--embedding"]),
    st.sampled_from(["euclidean", "minkowski", "cosine", "precomputed", "geodesic", "join", "largest", "{at}/y.csv"]),
    st.text(st.characters(exclude_categories=()), max_size=4),
)


def arrays_body(world, place, faults, stores, commands):
    """Spoil the numbers, the dtype or the shape of an array of a store, make all checksums anew, and run commands."""

    def body(data):
        name = data.draw(st.sampled_from(stores))
        whole = RunStore(world / name)
        array = data.draw(st.sampled_from(sorted(whole.document.arrays.keys() - {"distances"})))
        fresh(place)
        shutil.copytree(world / name, place / "run")
        new = data.draw(spoiled_array(whole.read_array(array)))
        sealed_array(place / "run", array, new)
        for command in commands:
            words = [part.format(run=place / "run", world=world, at=place) for part in command]
            faults.run(words, f"{array} {new.dtype} {new.shape} {new.ravel()[:40].tolist()}")

    return body


def tiles_body(world, place, faults, commands):
    """Other distances in a tile, with its line made anew."""

    def body(data):
        fresh(place)
        shutil.copytree(world / "run", place / "run")
        store = RunStore(place / "run")
        row = data.draw(st.integers(0, len(store.blocks) - 1))
        here = store.blocks[row]
        upper = store.read_rows(np.arange(here.start, here.stop))[:, here.start :]
        store.tiles.unfinish(row)
        new = data.draw(spoiled_array(upper))
        with np.errstate(over="ignore", invalid="ignore"):
            upper = new if new.shape == upper.shape else upper * np.float32(data.draw(FACTORS))
        store.tiles.write(row, upper)
        if data.draw(st.booleans()):
            store.forget("fit", "solve", *data.draw(st.sampled_from([(), ("geodesics",)])))
        for command in commands:
            faults.run([part.format(run=place / "run", world=world, at=place) for part in command], f"row {row}")

    return body


def words_body(world, place, faults):
    """Put words of the command line together in any order."""

    def body(data):
        fresh(place)
        words = data.draw(st.lists(WORDS, max_size=8))
        if data.draw(st.booleans()):
            words = [data.draw(st.sampled_from(["fit", "project", "plan", "info", "export", "report"])), *words]
        faults.run(
            [word.replace("{world}", str(world)).replace("{at}", str(place)) for word in words if word != "demo"]
        )

    return body


def fresh(place):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()


def test_spoiled_points_are_read_or_refused_in_one_line(world, tmp_path):
    faults = Faults()
    fuzz(points_body(world, tmp_path / "at", faults, whole=False), st.data(), 1, 12, 0)
    assert not faults.found, str(faults)
    assert faults.codes["project", 2] > 2


def test_a_spoiled_store_is_used_or_refused_in_one_line(world, tmp_path):
    faults = Faults()
    fuzz(store_body(world, tmp_path / "at", faults, ["run", "tiles"], COMMANDS[:4] + VERIFY), st.data(), 1, 6, 0)
    assert not faults.found, str(faults)
    assert faults.codes["info", 0] and faults.codes["info", 0] < faults.codes.total()


def test_any_words_are_taken_or_refused_in_one_line(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faults = Faults()
    fuzz(words_body(world, tmp_path / "at", faults), st.data(), 1, 15, 0)
    assert not faults.found, str(faults)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_for_as_long_as_one_likes(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = int(os.environ.get("SCALEMANI_FUZZ_SEED", time.time_ns() % 10**6))
    until = time.monotonic() + float(os.environ.get("SCALEMANI_FUZZ_SECONDS", "600"))
    print(f"\nSCALEMANI_FUZZ_SEED={start}")
    faults, number, place = Faults(), 0, tmp_path / "at"
    bodies = (
        (points_body(world, place, faults, whole=True), 8),
        (store_body(world, place, faults, ["run", "solved", "tiles"], COMMANDS + VERIFY), 5),
        (store_body(world, place, faults, ["run", "solved", "tiles"], REPAIR), 5),
        (arrays_body(world, place, faults, ["run", "solved", "tiles"], COMMANDS), 5),
        (arrays_body(world, place, faults, ["run", "solved", "tiles"], REPAIR), 5),
        (tiles_body(world, place, faults, [*COMMANDS[3:6], *REPAIR]), 3),
        (words_body(world, place, faults), 40),
    )
    while time.monotonic() < until:
        for body, examples in bodies:
            if time.monotonic() < until:
                fuzz(body, st.data(), 1, examples, start + number)
        number += 1
    print(f"{faults.codes.total():,} commands in {number} rounds{faults}")
    assert not faults.found
