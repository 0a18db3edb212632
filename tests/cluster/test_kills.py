"""Runs on a real cluster whose client, scheduler and workers are killed at random moments of every stage.

Whatever is killed, the same command afterwards ends with the bits of an undisturbed run on the embedded cluster, and no
more than the blocks in flight are computed twice: :mod:`tally` writes each down, in whatever process it is.

    pytest -m long -s tests/cluster/test_kills.py                       20 kills, n = 5,000, a seed that is printed
    SCALEMANI_KILLS_SEED=7 pytest -m long -s tests/cluster/test_kills.py
"""

import os
import random
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from data import roll
from processes import HERE, Fleet, until

from scalemani import KernelIsomap, load
from scalemani.cluster.client import cores, tasks_in_flight
from scalemani.integrity import verify
from scalemani.steps import cuts

PACE = 0.03  # seconds before each block: stages last, and a kill falls within them
WRITTEN = ("graph_indptr", "graph_indices", "graph_weights", "order", "vertex_of_distinct", "vertex", "bridge_lengths")
GRAPH = ("made", *WRITTEN)  # what the stage does, in its order
SEED = "SCALEMANI_KILLS_SEED"
KINDS = {  # of blocks, in the tally
    "neighbors": ("search",),
    "graph": ("graph", "array"),
    "geodesics": ("rows",),
    "solve": ("read",),
    "projection": ("attach", "place"),
}
PROCESSES = ("client", "scheduler", "worker")


class Counted(Fleet):
    """Whose workers write their blocks down."""

    def party(self, name, command, **where):
        more = ["--preload", HERE / "tally.py"] if name.startswith("worker-") else []
        return super().party(name, [*command, *more], **where)


@dataclass
class Kill:
    """One that is planned: in `stage`, once `share` of its blocks have been begun; then what came of it."""

    stage: str
    process: str
    share: float
    at: int = 0  # lines of the tally by then
    restarts: str = ""
    again: dict = field(default_factory=dict)  # blocks that were begun a second time, by kind


def planned(chance, each):
    """As many kills a stage, of random processes at random moments.

    In the graph's stage the scheduler's comes last: the client learns of it at the end of the stage.
    """
    processes = [PROCESSES[i % 3] for i in range(each * len(KINDS))]
    chance.shuffle(processes)
    kills = []
    for stage in KINDS:
        mine = [processes.pop() for _ in range(each)]
        if stage == "graph":
            mine.sort(key=lambda process: process == "scheduler")
            mine[:-1] = ["client" if process == "scheduler" else process for process in mine[:-1]]
        shares = [(i + chance.random()) / each for i in range(each)]
        kills += [Kill(stage, process, share) for process, share in zip(mine, shares, strict=True)]
    return kills


