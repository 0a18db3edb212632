"""What a fit is asked for: one checked, immutable record, and the fields by which a store knows its stages.

Takes the estimators' arguments, gives :class:`Parameters`; everything that can be refused without
the data is refused here.
"""

import os
from dataclasses import dataclass, replace
from hashlib import blake2b
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError, unknown
from scalemani.graph.build import KINDS, POLICIES
from scalemani.kernel.constant import CONSTANT_SOLVERS, CORRECTIONS
from scalemani.neighbors.functions import function_name
from scalemani.neighbors.metrics import GIVEN_METRICS, canonical_name, function_parameters
from scalemani.neighbors.search import KNN
from scalemani.points.cells import LARGEST
from scalemani.projection.linear_map import PROJECTIONS
from scalemani.steps import records
from scalemani.storage.tiles import COMPRESSIONS

LANDMARK_METHODS = ("maxmin", "random")
NOT_RECORDED = ("store", "scheduler", "memory_limit", "overwrite", "compression", "tile_size")  # of the machine
PASSING = (*NOT_RECORDED, "progress", "keep_distances")  # what a run is called with each time, and not what it fitted
LEAST_TOL = 1e-12  # of relative residuals: float64 knows no better
CHOICES = {
    "graph": KINDS,
    "disconnected": POLICIES,
    "constant_solver": CONSTANT_SOLVERS,
    "projection": PROJECTIONS,
    "knn": KNN,
    "landmark_method": LANDMARK_METHODS,
}


