"""A store's JSON is looked at before it is used: its form, its size, what it says, and that no link leads out."""

import copy
import json
import os

import msgspec
import numpy as np
import pytest
from data import random_distances, store_of
from hostile import DOCUMENT, ESCAPE, HEX, LINE, METADATA, WRITER, one_line, sealed_document
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani import load
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.integrity import verify
from scalemani.parameters import Parameters
from scalemani.steps.graph import NeighborsStep
from scalemani.steps.records import NeighborsFields
from scalemani.storage.files import checksum
from scalemani.storage.json import check_no_links, parsed, read_json
from scalemani.storage.records import Line, WriterRecord, array_metadata, document_of, seal
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
        (b"[" * 100_000, "too deeply"),
        (b'{"a":' * 100_000, "too deeply"),
        (b"[NaN]", "JSON"),
        (b"[Infinity]", "JSON"),
        (b'{"a": -Infinity}', "JSON"),
        (b"[1e999]", "out of range"),
        (b'["\xff"]', "UTF-8"),
        (b"[" + b"9" * 5000 + b"]", "out of range"),
        (b'["\\ud800"]', "JSON"),
        (b'{"\\udfff": 1}', "JSON"),
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


@pytest.mark.parametrize("p", [np.inf, -np.inf, np.float32(2.5), 3])
def test_an_infinite_parameter_of_a_metric_is_kept(p):
    """JSON has no number for Minkowski's largest p."""
    parameters = Parameters(metric="minkowski", metric_params={"p": p, "w": np.array([1.0, p])})
    fields = NeighborsStep().fields(parameters, "features")
    read = parsed(msgspec.json.encode(fields), "x", NeighborsFields)
    assert read == fields and read.params == {"p": p, "w": [1.0, p]}


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


def checked_document(value):
    """Read as a run's document is, with a checksum of its own."""
    return document_of(seal(value) if isinstance(value, dict) else value, "x")


def checked(kind):
    return lambda value: parsed(json.dumps(value).encode(), "x", kind)


CHECKS = {
    "document": (checked_document, DOCUMENT),
    "line": (checked(Line), LINE),
    "writer": (checked(WriterRecord), WRITER),
}
FREE = {"metric_params", "correction", "landmarks"}  # these take values of several types


@pytest.mark.parametrize("kind", CHECKS)
def test_what_a_run_writes_is_taken_and_a_value_of_another_type_is_named(kind):
    check, whole = CHECKS[kind]
    found = msgspec.to_builtins(check(whole))
    assert (
        {key: found[key] for key in whole} == {**whole, "stages": found["stages"]}
        if kind == "document"
        else found == whole
    )
    for at in paths(whole):
        if FREE & set(map(str, at)):
            continue
        inner = whole
        for key in at:
            inner = inner[key]
        new = 0 if isinstance(inner, dict) else {"wrong": [[]]}
        message = damaged(check, replaced(whole, at, new))
        assert message.startswith("x: ") and (not at or str(at[-1]) in message or "[...]" in message), at


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (("id",), HEX + "\n"),
        (("id",), HEX.upper()),
        (("format_version",), "1"),
        (("format_version",), True),
        (("versions", "numpy"), ESCAPE),
        (("arrays", "vectors"), 2**32),
        (("arrays", "../vectors"), 1),
        (("arrays", "vectors/x"), 1),
        (("arrays",), ...),
        (("stages", "graph", "n_vertices"), 60.5),
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
        (("stages", "geodesics", "tile_size"), 0),
        (("stages", "geodesics", "median"), -1.0),
        (("stages", "solve", "nugget"), ...),
        (("stages", "solve", "spectrum", "trace"), {"a": {}}),
        (("stages", "solve", "spectrum", "trace"), 1e307),
        (("stages", "method", "name"), "a\nb"),
        (("stages", "names", "features"), [1]),
        (("stages", "data"), ...),
    ],
)
def test_a_document_out_of_range_is_refused(at, new):
    damaged(checked_document, replaced(DOCUMENT, at, new))


