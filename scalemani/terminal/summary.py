"""What a fitted model says of itself: takes a model, gives lines for people and a record for programs."""

import math
from typing import Any

__all__ = ["as_json_values", "fit_lines", "info_lines", "info_record", "plan_lines"]


def number(value: Any) -> str:
    """Four significant digits.

    Examples
    --------
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


def numbers(values: Any) -> str:
    """Several numbers in one line."""
    return ", ".join(number(value) for value in values)


def fit_lines(model: Any, store: str) -> list[str]:
    """The lines that ``scalemani fit`` ends with."""
    return [*_spectrum_lines(model), f"store            {store}"]


def info_lines(model: Any) -> list[str]:
    """The lines of ``scalemani info``."""
    parameters = {name: value for name, value in info_record(model)["parameters"].items() if value is not None}
    listed = ", ".join(f"{name}={value}" for name, value in parameters.items())
    return [f"store            {model.store_}", f"parameters       {listed}", *_spectrum_lines(model)]


def info_record(model: Any) -> dict[str, Any]:
    """Store, parameters and spectrum as JSON values; what is not finite becomes null."""
    # What a run is called with each time, and not what it fitted.
    passing = ("store", "scheduler", "memory_limit", "progress", "overwrite", "keep_distances", "compression")
    parameters = {name: value for name, value in model.get_params().items() if name not in passing}
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


def _spectrum_lines(model: Any) -> list[str]:
    s = model.spectrum_
    merged = s["n_rows"] - s["n_distinct"]
    points = f"{s['n_rows']:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    if s["n_vertices"] < s["n_distinct"]:
        points += f", {s['n_distinct'] - s['n_vertices']:,} outside the largest component"
    lines = [f"points           {points}"]
    if s["correction"] is not None:
        ratio = f"{number(s['constant_over_median'])} times the median geodesic distance"
        lines.append(f"constant c       {number(s['additive_constant'])} ({ratio})")
    lines += [
        f"eigenvalues      {numbers(s['eigenvalues'])}",
        f"shares of trace  {numbers(s['share'])}",
        *([f"  without shift  {numbers(s['share_unshifted'])}"] if s["additive_constant"] else []),
        f"residuals        {numbers(s['residuals'])}",
        f"reads of D       {s['n_passes']}",
    ]
    return lines


def size(count: float) -> str:
    """Bytes in the unit that leaves a few digits.

    Examples
    --------
    >>> size(512), size(7_123_456), size(1.5e12)
    ('512 B', '7.1 MB', '1.5 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    Examples
    --------
    >>> duration(0.31), duration(42.4), duration(150), duration(7300)
    ('0.3 s', '42 s', '2 min 30 s', '2 h 2 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60} min"


METHODS = {"kdtree": "k-d tree, exact", "brute": "all pairs, exact", "nndescent": "NN-descent", "graph": "given"}
STAGES = {"search": "neighbours and graph", "neighbors": "neighbours", "solve": "constant and axes"}


def plan_lines(plan: Any) -> list[str]:
    """The lines of ``scalemani plan``."""
    merged, outside = plan.n_rows - plan.n_distinct, plan.n_distinct - plan.n_vertices
    points = f"{plan.n_rows:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    tiles = f"{plan.tile_rows} rows of tiles of {plan.tile_size} x {plan.tile_size}"
    reads = f"about {plan.reads}" if plan.reads else "none"
    where = "" if plan.workers == 1 else f" on each of {plan.workers} workers"
    largest, writing = plan.memory_stage, plan.tasks - plan.reads * plan.tasks_a_read
    lines = [
        f"points           {points}" + (f", {outside:,} outside the largest component" if outside else ""),
        f"neighbours       {METHODS.get(plan.method, plan.method)}",
        f"graph            {plan.n_edges:,} edges",
        f"distances        {tiles}, {size(plan.disk_distances)}",
        f"reads of D       {reads}, besides the one while it is written",
        f"tasks            {plan.tasks:,} ({writing}, and {plan.tasks_a_read} a read), {plan.threads} at once{where}",
        f"memory a process {size(plan.memory_peak)}, and {size(plan.memory_limit)} is allowed",
    ]
    for stage, parts in plan.memory.items():
        lines.append(f"  {STAGES.get(stage, stage):<29}{size(sum(parts.values())):>10}")
        if stage == largest:
            lines += [f"    {name:<27}{size(held):>10}" for name, held in parts.items() if held]
    lines.append(f"disk             {size(plan.disk)}, and {size(plan.disk_free)} is free at {plan.folder}")
    if plan.seconds:
        lines.append(f"time             about {duration(sum(plan.seconds.values()))}")
        lines += [f"  {STAGES.get(name, name):<29}{duration(spent):>10}" for name, spent in plan.seconds.items()]
    return lines
