"""What a fitted model says of itself: takes a model, gives lines for people and a record for programs."""

import math
import os
import shlex
from collections.abc import Sequence
from itertools import count
from typing import Any

from scalemani.embedding.spectrum import said_of_list, side, sides, two_digits
from scalemani.report.words import SAID_OF_GIVEN
from scalemani.terminal.options import in_options, method_of

__all__ = ["as_json_values", "begun_line", "fit_lines", "info_lines", "info_record", "next_lines", "result_in"]


def number(value: Any) -> str:
    """Four significant digits.

    >>> number(1234.56), number(0.000123456), number(None)
    ('1,235', '0.0001235', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, (str, bool)):
        return str(value)
    if abs(value) >= 1000 and abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def numbers(values: Sequence[Any], which: list[str] | None = None) -> str:
    """Several numbers in one line and one style, with what bounds they are.

    >>> numbers([2659820.0, 404.174]), numbers([2.5e9, 404.174]), numbers([0.5, 0.2], ["at most", ""])
    ('2,659,820  404.2', '2.500e+09  4.042e+02', 'at most 0.5, 0.2')
    """
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    power = len(values) > 1 and (largest >= 1e7 or 0 < largest < 1e-3)
    words = [f"{value:.3e}" if power and value else number(value) for value in values]
    return said_of_list(words, which or [""] * len(words))


Before = tuple[str | float | None, str]


def result_in(store: str) -> Before | None:
    """The correction whose result a store holds, and a name of that result; None without a result."""
    from scalemani.errors import ScalemaniError
    from scalemani.steps.records import SolveRecord
    from scalemani.storage.run import RunStore

    try:
        state = RunStore(store).record(SolveRecord)
    except ScalemaniError:  # nothing there, or what the fit will refuse itself
        return None
    return None if state is None else (state.spectrum.correction, state.revision)


def begun_line(store: str) -> str | None:
    """What a fit that was stopped has left in a store; None where none was begun, or it ended."""
    from scalemani.errors import DamagedStoreError, ScalemaniError
    from scalemani.storage.run import RunStore

    try:
        run = RunStore(store)
        stages = run.document.stages
        there = [word for name, word in (("neighbors", "the neighbours"), ("graph", "the graph")) if name in stages]
        if "fit" in stages or not there:
            return None
        if run.has_distances:
            rows = len(run.blocks)
            there.append(f"{rows - len(run.missing_rows()):,} of {rows:,} rows of tiles")
        if "landmarks" in stages:
            from scalemani.geodesics.landmarks import Layout

            layout = Layout.of(run)
            found, turned = layout.by_landmark(run), layout.by_point(run)
            total = len(found.rows) + len(turned.rows)
            left = len(turned.missing())
            done = total - left - (len(found.missing()) if left else 0)
            there += ["the landmarks", f"{done:,} of {total:,} blocks of distances to them"]
        if reads := run.pieces("solve").count("read_"):
            there.append(f"{reads} reads of the distances")
    except (ScalemaniError, DamagedStoreError):  # nothing there, or what the fit says itself
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
    elif before is not None and before[0] not in (None, model.spectrum_["correction"]):
        lines.append(f"replaced         the result there with correction {before[0]}; its distances were used again")
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
    parameters = {name: value for name, value in info_record(model)["parameters"].items() if value is not None}
    listed = ", ".join(f"{name}={value}" for name, value in parameters.items())
    named = [f"store            {model.store_}", f"options          {in_options(listed)}"]
    return [*named, *_spectrum_lines(model, all_shares=True)]


def info_record(model: Any) -> dict[str, Any]:
    """Store, parameters and spectrum as JSON values; what is not finite becomes null."""
    from scalemani.parameters import PASSING

    parameters = {name: value for name, value in model.get_params().items() if name not in PASSING}
    record = {"store": str(model.store_), "parameters": parameters, "spectrum": dict(model.spectrum_)}
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
    reads = [] if "n_landmarks" in s else [f"reads of D       {s['n_passes']}"]
    return [
        f"method           {method_of(model)}",
        f"points           {points}",
        *(_neighbor_lines(s) if all_shares and "knn_method" in s else []),
        *_landmark_lines(s),
        *([f"given            {given}"] if (given := SAID_OF_GIVEN.get(s.get("knn_method"))) else []),
        f"correction       {_correction(s)}",
        f"eigenvalues      {numbers(s['eigenvalues'])}",
        f"shares of trace  {_bounded(s, 'share')}",
        *([f"  without shift  {numbers(s['share_unshifted'])}"] if s["shift"] else []),
        *(_share_lines(s) if all_shares else []),
        f"residuals        {numbers(s['residuals'])}",
        *reads,
        *(f"note             {sentence}" for sentence in s.get("notes", [])),
        *(f"warning          {in_options(sentence)}" for sentence in s.get("warnings", []) if all_shares),
    ]


def _neighbor_lines(s: dict[str, Any]) -> list[str]:
    """How they were searched for."""
    said, account = f"{s['knn_method']}, recall {s['knn_recall']:.3f}", s.get("knn_account")
    if account is not None:
        said += f"; {'' if account['counted'] else 'about '}{account['n_distances']:,} distances"
        if account["n_shards"] > 1:
            said += f" in {account['n_shards']} shards"
    return [f"neighbours       {said}"]


def _landmark_lines(s: dict[str, Any]) -> list[str]:
    """How many they are, and how far from the points; distances are to these alone."""
    if "n_landmarks" not in s:
        return []
    m, how = s["n_landmarks"], {"maxmin": "by maxmin", "random": "at random"}.get(s["landmark_method"], "as given")
    reach = s["landmark_reach"]
    median = f"the median distance is about {two_digits(s['median_distance'])}"
    within = "" if reach is None else f"; no point is farther than {number(reach)} from one, along the graph; {median}"
    return [
        f"landmarks        {m:,} {how}{within}",
        f"distances        to landmarks: {s['n_vertices']:,} points x {m:,}",
    ]


def _bounded(s: dict[str, Any], key: str) -> str:
    """A number or several, exact ones alone and others with their side."""
    return numbers(s[key] if isinstance(s[key], (list, tuple)) else [s[key]], sides(s, key))


def _correction(s: dict[str, Any]) -> str:
    """Which it is, and how large its constant."""
    kind = s["correction"] or "none"
    if kind == "flip":
        return "flip: the moduli of the eigenvalues"
    if kind == "none":
        return kind
    median = f"about {two_digits(s['constant_over_median'])} times the median distance"
    if kind == "lingoes":
        return f"lingoes: constant s = {number(s.get('lingoes_constant', s['shift']))}; sqrt(2s) is {median}"
    at = f"of about {two_digits(s['median_distance'])}"
    return f"{kind}: constant c = {number(s['additive_constant'])}, {median} {at}"


def _share_lines(s: dict[str, Any]) -> list[str]:
    """The spectrum by the usual definitions, those of other programs by their names."""
    lowest = _bounded(s, "most_negative_eigenvalue")
    if not s["most_negative_eigenvalue"] and side(s, "most_negative_eigenvalue"):
        negative = "none was found without a correction"
    else:
        negative = f"{_bounded(s, 'negative_mass')} without a correction; the lowest eigenvalue is {lowest}"
    own = s["relative_eig"]
    return [
        f"  of squares     {numbers(s['share_of_squares'])}",
        f"  ape            Rel_corr_eig {_bounded(s, 'rel_corr_eig')}",
        *([] if None in own else [f"                 Relative_eig {numbers(own)}"]),
        f"                 Broken_stick {numbers(s['broken_stick'])}",
        f"  R cmdscale     GOF {_bounded(s, 'gof')}",
        f"  scikit-learn   reconstruction_error {number(s['reconstruction_error'])}",
        f"trace            {_bounded(s, 'trace')}; {number(s['trace_unshifted'])} without a correction",
        f"negative mass    {negative}",
        f"next eigenvalue  {number(s['next_eigenvalue'])}; a gap of {number(s['gap'])}",
    ]
