"""The paper's three data sets, with the parameters that a perfect embedding would recover.

Choi and Choi ("Kernel Isomap", Electronics Letters 40, 2004; "Robust kernel Isomap", Pattern
Recognition 40, 2007) fit a noisy Swiss roll of 1,200 points, a roll without noise and a noisy
semi-sphere. What they leave open (the roll's size, the sphere's radius) is said below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Manifold", "semi_sphere", "swiss_roll", "write_table"]


@dataclass(frozen=True)
class Manifold:
    """Points (n, 3) drawn from a known surface, and where each lies on it before noise.

    `parameters` (n, 2) are lengths, called `names`: along and across a roll, or the flat map of a semi-sphere that
    keeps distances from its pole.
    """

    points: NDArray[np.float64]
    parameters: NDArray[np.float64]
    names: tuple[str, str]


def swiss_roll(
    n: int, *, noise_variance: float = 0.0, turns: float = 1.5, even: bool = False, random_state: Any = None
) -> Manifold:
    """A spiral sheet: (t cos t, h, t sin t), t uniform in [1.5 π, 4.5 π], h uniform in [0, 21].

    The sizes are those of most published rolls (and of scikit-learn). The parameters are arc length
    from the inner edge, ``s(t) = (t sqrt(1 + t²) + asinh t) / 2`` less its value there, and h: the
    roll is a flat sheet, so geodesic distances are straight lines between them.

    Parameters
    ----------
    n : int
        Number of points.
    noise_variance : float
        Variance of the Gaussian noise added to each coordinate; the paper's noisy roll has 0.25.
    turns : float
        Of the spiral: t ends at (1.5 + 2 `turns`) π.
    even : bool
        As many points on each piece of the sheet; with t uniform they are three times as dense inside as outside.
    random_state : int, Generator or None
        As ``numpy.random.default_rng`` takes it.

    Examples
    --------
    >>> roll = swiss_roll(5, random_state=0)
    >>> roll.points.shape, roll.parameters.shape
    ((5, 3), (5, 2))
    """
    rng = np.random.default_rng(random_state)
    inner, along = 1.5 * np.pi, rng.random(n)
    t = inner * (1 + 4 * turns / 3 * along)
    if even:
        steps = np.linspace(inner, inner + 2 * np.pi * turns, 10_000)
        lengths = _arc_length(steps)
        t = np.interp(lengths[0] + along * (lengths[-1] - lengths[0]), lengths, steps)
    height = 21 * rng.random(n)
    surface = np.column_stack([t * np.cos(t), height, t * np.sin(t)])
    noise = np.sqrt(noise_variance) * rng.standard_normal((n, 3))
    length = _arc_length(t) - _arc_length(np.array(inner))
    return Manifold(surface + noise, np.column_stack([length, height]), ("length along the roll", "height"))


def _arc_length(t: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (t * np.sqrt(1 + t * t) + np.arcsinh(t))


def semi_sphere(
    n: int, *, noise_variance: float = 0.0, radius: float = 10.0, random_state: Any = None
) -> Manifold:
    """The upper half of a sphere, uniform by area.

    It has curvature, so that no flat embedding keeps its geodesic distances: the additive constant
    takes up what is left. The parameters are the map (R θ cos φ, R θ sin φ), θ the angle from
    the pole. The radius is ours; 10 makes the noise of the paper's roll about as large against it.

    Parameters
    ----------
    n : int
        Number of points.
    noise_variance : float
        Variance of the Gaussian noise added to each coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> sphere = semi_sphere(4, random_state=0)
    >>> np.allclose(np.linalg.norm(sphere.points, axis=1), 10)
    True
    """
    rng = np.random.default_rng(random_state)
    z = rng.random(n)  # area of a zone is proportional to its height
    turn = 2 * np.pi * rng.random(n)
    ring = np.sqrt(1 - z * z)
    surface = radius * np.column_stack([ring * np.cos(turn), ring * np.sin(turn), z])
    noise = np.sqrt(noise_variance) * rng.standard_normal((n, 3))
    polar = radius * np.arccos(z)
    parameters = np.column_stack([polar * np.cos(turn), polar * np.sin(turn)])
    return Manifold(surface + noise, parameters, ("first polar coordinate", "second polar coordinate"))


def write_table(
    path: Path, prefix: str, values: NDArray[np.float64], headings: Sequence[str] = ("x", "y", "z")
) -> None:
    """A row of numbers a point as a table with a name for each, to try the command line on."""
    lines = [",".join(("name", *headings))]
    lines += [f"{prefix}{i}," + ",".join(map(repr, row.tolist())) for i, row in enumerate(values)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
