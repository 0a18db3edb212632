# ruff: noqa: E501 - texts as others write them
"""Tables that other programs write are read as they were meant, or refused in a line that names what settles it.

The texts of R 4 and of LibreOffice 7 are as these wrote them, pandas and pyarrow write theirs here, and Excel, MATLAB,
NumPy and others are imitated. A table that is read must have the right numbers; one that is asked about must have them
with the options that the refusal names.
"""

import decimal
import gzip
import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import one_line

from scalemani.errors import ScalemaniError
from scalemani.formats.points import open_points

# What R was given, and LibreOffice by it; the tables of others have the same numbers.
X = np.array([[1.5, 0.1, 1234.5], [-0.25, 2e-7, 0.5], [3, -4.75, 7.25], [2.125, 12, 9]])
R = {
    "dist": '"","1","2","3"\n"1",0,1234.00124493453,1227.26050005694\n"2",1234.00124493453,0,8.87059760670047\n"3",1227.26050005694,8.87059760670047,0\n',
    "factor": '"a","b","c","g"\n1.5,0.1,1234.5,"u"\n-0.25,2e-07,0.5,"v"\n3,-4.75,7.25,"u"\n2.125,12,9,"v"\n',
    "headings that are numbers": '"","400","410.5","425"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "headings that are numbers, no quotes": "400,410.5,425\n1.5,0.1,1234.5\n-0.25,2e-07,0.5\n3,-4.75,7.25\n2.125,12,9\n",
    "headings that are numbers, no row names": '"400","410.5","425"\n1.5,0.1,1234.5\n-0.25,2e-07,0.5\n3,-4.75,7.25\n2.125,12,9\n',
    "logical": '"","a","b","c","ok"\n"1",1.5,0.1,1234.5,TRUE\n"2",-0.25,2e-07,0.5,FALSE\n"3",3,-4.75,7.25,TRUE\n"4",2.125,12,9,TRUE\n',
    "matrix without names": '"","V1","V2","V3"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "missing": '"","a","b","c"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,NA,7.25\n"4",2.125,12,9\n',
    "odd names": '"","a, x","b ""q""","c"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "print": "       a         b       c\n1  1.500  1.00e-01 1234.50\n2 -0.250  2.00e-07    0.50\n3  3.000 -4.75e+00    7.25\n4  2.125  1.20e+01    9.00\n",
    "read and written": '"X","a","b","c"\n1,1.5,0.1,1234.5\n2,-0.25,2e-07,0.5\n3,3,-4.75,7.25\n4,2.125,12,9\n',
    "row names of text": '"","a","b","c"\n"x, 1",1.5,0.1,1234.5\n"y",-0.25,2e-07,0.5\n"z",3,-4.75,7.25\n"w",2.125,12,9\n',
    "row names of text, table": '"a","b","c"\n"x, 1",1.5,0.1,1234.5\n"y",-0.25,2e-07,0.5\n"z",3,-4.75,7.25\n"w",2.125,12,9\n',
    "rows in another order": '"","a","b","c"\n"2",-0.25,2e-07,0.5\n"1",1.5,0.1,1234.5\n"4",2.125,12,9\n"3",3,-4.75,7.25\n',
    "write.csv": '"","a","b","c"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "write.csv, no quotes": ",a,b,c\n1,1.5,0.1,1234.5\n2,-0.25,2e-07,0.5\n3,3,-4.75,7.25\n4,2.125,12,9\n",
    "write.csv, no row names": '"a","b","c"\n1.5,0.1,1234.5\n-0.25,2e-07,0.5\n3,-4.75,7.25\n2.125,12,9\n',
    "write.csv2": '"";"a";"b";"c"\n"1";1,5;0,1;1234,5\n"2";-0,25;2e-07;0,5\n"3";3;-4,75;7,25\n"4";2,125;12;9\n',
    "write.csv2, no row names": '"a";"b";"c"\n1,5;0,1;1234,5\n-0,25;2e-07;0,5\n3;-4,75;7,25\n2,125;12;9\n',
    "write.table": '"a" "b" "c"\n"1" 1.5 0.1 1234.5\n"2" -0.25 2e-07 0.5\n"3" 3 -4.75 7.25\n"4" 2.125 12 9\n',
    "write.table, bare": "1.5,0.1,1234.5\n-0.25,2e-07,0.5\n3,-4.75,7.25\n2.125,12,9\n",
    "write.table, col.names=NA": '"","a","b","c"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "write.table, comma": '"a","b","c"\n"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "write.table, comma, no quotes": "a,b,c\n1,1.5,0.1,1234.5\n2,-0.25,2e-07,0.5\n3,3,-4.75,7.25\n4,2.125,12,9\n",
    "write.table, dec": '"a";"b";"c"\n"1";1,5;0,1;1234,5\n"2";-0,25;2e-07;0,5\n"3";3;-4,75;7,25\n"4";2,125;12;9\n',
    "write.table, no col.names": '"1",1.5,0.1,1234.5\n"2",-0.25,2e-07,0.5\n"3",3,-4.75,7.25\n"4",2.125,12,9\n',
    "write.table, tab": '"a"\t"b"\t"c"\n"1"\t1.5\t0.1\t1234.5\n"2"\t-0.25\t2e-07\t0.5\n"3"\t3\t-4.75\t7.25\n"4"\t2.125\t12\t9\n',
    "written twice": '"","X","a","b","c"\n"1",1,1.5,0.1,1234.5\n"2",2,-0.25,2e-07,0.5\n"3",3,3,-4.75,7.25\n"4",4,2.125,12,9\n',
}
LIBREOFFICE = {
    "German, row names": ";a;b;c\n1;1,5;0,1;1234,5\n2;-0,25;0,0000002;0,5\n3;3;-4,75;7,25\n4;2,125;12;9\n",
    "German": "a;b;c\n1,5;0,1;1234,5\n-0,25;0,0000002;0,5\n3;-4,75;7,25\n2,125;12;9\n",
    "German, comma, row names": ',a,b,c\n1,"1,5","0,1","1234,5"\n2,"-0,25","0,0000002","0,5"\n3,3,"-4,75","7,25"\n4,"2,125",12,9\n',
    "German, comma": 'a,b,c\n"1,5","0,1","1234,5"\n"-0,25","0,0000002","0,5"\n3,"-4,75","7,25"\n"2,125",12,9\n',
    "German, tab, row names": "\ta\tb\tc\n1\t1,5\t0,1\t1234,5\n2\t-0,25\t0,0000002\t0,5\n3\t3\t-4,75\t7,25\n4\t2,125\t12\t9\n",
    "German, tab": "a\tb\tc\n1,5\t0,1\t1234,5\n-0,25\t0,0000002\t0,5\n3\t-4,75\t7,25\n2,125\t12\t9\n",
    "comma, row names": ",a,b,c\n1,1.5,0.1,1234.5\n2,-0.25,0.0000002,0.5\n3,3,-4.75,7.25\n4,2.125,12,9\n",
    "comma": "a,b,c\n1.5,0.1,1234.5\n-0.25,0.0000002,0.5\n3,-4.75,7.25\n2.125,12,9\n",
    "fixed width, row names": "  a    b        c      \n 1  1.5      0.1 1234.5\n 2-0.250.0000002    0.5\n 3    3    -4.75   7.25\n 42.125       12      9\n",
    "fixed width": "a    b        c      \n  1.5      0.1 1234.5\n-0.250.0000002    0.5\n    3    -4.75   7.25\n2.125       12      9\n",
    "quoted text, row names": ',"a","b","c"\n1,1.5,0.1,1234.5\n2,-0.25,0.0000002,0.5\n3,3,-4.75,7.25\n4,2.125,12,9\n',
    "quoted text": '"a","b","c"\n1.5,0.1,1234.5\n-0.25,0.0000002,0.5\n3,-4.75,7.25\n2.125,12,9\n',
    "semicolon, row names": ";a;b;c\n1;1.5;0.1;1234.5\n2;-0.25;0.0000002;0.5\n3;3;-4.75;7.25\n4;2.125;12;9\n",
    "semicolon": "a;b;c\n1.5;0.1;1234.5\n-0.25;0.0000002;0.5\n3;-4.75;7.25\n2.125;12;9\n",
    "space, row names": " a b c\n1 1.5 0.1 1234.5\n2 -0.25 0.0000002 0.5\n3 3 -4.75 7.25\n4 2.125 12 9\n",
    "space": "a b c\n1.5 0.1 1234.5\n-0.25 0.0000002 0.5\n3 -4.75 7.25\n2.125 12 9\n",
    "tab, row names": "\ta\tb\tc\n1\t1.5\t0.1\t1234.5\n2\t-0.25\t0.0000002\t0.5\n3\t3\t-4.75\t7.25\n4\t2.125\t12\t9\n",
    "tab": "a\tb\tc\n1.5\t0.1\t1234.5\n-0.25\t0.0000002\t0.5\n3\t-4.75\t7.25\n2.125\t12\t9\n",
}


