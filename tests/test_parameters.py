"""One list of parameters: what is made of it, and what it says twice."""

import inspect
import pickle
from dataclasses import dataclass, fields

import click
import dask.base
import numpy as np
import pytest
from sklearn.base import clone

from scalemani import LLE, Isomap, KernelIsomap
from scalemani.graph.build import KINDS, POLICIES
from scalemani.neighbors.search import KNN
from scalemani.parameters import Arguments, Option, Parameters, parameter
from scalemani.storage.tiles import COMPRESSIONS
from scalemani.terminal.options import option_of


def test_the_estimators_take_the_parameters_of_the_list_in_its_order():
    listed = [one.name for one in fields(Arguments)]
    assert list(inspect.signature(KernelIsomap).parameters) == listed
    without = [name for name in listed if name not in ("correction", "constant_solver")]
    assert list(inspect.signature(Isomap).parameters) == without and Isomap().correction is None
    assert KernelIsomap(7, 3, metric="cosine").get_params()["n_components"] == 3
    for one in fields(Arguments):
        assert KernelIsomap().get_params()[one.name] == one.default, one.name
        assert f"\n{one.name} :" in inspect.getdoc(KernelIsomap), one.name


@dataclass(eq=False, repr=False)
class Further(KernelIsomap):
    """An estimator with one more parameter."""

    edge_lengths: str = parameter("plain", Option("How long an edge is."), choices=("plain", "conformal"))


def test_a_field_is_a_parameter_of_the_estimator_and_an_option():
    assert Further(edge_lengths="conformal").get_params()["edge_lengths"] == "conformal"
    assert Further(n_neighbors=5).set_params(edge_lengths="plain").n_neighbors == 5
    field = next(one for one in fields(Further) if one.name == "edge_lengths")
    command = option_of(field)(click.Command("fit", callback=lambda **given: given))
    assert command is not None
    option = option_of(field)(lambda: None).__click_params__[0]
    assert (option.opts, option.metavar, option.default) == (["--edge-lengths"], "plain|conformal", "plain")


def test_a_field_is_checked_and_recorded():
    @dataclass
    class More(Parameters):
        edge_lengths: str = parameter("plain", choices=("plain", "conformal"))

    assert More().recorded()["edge_lengths"] == "plain"
    with pytest.raises(ValueError, match="edge_lengths='conformall': did you mean 'conformal'"):
        More(edge_lengths="conformall").check()


def test_choices_are_those_that_the_steps_know():
    for name, known in (("graph", KINDS), ("disconnected", POLICIES), ("knn", KNN)):
        for choice in known:
            Parameters(**{name: choice}).check()
        option = next(one for one in fields(Arguments) if one.name == name).metadata["option"]
        assert option.metavar.split("|") == list(known)
    for choice in COMPRESSIONS:
        Parameters(compression=choice).check()


def test_dask_tells_models_of_the_same_parameters_apart():
    """It would name a dataclass by its fields, and take one model's result for the other's."""
    X = np.random.default_rng(0).random((60, 3))
    one, other = (Isomap(n_neighbors=8).fit(rows) for rows in (X, 2 * X))
    assert dask.base.tokenize(one) == dask.base.tokenize(one) != dask.base.tokenize(other)
    assert dask.base.tokenize(one.transform) != dask.base.tokenize(other.transform)


def test_a_range_of_landmarks_is_recorded_as_its_rows():
    assert Parameters(landmarks=range(0, 10, 3)).recorded()["landmarks"] == [0, 3, 6, 9]


def test_a_misspelt_parameter_is_recognised_and_signatures_stay():
    for estimator in (Isomap, KernelIsomap, LLE):
        with pytest.raises(TypeError, match="no parameter 'n_neighbours'; did you mean 'n_neighbors'"):
            estimator(n_neighbours=5)
        assert {"n_neighbors", "n_components", "store"} <= {*inspect.signature(estimator).parameters}
        assert pickle.loads(pickle.dumps(estimator(7))).n_neighbors == clone(estimator(7)).n_neighbors == 7
