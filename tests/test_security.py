"""What strangers hand over is looked at before it is used: stores' JSON, files of points, names that are printed."""

import copy
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from hostile import DOCUMENT, HEX, LINE, METADATA, WRITER, npy_header, npz_of, objects, pickled
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani.engine.bounded_json import parsed
from scalemani.engine.schemas import (
    check_no_links,
    checked_array_metadata,
    checked_document,
    checked_line,
    checked_writer,
    read_json,
)
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.reporting.page import Section, Table, page
from scalemani.terminal.cli import cli
from scalemani.terminal.console import run
from scalemani.terminal.files import open_points
from scalemani.terminal.outputs import write_coordinates

ROWS = np.arange(12.0).reshape(6, 2)
ESCAPE = "\x1b]0;title\x07\x1b[2J"


@pytest.fixture(autouse=True)
def no_hang():
    """A pipe that is waited for ends the test, and says where."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waited"))
    signal.alarm(20)
    yield
    signal.alarm(0)


def one_line(error):
    message = str(error)
    assert message.isprintable(), message
    assert len(message) < 700, message
    return message


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
    code = "import sys, scalemani, scalemani.engine.schemas; assert 'jsonschema' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- files of points -------------------------------------------------------------------------------------


def refused(spec, **options):
    """The line of a refusal, for which no more than 300 MB of addresses are asked."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20), before[1]))
    try:
        with pytest.raises(ScalemaniError) as caught:
            open_points(str(spec), **options)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    return one_line(caught.value)


def zarr_2(path, content, **metadata):
    """A Zarr v2 array of one chunk with any bytes."""
    path.mkdir()
    form = {"zarr_format": 2, "shape": [2, 1], "chunks": [2, 1], "dtype": "|O", "compressor": None, "filters": None}
    (path / ".zarray").write_text(json.dumps({**form, "fill_value": None, "order": "C", **metadata}))
    (path / "0.0").write_bytes(content)
    return path


def zarr_3(path, content=b"", **metadata):
    """A Zarr v3 array of one chunk with any bytes."""
    (path / "c/0").mkdir(parents=True)
    form = {**METADATA, "shape": [2, 1], "data_type": "float64", "fill_value": 0, **metadata}
    form["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": form.pop("chunks", [2, 1])}}
    (path / "zarr.json").write_text(json.dumps(form))
    (path / "c/0/0").write_bytes(content)
    return path


