"""What the program says of a model: lines for people, and a record for programs."""

import math
import os
import shlex
from collections.abc import Sequence
from itertools import count
from typing import Any

from scalemani.methods import word_of
from scalemani.methods.base import method_for
from scalemani.methods.words import Words, class_rows, given_rows, landmark_rows_of, shortcut_rows
from scalemani.report.words import setting
from scalemani.terminal.options import in_options

__all__ = ["as_json_values", "begun_line", "fit_lines", "info_lines", "info_record", "next_lines", "result_in"]


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
    lines = [*_spectrum_lines(model), f"store            {store}"]
    if before is not None and not worked:
        lines.append("nothing to do    the fit was finished before")
    elif before is not None:
        asked = (result_in(store) or before)[0]
        other = [f"{name} {setting(was)}" for name, was in before[0].items() if asked.get(name, was) != was]
        lines += (
            [f"replaced         the result there with {other[0]}; what it had found was used again"] if other else []
        )
    return lines


def next_lines(model: Any, store: str, points: str, written: str | None, needed: Sequence[str] = ()) -> list[str]:
    """Where the coordinates are, and two commands that go on from there, as they are typed.

    written: The file that they were written to.
    needed: Options that reading `points` takes.
    """
    name = store.rstrip("/").rpartition("/")[2].removesuffix(".zarr") or "run"
    file = shlex.quote(_free(name, ".csv"))
    where = f"{written} (and {store})" if written else f"in {store}; the same fit with --embedding {file} writes them"
    lines = [f"coordinates      {where}", f"to see them      {_command('report', store, _free(name, '.html'))}"]
    if model.metric in ("precomputed", "geodesic"):
        return [*lines, f"to read more     {_command('info', store)}"]
    lost = ["--allow-nan"] if len(model.kept_) < len(model.embedding_) else []
    place = _command("project", store, points, _free(f"{name}.placed", ".csv"), *needed, *lost)
    return [*lines, f"to place others  {place}  # or a file of new points"]


def _free(name: str, ending: str) -> str:
    """A name for a file in this folder that no file has."""
    return next(free for i in count(1) if not os.path.lexists(free := f"{name}{'' if i == 1 else f'-{i}'}{ending}"))


def _command(*words: str) -> str:
    """A line of shell."""
    return shlex.join(["scalemani", *words])


def info_lines(model: Any) -> list[str]:
    """The lines of ``scalemani info``."""
    given = info_record(model)["parameters"]
    unsaid = {"supervised"} | words_of(model).unused(given)
    listed = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None and name not in unsaid)
    named = [f"store            {model.store_}", f"options          {in_options(listed)}"]
    return [*named, *_spectrum_lines(model, all_shares=True)]


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


def _spectrum_lines(model: Any, *, all_shares: bool = False) -> list[str]:
    s = model.spectrum_
    merged = s["n_rows"] - s["n_distinct"]
    points = f"{s['n_rows']:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    if s["n_vertices"] < s["n_distinct"]:
        points += f", {s['n_distinct'] - s['n_vertices']:,} outside the largest component"
    own = [
        *given_rows(s),
        *class_rows(s),
        *shortcut_rows(s, everything=all_shares),
        *landmark_rows_of(s),
        *words_of(model).lines(s, everything=all_shares),
    ]
    return [
        f"method           {word_of(type(model))}",
        f"points           {points}",
        *(_neighbor_lines(s) if all_shares and "knn_method" in s else []),
        *(f"{name:<16} {value}" for name, value in own),
        *(f"note             {sentence}" for sentence in s.get("notes", [])),
        *(f"warning          {in_options(sentence)}" for sentence in s.get("warnings", []) if all_shares),
    ]


def words_of(model: Any) -> Words:
    """What the model's method says of it."""
    return method_for(type(model)).words


def _neighbor_lines(s: dict[str, Any]) -> list[str]:
    """How they were searched for."""
    said, account = f"{s['knn_method']}, recall {s['knn_recall']:.3f}", s.get("knn_account")
    if account is not None:
        said += f"; {account['n_distances']:,} distances" if "n_distances" in account else ""
        said += f" in {account['n_shards']} shards" if account["n_shards"] > 1 else ""
    return [f"neighbours       {said}"]
