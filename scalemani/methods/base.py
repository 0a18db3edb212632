"""What a method is: steps in their order, and what a fitted model of it answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalemani.aliases import F64, I64
from scalemani.errors import IN_A_SEARCH, StoreMismatchError
from scalemani.methods import entry_of, named, word_of
from scalemani.methods.words import Section, Words
from scalemani.parameters import Parameters
from scalemani.steps.base import Step
from scalemani.steps.records import MethodRecord
from scalemani.storage.run import RunStore


class Method:
    """What is made of a point set.

    projector: The function (store, form) that makes what places new points, as "module:name"; in any process.
    kernel: The functions (store, form) that make what gives kernel values of new rows with all training rows (None
        where these are not known), and of training rows by their numbers
        (:mod:`scalemani.projection.kernel_values`), as "module:name"; None of a method without a kernel between rows.
    kernel_name: What that kernel is called.
    words: What is said of a fitted model, on the terminal and the page.
    parameters: The class of what a fit works with; one with more fields is derived from it.
    takes_labels: Whether y, where it is given, holds labels, and edges are made within classes alone.
    """

    projector = ""
    kernel: tuple[str | None, str] | None = None
    kernel_name = "K"
    words = Words()
    parameters: type[Parameters] = Parameters
    takes_labels = False

    def read(self, X: Any, y: Any, parameters: Parameters, memory: int | None, folder: str | None) -> Any:
        """X as a :class:`scalemani.steps.inputs.Input`, validated, with the labels y if they mean anything."""
        from scalemani.steps.inputs import read_input
        from scalemani.steps.labeled import read_labeled

        if y is not None and self.takes_labels:
            return read_labeled(X, y, parameters, memory, folder)
        return read_input(X, parameters.metric, parameters.metric_params, memory, folder)

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """What a fit makes, in this order."""
        raise NotImplementedError

    def measured(self, run: Any, rows: I64) -> Sequence[Section]:
        """Sections of the page about the map of a fitted run, measured on some of the user's rows that are in it."""
        return ()

    def loadings(self, store: RunStore) -> F64 | None:
        """How far one standard deviation of each feature moves a row along each axis (p, q), of a linear map alone."""
        return None

    def kernels(self, store: RunStore) -> Mapping[str, str]:
        """Names of the kernels between training rows, its own before others, and what makes them, as in `kernel`."""
        return {} if self.kernel is None else {self.kernel_name: self.kernel[1]}

    def steps_in(self, store: RunStore) -> Sequence[Step]:
        """The steps of a run, finished or not; those of any parameters unless the method says otherwise."""
        return self.steps(self.parameters())


def record_of(estimator: type) -> MethodRecord:
    """What a run records of its method, for `load`, verify and repair."""
    return MethodRecord(name=word_of(estimator), module=estimator.__module__)


def check_method(store: RunStore, estimator: type) -> None:
    """Refuse to go on with a run of a method that has other steps.

    Raises StoreMismatchError: If it is one.
    """
    there = store.record(MethodRecord)
    if there is not None and type(method_of(store)) is not type(method_for(estimator)):
        raise StoreMismatchError(
            f"the store {store.path!r} holds a run of the method {there.name!r} where {word_of(estimator)!r} is asked "
            f"for: give another path, or overwrite=True to replace it{IN_A_SEARCH}"
        )


def method_for(estimator: Any) -> Method:
    """The method of an estimator's class, which may name it as "module:name"."""
    found = estimator.method
    made: Method = named(found)() if isinstance(found, str) else found
    return made


def estimator_of(store: RunStore) -> Any:
    """The estimator's class whose fit a run is.

    Raises ScalemaniError: If it is not registered.
    """
    made_by = store.needed(MethodRecord)
    return entry_of(made_by.name, made_by.module, store.path).load()


def method_of(store: RunStore) -> Method:
    """The method of a run.

    Raises ScalemaniError: If it is not registered.
    """
    return method_for(estimator_of(store))
