"""Options of the command line: takes words, gives the estimator's parameters.

Each parameter of the estimator has one option here, with the same default (a test compares them), and
its own checks are the library's: a wrong value is refused there, in one place.
"""

import json
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any, TypeVar

import click

__all__ = ["estimator_options", "manners", "reading"]

Function = TypeVar("Function", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, Any], Any]


def _correction(ctx: click.Context, param: click.Parameter, value: str) -> str | float | None:
    if value.lower() == "none":
        return None
    try:
        return float(value)
    except ValueError:
        return value


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
        from scalemani.terminal.columns import read_row_numbers

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


def _option(
    *names: str,
    default: Any = None,
    metavar: str | None = None,
    of: Any = None,
    help: str,
    read: Callback | None = None,
) -> Callable[[Function], Function]:
    return click.option(
        *names,
        default=default,
        show_default=default is not None,
        metavar=metavar,
        type=of,
        help=help,
        callback=read,
    )


_ESTIMATOR = [
    _option(
        "-k",
        "--neighbors",
        "n_neighbors",
        default=10,
        of=int,
        help="Neighbours of a point, itself not counted.",
    ),
    _option("--radius", of=float, help="Neighbours within this distance, instead of --neighbors."),
    _option("-p", "--components", "n_components", default=2, of=int, help="Axes of the embedding."),
    _option(
        "--metric",
        default="euclidean",
        metavar="NAME",
        help="A metric of pynndescent's. precomputed: POINTS are distances or, sparse, the finished graph. "
        "geodesic: POINTS are geodesic distances.",
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
    _option(
        "--correction",
        default="cailliez",
        metavar="cailliez|lingoes|flip|none|NUMBER",
        read=_correction,
        help="What makes a kernel of the distances: the least constant added to them, to their squares, the moduli of "
        "its eigenvalues, nothing (plain Isomap), or this constant added to them.",
    ),
    _option("--constant-solver", default="ritz", metavar="ritz|power|arnoldi", help="How the constant is found."),
    _option("--projection", default="continuous", metavar="continuous|paper", help="How new points are placed."),
    _option("--knn", default="auto", metavar="auto|nndescent|exact", help="How neighbours are searched."),
    _option("--tol", default=1e-6, of=float, help="Relative residual at which eigenpairs are done."),
    _option(
        "--seed",
        "random_state",
        default="0",
        metavar="INTEGER|none",
        read=_seed,
        help="Of everything random.",
    ),
    _option(
        "--scheduler",
        metavar="ADDRESS",
        help="A Dask scheduler, such as tcp://host:8786; threads of this process unless given.",
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
    _option("--compression", metavar="lz4|zstd", help="Of the distances on disk; none unless given."),
    _option(
        "--landmarks",
        metavar="N|FILE",
        read=_landmarks,
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
    _option("--delimiter", metavar="CHARACTER", help="Of a .csv; a comma unless given."),
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
    """Every parameter of ``KernelIsomap`` but its store and its progress."""
    return _stacked(_ESTIMATOR)(function)


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """How a table is read: options that the command gets together, as `how`."""

    @wraps(function)
    def together(
        delimiter: Any, decimal: Any, heading: Any, id_column: Any, columns: Any, ignore: Any, **others: Any
    ) -> Any:
        how = {"delimiter": delimiter, "decimal": decimal, "heading": heading, "id_column": id_column}
        return function(how={**how, "columns": columns, "ignore": ignore}, **others)

    return _stacked(_READING)(together)


def manners(function: Function) -> Function:
    """Options that every command has."""
    return _stacked(_MANNERS)(function)
