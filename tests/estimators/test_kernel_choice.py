"""A choice of kernel and neighbours: its errors are those of doing it by hand, and labels may be missing."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

from scalemani import LLE, KernelChoice, choose_kernel
from scalemani.errors import ScalemaniError
from scalemani.estimators import kernel_choice
from scalemani.points.classes import read_some_labels

ORACLE = np.load(Path(__file__).parents[1] / "oracles" / "klle.npz")
X, Y, T_Y = ORACLE["X"], *(np.where(ORACLE[name] == 1, 8, 3) for name in ("y", "T_y"))  # rows of length 1
POLY = {"kernel": "poly", "degree": 2, "coef0": 0.001}
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly_2_0.001": POLY,
    "poly_3_1": {"kernel": "poly", "degree": 3, "coef0": 1},
    "rbf_3": {"kernel": "rbf", "gamma": 3},
}
SOME = np.arange(0, 200, 2)  # a small set


def machine():
    return SVC(kernel="linear", C=2.0)


@pytest.fixture(scope="module")
def chosen():
    return choose_kernel(X[SOME], Y[SOME], ["linear", POLY], [8, 12], folds=4, random_state=3)


@pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_an_svm_in_the_estimators_plane_has_the_references_errors(name):
    """5, 5, 5, 3 of 200 and 2, 2, 2, 1 of 60 placed rows; some lie on the line."""
    model = LLE(n_neighbors=int(ORACLE["k"]), **KERNELS[name]).fit(X)
    svm = machine().fit(model.embedding_, Y)
    wrong = [(svm.predict(rows) != y).sum() for rows, y in ((model.embedding_, Y), (model.transform(ORACLE["T"]), T_Y))]
    assert abs(wrong[0] - ORACLE[f"{name}_svm_errors"]) <= 1 and abs(wrong[1] - ORACLE[f"{name}_svm_errors_T"]) <= 1


# ---- the three errors --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")
@pytest.mark.parametrize(("at", "parameters"), [(0, (8, {})), (3, (12, POLY))])
def test_errors_are_those_of_doing_it_by_hand(chosen, at, parameters):
    one, (k, own), rows, y = chosen.tried[at], parameters, X[SOME], Y[SOME]
    plane = LLE(n_neighbors=k, **own, random_state=3).fit_transform(rows)
    np.testing.assert_array_equal(one.plane, plane)
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    assert one.training == (machine().fit(plane, y).predict(plane) != y).mean()
    shares = 1 - cross_val_score(machine(), plane, y, cv=folds)
    assert one.alone == pytest.approx(np.mean(shares))  # all folds have one size
    wrong = 0
    for train, test in folds.split(rows, y):
        model = LLE(n_neighbors=k, **own, random_state=3).fit(rows[train])
        svm = machine().fit(model.embedding_, y[train])
        wrong += (svm.predict(model.transform(rows[test])) != y[test]).sum()
    assert one.held_out == wrong / len(y) == one.wrong.mean()
    assert one.held_out_error == pytest.approx(np.sqrt(one.held_out * (1 - one.held_out) / len(y)))


def test_the_least_error_of_held_out_rows_is_chosen_and_all_is_told(chosen):
    assert chosen.best.held_out == min(one.held_out for one in chosen.tried)
    assert [(one.name, one.n_neighbors) for one in chosen.tried[1:3]] == [
        ("linear", 12),
        ("poly, degree 2, coef0 0.001", 8),
    ]
    said = str(chosen).splitlines()
    for line, one in zip(said[1:], chosen.tried, strict=False):
        assert line.startswith(one.name) and f"{100 * one.held_out:.1f} ± {100 * one.held_out_error:.1f}" in line
    assert f"Take {chosen.best.name} with {chosen.best.n_neighbors} neighbours" in str(chosen)
    assert max(map(len, said)) <= 120
    assert chosen.classes.tolist() == [3, 8] and chosen.best not in chosen.as_good


def test_a_plane_is_worse_only_by_more_than_two_standard_errors_of_the_difference():
    def tried(rows):
        wrong = np.isin(np.arange(100), rows)
        return kernel_choice.Tried(name="", n_neighbors=1, parameters={}, held_out=wrong.mean(), wrong=wrong)

    best, near, far = tried(range(10)), tried(range(4, 16)), tried(range(30))
    choice = kernel_choice.Choice((best, near, far), best, np.zeros(100, int), np.arange(2), 2, 1.0)
    assert choice.as_good == [near]


# ---- labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("none", [None, np.nan, "masked"])
def test_rows_without_a_label_shape_the_plane_and_teach_the_svm_nothing(none):
    unknown = np.arange(200) % 5 == 0
    y = (
        np.ma.masked_array(Y, unknown)
        if none == "masked"
        else [none if lost else int(y) for y, lost in zip(Y, unknown, strict=True)]
    )
    choice = choose_kernel(X, y, "linear", 8, folds=2)
    known = ~unknown
    np.testing.assert_array_equal(choice.codes, np.where(known, Y == 8, -1))
    np.testing.assert_array_equal(choice.best.plane, choose_kernel(X, Y, "linear", 8, folds=2).best.plane)
    svm = machine().fit(choice.best.plane[known], Y[known])
    assert choice.best.training == (svm.predict(choice.best.plane[known]) != Y[known]).mean()
    assert len(choice.best.wrong) == known.sum()


def test_minus_one_is_a_label():
    codes, classes = read_some_labels(np.array([-1, 1, -1]))
    assert codes.tolist() == [0, 1, 0] and classes.tolist() == [-1, 1]


def test_what_no_label_can_be_is_named_by_its_own_row():
    with pytest.raises(ScalemaniError, match=r"continuous target .* at row 2"):
        read_some_labels([None, 1.0, 1.5])


def test_several_classes_of_sparse_rows_with_names():
    rows, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], object)[y]
    names[::7] = None
    choice = choose_kernel(sp.csr_array(rows), names, ["linear"], [30], folds=3)
    assert choice.classes.tolist() == ["setosa", "versicolor", "virginica"] and choice.best.held_out < 0.3


# ---- what can't be -----------------------------------------------------------------------------------


@pytest.fixture
def no_fit(monkeypatch):
    def fit(self, *arguments):
        raise AssertionError("a fit was begun")

    monkeypatch.setattr(LLE, "fit", fit)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kernels": "ploy"}, "did you mean 'poly'"),
        ({"kernels": 3}, "a kernel: 3"),
        ({"kernels": []}, "kernels is empty"),
        ({"n_neighbors": []}, "n_neighbors is empty"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
        ({"n_neighbors": [160, 150]}, "n_neighbors=150: without a fold there are 150 rows"),
        ({"kernels": {"kernel": "rbf", "gama": 3}}, "did you mean 'gamma'"),
        ({"kernels": {"kernel": "rbf", "gamma": -3}}, "gamma=-3"),
        ({"kernels": {"scale": "kernel"}}, "a parameter to try: 'scale'"),
        ({"store": "x"}, "a parameter to try: 'store'"),
        ({"metric": "precomputed"}, "rows of features"),
        ({"n_components": 0}, "n_components=0"),
        ({"C": 0}, "C=0"),
        ({"folds": 1}, "folds=1"),
        ({"folds": True}, "folds=True"),
        ({"random_state": "a"}, "random_state='a'"),
        ({"y": Y[:-1]}, "y has 199 entries and X has 200 rows"),
        ({"y": [3, None] * 100}, "two classes"),
        ({"y": [None] * 200}, "y is empty"),
        ({"y": [3] * 197 + [8] * 3}, "class 8 has 3 labelled rows: folds=4"),
        ({"y": np.linspace(0, 1, 200)}, "continuous target"),
        ({"X": np.where(X == X[3, 20], np.nan, X)}, "NaN at row"),
    ],
)
def test_what_can_not_be_is_refused_in_one_line_before_any_fit(given, said, no_fit):
    with pytest.raises(ScalemaniError, match=said) as error:
        choose_kernel(**{"X": X, "y": Y, "n_neighbors": 8, "folds": 4, **given})
    assert "\n" not in str(error.value)


def test_numbers_of_neighbours_that_give_no_plane_are_told_of_and_left_out():
    rows, y = load_iris(return_X_y=True)
    choice = choose_kernel(rows, y, "linear", [5, 30, 120], folds=3)
    assert "n_neighbors=120 needs at least" in choice.tried[2].failure
    assert choice.best is choice.tried[1] and "2 components" in choice.tried[0].failure
    assert "no plane" in str(choice) and "No plane with linear, k = 5: the neighbour graph" in str(choice)
    assert len(choice.draw().axes) == 3
    with pytest.raises(ScalemaniError, match="no plane can be made; with 5 neighbours"):
        choose_kernel(rows, y, "linear", 5, folds=3)


# ---- pictures and the estimator ----------------------------------------------------------------------


def test_planes_are_drawn_with_line_and_margins(chosen, tmp_path):
    figure = chosen.draw(tmp_path / "planes.png")
    assert (tmp_path / "planes.png").read_bytes()[:4] == b"\x89PNG"
    assert len(figure.axes) == 4
    assert "k = 8" in figure.axes[0].get_title()
    with pytest.raises(ScalemaniError, match="n_components=2"):
        choose_kernel(X, Y, "linear", 8, n_components=3, folds=2).draw()


def test_a_seed_is_drawn_once_for_all():
    choice = choose_kernel(X[SOME], Y[SOME], "linear", [8, 12], folds=2, random_state=None)
    assert len({one.parameters["random_state"] for one in choice.tried}) == 1


@pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")
def test_the_estimator_places_and_classifies_new_rows():
    y = Y.astype(float)
    y[::4] = np.nan
    made = KernelChoice([{"kernel": "rbf"}, "linear"], 8, folds=2, parameters={"reg": 1e-4})
    model = make_pipeline(Normalizer(), clone(made)).fit(X, y)
    last = model[-1]
    assert last.best_params_ == last.choice_.best.parameters and last.best_params_["reg"] == 1e-4
    np.testing.assert_array_equal(last.best_estimator_.embedding_, last.choice_.best.plane)
    assert model.transform(ORACLE["T"]).shape == (60, 2) and list(last.get_feature_names_out()) == [
        "kernelchoice0",
        "kernelchoice1",
    ]
    assert model.score(ORACLE["T"], T_Y) > 0.9
    assert set(model.predict(ORACLE["T"])) == {3, 8}
