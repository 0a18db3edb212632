"""What each step of a fit records in its run: a typed record a step, with the fields that its result follows from.

A step is done again where its fields are others than those that are asked for. Its arrays are in the store beside the
record. :mod:`scalemani.storage.records` says how they are read and written.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, get_type_hints

import msgspec
from msgspec import Meta

from scalemani.neighbors.metrics import is_function_name
from scalemani.parameters import Parameters, as_given
from scalemani.storage.arrays import REAL, TINY, Expected
from scalemani.storage.records import (
    Count,
    Crc32c,
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
BINS = "2042"  # of counted distances; not imported, since their kernel would come along
Seed = Annotated[int, Meta(ge=0)]
Metric = Annotated[str, Meta(max_length=1000)]
Numbers = Annotated[list[Sized], Meta(min_length=1)]
BY_AXIS = (
    *("eigenvalues", "eigenvalues_unshifted", "share", "share_unshifted", "residuals"),
    *("share_of_squares", "relative_eig", "rel_corr_eig", "broken_stick"),
)


class DataFields(Record, frozen=True, kw_only=True):
    """X, by its sizes and a digest."""

    kind: Annotated[str, Meta(pattern=r"^(features|distances|kernel|graph|geodesic)\Z")]
    n_rows: Rows
    n_features: Rows
    fingerprint: Annotated[str, Meta(pattern=r"^[0-9a-f]{8,128}\Z")]


class DataRecord(StepRecord, frozen=True, kw_only=True):
    """The points."""

    STEP: ClassVar[str] = "data"
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "digests": Expected("uint64", "points 2"),
        "points": Expected(REAL, "points features"),
        "points_data": Expected(REAL, "*"),
        "points_indices": Expected("int32 int64", "*", 0, "features"),
        "points_indptr": Expected("int32 int64", "points+1", 0, ascending=True),
        "points_shape": Expected("int64", "2", 1),
        "tie_rank": Expected("int64", "points", 0, "points"),
    }
    fields: DataFields
    seed: Seed
    n_distinct: Rows

    @property
    def given(self) -> bool:
        """Whether D was given."""
        return self.fields.kind == "geodesic"

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {"rows": self.fields.n_rows, "features": self.fields.n_features, "points": self.n_distinct}

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


class SearchRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a search did (:class:`scalemani.neighbors.lists.SearchStats`)."""

    n_distances: Natural | None = None
    n_shards: Count
    n_clusters: Count

    def as_dict(self) -> dict[str, Any]:
        """What is known."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]


class NeighborsRecord(StepRecord, frozen=True, kw_only=True):
    """The search for neighbours.

    listed: Whether lists were made; not of a graph or of geodesic distances.
    """

    STEP: ClassVar[str] = "neighbors"
    NEEDS: ClassVar[tuple[str, ...]] = ("data",)
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "neighbors_indptr": Expected("int64", "points+1", 0, ascending=True),
        "neighbors_indices": Expected("int64", "*", 0, "points"),
        "neighbors_distances": Expected("float64", "*", 0),
    }
    fields: NeighborsFields
    listed: bool
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
    edge_weights: Plain


class GraphRecord(StepRecord, frozen=True, kw_only=True, omit_defaults=True):
    """The graph.

    scale: The user's unit in that of the tiles, a power of two.
    n_classes: Within which alone there are edges; None of a connected graph.
    """

    STEP: ClassVar[str] = "graph"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "graph_indptr": Expected("int64", "vertices+1", 0, ascending=True),
        "graph_indices": Expected("int32", "entries", 0, "vertices"),
        "graph_weights": Expected("float32", "entries", 0),
        "order": Expected("int64", "vertices", 0, "points", once=True),
        "vertex_of_distinct": Expected("int64", "points", -1, "vertices", once=True),
        "vertex": Expected("int64", "rows", -1, "vertices"),
        "bridges": Expected("int64", "bridges 2", 0, "points"),
        "bridge_lengths": Expected("float64", "bridges", 0),
        "neighbor_means": Expected("float64", "vertices", TINY),
        "class_starts": Expected("int64", "classes+1", 0, "vertices+1", ascending="strictly"),
    }
    fields: GraphFields
    scale: Positive
    n_vertices: Count
    n_edges: Annotated[int, Meta(ge=0, le=2**50)]
    n_components: Count
    component_sizes: Annotated[list[Count], Meta(min_length=1, max_length=1000)]
    n_bridges: Annotated[int, Meta(ge=0, le=2**31)]
    n_classes: Count | None = None

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {
            "vertices": self.n_vertices,
            "pairs": self.n_vertices * (self.n_vertices - 1) // 2,
            "entries": 2 * self.n_edges,
            "bridges": self.n_bridges,
            "classes": self.n_classes,
        }

    def contradiction(self, steps: Mapping[str, Any]) -> str | None:
        points = steps["data"].n_distinct
        return f"a graph of {self.n_vertices} vertices for {points} points" if self.n_vertices > points else None


class ShortcutsFields(Record, frozen=True, kw_only=True):
    """What is done about edges that leap, as far as distances depend on it: "remove", or "warn" also for "keep"."""

    shortcuts: Plain
    random_state: Seed | None = None


class ShortcutsRecord(StepRecord, frozen=True, kw_only=True):
    """Edges that leap from one part of the data to another.

    seed: Of the sample.
    looked: Whether they were looked for.
    harm: Share of the distances from some points that are longer by a fifth or more without them.
    negative_mass: Moduli of negative eigenvalues over the trace, of the distances between some points: with those
        edges, and without; None if they were not looked for.
    """

    STEP: ClassVar[str] = "shortcuts"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "shortcuts": Expected("int64", "shortcuts 2", 0, "vertices"),
        "graph_without": Expected("int64", "shortcuts 2", 0, "vertices"),
        "shortcut_lengths": Expected("float64", "shortcuts", 0),
        "shortcut_flows": Expected("float64", "shortcuts", 0),
    }
    fields: ShortcutsFields
    seed: Seed
    looked: bool
    n_shortcuts: Annotated[int, Meta(ge=0, le=2**31)] = 0
    harm: Share = 0.0
    negative_mass: tuple[NotNegative, NotNegative] | None = None

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {"shortcuts": self.n_shortcuts}


class SourcesFields(Record, frozen=True, kw_only=True):
    """Which landmarks are asked for: their number, or a digest of the rows that were given; None for none."""

    landmarks: int | Plain | None
    landmark_method: Plain | None = None
    random_state: Seed | None = None


class SourcesRecord(StepRecord, frozen=True, kw_only=True):
    """Which vertices D has rows of: all, or some landmarks, and how the distances to these are cut.

    n_landmarks: None where all vertices are sources, and so are the two sizes behind it.
    reach: The largest distance of a point from its nearest landmark, in the unit of the tiles; None if nobody knows.
    """

    STEP: ClassVar[str] = "sources"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "landmarks": Expected("int64", "sources", 0, "vertices", ascending="strictly"),
    }
    fields: SourcesFields
    n_landmarks: Count | None = None
    landmarks_a_task: Count = 1
    points_a_chunk: Count = 1
    reach: NotNegative | None = None

    @property
    def sizes(self) -> Mapping[str, int | None]:
        """Rows of D, where they are not those of all vertices."""
        return {"sources": self.n_landmarks}


class StartFields(Record, frozen=True, kw_only=True):
    """What the solver's first block follows from besides the graph."""

    n_components: Count
    correction: Correction
    random_state: Seed


