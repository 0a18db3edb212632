"""Arrays as a page holds them: whole numbers, byte by byte, compressed by gzip, as base64.

Numbers are codes of equal steps, texts those of a list; `map.js` reads them.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.report.drawing import WIDEST, coloring
from scalemani.words import count, printable


@dataclass
class Packed:
    """What the page holds: `facts` as JSON, and the arrays that it names by their numbers, as base64 of gzip."""

    most: int
    facts: dict[str, Any] = field(default_factory=dict)
    blobs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    exactness: str = ""
    size: int = 0

    @property
    def json(self) -> str:
        """The facts, in signs that can end no element of the page."""
        return json.dumps(self.facts, allow_nan=False).replace("<", "\\u003c")

    def keep(self, name: str, entry: dict[str, Any], *, always: bool = False) -> dict[str, Any] | None:
        """The entry with its bytes stored and their numbers in place of them; None if that is more than fits."""
        texts = {key: _base64(value) for key, value in entry.items() if isinstance(value, bytes)}
        size = sum(map(len, texts.values()))
        if self.size + size > self.most and not always:
            self.left_out.append(name)
            return None
        self.size += size
        for key, text in texts.items():
            entry[key] = len(self.blobs)
            self.blobs.append(text)
        return entry


def column_codes(name: str, values: F64 | Sequence[str], steps: int) -> dict[str, Any]:
    """Codes of a column: of its texts, the commonest first, or of equal steps between the ends of its scale."""
    colours = coloring(name, values)
    if colours.codes is not None:
        return _text_codes(values, colours.categories)
    numbers = np.asarray(values, dtype=np.float64)
    (low, high), known = colours.limits, np.isfinite(numbers)
    if (numbers[known] == np.rint(numbers[known])).all() and high - low < steps - 2:  # whole numbers stay whole
        low, high = np.floor(low), np.ceil(high)
        steps = int(high - low) + 1
    packed = even_steps(np.where(known, numbers, np.nan), low, high, steps) | {"kinds": [], "about": ""}
    far = np.flatnonzero(known & ((numbers < low) | (numbers > high)))
    if far.size:  # the colour of the scale's end, but their own number
        packed["far"] = json.dumps({int(i): float(numbers[i]) for i in far}).encode("ascii")
        packed["about"] += f" {count(far.size, 'value')} beyond the scale's ends: they have the end's colour."
    if not known.all():
        packed["about"] += f" {count(int((~known).sum()), 'point')} without a value."
    return packed


def _text_codes(values: Any, named: Sequence[str]) -> dict[str, Any]:
    """Codes of texts, those with a colour first; `kinds`: what the legend has of them, with the ends of their codes."""
    kind = values.dtype.kind if isinstance(values, np.ndarray) else "U"
    if kind == "b":
        texts = ["yes" if value else "no" for value in values]
    else:
        texts = [
            f"{v:.0f}" if kind in "iuf" and np.isfinite(v) else "" if kind == "f" else str(v).strip() for v in values
        ]
    found = Counter(text for text in texts if text)
    ranked = [*named, *sorted(found.keys() - set(named), key=lambda text: (-found[text], text))]
    number = {text: i for i, text in enumerate(["", *ranked])}
    codes = np.array([number[text] for text in texts], dtype=np.int64)
    ends = [(printable(text), i + 1, i + 2, i) for i, text in enumerate(named)]
    ends += [("others" if named else "all values", len(named) + 1, len(ranked) + 1, 255), ("no value", 0, 1, 255)]
    counts = [int(((codes >= start) & (codes < end)).sum()) for _, start, end, _ in ends]
    kinds = [
        {"name": text, "from": start, "to": end, "n": some, "colour": colour}
        for (text, start, end, colour), some in zip(ends, counts, strict=True)
        if some
    ]
    steps: dict[str, Any] = {"blob": _planes(codes), "low": 1, "step": 1, "top": len(ranked)}
    return steps | {"texts": joined(["", *ranked]), "kinds": kinds, "about": ""}


def even_steps(values: F64, low: float, high: float, steps: int) -> dict[str, Any]:
    """Codes of equal steps from `low`, which is 1, to `top`; 0 where there is no number."""
    low, high = (float(np.clip(end, -WIDEST, WIDEST)) for end in (low, high))
    step = (high - low) / (steps - 1)
    inside = np.clip(np.nan_to_num(values, nan=low, posinf=high, neginf=low), low, high)
    codes = 1 + (np.rint((inside - low) / step) if step > 0 else np.zeros(len(values)))
    codes = np.minimum(codes, steps)  # a step among the least numbers that there are is rounded itself
    top = steps if step > 0 else 1
    return {"low": low, "step": step, "top": top, "blob": _planes(np.where(np.isnan(values), 0, codes))}


def whole_numbers(texts: Sequence[str]) -> I64 | None:
    """The numbers, if each text is one as Python writes it, small enough for the page's arithmetic."""
    if max(map(len, texts), default=16) > 15:
        return None
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return None
    return np.array(numbers, dtype=np.int64) if list(map(str, numbers)) == list(texts) else None


def joined(texts: Sequence[str]) -> bytes:
    """Texts with a sign between them that none has: what can't be printed is written out in each."""
    text = "\0".join(texts)
    if not text.replace("\0", "").isprintable():
        text = "\0".join(printable(one) for one in texts)
    return text.encode("utf-8")


def differences(numbers: I64) -> bytes:
    """Each number less the one before, without signs: 0, -1, 1, -2 as 0, 1, 2, 3."""
    steps: I64 = numbers - np.concatenate([[0], numbers[:-1]]).astype(np.int64)
    return _planes((steps << 1) ^ (steps >> 63))


def _planes(codes: NDArray[Any]) -> bytes:
    """Whole numbers from 0: the lowest byte of all, then the next of all; gzip does more with them apart."""
    numbers = codes.astype("<u8")
    used = max(1, -(-int(numbers.max(initial=0)).bit_length() // 8))
    return numbers.view(np.uint8).reshape(-1, 8)[:, :used].T.tobytes()


def _base64(raw: bytes) -> str:
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode("ascii")
