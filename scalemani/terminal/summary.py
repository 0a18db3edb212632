"""What a fitted model says of itself: takes a model, gives lines for people and a record for programs."""

import math
from typing import Any

from scalemani.plan_text import plan_lines

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
    return [f"store            {model.store_}", f"parameters       {listed}", *_spectrum_lines(model, all_shares=True)]


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


def _spectrum_lines(model: Any, *, all_shares: bool = False) -> list[str]:
    s = model.spectrum_
    merged = s["n_rows"] - s["n_distinct"]
    points = f"{s['n_rows']:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    if s["n_vertices"] < s["n_distinct"]:
        points += f", {s['n_distinct'] - s['n_vertices']:,} outside the largest component"
    return [
        f"points           {points}",
        *_constant_lines(s),
        f"eigenvalues      {numbers(s['eigenvalues'])}",
        f"shares of trace  {numbers(s['share'])}",
        *([f"  without shift  {numbers(s['share_unshifted'])}"] if s["shift"] else []),
        *(_share_lines(s) if all_shares and "gof" in s else []),  # a store of an earlier release has fewer
        f"residuals        {numbers(s['residuals'])}",
        f"reads of D       {s['n_passes']}",
        *(f"warning          {sentence}" for sentence in s.get("warnings", []) if all_shares),
    ]


def _constant_lines(s: dict[str, Any]) -> list[str]:
    """The correction, where there is one, and how large it is."""
    ratio = f"{number(s['constant_over_median'])} times the median geodesic distance"
    if s["correction"] == "lingoes":
        return [f"constant s       {number(s['lingoes_constant'])} (sqrt(2s) is {ratio})"]
    if s["correction"] == "flip":
        return ["correction       flip: the moduli of the eigenvalues"]
    return [] if s["correction"] in ("none", None) else [f"constant c       {number(s['additive_constant'])} ({ratio})"]


def _share_lines(s: dict[str, Any]) -> list[str]:
    """The spectrum by the usual definitions, those of other programs by their names."""
    mass, least = s["negative_mass"], "" if s["complete"] else "at least "
    lowest = f"the lowest is {number(s['most_negative_eigenvalue'])}"
    own = s["relative_eig"]
    return [
        f"  of squares     {numbers(s['share_of_squares'])}",
        f"  ape            Rel_corr_eig {numbers(s['rel_corr_eig'])}",
        *([] if None in own else [f"                 Relative_eig {numbers(own)}"]),
        f"                 Broken_stick {numbers(s['broken_stick'])}",
        f"  R cmdscale     GOF {numbers(s['gof'])}",
        f"  scikit-learn   reconstruction_error {number(s['reconstruction_error'])}",
        f"trace            {number(s['trace'])}, {number(s['trace_unshifted'])} without a correction",
        f"negative mass    {least}{number(mass)} without a correction, {lowest}",
        f"next eigenvalue  {number(s['next_eigenvalue'])}, a gap of {number(s['gap'])}",
    ]
