"""Metrics in their domain: what a metric can't measure is refused, and what has nothing in common is not joined."""

import functools
import importlib
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import dask.array as da
import metric_fuzzing
import numba
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from scipy.spatial.distance import cdist

from scalemani import Isomap, load
from scalemani.errors import (
    DisconnectedGraphError,
    NothingInCommonWarning,
    ScalemaniError,
    StoreMismatchError,
    UnreachableWarning,
)
from scalemani.neighbors.functions import function_name
from scalemani.neighbors.metrics import METRICS, PARAMETERS

RNG = np.random.default_rng(0)
SHARES = RNG.dirichlet(np.ones(6), 30)
BITS = (np.random.default_rng(3).random((30, 12)) < 0.5).astype(float)


def refused(X, metric, match, store=None, **more):
    """A fit is refused in one line, and leaves no file."""
    with pytest.raises(ScalemaniError, match=match) as caught:
        Isomap(n_neighbors=4, metric=metric, store=store, **more).fit(X)
    assert "\n" not in str(caught.value)
    assert store is None or not Path(store).exists()


# ---- the table --------------------------------------------------------------------------------------------------


def test_the_documentations_table_is_the_codes():
    def number(value, known):
        words = {None: "", math.pi: "π", math.log(2): "ln 2", math.inf: "∞"}
        text = words.get(value, f"{value:g}" if value is not None else "")
        return (f"{text} × features" if value != 1 else "features") if known.by_feature else text

    expected = [
        [
            f"`{name}`",
            ", ".join(f"`{alias}`" for alias in known.aliases),
            known.domain.words,
            number(known.maximum, known),
            "yes" if known.proper else "no",
            number(known.apart, known) + (" (rows >= 0)" if known.non_negative else ""),
        ]
        for name, known in METRICS.items()
    ]
    text = (Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")
    listed = [line for line in text.split("\n\n")[2].splitlines() if line.startswith("| `")]
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in listed] == expected
    assert len(METRICS) == 36


@pytest.mark.parametrize("name", metric_fuzzing.TRIED)
def test_the_table_says_which_metrics_obey_the_triangle_inequality_and_what_they_reach(name):
    rng = np.random.default_rng(1)
    bits = np.array([[i >> j & 1 for j in range(5)] for i in range(32)], float)
    line = np.linspace(-3, 3, 13)[:, None] + np.zeros(4)
    X = {
        "yule": bits[1:-1],
        "haversine": (rng.random((40, 2)) - 0.5) * np.pi,
        "bit_hamming": np.arange(64.0)[:, None],
        "bit_jaccard": np.arange(64.0)[:, None],
    }.get(name)
    if X is None and name in metric_fuzzing.YES_OR_NO:
        X = bits
    elif X is None and METRICS[name].domain.words.startswith("numbers"):
        X = np.r_[rng.dirichlet(np.full(4, 0.3), 30) + 1e-9, 1 + bits[:16, :4], 3 * np.eye(4) + 1e-9]
    elif X is None:
        X = np.r_[rng.normal(size=(40, 4)), np.abs(line) + [0.1, 0, 0, 0], bits[:16, 1:] + [0, 0.1, 0, 0]]
    params = metric_fuzzing.parameters(name, X.shape[1], rng)
    with np.errstate(all="ignore"):
        D = metric_fuzzing.between_rows(name, X, params)
    np.fill_diagonal(D, 0)
    D = np.minimum(D, 1e9)
    excess = (D[:, None, :] - D[:, :, None] - D[None, :, :]).max()
    assert METRICS[name].proper == (excess <= 1e-6)
    most = METRICS[name].maximum
    assert most is None or D.max() <= most * (X.shape[1] if METRICS[name].by_feature else 1) + 1e-9


def test_metrics_are_equal_to_scipys_or_refused():
    ends = metric_fuzzing.fuzz(30, seed=0, most=220, fits=40)
    assert min(ends["equal"], ends["refused"]) > 40


@pytest.mark.long
@pytest.mark.timeout(0)
def test_metrics_for_as_long_as_one_likes():
    """Five minutes, or SCALEMANI_FUZZ_SECONDS."""
    ends = metric_fuzzing.fuzz(
        float(os.environ.get("SCALEMANI_FUZZ_SECONDS", "300")), int(os.environ.get("SCALEMANI_FUZZ_SEED", "7"))
    )
    print(dict(ends))


