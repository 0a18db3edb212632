"""The explorable map: everything that the page's script draws, packed small.

Numbers are kept as whole numbers of equal steps, texts by their numbers in a list; the bytes are compressed by gzip and
written as base64. A map of 100,000 points takes at most 4 MB, one of 1,000,000 at most 18.2 MB. What doesn't fit
is left out, and the page says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.report.drawing import CATEGORIES, GRAY, scale_colors
from scalemani.report.packing import Packed, column_codes, differences, even_steps, joined, whole_numbers
from scalemani.words import count, printable

MOST_POINTS = 1_000_000  # of a page that opens in seconds; of more a sample is drawn
MOST_OF_LAYER = 20_000  # points of a layer: each is a sign of its own
FINE = 2**16 - 1  # steps of a number's range
MOST_ARROWS = 40  # features an axis
CELLS = 256  # squares along either axis, of which each keeps some points in a sample
LEAST_OF_CELL = 8


@dataclass(frozen=True, eq=False)
class Column:
    """A value for each point.

    values (n,): Numbers, NaN where there is none, or texts, "" where there is none.
    about: What it is and which value is best, in one line.
    """

    name: str
    values: F64 | Sequence[str]
    about: str = ""


@dataclass(frozen=True, eq=False)
class Edges:
    """Lines between pairs of points, (c, 2) positions."""

    name: str
    pairs: I64
    about: str = ""


@dataclass(frozen=True, eq=False)
class Layer:
    """Further points (m, p), as signs over the map, from the start or when asked for: new points, or landmarks."""

    name: str
    coordinates: F64
    ids: Sequence[str] | None = None
    drawn: bool = True


@dataclass(frozen=True, eq=False)
class Arrows:
    """How strongly each of f features goes with each of p axes, (p, f); `name` says what the numbers are."""

    name: str
    features: Sequence[str]
    values: F64


@dataclass(frozen=True, eq=False)
class LiveMap:
    """What the explorable map shows.

    coordinates (n, p): Finite, of the rows with coordinates.
    rows (n,): Their numbers, rising, from 0.
    ids (n,): Their names.
    columns: The user's; `quality`: how well each point is kept.
    rings: Positions (m,), the most telling first, and geodesic distances (m, n) from these points to all.
    other (n, p): Coordinates without the constant.
    axis_names: Else "axis 1", "axis 2" ...
    """

    coordinates: F64
    rows: I64
    ids: Sequence[str] | None = None
    columns: Sequence[Column] = ()
    quality: Sequence[Column] = ()
    rings: tuple[I64, NDArray[Any]] | None = None
    layers: Sequence[Layer] = ()
    edges: Sequence[Edges] = ()
    arrows: Arrows | None = None
    other: F64 | None = None
    axis_names: Sequence[str] = ()


def script() -> str:
    """The page's program."""
    return files("scalemani.report").joinpath("map.js").read_text(encoding="utf-8")


def most_bytes(n: int) -> int:
    """What the packed map of n points may take on the page.

    >>> most_bytes(1000), most_bytes(100_000), most_bytes(1_000_000)
    (4000000, 4000000, 18220000)
    """
    return 4_000_000 + max(0, n - 100_000) * 158 // 10


