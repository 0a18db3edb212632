"""Raw stress in memory, against the dense reference's arrays and by hand."""

from pathlib import Path

import numpy as np
import pytest
from naive import turned
from scipy.spatial.distance import cdist

from scalemani.embedding.stress import minimize, place, share

GIVEN = np.load(Path(__file__).parent.parent / "oracles" / "raw_stress.npz")


def oracle(name):
    return {key.removeprefix(f"{name}_"): value for key, value in GIVEN.items() if key.startswith(name)}


def whole(D):
    """Reads of a matrix in memory, and how many there were."""
    reads = []

    def read(X):
        reads.append(X.copy())
        return share(D, X)[0]

    return read, reads


@pytest.mark.parametrize("name", ["hole", "sphere"])
def test_stress_and_guttmans_step_are_the_references(name):
    expected = oracle(name)
    D, X, p = expected["D"], expected["start"], 2
    found = share(D, X)[0]
    assert found[:, p].sum() / 2 == pytest.approx(float(expected["stress_start"]), rel=1e-12)
    step = expected["guttman_of_start"]
    assert np.abs(found[:, :p] / len(D) - step).max() <= 1e-12 * np.abs(step).max()


@pytest.mark.parametrize("name", ["hole", "sphere"])
def test_the_least_stress_is_the_references(name):
    expected = oracle(name)
    read, reads = whole(expected["D"])
    found = minimize(read, expected["start"], 1e-14)
    assert found.undilated == pytest.approx(float(expected["stress_start"]), rel=1e-9)
    assert found.stresses[0] == pytest.approx(float(expected["stress_dilated"]), rel=1e-9)
    assert found.stresses[-1] == pytest.approx(float(expected["stress"]), rel=1e-9)
    assert found.stress_1(found.stresses[-1]) == pytest.approx(float(expected["stress1"]), rel=1e-9)
    assert found.converged and len(found.stresses) == len(reads)
    assert found.by_point.sum() / 2 == pytest.approx(found.stresses[-1], rel=1e-12)
    if name == "hole":  # the sphere's is nearly free to turn, and the reference says so
        turn, shift = turned(found.coordinates, expected["embedding"])
        apart = found.coordinates @ turn + shift - expected["embedding"]
        assert np.abs(apart).max() <= 1e-4 * np.abs(expected["embedding"]).max()


def test_the_first_step_is_guttmans_and_stress_never_rises():
    expected = oracle("hole")
    read, reads = whole(expected["D"])
    found = minimize(read, expected["start"], 1e-5)
    np.testing.assert_allclose(reads[1], expected["guttman_of_start"], rtol=1e-9, atol=1e-9)
    assert (np.diff(found.stresses) <= 0).all()
    small = -np.diff(found.stresses) <= 1e-5 * np.array(found.stresses[1:])
    assert small[-2:].all() and not (small[1:-1] & small[:-2]).any()  # at two reads running, and then no more


def test_tiles_of_an_upper_half_give_what_the_whole_gives():
    expected = oracle("hole")
    D, X = expected["D"], expected["start"]
    a, b = slice(0, 70), slice(70, 200)
    total = np.zeros((200, 5))
    total[a] += share(D[a, a], X[a])[0]
    total[b] += share(D[b, b], X[b])[0]
    ours, theirs = share(D[a, b], X[b], X[a])
    total[a] += ours
    total[b] += theirs
    np.testing.assert_allclose(total, share(D, X)[0], rtol=1e-12, atol=1e-9)


def test_points_at_one_place_pull_by_nothing():
    """A division by their distance would be a NaN."""
    X = np.array([[0.0], [0.0], [1.0]])
    found = share(np.array([[0.0, 2, 1], [2, 0, 1], [1, 1, 0]]), X)[0]
    np.testing.assert_array_equal(found[:, 0], [-1, -1, 2])
    np.testing.assert_array_equal(found[:, 1], [4, 4, 0])


def test_a_start_that_is_too_small_all_over_takes_one_read():
    X = np.random.default_rng(0).normal(size=(30, 3))
    read, reads = whole(cdist(X, X))
    found = minimize(read, X / 2, 1e-9)
    assert len(reads) == 1 and found.converged
    np.testing.assert_allclose(found.coordinates, X - X.mean(axis=0), rtol=1e-12)


def test_an_end_for_want_of_reads_is_said():
    expected = oracle("sphere")
    read, reads = whole(expected["D"])
    found = minimize(read, expected["start"], 1e-12, most=4)
    assert not found.converged and len(reads) == 4


def test_new_points_are_where_the_reference_has_them_each_by_itself():
    expected = oracle("hole")
    Y, rows = expected["embedding"], expected["T_D"]
    found = place(rows, Y)
    spread = np.abs(Y).max()
    assert np.abs(found - expected["T_embedding"]).max() <= 1e-6 * spread
    own = ((rows - cdist(found, Y)) ** 2).sum(axis=1)
    np.testing.assert_allclose(own, expected["T_stress"], rtol=1e-9)
    for row in (0, 7, 29):
        assert np.array_equal(place(rows[row : row + 1], Y)[0], found[row])
    training = place(expected["D"], Y)
    assert np.abs(training - Y).max() <= 1e-5 * spread
    assert np.isnan(place(np.full((1, 200), np.inf), Y)).all()


def test_no_slope_is_left_where_new_points_are():
    expected = oracle("sphere")
    Y, rows = expected["embedding"], expected["D"][:20] * np.linspace(0.5, 50, 20)[:, None]
    apart = place(rows, Y)[:, None] - Y
    slope = (apart * (1 - rows / np.linalg.norm(apart, axis=2))[:, :, None]).sum(axis=1)
    assert (np.linalg.norm(slope, axis=1) <= 1e-7 * rows.sum(axis=1)).all()