# ---- domains ----------------------------------------------------------------------------------------------------


def spoiled(X, row, column, value):
    X = X.copy()
    X[row] = value if column is None else X[row]
    X[row, slice(None) if column is None else column] = value
    return X


DOMAINS = [
    ("braycurtis", SHARES, 7, 2, -0.5, "-0.5 at row 7, column 2 .*numbers >= 0"),
    ("hellinger", SHARES, 7, 2, -0.5, "-0.5 at row 7, column 2"),
    ("hellinger", SHARES, 7, None, 0.0, "only zeros in row 7"),
    ("jensen_shannon", SHARES, 7, None, 0.0, "only zeros in row 7"),
    ("wasserstein_1d", SHARES, 7, None, 0.0, "only zeros in row 7"),
    ("circular_kantorovich", SHARES, 7, 0, -1.0, "-1 at row 7, column 0"),
    ("kantorovich", SHARES, 7, 0, -1.0, "-1 at row 7, column 0"),
    ("sinkhorn", SHARES, 7, 3, 0.0, "row 7"),
    ("symmetric_kl", SHARES, 7, 3, 0.0, "row 7.*numbers > 0"),
    ("tsss", SHARES, 7, 3, -1.0, "-1 at row 7, column 3"),
    ("cosine", SHARES, 7, None, 0.0, "only zeros in row 7"),
    ("dot", SHARES, 7, None, 0.0, "only zeros in row 7"),
    ("true_angular", SHARES, 7, None, 0.0, "only zeros in row 7"),
    ("correlation", SHARES, 7, None, 3.1, "one number everywhere in row 7"),
    ("spearmanr", SHARES, 7, None, 3.1, "one number everywhere in row 7"),
    ("jaccard", BITS, 7, 2, 3.0, "3 at row 7, column 2 .*X != 0"),
    ("dice", BITS, 7, 2, 0.5, "0.5 at row 7, column 2"),
    ("russellrao", BITS, 7, 2, -1.0, "-1 at row 7, column 2"),
    ("yule", BITS, 7, None, 1.0, "one number everywhere in row 7"),
    ("yule", BITS, 7, None, 0.0, "one number everywhere in row 7"),
    ("bit_hamming", np.round(SHARES * 255), 7, 2, 256.0, "256 at row 7, column 2 .*0 to 255"),
    ("bit_jaccard", np.round(SHARES * 255), 7, 2, 0.5, "0.5 at row 7, column 2"),
    ("haversine", SHARES[:, :2], 7, 0, 1.7, "1.7 at row 7, column 0 .*numpy.radians"),
    ("haversine", SHARES[:, :2], 7, 1, 120.0, "120 at row 7, column 1"),
]


@pytest.mark.parametrize(("metric", "X", "row", "column", "value", "match"), DOMAINS)
def test_rows_outside_the_domain_are_refused_by_row_and_column(metric, X, row, column, value, match, tmp_path):
    X, d = spoiled(X, row, column, value), X.shape[1]
    cost = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    more = {"metric_params": {"cost": cost}} if "cost" in PARAMETERS.get(metric, ()) else {}
    store = str(tmp_path / "run.zarr")
    for given in (X, sp.csr_array(X), da.from_array(X, chunks=(5, 2)), zarr.create_array({}, data=X, chunks=(5, d))):
        refused(given, metric, match, store, **more)


def test_angles_in_float32_are_angles():
    at = np.r_[[[np.pi / 2, 2 * np.pi], [-np.pi / 2, -np.pi]], RNG.random((8, 2))].astype(np.float32)
    found = Isomap(metric="haversine", n_neighbors=9).fit(at).geodesics([0])
    np.testing.assert_allclose(found[0, 1], np.pi, rtol=1e-3)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda T: da.from_array(T, chunks=(2, 6))])
def test_new_rows_outside_the_domain_are_refused_too(kind):
    model = Isomap(metric="cosine", n_neighbors=5).fit(SHARES)
    T = spoiled(SHARES[:5] + 0.1, 3, None, 0.0)
    with pytest.raises(ScalemaniError, match=r"only zeros in row 3.*metric='cosine'"):
        np.asarray(model.transform(kind(T)))
    assert np.isfinite(model.transform(SHARES[:5] + 0.1)).all()


