"""Whatever happens to a store, it is found, never used as numbers, and mended: injected damage of every kind.

Of each example: `verify` finds it; every pass over the store gives one of our errors in a line, or the undisturbed
bits; `repair`, and the same fit where it says so, bring back the undisturbed store, and make no row of tiles that was
whole. The long one: SCALEMANI_CORRUPTIONS (200) examples from SCALEMANI_CORRUPTIONS_SEED (printed):
pytest -m long -s tests/storage/test_corruptions.py
"""

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from corruption import KINDS, changed, rows_of, tree
from damaged_worlds import another_run, bits, comparable, in_time, outcome, worlds
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from scalemani.integrity import repair, verify
from scalemani.storage.tiles import Tiles

pytestmark = [pytest.mark.filterwarnings("ignore")]


class Written:
    """Rows of tiles that are written while it is looked at."""

    def __init__(self, monkeypatch):
        self.rows = []
        real = Tiles.write

        def write(store, row, *args, **kwargs):
            self.rows.append(row)
            return real(store, row, *args, **kwargs)

        monkeypatch.setattr(Tiles, "write", write)


class Examples:
    """Damages copies of stores, and gathers what breaks the claims."""

    def __init__(self, folder, made, other, written):
        self.folder, self.worlds, self.other, self.written = folder, made, other, written
        self.faults, self.counts, self.number = [], Counter(), 0

    def run(self, data):
        chooser = random.Random(data.draw(st.integers(0, 2**64 - 1)))  # all places alike, and no example twice
        world, kind = chooser.choice(self.worlds), chooser.choice(sorted(KINDS))
        self.number += 1
        at = self.folder / str(self.number)
        at.mkdir()
        shutil.copytree(world.base, at / "damaged")
        told = KINDS[kind](at / "damaged", chooser.choice, self.other)
        self.counts[kind] += 1
        self.counts[f"of {world.name}"] += 1
        names = changed(tree(world.base), tree(at / "damaged"))
        problems = []
        if names:  # else another process made the same bytes
            try:
                with in_time():
                    problems = [*self.found(at, names), *self.used(world, at), *self.mended(world, at, names)]
            except Exception as error:
                problems = [f"{type(error).__name__}: {error}"]
        else:
            self.counts["nothing changed"] += 1
        self.faults += [f"{self.number}: {world.name}, {kind} {told}: {problem}" for problem in problems]
        shutil.rmtree(at)

    def found(self, at, names):
        """`verify` says so, in what is damaged or in what a run left.

        Pieces of an unfinished step that are gone are no damage: they are made again.
        """
        looked = verify(str(at / "damaged"))
        self.counts["found damaged" if looked.damaged else "found as left over"] += 1
        gone = {name for name in names if name.startswith("pieces_") and not (at / "damaged" / name).exists()}
        if not looked.faults and gone != {*names}:
            yield "verify found nothing"

    def used(self, world, at):
        """Each pass gives an error of ours or the undisturbed bits."""
        for name in ("use", "again", "other"):
            shutil.copytree(at / "damaged", at / name)
        for name, (kind, had) in world.passes(at / "use", at / "again", at / "other").items():
            wanted = world.undisturbed[name]
            self.counts[f"{name}: {kind}"] += 1
            if kind == "leak":
                yield f"{name} leaks {had}"
            elif kind == "bits" and wanted[0] != "bits":
                yield f"{name} worked, which it does not undisturbed: {wanted}"
            elif kind == "bits" and had != wanted[1]:
                yield f"{name} gave other numbers: {sorted(changed(had, wanted[1]))[:5]}"

    def mended(self, world, at, names):
        """The store is what it was, and no row that was whole was made."""
        self.written.rows.clear()
        store = at / "damaged"
        done, left = repair(str(store))
        again = left.damaged or not left.finished or any("same fit" in sentence for sentence in done)
        allowed = rows_of(names)
        allowed |= set(range(7)) - world.rows_done  # of a fit that was stopped, or of a D that was dropped
        if again:
            world.fit(store)
        self.counts["mended by repair and the fit" if again else "mended by repair"] += 1
        rows = self.written.rows
        self.counts["rows written"] += len(rows)
        if "distances/zarr.json" not in names and not set(rows) <= allowed:
            yield f"rows {sorted(set(rows) - allowed)} were made again without need; {done}"
        looked = verify(str(store))
        strays = {fault.name for fault in looked.faults if fault.kind == "stray"}
        if len(strays) < len(looked.faults) or not looked.finished:
            yield f"after repair ({done}; fit: {again}) verify says {looked.faults}"
            return
        said = outcome(world.use, store)
        if said != world.used:
            yield f"after repair the model says {said if said[0] != 'bits' else 'other numbers'}"
        now = bits(comparable(store))
        differing = {name.lstrip(".") for name in changed(now, bits(world.whole))}
        lost = {name for name in differing if name not in strays and not name.startswith("neighbors_")}
        if lost:
            yield f"after repair ({done}; fit: {again}) these differ: {sorted(lost)[:6]}"

    def __str__(self):
        counts = "\n".join(f"{self.counts[name]:6} {name}" for name in sorted(self.counts))
        return f"\n{counts}\n" + "\n".join(self.faults)


def prepared(world, folder):
    """A world with its reference, and the rows of tiles that it has finished."""
    world.make(folder)
    ledger = Path(world.base, "ledger")
    world.rows_done = {int(line.stem) for line in ledger.glob("*.json")} if ledger.is_dir() else set()
    return world


def injected(examples, count, start):
    manner = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seed(start)(manner(given(st.data())(examples.run)))()


@pytest.mark.slow
def test_some_corruptions_are_found_refused_and_mended(tmp_path, monkeypatch):
    some = [world for world in worlds() if world.name in ("points", "geodesics")]
    made = [prepared(world, tmp_path) for world in some]
    examples = Examples(tmp_path, made, another_run(tmp_path), Written(monkeypatch))
    injected(examples, 8, 0)
    assert not examples.faults, str(examples)
    assert examples.counts["found damaged"] > 4


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_corruptions_are_found_refused_and_mended(tmp_path, monkeypatch):
    start = int(os.environ.get("SCALEMANI_CORRUPTIONS_SEED", time.time_ns() % 10**6))
    count = int(os.environ.get("SCALEMANI_CORRUPTIONS", "200"))
    print(f"\nSCALEMANI_CORRUPTIONS_SEED={start}")
    made = [prepared(world, tmp_path) for world in worlds()]
    examples = Examples(tmp_path, made, another_run(tmp_path), Written(monkeypatch))
    injected(examples, count, start)
    print(examples)
    assert not examples.faults, str(examples)
    assert examples.number >= count