@dataclass(frozen=True)
class Parameters:
    """Arguments of a fit; see :class:`scalemani.KernelIsomap` for their meaning.

    `tile_size` is for tests and benchmarks: the budget chooses it otherwise.
    """

    n_neighbors: int | None = 10
    n_components: int = 2
    radius: float | None = None
    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    graph: str = "union"
    disconnected: str = "error"
    correction: str | float | None = "cailliez"
    constant_solver: str = "ritz"
    projection: str = "continuous"
    knn: str = "auto"
    tol: float = 1e-6
    store: Any = None
    scheduler: Any = None
    memory_limit: Any = None
    random_state: Any = 0
    overwrite: bool = False
    keep_distances: bool = True
    compression: str | None = None
    landmarks: Any = None
    landmark_method: str = "maxmin"
    tile_size: int | None = None

    def check(self) -> None:
        """Refuse what can't be meant.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise unknown(f"{name}=", value, allowed)
        _check_count("n_components", self.n_components)
        self._check_landmarks()
        if self.metric_params is not None and not isinstance(self.metric_params, dict):
            raise ScalemaniError(f"metric_params={self.metric_params!r}: a dict such as {{'p': 3}}, or None, is needed")
        if callable(self.metric):
            function_name(self.metric)
            function_parameters(self.metric_params)
        elif not isinstance(self.metric, str) or self.metric not in GIVEN_METRICS:
            canonical_name(self.metric)
        self._check_neighborhood()
        if not _is_number(self.tol) or not LEAST_TOL <= self.tol < 1:
            raise ScalemaniError(f"tol={self.tol!r}: a number from {LEAST_TOL:g} to 1 is needed")
        c = self.correction
        if not (c is None or (c in CORRECTIONS if isinstance(c, str) else _is_number(c) and 0 <= float(c) <= LARGEST)):
            raise unknown("correction=", c, CORRECTIONS, "None or a number from 0 to 1e150")
        if self.store is not None and not (isinstance(self.store, str | os.PathLike) and os.fspath(self.store)):
            raise ScalemaniError(f"store={self.store!r}: a path, or None for a temporary folder, is needed")
        if self.compression is not None and not (
            isinstance(self.compression, str) and self.compression in COMPRESSIONS
        ):
            raise unknown("compression=", self.compression, COMPRESSIONS, "None")
        if self.tile_size is not None:
            _check_count("tile_size", self.tile_size)

    def _check_landmarks(self) -> None:
        """A number of landmarks, or their row numbers, enough for the axes."""
        given = self.landmarks
        if given is None:
            return
        if isinstance(given, Integral) and not isinstance(given, bool):
            count = int(given)
        else:
            needed = "a number of landmarks, or a vector of row numbers (integers), is needed"
            try:
                rows = np.asarray(given)
            except ValueError:  # lists of several lengths
                raise ScalemaniError(f"landmarks={given!r:.60}: {needed}") from None
            if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
                raise ScalemaniError(f"landmarks of shape {rows.shape} and dtype {rows.dtype}: {needed}")
            if np.ma.isMaskedArray(given) and np.ma.getmaskarray(given).any():
                raise ScalemaniError("landmarks has masked entries: take them out, as landmarks.compressed() does")
            count = len(rows)
        if count < self.n_components + 1:
            raise ScalemaniError(
                f"{count} landmarks: n_components={self.n_components} needs at least {self.n_components + 1}"
            )
        if self.compression is not None:
            raise ScalemaniError(
                f"compression={self.compression!r}: the distances to landmarks are not compressed; leave it out"
            )

    def _check_neighborhood(self) -> None:
        if self.metric == "geodesic":
            return
        if self.n_neighbors is None and self.radius is None:
            raise ScalemaniError("n_neighbors=None and radius=None: give one of them")
        if self.n_neighbors is not None and self.radius is not None:
            raise ScalemaniError(
                f"both n_neighbors={self.n_neighbors!r} and radius={self.radius!r} are given: "
                "leave one of them out (n_neighbors=None with a radius)"
            )
        if self.n_neighbors is not None:
            _check_count("n_neighbors", self.n_neighbors)
        elif not (_is_number(self.radius) and 0 < float(self.radius or 0) < np.inf):
            raise ScalemaniError(f"radius={self.radius!r}: a positive number is needed")

    def seeded(self, recorded: int | None) -> "Parameters":
        """The same with an integer seed: the given one, the recorded one, or a fresh one."""
        given = self.random_state
        if given is None:
            seed = recorded if recorded is not None else int(np.random.SeedSequence().generate_state(1)[0])
        elif isinstance(given, np.random.Generator):
            seed = int(given.integers(2**31))
        elif isinstance(given, np.random.RandomState):
            seed = int(given.randint(2**31 - 1))
        elif isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 0:
            seed = int(given)
        else:
            raise ScalemaniError(f"random_state={given!r}: None, an integer >= 0 or a NumPy generator is allowed")
        return replace(self, random_state=seed)

    def correction_in(self, scale: float) -> str | float | None:
        """The correction; a number in the unit of the tiles, which is `scale` of the user's."""
        given = self.correction
        return given if given is None or isinstance(given, str) else float(given) / scale

    def recorded(self, *, keep_distances: bool) -> records.FitFields:
        """Everything that `load` gives back to an estimator."""
        found = {name: _plain(getattr(self, name)) for name in records.FitFields.__struct_fields__}
        found |= {"keep_distances": keep_distances}
        if not isinstance(self.landmarks, Integral | None):
            found["landmarks"] = np.asarray(self.landmarks).tolist()
        return records.FitFields(**found)

    def step_fields(self, kind: str) -> records.StepFields:
        """What identifies each step's result."""
        given = kind == "geodesic"
        approximate = kind == "features" and self.knn != "exact"
        return records.StepFields(
            neighbors=records.NeighborsFields(
                n_neighbors=None if given or self.n_neighbors is None else int(self.n_neighbors),
                radius=None if given or self.radius is None else float(self.radius),
                metric=_metric_name(self.metric),
                metric_params=_plain(self.metric_params),
                knn=self.knn if kind == "features" else None,
                random_state=self.random_state if approximate else None,
            ),
            graph=records.GraphFields(graph=self.graph, disconnected=self.disconnected),
            landmarks=self._landmark_fields(),
            solve=records.SolveFields(
                n_components=int(self.n_components),
                correction=self.correction if isinstance(self.correction, str | None) else float(self.correction),
                constant_solver=self.constant_solver,
                tol=float(self.tol),
                random_state=self.random_state,
                projection=None if self.landmarks is None else self.projection,
            ),
        )

    def _landmark_fields(self) -> records.LandmarksFields:
        """What the choice of landmarks follows from; of given row numbers a digest (they may be many)."""
        if self.landmarks is None:
            return records.LandmarksFields(landmarks=None)
        if not isinstance(self.landmarks, Integral):
            rows = np.sort(np.asarray(self.landmarks).astype("<i8"))
            of = blake2b(rows.tobytes(), digest_size=4).hexdigest()
            return records.LandmarksFields(landmarks=f"{len(rows)} given rows ({of})")
        seed = self.random_state if self.landmark_method != "maxmin" else None
        return records.LandmarksFields(
            landmarks=int(self.landmarks), landmark_method=self.landmark_method, random_state=seed
        )


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
        raise ScalemaniError(f"{name}={value!r}: an integer of 1 or more is needed")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(float(value))
    except OverflowError:  # an integer beyond float64
        return False


def _metric_name(metric: Any) -> str:
    return function_name(metric) if callable(metric) else str(metric)


def _plain(value: Any) -> Any:
    """JSON values of metric_params: arrays become lists."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if callable(value):
        return _metric_name(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Rational) and not isinstance(value, Integral):
        return float(value)
    return records.as_json(value)
