"""Formulas of metrics that are no norm: of pairs of rows (c, d), and of counts of features that rows have.

In formulas of counts, ``tt`` features are in both rows, ``a`` and ``b`` in each of them, out of ``d``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import rel_entr

from scalemani.search.distance_forms import F64


def canberra(a: F64, b: F64) -> F64:
    total = np.abs(a) + np.abs(b)
    share = np.divide(np.abs(a - b), total, out=np.zeros_like(a), where=total > 0)
    return np.asarray(np.add.reduce(share, axis=1))


def braycurtis(a: F64, b: F64) -> F64:
    total = np.add.reduce(np.abs(a + b), axis=1)
    gap = np.add.reduce(np.abs(a - b), axis=1)
    return np.asarray(np.divide(gap, total, out=np.zeros_like(gap), where=total > 0))


def jensen_shannon(a: F64, b: F64) -> F64:
    middle = (a + b) / 2
    terms = (rel_entr(a, middle) + rel_entr(b, middle)) / 2
    return np.asarray(np.maximum(np.add.reduce(terms, axis=1), 0.0))


def symmetric_kl(a: F64, b: F64) -> F64:
    logarithms = np.log(a) - np.log(b)  # not of a / b, whose rounding is another one for b / a
    return np.asarray(np.add.reduce((a - b) * logarithms, axis=1))


def tsss(a: F64, b: F64) -> F64:
    norm_a, norm_b = (np.sqrt(np.add.reduce(x * x, axis=1)) for x in (a, b))
    gap = a - b
    distance = np.sqrt(np.add.reduce(gap * gap, axis=1))
    product = norm_a * norm_b
    cosine = np.divide(np.add.reduce(a * b, axis=1), product, out=np.zeros_like(product), where=product > 0)
    theta = np.arccos(np.clip(cosine, -1, 1)) + np.radians(10)
    sector = (distance + np.abs(norm_a - norm_b)) ** 2 * theta / 2
    return np.asarray(product * np.sin(theta) / 2 * sector)


def yule(tt: F64, a: F64, b: F64, d: float) -> Any:
    tf, ft = a - tt, b - tt
    return np.where((tf == 0) | (ft == 0), 0.0, 2 * tf * ft / (tt * (d - tt - tf - ft) + tf * ft))


def russellrao(tt: F64, a: F64, b: F64, d: float) -> Any:
    return np.where((tt == a) & (tt == b), 0.0, (d - tt) / d)


def kulsinski(tt: F64, a: F64, b: F64, d: float) -> Any:
    unequal = a + b - 2 * tt
    return np.where(unequal == 0, 0.0, (unequal - tt + d) / (unequal + d))


def rogerstanimoto(tt: F64, a: F64, b: F64, d: float) -> Any:
    unequal = a + b - 2 * tt
    return 2 * unequal / (d + unequal)


def ratio(part: Any, whole: Any) -> Any:
    return np.where(part == 0, 0.0, part / whole)
