"""What the steps of linear maps and maps of least stress record; :mod:`scalemani.steps.records` has the others."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from scalemani.steps.records import Numbers, Seed
from scalemani.storage.arrays import TINY, Expected
from scalemani.storage.records import (
    Count,
    Natural,
    NotNegative,
    Plain,
    Positive,
    Record,
    Share,
    Sized,
    StepRecord,
)


class FeaturesFields(Record, frozen=True, kw_only=True):
    """What the features of a linear map are; None where the kernel has no such parameter, or for its usual value."""

    kernel: Plain
    gamma: Positive | None
    degree: Positive | None
    coef0: Sized | None
    nystrom: Count | None
    random_state: Seed | None


class FeaturesRecord(StepRecord, frozen=True, kw_only=True):
    """The directions in which features vary.

    gamma: That was used; 0 where there is none.
    rank, width, n_references: Directions, features, and rows whose kernel values these are (0: of X's own columns).
    negative: Share of a kernel matrix's eigenvalues, by modulus, that is negative.
    """

    STEP: ClassVar[str] = "features"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "feature_mean": Expected("float64", "width"),
        "feature_loadings": Expected("float64", "width rank"),
        "feature_spread": Expected("float64", "rank", TINY),
        "feature_references": Expected("int64", "references", 0, "points"),
    }
    fields: FeaturesFields
    gamma: NotNegative
    rank: Count
    width: Count
    n_references: Natural
    negative: Share

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {"rank": self.rank, "width": self.width, "references": self.n_references}


class MapFields(Record, frozen=True, kw_only=True):
    """What a linear map follows from besides D and the features."""

    n_components: Count
    ridge: NotNegative | Plain
    scale: Plain


class MapRecord(StepRecord, frozen=True, kw_only=True):
    """The linear map of least strain.

    ridge: That was used, as a share of the largest direction's square.
    left_out: Ridge and error by leaving rows out, where it was chosen by that.
    trace: Of the projected kernel.
    next_eigenvalue: Of the axis that was not asked for; None if there is none.
    """

    STEP: ClassVar[str] = "map"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph", "features")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "projected_kernel": Expected("float64", "rank rank"),
        "map_weights": Expected("float64", "width map_axes"),
        "map_back": Expected("float64", "map_axes width"),
        "map_coordinates": Expected("float64", "vertices map_axes"),
    }
    fields: MapFields
    ridge: NotNegative
    left_out: Annotated[list[tuple[NotNegative, NotNegative]], Meta(max_length=100)]
    eigenvalues: Numbers
    next_eigenvalue: Sized | None
    trace: Sized
    warnings: Annotated[list[Annotated[str, Meta(max_length=2000)]], Meta(max_length=100)]

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {"map_axes": self.fields.n_components}

    def __post_init__(self) -> None:
        if len(self.eigenvalues) != self.fields.n_components:
            raise ValueError(f"{len(self.eigenvalues)} eigenvalues for {self.fields.n_components} axes")


class StressFields(Record, frozen=True, kw_only=True):
    """What a map of least stress follows from besides D."""

    n_components: Count
    tol: Positive
    random_state: Seed
    start_points: Count | None = None


class StressRecord(StepRecord, frozen=True, kw_only=True):
    """The map of least raw stress.

    stresses: After each read of D, of the best map so far; the root of the stress over the sum of squared distances.
    undilated: The same of the start, before it was dilated.
    raw: Stress of the map, in the user's unit, squared.
    self_check: The largest deviation of some points' stress from that of distances found again.
    """

    STEP: ClassVar[str] = "stress"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "stress_coordinates": Expected("float64", "sources|vertices stress_axes"),
        "stress_by_point": Expected("float64", "sources|vertices", 0),
    }
    fields: StressFields
    stresses: Annotated[list[NotNegative], Meta(min_length=1, max_length=100_000)]
    undilated: NotNegative
    raw: NotNegative
    converged: bool
    self_check: NotNegative
    warnings: Annotated[list[Annotated[str, Meta(max_length=2000)]], Meta(max_length=100)]

    @property
    def sizes(self) -> Mapping[str, int | None]:
        """Axes: classical scaling's are others once a fit with another number of them has begun."""
        return {"stress_axes": self.fields.n_components}
