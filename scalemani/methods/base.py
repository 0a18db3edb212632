"""What a method is: steps in their order, and a map for points that come later; and the registry of all methods."""

from collections.abc import Sequence

from scalemani.errors import ScalemaniError
from scalemani.parameters import Parameters
from scalemani.steps.base import Step


class Method:
    """What is made of a point set.

    name: Recorded in the store; `method_named` finds the method by it at load.
    """

    name = ""

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """What a fit makes, in this order."""
        raise NotImplementedError


REGISTRY: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known by its name to fit, load and the command line."""
    REGISTRY[method.name] = method
    return method


def method_named(name: str) -> Method:
    """The method of a name that a store or a user gives.

    Raises ScalemaniError: If none of that name is registered.
    """
    if name not in REGISTRY:
        raise ScalemaniError(
            f"method={name!r} is not registered (known: {', '.join(REGISTRY)}): import the module that defines it first"
        )
    return REGISTRY[name]
