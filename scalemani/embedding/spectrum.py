"""The account of the spectrum, from a solution and the first read's sums, and which of its numbers are bounds.

How much of the data do the axes show? Programs answer with different quotients, and a spectrum with negative
eigenvalues makes them differ by much, so all of the usual ones are given, by name. None of them needs more of the
spectrum than p eigenvalues and what the first read of D summed: with q_i and r_i the row sums of D and D∘D,

    trace K2 = Σ r_i / 2n,      4 ||K2||_F² = Σ d⁴ - (2/n) Σ r_i² + (Σ r_i)² / n²,

and for K(c) and Lingoes' kernel as in :class:`scalemani.kernel.operators.DistanceSums`. What needs every eigenvalue is
the negative mass N, the sum of the moduli of K2's negative eigenvalues. By Cauchy's interlacing the Ritz values of a
subspace give lower bounds of it: -Σ(negative ones), and Σ(positive ones) - trace K2. So N is a LOWER bound, and what
divides by the sum of moduli (trace + 2N: `gof` without a correction or with a given constant, `share` for "flip") is an
upper one. `most_negative_eigenvalue` is the lowest Ritz value, an upper bound that only "lingoes" converges: with None
and "flip" the basis follows the top alone, so that `rel_corr_eig`, whose constant it is, is an upper bound of axes
above the mean eigenvalue and a lower one of those below. Up to 301 points all are exact (`complete`), but for `gof` of
K(c) with a given c below c*, for which only the pairs found count. :func:`sides` says so number by number.

Sources: Mardia, Kent and Bibby, "Multivariate analysis" (1979), section 14.4 (shares of moduli and of squares);
Legendre and Legendre, "Numerical ecology" (1998), equation 9.27 (Rel_corr_eig); MacArthur (PNAS 43, 1957; the broken
stick); the programs' own documentation (R's cmdscale, ape's pcoa, scikit-learn's Isomap).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.embedding.coordinates import Embedding
from scalemani.embedding.dimension import broken_stick
from scalemani.errors import AdditiveConstantWarning, ScalemaniWarning, UndeterminedAxesWarning, warn
from scalemani.kernel.constant import DEFINITE, Solution
from scalemani.kernel.eigensolver import first_block
from scalemani.kernel.operators import DistanceSums
from scalemani.words import two_digits

Remark = tuple[type[ScalemaniWarning] | None, str]


def spectrum_account(
    solution: Solution,
    embedding: Embedding,
    sums: DistanceSums,
    median: float,
    n_passes: int,
    tol: float = 1e-6,
    more: Sequence[Remark] = (),
) -> dict[str, Any]:
    """What the spectrum says, in the user's unit, as JSON values; keys are defined in :class:`scalemani.KernelIsomap`.

    median: Median off-diagonal distance, in the unit of the tiles.
    n_passes: Reads of D.
    tol: To which the pairs were found.
    more: What else there is to say, as a warning of a class; None where that was done before.
    Warns by AdditiveConstantWarning: When the correction puts equal points further apart than median(D): c, or sqrt(2s)
        for Lingoes.
    Warns by UndeterminedAxesWarning: When the gap behind the last axis is below 10 `tol`.
    """
    pairs, values, sizes = solution.pairs, solution.pairs.values, embedding.sizes
    n, c, nugget, area = sums.n, solution.constant, solution.nugget, embedding.scale**2
    plain, norm = sums.trace(), sums.squared_norm(c, nugget)
    mass, lowest = negative_mass(solution, plain), min(solution.most_negative, 0.0)
    trace = plain + 2 * mass if embedding.flipped else sums.trace(c, nugget)
    moduli, positive = _sums_of_the_kernel(solution, trace, mass)
    # Eigenvalues of K2 itself; None where the pairs are K(c)'s.
    own = values - nugget if nugget == solution.lingoes else None
    corrected = _shares(values, trace) if own is None or nugget else _shares(own - lowest, plain - (n - 1) * lowest)
    shown = float(np.maximum(sizes, 0.0).sum())
    missed = norm - float((values[embedding.active] ** 2).sum())
    following = abs(pairs.next_value) if embedding.flipped else pairs.next_value
    ratio, gap = _quotient(math.sqrt(2 * nugget), median), gap_behind(sizes, following)
    remarks = [*more, *_remarks(solution, embedding, ratio, gap, tol)]
    for category, sentence in remarks:
        if category is not None:
            warn(sentence, category)
    return {
        "correction": solution.correction,
        "additive_constant": c * embedding.scale,
        "lingoes_constant": solution.lingoes * area,
        "median_distance": median * embedding.scale,
        "max_distance": sums.maximum * embedding.scale,
        "constant_over_median": ratio,
        "shift": nugget * area,
        "trace": trace * area,
        "trace_unshifted": plain * area,
        "eigenvalues": _listed(values * area),
        "eigenvalues_unshifted": _listed(solution.unshifted * area),
        "next_eigenvalue": None if math.isnan(pairs.next_value) else pairs.next_value * area,
        "gap": gap,
        "lowest_ritz_value": pairs.lowest * area,
        "most_negative_eigenvalue": lowest * area,
        "negative_mass": mass * area,
        "complete": first_block(n, len(values)) == n - 1,
        "share": _shares(sizes, trace),
        "share_unshifted": _shares(solution.unshifted, plain),
        "share_of_squares": _shares(values**2, norm),
        "gof": [_quotient(shown, moduli), _quotient(shown, positive)],
        "relative_eig": [None] * len(values) if own is None else _shares(own, plain),
        "rel_corr_eig": corrected,
        "broken_stick": _listed(broken_stick(pieces(solution, embedding, n), len(values))),
        "reconstruction_error": math.sqrt(max(missed, 0.0)) / n * area,
        "residuals": _listed(pairs.residuals),
        "converged": pairs.converged,
        "n_passes": n_passes,
        "n_vertices": n,
        "warnings": [sentence for _, sentence in remarks],
    }


# ---- the quotients' parts ----------------------------------------------------------------------------


def negative_mass(solution: Solution, trace: float) -> float:
    """A lower bound of the sum of the moduli of K2's negative eigenvalues, whose trace is given; exact of them all."""
    return max(solution.positive - trace, -solution.negative, 0.0)


