"""A method of its own, as a user would write one: each axis is the distance along the graph to one point.

Axis a is the distance to row `start` + a. It shows that a method is a step, an estimator and a few words: all of
fit, resume, plan, verify, repair, info, report, export, load, transform and the command line work on it.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from scalemani.errors import ScalemaniError
from scalemani.estimators import Embedder
from scalemani.geodesics import geodesic_rows
from scalemani.geodesics.rows import shared_graph
from scalemani.methods import register
from scalemani.methods.base import Method
from scalemani.methods.words import Section, Table, Words
from scalemani.parameters import Arguments, Parameters, parameter
from scalemani.projection.projector import Projector
from scalemani.steps.base import Needs, Step
from scalemani.steps.graph import GraphStep, NeighborsStep, trained
from scalemani.steps.records import GraphRecord
from scalemani.storage.arrays import Expected
from scalemani.storage.audit import Fault
from scalemani.storage.records import Record, StepRecord

AXES = "toy_axes"
Whole = Annotated[int, Meta(ge=0)]


class ToyFields(Record, frozen=True, kw_only=True):
    """What the axes follow from."""

    start: Whole
    n_components: Annotated[int, Meta(ge=1)]


class ToyRecord(StepRecord, frozen=True, kw_only=True):
    """The axes, and how far the farthest point is, in the user's unit."""

    STEP: ClassVar[str] = "toy"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[dict[str, Expected]] = {AXES: Expected("float64", "vertices axes", 0)}
    fields: ToyFields
    reach: float

    @property
    def sizes(self):
        """Axes."""
        return {"axes": self.fields.n_components}


class DistancesToRows(Step):
    """Distances of all points to some of them."""

    record, title = ToyRecord, "distances to a few rows"
    late = True
    arrays = {AXES: "axes"}
    mends = {"axes": "finds them again"}

    def fields(self, parameters, kind):
        """First row and axes."""
        return ToyFields(start=int(parameters.start), n_components=int(parameters.n_components))

    def check_before(self, points, parameters):
        """There are such rows."""
        last = parameters.start + parameters.n_components - 1
        if last >= points.n_rows:
            raise ScalemaniError(
                f"start={parameters.start}: X has rows up to {points.n_rows - 1}, and the last axis is of row {last}; "
                "give a smaller one"
            )

    def run(self, work):
        """From the graph, a row of D for each axis."""
        store = work.store
        if self.done(work):
            return
        store.forget("fit", self.name)
        work.report(self.name, 0, 1)
        axes = self._found(work)
        store.write_array(AXES, axes)
        store.finish(ToyRecord(fields=self.fields(work.parameters, ""), reach=float(axes.max())))
        work.report(self.name, 1, 1)

    def _found(self, work):
        store, first = work.store, work.parameters.start
        vertices = store.read_array("vertex")[first : first + work.parameters.n_components]
        if (vertices < 0).any():
            raise ScalemaniError(f"start={first}: an axis is of a row outside the graph; give another")
        if work.given:
            order = store.read_array("order")
            return np.stack([work.points.checked.part(order[v : v + 1], order)[0] for v in vertices], axis=1)
        rows = geodesic_rows(shared_graph(store.path, store.identity), vertices)
        return rows.T.astype(np.float64) * store.needed(GraphRecord).scale

    def left(self, store):
        """The axes."""
        return {AXES} if store.record(ToyRecord) is not None else set()

    def check(self, work, broken):
        """They are found again."""
        if work.store.record(ToyRecord) is None or AXES in broken or work.given:
            return
        if (self._found(work) != work.store.read_array(AXES)).any():
            yield Fault("array", AXES, "other distances than those along the graph")

    def remake(self, work, faults, *, waiting):
        """From the graph as it is."""
        if waiting or work.given:
            return []
        work.store.write_array(AXES, self._found(work))
        work.store.finish()
        return ["the distances to a few rows were found again"]

    def account(self, store):
        """Rows and reach."""
        state = store.needed(ToyRecord)
        return {"start": state.fields.start, "reach": state.reach}

    def coordinates(self, store):
        """The axes themselves."""
        return store.read_array(AXES)

    def needs(self, size, cut):
        """The graph, and a row an axis."""
        p = size.parameters.n_components
        return Needs(
            client={"graph": 12 * size.edges + 8 * size.n, "rows": 4 * p * size.n, "outputs": 16 * p * size.n},
            disk=8 * size.n * p,
            lines=[("rows of D", f"{p}, from row {size.parameters.start} on")],
            numbers={"rows": p},
        )

    def seconds(self, size, cut, rates):
        """A search of the graph for each axis."""
        return 0.0 if size.given else size.parameters.n_components * rates.row


class ToyPlacer:
    """Places rows by the points that they touch."""

    def __init__(self, store):
        self.axes, self.scale = store.read_array(AXES), store.needed(GraphRecord).scale
        self.width = self.axes.shape[1]
        fields = store.needed(ToyRecord).fields
        self._vertices = store.read_array("vertex")[fields.start : fields.start + self.width]

    def order(self, found):
        """As they come."""
        return np.arange(len(found.own))

    def place(self, found):
        """The least over what a row touches."""
        out = np.full((len(found.own), self.width), np.inf)
        row_of = np.repeat(np.arange(len(out)), np.diff(found.indptr))
        np.minimum.at(out, row_of, self.axes[found.vertices] + found.lengths[:, None])
        return np.where(np.isfinite(out), out, np.nan)

    def place_known(self, distances):
        """Rows of D have them."""
        return distances[:, self._vertices] * self.scale


def projector(store, form):
    """What places new points, in any process."""
    return Projector(store, trained(store), ToyPlacer(store))


class ToyWords(Words):
    """What is said of it."""

    def form(self, s):
        """With the row."""
        return f"Distances from row {s['start']}"

    def rows(self, s):
        """Row and reach."""
        return [("first row", f"{s['start']}"), ("reach", f"at most {s['reach']:.4g}")]

    def bounds(self, s):
        """Sums in float32 are not exact."""
        return {"reach": ["at most"]}

    def sections(self, s):
        """A table."""
        table = Table(["what", "value"], [["the farthest point", f"{s['reach']:.4g}"]])
        yield Section("Distances from a row", ["Each axis is a row of D."], [table])

    def marks(self, store):
        """The rows that the axes are of."""
        fields = store.needed(ToyRecord).fields
        return "starts", np.arange(fields.start, fields.start + fields.n_components)


def _whole(name, value):
    if type(value) is not int or value < 0:
        raise ScalemaniError(f"{name}={value!r}: a row number, 0 or more, is needed")


@dataclass(eq=False, repr=False)
class ToyArguments(Arguments):
    """One parameter more."""

    start: int = parameter(0, check=_whole)


@dataclass
class ToyParameters(ToyArguments, Parameters):
    """What a fit of it works with."""


class ToyMethod(Method):
    """The graph, and rows of D."""

    projector = "toy:projector"
    words = ToyWords()
    parameters = ToyParameters

    def steps(self, parameters):
        """Three."""
        return NeighborsStep(), GraphStep(), DistancesToRows()


@dataclass(eq=False, repr=False)
class Toy(Embedder, ToyArguments):
    """Distances along a graph to a few rows."""

    method = "toy:ToyMethod"
    correction: None = field(default=None, init=False)
    constant_solver: str = field(default="ritz", init=False)

    def reach(self):
        """How far the farthest point is: what this method alone answers."""
        return self.spectrum_["reach"]


register("toy", Toy, ("start",))