class Run:
    """One fit and one projection under fire.

    Parameters
    ----------
    fleet : Counted
    chance : random.Random
    counts : dict
        Blocks of each stage.
    """

    def __init__(self, fleet, chance, name, size, counts):
        self.fleet, self.chance, self.size, self.counts = fleet, chance, size, counts
        self.store, self.out = fleet.folder / f"{name}.zarr", fleet.folder / f"{name}.npy"
        self.log = Path(fleet.environment["SCALEMANI_TALLY"])
        self.begun = self.last = len(self.lines())
        self.client = None

    def lines(self):
        return [tuple(line.split()) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def start(self, stage):
        """Give the command of a stage, again where it has been given."""
        fit = ("fit", self.fleet.folder / "x.npy", self.store, "-k", "8", "--knn", "exact", "--method", "kernel-isomap")
        project = ("project", self.store, self.fleet.folder / "t.npy", self.out)
        settings = {
            "tally.ON": True,
            "scalemani.steps.cuts.LARGEST_TILE": self.size.tile,
            "scalemani.neighbors.exact._TABLE_ROWS": self.size.search,
            "scalemani.neighbors.lists.PIECE_SECONDS": 0.0,
            "scalemani.neighbors.lists.BYTES_A_SECOND": 1e300,
        }
        words = project if stage == "projection" else fit
        self.client = self.fleet.client(*words, "--quiet", settings=settings)
        self.last = len(self.lines())

    def ended(self):
        """Until the client has ended well."""
        assert self.client.wait(120) == 0, self.client.errors.read_text()
        said = self.client.errors.read_text().splitlines()
        assert not [line for line in said if not line.startswith("warning: the additive constant")]

    def is_in(self, kill):
        """Whether the moment of a kill has come, as seen from outside."""
        lines = self.lines()
        new = {key for kind, key in lines[self.last :] if kind in KINDS[kill.stage]}
        if kill.stage == "graph":
            come = GRAPH[int(kill.share * len(GRAPH))] in new
        else:
            seen = {line for line in lines[self.begun :] if line[0] in KINDS[kill.stage]}
            come = new and len(seen) > 0.85 * kill.share * self.counts[kill.stage]
        assert come or self.client.alive, f"{kill}: {self.client.errors.read_text()}"
        return come

    def strike(self, kill):
        """Kill a process in the middle of a stage, and start again what has ended."""
        until(lambda: self.is_in(kill), what=f"the moment of {kill}")
        time.sleep(self.chance.uniform(0, 1.5 * PACE))  # within a block, or between two
        assert self.client.alive, f"{kill} comes too late"
        kill.at = len(self.lines())
        if kill.process == "worker":
            there = [worker for worker in self.fleet.workers if worker.alive and worker.said("Registered to:")]
            struck = self.chance.choice(there or self.fleet.workers)
            struck.restart()  # and the run goes on meanwhile
            kill.restarts = struck.name
            return
        if kill.process == "client":
            self.client.kill()
        else:
            self.fleet.scheduler.kill()
            assert self.client.wait(60) == 1
            (line,) = self.client.errors.read_text().splitlines()
            assert "is gone" in line and "give the same command again" in line
            self.fleet.restart_scheduler()
        until(lambda: any(worker.said("Registered to:") for worker in self.fleet.workers), what="a worker's start")
        self.start(kill.stage)
        kill.restarts = f"{'all and ' * (kill.process == 'scheduler')}the client"

    def through(self, kills):
        """The fit and the projection, with kills in the order of the stages."""
        self.start("neighbors")
        for kill in [kill for kill in kills if kill.stage != "projection"]:
            self.strike(kill)
        self.ended()
        if any(kill.stage == "projection" for kill in kills):
            self.start("projection")
            for kill in [kill for kill in kills if kill.stage == "projection"]:
                self.strike(kill)
            self.ended()

    def charge(self, kills):
        """Charge each block that was begun a second time to the last kill before that; gives all that were begun."""
        lines, seen = self.lines(), set()
        for number, line in enumerate(lines[self.begun :], self.begun):
            if line in seen and line[0] != "array":
                before = [kill for kill in kills if kill.at <= number]
                assert before, f"{line} is computed twice and nothing was killed"
                before[-1].again[line[0]] = before[-1].again.get(line[0], 0) + 1
            seen.add(line)
        return seen


@dataclass(frozen=True)
class Size:
    """How large a run is: points, test points, rows of a tile and of a block of the search."""

    n: int
    test: int
    tile: int
    search: int

    def points(self, seed=0):
        """A roll in so many dimensions that no tree is made for it."""
        turned = np.linalg.qr(np.random.default_rng(9).standard_normal((12, 3)))[0]
        return roll(self.n if seed == 0 else self.test, seed) @ turned.T


def undisturbed(size, test, monkeypatch):
    """A model of the same points, on the embedded cluster, and where it places test points."""
    monkeypatch.setattr(cuts, "LARGEST_TILE", size.tile)
    model = KernelIsomap(n_neighbors=8, knn="exact").fit(size.points())
    return model, model.transform(test)


def stages_blocks(size, model):
    """Blocks of each stage that is cut into such."""
    part = min(256, -(-size.test // 8))  # see projection_blocks
    reads = 2 * model.n_passes_  # in two runs of tiles each; the first is made while D is written and is none
    parts = -(-size.test // part)
    rows, blocks = -(-size.n // size.tile), -(-size.n // size.search)
    return {"neighbors": blocks, "geodesics": rows, "solve": reads, "projection": 2 * parts}


def check(run, kills, model, test, placed, threads):
    """The bits of an undisturbed run, a whole store, nothing left behind, and no more computed twice than was lost."""
    begun = run.charge(kills)
    there = load(run.store)
    np.testing.assert_array_equal(there.embedding_, model.embedding_)
    np.testing.assert_array_equal(there.eigenvalues_, model.eigenvalues_)
    assert there.additive_constant_ == model.additive_constant_
    found = np.load(run.out) if run.out.exists() else there.transform(test)  # here, where none was killed there
    np.testing.assert_array_equal(found, placed)
    assert verify(str(run.store)).faults == ()
    assert not list(run.fleet.folder.glob(".*")), "results of the projection, or somebody who writes"
    counted = {stage: sum(kind in KINDS[stage] for kind, _ in begun) for stage in run.counts}
    counted = {stage: count for stage, count in counted.items() if count}
    wanted = {stage: count for stage, count in run.counts.items() if stage != "projection" or run.out.exists()}
    assert counted == wanted, "each block of the undisturbed run, and no others"
    for kill in kills:
        here = kill.again.get("search", 0)
        assert here <= 2 * cores(), kill
        assert sum(kill.again.values()) - here <= tasks_in_flight(threads), kill


def fire(folder, size, seed, rounds, each, monkeypatch, choose=lambda kills: kills, workers=2):
    """Rounds of kills, with a table of them."""
    chance = random.Random(seed)
    test = size.points(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, placed = undisturbed(size, test, monkeypatch)
    log = folder / "tally.log"
    with Counted(folder, workers, threads=2 // workers, SCALEMANI_TALLY=str(log), SCALEMANI_PACE=str(PACE)) as fleet:
        np.save(folder / "x.npy", size.points())
        np.save(folder / "t.npy", test)
        for number in range(rounds):
            kills = choose(planned(chance, each))
            run = Run(fleet, chance, f"r{number}", size, stages_blocks(size, model))
            begun = time.monotonic()
            run.through(kills)
            check(run, kills, model, test, placed, threads=2)
            most = f"{tasks_in_flight(2)} tasks and {2 * cores()} blocks of a search in flight at most"
            print(f"round {number + 1}, {time.monotonic() - begun:.0f} s; {most}")
            for at, kill in enumerate(kills, 1):
                twice = ", ".join(f"{count} {kind}" for kind, count in kill.again.items() if count) or "none"
                print(f"{at:3}  {kill.stage:10} {kill.process:9} again: {kill.restarts:24} twice: {twice}")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_one_kill_of_each_kind_of_process_in_different_stages(tmp_path, monkeypatch):
    """On one worker with two threads, so that all of them die; a start of each party takes seconds."""

    def choose(kills):
        chance = random.Random(seed)
        stages = sorted(chance.sample(range(5), 3))
        processes = chance.sample(PROCESSES, 3)
        chosen = [kills[stage] for stage in stages]
        for kill, process in zip(chosen, processes, strict=True):
            kill.process = process
        return chosen

    seed = int(os.environ.get(SEED, "1"))
    fire(tmp_path, Size(600, 400, 64, 32), seed, 1, 1, monkeypatch, choose, workers=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_kills(tmp_path, monkeypatch):
    seed = int(os.environ.get(SEED, random.SystemRandom().randrange(1 << 32)))
    print(f"\n{SEED}={seed}")
    fire(tmp_path, Size(5000, 3000, 256, 128), seed, 2, 2, monkeypatch)