@dataclass
class Table:
    """A table with its meaning.

    `says` and `settled` are of one that is refused: what the line names, and the options that make it right (None:
    nothing does). `given` are options that its reader knows beforehand.
    """

    content: str | bytes
    right: Any = field(default_factory=lambda: X)
    ids: Any = None
    given: dict[str, Any] = field(default_factory=dict)
    says: str | None = None
    settled: dict[str, Any] | None = None
    note: str | None = None
    kind: str = "csv"


def asked(content, says, settled=None, **more):
    return Table(content, says=says, settled=settled, **more)


SEMICOLON, TAB, SPACE = ({"delimiter": sign} for sign in ";\t ")
COMMA = {"decimal": ","}
NUMBERS = ["1", "2", "3", "4"]
D = np.array(
    [[0, 1234.00124493453, 1227.26050005694], [1234.00124493453, 0, 8.87059760670047],
     [1227.26050005694, 8.87059760670047, 0]]
)  # fmt: skip

TABLES = {f"R, {name}": Table(R[name], ids=NUMBERS) for name in (
    "headings that are numbers", "matrix without names", "odd names", "write.csv", "write.csv, no quotes",
    "write.table, col.names=NA", "write.table, comma", "write.table, comma, no quotes",
)}  # fmt: skip
TABLES |= {f"R, {name}": Table(R[name]) for name in (
    "headings that are numbers, no row names", "write.csv, no row names", "write.table, bare",
)}  # fmt: skip
TABLES |= {
    "R, dist": Table(R["dist"], D, NUMBERS[:3]),
    "R, dist, ids given by number": Table(R["dist"], D, NUMBERS[:3], {"id_column": "1"}),
    "R, factor": asked(R["factor"], "--ignore 4", {"ignore": "g"}),
    "R, numbers, no quotes": asked(R["headings that are numbers, no quotes"], "--heading", {"heading": True}),
    "R, logical": asked(R["logical"], "--ignore 5", {"ignore": "5"}, ids=NUMBERS),
    "R, missing": asked(R["missing"], "line 4, column 3 (b): 'NA'"),
    "R, print": asked(R["print"], "--delimiter ' '", SPACE, ids=NUMBERS, right=X),
    "R, read and written": Table(R["read and written"], np.c_[1:5, X], note="column 1 (X), only counting the rows"),
    "R, text": Table(R["row names of text"], ids=["x, 1", "y", "z", "w"]),
    "R, text, table": Table(R["row names of text, table"], ids=["x, 1", "y", "z", "w"]),
    "R, another order": Table(R["rows in another order"], X[[1, 0, 3, 2]], ["2", "1", "4", "3"]),
    "R, write.csv2": asked(R["write.csv2"], "--delimiter ';' --decimal ','", COMMA, ids=NUMBERS),
    "R, write.csv2, no row names": asked(R["write.csv2, no row names"], "--decimal ','", COMMA),
    "R, write.table": asked(R["write.table"], "--delimiter ' '", SPACE, ids=NUMBERS),
    "R, write.table, dec": asked(R["write.table, dec"], "--delimiter ';' --decimal ','", COMMA, ids=NUMBERS),
    "R, no col.names": asked(R["write.table, no col.names"], "--id-column 1", {"id_column": "1"}, ids=NUMBERS),
    "R, tab": Table(R["write.table, tab"], ids=NUMBERS, kind="tsv"),
    "R, written twice": Table(R["written twice"], np.c_[1:5, X], NUMBERS, note="column 2 (X), only counting the rows"),
}
for name, text in LIBREOFFICE.items():
    ids = NUMBERS if "row names" in name else None
    sign = {"G": ";", "s": ";", "f": ""}.get(name[0], ",") if "tab" not in name else "\t"
    if "fixed" in name:
        TABLES[f"LibreOffice, {name}"] = asked(text, "is not a number")  # its cells run into each other
    elif "German" in name:
        sign = "," if "comma" in name else sign
        TABLES[f"LibreOffice, {name}"] = asked(
            text, f"--delimiter {sign!r} --decimal ','", {**COMMA, "delimiter": sign}, ids=ids
        )
    elif "space" in name:
        TABLES[f"LibreOffice, {name}"] = asked(text, "--delimiter ' '", SPACE, ids=ids)
    elif sign == ",":
        TABLES[f"LibreOffice, {name}"] = Table(text, ids=ids)
    else:
        TABLES[f"LibreOffice, {name}"] = asked(text, f"--delimiter {sign!r}", {"delimiter": sign}, ids=ids)
        TABLES[f"LibreOffice, {name}, UTF-16"] = Table(text.encode("utf-16"), ids=ids, given={"delimiter": sign})

