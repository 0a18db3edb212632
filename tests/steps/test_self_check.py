"""The self-check of a fit: what is right passes, each kind of fault is an error that names it and leaves no model."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from data import random_distances, roll
from stored_models import X, fitted

from scalemani import KernelIsomap, load
from scalemani.errors import ScalemaniError, SelfCheckError
from scalemani.kernel import operators
from scalemani.kernel.operators import CenteredKernels
from scalemani.steps import axes
from scalemani.steps import checks as self_check
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")]


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """What `check_fit` was given, by correction and form of projection, in fits that passed."""
    seen, real = {}, self_check.check_fit
    path = tmp_path_factory.mktemp("self_check") / "run"
    with pytest.MonkeyPatch.context() as patch:
        for correction, form in (
            ("cailliez", "continuous"),
            ("lingoes", "paper"),
            ("flip", "continuous"),
            (None, "paper"),
        ):

            def watched(*args, key=(correction, form), **options):
                seen[key] = (args, options)
                return real(*args, **options)

            patch.setattr(axes, "check_fit", watched)
            fitted(path, correction=correction, projection=form, n_components=3)
    return seen


@pytest.mark.parametrize(
    "key", [("cailliez", "continuous"), ("lingoes", "paper"), ("flip", "continuous"), (None, "paper")]
)
def test_a_right_fit_passes_with_room_to_spare(checks, key):
    args, options = checks[key]
    found = self_check.check_fit(*args, **options)
    assert {"pairs", "sums", "symmetry", "constants", "residuals", "projection"} <= set(found)
    assert ("lowest" in found) == (key[0] in ("cailliez", "lingoes"))
    assert found["pairs"] <= 1e-6 and found["sums"] <= 1e-12 and found["symmetry"] <= 1e-12
    assert found["residuals"] <= 1e-6 and found["projection"] <= 1e-5


def shifted(array, at, by):
    changed = np.array(array)
    changed[at] += by
    return changed


def one_pair_each(a):
    """The rows with one entry wrong in that part of each that the check looks at, whichever block it takes."""
    rows = a["rows"].copy()
    for block in a["store"].blocks:
        rows[:, block.start + 5] += np.float32(0.01)
    return rows


def of_constant(a, factor):
    """A solution whose constant is another, consistently: nugget, eigenvalues and means follow, its low end can't."""
    solution, embedding, sums = a["solution"], a["embedding"], a["sums"]
    c = factor * solution.constant
    D = a["store"].read_rows(np.arange(sums.n)).astype(float) + c * (1 - np.eye(sums.n))
    J = np.eye(sums.n) - 1 / sums.n
    values, vectors = np.linalg.eigh(-0.5 * J @ D**2 @ J)
    found, top = replace(solution.pairs, values=values[:-4:-1], vectors=vectors[:, :-4:-1]), vectors[:, :-4:-1]
    shift = {"constant": c, "nugget": c * c / 2}
    return {
        "solution": replace(solution, pairs=found, **shift),
        "embedding": replace(embedding, eigenvalues=found.values, vectors=top, means=(D**2).mean(0), **shift),
    }


