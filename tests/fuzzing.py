"""Fuzzing in one process: spoils bytes and JSON, runs the command line, and holds what it says against the promise.

The promise: an exit code of 0, 1 or 2; where it is not 0, one line of cause in this package's own words; no traceback,
no sign that a terminal obeys, and an end in time. An exception of another package that gets through to the user, as
in "TypeError: ... (--debug shows where)", is a fault.
"""

import contextlib
import copy
import io
import json
import re
import signal
from collections import Counter
from inspect import getmembers, isclass

import numpy as np
from hypothesis import strategies as st

from scalemani import errors
from scalemani.storage.records import COPY, KEY, ROOT, seal
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

SECONDS = 60  # after which a command hangs; the slowest here takes one
OWN = {name for name, _ in getmembers(errors, isclass)}
TOKENS = (
    *(b"", b"\0", b"\n", b'"', b",", b"{", b"}", b"[", b"]", b"null", b"NaN", b"-1", b"1e999", b"0", b"\xff\xfe"),
    *(b"9" * 400, b"[" * 2000, b'{"a":' * 500, b"\\u001b[2J", b"\x1b[2J", b"true", b"O", b"<f8", b">f8", b"|O8"),
    *(b"pickle", b"(1000000000000, 3)", b"2147483648", b"../", b"18446744073709551616", b"True", b"'shape': (-1, 3)"),
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2, 3, 23, 25, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 0.0, -0.5, 0.5, 1e300, 5e-324]),
    st.sampled_from(["", "a", "euclidean", "geodesic", "union", "0" * 32, "../x", "\x1b[2J", "os:system#00000000"]),
    st.sampled_from([[], {}, [0], [[]], {"a": 1}, [None], ["a"], [1e308, -1e308], {"p": 3}, {"fields": {}}]),
)


@st.composite
def spoiled(draw, content):
    """Bytes with some of them changed, cut, doubled, or words of the format put among them."""
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found)))
        length = draw(st.sampled_from([0, 1, 1, 2, 4, 8, 16, 100]))
        kind = draw(st.sampled_from(["set", "flip", "cut", "double", "insert", "token", "token", "end"]))
        if kind == "set":
            found[at : at + length] = draw(st.binary(min_size=length, max_size=length))
        elif kind == "flip" and at < len(found):
            found[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del found[at : at + length]
        elif kind == "double":
            found[at:at] = found[at : at + length]
        elif kind == "insert":
            found[at:at] = draw(st.binary(max_size=8))
        elif kind == "token":
            found[at : at + length] = draw(st.sampled_from(TOKENS))
        else:
            del found[at:]
    return bytes(found)


def places(value, at=()):
    """Every place in a JSON value."""
    yield at
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(part, (*at, key))


@st.composite
def spoiled_json(draw, text, name):
    """The text of a JSON file with one or two values replaced or left out; or with its bytes spoiled.

    A run's document gets its checksum anew, half of the times, as one who means harm would see to.
    """
    if draw(st.integers(0, 3)) == 0:
        return draw(spoiled(text))
    whole = json.loads(text)
    for _ in range(draw(st.integers(1, 2))):
        holder = {"": whole}
        inner, path = holder, ("", *draw(st.sampled_from(list(places(whole))[1:] or [()])))
        for key in path[:-1]:
            inner = inner[key]
        if draw(st.integers(0, 3)) == 0 and len(path) > 1:
            del inner[path[-1]]
        else:
            inner[path[-1]] = copy.deepcopy(draw(VALUES))
        whole = holder[""]
    if draw(st.booleans()):
        with contextlib.suppress(Exception):
            if name == ROOT:
                whole["attributes"][KEY] = seal(whole["attributes"][KEY])
            elif name == COPY:
                whole = seal(whole)
    return json.dumps(whole).encode()


@st.composite
def spoiled_array(draw, array):
    """An array with some numbers, its dtype or its shape changed."""
    found = array.copy()
    kind = draw(st.sampled_from(["numbers", "numbers", "numbers", "dtype", "shape", "order"]))
    if kind == "numbers" and found.size:
        numbers = [0, 1, -1, 2, 7, 24, 25, 1000, 10**6, -(10**6), 2**31 - 1, 0.5, 1e30, -1e-30, 1e300, 5e-324]
        for _ in range(draw(st.integers(1, 4))):
            value = draw(st.sampled_from(numbers + [np.nan, np.inf, -np.inf] * (found.dtype.kind == "f")))
            with contextlib.suppress(OverflowError), np.errstate(all="ignore"):
                found.ravel()[draw(st.integers(0, found.size - 1))] = value
    elif kind == "dtype":
        with np.errstate(all="ignore"):
            found = found.astype(draw(st.sampled_from(["bool", "int8", "int32", "int64", "uint64", "f4", "f8"])))
    elif kind == "shape":
        more = np.concatenate([found, found[-1:]])
        found = draw(st.sampled_from([found[:-1], more, found[None], found[..., None], found.ravel(), found[:0]]))
    else:
        found = draw(st.sampled_from([found[::-1], np.roll(found, 1), np.zeros_like(found), np.ones_like(found)]))
    return np.ascontiguousarray(found)


class Hang(BaseException):
    """A command took too long; not an Exception, so that nothing takes it for an error of a file."""


class Faults:
    """Runs commands, and counts what breaks the promise, each kind with its first example."""

    def __init__(self):
        self.found, self.first, self.codes = Counter(), {}, Counter()

    def run(self, arguments, told=""):
        """Run a command; returns its exit code, None where it broke out."""
        out, err = io.StringIO(), io.StringIO()

        def stop(*_):
            raise Hang

        before = signal.signal(signal.SIGALRM, stop)
        signal.alarm(SECONDS)
        code = broke = None
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(cli, [*arguments, "--quiet"])
        except BaseException as error:
            broke = f"{type(error).__name__} got out: {error}"
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        self.codes[arguments[0] if arguments else "", code] += 1
        for fault in [broke] if broke else list(faults_of(code, err.getvalue())):
            kind = f"{arguments[0] if arguments else ''}: {re.sub(r'[0-9]+', '#', re.sub(r'/[^ ,;]+', '/...', fault))}"[
                :200
            ]
            self.found[kind] += 1
            self.first.setdefault(kind, f"{arguments} {told}"[:600])
        return code

    def __str__(self):
        listed = (f"{count} x {kind}\n    {self.first[kind]}" for kind, count in self.found.most_common())
        return "\n".join(["", *listed, f"codes: {dict(self.codes)}"])


def faults_of(code, err):
    """What is wrong with an exit code and the lines on standard error."""
    lines = [line for line in err.split("\n") if line]
    causes = [line for line in lines if line.startswith("scalemani: ")]
    others = [line for line in lines if not line.startswith(("scalemani: ", "warning: "))]
    if code not in (0, 1, 2):
        yield f"exit code {code!r}"
    if "Traceback" in err:
        yield f"a traceback: {lines[-1]}"
    if len(causes) != (code != 0):
        yield f"{len(causes)} lines of cause with exit code {code}: {causes}"
    if others:
        yield f"other lines: {others[0]}"
    for line in lines:
        if not line.isprintable():
            yield f"not printable: {line!r}"
    for line in causes:
        leaked = re.match(r"scalemani: (\w+): (.*)\(--debug shows where\)$", line)
        if leaked and leaked[1] not in OWN:
            yield f"leaks {leaked[1]}: {leaked[2]}"
