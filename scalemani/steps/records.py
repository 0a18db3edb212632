"""What each step of a fit records in its run: a typed record a step, with the fields that its result follows from.

A step is done again where its fields are others than those that are asked for. Its arrays are in the store beside the
record. :mod:`scalemani.storage.records` says how they are read and written.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from scalemani.storage.records import (
    Count,
    Crc32c,
    Hex,
    Natural,
    NotNegative,
    Plain,
    Positive,
    Record,
    Rows,
    Share,
    Sized,
    StepRecord,
)

Correction = Plain | float | None
Seed = Annotated[int, Meta(ge=0)]
Metric = Annotated[str, Meta(max_length=1000)]
Numbers = Annotated[list[Sized], Meta(min_length=1)]
BY_AXIS = (
    *("eigenvalues", "eigenvalues_unshifted", "share", "share_unshifted", "residuals"),
    *("share_of_squares", "relative_eig", "rel_corr_eig", "broken_stick"),
)


class DataFields(Record, frozen=True, kw_only=True):
    """X, by its sizes and a digest."""

    kind: Annotated[str, Meta(pattern=r"^(features|distances|graph|geodesic)\Z")]
    n_rows: Rows
    n_features: Rows
    fingerprint: Annotated[str, Meta(pattern=r"^[0-9a-f]{8,128}\Z")]


class DataRecord(StepRecord, frozen=True, kw_only=True):
    """The points."""

    STEP: ClassVar[str] = "data"
    fields: DataFields
    seed: Seed
    n_distinct: Rows

    @property
    def given(self) -> bool:
        """Whether D was given."""
        return self.fields.kind == "geodesic"

    def __post_init__(self) -> None:
        rows, features, points = self.fields.n_rows, self.fields.n_features, self.n_distinct
        if points > rows or (self.fields.kind != "features" and not rows == features == points):
            raise ValueError(f"{rows} rows of {features} features make no {points} points")


class NeighborsFields(Record, frozen=True, kw_only=True):
    """The neighbourhoods that are asked for."""

    n_neighbors: Annotated[int, Meta(ge=1)] | None
    radius: Positive | None
    metric: Metric
    metric_params: dict[str, Any] | None
    knn: Plain | None
    random_state: Seed | None

    @property
    def params(self) -> dict[str, Any] | None:
        """The metric's parameters, as :func:`as_json` had them."""
        return as_given(self.metric_params)  # type: ignore[no-any-return]


class SearchRecord(Record, frozen=True, kw_only=True):
    """What a search did (:class:`scalemani.neighbors.lists.Account`)."""

    n_distances: Seed
    counted: bool
    n_shards: Count
    n_parts: Count
    n_skipped: Natural
    skipped_shards: list[list[Natural]] | None


class NeighborsRecord(StepRecord, frozen=True, kw_only=True):
    """The search for neighbours."""

    STEP: ClassVar[str] = "neighbors"
    NEEDS: ClassVar[tuple[str, ...]] = ("data",)
    fields: NeighborsFields
    listed: bool  # whether lists were made; not of a graph or of geodesic distances
    method: Plain
    recall: Share
    left_out: Natural
    account: SearchRecord | None

    def contradiction(self, steps: Mapping[str, Any]) -> str | None:
        if self.fields.n_neighbors is None and self.fields.radius is None and not steps["data"].given:
            return "neighbours by no number and no radius"
        return None


class GraphFields(Record, frozen=True, kw_only=True):
    """How edges are made of neighbours, and what is done about components."""

    graph: Plain
    disconnected: Plain


class GraphRecord(StepRecord, frozen=True, kw_only=True):
    """The graph."""

    STEP: ClassVar[str] = "graph"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors")
    fields: GraphFields
    scale: Positive  # of the user's unit is the tiles'
    n_vertices: Count
    n_edges: Annotated[int, Meta(ge=0, le=2**50)]
    n_components: Count
    component_sizes: Annotated[list[Count], Meta(min_length=1, max_length=1000)]
    n_bridges: Annotated[int, Meta(ge=0, le=2**31)]

    def contradiction(self, steps: Mapping[str, Any]) -> str | None:
        points = steps["data"].n_distinct
        return f"a graph of {self.n_vertices} vertices for {points} points" if self.n_vertices > points else None


class LandmarksFields(Record, frozen=True, kw_only=True):
    """Which landmarks are asked for: their number, or a digest of the rows that were given; None for none."""

    landmarks: int | Plain | None
    landmark_method: Plain | None = None
    random_state: Seed | None = None


class LandmarksRecord(StepRecord, frozen=True, kw_only=True):
    """The landmarks, and how distances to them are cut."""

    STEP: ClassVar[str] = "landmarks"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    fields: LandmarksFields
    n_landmarks: Count
    landmarks_a_task: Count
    points_a_chunk: Count
    reach: NotNegative | None  # of any point from its landmark, at most, in the tiles' unit; None if nobody knows


class StartFields(Record, frozen=True, kw_only=True):
    """What the solver's first block follows from besides the graph."""

    n_components: Count
    correction: Correction
    random_state: Seed