FAULTS = {
    "rows that are not D's": (lambda a: {"rows": a["rows"] * np.float32(1 + 1e-4)}, "other ends"),
    "one pair of each vertex": (lambda a: {"rows": one_pair_each(a)}, "other ends"),
    "a row sum that is no number": (
        lambda a: {"sums": replace(a["sums"], row_sums=a["sums"].row_sums * np.nan)}, "row sums"
    ),
    "a mean that is no number": (
        lambda a: {"embedding": replace(a["embedding"], means=shifted(a["embedding"].means, 3, np.nan))}, "eigenvector"
    ),
    "a row sum": (lambda a: {"sums": replace(a["sums"], row_sums=a["sums"].row_sums * 1.0001)}, "row sums"),
    "a sum of squares": (
        lambda a: {"sums": replace(a["sums"], row_sums_squared=a["sums"].row_sums_squared * 0.9999)}, "row sums"
    ),
    "a maximum": (lambda a: {"sums": replace(a["sums"], row_maxima=a["sums"].row_maxima * 0.99)}, "row sums"),
    "an operator": (lambda a: {"pairs": {"asymmetry": 1e-3}}, "not symmetric"),
    "centring": (lambda a: {"pairs": {"vectors": a["solution"].pairs.vectors + 1e-6}}, "orthogonal to 1"),
    "residuals": (lambda a: {"pairs": {"residuals": np.array([0, 0, 1e-3])}}, "residuals"),
    "not a number": (lambda a: {"pairs": {"residuals": np.array([0, np.nan, 0])}}, "residuals"),
    "a lowest vector that is another's": (
        lambda a: {"pairs": {"low_vector": np.roll(a["solution"].pairs.low_vector, 1)}}, "lowest eigenvector"
    ),
    "a constant too small": (lambda a: of_constant(a, 0.97), "lowest eigenvector"),
    "a constant too large": (lambda a: of_constant(a, 1.03), "lowest eigenvector"),
    "the constant of the model": (
        lambda a: {"embedding": replace(a["embedding"], constant=1.05 * a["embedding"].constant)}, "projected"
    ),
    "the means of the model": (
        lambda a: {"embedding": replace(a["embedding"], means=np.roll(a["embedding"].means, 1))}, "eigenvector"
    ),
    "the order of the model's vectors": (
        lambda a: {"embedding": replace(a["embedding"], vectors=np.roll(a["embedding"].vectors, 1, 0))}, "projected"
    ),
    "the nugget": (
        lambda a: {"embedding": replace(a["embedding"], nugget=0.9 * a["embedding"].nugget)}, "projected"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_an_error_that_names_it(checks, fault):
    args, options = checks["cailliez", "continuous"]
    given = dict(zip(("store", "rows", "vertices", "solution", "embedding", "sums"), args, strict=True))
    make, said = FAULTS[fault]
    changes = make(given)
    if "pairs" in changes:
        solution = given["solution"]
        changes = {"solution": replace(solution, pairs=replace(solution.pairs, **changes["pairs"]))}
    given.update(changes)
    with pytest.raises(SelfCheckError, match=said):
        self_check.check_fit(*given.values(), **options)


def test_where_pairs_did_not_converge_their_residuals_are_no_fault(checks):
    args, options = checks["cailliez", "continuous"]
    store, rows, vertices, solution, embedding, sums = args
    pairs = replace(solution.pairs, converged=False, residuals=np.full(3, 1e-2))
    found = self_check.check_fit(store, rows, vertices, replace(solution, pairs=pairs), embedding, sums, **options)
    assert found["residuals"] == 1e-2


def test_it_reads_a_few_columns_and_not_d(monkeypatch, tmp_path):
    """Up to 300 points a fit reads no tile at all, and the check reads none whole."""
    asked, tiles, real, read = [], [], RunStore.read_columns, Tiles.read
    monkeypatch.setattr(Tiles, "read", lambda self, *tile: (tiles.append(tile), read(self, *tile))[1])

    def read_columns(self, row, vertices):
        asked.append(len(vertices))
        return real(self, row, vertices)

    monkeypatch.setattr(RunStore, "read_columns", read_columns)
    fitted(tmp_path / "run")
    assert 1 <= len(asked) == len(tiles) <= self_check.TILES
    assert 16 <= sum(asked) <= 2 * self_check.CHECKED


@pytest.fixture(scope="module")
def iterated(tmp_path_factory):
    """A right fit that iterates; no test may change it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalemani.kernel.eigensolver.FULL_BASIS", 1)
        return fitted(tmp_path_factory.mktemp("iterated") / "run")


def broken(self, vectors, real=CenteredKernels.products):
    """The products of a read that lost the squares of some vertices."""
    first, second = real(self, vectors)
    second = second.copy()
    second[: len(second) // 4] *= 0.5
    return first, second


def test_a_fit_with_broken_products_is_an_error_and_leaves_no_model(iterate, iterated, monkeypatch, tmp_path):
    monkeypatch.setattr(operators.CenteredKernels, "products", broken)
    with pytest.raises(SelfCheckError, match=r"nothing was\s+recorded"):
        fitted(tmp_path / "run")
    store = RunStore(tmp_path / "run")
    assert "geodesics" in store.document.stages and "solve" not in store.document.stages
    with pytest.raises(ScalemaniError, match="not finished"):
        load(tmp_path / "run")
    monkeypatch.undo()
    monkeypatch.setattr("scalemani.kernel.eigensolver.FULL_BASIS", 1)
    np.testing.assert_allclose(fitted(tmp_path / "run").embedding_, iterated.embedding_, atol=1e-9 * np.ptp(X))


def test_an_earlier_model_stays_when_a_later_one_fails(iterate, iterated, monkeypatch, tmp_path):
    shutil.copytree(iterated.store_, tmp_path / "run")
    monkeypatch.setattr(operators.CenteredKernels, "products", broken)
    with pytest.raises(SelfCheckError):
        fitted(tmp_path / "run", correction=None)
    np.testing.assert_array_equal(load(tmp_path / "run").embedding_, iterated.embedding_)


def test_given_distances_are_checked_against_themselves(tmp_path):
    D = random_distances(120)
    model = KernelIsomap(metric="geodesic", store=tmp_path / "run").fit(D)
    assert model.spectrum_["self_check"]["pairs"] <= 1e-7


@pytest.mark.parametrize("n", [2, 3, 5, 17])
def test_few_points_are_checked_too(n):
    model = KernelIsomap(n_neighbors=min(8, n - 1), n_components=1).fit(roll(n))
    assert model.spectrum_["self_check"]["projection"] <= 1e-6


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_the_data_is_of_no_account(unit):
    found = fitted(None).spectrum_["self_check"]
    scaled = KernelIsomap(n_neighbors=8).fit(X * unit).spectrum_["self_check"]
    assert scaled["projection"] == pytest.approx(found["projection"], abs=1e-6)