def pack(live: LiveMap, most_points: int = MOST_POINTS) -> Packed:
    """The map as the page holds it; of more than `most_points` points a sample that keeps rare places."""
    total = len(live.coordinates)
    if total > most_points:
        live = _of(live, sample(live, most_points))
    n, p = live.coordinates.shape
    page = Packed(most_bytes(n))
    coarse = FINE if n <= 200_000 else 2**12 - 1
    names = [*map(printable, live.axis_names), *(f"axis {i + 1}" for i in range(len(live.axis_names), p))]

    def axes(coordinates: F64, which: range, steps: int, *, always: bool = False, of: str = "") -> list[Any]:
        found = []
        for i in which:
            entry = page.keep(f"{names[i]}{of}", _axis(names[i], coordinates[:, i], steps), always=always)
            if entry is None:  # further ones would have another's place
                page.left_out += [f"{names[k]}{of}" for k in which if k > i]
                break
            found.append(entry)
        return found

    first = axes(live.coordinates, range(min(p, 2)), FINE, always=True)
    points = {"n": n, "name": "", "axes": first} | _names(page, live.rows, live.ids)
    points["columns"] = _columns(page, live.columns, "column", coarse)
    first += axes(live.coordinates, range(2, min(p, 4)), coarse)
    points["columns"] += _columns(page, live.quality, "quality", coarse)
    layers = [layer for one in live.layers if (layer := _layer(page, one, names)) is not None]
    rings = _rings(page, live, 2**12 - 1 if n <= 20_000 else 2**8 - 1)
    other = []
    if live.other is not None:
        other = axes(live.other, range(min(p, len(first))), coarse, of=" without the constant")
    if len(first) == min(p, 4):  # a gap would give an axis another's name
        first += axes(live.coordinates, range(4, p), coarse)
    if p == 1:  # a second axis without a name keeps points apart
        for axis, m in [(first, n), *((layer["axes"], layer["n"]) for layer in layers)]:
            apart = np.random.default_rng(0).random(m) * np.ptp(live.coordinates) * 0.4
            axis += [page.keep("", _axis("", apart, 2**8 - 1), always=True)]
        other += first[1:] if other else []
    page.facts = {
        "points": points,
        "other": other,
        "rings": rings,
        "layers": layers,
        "edges": [_edges(edges) for edges in live.edges],
        "arrows": None if live.arrows is None else _arrows(live.arrows),
        "plain": page.keep("", {"name": "", "group": ""} | column_codes("", ["a point"] * n, FINE), always=True),
        "colours": {"scale": scale_colors(255), "categories": list(CATEGORIES), "none": GRAY},
    }
    page.facts["plain"]["kinds"] = [{"name": "", "from": 1, "to": 2, "n": n, "colour": 0}]
    page.notes = _notes(page, n, total)
    page.exactness = (
        f"Numbers on this page are exact to one part in {FINE:,} of a column's range"
        f"{'' if coarse == FINE else f' (axes 1 and 2) or in {coarse:,} (all else)'}. No more digits are shown, on the "
        "map, in the tables and in the CSV. Whole numbers are exact where their range is smaller than that, and so are "
        "the few values far beyond the others. Distances from a clicked point are exact to one part in "
        f"{2**12 - 1 if n <= 20_000 else 2**8 - 1:,} of the largest."
    )
    return page


def _notes(page: Packed, n: int, total: int) -> list[str]:
    """What a reader must know of what was packed."""
    notes = []
    if total > n:
        notes.append(
            f"This is a sample of {n:,} of the {total:,} points: each occupied square of a grid of {CELLS} by {CELLS} "
            f"on axes 1 and 2 keeps some, the others are drawn at random. So sparse places look denser than they are."
        )
    if page.left_out:
        shown = [*page.left_out[:6], *([count(len(page.left_out) - 6, "other")] if len(page.left_out) > 6 else [])]
        notes.append(f"Left out to keep the page small: {', '.join(shown)}.")
    return notes


