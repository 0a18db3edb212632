"""A column from a file is what the file holds, a value for each row, or an error that says what to give."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse as sp
import zarr

from scalemani.errors import ScalemaniError
from scalemani.formats.columns import read_column, read_row_numbers

ROWS = 4
NUMBERS = [0.5, -2.0, 3e5, 7.0]
TEXTS = ["b", "<i>a</i>", "", "日本, x"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(name, *lines):
    with open(name, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return name


def test_a_heading_is_known_by_its_name_or_by_the_number_of_lines():
    table("x.csv", "size,kind", '1.5,"b, c"', "2,a", ",a", "NA,b")
    name, sizes = read_column("x.csv:size", ROWS)
    assert name == "size"
    np.testing.assert_array_equal(sizes, [1.5, 2, np.nan, np.nan])
    assert read_column("x.csv:kind", ROWS) == ("kind", ["b, c", "a", "a", "b"])
    assert read_column("x.csv:2", ROWS) == read_column("x.csv:kind", ROWS)
    assert read_column("x.csv:2", 5) == ("x.csv, column 2", ["kind", "b, c", "a", "a", "b"])


def test_one_column_needs_no_name_and_other_delimiters_are_taken():
    name, values = read_column(table("one.csv", "3", "1", "2", "4"), ROWS)
    assert (name, values.tolist()) == ("one.csv", [3, 1, 2, 4])
    table("x.tsv", "a\tb:c", "1\tu", "2\tv", "3\tu", "4\tv")
    assert read_column("x.tsv:b:c", ROWS) == ("b:c", ["u", "v", "u", "v"])
    table("x.csv", "a;b", "1;u", "2;v", "3;u", "4;v")
    assert read_column("x.csv:b", ROWS, ";")[1] == ["u", "v", "u", "v"]


def test_a_heading_that_is_a_number_goes_before_a_number():
    table("years.csv", "2020,1", "a,b", "c,d", "e,f", "g,h")
    assert read_column("years.csv:1", ROWS) == ("1", ["b", "d", "f", "h"])
    assert read_column("years.csv:2020", ROWS)[1] == ["a", "c", "e", "g"]


@pytest.mark.parametrize("values", [NUMBERS, [3, 1, 2, 2], [True, False, True, True], TEXTS])
def test_arrays_of_each_kind_give_what_they_hold(values):
    array = np.array(values)
    np.save("x.npy", array)
    np.save("wide.npy", np.column_stack([array[::-1], array]))
    np.savez("x.npz", y=array, other=array[:2])
    text = array.dtype.kind == "U"
    made = zarr.open_group("x.zarr", mode="w").create_array("in/y", shape=ROWS, dtype="string" if text else array.dtype)
    made[:] = array.astype(object) if text else array
    for spec, name in [
        ("x.npy", "x.npy"),
        ("x.npy:1", "x.npy"),
        ("wide.npy:2", "wide.npy, column 2"),
        ("x.npz:y", "y of x.npz"),
        ("x.zarr:in/y", "in/y of x.zarr"),
    ]:
        found = read_column(spec, ROWS)
        assert (found[0], list(found[1])) == (name, values)


def test_long_numbers_that_name_classes_stay_apart():
    long = [2**63 - 1, 2**63 - 2, 2**63 - 1, 2**63 - 2]
    table("long.csv", "kind", *map(str, long))
    np.save("long.npy", np.array(long))
    pyarrow.parquet.write_table(pyarrow.table({"kind": long}), "long.parquet")
    for spec in ("long.csv", "long.npy", "long.parquet"):
        assert read_column(spec, ROWS)[1] == list(map(str, long))
    np.save("even.npy", np.array(long) // 2**20 * 2**20)  # exact
    assert read_column("even.npy", ROWS)[1].dtype == np.int64


def test_a_table_with_the_ids_of_the_fit_in_another_order_is_refused():
    table("rows.csv", "name,from,kind", "b,a,1", "a,b,2", "c,c,3", "d,d,4")
    for ids in (list("bacd"), list("abcd"), list("wxyz"), None):  # those of a column; of none of it
        assert read_column("rows.csv:kind", ROWS, ids=ids)[1].tolist() == [1, 2, 3, 4]
    with pytest.raises(ScalemaniError, match="has the ids of the fit in another order"):
        read_column("rows.csv:kind", ROWS, ids=list("dcba"))


def test_bytes_are_text():
    np.save("bytes.npy", np.array([b"a", "é".encode(), b"b", b""]))
    assert read_column("bytes.npy", ROWS)[1] == ["a", "é", "b", ""]


def test_a_colon_in_a_name_is_part_of_it():
    table("a.csv:b.csv", "1", "2", "3", "4")
    assert read_column("a.csv:b.csv", ROWS)[1].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("x.txt", "kind from its name"),
        ("none.csv:a", "none.csv does not exist"),
        ("x.csv:c", r"no column 'c' \(a, b\)"),
        ("x.csv:3", "no column '3'"),
        ("x.csv:0", "no column '0'"),
        ("x.csv", r"has 2 columns \(a, b\)"),
        ("short.csv:a", "3 lines and the fit 4 rows"),
        ("torn.csv:1", "line 3: 1 cells, 2 in the others"),
        ("few.csv", r"4 lines, as the fit has rows, and the first \(a\) is no number"),
        ("many.csv", r"5 lines and the fit 4 rows, and the first \(1.5\) may be a heading or a row"),
        ("twice.csv:a", "2 columns called 'a'"),
        ("x.csv:aa", r"did you mean 'a'"),
        ("empty.csv", "0 lines and the fit 4 rows"),
        ("short.npy", r"shape \(3,\) and the fit 4 rows"),
        ("wide.npy", "2 columns; give a number"),
        ("wide.npy:3", "2 columns; give a number"),
        ("wide.npy:a", "without a name"),
        ("deep.npy", r"shape \(4, 1, 1\)"),
        ("one.npy", r"shape \(\)"),
        ("dates.npy", "type datetime64"),
        ("complex.npy", "type complex128"),
        ("objects.npy", "Python objects"),
        ("x.npz:z", "no array 'z'"),
        ("sparse.npz", "sparse matrix"),
    ],
)
def test_what_is_no_column_is_refused_in_one_line(spec, what):
    table("x.csv", "a,b", *["1,2"] * ROWS)
    table("short.csv", "a,b", "1,2", "3,4")
    table("torn.csv", "1,2", "1,2", "1", "1,2")
    table("few.csv", "a", "1", "2", "3")
    table("many.csv", "1.5", "2", "3", "4", "5")
    table("twice.csv", "a,a", *["1,2"] * ROWS)
    table("empty.csv")
    arrays = {
        "short": np.ones(3),
        "wide": np.ones((ROWS, 2)),
        "deep": np.ones((ROWS, 1, 1)),
        "one": np.float64(1),
        "dates": np.full(ROWS, "2020-01-01", "datetime64[D]"),
        "complex": np.ones(ROWS, complex),
        "objects": np.array([None] * ROWS),
    }
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.savez("x.npz", y=np.ones(ROWS), w=np.ones(ROWS))
    sp.save_npz("sparse.npz", sp.eye_array(ROWS, format="csr"))
    with pytest.raises(ScalemaniError, match=what) as caught:
        read_column(spec, ROWS)
    assert "\n" not in str(caught.value)


def test_delimiter_and_decimal_sign_are_for_tables():
    np.save("x.npy", np.ones(ROWS))
    for options in ({"delimiter": ";"}, {"decimal": ","}):
        with pytest.raises(ScalemaniError, match=f"--{next(iter(options))} is for"):
            read_column("x.npy", ROWS, **options)


def test_numbers_with_another_decimal_sign_are_no_categories():
    comma = table("comma.csv", "a;b", *["1,5;u", "2,5;v", "3;w", "NA;x"])
    np.testing.assert_array_equal(read_column(f"{comma}:a", ROWS, decimal=",")[1], [1.5, 2.5, 3, np.nan])
    assert read_column(f"{comma}:b", ROWS, decimal=",")[1] == ["u", "v", "w", "x"]
    assert read_column(f"{comma}:a", ROWS, ";", ".")[1] == ["1,5", "2,5", "3", "NA"]
    with pytest.raises(ScalemaniError, match="such as 1,5; give --decimal ','"):
        read_column(f"{comma}:a", ROWS, ";")
    point = table("point.csv", "a;b", *["1.5;u"] * ROWS)
    with pytest.raises(ScalemaniError, match=r"such as 1\.5; give --decimal '\.'"):
        read_column(f"{point}:a", ROWS, decimal=",")


def test_marks_of_missing_numbers_make_no_categories():
    for mark in (".", "#N/A", "?", "NA", "null", '""'):
        values = read_column(table("x.csv", "a", "1.5", mark, "2", "3"), ROWS)[1]
        np.testing.assert_array_equal(values, [1.5, np.nan, 2, 3])


def test_a_heading_may_leave_out_the_names_of_the_rows():
    table("r.csv", '"a","k"', '"1",1.5,"u"', '"2",2,"v"', '"3",3,"u"', '"4",4,"v"')
    assert read_column("r.csv:k", ROWS) == ("k", ["u", "v", "u", "v"])
    assert read_column("r.csv:a", ROWS)[1].tolist() == [1.5, 2, 3, 4]


def test_row_numbers_below_a_heading_that_may_be_one_are_asked_about():
    with pytest.raises(ScalemaniError, match="the first line, 0, may be the heading that pandas writes"):
        read_row_numbers(table("rows.csv", "0", "5", "9"))
    assert read_row_numbers(table("rows.csv", '"0"', "5", "9")).tolist() == [5, 9]
    assert read_row_numbers(table("rows.csv", "row", "0", "9")).tolist() == [0, 9]
    assert read_row_numbers(table("rows.csv", ",0", "0,5", "1,9")).tolist() == [5, 9]  # pandas, with its index
    assert read_row_numbers(table("rows.csv", "5", "0", "9")).tolist() == [5, 0, 9]
    assert read_row_numbers(table("rows.csv", "0.000e+00", "5.000e+00")).tolist() == [0, 5]  # NumPy's savetxt
