"""JSON of a store, read as if a stranger wrote it: takes a path, gives its value, or one line that says what is off.

The size is bounded before a byte is read, and so are depth and the digits of integers. What JSON leaves open is
refused: NaN, repeated keys, text that is not UTF-8. What is no plain file (a link, a pipe, a device) is never read, so
that nothing hangs and no path leads out of the store.
"""

import json
import math
from typing import Any

from scalemani.errors import DamagedStoreError
from scalemani.storage.files import AnyPath, Location, open_location

DEPTH = 32  # levels of lists and objects; a run's document has 7
DIGITS = 400  # of an integer: float64's largest has 309
MAY_BE_INFINITE = "metric_params"  # Minkowski's p; the one place where a run records an infinity
REMEDY = "'scalemani verify' says what can be mended, or fit again with overwrite"  # about all that is damaged


def damaged(where: str, what: str) -> DamagedStoreError:
    """The error of one line: where, what is wrong, what to do. Control characters of a file never reach a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in what)
    return DamagedStoreError(f"{where}: {shown if len(shown) <= 240 else shown[:237] + '...'}; {REMEDY}")


def read_plain(path: AnyPath, most_bytes: int) -> bytes:
    """The bytes of a plain file, or an object, of a store, no more than `most_bytes`.

    Raises DamagedStoreError: If it is missing, larger, or anything but a plain file.
    Raises StoreUnreachableError: If nobody can say which.
    """
    try:
        return open_location(path).read(most_bytes)
    except (OSError, ValueError) as error:
        raise damaged(repr(str(path)), f"can't be read: {getattr(error, 'strerror', None) or error}") from error


def read_json(path: AnyPath, most_bytes: int) -> Any:
    """The value in a JSON file of a store.

    most_bytes: A larger file is refused before it is read.
    Raises DamagedStoreError: As :func:`read_plain`; or not UTF-8, not JSON, NaN or an infinity (but below
        "metric_params"), a key twice in one object, more than 32 levels, an integer of more than 400 digits.

    >>> import os, tempfile
    >>> name = os.path.join(tempfile.mkdtemp(), "x.json")
    >>> with open(name, "w") as file: _ = file.write('{"a": [1, 2]}')
    >>> read_json(name, 100)
    {'a': [1, 2]}
    """
    return parsed(read_plain(path, most_bytes), repr(str(path)))


def parsed(content: bytes, where: str) -> Any:
    """The JSON value of bytes that were read; `where` names them in errors.

    Raises DamagedStoreError: As :func:`read_json`.
    """
    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_constant=_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError as error:
        raise damaged(where, f"is not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise damaged(where, f"is nested deeper than {DEPTH} levels") from error
    except ValueError as error:
        raise damaged(where, f"is not JSON as a run writes it ({error})") from error
    _look_through(value, where)
    return value


def check_no_links(folder: AnyPath, levels: int = DEPTH) -> None:
    """Refuse a store that holds anything but folders and plain files; the folder itself may be a link.

    levels: Of folders that are listed.
    Raises DamagedStoreError: Naming the first that is found.
    """
    for entry, what in open_location(folder).strange_entries(levels):
        raise damaged(repr(entry), what)


def check_inside(folder: AnyPath, name: str) -> Location:
    """The path of a store's entry, whose parts are checked one by one: no links, no way up."""
    path = open_location(folder)
    for part in name.split("/"):
        path = path / part
        if part in ("", ".", "..") or "\0" in part or path.is_symlink():
            raise damaged(repr(str(path)), "leads out of the store")
    return path


# ---- the hooks of the parser -------------------------------------------------------------------------


def _constant(text: str) -> float:
    if text == "NaN":
        raise ValueError("it has NaN")
    return float(text)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is beyond float64")
    return number


def _integer(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"an integer has {len(text):,} digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:40]!r} is there twice")
    return found


def _look_through(value: Any, where: str) -> None:
    """Refuse what the parser can't: depth, infinities in the wrong place, halves of surrogate pairs."""
    level: list[tuple[Any, bool]] = [([value], False)]
    for _ in range(DEPTH + 1):
        below: list[tuple[Any, bool]] = []
        for container, allowed in level:
            for key, item in container.items() if isinstance(container, dict) else ((None, part) for part in container):
                if key is not None:
                    _check_text(key, where)
                infinite = allowed or key == MAY_BE_INFINITE
                if isinstance(item, dict | list):
                    below.append((item, infinite))
                elif isinstance(item, str):
                    _check_text(item, where)
                elif isinstance(item, float) and math.isinf(item) and not infinite:
                    raise damaged(where, "is not JSON as a run writes it (it has an infinity)")
        if not below:
            return
        level = below
    raise damaged(where, f"is nested deeper than {DEPTH} levels")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise damaged(where, "has a text with half of a surrogate pair") from error