class StartRecord(StepRecord, frozen=True, kw_only=True):
    """The solver's first block.

    most_columns: Of the solver's basis.
    """

    STEP: ClassVar[str] = "start"
    fields: StartFields
    most_columns: Count


class DistancesRecord(StepRecord, frozen=True, kw_only=True, omit_defaults=True):
    """All distances.

    tile_size: Vertices of a block.
    median: In the unit of the tiles.
    between: Of vertices of two classes, in that unit; None where there are no classes.
    """

    STEP: ClassVar[str] = "geodesics"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "first_block": Expected("float64", "vertices *"),
        "first_found": Expected("float64", "vertices *"),
        "distance_counts": Expected("int64", BINS, 0, "pairs+1"),
        "landmark_counts": Expected("int64", "sources", 1, "vertices+1"),
        "landmark_square": Expected("float32", "sources sources", 0),
    }
    FOLDERS: ClassVar[tuple[str, ...]] = ("distances", "ledger", "landmark_rows", "distances_to_landmarks")
    tile_size: Count
    median: NotNegative
    between: NotNegative | None = None


class SolveFields(Record, frozen=True, kw_only=True):
    """What constant and axes follow from."""

    n_components: Count
    correction: Correction
    constant_solver: Plain
    tol: Positive
    random_state: Seed


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

    def as_dict(self) -> dict[str, Any]:
        """The same as users see it."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]


class SolveRecord(StepRecord, frozen=True, kw_only=True):
    """The model: constant and axes.

    constant, nugget, tolerance: As :class:`scalemani.embedding.coordinates.Embedding` has them.
    """

    STEP: ClassVar[str] = "solve"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "vectors": Expected("float64", "sources|vertices axes"),
        "eigenvalues": Expected("float64", "axes"),
        "means": Expected("float64", "sources|vertices"),
    }
    fields: SolveFields
    constant: Sized
    nugget: Sized
    tolerance: Share
    spectrum: SpectrumRecord

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {"axes": self.fields.n_components}

    def __post_init__(self) -> None:
        axes = self.fields.n_components
        for name in BY_AXIS:
            count = len(getattr(self.spectrum, name))
            if count != axes:
                raise ValueError(f"{name} has {count} numbers for {axes} axes")


class PlacementFields(Record, frozen=True, kw_only=True):
    """How points are placed by axes that are those of others."""

    projection: Plain


class PlacementRecord(StepRecord, frozen=True, kw_only=True):
    """Coordinates of all points, where the axes are those of some."""

    STEP: ClassVar[str] = "coordinates"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph", "solve")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "coordinates": Expected("float64", "vertices axes"),
    }
    fields: PlacementFields


class MethodRecord(StepRecord, frozen=True, kw_only=True):
    """The method whose steps these are.

    module: Where its estimator is defined.
    """

    STEP: ClassVar[str] = "method"
    name: Plain
    module: Annotated[str, Meta(pattern=r"^\w+(\.\w+)*$", max_length=400)]


class FitRecord(StepRecord, frozen=True, kw_only=True):
    """The end of a fit, with everything that `load` gives back: the parameters that are recorded, by name."""

    STEP: ClassVar[str] = "fit"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    fields: dict[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters, as they were given."""
        return as_given(self.fields)  # type: ignore[no-any-return]

    def __post_init__(self) -> None:
        lost = sorted({one.name for one in fields(Parameters) if one.metadata["recorded"]} - self.fields.keys())
        if lost:
            raise ValueError(f"no parameter {lost[0]!r}")
        known = {one.name for one in fields(Parameters)}
        for name, kind in get_type_hints(Parameters).items():
            if name in self.fields and name != "metric":
                try:
                    msgspec.convert(self.parameters[name], kind)
                except msgspec.ValidationError as error:
                    raise ValueError(f"{name}: {error}") from error
        if not isinstance(self.fields["random_state"], int):
            raise ValueError("random_state is no integer")
        if is_function_name(str(self.fields["metric"])):  # which `load` looks for, with its parameters
            known -= {"metric", "metric_params"}
        Parameters(**{name: value for name, value in self.parameters.items() if name in known}).check()

    def contradiction(self, steps: Mapping[str, Any]) -> str | None:
        asked, solved = self.fields["n_components"], steps.get("map") or steps.get("solve")
        found = asked if solved is None else solved.fields.n_components
        return f"{asked} axes were asked for, and {found} found" if asked != found else None


class NamesRecord(StepRecord, frozen=True, kw_only=True):
    """Names of the features; ids of the rows are arrays, since there may be many (:mod:`scalemani.steps.names`)."""

    STEP: ClassVar[str] = "names"
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "row_id_starts": Expected("int64", "rows+1", 0, ascending=True),
        "row_id_text": Expected("uint8", "*"),
    }
    features: list[Annotated[str, Meta(max_length=100_000)]] | None


class RedoRecord(StepRecord, frozen=True, kw_only=True):
    """The mark that a repair leaves where the graph has to be made again, which takes the points.

    arrays: Checksums of the arrays that D was made from.
    """

    STEP: ClassVar[str] = "redo"
    arrays: dict[str, Crc32c]