GERMAN = "1,5;0,1;1234,5\n-0,25;2E-07;0,5\n3;-4,75;7,25\n2,125;12;9\n"
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
ZERO = ["0", "1", "2", "3"]


def csv(frame=FRAME, **options):
    return frame.to_csv(**options)


LETTERS = FRAME.set_axis(list("pqrs"))
INTEGERS, FLOATS = FRAME.set_axis(range(3), axis=1), FRAME.set_axis([400.0, 410.5, 425.0], axis=1)
LEVELS = pd.MultiIndex.from_tuples([("x", "a"), ("x", "b"), ("y", "a")])
TABLES |= {
    "pandas": Table(csv(), ids=ZERO),
    "pandas, no index": Table(csv(index=False)),
    "pandas, bare": Table(csv(index=False, header=False)),
    "pandas, no header": asked(csv(header=False), "--id-column 1", {"ignore": "1"}),
    "pandas, no header, all columns": asked(
        csv(header=False), "--columns", {"columns": "1,2,3,4"}, right=np.c_[0:4, X]
    ),
    "pandas, tab": Table(csv(sep="\t"), ids=ZERO, kind="tsv"),
    "pandas, tab in a .csv": asked(csv(sep="\t", index=False), r"--delimiter '\t'", TAB),
    "pandas, semicolon": asked(csv(sep=";"), "--delimiter ';'", SEMICOLON, ids=ZERO),
    "pandas, semicolon and comma": asked(csv(sep=";", decimal=","), "--decimal ','", COMMA, ids=ZERO),
    "pandas, semicolon and comma, bare": asked(
        csv(sep=";", decimal=",", index=False, header=False), "--delimiter ';' --decimal ','", COMMA
    ),
    "pandas, semicolon given": asked(
        csv(sep=";", decimal=",", index=False), "--decimal ','", {**SEMICOLON, **COMMA}, given=SEMICOLON
    ),
    "pandas, tab and comma": asked(csv(sep="\t", decimal=","), "--decimal ','", COMMA, ids=ZERO, kind="tsv"),
    "pandas, comma and comma": asked(
        csv(decimal=",", index=False), "--delimiter ',' --decimal ','", {"delimiter": ",", **COMMA}
    ),
    "pandas, columns of floats, semicolon and comma": asked(
        csv(FLOATS, sep=";", decimal=",", index=False), "--heading", {"heading": True, **COMMA}, given=COMMA
    ),
    "headings with decimal commas": asked(
        "400,5;410,5;420,5\n" + GERMAN, "--heading", {"heading": True, **COMMA}, given=COMMA
    ),
    "pandas, bar": asked(csv(sep="|", index=False), "--delimiter '|'", {"delimiter": "|"}),
    "pandas, all quoted": Table(csv(quoting=1), ids=ZERO),
    "pandas, text quoted": Table(csv(quoting=2, index=False)),
    "pandas, float_format": Table(csv(float_format="%.8e", index=False)),
    "pandas, named index": Table(csv(index_label="id"), np.c_[0:4, X], note="column 1 (id), only counting the rows"),
    "pandas, named index given": Table(csv(index_label="id"), ids=ZERO, given={"id_column": "id"}),
    "pandas, named index left out": Table(csv(index_label="id"), given={"ignore": "id"}),
    "pandas, reset_index": Table(
        csv(FRAME.reset_index(), index=False), np.c_[0:4, X], note="column 1 (index), only counting the rows"
    ),
    "pandas, index of text": Table(csv(LETTERS), ids=list("pqrs")),
    "pandas, named index of text": asked(
        csv(LETTERS, index_label="who"), "--id-column 1", {"id_column": "who"}, ids=list("pqrs")
    ),
    "pandas, filtered": Table(csv(FRAME[FRAME.a > 0]), X[[0, 2, 3]], ["0", "2", "3"]),
    "pandas, two frames": asked(csv(pd.concat([FRAME, FRAME])), "--ignore 1", {"ignore": "1"}, right=np.r_[X, X]),
    "pandas, index of floats": asked(csv(FRAME.set_axis([0.5, 1.5, 2, 7])), "--ignore 1", {"ignore": "1"}),
    "pandas, index of times": Table(
        csv(FRAME.set_axis(pd.date_range("2020-01-01", periods=4))),
        ids=["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"],
    ),
    "pandas, two indices": asked(
        csv(FRAME.set_axis(pd.MultiIndex.from_product([[0, 1], [0, 1]]))), "column 1 has no name", {"ignore": "1,2"}
    ),
    "pandas, written twice": asked(
        csv(pd.read_csv(io.StringIO(csv()))), "column 2 has no name", {"ignore": "2"}, ids=ZERO
    ),
    "pandas, read and written": Table(csv(pd.read_csv(io.StringIO(csv())), index=False), ids=ZERO),
    "pandas, columns of integers": Table(csv(INTEGERS), ids=ZERO),
    "pandas, columns of integers, no index": asked(csv(INTEGERS, index=False), "--heading", {"heading": True}),
    "pandas, columns of floats": Table(csv(FLOATS), ids=ZERO),
    "pandas, columns of even floats, no index": asked(
        csv(FLOATS.set_axis([400.0, 410.0, 420.0], axis=1), index=False), "--heading", {"heading": True}
    ),
    "pandas, named index over columns of integers": asked(
        csv(LETTERS.set_axis(range(3), axis=1), index_label="who"),
        "--heading",
        {"id_column": "who"},
        ids=list("pqrs"),
    ),
    "pandas, columns of two levels": asked(csv(FRAME.set_axis(LEVELS, axis=1)), "column 1 has no name"),
    "pandas, columns of two levels, no index": asked(csv(FRAME.set_axis(LEVELS, axis=1), index=False), "line 2"),
    "pandas, columns of two levels, numbers": asked(
        csv(FRAME.set_axis(pd.MultiIndex.from_tuples([("x", 0), ("x", 1), ("y", 0)]), axis=1), index=False), "line 2"
    ),
    "pandas, one column": Table(csv(FRAME[["a"]], index=False), X[:, :1]),
    "pandas, a series": Table(csv(FRAME.a), X[:, :1], ZERO),
    "pandas, a series without a name": asked(
        csv(pd.Series(X[:, 0]), index=False), "--heading", {"heading": True}, right=X[:, :1]
    ),
    "pandas, a series with decimal commas": asked(
        csv(FRAME.a, index=False, decimal=",", sep=";"), "--decimal ','", COMMA, right=X[:, :1]
    ),
    "pandas, missing": asked(csv(FRAME.mask(FRAME == 0.5)), "an empty cell"),
    "pandas, missing in one column": asked(csv(FRAME[["a"]].mask(FRAME == 2.125), index=False), "an empty cell"),
    "pandas, na_rep": asked(csv(FRAME.mask(FRAME == 0.5), na_rep="NULL"), "'NULL'"),
    "pandas, na_rep in the first row": asked(
        csv(FRAME.mask(FRAME == 1.5), na_rep="NA", index=False, header=False), "line 1, column 1: 'NA'"
    ),
    "pandas, bool": asked(csv(FRAME.assign(d=True), index=False), "'True'", {"ignore": "d"}),
    "pandas, label": Table(
        csv(pd.DataFrame(np.tile(X, (3, 1))).assign(label=[0, 1] * 6), index=False),
        np.c_[np.tile(X, (3, 1)), [0, 1] * 6],
        given={"heading": True},
        note="with few whole values",
    ),
    "pandas, label left out": Table(csv(FRAME.assign(label=1), index=False), given={"ignore": "label"}),
    "pandas, columns": Table(csv(FRAME.assign(label=1)), X[:, [2, 0]], ZERO, {"columns": "c,a"}),
    "pandas, utf-16": Table(csv().encode("utf-16"), ids=ZERO),
    "pandas, utf-8-sig": Table(csv(index=False).encode("utf-8-sig")),
    "pandas, latin-1": asked(csv(FRAME.rename(columns={"a": "ä"})).encode("latin-1"), "Latin-1"),
    "pandas, columns of integers by name": Table(
        csv(INTEGERS), X[:, [1, 0]], ZERO, {"columns": "1,0"}, note="taken as names of columns, not as numbers: 1"
    ),
    "pandas, a column of integers left out by name": Table(csv(INTEGERS), X[:, [0, 2]], ZERO, {"ignore": "1"}),
    "pandas, columns by numbers that name none": Table(csv(), X[:, [1, 0]], ZERO, {"columns": "3,2"}),
    "pandas, label among columns of integers": Table(
        csv(pd.DataFrame(np.c_[np.tile(X, (3, 1)), [0, 1] * 6]).astype({3: int}), index=False),
        np.c_[np.tile(X, (3, 1)), [0, 1] * 6],
        given={"heading": True},
        note="4 (3), with few whole values, as labels have, read as a feature; --ignore 4 leaves it out",
    ),
    "pandas, label first among columns of integers": Table(
        csv(pd.DataFrame(np.c_[[0, 1] * 6, np.tile(X, (3, 1))]).astype({0: int}), index=False),
        np.c_[[0, 1] * 6, np.tile(X, (3, 1))],
        given={"heading": True},
        note="1 (0), with few whole values, as labels have, read as a feature; --ignore 0 leaves it out",
    ),
    "pandas, CR": Table(csv(lineterminator="\r"), ids=ZERO),
    "pandas, CRLF": Table(csv(lineterminator="\r\n"), ids=ZERO),
    "pandas, headings with delimiters": Table(csv(FRAME.rename(columns={"a": "x, y", "b": 'z "q"'})), ids=ZERO),
    "pandas, two columns of one name": Table(csv(FRAME.set_axis(["a", "b", "a"], axis=1)), ids=ZERO),
    "pandas, integers beyond float64": asked(csv(pd.DataFrame({"a": [2**53 + 1, 5]}), index=False), "2**53"),
    "pandas, distances": Table(csv(pd.DataFrame(D)), D, ZERO[:3]),
}


