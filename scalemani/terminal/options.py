"""Options of the command line: takes words, gives the estimator's parameters.

Each parameter of the estimator has one option here, with the same default (a test compares them), and
its own checks are the library's: a wrong value is refused there, in one place, and the shell reads the option's name
for the parameter's.
"""

import ast
import json
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache, reduce, wraps
from typing import Any, NamedTuple, TypeVar

import click

from scalemani.errors import IN_A_SEARCH, nearest

__all__ = ["chosen", "estimator_options", "in_options", "manners", "method_of", "reading"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Method(NamedTuple):
    """A method of ``--method``: the estimator that it is, and the parameters that only some methods have."""

    estimator: str
    own: tuple[str, ...] = ()


#: The first is what a fit does unless told.
METHODS = {
    "isomap": Method("Isomap"),
    "kernel-isomap": Method("KernelIsomap", ("correction", "constant_solver")),
}


def _method(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or value in METHODS:
        return value
    near = nearest(value, METHODS)
    meant = f" (did you mean {near}?)" if near else ""
    raise click.BadParameter(f"{value!r} is none of {', '.join(METHODS)}{meant}")


def _correction(ctx: click.Context, param: click.Parameter, value: str) -> str | float | None:
    if value.lower() == "none":
        return None
    try:
        return float(value)
    except ValueError:
        return value


def _or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value is None or value.lower() == "none" else value


def _seed(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if value.lower() == "none":
        return None
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not an integer or none") from None


def _landmarks(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """A number of landmarks, or the row numbers in a file."""
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        if "." not in value or value.replace(".", "").isdecimal():
            raise click.BadParameter(f"{value!r} is neither a number of landmarks nor a file of row numbers") from None
        from scalemani.formats.columns import read_row_numbers

        return read_row_numbers(value)


def _metric_parameters(ctx: click.Context, param: click.Parameter, pairs: Any) -> dict[str, Any] | None:
    """``NAME=VALUE`` pairs as a dictionary; values are JSON where they can be, else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE, such as p=3")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None


def _option(*names: str, default: Any = None, **more: Any) -> Callable[[Function], Function]:
    return click.option(*names, default=default, show_default=default is not None, **more)


_ESTIMATOR = [
    click.option(
        "--method",
        metavar="|".join(METHODS),
        callback=_method,
        help=f"{next(iter(METHODS))} unless given. kernel-isomap adds a constant to the distances that makes a kernel "
        "of them; so does --correction alone.",
    ),
    _option(
        "-k",
        "--neighbors",
        "n_neighbors",
        default=10,
        type=int,
        help="Neighbours of a point, itself not counted.",
    ),
    _option("--radius", type=float, help="Neighbours within this distance, instead of --neighbors."),
    _option("-p", "--components", "n_components", default=2, type=int, help="Axes of the embedding."),
    _option(
        "--metric",
        default="euclidean",
        metavar="NAME",
        help="docs/metrics.md has the names, and the rows that each takes. precomputed: POINTS are distances to choose "
        "neighbours by or, sparse, a neighbour graph (lists, if rows store their own 0). geodesic: POINTS are the "
        "final distances.",
    ),
    click.option(
        "--metric-param",
        "metric_params",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_metric_parameters,
        help="A parameter of the metric, such as p=3; may be repeated.",
    ),
    _option(
        "--graph",
        default="union",
        metavar="union|mutual",
        help="Join two points if either lists the other, or only if both do.",
    ),
    _option(
        "--disconnected",
        default="error",
        metavar="error|join|largest",
        help="If the graph falls apart: stop, join its parts by the shortest bridges, or embed the largest "
        "part (NaN for the rest).",
    ),
    click.option(
        "--correction",
        default="cailliez",
        metavar="cailliez|lingoes|flip|none|NUMBER",
        callback=_correction,
        help="For kernel-isomap. cailliez (unless given): add to all distances the least constant that makes a kernel "
        "of them; "
        "lingoes: to their squares; flip: eigenvalues count by their modulus; NUMBER: add this constant; none: isomap.",
    ),
    _option(
        "--constant-solver",
        default="ritz",
        metavar="ritz|power|arnoldi",
        help="How kernel-isomap finds the constant of cailliez.",
    ),
    _option("--projection", default="continuous", metavar="continuous|paper", help="How new points are placed."),
    _option("--knn", default="auto", metavar="auto|nndescent|exact", help="How neighbours are searched."),
    _option("--tol", default=1e-6, type=float, help="Relative residual at which eigenpairs are done."),
    _option(
        "--seed",
        "random_state",
        default="0",
        metavar="INTEGER|none",
        callback=_seed,
        help="Seed of everything random.",
    ),
    _option(
        "--scheduler",
        metavar="ADDRESS",
        help="A Dask scheduler, such as tcp://host:8786, or 'synchronous' for one thread; threads of this process "
        "unless given.",
    ),
    _option(
        "--memory-limit",
        metavar="SIZE",
        help="Most memory a worker may add to its size at the start, such as 4GB; half of what is free unless given.",
    ),
    click.option(
        "--overwrite",
        is_flag=True,
        help="Replace STORE, and the file of --embedding, if they are there; leave it out to go on with a fit.",
    ),
    click.option(
        "--keep-distances/--drop-distances",
        default=True,
        show_default=True,
        help="Keep the geodesic distances in STORE after the fit.",
    ),
    _option(
        "--compression",
        metavar="lz4|zstd|none",
        callback=_or_none,
        help="How the distances on disk are compressed; not at all unless given.",
    ),
    _option(
        "--landmarks",
        metavar="N|FILE",
        callback=_landmarks,
        help="For clouds beyond about 100,000 points: distances from N of them to all, instead of all distances; 1,000 "
        "is where to start. FILE has the row numbers of those to take, the first row is 0: a .npy, .npz:key or .csv.",
    ),
    _option(
        "--landmark-method",
        default="maxmin",
        metavar="maxmin|random",
        help="Choose each of N landmarks farthest from those before it along the graph, or at random.",
    ),
]

_READING = [
    _option(
        "--delimiter",
        metavar="CHARACTER",
        help="What separates the cells of a .csv; a comma unless given, a tab in a .tsv.",
    ),
    _option(
        "--decimal", metavar="SIGN", help="Decimal sign of a .csv, '.' or ','; with ',' columns are parted by ';'."
    ),
    click.option("--heading/--no-heading", default=None, help="Whether the first line of a .csv names its columns."),
    _option(
        "--id-column",
        metavar="COLUMN",
        help="Column that names the rows: name or number in a .csv or .parquet, or a column of an .h5ad's obs.",
    ),
    _option(
        "--columns",
        metavar="A,B,...",
        help="Columns to read, by name or by number from 1: of a .csv or .parquet, or of an .h5ad's X or layers.",
    ),
    _option("--ignore", metavar="A,B,...", help="Columns to leave out, given as --columns are."),
]

_MANNERS = [
    click.option("-q", "--quiet", is_flag=True, help="No progress and no summary."),
    click.option("--debug", is_flag=True, help="Show where an error came from."),
]


def _stacked(options: list[Callable[[Function], Function]]) -> Callable[[Function], Function]:
    """Decorators applied so that ``--help`` lists them in this order."""
    return lambda function: reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def estimator_options(function: Function) -> Function:
    """The method, and every parameter of the estimators but store and progress."""
    return _stacked(_ESTIMATOR)(function)


def chosen(parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The estimator that the options of a command ask for, and its parameters.

    Without ``--method`` it is the first that has all options that were given. As in scikit-learn a radius takes the
    place of a number of neighbours.

    Raises click.UsageError: The method has no such option.
    """
    found = dict(parameters)
    if found["radius"] is not None and not _given("n_neighbors"):
        found["n_neighbors"] = None
    some = {name for method in METHODS.values() for name in method.own}
    asked = [name for name in found if name in some and _given(name) and found[name] is not None]
    first, *_ = [name for name, method in METHODS.items() if {*asked} <= {*method.own}] or METHODS
    name = found.pop("method") or first
    method = METHODS[name]
    foreign = [parameter for parameter in asked if parameter not in method.own]
    if foreign:
        having = " or ".join(other for other in METHODS if foreign[0] in METHODS[other].own)
        option = _name(_options()[foreign[0]])
        raise click.UsageError(
            f"--method {name} has no {option}: leave one of them out, or give --method {having}",
            click.get_current_context(),
        )
    return method.estimator, {key: value for key, value in found.items() if key not in some or key in method.own}


def method_of(model: Any) -> str:
    """What ``--method`` calls the estimator of a model."""
    return next(name for name, method in METHODS.items() if method.estimator == type(model).__name__)


def in_options(message: str) -> str:
    """A message of the library with the options' names for those of the parameters.

    >>> in_options("n_neighbors=12 is the least, or give disconnected='join'; knn=None, overwrite=True")
    '--neighbors 12 is the least, or give --disconnected join; no --knn, --overwrite'
    >>> in_options("correction=-3.0: 'cailliez', None or a number is allowed; X has 5 rows")
    "--correction -3.0: 'cailliez', none or a number is allowed; POINTS has 5 rows"
    >>> in_options("landmarks=9: X has 5 distinct rows; give that many or fewer")
    '--landmarks 9: POINTS has 5 distinct rows; give that many or fewer'
    """
    said = _parameters().sub(_as_option, message.removesuffix(IN_A_SEARCH))
    said = re.sub(r"(?:^|(?<=^Input )|(?<=[;:] ))X(?=,? [a-z])", "POINTS", said)
    return re.sub(r"\bNone\b", "none", said) if said.startswith("--") else said


@cache
def _options() -> dict[str, click.Option]:
    """The options of a fit by the names of the parameters."""

    def bare() -> None: ...

    return {option.name: option for option in estimator_options(bare).__click_params__}  # type: ignore[attr-defined]


@cache
def _parameters() -> re.Pattern[str]:
    """Parameters with their values; names that are no words of the language also alone."""
    names = sorted(_options(), key=len, reverse=True)
    alone = "|".join(name for name in names if "_" in name)
    value = r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|\{[^{}]*\}|[^\s,;:()]*[^\s,;:().]"
    start = r"(?<![\w.'/\"-])"
    return re.compile(
        rf"{start}(?P<name>{'|'.join(names)})=(?P<value>{value})|{start}(?P<alone>{alone})(?:\['(?P<key>\w+)'\])?(?![\w(=])"
    )


def _as_option(found: re.Match[str]) -> str:
    """A parameter with its value, or alone, as it stands in the shell."""
    option = _options()[found["name"] or found["alone"]]
    name, value = _name(option), found["value"]
    if value is None:
        return f"{name} {found['key']}" if found["key"] else name
    if option.is_flag:
        return name if value == "True" else next(iter(option.secondary_opts), f"no {name}")
    if value == "None":
        return f"{name} none" if "none" in str(option.metavar) else f"no {name}"
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        read = value.strip("{}").replace("'", "").replace(": ", "=")  # {'p': ...}, which stands for any
    if isinstance(read, dict):
        read = f" {name} ".join(shlex.quote(f"{key}={one}") for key, one in read.items())
        return f"{name} {read}"
    return f"{name} {shlex.quote(read) if isinstance(read, str) else value}"


def _name(option: click.Option) -> str:
    """The long name of an option."""
    return max(option.opts, key=len)


def _given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """How a table is read: options that the command gets together, as `how`."""

    @wraps(function)
    def together(**given: Any) -> Any:
        how = {name: given.pop(name) for name in ("delimiter", "decimal", "heading", "id_column", "columns", "ignore")}
        return function(how=how, **given)

    return _stacked(_READING)(together)


def reading_again(how: Mapping[str, Any], *, named: bool) -> list[str]:
    """Words that read other points as the fit's were; a projection finds columns that have names by itself."""
    asked = [("--delimiter", how["delimiter"]), ("--decimal", how["decimal"]), ("--id-column", how["id_column"])]
    if not named:
        asked += [("--columns", how["columns"]), ("--ignore", how["ignore"])]
    words = [word for option, value in asked if value is not None for word in (option, value)]
    return words + ([] if how["heading"] is None else ["--heading" if how["heading"] else "--no-heading"])


def manners(function: Function) -> Function:
    """Options that every command has."""
    return _stacked(_MANNERS)(function)
