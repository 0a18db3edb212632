"""The explorable map: everything that the page's script `map.js` draws, packed small.

Numbers are kept as whole numbers of equal steps, category by category or value by value where few differ; their bytes
are compressed by gzip and written as base64. A map of 100,000 points takes some 3 MB, one of 1,000,000 under 18 MB.
What doesn't fit is left out, and the page says so.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.report.drawing import CATEGORIES, GREY, WIDEST, colouring, scale_colours
from scalemani.words import count, printable

MOST_POINTS = 1_000_000  # of a page that opens in seconds; of more a sample is drawn
MOST_OF_LAYER = 20_000  # points of a layer: each is a sign of its own
MOST_VALUES = 4096  # different numbers that are kept as they are
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
    """Further points (m, p), drawn as signs over the map: new points, or landmarks."""

    name: str
    coordinates: F64
    ids: Sequence[str] | None = None
    columns: Sequence[Column] = ()


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


@dataclass
class Packed:
    """What the page holds: `facts` as JSON, and the arrays that it names by their numbers, as base64 of gzip."""

    most: int
    facts: dict[str, Any] = field(default_factory=dict)
    blobs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def json(self) -> str:
        """The facts, in signs that can end no element of the page."""
        return json.dumps(self.facts, allow_nan=False).replace("<", "\\u003c")

    def keep(self, name: str, entry: dict[str, Any], *, always: bool = False) -> dict[str, Any] | None:
        """The entry with its bytes stored and their numbers in place of them; None if that is more than fits."""
        texts = {key: _text(value) for key, value in entry.items() if isinstance(value, bytes)}
        size = sum(map(len, texts.values()))
        if self.size + size > self.most and not always:
            self.left_out.append(name)
            return None
        self.size += size
        for key, text in texts.items():
            entry[key] = len(self.blobs)
            self.blobs.append(text)
        return entry


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
    page, fine = Packed(most_bytes(n)), 2**24 - 1 if n <= 20_000 else 2**16 - 1
    coarse = fine if n <= 200_000 else 2**12 - 1
    least = fine if n <= 20_000 else 2**12 - 1 if n <= 200_000 else 2**8 - 1
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

    first = axes(live.coordinates, range(min(p, 2)), fine, always=True)
    points = {"n": n, "axes": first} | _names(page, live.rows, live.ids)
    points["columns"] = _columns(page, live.columns, "column", coarse)
    first += axes(live.coordinates, range(2, min(p, 4)), coarse)
    points["columns"] += _columns(page, live.quality, "quality", least)
    layers = [layer for one in live.layers if (layer := _layer(page, one, names)) is not None]
    rings = _rings(page, live, 2**12 - 1 if n <= 20_000 else 2**8 - 1)
    other = None
    if live.other is not None:
        other = axes(live.other, range(min(p, len(first))), min(coarse, 2**12 - 1), of=" without the constant")
    if len(first) == min(p, 4):  # a gap would give an axis another's name
        first += axes(live.coordinates, range(4, p), coarse)
    page.facts = {
        "points": points,
        "total": total,
        "other": other if other and len(other) >= min(p, 2) else None,
        "rings": rings,
        "layers": layers,
        "edges": [{"name": printable(e.name), "about": e.about, "pairs": e.pairs.tolist()} for e in live.edges],
        "arrows": None if live.arrows is None else _arrows(live.arrows),
        "colours": {"scale": scale_colours(255), "categories": list(CATEGORIES), "none": GREY},
    }
    page.facts["notes"] = _notes(page, n, total, fine, coarse)
    return page


def _notes(page: Packed, n: int, total: int, fine: int, coarse: int) -> list[str]:
    """What a reader must know of what was packed."""
    notes = []
    if total > n:
        notes.append(
            f"This is a sample of {n:,} of the {total:,} points: each occupied square of a grid of {CELLS} by {CELLS} "
            f"on axes 1 and 2 keeps some, the others are drawn at random. So sparse places look denser than they are."
        )
    notes.append(
        f"Coordinates are kept in {fine:,} steps of their range. Columns with more than {MOST_VALUES:,} different numbers "
        f"are kept in {coarse:,} steps of their colour scale. The map, the tables and the CSV show no more digits than "
        "that."
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
        return [replace(c, values=_take(c.values, kept)) for c in columns]

    pairs = [place[e.pairs.reshape(-1, 2)] for e in live.edges]
    rings = None
    if live.rings is not None:
        there = place[live.rings[0]] >= 0
        rings = (place[live.rings[0]][there], live.rings[1][there][:, kept])
    return replace(
        live,
        coordinates=live.coordinates[kept],
        rows=live.rows[kept],
        ids=None if live.ids is None else _take(live.ids, kept),
        columns=fewer(live.columns),
        quality=fewer(live.quality),
        rings=rings,
        edges=[replace(e, pairs=p[(p >= 0).all(axis=1)]) for e, p in zip(live.edges, pairs, strict=True)],
        other=None if live.other is None else live.other[kept],
    )


def _take(values: Any, kept: I64) -> Any:
    return values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept]


def _layer(page: Packed, layer: Layer, names: Sequence[str]) -> dict[str, Any] | None:
    """A layer's points that have coordinates, at most 20,000 of them."""
    there = np.flatnonzero(np.isfinite(layer.coordinates).all(axis=1))
    rows = there[np.linspace(0, len(there) - 1, min(len(there), MOST_OF_LAYER)).astype(np.int64)]
    if not len(rows):
        return None
    # All or nothing: a layer without an axis couldn't be drawn.
    axes = [_axis(name, layer.coordinates[rows, i], 2**16 - 1) for i, name in enumerate(names)]
    kept = [page.keep(layer.name, axis, always=True) for axis in axes]
    entry = {"name": printable(layer.name), "n": len(rows), "total": len(layer.coordinates), "axes": kept}
    entry |= _names(page, rows, None if layer.ids is None else _take(layer.ids, rows))
    columns = [replace(c, values=_take(c.values, rows)) for c in layer.columns]
    return entry | {"columns": _columns(page, columns, "column", 2**16 - 1)}