def saved(delimiter=" ", **options):
    file = io.StringIO()
    np.savetxt(file, X, delimiter=delimiter, **options)
    return file.getvalue()


PLAIN = "1.5,0.1,1234.5\n-0.25,2e-07,0.5\n3,-4.75,7.25\n2.125,12,9\n"
SHORT = "a,b,c\n"
TABLES |= {
    "NumPy": asked(saved(), "--delimiter ' '", SPACE),
    "NumPy, comma": Table(saved(",")),
    "NumPy, %g": Table(saved(",", fmt="%g")),
    "NumPy, tab": Table(saved("\t"), kind="tsv"),
    "NumPy, header": Table(saved(",", header="a,b,c")),
    "NumPy, header of words": Table(saved(",", header="made on Monday\nby hand")),
    "NumPy, header without a mark": Table(saved(",", header="a,b,c", comments="")),
    "NumPy, header of numbers": asked(saved(",", header="400,410,420"), "begins with '#'"),
    "NumPy, header, spaces": Table(saved(header="a b c"), given=SPACE),
    "NumPy, row numbers": asked(
        "".join(f"{float(i):.18e},{float(row[0]):.18e}\n" for i, row in enumerate(X)),
        "--ignore 1",
        {"ignore": "1"},
        right=X[:, :1],
    ),
    "MATLAB, writematrix": Table(PLAIN),
    "MATLAB, writetable": Table("Var1,Var2,Var3\n" + PLAIN),
    "MATLAB, writetable with row names": asked(
        "Row,Var1,Var2,Var3\n" + "".join(f"r{i},{row}\n" for i, row in enumerate(PLAIN.split())),
        "--id-column 1",
        {"id_column": "Row"},
        ids=["r0", "r1", "r2", "r3"],
    ),
    "MATLAB, save -ascii": asked(
        "".join("  " + "  ".join(f"{cell: .7e}" for cell in row) + "\n" for row in X), "--delimiter ' '", SPACE
    ),
    "MATLAB, remark": Table("% made by hand, on Monday\n" + PLAIN),
    "MATLAB, remark of names": Table("% a,b,c\n" + PLAIN),
    "MATLAB, missing": asked(SHORT + PLAIN.replace("0.5", ""), "an empty cell"),
    "MATLAB, complex": asked(PLAIN.replace("0.5", "0.5+0i"), "'0.5+0i'"),
    "Excel": Table(("\ufeff" + SHORT + PLAIN).replace("\n", "\r\n")),
    "Excel, German": asked(("\ufeffa;b;c\n" + GERMAN).replace("\n", "\r\n"), "--delimiter ';' --decimal ','", COMMA),
    "Excel, German, bare": asked(GERMAN, "--delimiter ';' --decimal ','", COMMA),
    "Excel, German, given": asked(GERMAN, "--decimal ','", {**SEMICOLON, **COMMA}, given=SEMICOLON),
    "Excel, German, decimals in the first row alone": asked(
        "0,5;1,5\n1;2\n3;4\n", "--decimal ','", COMMA, given=SEMICOLON, right=[[0.5, 1.5], [1, 2], [3, 4]]
    ),
    "Excel, German with points for thousands": asked(
        GERMAN.replace("1234,5", "1.234,5"), "no cell has a point", given=COMMA
    ),
    "Excel, German and English": asked(GERMAN.replace("0,25", "0.25"), "no cell has a point", given=COMMA),
    "Excel, sep=": Table("sep=;\r\na;b;c\r\n" + PLAIN.replace(",", ";")),
    "Excel, sep= and German": asked("sep=;\r\na;b;c\r\n" + GERMAN, "--decimal ','", COMMA),
    "Excel, sep= against the option": asked("sep=;\n" + GERMAN, "leave that out", given=TAB),
    "Excel, Unicode text": Table(("a\tb\tc\r\n" + PLAIN.replace(",", "\t")).encode("utf-16"), kind="tsv"),
    "Excel, UTF-16 without its mark": asked((SHORT + PLAIN).encode("utf-16-le"), "zero byte"),
    "Excel, Macintosh": Table((SHORT + PLAIN).replace("\n", "\r")),
    "Excel, thousands": asked(SHORT + PLAIN.replace("1234.5", '"1,234.5"'), "'1,234.5'"),
    "Excel, percent": asked(SHORT + PLAIN.replace("0.5", "50%"), "'50%'"),
    "Excel, percent in the first row": asked(PLAIN.replace("1.5", "150%"), "'150%'"),
    "Excel, error": asked(SHORT + PLAIN.replace("0.5", "#N/A"), "'#N/A'"),
    "Excel, error in the first row": asked(PLAIN.replace("1.5", "#DIV/0!", 1), "begins with '#'"),
    "Excel, logical": asked(SHORT + PLAIN.replace("0.5", "TRUE"), "'TRUE'"),
    "Excel, date": asked(SHORT + PLAIN.replace("0.5", "2020-01-01"), "'2020-01-01'"),
    "Excel, currency": asked(SHORT + PLAIN.replace("0.5", "$5"), "'$5'"),
    "Excel, empty columns": Table("a,b,c,,\n" + PLAIN.replace("\n", ",,\n")),
    "Excel, empty columns, bare": Table(PLAIN.replace("\n", ",,\n")),
    "Excel, empty lines at the end": Table(SHORT + PLAIN + "\n\n \n"),
    "Excel, empty rows at the end": asked(SHORT + PLAIN + ",,\n", "an empty cell"),
    "Excel, empty column with a name": asked(
        "a,b,c,d\n" + PLAIN.replace("\n", ",\n"), "an empty cell", {"ignore": "d"}
    ),
    "Excel, column without a name": asked("a,,c\n" + PLAIN, "--ignore 2", {"columns": "1,2,3"}),
    "Excel, title": asked("Measured on Monday\na,b,c\n" + PLAIN, "3 cells, 1 in the first line"),
    "Excel, units": asked(SHORT + "m,s,kg\n" + PLAIN, "line 2, column 1 (a): 'm'"),
    "delimiter at each end": Table("a,b,c,\n" + PLAIN.replace("\n", ",\n")),
    "delimiter at the heading's end": Table("a,b,c,\n" + PLAIN),
    "delimiter at the rows' ends": Table(SHORT + PLAIN.replace("\n", ",\n")),
    "spaces behind delimiters": Table((SHORT + PLAIN).replace(",", ", ")),
    "aligned": Table(
        "  a     b      c\n1.5   0.1   1234.5\n-0.25 2e-7  0.5\n3   -4.75   7.25\n2.125   12   9\n", given=SPACE
    ),
    "quoted numbers": Table(
        SHORT + PLAIN.replace(",", '","').replace("\n", '"\n').replace("\n", '\n"')[:-1].join('" ').strip()
    ),
    "Fortran": asked(PLAIN.replace("2e-07", "2.0D-07"), "'2.0D-07'"),
    "hexadecimal": asked(SHORT + PLAIN.replace("12", "0xC"), "'0xC"),
    "underscores": asked(PLAIN.replace("12,9", "1_2,9"), "'1_2'"),
    "Mathematica": asked(PLAIN.replace("2e-07", "2.*^-7"), "'2.*^-7'"),
    "SAS": asked(SHORT + PLAIN.replace("12,9", ".,9"), "'.'"),
    "PostgreSQL": asked(SHORT + PLAIN.replace("12,9", "\\N,9"), "N'"),
    "Weka": asked(SHORT + PLAIN.replace("12,9", "?,9"), "'?'"),
    "no. in the heading": Table(
        "#,a,b,c\n" + "".join(f"{i + 1},{row}\n" for i, row in enumerate(PLAIN.split())), ids=NUMBERS
    ),
    "ids with a number sign": Table("#1,0.5\n#2,1.5\n", [[0.5], [1.5]], ["#1", "#2"], {"id_column": "1"}),
    "a row behind a number sign": asked("#" + PLAIN, "begins with '#'"),
    "ragged": asked(PLAIN + "1,2\n", "line 5: 2 cells"),
    "a first row that lost a cell": asked(PLAIN.replace("1.5,", "", 1), "line 2: 3 cells, 2 in the first"),
    "an empty line": asked(SHORT + PLAIN.replace("\n3", "\n\n3"), "line 4: an empty line"),
    "only a heading": asked(SHORT, "no rows below"),
    "sites in R's heading of numbers": asked("12,3,7\n" + PLAIN, "--heading", {"heading": True}),
    "bands far from what is measured": asked(
        "412.5,443.2,440.7\n" + PLAIN.replace("1234.5", "1.5") * 3,
        "--heading",
        {"heading": True},
        right=np.tile(np.where(X == 1234.5, 1.5, X), (3, 1)),
    ),
    "names and numbers in the first line": asked("x,412.31,443.17\n" + PLAIN, "--heading", {"heading": True}),
    "the origin first": Table("0,0,0\n" + PLAIN, np.r_[np.zeros((1, 3)), X]),
    "a unit vector first": Table("1,0,0\n" + PLAIN, np.r_[np.eye(1, 3), X]),
    "whole numbers throughout": Table("5,3\n1,4\n9,2\n6,5\n", [[5, 3], [1, 4], [9, 2], [6, 5]]),
    "a count throughout": Table("0,1,2\n3,4,5\n6,7,8\n", np.arange(9).reshape(3, 3)),
    "repeated headings that are numbers": asked("400,400,410\n" + PLAIN, "--heading", {"heading": True}),
    "pandas, columns of two levels of numbers": asked(
        csv(pd.concat([FRAME] * 8).set_axis(pd.MultiIndex.from_tuples([(5, 7), (5, 8), (6, 7)]), axis=1), index=False),
        "--heading",
    ),
    "equal ratings first": Table("5,5,5\n1,4,3\n5,2,4\n1,5,3\n", [[5, 5, 5], [1, 4, 3], [5, 2, 4], [1, 5, 3]]),
    "headings that are numbers, and a column of text": asked(
        csv(FRAME.set_axis([400, 410, 420], axis=1).assign(who="u"), index=False),
        "--heading",
        {"heading": True, "ignore": "4"},
        given={"ignore": "4"},
    ),
    "numbers and a column of text, bare": Table(
        csv(FRAME.assign(who="u"), index=False, header=False), given={"ignore": "4"}
    ),
    "nothing tells a heading": Table(
        "3,1,2\n1,4,9\n3,7,8\n", [[3, 1, 2], [1, 4, 9], [3, 7, 8]], note="has no heading: line 1 is a row"
    ),
    "row numbers from 5 on": asked(
        csv(FRAME.set_axis(range(5, 9)), header=False), "counts the rows", {"id_column": "1"}, ids=list("5678")
    ),
    "gzip": asked(gzip.compress(PLAIN.encode()), "gzip"),
    "an Excel workbook": asked(b"PK\x03\x04" + bytes(30), "ZIP"),
    "decimal commas in one column": asked("x\n1,5\n2,5\n3,5\n", "--decimal ','", COMMA, right=[[1.5], [2.5], [3.5]]),
}


