"""Work on threads: takes a function and its arguments, gives the results in their order, as they are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

AHEAD = 2  # calls a thread that are begun before the result of the first is taken: lost, if the search is killed


def in_order(task: Callable[[Any], Any], arguments: Iterable[Any], threads: int) -> Iterator[Any]:
    """Results of calls, from so many threads; a caller that stops early leaves no work behind.

    >>> list(in_order(lambda x: x * x, range(5), 2))
    [0, 1, 4, 9, 16]
    """
    waiting, given = deque[Any](), list(arguments)
    if threads == 1 or len(given) < 2:
        for argument in given:
            yield task(argument)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for argument in given:
                waiting.append(pool.submit(task, argument))
                if len(waiting) == AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
