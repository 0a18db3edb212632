"""A store's JSON is looked at before it is used: its form, its size, what it says, and that no link leads out."""

import copy
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from data import random_distances, store_of
from hostile import DOCUMENT, ESCAPE, HEX, LINE, METADATA, WRITER, one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani import load
from scalemani.errors import DamagedStoreError
from scalemani.integrity import verify
from scalemani.storage.json import check_no_links, parsed, read_json
from scalemani.storage.records import checked_array_metadata, checked_document, checked_line, checked_writer
from scalemani.storage.run import RunStore

pytestmark = pytest.mark.timeout(20)  # a pipe that is waited for


def damaged(check, *arguments, **more):
    with pytest.raises(DamagedStoreError) as caught:
        check(*arguments, **more)
    message = one_line(caught.value)
    assert "verify" in message and "overwrite" in message
    return message


# ---- JSON ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000, "deeper"),
        (b'{"a":' * 100_000, "deeper"),
        (b"[" * 40 + b"]" * 40, "deeper"),
        (b"[NaN]", "NaN"),
        (b"[Infinity]", "infinity"),
        (b'{"a": -Infinity}', "infinity"),
        (b"[1e999]", "beyond float64"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"\\u001b[2J": 1, "\\u001b[2J": 2}', "twice"),
        (b"\xff", "UTF-8"),
        (b"[" + b"9" * 5000 + b"]", "digits"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"", "JSON"),
        (b'{"a": 1', "JSON"),
        (b"{} {}", "JSON"),
        (b"\x00" * 100, "JSON"),
    ],
)
def test_json_that_no_run_writes_is_refused_in_one_line(tmp_path, content, words):
    (tmp_path / "x.json").write_bytes(content)
    message = damaged(read_json, tmp_path / "x.json", 1 << 20)
    assert words in message and "x.json" in message


def test_an_infinite_parameter_of_a_metric_is_read():
    """Minkowski's p; whatever else is infinite is damaged."""
    assert parsed(b'{"metric_params": {"p": Infinity}}', "x") == {"metric_params": {"p": float("inf")}}
    damaged(parsed, b'{"metric_params": {"p": NaN}}', "x")
    damaged(parsed, b'{"metric_params": 1, "p": Infinity}', "x")


def test_the_size_is_bounded_before_a_byte_is_read(tmp_path):
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(1 << 40)  # takes no disk
    assert "1,099,511,627,776 bytes" in damaged(read_json, tmp_path / "x.json", 1 << 20)
    (tmp_path / "y.json").write_bytes(b"[" + b" " * 98 + b"]")
    assert read_json(tmp_path / "y.json", 100) == []
    assert "at most 99" in damaged(read_json, tmp_path / "y.json", 99)


def test_what_is_no_plain_file_is_not_read_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "whole").write_text("[]")
    (tmp_path / "link").symlink_to(tmp_path / "whole")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, words in (
        ("pipe", "not a plain file"),
        ("link", "symbolic link"),
        ("zero", "symbolic link"),
        (".", "not a plain file"),
        ("absent", "can't be read"),
        ("a\0b", "can't be read"),
    ):
        assert words in damaged(read_json, f"{tmp_path}/{name}", 100)
    assert "not a plain file" in damaged(read_json, "/dev/zero", 100)


@pytest.mark.parametrize("where", ["zarr.json", "ledger/0.json", "distances/c/0/0", "points", "distances/c"])
def test_no_link_and_no_pipe_is_taken_anywhere_in_a_store(tmp_path, where):
    outside = tmp_path / "outside"
    outside.mkdir()
    for kind in ("link", "link to nothing", "pipe"):
        store = tmp_path / kind
        place = store / where
        place.parent.mkdir(parents=True)
        (store / "whole").write_text("")
        check_no_links(store)
        os.mkfifo(place) if kind == "pipe" else place.symlink_to(outside if kind == "link" else "nothing")
        assert where in damaged(check_no_links, store)
        (tmp_path / f"to {kind}").symlink_to(store)
        damaged(check_no_links, tmp_path / f"to {kind}")  # the store's own name may be a link


@pytest.mark.parametrize("where", ["distances", "ledger", "vectors/c", "document.json"])
def test_a_run_with_a_link_or_a_pipe_is_not_opened_by_whoever_asks(tmp_path, where):
    """What a store is opened by is what refuses; deeper ones are refused where they are used (test_store)."""
    store = store_of(random_distances(9), 3, tmp_path / "run")
    store.write_array("vectors", np.eye(9)[:, :2])
    place = tmp_path / "run" / where
    place.rename(tmp_path / "outside")
    for make in (lambda: place.symlink_to(tmp_path / "outside"), lambda: os.mkfifo(place)):
        make()
        for opened in (RunStore, load, verify):
            assert where in damaged(opened, str(tmp_path / "run"))
        place.unlink()


# ---- schemas ---------------------------------------------------------------------------------------------


def paths(value, at=()):
    """Every place in a JSON value, the outer ones first."""
    yield at
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(part, (*at, key))


def replaced(value, at, new):
    """A copy with another value at a place, or without it where `new` is `...`."""
    whole = {"": copy.deepcopy(value)}
    inner, path = whole, ("", *at)
    for key in path[:-1]:
        inner = inner[key]
    if new is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return whole.get("")


def metadata_of(obj, where):
    return checked_array_metadata(obj, where, 1 << 20, tiles=True)


CHECKS = {checked_document: DOCUMENT, checked_line: LINE, checked_writer: WRITER, metadata_of: METADATA}
FREE = {"metric_params", "attributes", "correction", "fill_value"}  # these take values of several types