def parquet(table, **options):
    table = pa.table(table) if isinstance(table, dict) else table
    file = io.BytesIO()
    table.to_parquet(file, **options) if isinstance(table, pd.DataFrame) else pq.write_table(table, file, **options)
    return Table(file.getvalue(), kind="parquet")


def changed(table, **more):
    for name, value in more.items():
        setattr(table, name, value)
    return table


HUNDREDTHS = [decimal.Decimal(text) for text in ("0.10", "-2.05", "123456789012.34")]
TABLES |= {
    "Parquet, pandas": parquet(FRAME),
    "Parquet, pandas, index": parquet(FRAME.set_axis([7, 5, 3, 1])),
    "Parquet, pandas, columns of integers": parquet(INTEGERS.rename(columns=str)),
    "Parquet, float32": changed(parquet(FRAME.astype("float32")), right=X.astype("float32")),
    "Parquet, bool": changed(parquet({"a": [0.5, 1.5], "b": [True, False]}), right=[[0.5, 1], [1.5, 0]]),
    "Parquet, nullable without a null": changed(
        parquet(pd.DataFrame({"a": pd.array([1, 2], "Int64")})), right=[[1], [2]]
    ),
    "Parquet, null": changed(
        parquet({"a": [1.5, 2, 3], "b": [1, 2, None]}, row_group_size=2), says="an empty cell at row 2, column 'b'"
    ),
    "Parquet, decimal": changed(parquet({"a": HUNDREDTHS}), right=[[0.1], [-2.05], [123456789012.34]]),
    "Parquet, decimal256": changed(
        parquet({"a": pa.array(HUNDREDTHS, pa.decimal256(40, 2))}), right=[[0.1], [-2.05], [123456789012.34]]
    ),
    "Parquet, decimal with a null": changed(parquet({"a": [*HUNDREDTHS, None]}), says="at row 3, column 'a'"),
    "Parquet, decimal beyond float64": changed(parquet({"a": [decimal.Decimal(2**53 + 1)]}), says="2**53"),
    "Parquet, bool with a null": changed(parquet({"a": [True, None]}), says="at row 1, column 'a'"),
    "Parquet, time": changed(
        parquet(FRAME.assign(d=pd.Timestamp("2020-01-01"))), says="other than numbers in d", settled={"ignore": "d"}
    ),
    "Parquet, categories": changed(parquet({"a": pa.array([7, 9, 7]).dictionary_encode()}), right=[[7], [9], [7]]),
    "Parquet, categories of text": changed(
        parquet(FRAME.assign(d=pd.Categorical(list("uvuv")))),
        says="other than numbers in d",
        settled={"columns": "a,b,c"},
    ),
    "Parquet, misspelt": changed(
        parquet(FRAME), given={"columns": "a,bb"}, says="did you mean 'b'", settled={"columns": "a,b,c"}
    ),
    "Parquet, columns of integers by name": changed(
        parquet(INTEGERS.rename(columns=str)),
        right=X[:, [1, 0]],
        given={"columns": "1,0"},
        note="taken as names of columns, not as numbers: 1",
    ),
    "Parquet, row numbers from 5 on": changed(
        parquet(FRAME.assign(no=range(5, 9))), right=np.c_[X, 5:9], note="column 4 (no), only counting the rows"
    ),
    "Parquet, a name with a comma": changed(
        parquet(FRAME.rename(columns={"a": "a, b"}).assign(d="u")),
        says='::"a, b",b,c',
        settled={"columns": '"a, b",b,c'},
    ),
    "Parquet, ignored": changed(parquet(FRAME.assign(label=1)), given={"ignore": "label"}),
}


def read(table, path, options):
    path = path / f"x.{table.kind}"
    path.write_bytes(table.content if isinstance(table.content, bytes) else table.content.encode())
    points = open_points(str(path), **options)
    return np.asarray(points.values[:]), points


def right(table, path, options):
    values, points = read(table, path, options)
    np.testing.assert_array_equal(values, table.right)
    assert points.ids == table.ids
    return points


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_others_is_read_as_meant_or_refused_with_what_settles_it(name, tmp_path):
    table = TABLES[name]
    if table.says is None:
        points = right(table, tmp_path, table.given)
        assert table.note is None or any(table.note in note for note in points.notes)
        return
    with pytest.raises(ScalemaniError) as caught:
        read(table, tmp_path, table.given)
    assert table.says in one_line(caught.value)
    if table.settled is not None:
        right(table, tmp_path, table.settled)


def test_there_are_more_than_a_hundred():
    assert len(TABLES) > 150 and sum(table.says is None for table in TABLES.values()) > 70