def _sums_of_the_kernel(solution: Solution, trace: float, mass: float) -> tuple[float, float]:
    """Sums of the moduli and of the positive ones of the corrected kernel's eigenvalues, or lower bounds of them."""
    if solution.correction == "flip":
        return trace, trace
    if solution.nugget == 0:
        return trace + 2 * mass, trace + mass
    left = 0.0
    if solution.correction not in DEFINITE:  # less than c* may have been given
        values = solution.pairs.values
        left = max(float(values[values > 0].sum()) - trace, -solution.pairs.lowest, 0.0)
    return trace + 2 * left, trace + left


def gap_behind(sizes: F64, following: float) -> float | None:
    """(λ_p - λ_{p+1}) / λ_p; None if there is no next eigenvalue, or none to compare it with.

    >>> gap_behind(np.array([5.0, 4.0]), 3.0), gap_behind(np.array([5.0]), float("nan"))
    (0.25, None)
    """
    last = float(sizes[-1])
    return None if math.isnan(following) or last <= 0 else (last - following) / last


def pieces(solution: Solution, embedding: Embedding, n: int) -> int:
    """Positive eigenvalues of the kernel, as ape counts the pieces of its broken stick.

    A correction's least constant takes two off n: the vector 1 and the one that the constant is for. Without one,
    axes that are past the rank say what it is; else all but 1 are counted, and ape adds its Lingoes constant to
    kernels with negative eigenvalues before it counts.
    """
    if solution.nugget:
        return n - (2 if solution.correction in DEFINITE else 1)
    active = int(embedding.active.sum())
    floor = embedding.tolerance * max(float(embedding.sizes[0]), 0.0)
    if not embedding.flipped and solution.most_negative < -floor:
        return n - 2
    behind = abs(solution.pairs.next_value)
    return active if active < len(embedding.sizes) or behind <= floor else n - 1


def _listed(numbers: F64) -> list[float]:
    return [float(number) for number in numbers]


def _quotient(a: float, b: float) -> float:
    return float(a / b) if b > 0 else 0.0


def _shares(parts: F64, whole: float) -> list[float]:
    return [_quotient(part, whole) for part in parts]


# ---- in words ----------------------------------------------------------------------------------------


