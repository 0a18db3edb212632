"""Advice is given where the numbers call for it and nowhere else, and says what to do."""

import numpy as np
import pytest

from scalemani import Isomap, KernelIsomap
from scalemani.embedding.spectrum import much_negative
from scalemani.methods.isomap_words import IsomapWords, about_the_correction, beside_the_stick
from scalemani.report.words import notices, which_to_follow

QUIET = {
    "correction": "cailliez", "additive_constant": 2.0, "shift": 2.0, "median_distance": 4.0,
    "constant_over_median": 0.5,
    "trace_unshifted": 90.0, "eigenvalues": [60.0, 30.0], "share_unshifted": [0.6, 0.3], "residuals": [1e-9, 1e-8],
    "n_distinct": 100, "n_vertices": 100, "n_bridges": 0, "knn_recall": 1.0, "converged": True, "gap": 0.5,
    "negative_mass": 20.0,
}  # fmt: skip


def said(residual_variance=0.01, idle=0, **changed):
    return notices(IsomapWords(), {**QUIET, **changed}, 1e-6, residual_variance, idle, 2)


def test_a_sound_fit_is_left_in_peace():
    assert said() == []
    assert said(residual_variance=None, gap=None, knn_recall=None) == []
    older = {name: value for name, value in QUIET.items() if name not in ("gap", "negative_mass", "n_bridges")}
    assert notices(IsomapWords(), older, 1e-6, 0.01, 0, 2) == []


@pytest.mark.parametrize(
    ("changed", "headline", "remedy"),
    [
        ({"n_vertices": 99}, "1 point of 100 is not in the map", "--disconnected join"),
        ({"n_vertices": 90}, "10 points of 100 are not in the map", "More neighbours"),
        ({"n_bridges": 2}, "joined by 2 bridges", "More neighbours"),
        ({"knn_recall": 0.9}, "found 90.0 % of the true neighbours", "--knn exact"),
        ({"constant_over_median": 3.456}, "about 3.5 median distances further apart", "--correction none"),
        ({"converged": False}, "residual 1 × 10⁻⁸, asked for 1 × 10⁻⁶", "--tol"),
        ({"idle": 1}, "1 axis of 2 carries nothing", "Ask for 1 axis"),
        ({"gap": 1e-7}, "differ by < 0.01 % only", "Ask for 3 axes, or for fewer than 2"),
        ({"residual_variance": 0.3}, "Residual variance is 0.3", "More axes"),
    ],
)
def test_each_warning_has_its_remedy(changed, headline, remedy):
    (notice,) = said(**changed)
    assert notice.warning
    assert headline in notice.headline
    assert remedy in " ".join(notice.words)


def test_remarks_come_after_warnings():
    found = said(correction=None, shift=0.0, constant_over_median=0.0, gap=0.005, n_bridges=1)
    assert [notice.warning for notice in found] == [True, False, False]
    assert "add up to at least 22.2 % of the trace" in found[1].headline
    assert "differ by 0.50 %" in found[2].headline


@pytest.mark.parametrize("correction", [None, "cailliez", "lingoes", "flip", 2.0])
@pytest.mark.parametrize("negative", [17.9, 18.1, 80.0])
def test_above_a_fifth_of_the_trace_negative_mass_is_explained_and_no_correction_advised(correction, negative):
    """A curved shape, or shortcut edges, stay what they are under any correction."""
    shift = 0.0 if correction in (None, "flip") else 2.0
    found = {"correction": correction, "negative_mass": negative, "shift": shift, "constant_over_median": 4.0}
    found |= {"lingoes_constant": shift if correction == "lingoes" else 0.0}
    words = " ".join(about_the_correction({**QUIET, **found}))
    advised = " ".join(word for notice in said(**found) for word in notice.words)
    if negative > 0.2 * 90:
        assert "closed or curved shape" in words and "shortcut edges" in words and "try fewer neighbours" in words
        assert "fewer neighbours" in advised
    else:
        assert "closed or curved" not in words
    assert "A correction" not in advised and "lingoes" not in advised


def test_a_fit_in_python_notes_what_much_negative_mass_means(recwarn):
    """Of a ring, whatever the correction; of a flat sheet there is nothing to note. Nobody is warned."""
    turn = np.arange(60) * np.pi / 30
    ring, flat = np.c_[np.cos(turn), np.sin(turn)], np.random.default_rng(0).random((60, 2))
    for model in (Isomap(n_neighbors=4), KernelIsomap(n_neighbors=4)):
        (note,) = model.fit(ring).spectrum_["notes"]
        assert "a closed or curved shape, or shortcut edges" in note and "try fewer neighbours" in note
    assert Isomap(n_neighbors=59).fit(flat).spectrum_["notes"] == []
    assert not any("curved" in str(warned.message) for warned in recwarn)


def test_of_given_distances_no_neighbours_are_advised():
    meant = much_negative({**QUIET, "knn_method": "geodesic"})
    assert "closed or curved shape" in meant and "neighbours" not in meant


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {},
            ["2, about 0.50 times the median geodesic distance (about 4.0)", "smallest that", "half of its square, 2"],
        ),
        ({"shift": 0.0, "additive_constant": 0.0}, ["No constant is needed"]),
        ({"correction": 2.0}, ["It was asked for", "half of its square, 2"]),
        ({"correction": "number", "shift": 0.0}, ["The constant is 0, as it was asked for"]),
        (
            {"correction": "lingoes", "lingoes_constant": 2.0},
            ["Lingoes' constant is 2. Twice this number", "then be about 0.50 times"],
        ),
        ({"correction": "flip", "shift": 0.0}, ["counts by its size"]),
        ({"correction": None, "shift": 0.0}, ["No correction"]),
        ({"correction": "none", "shift": 0.0}, ["No correction"]),
    ],
)
def test_each_correction_is_explained(changed, words):
    text = " ".join(about_the_correction({**QUIET, **changed}))
    for word in words:
        assert word in text


def test_what_is_exact_is_not_said_to_be_a_bound():
    (found,) = said(correction=None, shift=0.0, constant_over_median=0.0, complete=True)
    assert "add up to 22.2 % of the trace" in found.headline


STICK = {**QUIET, "broken_stick": [0.6, 0.3], "rel_corr_eig": [0.7, 0.4], "complete": True}


@pytest.mark.parametrize(
    ("changed", "shares", "words"),
    [
        ({}, [0.7, 0.4], "all axes do"),
        ({}, [0.7, 0.2], "the first axis does"),
        ({}, [0.5, 0.4], "no axis does"),
        ({"constant_over_median": 4.0}, [0.7, 0.4], "most of each is the constant"),
        ({"correction": "none", "shift": 0.0, "complete": False}, [0.7, 0.4], "the first 2 axes may"),
        ({"correction": "none", "shift": 0.0, "complete": False}, [0.5, 0.4], "no axis does"),
        ({"correction": "none", "shift": 0.0}, [0.7, 0.4], "all axes do"),
    ],
)
def test_shares_are_compared_with_chance_as_far_as_they_tell(changed, shares, words):
    assert words in beside_the_stick({**STICK, **changed}, shares)


def test_one_of_the_answers_is_the_final_word():
    def caution(**changed):
        return IsomapWords().caution({**QUIET, **changed})

    assert "trust the residual variance" in which_to_follow(caution(), curve=True)
    assert "--correction none" not in which_to_follow(caution(), curve=True)
    above = which_to_follow(caution(constant_over_median=4.0), curve=True)
    assert "shares without the shift" in above and "--correction none" in above
    assert "a fit with more axes" in which_to_follow(caution(), curve=False)