def test_a_document_has_its_checksum_and_what_a_later_release_adds_to_a_step_is_let_through():
    damaged(document_of, DOCUMENT, "x")
    damaged(document_of, {**seal(DOCUMENT), "id": "0" * 32}, "x")
    assert checked_document(replaced(DOCUMENT, ("stages", "graph", "later"), {"any": [1]})) == checked_document(
        DOCUMENT
    )
    assert checked_document({**DOCUMENT, "stages": {}}).stages == {}
    damaged(checked(Line), {"crc32c": [5]})


@pytest.mark.parametrize("version", [0, 2, 3, 99])
def test_a_document_of_another_format_is_refused_with_both_numbers(version):
    with pytest.raises(
        ScalemaniError, match=rf"format version {version}; this release reads 1: use the release"
    ) as told:
        checked_document({**DOCUMENT, "format_version": version})
    one_line(told.value)


# ---- metadata of arrays ----------------------------------------------------------------------------------


CHUNKS = ("chunk_grid", "configuration", "chunk_shape")
BLOSC = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": 4}}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (("shape",), [2**30, 2**30]),
        (("shape",), [9]),
        (("shape",), [9, 8]),
        (("shape",), [-1, -1]),
        (CHUNKS, [2**30, 2**30]),
        (CHUNKS, [0, 0]),
        (CHUNKS, [3, 2]),
        (CHUNKS, [1, 1]),
        (CHUNKS, ...),
        (("data_type",), "object"),
        (("data_type",), "complex128"),
        (("data_type",), {"name": "structured"}),
        (("codecs",), [{"name": "numcodecs.pickle", "configuration": {}}]),
        (("codecs",), [{"name": "bytes", "configuration": {"endian": "big"}}]),
        (("codecs",), [{"name": "bytes"}]),
        (("codecs",), [BYTES, {"name": "numcodecs.pickle"}]),
        (("codecs",), [BYTES, BLOSC, BLOSC]),
        (("codecs",), []),
        (("attributes",), {}),
        (("storage_transformers",), [{"name": "any"}]),
        (("node_type",), "group"),
        (("later",), {"must_understand": True}),
        (("chunk_key_encoding", "configuration", "separator"), "../"),
    ],
)
def test_metadata_of_an_array_that_no_run_writes_are_refused(tmp_path, at, new):
    """Of D and of an array, with the checksum that the document has of them."""
    store = store_of(random_distances(9), 3, tmp_path / "run")
    store.write_array("vectors", np.eye(9)[:, :2])
    store.finish()
    reads = {"distances": lambda store: store.tiles.read(0, 1), "vectors": lambda store: store.read_array("vectors")}
    for name, read in reads.items():
        file = tmp_path / "run" / name / "zarr.json"
        text = json.dumps(replaced(json.loads(file.read_text()), at, new), indent=2).encode()
        file.write_bytes(text)
        sums = {name: checksum(text)}
        sealed_document(tmp_path / "run", lambda found, sums=sums: found["arrays"].update(sums))
        with pytest.raises(DamagedStoreError, match=rf"{name}|ledger") as told:  # of other tiles it has no lines
            read(RunStore(tmp_path / "run"))
        one_line(told.value)


def test_the_chunks_of_an_array_are_no_more_than_its_bytes_ask_for():
    flat = {**METADATA, "shape": [1 << 18]}
    flat["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [1 << 18]}}

    def check(value, most, **more):
        return array_metadata(json.dumps(value).encode(), "x", most, **more)

    assert check(flat, 1 << 20).chunks == [1 << 18]
    assert "chunks" in damaged(check, replaced(flat, CHUNKS, [1]), 1 << 20)
    assert "expected" in damaged(check, flat, (1 << 20) - 1)
    many = replaced(replaced(METADATA, CHUNKS, [1, 1]), ("shape",), [2**21, 2**21])
    assert "chunks" in damaged(check, many, 1 << 62, tiles=True)


TEXT = st.sampled_from(["", "a", "run", "\x1b[2J", HEX, "features"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(TEXT, parts, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(list(CHECKS)), new=JSON, data=st.data())
def test_any_value_anywhere_is_taken_or_refused_in_one_line(kind, new, data):
    check, whole = CHECKS[kind]
    at = data.draw(st.sampled_from(list(paths(whole))))
    try:
        check(replaced(whole, at, new))
    except (DamagedStoreError, ScalemaniError) as error:
        one_line(error)