def _axis(name: str, values: F64, steps: int) -> dict[str, Any]:
    return {"name": name} | _steps(values, float(values.min()), float(values.max()), steps)


def _names(page: Packed, rows: I64, ids: Sequence[str] | None) -> dict[str, Any]:
    """Row numbers cost nothing where none is missing, and whole numbers little where they rise."""
    found: dict[str, Any] = {}
    if not np.array_equal(rows, np.arange(len(rows))):
        found |= page.keep("row numbers", {"rows": _differences(rows)}, always=True) or {}
    if ids is not None:
        texts = [str(name) for name in ids]
        whole = _whole(texts)
        named = {"ids": _joined(texts)} if whole is None else {"whole": _differences(whole)}
        found |= page.keep("ids", named) or {}
    return found


def _columns(page: Packed, columns: Sequence[Column], group: str, steps: int) -> list[dict[str, Any]]:
    found = []
    for column in columns:
        name, about = printable(column.name), printable(column.about)
        entry = {"name": name, "about": about, "group": group} | _values(column, steps)
        kept = page.keep(name, entry)
        found += [] if kept is None else [kept]
    return found


def _values(column: Column, steps: int) -> dict[str, Any]:
    """Codes from 1, 0 where there is none: of texts and few numbers in a list of these, else of equal steps."""
    array = np.asarray(column.values) if isinstance(column.values, np.ndarray) else None
    colours = colouring(column.name, column.values if array is None else array)
    if array is None or array.dtype.kind not in "iuf":
        plain = column.values if array is None else np.where(array, "yes", "no") if array.dtype.kind == "b" else array
        texts = [str(value).strip() for value in plain]
        found = Counter(text for text in texts if text)
        ranked = sorted(found, key=lambda text: (-found[text], text))
        number = {text: i + 1 for i, text in enumerate(ranked)} | {"": 0}
        codes = np.array([number[text] for text in texts], dtype=np.int64)
        return {"codes": _planes(codes), "texts": _joined(ranked), "shown": len(colours.categories)}
    numbers = np.asarray(array, dtype=np.float64)
    known = np.isfinite(numbers)
    table = np.unique(numbers[known])
    shown = {"shown": len(colours.categories)} if colours.codes is not None else {"limits": colours.limits}
    if table.size <= MOST_VALUES:
        codes = np.where(known, np.searchsorted(table, numbers) + 1, 0)
        return shown | {"codes": _planes(codes), "table": table.astype("<f8").tobytes()}
    low, high = colours.limits
    packed = shown | _steps(np.where(known, numbers, np.nan), low, high, steps)
    far = np.flatnonzero(known & ((numbers < low) | (numbers > high)))
    if far.size:  # the colour of the scale's end, but their own number
        packed |= {"far": _differences(far), "beyond": numbers[far].astype("<f8").tobytes()}
    return packed


