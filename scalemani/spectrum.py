"""Stage 7, beside the coordinates: takes a solution and the first read's sums, gives the account of the spectrum.

How much of the data do the axes show? Programs answer with different quotients, and a spectrum with negative
eigenvalues makes them differ by much, so all of the usual ones are given, by name. None of them needs more of the
spectrum than p eigenvalues and what the first read of D summed: with q_i and r_i the row sums of D and D∘D,

    trace K2 = Σ r_i / 2n,      4 ||K2||_F² = Σ d⁴ - (2/n) Σ r_i² + (Σ r_i)² / n²,

and for K(c) and Lingoes' kernel as in :class:`scalemani.kernel_shares.DistanceSums`. What needs every eigenvalue is
the negative mass N, the sum of the moduli of K2's negative eigenvalues. By Cauchy's interlacing the Ritz values of a
subspace give lower bounds of it: -Σ(negative ones), and Σ(positive ones) - trace K2. So N is a LOWER bound, and what
divides by the sum of moduli (trace + 2N: `gof` without a correction or with a given constant, `share` for "flip") is an
upper one. `most_negative_eigenvalue` is the lowest Ritz value, an upper bound that only "lingoes" converges: with None
and "flip" the basis follows the top alone, so that `rel_corr_eig`, whose constant it is, is an upper bound of axes
above the mean eigenvalue and a lower one of those below. Up to 301 points all are exact (`complete`), but for `gof` of
K(c) with a given c below c*, for which only the pairs found count. :mod:`scalemani.bounds` says so number by number.

Sources: Mardia, Kent and Bibby, "Multivariate analysis" (1979), section 14.4 (shares of moduli and of squares);
Legendre and Legendre, "Numerical ecology" (1998), equation 9.27 (Rel_corr_eig); MacArthur (PNAS 43, 1957; the broken
stick); the programs' own documentation (R's cmdscale, ape's pcoa, scikit-learn's Isomap).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.bounds import LEAST_GAP, two_digits
from scalemani.corrections import Solution
from scalemani.dimension import broken_stick
from scalemani.eigensolver import first_block
from scalemani.embedding import Embedding
from scalemani.errors import AdditiveConstantWarning, ScalemaniWarning, UndeterminedAxesWarning, warn
from scalemani.kernel_shares import DistanceSums

Vectors = NDArray[np.float64]
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
    own = _own_eigenvalues(solution)
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
        "lingoes_constant": nugget * area if solution.correction == "lingoes" else 0.0,
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
    if solution.correction == "number":  # less than c* may have been given
        values = solution.pairs.values
        left = max(float(values[values > 0].sum()) - trace, -solution.pairs.lowest, 0.0)
    return trace + 2 * left, trace + left


def _own_eigenvalues(solution: Solution) -> Vectors | None:
    """Eigenvalues of K2 itself; None where the pairs are K(c)'s."""
    if solution.correction == "lingoes" or solution.nugget == 0:
        return solution.pairs.values - solution.nugget
    return None


def gap_behind(sizes: Vectors, following: float) -> float | None:
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
        return n - (1 if solution.correction == "number" else 2)
    active = int(embedding.active.sum())
    floor = embedding.tolerance * max(float(embedding.sizes[0]), 0.0)
    if not embedding.flipped and solution.most_negative < -floor:
        return n - 2
    behind = abs(solution.pairs.next_value)
    return active if active < len(embedding.sizes) or behind <= floor else n - 1


def _listed(numbers: Vectors) -> list[float]:
    return [float(number) for number in numbers]


def _quotient(a: float, b: float) -> float:
    return float(a / b) if b > 0 else 0.0


def _shares(parts: Vectors, whole: float) -> list[float]:
    return [_quotient(part, whole) for part in parts]


# ---- in words ----------------------------------------------------------------------------------------


def _remarks(
    solution: Solution, embedding: Embedding, ratio: float, gap: float | None, tol: float
) -> list[Remark]:
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
        if solution.correction == "lingoes":
            what = f"Lingoes' constant s puts equal points sqrt(2s) apart, which is about {two_digits(ratio)} times"
        else:
            what = f"the additive constant is about {two_digits(ratio)} times"
        sentence = (
            f"{what} the median geodesic distance: the embedding shows mostly the shift; look at the shares without "
            "it, compare a fit with no correction, and check the graph for shortcut edges"
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
