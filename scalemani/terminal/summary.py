"""What the program says of a model: lines for people, and a record for programs."""

import itertools
import math
import os
import shlex
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from scalemani.methods import word_of
from scalemani.methods.base import method_for
from scalemani.methods.words import Row, Section, Table, Words, class_rows, given_rows, shortcut_rows
from scalemani.report.words import setting
from scalemani.terminal.options import in_options
from scalemani.words import aligned, bytes_in_words, count, plain_number

__all__ = ["as_json_values", "begun_line", "fit_lines", "info_lines", "info_record", "next_lines", "result_in"]


MOST_WIDTH = 100  # of lines that are wrapped
Before = tuple[dict[str, Any], str]


def result_in(store: str) -> Before | None:
    """What the fit in a store was asked for, and a name of its result; None without a result."""
    from scalemani.errors import ScalemaniError
    from scalemani.parameters import PASSING
    from scalemani.steps.records import FitRecord
    from scalemani.storage.run import RunStore

    try:
        run = RunStore(store)
        fit = run.record(FitRecord)
    except ScalemaniError:  # nothing there, or what the fit will refuse itself
        return None
    if fit is None:
        return None
    return {name: value for name, value in fit.fields.items() if name not in PASSING}, run.revision


def begun_line(store: str) -> str | None:
    """What a fit that was stopped has left in a store; None where none was begun, or it ended."""
    from scalemani.errors import DamagedStoreError, ScalemaniError
    from scalemani.methods.base import method_of
    from scalemani.steps.records import FitRecord
    from scalemani.storage.run import RunStore

    try:
        run = RunStore(store)
        if run.record(FitRecord) is not None:
            return None
        there = [word for step in method_of(run).steps_in(run) for word in step.begun(run)]
    except (ScalemaniError, DamagedStoreError):  # nothing there, or what the fit says itself
        return None
    if not there:
        return None
    return f"{store}: goes on; {', '.join(there)} are there"


def fit_lines(model: Any, store: str, before: Before | None = None, *, worked: bool = True) -> list[str]:
    """The lines that ``scalemani fit`` ends with.

    before: The :func:`result_in` the store when it began.
    worked: Whether any stage was run.
    """
    lines = [*_plain_lines(model), f"store            {store}"]
    if before is not None and not worked:
        lines.append("nothing to do    the fit was finished before")
    elif before is not None:
        asked = (result_in(store) or before)[0]
        other = [f"{name} {setting(was)}" for name, was in before[0].items() if asked.get(name, was) != was]
        said = "replaced         the result that was there ({}); what it had found was used again"
        lines += [said.format(other[0])] if other else []
    return lines


def next_lines(model: Any, store: str, points: str, written: str | None, needed: Sequence[str] = ()) -> list[str]:
    """Where the coordinates are, and two commands that go on from there, as they are typed.

    written: The file that they were written to.
    needed: Options that reading `points` takes.
    """
    file = shlex.quote(_free(_name(store), ".csv"))
    where = f"{written} (and {store})" if written else f"in {store}; the same fit with --embedding {file} writes them"
    return [f"coordinates      {where}", *_next_lines(model, store, points, needed, "  # or a file of new points")]


def _next_lines(model: Any, store: str, points: str, needed: Sequence[str] = (), more: str = "") -> list[str]:
    """Two commands that go on from a store."""
    name = _name(store)
    kept = "distances" if words_of(model).compared(model.spectrum_).distances else "neighbours"
    page = _command("report", store, _free(name, ".html"))
    lines = [f"to see the map   {page}  # and how well it keeps {kept}"]
    if model.metric in ("precomputed", "geodesic"):
        return [*lines, f"to read more     {_command('info', store)} --all"]
    lost = ["--allow-nan"] if len(model.kept_) < len(model.embedding_) else []
    place = _command("project", store, points, _free(f"{name}.placed", ".csv"), *needed, *lost)
    return [*lines, f"to place others  {place}{more}"]


def _name(store: str) -> str:
    """What files that are made of a store may be called."""
    return store.rstrip("/").rpartition("/")[2].removesuffix(".zarr") or "run"


def _free(name: str, ending: str) -> str:
    """A name for a file in this folder that no file has."""
    tried = (f"{name}{'' if i == 1 else f'-{i}'}{ending}" for i in itertools.count(1))
    return next(free for free in tried if not os.path.lexists(free))


def _command(*words: str) -> str:
    return shlex.join(["scalemani", *words])


def info_lines(model: Any, store: str | None = None, *, everything: bool = False) -> list[str]:
    """The lines of ``scalemani info``.

    store: As it was typed.
    everything: All that is known, with what each number is.
    """
    if everything:
        return _all_lines(model)
    size, typed = _size(str(model.store_)), store or str(model.store_)
    names = "  # with --id-column COLUMN, if a column of it names the rows" if hasattr(model, "ids_") else ""
    return [
        *_plain_lines(model),
        *(f"warning          {in_options(sentence)}" for sentence in model.spectrum_.get("warnings", [])),
        f"store            {model.store_}" + (f", {bytes_in_words(size)}" if size else ""),
        *(line for line in _next_lines(model, typed, "new.csv", more=names) if not line.startswith("to read more")),
        f"all numbers      {_command('info', typed)} --all",
    ]


