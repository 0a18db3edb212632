"""What the steps of methods without distances record: weights that rebuild points, and pairs of a spectrum."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from scalemani.steps.records import Metric, Numbers, Seed
from scalemani.storage.arrays import Expected
from scalemani.storage.records import Count, Natural, NotNegative, Plain, Positive, Record, Sized, StepRecord

Warnings = Annotated[list[Annotated[str, Meta(max_length=2000)]], Meta(max_length=100)]


class WeightsFields(Record, frozen=True, kw_only=True):
    """What the weights follow from; None where the kernel has no such parameter, or there is no kernel."""

    kernel: Metric | None
    gamma: Positive | None
    degree: Positive | None
    coef0: Sized | None
    reg: NotNegative


class WeightsRecord(StepRecord, frozen=True, kw_only=True):
    """Weights by which each point is rebuilt from its neighbours.

    gamma: The one that was used; 0 where the kernel has none.
    """

    STEP: ClassVar[str] = "weights"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "weights_indptr": Expected("int64", "vertices+1", 0, ascending=True),
        "weights_indices": Expected("int64", "*", 0, "vertices"),
        "weights_values": Expected("float64", "*"),
    }
    fields: WeightsFields
    gamma: NotNegative


class PairsFields(Record, frozen=True, kw_only=True):
    """What is asked of the spectrum; None where a method has no such parameter."""

    n_components: Count
    scale: Plain
    random_state: Seed
    weights: Plain | None = None
    sigma: Positive | None = None
    normalized: bool | None = None
    alpha: NotNegative | None = None
    time: NotNegative | None = None
    landmarks: Annotated[str, Meta(max_length=1 << 24)] | None = None
    landmark_method: Plain | None = None


class PairsRecord(StepRecord, frozen=True, kw_only=True):
    """Pairs at the bottom of a spectrum, and the coordinates that they make.

    eigenvalues: From below; of diffusion maps from above.
    next_eigenvalue: Of the axis that was not asked for; None if there is none.
    factor_nonzeros: Of the factor; 0 where there was none, or nobody counted.
    sigma: Width of the Gaussian weights that was used; 0 where there is none.
    trace, trace_error: Of L+ or M+; None where it was not estimated.
    forgotten: Correlation of resistances with what degrees alone say; None where it was not looked at.
    reach: No point's features are farther from its nearest landmark.
    """

    STEP: ClassVar[str] = "pairs"
    NEEDS: ClassVar[tuple[str, ...]] = ("data", "neighbors", "graph")
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "pair_coordinates": Expected("float64", "vertices axes"),
        "pair_landmarks": Expected("int64", "pair_landmarks", 0, "vertices", ascending="strictly"),
        "pair_map": Expected("float64", "pair_landmarks axes"),
    }
    fields: PairsFields
    eigenvalues: Numbers
    next_eigenvalue: Sized | None
    factor_nonzeros: Natural = 0
    sigma: NotNegative = 0.0
    trace: Sized | None = None
    trace_error: Sized | None = None
    forgotten: Sized | None = None
    n_landmarks: Count | None = None
    reach: NotNegative | None = None
    warnings: Warnings = msgspec.field(default_factory=list)

    @property
    def sizes(self) -> Mapping[str, int | None]:
        return {"axes": self.fields.n_components, "pair_landmarks": self.n_landmarks}