def sample(live: LiveMap, most: int, seed: int = 0) -> I64:
    """Positions (most,), rising: some of every occupied square of axes 1 and 2, and others at random.

    Points that edges or rings name are among them, as far as they are fewer than a tenth.
    """
    flat = live.coordinates[:, :2]
    low, span = flat.min(axis=0), np.ptp(flat, axis=0)
    places = np.minimum((flat - low) / np.where(span > 0, span, 1) * CELLS, CELLS - 1).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(flat))
    cell = places[order] @ np.array([CELLS, 1])[: flat.shape[1]]
    by_cell = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[by_cell], prepend=-1))
    rank = np.arange(len(flat)) - np.repeat(starts, np.diff(np.append(starts, len(flat))))
    each = min(LEAST_OF_CELL, max(1, most // (2 * len(starts))))
    rare = order[by_cell[rank < each]]
    named = np.concatenate([[], *(np.ravel(e.pairs) for e in live.edges), *([live.rings[0]] if live.rings else [])])
    named = np.unique(named.astype(np.int64))[: most // 10]
    wanted = np.concatenate([named, rare, order])
    _, at = np.unique(wanted, return_index=True)
    return np.sort(wanted[np.sort(at)[:most]])


def _of(live: LiveMap, kept: I64) -> LiveMap:
    """The same of some points."""
    place = np.full(len(live.coordinates), -1)
    place[kept] = np.arange(len(kept))

    def fewer(columns: Sequence[Column]) -> list[Column]:
        return [replace(c, values=values_of(c.values, kept)) for c in columns]

    pairs = [place[e.pairs.reshape(-1, 2)] for e in live.edges]
    rings = None
    if live.rings is not None:
        there = place[live.rings[0]] >= 0
        rings = (place[live.rings[0]][there], live.rings[1][there][:, kept])
    return replace(
        live,
        coordinates=live.coordinates[kept],
        rows=live.rows[kept],
        ids=None if live.ids is None else values_of(live.ids, kept),
        columns=fewer(live.columns),
        quality=fewer(live.quality),
        rings=rings,
        edges=[replace(e, pairs=p[(p >= 0).all(axis=1)]) for e, p in zip(live.edges, pairs, strict=True)],
        other=None if live.other is None else live.other[kept],
    )


def values_of(values: Any, kept: I64) -> Any:
    """Those of some rows: of an array or of a list."""
    return values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept]


def _layer(page: Packed, layer: Layer, names: Sequence[str]) -> dict[str, Any] | None:
    """A layer's points that have coordinates, at most 20,000 of them."""
    there = np.flatnonzero(np.isfinite(layer.coordinates).all(axis=1))
    rows = there[np.linspace(0, len(there) - 1, min(len(there), MOST_OF_LAYER)).astype(np.int64)]
    if not len(rows):
        return None
    # All or nothing: a layer without an axis couldn't be drawn.
    axes = [_axis(name, layer.coordinates[rows, i], FINE) for i, name in enumerate(names)]
    kept = [page.keep(layer.name, axis, always=True) for axis in axes]
    entry = {"name": printable(layer.name), "n": len(rows), "drawn": layer.drawn, "axes": kept}
    return entry | _names(page, rows, None if layer.ids is None else values_of(layer.ids, rows)) | {"columns": []}


def _axis(name: str, values: F64, steps: int) -> dict[str, Any]:
    return {"name": name} | even_steps(values, float(values.min()), float(values.max()), steps)


def _names(page: Packed, rows: I64, ids: Sequence[str] | None) -> dict[str, Any]:
    """Row numbers cost nothing where none is missing, and whole numbers little where they rise."""
    found: dict[str, Any] = {}
    if not np.array_equal(rows, np.arange(len(rows))):
        found |= page.keep("row numbers", {"rows": differences(rows)}, always=True) or {}
    if ids is not None:
        texts = [str(name) for name in ids]
        whole = whole_numbers(texts)
        named = {"ids": joined(texts)} if whole is None else {"whole": differences(whole)}
        found |= page.keep("ids", named) or {}
    return found


def _columns(page: Packed, columns: Sequence[Column], group: str, steps: int) -> list[dict[str, Any]]:
    found = []
    for column in columns:
        name, about = printable(column.name), printable(column.about)
        entry = {"name": name, "group": group} | column_codes(column.name, column.values, steps)
        kept = page.keep(name, entry | {"about": f"{about}{entry['about']}".strip()})
        found += [] if kept is None else [kept]
    return found


def _rings(page: Packed, live: LiveMap, steps: int) -> list[dict[str, Any]]:
    """As many as fit into half of what is left, all in the same steps."""
    if live.rings is None or not len(live.rings[0]):
        return []
    most, page.most = page.most, (page.size + page.most) // 2
    at, distances = live.rings
    farthest = float(np.max(distances, where=np.isfinite(distances), initial=0.0))
    kept: list[dict[str, Any]] = []
    for i, row in zip(at, distances, strict=True):
        known = np.where(np.isfinite(row), row, np.nan).astype(np.float64)
        entry = {"name": "distance", "about": "", "group": "rings", "kinds": [], "at": int(i)}
        if page.keep(
            f"distances from more than {len(kept)} points", entry := entry | even_steps(known, 0.0, farthest, steps)
        ):
            kept.append(entry)
        else:
            break
    page.most = most
    return kept


def _edges(edges: Edges) -> dict[str, Any]:
    """At most 20,000 of them, and how many there are."""
    pairs = edges.pairs[:MOST_OF_LAYER].tolist()
    about = printable(edges.about)
    if len(pairs) < len(edges.pairs):
        about = f"The first {len(pairs):,} of {len(edges.pairs):,} are drawn. {about}"
    return {"name": printable(edges.name), "about": about, "pairs": pairs}


def _arrows(arrows: Arrows) -> dict[str, Any]:
    """The strongest features of each axis."""
    strength = np.abs(np.nan_to_num(arrows.values))
    few = np.unique(np.argsort(-strength, axis=1, kind="stable")[:, :MOST_ARROWS])
    values = np.nan_to_num(arrows.values[:, few])
    values = np.vstack([values, np.zeros((2, len(few)))])[: max(2, len(values))]  # nothing goes with a second of one
    features = [printable(str(arrows.features[i])) for i in few]
    return {
        "name": printable(arrows.name),
        "features": features,
        "values": [[float(f"{value:.3g}") for value in row] for row in values],
    }