def _steps(values: F64, low: float, high: float, steps: int) -> dict[str, Any]:
    """Codes of equal steps from `low`, which is 1, to `high`; 0 where there is no number."""
    low, high = (float(np.clip(end, -WIDEST, WIDEST)) for end in (low, high))
    step = (high - low) / (steps - 1)
    inside = np.clip(np.nan_to_num(values, nan=low, posinf=high, neginf=low), low, high)
    codes = 1 + (np.rint((inside - low) / step) if step > 0 else np.zeros(len(values)))
    codes = np.minimum(codes, steps)  # a step among the least numbers that there are is rounded itself
    return {"low": low, "step": step, "high": high, "codes": _planes(np.where(np.isnan(values), 0, codes))}


def _rings(page: Packed, live: LiveMap, steps: int) -> dict[str, Any] | None:
    """As many as fit into half of what is left, all in the same steps."""
    if live.rings is None or not len(live.rings[0]):
        return None
    most, page.most = page.most, (page.size + page.most) // 2
    at, distances = live.rings
    farthest = float(np.max(distances, where=np.isfinite(distances), initial=0.0))
    kept: list[dict[str, Any]] = []
    for i, row in zip(at, distances, strict=True):
        known = np.where(np.isfinite(row), row, np.nan).astype(np.float64)
        entry = page.keep(f"distances from more than {len(kept)} points", _steps(known, 0.0, farthest, steps))
        if entry is None:
            break
        kept.append(entry | {"at": int(i)})
    page.most = most
    return {"kept": kept} if kept else None


def _arrows(arrows: Arrows) -> dict[str, Any]:
    """The strongest features of each axis."""
    strength = np.abs(np.nan_to_num(arrows.values))
    few = np.unique(np.argsort(-strength, axis=1, kind="stable")[:, :MOST_ARROWS])
    values = np.nan_to_num(arrows.values[:, few])
    features = [printable(str(arrows.features[i])) for i in few]
    return {
        "name": printable(arrows.name),
        "features": features,
        "values": [[float(f"{value:.3g}") for value in row] for row in values],
    }


def _whole(texts: Sequence[str]) -> I64 | None:
    """The numbers, if each text is one as Python writes it, small enough for the page's arithmetic."""
    if max(map(len, texts), default=16) > 15:
        return None
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return None
    return np.array(numbers, dtype=np.int64) if list(map(str, numbers)) == list(texts) else None


def _joined(texts: Sequence[str]) -> bytes:
    # What is between them is no printable sign.
    joined = "\0".join(texts)
    if not joined.replace("\0", "").isprintable():
        joined = "\0".join(printable(text) for text in texts)
    return joined.encode("utf-8")


def _differences(numbers: I64) -> bytes:
    """Each number less the one before, without signs: 0, -1, 1, -2 as 0, 1, 2, 3."""
    steps = np.diff(numbers.astype(np.int64), prepend=np.int64(0))
    return _planes((steps << 1) ^ (steps >> 63))


def _planes(codes: NDArray[Any]) -> bytes:
    """Whole numbers from 0: the lowest byte of all, then the next of all; gzip does more with them apart."""
    numbers = codes.astype("<u8")
    used = max(1, -(-int(numbers.max(initial=0)).bit_length() // 8))
    return numbers.view(np.uint8).reshape(-1, 8)[:, :used].T.tobytes()


def _text(raw: bytes) -> str:
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode("ascii")