# ---- nothing in common ----------------------------------------------------------------------------------------


def groups(kind, number=6, rows=6, width=10):
    """Groups of rows that share no feature with those of another, and the groups."""
    rng = np.random.default_rng(1)
    X = np.zeros((number * rows, number * width))
    for g in range(number):
        here = X[g * rows : g * rows + rows, g * width : g * width + width]
        here[:] = rng.random(here.shape) if kind == "shares" else rng.random(here.shape) < 0.6
    return X, np.repeat(np.arange(number), rows)


APART = [
    *[(name, "bits") for name in ("jaccard", "dice", "kulsinski", "russellrao", "sokalsneath", "bit_jaccard")],
    *[(name, "shares") for name in ("cosine", "dot", "true_angular", "hellinger", "jensen_shannon", "braycurtis")],
]


@pytest.mark.parametrize(("metric", "kind"), APART)
def test_groups_without_a_common_feature_stay_apart_in_any_order_of_the_columns(metric, kind):
    X, group = groups(kind)
    for policy, columns in (("error", np.random.default_rng(5).permutation(X.shape[1])), ("join", slice(None))):
        with (
            pytest.warns(NothingInCommonWarning, match=rf"108 of 288 .*'{metric}'"),
            pytest.raises(DisconnectedGraphError, match=r"6 components of 6, 6.*another one"),
        ):
            Isomap(metric=metric, n_neighbors=8, disconnected=policy).fit(X[:, columns])
    with pytest.warns(NothingInCommonWarning):
        model = Isomap(metric=metric, n_neighbors=8, disconnected="largest").fit(X)
    assert model.spectrum_["n_components_of_graph"] == 6 and model.spectrum_["knn_left_out"] == 108
    assert np.isfinite(model.embedding_).all(axis=1).tolist() == (group == 0).tolist()


def test_a_radius_joins_nothing_that_has_nothing_in_common():
    X, _ = groups("bits", number=2)
    apart = pytest.raises(DisconnectedGraphError, match=r"2 components.*another one")
    with pytest.warns(NothingInCommonWarning), apart:
        Isomap(metric="jaccard", n_neighbors=None, radius=1.0).fit(X)


def test_groups_that_more_neighbours_join_are_told_how_many():
    X, _ = groups("bits", number=2)
    X[:, -1] = 1  # a common feature
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingInCommonWarning)
        with pytest.raises(DisconnectedGraphError, match="n_neighbors=6 is the least"):
            Isomap(metric="jaccard", n_neighbors=5, graph="union").fit(X)


def test_a_new_row_with_nothing_in_common_is_placed_nowhere():
    X, _ = groups("bits", number=2)
    T = np.r_[np.eye(1, 20, 15), X[:1]]
    X = X[:6]
    for options in ({"n_neighbors": 5}, {"n_neighbors": None, "radius": 1.0}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingInCommonWarning)
            model = Isomap(metric="jaccard", **options).fit(X)
        with pytest.warns(UnreachableWarning) as caught:
            Y = model.transform(T)
        assert len(caught) == 1
        assert np.isnan(Y[0]).all() and np.isfinite(Y[1]).all()


def test_right_angles_of_signed_rows_are_distances():
    """On a circle of eight directions, three neighbours reach a right angle: nothing is left out."""
    a = np.arange(8) * np.pi / 4
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingInCommonWarning)
        model = Isomap(metric="true_angular", n_neighbors=4).fit(np.c_[np.cos(a), np.sin(a)])
    np.testing.assert_allclose(model.geodesics([0])[0], np.minimum(np.arange(8), 8 - np.arange(8)) / 4, atol=1e-6)


# ---- functions ------------------------------------------------------------------------------------------------

POINTS = np.random.default_rng(2).random((40, 3))
EVEN, FLAT = np.array([1.0, 1.0, 1.0]), np.array([1.0, 0.01, 1.0])


def kl(p, q):
    return float(np.sum(p * np.log(p / q)))


