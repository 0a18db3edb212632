"""The parameters of the data sets are lengths on the surface."""

import numpy as np
import pytest
from paper_swiss_roll import semi_sphere
from scipy.integrate import quad

from scalemani.demo import swiss_roll


def test_length_along_the_roll_is_the_integral_of_speed():
    roll = swiss_roll(20, random_state=0)
    # |d/dt (t cos t, t sin t)| = sqrt(1 + t²), and t is the distance from the roll's axis.
    t = np.hypot(roll.points[:, 0], roll.points[:, 2])
    expected = [quad(lambda u: np.hypot(1, u), 1.5 * np.pi, end)[0] for end in t]
    np.testing.assert_allclose(roll.parameters[:, 0], expected, rtol=1e-9)
    np.testing.assert_array_equal(roll.parameters[:, 1], roll.points[:, 1])


def test_semi_sphere_parameters_keep_great_circles_from_the_pole():
    sphere = semi_sphere(50, radius=3.0, random_state=0)
    arc = 3.0 * np.arccos(sphere.points[:, 2] / 3.0)
    np.testing.assert_allclose(np.linalg.norm(sphere.parameters, axis=1), arc, rtol=1e-9)
    assert sphere.points[:, 2].min() >= 0
    # Uniform by area: heights are uniform.
    assert np.mean(semi_sphere(20_000, random_state=1).points[:, 2]) == pytest.approx(5.0, rel=0.02)


@pytest.mark.parametrize("make", [swiss_roll, semi_sphere])
def test_noise_has_the_variance_asked_for_and_the_surface_stays(make):
    clean = make(20_000, random_state=5)
    noisy = make(20_000, noise_variance=0.25, random_state=5)
    # 3 x 20,000 draws: the sample variance is within 2 % almost surely (0.6 % is one deviation).
    assert np.var(noisy.points - clean.points) == pytest.approx(0.25, rel=0.02)
    np.testing.assert_array_equal(noisy.parameters, clean.parameters)
    np.testing.assert_array_equal(noisy.points, make(20_000, noise_variance=0.25, random_state=5).points)


def test_an_even_roll_of_one_turn_has_as_many_points_on_each_piece_of_its_sheet():
    roll = swiss_roll(20_000, turns=1, even=True, random_state=0)
    t = np.hypot(roll.points[:, 0], roll.points[:, 2])
    end = quad(lambda u: np.hypot(1, u), 1.5 * np.pi, 3.5 * np.pi)[0]
    assert t.min() == pytest.approx(1.5 * np.pi, abs=1e-2) and t.max() == pytest.approx(3.5 * np.pi, abs=1e-2)
    # Quarters of the length hold quarters of the points: one deviation is 61 of 5,000.
    np.testing.assert_allclose(np.histogram(roll.parameters[:, 0], 4, (0, end))[0], 5000, atol=300)
