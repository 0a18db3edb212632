"""Dask's log lines kept off the terminal, for as long as any cluster of ours is open."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# errors of a cluster's end
_EXPECTED = {"TimeoutError", "CommClosedError", "StreamClosedError", "ClosedClientError", "AllExit"}


class QuietLogs:
    """What is logged while somebody holds this is not shown.

    Levels are a whole process's: the first to come sets them, the last to go restores them.
    """

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._levels: list[tuple[logging.Handler, int]] = []

    def hold(self) -> None:
        """Be quiet."""
        with self._lock:
            if self._users == 0:
                self._levels = [(handler, handler.level) for handler in logging.getLogger("distributed").handlers]
                for handler, _ in self._levels:
                    handler.setLevel(logging.CRITICAL)
            self._users += 1

    def release(self) -> None:
        """As before, once all have let go."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for handler, level in self._levels:
                    handler.setLevel(level)

    @contextmanager
    def held_if_it_works(self) -> Iterator[None]:
        """Hold it for a start, and on from there unless that fails."""
        self.hold()
        try:
            yield
        except BaseException:
            self.release()
            raise


quiet_logs = QuietLogs()


def be_quiet_in(loop: Any) -> None:
    """Have a loop of ours say nothing of what nobody waits for any more when a cluster ends.

    A batched send that is closed while it waits leaves a timeout behind, now and then, and asyncio would
    print it to the user's terminal.
    """

    def pass_over(asyncio_loop: Any, context: dict[str, Any]) -> None:
        if type(context.get("exception")).__name__ not in _EXPECTED:
            asyncio_loop.default_exception_handler(context)

    asyncio_loop = loop.asyncio_loop
    asyncio_loop.call_soon_threadsafe(asyncio_loop.set_exception_handler, pass_over)