@pytest.mark.parametrize(
    ("metric", "match"),
    [
        (kl, r"'kl' gives [0-9.]+ between row \d+ and row \d+ of X, and [0-9.]+ the other way round"),
        (lambda x, y: float(np.abs(x - y).sum()) + 0.1, r"gives 0.1 between row \d+ and itself"),
        (lambda x, y: float((x * y).sum()), r"between row \d+ and itself"),
        (lambda x, y: -float(np.abs(x - y).sum()), r"gives -[0-9.]+ between"),
        (lambda x, y: float("nan"), r"gives nan between"),
        (lambda x, y: None, "gives None; a number is needed"),
        (lambda x, y: np.zeros(3), "gives array"),
    ],
)
def test_a_function_that_is_no_distance_is_refused_with_rows_and_values(metric, match, tmp_path):
    refused(SHARES, metric, match, str(tmp_path / "run.zarr"))


def test_the_values_and_rows_that_are_named_are_the_users():
    X = np.repeat(SHARES, 2, axis=0)  # the distinct row i is row 2 i
    with pytest.raises(ScalemaniError) as caught:
        Isomap(metric=kl, n_neighbors=4).fit(X)
    words = str(caught.value).split()
    i, j = int(words[words.index("row") + 1]), int(words[words.index("and") + 2])
    assert str(kl(X[i], X[j])) in str(caught.value) and str(kl(X[j], X[i])) in str(caught.value)


def test_a_function_that_is_asymmetric_for_few_rows_is_refused_by_its_lists():
    """Rows beyond the sample are seen where both list each other; an infinite distance is no neighbour's."""
    X = np.random.default_rng(3).random((400, 3))
    X[50] = 0.5

    def metric(a, b):
        if np.abs(a - b).sum() > 1.5:
            return np.inf
        return float(np.abs(a - b).sum()) * (1.01 if (a == 0.5).all() else 1.0)

    def rounded(a, b):  # equal directions are at 1e-16 one way, and at 0 the other
        return max(0.0, 1 - float(a / np.linalg.norm(a) @ (b / np.linalg.norm(b)))) + 1e-16 * (a[0] > b[0])

    Isomap(metric=rounded, n_neighbors=8).fit(np.r_[X, 2 * X[:60]])
    with pytest.raises(ScalemaniError, match=r"between row (\d+ and row 50|50 and row \d+) of X, and .* both ways"):
        Isomap(metric=metric, n_neighbors=8).fit(X)


def test_rounding_is_no_fault_of_a_function():
    def angle(x, y):  # not quite 0 between a row and itself
        return np.arccos(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))

    found = Isomap(metric=angle, n_neighbors=8).fit(POINTS).geodesics([0])
    named = Isomap(metric="true_angular", n_neighbors=8).fit(POINTS).geodesics([0])
    np.testing.assert_allclose(found, named * np.pi, rtol=1e-6)


def weighted(w, a, b):
    return float(np.sqrt((w * (a - b) ** 2).sum()))


class Weighted:
    """A metric with weights."""

    def __init__(self, w):
        self.w = w

    def distance(self, a, b):
        return weighted(self.w, a, b)

    def __call__(self, a, b):
        return self.distance(a, b)


def by_method(w):
    return Weighted(w).distance


def by_closure(w):
    return lambda a, b: weighted(w, a, b)


def by_default(w):
    def metric(a, b, w=w):
        return weighted(w, a, b)

    return metric


def by_global(w):
    space = {"np": np, "w": w, "__name__": __name__}
    exec("def metric(a, b):\n    return float(np.sqrt((w * (a - b) ** 2).sum()))", space)
    return space["metric"]


def by_helper(w):
    space = {"np": np, "__name__": __name__}
    exec(f"def inner(g):\n    return g * np.array({w.tolist()})", space)
    exec("def helper(g):\n    return inner(g)", space)
    exec("def metric(a, b):\n    return float(np.sqrt((helper(a - b) * (a - b)).sum()))", space)
    return space["metric"]


def by_attribute(w):
    def metric(a, b):
        return weighted(metric.w, a, b)

    metric.w = w
    return metric


def by_class(w):
    class Scaled:
        @staticmethod
        def scale():
            return w

        def distance(self, a, b):
            return weighted(self.scale(), a, b)

    return Scaled().distance


