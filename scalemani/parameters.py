"""The parameters of a fit: one list, :class:`Arguments`, whose fields say all there is to know of each.

The estimators inherit the fields, the command line makes an option of each, and a store records them. To add a
parameter, add a field, and its lines to the docstring of :class:`scalemani.KernelIsomap`. :class:`Parameters` is what
a fit works with: the same, with the checks that need no data. `--help` reads this file, so NumPy and other parts of the
package are imported where they are used.
"""
# ruff: noqa: RUF009 - `parameter` makes a field

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

from scalemani.errors import ScalemaniError, unknown

Check = Callable[[str, Any], None]  # raises ScalemaniError if the parameter of this name can't have this value

LEAST_TOL = 1e-12  # of relative residuals: float64 knows no better


class Option(NamedTuple):
    """How the command line asks for a parameter.

    kind: What its words mean; :mod:`scalemani.terminal.options` has a reader for each.
    names: With their dashes; the parameter's own unless given.
    metavar: What stands for a value in the help; the choices unless given.
    """

    help: str
    kind: str = "word"
    names: tuple[str, ...] = ()
    metavar: str | None = None


def parameter(
    default: Any,
    option: Option | None = None,
    *,
    check: Check | None = None,
    choices: tuple[str, ...] = (),
    recorded: bool = True,
) -> Any:
    """A field of :class:`Arguments`.

    option: None of one that the command line does not ask for.
    check: Unless given, that the value is one of the `choices`, if there are any.
    recorded: False of what belongs to a machine or a single run, and not to what was fitted.
    """
    if check is None and choices:
        check = _one_of(choices)
    if option is not None and option.metavar is None and choices:
        option = option._replace(metavar="|".join(choices))
    return field(default=default, metadata={"option": option, "check": check, "choices": choices, "recorded": recorded})


def _one_of(choices: tuple[str, ...]) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in choices:
            raise unknown(f"{name}=", value, choices)

    return check


def _count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
        raise ScalemaniError(f"{name}={value!r}: an integer of 1 or more is needed")


def optional_count(name: str, value: Any) -> None:
    """Refuse what is neither None nor an integer of 1 or more."""
    if value is not None:
        _count(name, value)


def _metric(name: str, value: Any) -> None:
    from scalemani.neighbors.functions import function_name
    from scalemani.neighbors.metrics import GIVEN_METRICS, canonical_name

    if callable(value):
        function_name(value)
    elif not isinstance(value, str) or value not in GIVEN_METRICS:
        canonical_name(value)


def _metric_params(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, dict):
        raise ScalemaniError(f"{name}={value!r}: a dict such as {{'p': 3}}, or None, is needed")


CORRECTIONS = ("cailliez", "lingoes", "flip")


def _correction(name: str, value: Any) -> None:
    from scalemani.points.cells import LARGEST

    known = value in CORRECTIONS if isinstance(value, str) else is_number(value) and 0 <= float(value) <= LARGEST
    if value is not None and not known:
        raise unknown(f"{name}=", value, CORRECTIONS, "None or a number from 0 to 1e150")


def check_tol(name: str, value: Any) -> None:
    """A share from LEAST_TOL to 1."""
    if not is_number(value) or not LEAST_TOL <= value < 1:
        raise ScalemaniError(f"{name}={value!r}: a number from {LEAST_TOL:g} to 1 is needed")


def _store(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str | os.PathLike) and os.fspath(value)):
        raise ScalemaniError(f"{name}={value!r}: a path, or None for a temporary folder, is needed")


COMPRESSIONS = ("lz4", "zstd")


def _compression(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and value in COMPRESSIONS):
        raise unknown(f"{name}=", value, COMPRESSIONS, "None")