def info_record(model: Any) -> dict[str, Any]:
    """Store, parameters, spectrum, and which of its numbers are bounds, as JSON values; not finite ones become null."""
    from scalemani.parameters import PASSING

    parameters = {name: value for name, value in model.get_params().items() if name not in PASSING}
    s = model.spectrum_
    record = {
        "store": str(model.store_),
        "parameters": parameters,
        "spectrum": dict(s),
        "bounds": words_of(model).bounds(s),
    }
    cleaned = as_json_values(record)
    assert isinstance(cleaned, dict)
    return cleaned


def as_json_values(value: Any) -> Any:
    """The same as JSON values; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): as_json_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        items = value.tolist() if hasattr(value, "tolist") else value
        return [as_json_values(item) for item in items] if isinstance(items, (list, tuple)) else as_json_values(items)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else str(value)


def _plain_lines(model: Any) -> list[str]:
    return [f"{name:<16} {value}" for name, value in _plain_rows(model)]


def _plain_rows(model: Any) -> list[Row]:
    """What the map is, what it is made of and how good it is, in words that anyone reads."""
    s, words = model.spectrum_, words_of(model)
    merged, outside = s["n_rows"] - s["n_distinct"], s["n_distinct"] - s["n_vertices"]
    points = f"{count(s['n_rows'], 'row')} on {count(len(model.embedding_.T), 'axis', 'axes')}"
    points += f", {merged:,} merged with equal ones" if merged else ""
    points += f", {outside:,} outside the largest component: they have no coordinates" if outside > 0 else ""
    return [
        ("method", word_of(type(model))),
        ("keeps", words.keeps(s)),
        ("points", points),
        *given_rows(s),
        *class_rows(s),
        *_graph_rows(model, s),
        *shortcut_rows(s),
        *words.rows(s),
        *(("note", sentence) for sentence in s.get("notes", [])),
    ]


def _graph_rows(model: Any, s: dict[str, Any]) -> list[Row]:
    """The neighbours that make the graph, and its parts; nothing of a graph or distances that were given."""
    if s.get("knn_method") in ("geodesic", "graph"):
        return []
    asked = model.get_params()
    near = f"within {plain_number(asked['radius'])}" if asked["n_neighbors"] is None else f"{asked['n_neighbors']:,}"
    said = f"{near} of each point" if asked["n_neighbors"] is not None else f"those {near} of a point"
    said += f", {setting(asked['metric'])} distances" if asked["metric"] not in ("euclidean", "precomputed") else ""
    said += f"; some are missed (recall {s['knn_recall']:.3f})" if s["knn_recall"] < 1 else ""
    parts = s["n_components_of_graph"]
    joined = f", joined by {count(s['n_bridges'], 'bridge')}" if s["n_bridges"] else ""
    return [("neighbours", said + (f"; the graph has {parts:,} parts{joined}" if parts > 1 else ""))]


def _size(store: str) -> int:
    """Bytes of the files in a folder; 0 in a bucket, where each would have to be asked for."""
    return sum(os.stat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(store) for name in names)


# ---- all that is known -------------------------------------------------------------------------------------------


def _all_lines(model: Any) -> list[str]:
    """By groups: each number with what it is."""
    s, words, given = model.spectrum_, words_of(model), info_record(model)["parameters"]
    unsaid = {"supervised"} | words.unused(given)
    asked = [(name, value) for name, value in given.items() if value is not None and name not in unsaid]
    typed = [in_options(f"{name}={value!r}") for name, value in asked]
    options = [(said[3:], "no") if said.startswith("no --") else said.partition(" ")[::2] for said in typed]
    found = [*given_rows(s), *class_rows(s), *_neighbor_rows(s), *shortcut_rows(s, everything=True)]
    counted = [*words.of_the_run(s), *(("warning", in_options(said)) for said in s["warnings"])]
    groups = [
        Section("In short", tables=[Table([], _plain_rows(model))]),
        Section("What was asked for", tables=[Table([], options)]),
        Section("Neighbours and graph", tables=[Table([], found)]),
        *words.sections(s),
        Section("The run", tables=[Table([], [*counted, ("store", str(model.store_))])]),
    ]
    width = min(shutil.get_terminal_size().columns, MOST_WIDTH)
    return [line for group in groups for line in _section_lines(group, width)][:-1]


def _section_lines(section: Section, width: int) -> list[str]:
    """A section of the report as text: its heading, then paragraphs and tables, two columns in; then an empty line."""
    lines = [section.heading]
    for paragraph in section.paragraphs:
        lines += [*textwrap.wrap(in_options(paragraph), width, initial_indent="  ", subsequent_indent="  "), ""]
    for table in section.tables:
        first = max((len(row[0]) for row in table.rows), default=0)
        if table.words or not table.headings:
            for name, *_, value in table.rows:
                lines += textwrap.wrap(
                    f"  {name:<{first}}  {value}",
                    max(width, first + 30),
                    subsequent_indent=" " * (first + 4),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        else:
            lines += ["  " + line for line in aligned([*table.headings], [[*row] for row in table.rows])]
        lines.append("")
    return lines


def words_of(model: Any) -> Words:
    """What the model's method says of it."""
    return method_for(type(model)).words


def _neighbor_rows(s: dict[str, Any]) -> list[Row]:
    """How neighbours were searched for, and what became of them."""
    if "knn_method" not in s:
        return []
    said, account = f"{s['knn_method']}, recall {s['knn_recall']:.3f}", s.get("knn_account")
    if account is not None:
        said += f"; {account['n_distances']:,} distances" if "n_distances" in account else ""
        said += f" in {account['n_shards']} shards" if account["n_shards"] > 1 else ""
    return [("neighbours", said), ("edges", f"{s['n_edges']:,}")]