def by_slots(w):
    class Slotted:
        __slots__ = ("w",)

        def distance(self, a, b):
            return weighted(self.w, a, b)

    made = Slotted()
    made.w = w
    return made.distance


def by_partial(w):
    return functools.partial(weighted, w)


def by_object(w):
    return Weighted(w)


def by_list(w):
    held = {"w": [w.tolist()]}
    return lambda a, b: weighted(np.array(held["w"][0]), a, b)


def by_metaclass(w):
    class Kind(type):
        def __call__(cls, a, b):
            return weighted(w, a, b)

    return Kind("Made", (), {})


WAYS = [by_metaclass, by_method, by_closure, by_default, by_global, by_helper, by_attribute, by_class, by_slots]
WAYS += [by_partial, by_object, by_list]


@pytest.mark.parametrize("way", WAYS)
def test_a_function_with_another_state_is_another_metric(way, tmp_path):
    first = Isomap(metric=way(EVEN), n_neighbors=8, store=tmp_path / "run").fit(POINTS)
    with pytest.raises(StoreMismatchError, match="metric="):
        Isomap(metric=way(FLAT), n_neighbors=8, store=tmp_path / "run").fit(POINTS)
    again = Isomap(metric=way(EVEN), n_neighbors=8, store=tmp_path / "run").fit(POINTS)
    np.testing.assert_array_equal(again.embedding_, first.embedding_)