@pytest.mark.parametrize("check", CHECKS)
def test_what_a_run_writes_is_taken_and_a_value_of_another_type_is_named(check):
    whole = CHECKS[check]
    assert check(whole, "x") is whole
    for at in paths(whole):
        if FREE & set(map(str, at)):
            continue
        inner = whole
        for key in at:
            inner = inner[key]
        new = 0 if isinstance(inner, dict) else {"wrong": [[]]}
        message = damaged(check, replaced(whole, at, new), "x")
        assert message.startswith("x: ") and (not at or str(at[0]) in message or "damaged" in message)


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (("id",), HEX + "\n"),
        (("id",), HEX.upper()),
        (("format_version",), 0),
        (("versions", "numpy"), ESCAPE),
        (("arrays", "vectors"), 2**32),
        (("arrays", "../vectors"), 1),
        (("arrays", "vectors/x"), 1),
        (("stages", "graph", "n_vertices"), 60.0),
        (("stages", "graph", "n_vertices"), True),
        (("stages", "graph", "n_vertices"), 0),
        (("stages", "graph", "n_vertices"), 2**31 + 1),
        (("stages", "graph", "scale"), 0.0),
        (("stages", "graph", "scale"), -1),
        (("stages", "graph", "component_sizes"), []),
        (("stages", "data", "seed"), -1),
        (("stages", "data", "fields", "kind"), "other"),
        (("stages", "data", "fields", "fingerprint"), "../../etc"),
        (("stages", "neighbors", "recall"), 1.5),
        (("stages", "geodesics", "fields", "tile_size"), 0),
        (("stages", "geodesics", "median"), -1.0),
        (("stages", "solve", "revision"), "0" * 31),
        (("stages", "solve", "spectrum", "trace"), {"a": {}}),
        (("stages", "fit", "estimator"), "__class__"),
        (("stages", "names", "fields", "features"), [1]),
        (("stages", "data"), ...),
        (("stages", "solve"), ...),
        (("stages", "later"), {"no": "fields"}),
    ],
)
def test_a_document_out_of_range_is_refused(at, new):
    damaged(checked_document, replaced(DOCUMENT, at, new), "x")


def test_what_a_later_release_adds_is_let_through_and_what_an_earlier_left_out_too():
    later = replaced(DOCUMENT, ("stages", "graph", "later"), {"any": [1]})
    later = replaced(later, ("stages", "later"), {"fields": {}, "found": 1})
    assert checked_document(replaced(later, ("later",), 3), "x")["later"] == 3
    earlier = DOCUMENT
    for at in (("arrays",), ("stages", "names"), ("stages", "solve", "nugget"), ("stages", "geodesics")):
        earlier = replaced(earlier, at, ...)
    checked_document(earlier, "x")
    checked_document({**DOCUMENT, "stages": {}}, "x")
    assert checked_line({"crc32c": [5]}, "x") == {"crc32c": [5]}
    damaged(checked_line, {"crc32c": [5], "row": 1}, "x")


CHUNKS = ("chunk_grid", "configuration", "chunk_shape")
BLOSC = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": 4}}


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (("shape",), [2**30, 2**30]),
        (("shape",), [60]),
        (("shape",), [60, 59]),
        (("shape",), [-1, -1]),
        (CHUNKS, [2**30, 2**30]),
        (CHUNKS, [0, 0]),
        (CHUNKS, [16, 15]),
        (("data_type",), "object"),
        (("data_type",), "complex128"),
        (("data_type",), {"name": "structured"}),
        (("codecs",), [{"name": "numcodecs.pickle", "configuration": {}}]),
        (("codecs",), [{"name": "bytes", "configuration": {"endian": "big"}}]),
        (("codecs",), [{"name": "bytes"}]),
        (("codecs",), [METADATA["codecs"][0], {"name": "numcodecs.pickle"}]),
        (("codecs",), [METADATA["codecs"][0], BLOSC, BLOSC]),
        (("codecs",), []),
        (("storage_transformers",), [{"name": "any"}]),
        (("node_type",), "group"),
        (("later",), {"must_understand": True}),
        (("chunk_key_encoding", "configuration", "separator"), "../"),
    ],
)
def test_metadata_of_an_array_that_no_run_writes_are_refused(at, new):
    damaged(metadata_of, replaced(METADATA, at, new), "x")


def test_the_chunks_of_an_array_are_no_more_than_its_bytes_ask_for():
    flat = {**METADATA, "shape": [1 << 18]}
    flat["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [1 << 18]}}
    checked_array_metadata(flat, "x", 1 << 20)
    assert "chunks" in damaged(checked_array_metadata, replaced(flat, CHUNKS, [1]), "x", 1 << 20)
    assert "expected" in damaged(checked_array_metadata, flat, "x", (1 << 20) - 1)
    many = replaced(replaced(METADATA, CHUNKS, [1, 1]), ("shape",), [2**21, 2**21])
    assert "chunks" in damaged(checked_array_metadata, many, "x", 1 << 62, tiles=True)
    checked_array_metadata(replaced(METADATA, ("codecs",), [*METADATA["codecs"], BLOSC]), "x", 1 << 20, tiles=True)


TEXT = st.sampled_from(["", "a", "run", "\x1b[2J", HEX, "features"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(TEXT, parts, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(check=st.sampled_from(list(CHECKS)), new=JSON, data=st.data())
def test_any_value_anywhere_is_taken_as_it_is_or_refused_in_one_line(check, new, data):
    at = data.draw(st.sampled_from(list(paths(CHECKS[check]))))
    obj = replaced(CHECKS[check], at, new)
    try:
        assert check(parsed(json.dumps(obj).encode(), "x"), "x") == obj
    except DamagedStoreError as error:
        one_line(error)


def test_the_schema_package_is_imported_at_the_first_check_alone():
    code = "import sys, scalemani, scalemani.storage.records; assert 'jsonschema' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
