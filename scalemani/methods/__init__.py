"""What is made of a point set: each method is a sequence of steps, and a way to place points that come later.

`base` says what one is, `..._words` what is told of its models, `..._arguments` what it takes. Here is the registry.
May import: steps and what those may.
"""

import importlib
from dataclasses import dataclass
from typing import Any

from scalemani.errors import ScalemaniError, import_declared


@dataclass(frozen=True)
class Entry:
    """A method by the word that ``--method`` and the store have for it.

    estimator: Its class, as "module:name"; the class says in `method` what its steps are.
    own: Parameters that only some methods have and this one has.
    lacks: Parameters of all others that this one has not.
    arguments: The class of parameters that have options of their own, as "module:name".
    about: What it makes, in a line for ``--help``.
    """

    estimator: str
    own: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    arguments: str = ""
    about: str = ""

    @property
    def name(self) -> str:
        """The estimator's name."""
        return self.estimator.partition(":")[2]

    def load(self) -> Any:
        """The estimator's class."""
        return named(self.estimator)

    @property
    def takes_labels(self) -> bool:
        """Whether labels of the rows mean anything to it; its modules are imported."""
        from scalemani.methods.base import method_for

        return method_for(self.load()).takes_labels


def named(dotted: str) -> Any:
    """What "module:name" names."""
    module, _, name = dotted.partition(":")
    return getattr(importlib.import_module(module), name)


NO_DISTANCES = ("projection", "compression", "edge_weights", "shortcuts")  # what methods without them have no use for
REGISTRY = {
    "isomap": Entry("scalemani.estimators.isomap:Isomap", about="keeps distances along the data; the usual one"),
    "kernel-isomap": Entry(
        "scalemani.estimators.isomap:KernelIsomap",
        ("correction", "constant_solver"),
        about="isomap with a constant that makes distances a kernel",
    ),
    "isometric-projection": Entry(
        "scalemani.estimators.isometric_projection:IsometricProjection",
        ("ridge", "scale", "kernel", "gamma", "degree", "coef0", "nystrom", "indefinite", "distances", "supervised"),
        ("projection", "compression"),
        "scalemani.methods.isometric_arguments:IsometricArguments",
        "a linear map of the columns that keeps such distances",
    ),
    "lle": Entry(
        "scalemani.estimators.lle:LLE",
        ("reg", "kernel", "gamma", "degree", "coef0", "scale"),
        NO_DISTANCES,
        "scalemani.methods.sibling_arguments:LLEArguments",
        "keeps how each point lies among its neighbours",
    ),
    "laplacian-eigenmaps": Entry(
        "scalemani.estimators.laplacian_eigenmaps:LaplacianEigenmaps",
        ("weights", "sigma", "scale", "normalized", "alpha", "time"),
        NO_DISTANCES,
        "scalemani.methods.sibling_arguments:LaplacianArguments",
        "keeps neighbours near one another; diffusion maps, too",
    ),
    "stress": Entry(
        "scalemani.estimators.stress:StressIsomap",
        ("start_points",),
        ("projection",),
        "scalemani.methods.sibling_arguments:StressArguments",
        "keeps distances along the data, by least squares",
    ),
}


USUAL = "kernel-isomap"  # where nobody says which


def register(
    word: str,
    estimator: type,
    own: tuple[str, ...] = (),
    lacks: tuple[str, ...] = (),
    arguments: str = "",
    about: str = "",
) -> None:
    """Make a method known to `load`, to the command line and to the programs that look at stores.

    own, lacks, arguments, about: As in :class:`Entry`. Parameters of `arguments` are options of a command line that is
        imported later.
    """
    REGISTRY[word] = Entry(f"{estimator.__module__}:{estimator.__qualname__}", own, lacks, arguments, about)


def is_known(word: str) -> bool:
    """Whether a method is registered, if need be by the module that an installed package declares for it."""
    if word not in REGISTRY:
        import_declared(word)
    return word in REGISTRY


def word_of(estimator: type) -> str:
    """The word of an estimator's class, or of the nearest class that it is derived from."""
    named = {entry.estimator: word for word, entry in REGISTRY.items()}
    for kind in estimator.__mro__:
        word = named.get(f"{kind.__module__}:{kind.__qualname__}")
        if word is not None:
            return word
    raise ScalemaniError(f"{estimator.__name__} is no registered method: scalemani.methods.register makes it one")


def entry_of(word: str, module: str, path: str) -> Entry:
    """The method that a store names.

    Raises ScalemaniError: If it is not registered here; the module that defines it is named.
    """
    if not is_known(word):
        raise ScalemaniError(
            f"the store {path!r} was made by the method {word!r}, which is not registered: import {module} first"
        )
    return REGISTRY[word]
