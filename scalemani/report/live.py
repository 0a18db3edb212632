"""What the live map of the page shows."""

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import NDArray

from scalemani.aliases import F64, I64


@dataclass(frozen=True, eq=False)
class Column:
    """Values of the points: numbers (n,), nan where there is none, or texts, "" where there is none."""

    name: str
    values: F64 | Sequence[str]
    about: str = ""


@dataclass(frozen=True, eq=False)
class Edges:
    """Pairs (c, 2) of positions in the coordinates."""

    name: str
    pairs: I64
    about: str = ""


@dataclass(frozen=True, eq=False)
class Layer:
    """More points (m, p): new ones, or landmarks."""

    name: str
    coordinates: F64
    ids: Sequence[str] | None
    columns: Sequence[Column] = ()


@dataclass(frozen=True, eq=False)
class Arrows:
    """Features with their values (p, f) along each axis."""

    name: str
    features: Sequence[str]
    values: F64


@dataclass(frozen=True, eq=False)
class LiveMap:
    """All that the live map shows."""

    coordinates: F64
    rows: I64
    ids: Sequence[str] | None = None
    columns: Sequence[Column] = ()
    quality: Sequence[Column] = ()
    rings: tuple[I64, NDArray] | None = None  # type: ignore[type-arg]
    layers: Sequence[Layer] = ()
    edges: Sequence[Edges] = ()
    arrows: Arrows | None = None
    other: F64 | None = None
    axis_names: Sequence[str] = ()
