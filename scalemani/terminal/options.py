"""The options of the commands, and what the shell calls the library's parameters.

The options of a fit are made from the fields of :class:`scalemani.parameters.Arguments`. The library checks their
values, and :func:`in_options` puts the options' names into what it says.
"""

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from functools import cache, partial, reduce, wraps
from typing import Any, TypeVar

import click

from scalemani.errors import IN_A_SEARCH, ScalemaniError, unknown
from scalemani.methods import REGISTRY, Entry, is_known, named
from scalemani.parameters import SCANNED, Arguments, Option
from scalemani.terminal.help import Words, file_name

__all__ = ["chosen", "estimator_options", "in_options", "manners", "numbers", "reading", "scan_options"]

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]


def _method(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or is_known(value):
        return value
    raise click.UsageError(in_options(str(unknown("method=", value, REGISTRY))), ctx)


def _number_or_word(value: str) -> str | float:
    try:
        return float(value)
    except ValueError:
        return value


def _integer(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not an integer or none") from None


def _count_or_file(value: str) -> Any:
    """A number, or the row numbers in a file."""
    try:
        return int(value)
    except ValueError:
        if "." not in value or value.replace(".", "").isdecimal():
            raise click.BadParameter(f"{value!r} is neither a number nor a file of row numbers") from None
        from scalemani.formats.columns import read_row_numbers

        return read_row_numbers(value)


def _pairs(pairs: Sequence[str]) -> dict[str, Any] | None:
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


def numbers(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[int]:
    """``4:20``, ``4:20:2`` or ``5,8,12`` as numbers; the last of a range is included.

    >>> numbers(None, None, ["4:8"]), numbers(None, None, ["4:9:2,12"])
    ([4, 5, 6, 7, 8], [4, 6, 8, 12])
    """
    found: list[int] = []
    for part in ",".join(values).split(","):
        try:
            first, *more = map(int, part.split(":"))
            last, step = [*more, *(first, 1)[len(more) :]]
            if not 1 <= first <= last <= first + MOST_NUMBERS or step < 1:
                raise ValueError
        except ValueError:
            raise click.BadParameter(
                f"{part!r} is no number from 1 on, nor FIRST:LAST, such as 5, 5,8,12 or 4:20:2"
            ) from None
        found += range(first, last + 1, step)
    return found


MOST_NUMBERS = 10_000  # of a range

#: What reads the words of a parameter, by the kind that :mod:`scalemani.parameters` says; click reads the others.
_READERS: dict[str, Callable[[Any], Any]] = {
    "number, word or none": _number_or_word,
    "word or none": str,
    "integer or none": _integer,
    "count or file": _count_or_file,
    "pairs": _pairs,
}
_TYPES = {"integer": int, "number": float, "count or file": file_name}


def option_of(parameter: Field[Any]) -> Decorator:
    """The option of a field of :class:`scalemani.parameters.Arguments`."""
    option: Option = parameter.metadata["option"]
    default = parameter.default
    shown = default is not None and default is not False and "unless given" not in option.help
    names = [*(option.names or (f"--{parameter.name.replace('_', '-')}",)), parameter.name]
    more: dict[str, Any] = {"help": option.help, "default": default, "show_default": shown}
    if option.kind == "flag":
        return click.option(*names, is_flag=True, **more)
    reader = _READERS.get(option.kind)
    if reader is not None:
        optional = option.kind.endswith("or none")
        more["callback"] = lambda ctx, param, value: (
            None if value is None or (optional and value.lower() == "none") else reader(value)
        )
        more["default"] = None if default is None else str(default)
    more |= (
        {"multiple": True}
        if option.kind == "pairs"
        else {"type": _TYPES.get(option.kind) or Words(partial(_words_of, parameter.name))}
    )
    return click.option(*names, metavar=option.metavar, **more)


def _every_parameter() -> Iterator[Field[Any]]:
    """Those of all methods, then what only some have."""
    for kind in (Arguments, *(named(method.arguments) for method in REGISTRY.values() if method.arguments)):
        yield from fields(kind)


def _words_of(name: str) -> list[str]:
    """The values of a parameter that are words, of all methods: for completion."""
    if name == "metric":
        from scalemani.neighbors.metrics import GIVEN_METRICS, metric_names

        return [*metric_names(), *GIVEN_METRICS]
    same = [one for one in _every_parameter() if one.name == name]
    shown = [
        word for one in same if one.metadata["option"] for word in (one.metadata["option"].metavar or "").split("|")
    ]
    choices = [word for one in same for word in one.metadata["choices"]]
    return [*dict.fromkeys([*(word for word in shown if word.islower()), *choices])]


def _parameters_with_options() -> list[Field[Any]]:
    """Of methods that share a name the first says what it is."""
    found: dict[str, Field[Any]] = {}
    for one in _every_parameter():
        if one.metadata["option"]:
            found.setdefault(one.name, one)
    return list(found.values())


_ESTIMATOR = [
    click.option(
        "--method",
        metavar="METHOD",
        type=Words(lambda: REGISTRY),
        callback=_method,
        help=f"One of those above, {next(iter(REGISTRY))} unless given. An option that only one method has "
        "chooses that method; so does a value that only one has, such as --scale whitened.",
    ),
    *map(option_of, _parameters_with_options()),
    click.option(
        "--labels",
        metavar="FILE[:COLUMN]",
        help="The class of each row, in the order of POINTS, in a file that is named as for report --color. Edges join "
        "rows of one class only.",
    ),
]

_READING = [
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Sign between the cells of a .csv; a comma unless given, a tab in a .tsv.",
    ),
    click.option(
        "--decimal", metavar="SIGN", help="Decimal sign of a .csv, '.' or ','; with ',' the cells are separated by ';'."
    ),
    click.option(
        "--heading/--no-heading",
        default=None,
        help="Whether the first line of a .csv names its columns; unless given it is looked at.",
    ),
    click.option(
        "--id-column",
        metavar="COLUMN",
        help="Column with the names of the rows, by its name or its number from 1: of a .csv or .parquet, or of an "
        ".h5ad's obs.",
    ),
    click.option(
        "--columns",
        metavar="A,B,...",
        help="Columns to read, by name or by number from 1: of a .csv or .parquet, or of an .h5ad's X or layers.",
    ),
    click.option("--ignore", metavar="A,B,...", help="Columns to leave out, given as for --columns."),
]

_MANNERS = [  # --debug is looked for by `scalemani.terminal.console`
    click.option("-q", "--quiet", is_flag=True, help="No progress and no summary."),
    click.option("--debug", is_flag=True, expose_value=False, help="Show where an error came from."),
]


def _stacked(options: Sequence[Decorator]) -> Callable[[Function], Function]:
    """Decorators applied so that ``--help`` lists them in this order."""
    return lambda function: reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


#: The method, every parameter of the estimators but store and progress, and labels.
estimator_options = _stacked(_ESTIMATOR)
#: Those of a scan over numbers of neighbours.
scan_options = _stacked([option_of(one) for one in fields(Arguments) if one.name in SCANNED])
#: Options that every command has.
manners = _stacked(_MANNERS)


def chosen(parameters: Mapping[str, Any], labels: str | None) -> tuple[Entry, dict[str, Any]]:
    """The estimator that the options of a command ask for, and its parameters.

    labels: Where they are, if there are any.

    Without ``--method`` it is the one that has all options that were given, with these values; the first of several
    that have no options of their own. As in scikit-learn a radius takes the place of a number of neighbours.

    Raises click.UsageError: The method has no such option, or several methods have it.
    """
    found = dict(parameters)
    if found["radius"] is not None and not _given("n_neighbors"):
        found["n_neighbors"] = None
    some = {name for method in REGISTRY.values() for name in method.own}
    asked = [name for name in found if name in some and _given(name) and found[name] is not None]
    taking = [name for name, method in REGISTRY.items() if labels is None or method.takes_labels]
    name = found.pop("method") or _meant(taking, {one: found[one] for one in asked})
    method = REGISTRY[name]
    foreign = [parameter for parameter in asked if parameter not in method.own]
    foreign += [parameter for parameter in method.lacks if _given(parameter)]
    foreign += [] if name in taking else ["labels"]
    if foreign:
        having = [
            other
            for other in taking
            if foreign[0] in REGISTRY[other].own or (foreign[0] not in some and foreign[0] not in REGISTRY[other].lacks)
        ]
        option = _name(_options()[foreign[0]])
        remedy = f", or give --method {' or '.join(having)}" if having else ""
        raise click.UsageError(
            f"--method {name} has no {option}: leave one of them out{remedy}", click.get_current_context()
        )
    return method, {  # the rest is as the estimator has it
        key: value
        for key, value in found.items()
        if (_given(key) or key == "n_neighbors") and (key not in some or key in method.own)
    }


def _meant(taking: Sequence[str], asked: Mapping[str, Any]) -> str:
    """The method that has these parameters, with these values; the first of those it may be where it has none of them.

    Raises click.UsageError: No method has such a value, or several have all of them.
    """
    having = [name for name in taking if {*asked} <= {*REGISTRY[name].own}]
    if not asked or len(having) < 2:
        return [*having, *taking, *REGISTRY][0]
    context, own = click.get_current_context(), {name: _own(REGISTRY[name]) for name in having}
    fitting = having
    for one, value in asked.items():
        refusals = {name: _refusal(own[name][one], value) for name in having}
        if all(refusals.values()):
            words = dict.fromkeys(word for name in having for word in own[name][one].metadata["choices"])
            said = str(unknown(f"{one}=", value, words)) if words else str(refusals[having[0]])
            raise click.UsageError(in_options(said), context)
        fitting = [name for name in fitting if not refusals[name]]
    if len(fitting) != 1:
        options = " and ".join(_name(_options()[one]) for one in asked)
        what = f"several methods have {options}" if fitting else f"no method has these values of {options}"
        raise click.UsageError(f"{what}: give --method {' or '.join(fitting or having)}", context)
    return fitting[0]


def _own(method: Entry) -> dict[str, Field[Any]]:
    return {one.name: one for one in fields(named(method.arguments) if method.arguments else method.load())}


def _refusal(parameter: Field[Any], value: Any) -> str:
    """Why a parameter can't have a value; nothing if it can."""
    check = parameter.metadata["check"]
    try:
        if check is not None:
            check(parameter.name, value)
    except ScalemaniError as error:
        return str(error)
    return ""


def in_options(message: str) -> str:
    """A message of the library with the options' names for those of the parameters.

    >>> in_options("n_neighbors=12 is the least, or give disconnected='join'; knn=None, overwrite=True")
    '--neighbors 12 is the least, or give --disconnected join; no --knn, --overwrite'
    >>> in_options("correction=-3.0: 'cailliez', None or a number is allowed; X has 5 rows")
    "--correction -3.0: 'cailliez', none or a number is allowed; POINTS has 5 rows"
    >>> in_options("landmarks=9: X has 5 distinct rows; give that many or fewer")
    '--landmarks 9: POINTS has 5 distinct rows; give that many or fewer'
    >>> in_options("y is 'a' in all 3 rows; give their labels, or leave y out")
    "--labels is 'a' in all 3 rows; give their labels, or leave --labels out"
    >>> in_options("kernel='cosine': allowed are 'rbf', None or a function of two blocks of rows")
    "--kernel cosine: allowed are 'rbf', none"
    >>> in_options("give both ids (name_rows, or --id-column of fit), or rows=(rows of the one, rows of the other)")
    'give both ids (--id-column of fit)'
    >>> in_options("Input X contains NaN at row 3, column 1")
    'Input POINTS contains NaN at row 3, column 1 (rows and columns are counted from 0)'
    """
    said = _parameters().sub(_as_option, message.removesuffix(IN_A_SEARCH))
    for python, shell in _IN_THE_SHELL:
        said = python.sub(shell, said)
    said = re.sub(r"\bNone\b", "none", said) if said.startswith("--") else said
    if not re.search(r"(?<!tile )\brows? \d", said) or re.search(r"\brows 0 to|row is 0", said):
        return said
    both = " and columns" if re.search(r"row \d+, column \d", said) else ""
    return f"{said} (rows{both} are counted from 0)"


_BEFORE_X = r"(^|^Input |[;:] |\b(?:sparse|bring|with|and|of|than|where) )"
#: What the library calls things in Python, and what the shell does. A column may be called X or y, in quotes or a list.
_IN_THE_SHELL = [
    (re.compile(_BEFORE_X + r"X(?=,? [a-z]|:|$)"), r"\1POINTS"),
    (re.compile(r"^Input A(?= [a-z])"), "Input ROWS"),
    (re.compile(r"(^|leave |[;:] |\bof )y(?= [a-z]|$|[:;)])"), r"\1--labels"),
    (re.compile(r",? or a function of two (?:blocks of )?rows"), ""),
    (re.compile(r": n_samples = \d+$"), ""),
    (re.compile(r"\bname_rows(, or --id-column of fit)?"), "--id-column of fit"),
    (re.compile(r", or rows=\(rows of the one, rows of the other\)$"), ""),
    (re.compile(r"\bcolumn \d+, (?=['\"])"), "column "),  # of X, and options count those of the file, from 1
]


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


def check_reading(how: Mapping[str, Any], new: Any, color: Any) -> None:
    """Refuse what says how a file of --project is read where there is none; text of --color has signs, too."""
    for option, value in how.items():
        of_text = option in ("delimiter", "decimal") and color
        if value is not None and not new and not of_text:
            name = f"--{option.replace('_', '-')}"
            raise ScalemaniError(f"{name} says how a file of --project is read: give one, or leave {name} out")


def reading_again(how: Mapping[str, Any], *, named: bool) -> list[str]:
    """Words that read other points as the fit's were; a projection finds columns that have names by itself."""
    asked = [("--delimiter", how["delimiter"]), ("--decimal", how["decimal"]), ("--id-column", how["id_column"])]
    if not named:
        asked += [("--columns", how["columns"]), ("--ignore", how["ignore"])]
    words = [word for option, value in asked if value is not None for word in (option, value)]
    return words + ([] if how["heading"] is None else ["--heading" if how["heading"] else "--no-heading"])