class StartRecord(StepRecord, frozen=True, kw_only=True):
    """The solver's first block."""

    STEP: ClassVar[str] = "start"
    fields: StartFields
    most_columns: Count  # of the solver's basis


class DistancesRecord(StepRecord, frozen=True, kw_only=True):
    """All distances."""

    STEP: ClassVar[str] = "geodesics"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    tile_size: Count  # vertices of a block
    median: NotNegative  # in the tiles' unit


class SolveFields(Record, frozen=True, kw_only=True):
    """What constant and axes follow from; `projection` only with landmarks, where it places all other points."""

    n_components: Count
    correction: Correction
    constant_solver: Plain
    tol: Positive
    random_state: Seed
    projection: Plain | None = None


class SpectrumRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The account of the spectrum (:func:`scalemani.embedding.spectrum.spectrum_account`), in the user's unit."""

    correction: Correction
    additive_constant: Sized
    lingoes_constant: Sized
    median_distance: Sized
    max_distance: Sized
    constant_over_median: Sized
    shift: Sized
    trace: Sized
    trace_unshifted: Sized
    eigenvalues: Numbers
    eigenvalues_unshifted: Numbers
    next_eigenvalue: Sized | None
    gap: Sized | None
    lowest_ritz_value: Sized
    most_negative_eigenvalue: Sized
    negative_mass: Sized
    complete: bool
    share: Numbers
    share_unshifted: Numbers
    share_of_squares: Numbers
    gof: Annotated[list[Sized], Meta(min_length=2, max_length=2)]
    relative_eig: Annotated[list[Sized | None], Meta(min_length=1)]
    rel_corr_eig: Numbers
    broken_stick: Numbers
    reconstruction_error: Sized
    residuals: Numbers
    converged: bool
    n_passes: Annotated[int, Meta(ge=0)]
    n_vertices: Count
    warnings: Annotated[list[Annotated[str, Meta(max_length=2000)]], Meta(max_length=100)]
    self_check: dict[str, float | None]
    n_landmarks: Count | None = None


class SolveRecord(StepRecord, frozen=True, kw_only=True):
    """The model: its numbers are those of :class:`scalemani.embedding.coordinates.Embedding`."""

    STEP: ClassVar[str] = "solve"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    fields: SolveFields
    constant: Sized
    nugget: Sized
    tolerance: Share
    spectrum: SpectrumRecord
    revision: Hex  # another one for every solve

    def __post_init__(self) -> None:
        axes = self.fields.n_components
        for name in BY_AXIS:
            count = len(getattr(self.spectrum, name))
            if count != axes:
                raise ValueError(f"{name} has {count} numbers for {axes} axes")


class FitFields(NeighborsFields, frozen=True, kw_only=True):
    """Everything that a fit was asked for and that `load` gives back."""

    graph: Plain
    disconnected: Plain
    n_components: Count
    correction: Correction
    constant_solver: Plain
    tol: Positive
    random_state: Seed
    projection: Plain
    keep_distances: bool
    landmarks: int | list[int] | None
    landmark_method: Plain


class FitRecord(StepRecord, frozen=True, kw_only=True):
    """The end of a fit, and the class that `load` gives."""

    STEP: ClassVar[str] = "fit"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph", "solve")
    fields: FitFields
    estimator: Annotated[str, Meta(pattern=r"^(KernelIsomap|Isomap)\Z")]

    def contradiction(self, steps: Mapping[str, Any]) -> str | None:
        asked, found = self.fields.n_components, steps["solve"].fields.n_components
        return f"{asked} axes were asked for, and {found} found" if asked != found else None


class NamesRecord(StepRecord, frozen=True, kw_only=True):
    """Names of the features."""

    STEP: ClassVar[str] = "names"
    features: list[Annotated[str, Meta(max_length=100_000)]] | None


class RedoRecord(StepRecord, frozen=True, kw_only=True):
    """The mark that a repair leaves where the graph has to be made again, which takes the points."""

    STEP: ClassVar[str] = "redo"
    arrays: dict[str, Crc32c]  # that D was made from


class StepFields(Record, frozen=True, kw_only=True):
    """What the steps' results follow from, as a fit asks for it."""

    neighbors: NeighborsFields
    graph: GraphFields
    landmarks: LandmarksFields
    solve: SolveFields


def as_json(value: Any) -> Any:
    """A float that JSON has no number for, such as Minkowski's infinite p, as an object.

    >>> as_json(float("inf")), as_given(as_json(float("-inf")))
    ({'float': 'inf'}, -inf)
    """
    return value if not isinstance(value, float) or math.isfinite(value) else {"float": str(float(value))}


def as_given(value: Any) -> Any:
    """A JSON value with the floats that :func:`as_json` made objects of."""
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in ("inf", "-inf", "nan"):
            return float(value["float"])
        return {key: as_given(item) for key, item in value.items()}
    return [as_given(item) for item in value] if isinstance(value, list) else value
