"""What a metric tells of rows without measuring between them: takes prepared rows and centres, gives lower bounds.

For norms (and increasing functions of them) distances from a centre obey the triangle inequality, and under the
Euclidean norm a row that is nearer to its own centre than to another lies beyond a hyperplane (Uhlmann, "Satisfying
general proximity/similarity queries with metric trees", Information Processing Letters 40, 1991, for the former).
Some metrics of counts and shares obey the triangle inequality, too. Of others nothing is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.search.distance_forms import EPS, F64, CountForm, Form, NormForm, PairForm
from scalemani.search.metrics import METRICS

_LOST = 1e-150  # norms below this may vanish in a square


class Yardstick:
    """Lengths that obey the triangle inequality, of which a metric's distances are an increasing function.

    form: The metric, of which :meth:`known` is true.
    centre (d',): What products of dense rows under the Euclidean norm are centred on: any point in the midst of them.
    """

    def __init__(self, form: Form, centre: F64 | None = None) -> None:
        self._form = NormForm(form.name, form.p) if isinstance(form, NormForm) else form
        self._scale = form.scale if isinstance(form, NormForm) else None
        self.euclidean = isinstance(form, NormForm) and form.p == 2
        self._centre = centre

    @staticmethod
    def known(form: Form) -> bool:
        """Whether a metric is one that has such lengths."""
        bounded = isinstance(form, CountForm) or (isinstance(form, PairForm) and form.has_table)
        return isinstance(form, NormForm) or (bounded and METRICS[form.name].proper)

    def table(self, a: Any, b: Any) -> tuple[F64, F64]:
        """Bounds (q, c), lower and upper, on the lengths between prepared rows and centres."""
        centre = self._centre
        if self.euclidean and not issparse(a) and centre is None:
            centre = np.zeros(a.shape[1])
        found = self._form.bounds(a, b, centre)
        assert found is not None
        return found

    def length(self, distances: F64) -> F64:
        """The longest lengths whose distances are no more than these."""
        found = distances if self._scale is None else np.asarray(self._scale.norm(distances))
        return np.asarray(found * (1 + 32 * EPS) + _LOST)


class Cells:
    """Parts of the rows, each about a centre: what bounds distances to the rows of a part.

    centres (C, d'): Prepared.
    reach (C,): Upper bound on the length from each centre to its rows; -inf for a part without rows.
    """

    def __init__(self, yardstick: Yardstick, centres: Any) -> None:
        self.yardstick, self.centres = yardstick, centres
        self.between, self._wide = yardstick.table(centres, centres)
        self.reach = np.full(centres.shape[0], -np.inf)
        self._doubt = 0.0  # by how much a row's squared length to its own centre may be the larger one

    @property
    def count(self) -> int:
        """Number of parts, C."""
        return int(self.centres.shape[0])

    def nearest(self, block: Any) -> tuple[Any, F64, float]:
        """The part of each prepared row (b,): the nearest centre's; the length to it at most; and how sure that is."""
        low, high = self.yardstick.table(block, self.centres)
        parts = high.argmin(axis=1)
        lengths, doubt = high[np.arange(len(parts)), parts], 0.0
        if self.yardstick.euclidean:
            np.multiply(high, high, out=high)
            high -= low * low
            doubt = float(high.max(initial=0.0))
        return parts, lengths, doubt

    def learn(self, parts: Any, lengths: F64, doubt: float) -> None:
        """Know that rows with such parts and lengths, as :meth:`nearest` gives them, are there."""
        np.maximum.at(self.reach, parts, lengths)
        self._doubt = max(self._doubt, doubt)

    def renumber(self, old: Any) -> None:
        """Number the parts anew: part i is what was ``old[i]``; pieces of one part are parts with its bounds."""
        self.centres, self.reach = self.centres[old], self.reach[old]
        self.between, self._wide = self.between[np.ix_(old, old)], self._wide[np.ix_(old, old)]

    def apart(self, home: int) -> F64:
        """Lower bound (C,) on the length between any row of a part and any of each part."""
        return np.asarray(self._lowered(self.between[home] - self.reach[home] - self.reach, self.between[home]))

    def bounds(self, block: Any, home: int, parts: Any) -> F64:
        """Lower bounds (q, c) on the lengths from each prepared row of part `home` to any row of some parts."""
        listed = np.append(np.asarray(parts, np.int64), home)
        low, high = self.yardstick.table(block, self.centres[listed])
        ball = self._lowered(low[:, :-1] - self.reach[listed[:-1]], low[:, :-1])
        if not self.yardstick.euclidean:
            return np.asarray(ball)
        between = self._wide[home, listed[:-1]]
        gap = low[:, :-1] ** 2 * (1 - 8 * EPS) - high[:, -1:] ** 2 * (1 + 8 * EPS) - self._doubt * (1 + 8 * EPS)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            plane = np.where(between > 0, gap / (2 * between) * (1 - 16 * EPS), 0.0)
        return np.asarray(np.maximum(ball, plane))

    @staticmethod
    def _lowered(bound: F64, terms: F64) -> F64:
        """A difference of lengths, less what its rounding may have added."""
        return bound - 16 * EPS * np.abs(terms)
