"""Stores to damage, finished and half-finished, with what each pass over them gives undisturbed.

A pass is anything that a user does with a store. Its outcome is one of the package's own errors, or bits: every number
that it gave, by name. What a damaged store gives is held against what the undisturbed one gave.
"""

import dataclasses
import shutil
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from corruption import DOCUMENTS, tree
from scipy.spatial.distance import cdist
from stored_models import T, X, fitted

from scalemani import KernelIsomap, load
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.kernel import eigensolver
from scalemani.neighbors import exact as tree_search
from scalemani.neighbors import lists
from scalemani.report import sections
from scalemani.steps import inputs
from scalemani.storage.run import RunStore

SECONDS = 120  # after which an example hangs; the slowest takes five
GRAPH = cdist(X, X)
TO_GRAPH = cdist(T, X)
PIECE = 20  # rows of a kept piece of the neighbour search


class Hang(BaseException):
    """Not an Exception, so that nothing takes it for an error of a file."""


@contextmanager
def in_time():
    def stop(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def bits(value, name=""):
    """Every number and word of a nested value, by its place; arrays as bytes."""
    if isinstance(value, np.ndarray):
        return {name: (value.dtype.str, value.shape, value.tobytes())}
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict | list | tuple):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {place: found for key, part in parts for place, found in bits(part, f"{name}.{key}").items()}
    return {name: repr(value)}


def outcome(work, *given):
    """What a pass gives: ("error", its text), ("bits", them), or ("leak", what another package raised)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "bits", bits(work(*given))
        except (DamagedStoreError, ScalemaniError) as error:
            said = str(error)
            return ("error", said) if said and "\n" not in said else ("leak", f"not one line: {said!r}")
        except Exception as error:
            return "leak", f"{type(error).__name__}: {error}"


class World:
    """A store in some state, and how to go on with it.

    Parameters
    ----------
    name : str
    arguments : dict
        Of the estimator.
    points, test : ndarray
    stop : (stage, done), optional
        Where the fit was stopped.
    """

    def __init__(self, name, arguments=(), points=X, test=T, stop=None):
        self.name, self.arguments, self.points, self.test, self.stop = name, dict(arguments), points, test, stop
        self.base, self.undisturbed, self.whole = None, {}, {}

    def fit(self, path, **more):
        """The same fit, resumed; small problems go through the iteration where reads are to be kept."""
        with pytest.MonkeyPatch.context() as patch:
            if self.stop and self.stop[0] == "solve":
                patch.setattr(eigensolver, "FULL_BASIS", 1)
            if self.stop and self.stop[0] == "neighbors":
                patch.setattr(lists, "PIECE_SECONDS", 0.0)
                patch.setattr(lists, "BYTES_A_SECOND", np.inf)
                patch.setattr(tree_search.TreeSearch, "batch", PIECE)
                patch.setattr(inputs, "cores", lambda: 1)
            arguments = {"n_neighbors": 8, **self.arguments, **more}
            return KernelIsomap(store=path, **arguments).fit(self.points)

    def make(self, folder):
        """The store that is damaged, and what every pass gives of a copy of it."""
        self.base, at = folder / self.name / "base", folder / self.name
        if self.stop is None:
            self.fit(self.base)
        else:
            stage, after = self.stop

            def report(now, done, total):
                if now == stage and done >= after:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                self.fit(self.base, progress=report)
        for name in ("use", "again", "other"):
            shutil.copytree(self.base, at / name)
        self.undisturbed = self.passes(at / "use", at / "again", at / "other")
        self.whole = comparable(at / "again")
        self.used = outcome(self.use, at / "again")
        assert self.used[0] == "bits", self.used
        return self

    def use(self, path):
        """What the model in a store says."""
        model = load(path)
        return {
            "embedding": model.embedding_,
            "eigenvalues": model.eigenvalues_,
            "constant": model.additive_constant_,
            "residuals": model.residuals_,
            "transform": model.transform(self.test),
        }

    def rows(self, path):
        """Rows of D."""
        kept = self.arguments.get("keep_distances", True) or self.arguments.get("metric") != "geodesic"
        return load(path).geodesics([0, 77, 199]) if kept else None

    def report(self, path):
        """All that a report's page is drawn from."""
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sections, "sections", lambda findings: seen.append(findings) or [])
            sections.run_page(load(path)._run, rows=4, name="run")
        return seen[0]

    def exported(self, path):
        """The files of the exported model, and what it says."""
        target = Path(f"{path}.exported")
        load(path).export(target)
        found = {**comparable(target), "used": self.use(target)}
        shutil.rmtree(target)
        return found

    def again(self, path):
        """The same fit, and what its model says; how many reads it took is no number of the model's."""
        model = self.fit(path)
        return {**self.use(path), "rows": self.rows(path), "spectrum": {**model.spectrum_, "n_passes": 0}}

    def other(self, path):
        """A fit with another correction, which reads D."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(eigensolver, "FULL_BASIS", 1)
            model = self.fit(path, correction="lingoes", n_components=3)
        return {"embedding": model.embedding_, "eigenvalues": model.eigenvalues_}

    def passes(self, use, again, other):
        """The outcome of each, of three copies of a store: fits change theirs."""
        found = {name: outcome(getattr(self, name), use) for name in ("use", "rows", "report", "exported")}
        return {**found, "again": outcome(self.again, again), "other": outcome(self.other, other)}


def comparable(store):
    """The files of a store, and what its document says but for what no two fits share."""
    files = {name: content for name, content in tree(store).items() if name not in DOCUMENTS}
    stages = msgspec.to_builtins(RunStore(store).document.stages)
    if "solve" in stages:
        stages["solve"] = {key: value for key, value in stages["solve"].items() if key != "revision"}
        stages["solve"]["spectrum"] = {**stages["solve"]["spectrum"], "n_passes": 0}
    return {**files, "stages": stages}


def worlds():
    """All kinds; each is made when it is needed."""
    geodesic = np.abs(np.subtract.outer(np.linspace(0, 3, 200) ** 2, np.linspace(0, 3, 200) ** 2)) ** 0.9
    return [
        World("points"),
        World("precomputed", {"metric": "precomputed"}, GRAPH, TO_GRAPH),
        World("given", {"metric": "geodesic"}, geodesic, geodesic[:5]),
        World("compressed", {"compression": "lz4"}),
        World("dropped", {"keep_distances": False}),
        World("geodesics", stop=("geodesics", 3)),
        World("solve", stop=("solve", 2)),
        World("neighbors", stop=("neighbors", 3 * PIECE)),
    ]


def another_run(folder):
    """A store of the same shapes, of other points."""
    path = folder / "another"
    fitted(path, n_components=2, metric="manhattan")
    return path