def test_a_users_module_with_the_name_of_pythons_is_known_by_its_content(tmp_path, monkeypatch):
    """A script's folder comes first: there a code.py is the user's."""
    (tmp_path / "code.py").write_text("WIDTH = 1.0\ndef scaled(g):\n    return WIDTH * abs(g).sum()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "code", raising=False)
    mine = importlib.import_module("code")
    monkeypatch.setitem(sys.modules, "code", mine)

    def metric(a, b):
        return float(mine_scaled(a - b))

    mine_scaled = mine.scaled
    model = Isomap(metric=metric, n_neighbors=8).fit(POINTS)
    mine.WIDTH = 2.0
    with pytest.raises(ScalemaniError, match="another since the fit"):
        model.transform(POINTS[:5])


def test_options_of_the_compiler_are_part_of_a_function():
    def metric(a, b):
        return abs(a - b).sum()

    assert function_name(numba.njit(metric)) != function_name(numba.njit(fastmath=True)(metric))


def test_two_models_of_one_class_place_rows_by_their_own_metrics():
    models = [Isomap(metric=by_method(w), n_neighbors=8).fit(POINTS) for w in (EVEN, FLAT)]
    for model, w in zip(models, (EVEN, FLAT), strict=True):
        T, named = POINTS[:9] + 0.02, Isomap(n_neighbors=8).fit(POINTS * np.sqrt(w))
        scale = np.abs(named.embedding_).max()
        np.testing.assert_allclose(np.abs(model.embedding_), np.abs(named.embedding_), atol=1e-4 * scale)
        np.testing.assert_allclose(np.abs(model.transform(T)), np.abs(named.transform(T * np.sqrt(w))), atol=1e-4)


def test_an_object_that_changes_after_the_fit_places_no_rows():
    held = Weighted(EVEN.copy())
    model = Isomap(metric=held.distance, n_neighbors=8).fit(POINTS)
    before = model.transform(POINTS[:5] + 0.01)
    held.w[1] = 0.01
    with pytest.raises(ScalemaniError, match=r"'Weighted\.distance' is another since the fit"):
        model.transform(POINTS[:5] + 0.01)
    held.w[1] = 1.0
    np.testing.assert_array_equal(model.transform(POINTS[:5] + 0.01), before)


def opened(a, b):
    with open(os.devnull) as file:
        return weighted(EVEN, a, b) + 0 * len(file.read())


def hidden(a, b):
    return eval("weighted(EVEN, a, b)")


class Counting(Weighted):
    """Counts its calls."""

    calls = 0

    def distance(self, a, b):
        self.calls += 1
        return super().distance(a, b)


def generator():
    drawn = np.random.default_rng(0)
    return lambda a, b: weighted(EVEN, a, b) + 0 * drawn.random()


def importing(a, b):
    import metric_fuzzing

    return weighted(EVEN, a, b) + 0 * len(metric_fuzzing.TRIED)


@pytest.mark.parametrize(
    ("metric", "match"),
    [
        (hidden, r"eval\(\)"),
        (lambda a, b: weighted(EVEN, a, b) + 0 * len(os.getenv("HOME", "")), r"getenv\(\)"),
        (lambda a, b: weighted(EVEN, a, b) + 0 * len(os.environ), r"uses os\.environ:"),
        (generator(), "numpy.*Generator"),
        (importing, "'metric_fuzzing', which it imports as it runs"),
        (lambda a, b: weighted(EVEN, a, b) + 0 * len(vars(metric_fuzzing)), "module 'metric_fuzzing' as a whole"),
        (Counting(EVEN).distance, "changes what it uses when it is called"),
        (Weighted(sys.__stderr__).distance, "TextIOWrapper"),
    ],
)
def test_a_function_that_can_not_be_told_from_another_is_refused_with_the_reason(metric, match, tmp_path):
    refused(POINTS, metric, match, str(tmp_path / "run.zarr"))


def test_files_that_a_function_opens_are_its_own_affair():
    assert np.isfinite(Isomap(metric=opened, n_neighbors=8).fit(POINTS).embedding_).all()


def test_arguments_of_a_function_are_the_same_in_fit_and_transform(tmp_path):
    def metric(a, b, w=None, power=2):
        assert w.dtype == np.float64 and isinstance(power, int)
        return float((w * np.abs(a - b) ** power).sum() ** (1 / power))

    arguments = {"w": np.array([1, 0.5, 2]), "power": np.int64(2)}
    model = Isomap(metric=metric, metric_params=arguments, n_neighbors=8, store=tmp_path / "r").fit(POINTS)
    np.testing.assert_allclose(model.transform(POINTS + 0), model.embedding_, atol=1e-6)
    refused(POINTS, metric, "functools.partial", metric_params={"w": object()})
    refused(POINTS, metric, "functools.partial", metric_params={"w": [[1], [1, 2]]})


MODULE = """
import fractions
import functools
import numpy as np
from typing import NamedTuple

class Pair(NamedTuple):
    a: float
    b: float

class Held:
    kinds = {"a", "b", 3}

    def __init__(self):
        self.w = np.arange(3.0) + 1
        self.pair = Pair(1.0, 2.0)
        self.known = {"x": 1, "y": {2.5, "z", None}}

    def scale(self, g):
        return g * self.w

HELD = Held()

@functools.lru_cache
def share():
    return fractions.Fraction(1, 2)

def helper(g, deep=0):
    return helper(g, deep - 1) if deep else HELD.scale(g)

def metric(a, b):
    return float(np.linalg.norm(helper(a - b, 2))) * float(share()) * len({"p", "q"} | {b"r"}) * ("s" in {"s", "t"})
"""


@pytest.mark.slow
def test_a_function_is_known_in_another_process_whatever_its_hash_seed(tmp_path, monkeypatch):
    (tmp_path / "my_metric.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", POINTS[:5] + 0.01)
    try:
        metric = importlib.import_module("my_metric").metric
        model = Isomap(metric=metric, n_neighbors=8, store="run").fit(POINTS)
        code = "import numpy as n, my_metric, scalemani as s; n.save('y', s.load('run').transform(n.load('t.npy')))"
        other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        variables = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": str(tmp_path)}
        subprocess.run([sys.executable, "-c", code], env=variables, check=True, timeout=120)
        np.testing.assert_array_equal(np.load("y.npy"), model.transform(POINTS[:5] + 0.01))
        sys.modules["my_metric"].HELD.w[0] = 3
        with pytest.raises(ScalemaniError, match="another since the fit"):
            load("run")
    finally:
        sys.modules.pop("my_metric", None)


def test_a_users_function_with_a_metrics_name_is_not_that_metric():
    """The name of a function says nothing of the triangle inequality, or of a maximum."""

    def jaccard(x, y):
        return float(((x - y) ** 2).sum())

    found = Isomap(metric=jaccard, n_neighbors=8).fit(3 * POINTS).geodesics([0])
    expected = Isomap(metric="sqeuclidean", n_neighbors=8).fit(3 * POINTS).geodesics([0])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert cdist(3 * POINTS, 3 * POINTS).max() > 1