def _remarks(solution: Solution, embedding: Embedding, ratio: float, gap: float | None, tol: float) -> list[Remark]:
    """What a reader should know, with the class under which to warn of it; None where that was done before."""
    found: list[Remark] = []
    pairs, p = solution.pairs, len(embedding.sizes)
    if not pairs.converged:
        worst = float(pairs.residuals.max())
        found.append((None, f"the solver stopped at a residual of {worst:.1e} of its eigenvalue, tol={tol:g}"))
    empty = embedding.emptiness()
    if empty is not None:
        found.append((None, empty))
    if ratio > 1:
        if solution.lingoes:
            what = f"Lingoes' constant s puts points at distance 0 sqrt(2s) apart, about {two_digits(ratio)} times"
        else:
            what = f"the additive constant is about {two_digits(ratio)} times"
        sentence = (
            f"{what} the median geodesic distance: the map shows mostly this constant; compare a fit without a "
            "correction, look at the shares without the shift, and check the graph for shortcut edges"
        )
        found.append((AdditiveConstantWarning, sentence))
    floor = embedding.tolerance * max(float(embedding.sizes[0]), 0.0)
    if solution.correction == "number" and pairs.lowest < -floor:
        below = -pairs.lowest / float(embedding.sizes[0])
        sentence = f"the kernel still has negative eigenvalues, down to {below:.1e} of its largest: c is less than c*"
        found.append((None, sentence))
    if gap is not None and gap < LEAST_GAP * tol and embedding.active[-1]:
        instead = f"n_components={p + 1}" + (f" or {p - 1}" if p > 1 else "")
        both = f"axes {p} and {p + 1}"
        if pairs.next_value * embedding.eigenvalues[-1] < 0:
            what = f"which of {both} comes first is not determined: the moduli of their eigenvalues"
        else:
            what = f"{both} are not determined, only the plane that they span: their eigenvalues"
        sentence = f"{what} differ by {max(gap, 0.0):.1e} of themselves (tol={tol:g}); ask for {instead}"
        found.append((UndeterminedAxesWarning, sentence))
    return found


LEAST, MOST, EXACT = "at least", "at most", ""
MUCH_NEGATIVE = 0.2  # of the trace: more than noise and the zigzag of paths make
LEAST_GAP = 10.0  # times tol: a residual of tol turns the last axis by a sine of up to tol/gap, here a tenth


def sides(s: Mapping[str, Any], key: str) -> list[str]:
    """Of each number in ``spectrum_[key]``, one or a list by axis: "at most", "at least", or "" where it is exact.

    >>> sides({"correction": "flip", "complete": False, "shift": 0.0, "share": [0.5, 0.2]}, "share")
    ['at most', 'at most']
    """
    values = s[key] if isinstance(s[key], (list, tuple)) else [s[key]]
    # What has no number can't be a bound.
    return [EXACT if value is None else which for value, which in zip(values, _sides(s, key, len(values)), strict=True)]


def side(s: Mapping[str, Any], key: str) -> str:
    """The same of one number."""
    return sides(s, key)[0]


def much_negative(s: Mapping[str, Any]) -> str | None:
    """What it means that negative eigenvalues add up to more than a fifth of the trace; None where they don't.

    >>> much_negative({"negative_mass": 3.0, "trace_unshifted": 10.0})
    'a closed or curved shape, or shortcut edges between what is far apart: try fewer neighbours'
    >>> much_negative({"negative_mass": 1.0, "trace_unshifted": 10.0})
    """
    negative, trace = s.get("negative_mass"), s.get("trace_unshifted") or 0.0
    if not negative or not 0 < MUCH_NEGATIVE * trace < negative:
        return None
    if s.get("knn_method") == "geodesic":
        return "a closed or curved shape, or distances that no paths in flat space have"
    return "a closed or curved shape, or shortcut edges between what is far apart: try fewer neighbours"


def of_sizes(s: Mapping[str, Any]) -> bool:
    """Whether eigenvalues count by their size, whatever the sign."""
    return bool(s["correction"] == "flip")


def _sides(s: Mapping[str, Any], key: str, p: int) -> list[str]:
    complete, certain, flipped = bool(s.get("complete")), s["correction"] in DEFINITE, of_sizes(s)
    if key == "gof" and not certain:
        # A given constant may leave negative eigenvalues, of which the lowest alone is known.
        of_all = complete and (not s["shift"] or s.get("lowest_ritz_value", -1.0) >= 0)
        return [EXACT if of_all else MOST] * p
    if complete or (key == "most_negative_eigenvalue" and s.get("lingoes_constant") and s.get("converged")):
        return [EXACT] * p
    if key == "negative_mass" or (key == "trace" and flipped):
        return [LEAST] * p
    if key == "most_negative_eigenvalue" or (key == "share" and flipped):
        return [MOST] * p
    if key == "rel_corr_eig" and not certain and not s["shift"]:
        # (λ + s) / (trace + (n - 1) s) with too small an s: it falls with s for λ above the mean eigenvalue.
        mean = s["trace_unshifted"] / max(s["n_vertices"] - 1, 1)
        return [MOST if value >= mean else LEAST for value in s["eigenvalues"]]
    return [EXACT] * p
