"""The toy method is registered for these tests alone: others hold on to the list of methods."""

import importlib

import pytest

from scalemani import methods


@pytest.fixture(scope="module")
def toy():
    """The module of the toy method."""
    module = importlib.import_module("toy")
    methods.register("toy", module.Toy, ("start",))
    yield module
    methods.REGISTRY.pop("toy")
