"""HDF5, AnnData's files and Parquet at both ends: the numbers that NumPy gives, read by blocks, refused in a line."""

import contextlib
import shlex
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hostile import one_line, pickled

from scalemani import KernelIsomap, load
from scalemani.errors import ScalemaniError
from scalemani.formats import hdf5, parquet
from scalemani.formats.columns import read_column
from scalemani.formats.outputs import check_output, write_coordinates
from scalemani.formats.points import open_points
from scalemani.points import reading
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

RNG = np.random.default_rng(0)
ROWS = RNG.random((60, 3))
COUNTS = sp.random_array((60, 7), density=0.6, format="csr", rng=RNG)
NAMES = [f"cell-{i}" for i in range(60)]
GENES = [f"gene-{i}" for i in range(7)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with points in every format, each written by its own library."""
    at = tmp_path_factory.mktemp("formats")
    np.save(at / "x.npy", ROWS)
    with h5py.File(at / "x.h5", "w") as file:
        file["plain"] = ROWS
        file.create_dataset("deep/chunked", data=ROWS, chunks=(7, 2), compression="gzip", fletcher32=True)
        file["bytes"] = (255 * ROWS).astype(np.uint8)
        file["line"], file["text"] = ROWS[:, 0], np.array([[b"a"]])
    with h5py.File(at / "one.hdf5", "w") as file:
        file["only"] = ROWS
    cells = pd.DataFrame(
        {"who": [name.upper() for name in NAMES], "kind": pd.Categorical(["a", "b"] * 30)}, index=NAMES
    )
    adata = anndata.AnnData(COUNTS, obs=cells, var=pd.DataFrame(index=GENES))
    adata.obsm["X_pca"], adata.obsm["table"] = ROWS, pd.DataFrame(ROWS, index=NAMES, columns=list("abc"))
    adata.layers["columns"], adata.layers["dense"] = COUNTS.tocsc(), COUNTS.toarray()
    adata.obsp["distances"] = sp.csr_array(np.diag([0.0, *np.ones(59)]))
    adata.write_h5ad(at / "x.h5ad")
    # The index is a column of the file, and no feature.
    table = pd.DataFrame(ROWS, columns=["a", "b", "c"], index=RNG.permutation(60))
    table.to_parquet(at / "x.parquet", row_group_size=7)
    mixed = table.assign(small=np.arange(60, dtype=np.int8), yes=table.a > 0.5, who=NAMES)
    mixed.to_parquet(at / "mixed.parquet", row_group_size=25)
    return at


def read(spec, **options):
    """The rows of a file, as the library reads them."""
    source = open_points(str(spec), **options)
    blocks = [block.toarray() if sp.issparse(block) else block for _, block in reading.row_blocks(source.values)]
    return source, np.concatenate(blocks)


def refused(spec, **options):
    """The line of a refusal, at the opening or at the first block that is damaged."""
    with pytest.raises(ScalemaniError) as caught:
        read(spec, **options)
    return one_line(caught.value)


SAME = {
    "x.h5::plain": ROWS,
    "x.h5:plain": ROWS,
    "x.h5::deep/chunked": ROWS,
    "x.h5::/bytes": (255 * ROWS).astype(np.uint8),
    "one.hdf5": ROWS,
    "x.h5ad::obsm/X_pca": ROWS,
    "x.h5ad::X": COUNTS.toarray(),
    "x.h5ad::layers/columns": COUNTS.toarray(),
    "x.h5ad::layers/dense": COUNTS.toarray(),
    "x.parquet": ROWS,
    "x.parquet::c,a": ROWS[:, [2, 0]],
    "mixed.parquet::small,b,yes": np.column_stack([np.arange(60), ROWS[:, 1], ROWS[:, 0] > 0.5]),
}


@pytest.mark.parametrize("block_bytes", [32 << 20, 400])
@pytest.mark.parametrize("spec", SAME)
def test_what_is_read_is_what_was_written_whatever_the_blocks(made, monkeypatch, spec, block_bytes):
    monkeypatch.setattr(reading, "BLOCK_BYTES", block_bytes)
    _, values = read(made / spec)
    np.testing.assert_array_equal(values, SAME[spec])


def test_names_of_rows_and_columns(made):
    assert open_points(f"{made}/x.parquet").names == ["a", "b", "c"]  # without the data frame's index
    source = open_points(f"{made}/mixed.parquet::c,a", id_column="who")
    assert (source.names, source.ids, source.id_name) == (["c", "a"], NAMES, "who")
    source = open_points(f"{made}/x.h5ad::X", id_column="obs_names")
    assert (source.names, source.ids) == (GENES, NAMES)
    source = open_points(f"{made}/x.h5ad::obsm/X_pca", id_column="who")
    assert (source.names, source.ids) == (None, [name.upper() for name in NAMES])


def test_files_are_read_by_blocks_and_each_row_once(made, monkeypatch):
    """Rows that were read are counted: of a compressed dataset, of a sparse matrix and of row groups."""
    monkeypatch.setattr(reading, "BLOCK_BYTES", 8 * 3 * 14)
    monkeypatch.setattr(hdf5, "_ENTRIES", 50)
    for spec, most in (("x.h5::deep/chunked", 14), ("x.h5ad::X", 12)):
        taken = []
        values = open_points(f"{made}/{spec}").values
        monkeypatch.setattr(
            values, "read", lambda a, b, read=values.read, taken=taken: taken.append((a, b)) or read(a, b)
        )
        assert [len(block.toarray() if sp.issparse(block) else block) for _, block in reading.row_blocks(values)]
        assert [start for start, _ in taken] == [0, *(stop for _, stop in taken[:-1])] and taken[-1][1] == 60
        assert max(stop - start for start, stop in taken) <= most
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 8 * 3 * 5)
    decoded, batches = [], pq.ParquetFile.iter_batches

    def counted(self, **how):
        for batch in batches(self, **how):
            decoded.append(len(batch))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    read(made / "x.parquet")
    assert sum(decoded) == 60 and max(decoded) <= 5
    values = open_points(f"{made}/x.parquet").values
    for rows in (slice(50, 60), slice(3, 9), slice(9, 9), slice(9, 30), slice(0, 60)):
        np.testing.assert_array_equal(values[rows], ROWS[rows])


@pytest.fixture
def obey(tmp_path, monkeypatch, capsys):
    """Runs the program in an empty folder, which must succeed."""
    monkeypatch.chdir(tmp_path)

    def call(command):
        code = run(cli, [*shlex.split(command), "-q"])
        assert code == 0, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("points", "rows", "out"),
    [
        pytest.param("x.h5ad::X", COUNTS, "y.parquet", marks=pytest.mark.slow),
        ("x.parquet", ROWS, "y.h5"),
        pytest.param("x.h5::deep/chunked", ROWS, "y.hdf5", marks=pytest.mark.slow),
    ],
)
def test_a_fit_and_a_projection_are_those_from_numpy(made, obey, capsys, points, rows, out):
    named = "--id-column obs_names" if "h5ad" in points else ""
    obey(f"fit {made}/{points} run -k 6 --correction none --embedding {out} {named}")
    obey(f"project run {made}/{points} new-{out} {named}")
    expected = KernelIsomap(n_neighbors=6, correction=None).fit(rows)
    for name, coordinates in ((out, expected.embedding_), (f"new-{out}", expected.transform(rows))):
        source, values = read(name, **({"id_column": "obs_names"} if named else {}))
        np.testing.assert_array_equal(values, coordinates)
        assert source.ids == (NAMES if named else None)
    assert list(getattr(load("run"), "feature_names_in_", [])) == {"X": GENES, "t": list("abc"), "d": []}[points[-1]]
    if points == "x.parquet":  # columns in another order are another space
        assert run(cli, ["project", "run", f"{made}/x.parquet::c,b,a", "other.h5"]) == 2
        assert "has the columns c, b, a; run was fitted on a, b, c" in capsys.readouterr().err


@pytest.fixture(scope="module")
def coloured(made):
    """The same folder, with columns of every type that a map may be coloured by."""
    cells = pd.DataFrame(
        {
            "fate": pd.Categorical(["a", None, "b"] * 20, categories=["b", "a", "unused"]),
            "level": pd.Categorical([3, 1, 2] * 20),
            "marked": pd.array([1, None, 3] * 20, dtype="Int64"),
            "sure": pd.array([True, None, False] * 20, dtype="boolean"),
            "size": ROWS[:, 0],
            "count": np.arange(60),
            "yes": ROWS[:, 0] > 0.5,
            "who": [name.upper() for name in NAMES],
            "when": pd.Timestamp("2020-01-01"),
        },
        index=NAMES,
    )
    cells.to_parquet(made / "colours.parquet", row_group_size=7)
    anndata.AnnData(COUNTS, obs=cells.drop(columns="when"), obsm={"X_pca": ROWS}).write_h5ad(made / "colours.h5ad")
    with h5py.File(made / "colours.h5ad", "r+") as file:
        file.copy("obs/fate", "obs/torn")
        file["obs/torn/codes"][5] = 3
    return made


@pytest.mark.parametrize("where", ["colours.h5ad::obs/", "colours.h5ad:obs/", "colours.parquet::"])
def test_a_map_is_coloured_by_columns_of_these_files(coloured, where):
    def column(name):
        said, values = read_column(f"{coloured}/{where}{name}", 60)
        assert said == name
        return values

    assert column("fate") == ["a", "", "b"] * 20
    # Parquet keeps categories of numbers as numbers; the map takes up to 12 whole ones for categories.
    assert list(column("level")) == (["3", "1", "2"] if "h5ad" in where else [3, 1, 2]) * 20
    assert column("who") == [name.upper() for name in NAMES]
    np.testing.assert_array_equal(column("marked"), [1, np.nan, 3] * 20)
    np.testing.assert_array_equal(column("sure"), [1, np.nan, 0] * 20)
    for name, values in (("size", ROWS[:, 0]), ("count", np.arange(60)), ("yes", ROWS[:, 0] > 0.5)):
        np.testing.assert_array_equal(column(name), values)


def test_datasets_are_columns_too(coloured):
    assert read_column(f"{coloured}/x.h5::line", 60)[0] == "line of x.h5"
    np.testing.assert_array_equal(read_column(f"{coloured}/x.h5::line", 60)[1], ROWS[:, 0])
    for spec in ("x.h5::deep/chunked:2", "colours.h5ad::obsm/X_pca:2"):
        name, values = read_column(f"{coloured}/{spec}", 60)
        assert name.endswith(", column 2")
        np.testing.assert_array_equal(values, ROWS[:, 1])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("colours.h5ad", "say where in it, as in"),
        ("colours.h5ad::obs", "is a table (_index, count, fate"),
        ("colours.h5ad::obs/absent", "has nothing at 'obs/absent'"),
        ("colours.h5ad::obs/torn", "no numbers of its 3 categories"),
        ("colours.h5ad::obsm/X_pca", "has 3 columns; give a number from 1 to 3"),
        ("colours.h5ad::X", "a group or a sparse matrix"),
        ("x.h5::text", "shape (1, 1) and the fit 60 rows"),
        ("absent.h5::a", "absent.h5 does not exist"),
        ("raw.h5::a", "not a whole HDF5 file"),
        ("colours.parquet", "has several columns (fate, level"),
        ("colours.parquet::absent", "no column 'absent'"),
        ("colours.parquet::when", "type timestamp"),
        ("short.parquet", "has 3 rows and the fit 60"),
    ],
)
def test_what_is_no_column_is_one_line(coloured, spec, words):
    (coloured / "raw.h5").write_bytes(b"no HDF5")
    pq.write_table(pa.table({"a": [1, 2, 3]}), coloured / "short.parquet")
    with pytest.raises(ScalemaniError) as caught:
        read_column(f"{coloured}/{spec}", 60)
    assert words in one_line(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "h5", "hdf5"])
def test_written_coordinates_are_complete_replaced_when_asked_and_have_their_names(tmp_path, kind):
    out, coordinates = tmp_path / f"y.{kind}", np.array([[0.1, -2.5e-17], [np.nan, 3.0], [1 / 3, np.inf]])
    write_coordinates(out, coordinates, ids=["ä,b", "x", ""], id_name="who", names=["u", "v"])
    with pytest.raises(ScalemaniError, match="--overwrite"):
        write_coordinates(out, coordinates)
    if kind == "parquet":
        found = pd.read_parquet(out)
        assert list(found.columns) == ["who", "u", "v"] and list(found.who) == ["ä,b", "x", ""]
        np.testing.assert_array_equal(found[["u", "v"]], coordinates)
    else:
        with h5py.File(out) as file:
            np.testing.assert_array_equal(file["coordinates"][:], coordinates)
            assert list(file["ids"].asstr()) == ["ä,b", "x", ""] and list(file.attrs["axes"]) == ["u", "v"]
    write_coordinates(out, coordinates[:1], overwrite=True)
    np.testing.assert_array_equal(open_points(str(out)).values[:], coordinates[:1])
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    with pytest.raises(ScalemaniError, match="another heading"):
        write_coordinates(tmp_path / "z.parquet", coordinates, ids=["a", "b", "c"], id_name="axis_1")


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("x.h5", {}, "holds bytes, deep/chunked, plain; give one of them, as in"),
        ("x.h5::absent", {}, "has nothing at 'absent'; it holds bytes"),
        ("x.h5::deep", {}, "is a group"),
        ("x.h5::deep/../plain", {}, "path inside the file"),
        ("x.h5::line", {}, "shape (60,)"),
        ("x.h5::text", {}, "dtype |S1"),
        ("x.h5::plain", {"id_column": "who"}, "--id-column is for .csv, .tsv, .parquet, .h5ad files"),
        ("x.h5ad::obsm/table", {}, "is a table (dataframe)"),
        ("x.h5ad::X", {"id_column": "kind"}, "obs/kind is not of text"),
        ("x.h5ad::X", {"id_column": "absent"}, "no column 'absent' (obs_names, kind, who)"),
        ("x.h5ad::X", {"delimiter": ";"}, "--delimiter is for .csv"),
        ("mixed.parquet", {}, "other than numbers in who; choose columns, as in"),
        ("mixed.parquet::who", {"id_column": "who"}, "other than numbers in who; choose columns of numbers"),
        ("x.parquet::a,z", {}, "no column 'z' (a, b, c"),
        ("x.parquet::a,a", {}, "twice"),
        ("x.parquet", {"id_column": "z"}, "no column 'z'"),
    ],
)
def test_a_wrong_member_or_column_is_one_line_that_lists_the_right_ones(made, spec, options, words):
    assert words in refused(made / spec, **options)


def test_empty_cells_and_numbers_that_float64_lacks_are_said_by_name(tmp_path):
    pq.write_table(pa.table({"a": [1, None, 3]}), tmp_path / "x.parquet")
    assert "an empty cell at row 1, column 'a'" in refused(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1.0, None, 3.0]}), tmp_path / "x.parquet")
    assert "contains NaN at row 1, column 0" in refused(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1, 2**53 + 1]}), tmp_path / "x.parquet")
    assert "2**53 in 'b'" in refused(tmp_path / "x.parquet")


# ---- damaged, or not what it seems -----------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["x.h5::deep/chunked", "x.h5ad::X", "x.h5ad::obsm/X_pca", "x.parquet"])
@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.99])
def test_a_truncated_file_is_one_line(made, tmp_path, spec, part):
    name = spec.partition(":")[0]
    whole = (made / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(part * len(whole))])
    assert "not a whole" in refused(tmp_path / spec)


def test_a_damaged_chunk_is_one_line_where_it_is_read(made, tmp_path):
    with h5py.File(made / "x.h5") as file:
        chunk = file["deep/chunked"].id.get_chunk_info(3)
    content = bytearray((made / "x.h5").read_bytes())
    content[chunk.byte_offset + 5] ^= 1
    (tmp_path / "x.h5").write_bytes(content)
    assert "a chunk of" in refused(tmp_path / "x.h5::deep/chunked")
    pq.write_table(pa.table({"a": ROWS[:, 0]}), tmp_path / "x.parquet", compression="none", write_page_checksum=True)
    content = bytearray((tmp_path / "x.parquet").read_bytes())
    content[200] ^= 1
    (tmp_path / "x.parquet").write_bytes(content)
    assert "a row group of" in refused(tmp_path / "x.parquet")


SPOILED = {
    "an index outside": lambda X: X["indices"].__setitem__(3, 7),
    "an index below": lambda X: X["indices"].__setitem__(3, -1),
    "ends of rows that are out of order": lambda X: X["indptr"].__setitem__(5, 10**6),
    "ends of rows for the shape": lambda X: X.attrs.__setitem__("shape", [59, 7]),
    "no 'indices'": lambda X: X.__delitem__("indices"),
    "don't belong": lambda X: (X.__delitem__("data"), X.__setitem__("data", np.ones(3))),
    "the shape ()": lambda X: X.attrs.__delitem__("shape"),
    "dtype": lambda X: (X.__delitem__("data"), X.__setitem__("data", ["a"] * COUNTS.nnz)),
    "is a link": lambda X: (X.__delitem__("data"), X.__setitem__("data", h5py.SoftLink("/obsm/X_pca"))),
}


@pytest.mark.parametrize("words", SPOILED)
def test_a_sparse_matrix_that_is_none_is_one_line(made, tmp_path, words):
    (tmp_path / "x.h5ad").write_bytes((made / "x.h5ad").read_bytes())
    with h5py.File(tmp_path / "x.h5ad", "r+") as file:
        SPOILED[words](file["X"])
    assert words.replace("below", "outside") in refused(tmp_path / "x.h5ad::X")


def test_no_other_file_is_read_in_the_name_of_one(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = ROWS
    layout = h5py.VirtualLayout((60, 3), float)
    layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", (60, 3))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "x")
        file["folder"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/")
        file["soft"] = h5py.SoftLink("/link")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (60, 3), float, external=[(str(tmp_path / "secret.h5"), 0, 1440)])
    for member in ("link", "folder/x", "soft"):
        assert "is a link" in refused(tmp_path / f"x.h5::{member}")
    for member in ("virtual", "outside"):
        assert "lies in other files" in refused(tmp_path / f"x.h5::{member}")


def test_what_is_said_to_be_larger_than_its_bytes_can_be_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("wide", (2, 10**11), float, chunks=(1, 10**6))
        file.create_dataset("long", (10**12, 3), float, chunks=(10**6, 3))
        file.create_dataset("chunk", (10**5, 10**4), float, chunks=(10**5, 5000))
    assert "it is not whole" in refused(tmp_path / "x.h5::wide")
    assert "at most 2,147,483,648 are read" in refused(tmp_path / "x.h5::long")
    assert "it is not whole" in refused(tmp_path / "x.h5::chunk")


def test_nothing_in_these_files_is_unpickled(tmp_path):
    mark, content = tmp_path / "mark", pickled(tmp_path / "mark")
    (tmp_path / "raw.h5").write_bytes(content)
    (tmp_path / "raw.parquet").write_bytes(content)
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["X"] = np.void(content)
        file["uns/object"] = np.void(content)
        file.attrs["encoding-type"] = np.void(content)
    kind = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": content}
    field = pa.field("a", pa.int64(), metadata=kind)
    pq.write_table(pa.table([pa.array([1, 2])], schema=pa.schema([field])), tmp_path / "x.parquet")
    refused(tmp_path / "raw.h5")
    refused(tmp_path / "raw.parquet")
    refused(tmp_path / "x.h5ad::X")
    refused(tmp_path / "x.h5ad")
    with contextlib.suppress(ScalemaniError):  # a number in later releases of pyarrow, refused in earlier ones
        read(tmp_path / "x.parquet")
    assert not mark.exists()


@pytest.mark.parametrize(("package", "extra", "name"), [("h5py", "hdf5", "x.h5"), ("pyarrow", "parquet", "x.parquet")])
def test_a_package_that_is_missing_is_one_line_that_names_the_extra(made, tmp_path, monkeypatch, package, extra, name):
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    line = f"{name}.*: {package} is not installed; pip install 'scalemani\\[{extra}\\]'"
    with pytest.raises(ScalemaniError, match=line):
        open_points(f"{made}/{name}")
    with pytest.raises(ScalemaniError, match=line.replace("x.", "y.")):
        check_output(str(tmp_path / name.replace("x.", "y.")))
