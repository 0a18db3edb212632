"""Files at both ends: what is read is what was saved, what is refused says what to do, and an output
is whole or absent."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalemani.errors import DiskFullError, ScalemaniError, StoreInUseError
from scalemani.formats import outputs
from scalemani.formats.outputs import check_output, write_coordinates
from scalemani.formats.points import open_points
from scalemani.storage.folders import FilePath
from scalemani.storage.run import RunStore

ROWS = np.array([[1.5, -0.0, 3e-300], [4.0, 5.25, -6.125]])


def text(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def refused(spec: str, **options: str) -> str:
    """The message of a refusal, which must be one line and name the file."""
    with pytest.raises(ScalemaniError) as caught:
        open_points(spec, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert Path(spec.split(":")[0]).name in message
    return message


def test_npy_is_memory_mapped_and_equal(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    values = open_points(str(tmp_path / "x.npy")).values
    assert isinstance(values, np.memmap)
    np.testing.assert_array_equal(values, ROWS)


def test_npz_by_key_alone_and_sparse(tmp_path):
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS + 1)
    np.savez_compressed(tmp_path / "one.npz", only=ROWS)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_array(ROWS))
    np.testing.assert_array_equal(open_points(f"{tmp_path}/two.npz:b").values, ROWS + 1)
    np.testing.assert_array_equal(open_points(f"{tmp_path}/one.npz").values, ROWS)
    np.testing.assert_array_equal(open_points(f"{tmp_path}/sparse.npz").values.toarray(), ROWS)
    assert "(a, b)" in refused(f"{tmp_path}/two.npz")
    assert "'c'" in refused(f"{tmp_path}/two.npz:c")


def test_zarr_array_and_group(tmp_path):
    zarr.create_array(str(tmp_path / "array.zarr"), data=ROWS)
    group = zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    group.create_group("deep").create_array("x", data=ROWS)
    group.create_array("y", data=ROWS + 1)
    group.create_array("z", data=ROWS + 2)
    np.testing.assert_array_equal(open_points(f"{tmp_path}/array.zarr").values[:], ROWS)
    np.testing.assert_array_equal(open_points(f"{tmp_path}/group.zarr:deep/x").values[:], ROWS)
    assert "(y, z)" in refused(f"{tmp_path}/group.zarr")
    assert "deep" in refused(f"{tmp_path}/group.zarr:deep")
    assert "absent" in refused(f"{tmp_path}/group.zarr:absent")
    assert "is an array" in refused(f"{tmp_path}/array.zarr:x")


@pytest.mark.parametrize(
    ("content", "options", "ids", "name"),
    [
        ("1.5,-0.0,3e-300\n4,5.25,-6.125\n", {}, None, "id"),
        ("a,b,c\n1.5,-0.0,3e-300\n4,5.25,-6.125\n", {}, None, "id"),
        (
            "\ufeffwho,a,b,c\r\nx,1.5,-0.0,3e-300\r\ny,4,5.25,-6.125\r\n\r\n\r\n",
            {"id_column": "who"},
            ["x", "y"],
            "who",
        ),
        ("a;b;c\n1.5;-0.0;3e-300\n4;5.25;-6.125\n", {"delimiter": ";"}, None, "id"),
        ("a\tb\tc\n1.5\t-0.0\t3e-300\n4\t5.25\t-6.125\n", {"delimiter": r"\t"}, None, "id"),
        ('1.5,-0.0,"Gauß, K.",3e-300\n4,5.25,7,-6.125\n', {"id_column": "3"}, ["Gauß, K.", "7"], "id"),
        ("who,2019,2020,2021\nx,1.5,-0.0,3e-300\ny,4,5.25,-6.125\n", {"id_column": "who"}, ["x", "y"], "who"),
        ("a,b,c,who\n1.5,-0.0,3e-300,x\n4,5.25,-6.125,y\n", {"id_column": "4"}, ["x", "y"], "who"),
        # A heading with numbers in it is told by the text above a number.
        ("x,2,3\n1.5,-0.0,3e-300\n4,5.25,-6.125\n", {}, None, "id"),
    ],
)
def test_csv_with_and_without_a_heading_and_ids(tmp_path, content, options, ids, name):
    table = open_points(text(tmp_path / "x.csv", content), **options)
    np.testing.assert_array_equal(table.values, ROWS)
    assert np.signbit(table.values[0, 1])
    assert (table.ids, table.id_name) == (ids, name)


def test_csv_longer_than_a_block(tmp_path):
    rows = np.arange(9000.0).reshape(-1, 1)
    np.savetxt(tmp_path / "x.csv", rows)
    np.testing.assert_array_equal(open_points(str(tmp_path / "x.csv")).values, rows)


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (
            "a,b\n1,setosa\n2,virginica\n",
            {},
            "line 2, column 2 (b): 'setosa' is not a number; give --id-column 2",
        ),
        ("1,setosa\n2,virginica\n", {}, "line 1, column 2: 'setosa'"),
        ("a,b\n1,2\n3,NA\n", {}, "line 3, column 2 (b): 'NA'"),
        ("a,b\n1,2\n3,\n", {}, "an empty cell"),
        ("n,a,b\nx,1,2\ny,3,z\n", {"id_column": "n"}, "line 3, column 3 (b): 'z' is not a number; give --ignore 3"),
        (
            "n,a,b\nx,1,2\ny,3,NA\n",
            {"id_column": "n"},
            "'NA' is no value; fill the cell, take the row out, or give --i",
        ),
        ("n,a,b\nx,1,2\nn,a,b\ny,3,4\n", {"id_column": "n"}, "line 3, column 2 (a): 'a' is not a number; if this is a"),
        ("1_000,2\n", {}, "1_000"),
        # A row that lost its cells is said, and neither dropped nor taken for a heading.
        ("1,2\n , \n3,4\n", {}, "line 2, column 1: an empty cell"),
        ("1,2\n3,4\n,\n", {}, "line 3, column 1: an empty cell"),
        (",\n1,2\n3,4\n", {}, "line 1, column 1: an empty cell"),
        ("1,2\n\n3,4\n", {}, "line 2: an empty line"),
        ("a\n1\n\n\n3\n", {}, "line 3: an empty line"),
        ("1,2\n", {"id_column": "²"}, "no column '²'"),
        ("1,2\n3\n", {}, "line 2: 1 cells, 2 in the first"),
        ("1;2\n3;4\n", {}, "--delimiter ';'"),
        ("", {}, "no rows"),
        ("a,b\n", {}, "no rows below"),
        ("a,b\n1,2\n", {"id_column": "c"}, "no column 'c' (a, b)"),
        ("1,2\n", {"id_column": "3"}, "1 to 2"),
        ("x\ny\n", {"id_column": "1"}, "no column but the ids"),
    ],
)
def test_csv_refusals_say_where_and_what_to_do(tmp_path, content, options, expected):
    assert expected in refused(text(tmp_path / "x.csv", content), **options)


def test_csv_that_is_not_text(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\x93NUMPY\x01\xff\xfe")
    assert "UTF-8" in refused(str(tmp_path / "x.csv"))


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, "a"]], dtype=object))
    np.savez(tmp_path / "x.npz", a=np.array([[1, "a"]], dtype=object))
    assert "Python objects" in refused(f"{tmp_path}/x.npy")
    assert "Python objects" in refused(f"{tmp_path}/x.npz:a")


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
@pytest.mark.parametrize("keep", [0, 7, 100, 170])
def test_a_truncated_file_is_refused(tmp_path, name, keep):
    (np.save if name.endswith("npy") else np.savez)(tmp_path / name, ROWS)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:keep])
    assert len(whole) > keep
    assert "not a whole" in refused(f"{tmp_path}/{name}")


def test_unknown_kind_missing_file_and_options_of_another_kind(tmp_path):
    assert ".npy" in refused("points.mat")
    assert "does not exist" in refused(str(tmp_path / "absent.npy"))
    np.save(tmp_path / "x.npy", ROWS)
    assert "--id-column" in refused(str(tmp_path / "x.npy"), id_column="1")


COORDINATES = np.array([[0.1, -2.5e-17], [np.nan, 3.0], [1 / 3, np.inf]])


def test_written_csv_reads_back_bit_for_bit(tmp_path):
    out = tmp_path / "y.csv"
    write_coordinates(out, COORDINATES, ids=["ä,b", "x", '"'], id_name="who")
    assert out.read_text(encoding="utf-8").splitlines()[0] == "who,axis_1,axis_2"
    table = open_points(str(out), id_column="who")
    np.testing.assert_array_equal(table.values, COORDINATES)
    assert table.ids == ["ä,b", "x", '"']


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(), st.floats(width=32)), min_size=1, max_size=5))
def test_any_float_survives_a_csv(tmp_path, rows):
    write_coordinates(tmp_path / "y.csv", np.array(rows), overwrite=True)
    np.testing.assert_array_equal(open_points(str(tmp_path / "y.csv")).values, np.array(rows))


def test_written_npy_and_its_ids(tmp_path):
    write_coordinates(tmp_path / "y.npy", COORDINATES, ids=["a", "b", "c"])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), COORDINATES)
    assert (tmp_path / "y.ids.csv").read_text() == "id\na\nb\nc\n"


def test_the_file_of_ids_is_not_replaced_unasked_nor_without_its_npy(tmp_path, monkeypatch):
    (tmp_path / "y.ids.csv").write_text("mine")
    out = str(tmp_path / "y.npy")
    check_output(out)  # without ids it is nobody's business
    for refuse in (
        lambda: check_output(out, ids=True),
        lambda: write_coordinates(out, COORDINATES, ids=["a", "b", "c"]),
    ):
        with pytest.raises(ScalemaniError, match=r"y\.ids\.csv exists; give --overwrite"):
            refuse()
    with monkeypatch.context() as patched:
        patched.setattr(outputs.np, "save", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space")))
        with pytest.raises(DiskFullError, match="bytes were to be written"):
            write_coordinates(out, COORDINATES, ids=["a", "b", "c"], overwrite=True)
    assert (tmp_path / "y.ids.csv").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["y.ids.csv"]
    write_coordinates(out, COORDINATES, ids=["a", "b", "c"], overwrite=True)
    assert (tmp_path / "y.ids.csv").read_text() == "id\na\nb\nc\n"


def test_written_zarr_and_its_ids_replaced_when_asked(tmp_path):
    out = tmp_path / "y.zarr"
    write_coordinates(out, COORDINATES, ids=["a", "b", "ü"], names=["u", "v"])
    with pytest.raises(ScalemaniError, match="--overwrite"):
        write_coordinates(out, COORDINATES)
    np.testing.assert_array_equal(open_points(f"{out}:coordinates").values[:], COORDINATES)
    group = zarr.open_group(str(out), mode="r")
    assert list(group["ids"][:]) == ["a", "b", "ü"]
    assert group.attrs["axes"] == ["u", "v"]
    write_coordinates(out, COORDINATES + 1, overwrite=True)
    np.testing.assert_array_equal(open_points(str(out)).values[:], COORDINATES + 1)
    assert [path.name for path in tmp_path.iterdir()] == ["y.zarr"]


@pytest.mark.parametrize("name", ["y.csv", "y.zarr"])
def test_a_failure_while_writing_leaves_what_was_there(tmp_path, monkeypatch, name):
    out = tmp_path / name
    write_coordinates(out, COORDINATES)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full_disk(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FilePath, "replace_with", full_disk)
    with pytest.raises(DiskFullError, match="bytes were to be written"):
        write_coordinates(out, COORDINATES + 1, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_outputs_refused_before_any_work(tmp_path):
    (tmp_path / "y.csv").touch()
    with pytest.raises(ScalemaniError, match="--overwrite"):
        check_output(str(tmp_path / "y.csv"))
    assert check_output(str(tmp_path / "y.csv"), overwrite=True) == tmp_path / "y.csv"
    with pytest.raises(ScalemaniError, match=r"\.csv, \.zarr, .* or \.hdf5"):
        check_output(str(tmp_path / "y.txt"))
    with pytest.raises(ScalemaniError, match="no directory"):
        check_output(str(tmp_path / "absent" / "y.csv"))
    RunStore.create(tmp_path / "run.zarr")
    with pytest.raises(ScalemaniError, match="never replaced"):
        check_output(str(tmp_path / "run.zarr"), overwrite=True)
    with pytest.raises(ScalemaniError, match="3 rows"):
        write_coordinates(tmp_path / "z.csv", COORDINATES, ids=["a"])


class Killed(BaseException):
    """As a kill is: nothing is cleared up behind it."""


@pytest.mark.parametrize("name", ["y.csv", "y.npy", "y.zarr", "y.html"])
def test_what_a_killed_process_left_beside_an_output_goes_with_the_next_one(tmp_path, monkeypatch, name):
    write = outputs.write_page if name == "y.html" else write_coordinates
    content = "<p>" if name == "y.html" else COORDINATES
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(FilePath, "replace_with", lambda *_: (_ for _ in ()).throw(Killed))
        patch.setattr(FilePath, "remove", lambda _: None)
        write(tmp_path / name, content)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / f".{name}.theirs.partial").touch()
    write(tmp_path / name, content)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".{name}.theirs.partial", name]


def test_what_is_being_written_is_not_removed_by_another(tmp_path):
    with outputs.renamed_when_complete(tmp_path / "y.csv", 1) as partial:
        partial.write_text("whole")
        with pytest.raises(StoreInUseError, match="another command is at work on"):
            write_coordinates(tmp_path / "y.csv", COORDINATES)
    assert (tmp_path / "y.csv").read_text() == "whole" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("link", [False, True])
def test_an_output_whose_replacing_was_killed_between_the_renames_is_there_again(tmp_path, monkeypatch, link):
    out, other = tmp_path / "y.zarr", tmp_path / "other"
    write_coordinates(out, COORDINATES)
    if link:
        other.mkdir()
        (other / "y.zarr").symlink_to(out)
        out = other / "y.zarr"
    real = os.rename

    def rename(old, new):
        if Path(new) == out:
            raise Killed
        real(old, new)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "rename", rename)
        patch.setattr(os, "replace", rename)
        patch.setattr(os.path, "lexists", lambda _: True)
        patch.setattr(FilePath, "remove", lambda _: None)
        write_coordinates(out, COORDINATES + 1, overwrite=True)
    with pytest.raises(ScalemaniError, match=r"y\.zarr exists; give --overwrite"):
        check_output(str(out))
    np.testing.assert_array_equal(open_points(str(out)).values[:], COORDINATES)
    write_coordinates(out, COORDINATES + 1, overwrite=True)
    assert [path.name for path in out.parent.iterdir() if path != other] == ["y.zarr"]


def test_a_long_name_is_written_and_one_that_is_too_long_refused_before_any_work(tmp_path):
    long = "ü" * 113 + ".npy"  # 230 bytes
    write_coordinates(tmp_path / long, COORDINATES, ids=["a", "b", "c"])
    assert len(list(tmp_path.iterdir())) == 2
    for check, name in ((check_output, "y" + long), (outputs.check_page, "y" * 251 + ".html")):
        with pytest.raises(ScalemaniError, match="longer than 230 bytes; give a shorter one"):
            check(str(tmp_path / name))
