"""What a process keeps of a run from task to task: takes a path and a run's id, gives the run, or what is made of it.

Workers live longer than what they opened: D is dropped and made again with other tiles, a graph is repaired under the
same id. So what is kept is compared with the run's document each time that it is asked for.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError

Made = TypeVar("Made")


@lru_cache(maxsize=4)
def _opened(path: str, identity: str) -> RunStore:
    return _same(RunStore(path), identity)


def shared_run(path: str, identity: str) -> RunStore:
    """The run at a path, opened once in each process.

    Raises DamagedStoreError: If another run is at the path by now.
    """
    store = _same(_opened(path, identity), identity)
    store.refresh()
    return store


def _same(store: RunStore, identity: str) -> RunStore:
    if store.document["id"] != identity:
        raise DamagedStoreError(f"the run at {store.path!r} was replaced while it was in use")
    return store


class OncePerProcess(Generic[Made]):
    """A function of a path and a run's id whose result is kept while the arrays that it is made of are the same.

    make: (path, id) -> result; also as `__wrapped__`, for who wants it made anew.
    prefix: How the names of those arrays begin.
    """

    def __init__(self, make: Callable[[str, str], Made], prefix: str, maxsize: int = 2) -> None:
        self.__wrapped__, self.__doc__, self._prefix = make, make.__doc__, prefix
        self._kept = lru_cache(maxsize)(lambda path, identity, state: make(path, identity))

    def __call__(self, path: str, identity: str) -> Made:
        return self._kept(path, identity, shared_run(path, identity).state_of(self._prefix))

    def cache_clear(self) -> None:
        """Forget what is kept."""
        self._kept.cache_clear()


def once_per_process(prefix: str) -> Callable[[Callable[[str, str], Made]], OncePerProcess[Made]]:
    """Decorator: :class:`OncePerProcess` of a function, and of the arrays whose names begin so."""
    return lambda make: OncePerProcess(make, prefix)