def is_number(value: Any) -> bool:
    """Whether it is a real number, and not NaN."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(float(value))
    except OverflowError:  # an integer beyond float64
        return False


@dataclass(eq=False, repr=False)
class Arguments:
    """The parameters in the order of their positions; :class:`scalemani.KernelIsomap` says what they mean."""

    n_neighbors: int | None = parameter(
        10, Option("Neighbours of each point, not counting itself.", "integer", ("-k", "--neighbors"))
    )
    n_components: int = parameter(2, Option("Axes of the map.", "integer", ("-p", "--components")), check=_count)
    radius: float | None = parameter(
        None, Option("Take all points within this distance as neighbours, instead of a number of them.", "number")
    )
    metric: str | Callable[..., float] = parameter(
        "euclidean",
        Option(
            "How the distance between two rows is measured, such as manhattan or cosine; docs/metrics.md has all "
            "names. precomputed: POINTS are distances, by which neighbours are chosen; a sparse matrix is the "
            "graph itself, or neighbour lists if each row stores its own 0. geodesic: POINTS are the distances "
            "that the map is to keep.",
            metavar="NAME",
        ),
        check=_metric,
    )
    metric_params: dict[str, Any] | None = parameter(
        None,
        Option("A parameter of the metric, such as p=3; may be repeated.", "pairs", ("--metric-param",), "NAME=VALUE"),
        check=_metric_params,
    )
    graph: str = parameter(
        "union",
        Option("Join two points if either is a neighbour of the other (union), or only if each is (mutual)."),
        choices=("union", "mutual"),
    )
    disconnected: str = parameter(
        "error",
        Option(
            "If the graph falls apart: stop with an error, join its parts by the shortest bridges, or make a map "
            "of the largest part (other rows get NaN)."
        ),
        choices=("error", "join", "largest"),
    )
    correction: str | float | None = parameter(
        "cailliez",
        Option(
            "cailliez (unless given): add to all distances the least constant that makes a kernel of them; "
            "lingoes: add it to their squares; flip: eigenvalues count by their size; NUMBER: add this constant; "
            "none: add nothing, as isomap does.",
            "number, word or none",
            metavar="|".join([*CORRECTIONS, "none", "NUMBER"]),
        ),
        check=_correction,
    )
    constant_solver: str = parameter(
        "ritz",
        Option("How the constant of cailliez is found."),
        choices=("ritz", "power", "arnoldi"),
    )
    projection: str = parameter(
        "continuous",
        Option("How new points are placed: so that near ones land near each other, or as in Choi and Choi's paper."),
        choices=("continuous", "paper"),
    )
    knn: str = parameter(
        "auto",
        Option(
            "How neighbours are searched: exactly, by NN-descent (approximate, for many rows), or by what is quicker."
        ),
        choices=("auto", "exact", "nndescent"),
    )
    tol: float = parameter(
        1e-6,
        Option(
            "Relative residual at which the solver stops, 1e-6 unless given. For stress: it stops when two steps "
            "in a row each lower the stress by this share of it or less, 1e-5 unless given.",
            "number",
        ),
        check=check_tol,
    )
    store: Any = parameter(None, check=_store, recorded=False)  # the command line has an argument of that name
    scheduler: Any = parameter(
        None,
        Option(
            "A Dask scheduler, such as tcp://host:8786, or 'synchronous' for one thread without a cluster. Unless"
            " given: one thread for up to some 2,000 points, the threads of this computer for more.",
            metavar="ADDRESS",
        ),
        recorded=False,
    )
    memory_limit: Any = parameter(
        None,
        Option(
            "Most memory that a process may take above its size at the start, such as 4GB; half of what is free "
            "unless given.",
            metavar="SIZE",
        ),
        recorded=False,
    )
    random_state: Any = parameter(
        0, Option("Seed of all random choices.", "integer or none", ("--seed",), "INTEGER|none")
    )
    progress: Any = parameter(False, recorded=False)
    overwrite: bool = parameter(
        False,
        Option(
            "Replace STORE, and the file of --embedding, if they are there. Without it a fit that was stopped goes on.",
            "flag",
        ),
        recorded=False,
    )
    keep_distances: bool = parameter(
        True,
        Option(
            "Whether the geodesic distances stay in STORE after the fit; isometric-projection keeps none unless asked.",
            "flag",
            ("--keep-distances/--drop-distances",),
        ),
    )
    compression: str | None = parameter(
        None,
        Option(
            "How the distances on disk are compressed; not at all unless given.",
            "word or none",
            metavar="|".join([*COMPRESSIONS, "none"]),
        ),
        check=_compression,
        recorded=False,
    )
    landmarks: Any = parameter(
        None,
        Option(
            "For more than about 100,000 points: find distances to N of them only, the landmarks, instead of all "
            "distances; 1,000 is where to start. For lle and laplacian-eigenmaps: solve for N points only. FILE "
            "has the row numbers of the landmarks, from 0: a .npy, .npz:key or .csv.",
            "count or file",
            metavar="N|FILE",
        ),
    )
    landmark_method: str = parameter(
        "maxmin",
        Option("Choose landmarks far from one another along the graph (maxmin), or at random."),
        choices=("maxmin", "random"),
    )
    edge_weights: str = parameter(
        "plain",
        Option(
            "plain: an edge is as long as its ends are apart; conformal (C-Isomap): this is divided by how far "
            "the ends are from their neighbours on average, which evens out the spacing of the points."
        ),
        choices=("plain", "conformal"),
    )
    shortcuts: str = parameter(
        "warn",
        Option(
            "About shortcuts, the few edges that leap from one part of the data to another and bend the map. "
            "warn: name them; remove: take them out; keep: do not look."
        ),
        choices=("warn", "remove", "keep"),
    )


#: What a run is called with each time, and not what it fitted.
PASSING = (*(one.name for one in fields(Arguments) if not one.metadata["recorded"]), "keep_distances")

#: What a scan over numbers of neighbours takes besides these.
SCANNED = (
    *("n_components", "metric", "metric_params", "graph", "disconnected", "knn", "memory_limit", "random_state"),
    "edge_weights",
)


@dataclass
class Parameters(Arguments):
    """What a fit works with; `tile_size` is for tests and benchmarks, the budget chooses it otherwise."""

    tile_size: int | None = parameter(None, check=optional_count, recorded=False)

    def check(self) -> None:
        """Refuse what can't be meant.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        for one in fields(self):
            if one.metadata["check"] is not None:
                one.metadata["check"](one.name, getattr(self, one.name))
        if callable(self.metric):
            from scalemani.neighbors.metrics import function_parameters

            function_parameters(self.metric_params)
        self._check_landmarks()
        self._check_neighborhood()

    def _check_landmarks(self) -> None:
        """A number of landmarks, or their row numbers, enough for the axes."""
        if self.landmarks is None:
            return
        count = _n_landmarks(self.landmarks)
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
            if self.edge_weights != "plain":
                raise ScalemaniError(
                    f"edge_weights={self.edge_weights!r} with metric='geodesic': given distances are final and have no "
                    "edges; use edge_weights='plain', or metric='precomputed' to choose neighbours by them"
                )
            return
        if self.n_neighbors is None and self.radius is None:
            raise ScalemaniError("n_neighbors=None and radius=None: give one of them")
        if self.n_neighbors is not None and self.radius is not None:
            raise ScalemaniError(
                f"both n_neighbors={self.n_neighbors!r} and radius={self.radius!r} are given: "
                "leave one of them out (n_neighbors=None with a radius)"
            )
        if self.n_neighbors is not None:
            _count("n_neighbors", self.n_neighbors)
        elif not (is_number(self.radius) and 0 < float(self.radius or 0) < math.inf):
            raise ScalemaniError(f"radius={self.radius!r}: a positive number is needed")

    def seeded(self, recorded: int | None) -> "Parameters":
        """The same with an integer seed: the given one, the recorded one, or a fresh one."""
        import numpy as np

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

    def recorded(self) -> dict[str, Any]:
        """Everything that `load` gives back to an estimator, as JSON values."""
        return {one.name: plain(getattr(self, one.name)) for one in fields(self) if one.metadata["recorded"]}


def _n_landmarks(given: Any) -> int:
    """How many landmarks a number of them, or their row numbers, are."""
    import numpy as np

    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given)
    needed = "a number of landmarks, or a vector of row numbers (integers), is needed"
    try:
        rows = np.asarray(given)
    except ValueError:  # lists of several lengths
        raise ScalemaniError(f"landmarks={given!r:.60}: {needed}") from None
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise ScalemaniError(f"landmarks of shape {rows.shape} and dtype {rows.dtype}: {needed}")
    if np.ma.isMaskedArray(given) and np.ma.getmaskarray(given).any():
        raise ScalemaniError("landmarks has masked entries: take them out, as landmarks.compressed() does")
    return len(rows)


def metric_name(metric: Any) -> str:
    """The metric's name; of a function module and name."""
    from scalemani.neighbors.functions import function_name

    return function_name(metric) if callable(metric) else str(metric)


def plain(value: Any) -> Any:
    """The same as JSON values: arrays become lists, functions their names."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if callable(value):
        return metric_name(value)
    if hasattr(value, "tolist"):  # of NumPy
        return plain(value.tolist())
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in value]
    if isinstance(value, Rational) and not isinstance(value, Integral):
        return float(value)
    return as_json(value)


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