def test_no_pickle_is_run_whatever_holds_it(tmp_path, monkeypatch):
    """Each leaves a mark where it is run, as the last lines show; earlier releases of numcodecs ask for no leave."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    mark, content = tmp_path / "mark", pickled(tmp_path / "mark")
    np.save(tmp_path / "x.npy", objects(mark))
    np.savez(tmp_path / "x.npz", a=objects(mark))
    npz_of(tmp_path / "sparse.npz", format=content, shape=content)
    (tmp_path / "raw.npy").write_bytes(content)
    (tmp_path / "raw.npz").write_bytes(content)
    zarr_2(tmp_path / "filter.zarr", content, filters=[{"id": "pickle", "protocol": 5}], dtype="<f8")
    zarr_2(tmp_path / "compressor.zarr", content, compressor={"id": "pickle", "protocol": 5}, dtype="<f8")
    zarr_2(tmp_path / "object.zarr", content)
    zarr_3(tmp_path / "v3.zarr", content, codecs=[{"name": "numcodecs.pickle", "configuration": {}}])
    inner = {"codecs": [{"name": "numcodecs.pickle"}], "chunk_shape": [2, 1], "index_codecs": METADATA["codecs"]}
    zarr_3(tmp_path / "shard.zarr", content, codecs=[{"name": "sharding_indexed", "configuration": inner}])
    zarr.open_group(str(tmp_path / "group.zarr"), mode="w", zarr_format=2)
    zarr_2(tmp_path / "group.zarr/a", content, filters=[{"id": "pickle", "protocol": 5}], dtype="<f8")
    listed = {"a/.zarray": json.loads((tmp_path / "group.zarr/a/.zarray").read_text()), ".zgroup": {"zarr_format": 2}}
    (tmp_path / "group.zarr/.zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": listed}))
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 11
    for name in names:
        refused(tmp_path / name)
        refused(tmp_path / f"{name}:a")
    assert "pickle" in refused(tmp_path / "filter.zarr")
    assert not mark.exists()
    numcodecs.Pickle().decode(content)
    assert mark.is_dir()


@pytest.mark.parametrize("shape", [(10**12, 3), (10**18, 10**18), (-5, 3), (2**63, 1), (7, 2)])
def test_a_shape_that_the_bytes_cannot_hold_is_refused_before_memory_is_asked_for(tmp_path, shape):
    content = npy_header(shape) + ROWS.tobytes()
    (tmp_path / "x.npy").write_bytes(content)
    npz_of(tmp_path / "x.npz", a=content)
    for name in ("x.npy", "x.npz"):
        assert "save it again" in refused(tmp_path / name)


def test_an_archive_that_swells_is_refused_by_what_memory_holds(tmp_path, monkeypatch):
    """A thousand times is what zlib can; what says more lies, and what is larger than the memory is not begun."""
    monkeypatch.setattr("scalemani.terminal.numpy_points.free_memory", lambda: 4 << 20)
    bomb = npz_of(tmp_path / "x.npz", a=npy_header((1 << 20, 1)) + bytes(8 << 20))
    assert bomb.stat().st_size < 20_000
    assert "8,388,608 bytes of memory" in refused(bomb)
    whole = bomb.read_bytes()
    lie = whole.replace(((8 << 20) + 128).to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
    assert lie != whole
    bomb.write_bytes(lie)
    assert "can't hold" in refused(bomb)


def test_a_sparse_matrix_whose_indices_lie_outside_is_refused(tmp_path):
    parts = {"format": np.array(b"csr"), "shape": np.array([2, 2]), "data": np.ones(2), "indptr": np.array([0, 1, 2])}
    np.savez(tmp_path / "x.npz", **parts, indices=np.array([0, 10**6]))
    refused(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", **{**parts, "indptr": np.array([0, 10**6, 2])}, indices=np.array([0, 1]))
    refused(tmp_path / "x.npz")


def test_zarr_metadata_that_stand_for_more_than_their_files_are_refused(tmp_path):
    for number, more in enumerate(
        (
            {"shape": [10**12, 1]},
            {"shape": [2**31, 10**6], "chunks": [2**31, 10**6]},
            {"shape": [2, 10**12]},
            {"shape": [-2, 1]},
            {"shape": "2"},
            {"data_type": "complex128"},
            {"data_type": {"name": "structured", "configuration": {"fields": []}}},
            {"storage_transformers": [{"name": "any"}]},
            {"codecs": "bytes"},
            {"codecs": [{"name": ESCAPE}]},
            {"node_type": ESCAPE},
        )
    ):
        refused(zarr_3(tmp_path / f"{number}.zarr", bytes(16), **more))
    (tmp_path / "0.zarr" / "zarr.json").write_bytes(b"[" * 100_000)
    assert "deeper" in refused(tmp_path / "0.zarr")
    os.mkfifo(zarr_3(tmp_path / "pipe.zarr") / "c/0/1")
    assert "plain file" in refused(tmp_path / "pipe.zarr")
    np.testing.assert_array_equal(open_points(str(zarr_3(tmp_path / "y.zarr", bytes(16)))).values[:], np.zeros((2, 1)))


@pytest.mark.parametrize("content", [b"", bytes(15), bytes(17), bytes(24)])
def test_a_chunk_of_another_length_is_refused_where_it_is_read(tmp_path, content):
    values = open_points(str(zarr_3(tmp_path / "x.zarr", content))).values
    with pytest.raises(ScalemaniError, match=r"a chunk of .*x\.zarr is damaged"):
        values[0:2]


def test_a_path_in_a_group_leads_nowhere_else(tmp_path):
    zarr_3(tmp_path / "secret.zarr", bytes(16))
    zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    for member in ("../secret.zarr", "a/../../secret.zarr", "./../secret.zarr"):
        assert "inside" in refused(f"{tmp_path}/x.zarr:{member}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1,2\n3," + b"4" * 200_000 + b"\n", "field"),
        (b'1,2\n3,"4' + b"\n5" * 200_000, "field"),
        (b"1,2\n3,4\0\n", "zero byte"),
        ("1,2\n3,4\n".encode("utf-16-le"), "zero byte"),
        (b"\x89PNG\r\n\x1a\n\xff", "UTF-8"),
        (b"1,2\n3,\x1b[2J\n", "line 2"),
        (b"a\x1b[2J,b\n1,x\n2,3\n", "line 2"),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path, content, words):
    (tmp_path / "x.csv").write_bytes(content)
    assert words in refused(tmp_path / "x.csv")


def test_a_line_without_end_is_not_taken_into_memory(tmp_path):
    with (tmp_path / "x.csv").open("wb") as file:
        file.write(b"1,2\n")
        file.truncate(1 << 40)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr("scalemani.terminal.csv_points._LONGEST_LINE", 1 << 16)
        assert "more than 65,536 characters" in refused(tmp_path / "x.csv")


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "\0", "1", ".", "-", "e", "\x1b[2J"])
def test_a_delimiter_that_numbers_or_quotes_have_is_refused(tmp_path, delimiter):
    (tmp_path / "x.csv").write_text("1,2\n")
    if delimiter:
        assert "--delimiter" in refused(tmp_path / "x.csv", delimiter=delimiter)
    refused(tmp_path / "x.csv", id_column="9" * 5000)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "tsv", "zarr"])
def test_what_is_no_file_of_its_kind_is_not_waited_for(tmp_path, kind):
    os.mkfifo(tmp_path / f"pipe.{kind}")
    (tmp_path / f"device.{kind}").symlink_to("/dev/zero")
    (tmp_path / f"loop.{kind}").symlink_to(f"loop.{kind}")
    other = tmp_path / f"other.{kind}"
    other.write_text("") if kind == "zarr" else other.mkdir()
    for name in ("pipe", "device", "loop", "other", "absent", "a\0b", "a" * 300):
        refused(tmp_path / f"{name}.{kind}")


# ---- what is printed and written -------------------------------------------------------------------------


def test_no_sign_that_a_terminal_obeys_reaches_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("x.csv", f"{ESCAPE}.csv", "\udcff.csv", "\u202egnp.csv"):
        (tmp_path / name).write_text(f"a,{ESCAPE}\n1,2\n3,{ESCAPE}x\n")
    for arguments in (
        ["fit", "x.csv", "run"],
        ["fit", "x.csv", "run", "--id-column", "b"],
        ["fit", "x.csv", ESCAPE],
        ["fit", f"{ESCAPE}.csv", "run"],
        ["fit", "\udcff.csv", "run"],
        ["fit", "\u202egnp.csv", "run"],
        ["info", ESCAPE],
        ["project", ESCAPE, "x.csv", "y.npy"],
        ["report", "run", f"{ESCAPE}.html"],
        [ESCAPE],
        ["fit", f"--{ESCAPE}"],
    ):
        assert run(cli, arguments) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        one_line(err[:-1])


def test_a_report_runs_and_fetches_nothing_and_shows_no_control_character():
    nasty = f"<svg onload=alert(1)>' \" {ESCAPE} \u202e ]]> --> <script>"
    document = page(nasty, nasty, [Section(nasty, [nasty], [Table([nasty], [[nasty]])])], nasty)
    assert "<svg" not in document and "<script" not in document and "\x1b" not in document and "\u202e" not in document
    policy = document.index("default-src 'none'")
    assert policy < document.index("<title>")


def test_ids_are_written_as_they_came_also_where_a_spreadsheet_sees_a_formula(tmp_path):
    """Decided: an id is found again by its name, so nothing is put before it; importing columns as text is theirs."""
    ids = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", 'a"b', "a\nb"]
    write_coordinates(str(tmp_path / "y.csv"), np.zeros((len(ids), 2)), ids=ids, id_name="=who")
    back = open_points(str(tmp_path / "y.csv"), id_column="=who")
    assert (back.ids, back.id_name, back.names) == (ids, "=who", ["axis_1", "axis_2"])
