"""What strangers hand over is looked at before it is used: files of points, names that are printed or written."""

import json
import os
import resource
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from hostile import ESCAPE, METADATA, npy_header, npz_of, objects, one_line, pickled

from scalemani.errors import ScalemaniError
from scalemani.formats.outputs import write_coordinates
from scalemani.formats.points import open_points
from scalemani.report.page import Section, Table, page
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

pytestmark = pytest.mark.timeout(20)  # a pipe that is waited for
ROWS = np.arange(12.0).reshape(6, 2)


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
    monkeypatch.setattr("scalemani.formats.numpy_files.free_memory", lambda: 4 << 20)
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
    assert "too deeply" in refused(tmp_path / "0.zarr")
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
        patched.setattr("scalemani.formats.csv_text._LONGEST_LINE", 1 << 16)
        assert "more than 65,536 characters" in refused(tmp_path / "x.csv")


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "\0", "1", ".", "-", "e", "\x1b[2J"])
def test_a_delimiter_that_numbers_or_quotes_have_is_refused(tmp_path, delimiter):
    (tmp_path / "x.csv").write_text("1,2\n")
    if delimiter:
        assert "--delimiter" in refused(tmp_path / "x.csv", delimiter=delimiter)
    refused(tmp_path / "x.csv", id_column="9" * 5000)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "tsv", "zarr", "h5", "h5ad", "parquet"])
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
