"""What is said to be a bound is on its side of the whole dense spectrum's number; what is said to be exact is that."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from scalemani.cluster.threads import single_blas_thread
from scalemani.embedding.coordinates import make_embedding
from scalemani.embedding.spectrum import sides, spectrum_account
from scalemani.kernel.constant import solve
from scalemani.kernel.operators import DenseKernels

pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")

KEYS = ("trace", "share", "gof", "rel_corr_eig", "negative_mass", "most_negative_eigenvalue")
N, P, C = 310, 12, 0.4  # points: more than the solver takes whole


def city(n):
    """Distances that no flat space has: along streets."""
    X = np.random.default_rng(0).normal(size=(n, 6)) ** 3
    return cdist(X, X, "cityblock") / 10


def kernel_values(D, c=0.0):
    """Eigenvalues on the complement of 1, descending."""
    n = len(D)
    J = np.eye(n) - 1 / n
    values = np.linalg.eigvalsh(-0.5 * J @ (D + c * (1 - np.eye(n))) ** 2 @ J)
    return np.sort(np.delete(values, np.abs(values).argmin()))[::-1]


def account(D, p, correction):
    with single_blas_thread():
        kernels = DenseKernels(D)
        solution = solve(kernels, p, correction=correction)
        return spectrum_account(solution, make_embedding(solution, kernels.sums, 1.0), kernels.sums, 1.0, 1)


def true_account(D, p, correction, found):
    own = kernel_values(D)
    lowest, mass, n = own[-1], -own[own < 0].sum(), len(D)
    values = {"lingoes": own - lowest, "flip": np.abs(own)}.get(correction, own)
    if correction in (C, "cailliez"):
        values = kernel_values(D, found["additive_constant"])
    top = np.sort(values)[::-1][:p]
    shown = top[top > 0].sum()
    gof = [shown / np.abs(values).sum(), shown / values[values > 0].sum()]
    signed = own[np.argsort(-np.abs(own))[:p]] if correction == "flip" else own[:p]
    corrected = (signed - lowest) / (own.sum() - (n - 1) * lowest)
    return {
        "trace": values.sum(),
        "share": top / values.sum(),
        "gof": gof,
        "rel_corr_eig": corrected if correction in (None, "flip") else top / values.sum(),
        "negative_mass": mass,
        "most_negative_eigenvalue": lowest,
    }


@pytest.mark.parametrize("correction", ["cailliez", "lingoes", "flip", None, C])
@pytest.mark.parametrize("n", [60, N])
def test_a_bound_is_on_its_side_and_what_is_exact_is_exact(n, correction):
    D = city(n)
    found = account(D, P, correction)
    truth = true_account(D, P, correction, found)
    assert found["complete"] == (n == 60)
    said = set()
    for key in KEYS:
        which = np.array(sides(found, key))
        said |= set(which)
        value, true = np.atleast_1d(found[key]), np.atleast_1d(truth[key])
        slack = 1e-5 * np.abs(true) + 1e-9
        assert (np.abs(value - true) <= slack)[which == ""].all(), key
        assert (value >= true - slack)[which == "at most"].all(), key
        assert (value <= true + slack)[which == "at least"].all(), key
    if n == 60:
        assert said <= {"", "at most"} and ("at most" in said) == (correction == C)
    else:
        assert "at least" in said and ("at most" in said or correction == "lingoes")


def test_corrected_shares_are_bounds_of_either_side():
    """Those of flipped axes, some of which are below the mean eigenvalue."""
    found = account(city(N), P, "flip")
    mean = found["trace_unshifted"] / (N - 1)
    expected = ["at most" if value > mean else "at least" for value in found["eigenvalues"]]
    assert sides(found, "rel_corr_eig") == expected
    assert len(set(expected)) == 2


def test_an_account_of_an_earlier_version_is_of_bounds():
    assert sides({"correction": None, "shift": 0.0, "negative_mass": 3.0}, "negative_mass") == ["at least"]
    assert sides({"correction": None, "shift": 0.0, "gof": [0.5, None]}, "gof") == ["at most", ""]
