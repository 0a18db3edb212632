"""Columns of a table from the fit to the projection: those that were chosen, by name, and what is said of them."""

import shlex

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from scalemani import KernelIsomap, load
from scalemani.demo import swiss_roll
from scalemani.errors import ScalemaniError
from scalemani.formats.points import open_points
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

X = swiss_roll(80, random_state=0).points
FRAME = pd.DataFrame(X, columns=["x", "y", "z"])
OPTIONS = "-k 8 --correction none"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A fit of a table with a label and row numbers, which leaves both out."""
    at = tmp_path_factory.mktemp("columns")
    FRAME.assign(label=np.arange(80) % 3).to_csv(at / "train.csv")
    assert run(cli, shlex.split(f"fit {at}/train.csv {at}/run --ignore label -q {OPTIONS}")) == 0
    return at


@pytest.fixture
def program(place, monkeypatch, capsys):
    monkeypatch.chdir(place)

    def call(command):
        code = run(cli, shlex.split(command))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_fit_has_the_chosen_columns_and_their_names(place, program):
    expected = KernelIsomap(n_neighbors=8, correction=None).fit(X)
    np.testing.assert_array_equal(load("run").embedding_, expected.embedding_)
    assert list(load("run").feature_names_in_) == ["x", "y", "z"]
    for points in (
        "train.csv --columns x,y,z",
        "train.csv::x,y,z",
        "train.csv --columns 2,3,4",
        "train.csv --ignore 5",
    ):
        spec, *words = points.split()
        options = {words[0].strip("-"): words[1]} if words else {}
        source = open_points(spec, **options)
        np.testing.assert_array_equal(source.values, X)
        assert source.names == ["x", "y", "z"] and source.ids == [str(i) for i in range(80)]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_projection_takes_the_columns_of_the_fit_by_name(place, program, kind):
    """Beside others, of text too; columns in another order are another space until they are asked for."""
    table = FRAME[["x", "y", "z"]].assign(who="a", label=1)[["who", "x", "label", "y", "z"]]
    name = f"new.{kind}"
    table.to_parquet(name) if kind == "parquet" else table.to_csv(name, index=False, sep="\t" if kind == "tsv" else ",")
    assert program(f"project run {name} out-{kind}.npy -q") == (0, "", "")
    np.testing.assert_allclose(np.load(f"out-{kind}.npy"), load("run").embedding_, atol=1e-4)
    assert not (place / f"out-{kind}.ids.csv").exists()
    swapped = table[["z", "x", "y", "who"]]
    swapped.to_parquet(name) if kind == "parquet" else swapped.to_csv(
        name, index=False, sep="\t" if kind == "tsv" else ","
    )
    code, _, err = program(f"project run {name} other.npy -q")
    assert code == 2 and "has the columns z, x, y; run was fitted on x, y, z, in another order" in err
    assert "--columns x,y,z" in err
    assert program(f"project run {name} again-{kind}.npy --columns x,y,z -q") == (0, "", "")
    np.testing.assert_array_equal(np.load(f"again-{kind}.npy"), np.load(f"out-{kind}.npy"))
    code, _, err = program(f"project run {name} other.npy --columns z,x,y -q")
    assert code == 2 and "in another order: give new" in err
    code, _, err = program(f"project run {name}::x,y other.npy -q")
    assert code == 2 and "other.npy" not in [path.name for path in place.iterdir()]


def test_a_projection_of_other_columns_is_refused_and_one_without_names_says_what_is_taken(place, program):
    FRAME.rename(columns={"z": "zz"}).to_csv("other.csv")
    code, _, err = program("project run other.csv out.npy -q")
    assert code == 2 and err.count("\n") == 1 and "has the columns x, y, zz; run was fitted on x, y, z" in err
    FRAME.set_axis([400.0, 410.0, 420.0], axis=1).to_csv("wave.csv")
    assert "has the columns 400.0, 410.0, 420.0; run was" in program("project run wave.csv out.npy -q")[2]
    FRAME.to_csv("bare.csv", header=False, index=False)
    code, _, err = program("project run bare.csv out-bare.npy")
    assert code == 0 and "warning: bare.csv has no feature names and run has them" in err and "note" not in err
    np.testing.assert_allclose(np.load("out-bare.npy"), load("run").embedding_, atol=1e-4)


def test_notes_are_lines_of_standard_error_and_of_no_quiet_command(program):
    for command in ("fit train.csv noted --overwrite", "plan train.csv"):
        code, _, err = program(f"{command} {OPTIONS}")
        notes = [line for line in err.splitlines() if line.startswith("note: ")]
        assert code == 0 and len(notes) == 2
        assert notes[0] == "note: train.csv: column 1 has no name and is taken for the names of the rows"
        said = "column 5 (label), with few whole values, as labels have, read as a feature; --ignore 5 leaves it out"
        assert notes[1] == f"note: train.csv: {said}"
        assert "note" not in program(f"{command} {OPTIONS} -q")[2]
    code, _, err = program("fit train.csv noted --overwrite --columns x,y,label -k 8 --correction none")
    assert code == 0 and "whole values" not in err


def test_integers_of_a_parquet_that_look_like_no_features_are_named_by_its_statistics(program):
    table = FRAME.assign(row=range(1, 81), kind=np.arange(80) % 3, size=np.arange(80) ** 2, when=[[1]] * 80)
    table.to_parquet("noted.parquet", row_group_size=30)
    notes = open_points("noted.parquet", ignore="when").notes
    assert len(notes) == 2 and notes[0].endswith(
        ": column 4 (row), only counting the rows, read as a feature; --ignore 4 leaves it out"
    )
    assert notes[1].endswith(
        ": column 5 (kind), with few whole values, as labels have, read as a feature; --ignore 5 leaves it out"
    )
    assert not open_points("noted.parquet::x,row,kind").notes


def test_ids_that_are_found_are_held_against_their_file_before_the_work(place, program):
    FRAME.to_csv("found.csv")
    (place / "coordinates.ids.csv").write_text("mine")
    code, _, err = program("project run found.csv coordinates.npy")
    assert code == 2 and "coordinates.ids.csv exists" in err.splitlines()[-1]
    assert not (place / "coordinates.npy").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "x,yy"}, "no column 'yy' (one without a name, x, y, z, label); did you mean 'y'?"),
        ({"ignore": "labels"}, "did you mean 'label'?"),
        ({"id_column": "labl"}, "did you mean 'label'?"),
        ({"columns": "x,9"}, "a number from 1 to 5"),
        ({"columns": "x,2"}, "the column 'x' is given twice"),
        ({"columns": "x", "ignore": "y"}, "--columns and --ignore are both given"),
        (
            {"columns": "label", "ignore": None, "id_column": "x", "decimal": "!"},
            "--decimal '!': give a point or a comma",
        ),
        ({"ignore": "1,2,3,4,5"}, "no column but the ids and those left out"),
    ],
)
def test_wrong_words_of_options_are_one_line(program, options, words):
    with pytest.raises(ScalemaniError) as caught:
        open_points("train.csv", **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ScalemaniError, match="both name columns; give one"):
        open_points("train.csv::x", columns="y")


def test_options_of_columns_are_for_files_with_columns(program):
    np.save("x.npy", X)
    FRAME.to_parquet("x.parquet")
    for name, option, value, kinds in (
        ("x.npy", "columns", "1", ".csv, .tsv, .parquet, .h5ad"),
        ("x.npy", "ignore", "1", ".csv, .tsv, .parquet, .h5ad"),
        ("x.parquet", "decimal", ",", ".csv, .tsv"),
        ("x.parquet", "heading", True, ".csv, .tsv"),
    ):
        with pytest.raises(ScalemaniError, match=f"{name}: --{option} is for {kinds} files; leave it out"):
            open_points(name, **{option: value})


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array])
def test_columns_of_anndata_are_chosen_by_the_names_in_var(program, form):
    cells = anndata.AnnData(form(X), var=pd.DataFrame(index=list("xyz")))
    cells.obsm["X_pca"] = X
    cells.write_h5ad("x.h5ad")
    for options in ({"columns": "z,x"}, {"ignore": "y", "id_column": "obs_names"}):
        source = open_points("x.h5ad::X", **options)
        found = source.values[:]
        names = ["z", "x"] if "columns" in options else ["x", "z"]
        np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, FRAME[names])
        assert source.names == names
    with pytest.raises(ScalemaniError, match="did you mean 'x'"):
        open_points("x.h5ad::X", columns="xx")
    with pytest.raises(ScalemaniError, match="its columns have no names; leave --columns and --ignore out"):
        open_points("x.h5ad::obsm/X_pca", columns="1")


def test_a_matrix_of_distances_with_row_names_and_headings_of_numbers_needs_no_option(place, program):
    """As write.csv(as.matrix(dist(X))) of R and to_csv() of pandas have them."""
    D = np.linalg.norm(X[:, None] - X[None], axis=-1)
    expected = KernelIsomap(metric="geodesic", correction=None).fit(D).embedding_
    frame = pd.DataFrame(D, index=range(1, 81), columns=range(1, 81))
    frame.set_axis([str(i) for i in range(1, 81)], axis=1).set_axis([str(i) for i in range(1, 81)]).to_csv(
        "r.csv", quoting=2
    )
    frame.to_csv("pandas.csv")
    for name, more in (("r", ""), ("pandas", ""), ("r", "--id-column 1")):
        given = f"fit {name}.csv d-{name} --metric geodesic --correction none --embedding {name}-d.csv"
        assert program(f"{given} --overwrite -q {more}") == (0, "", "")
        found = open_points(f"{name}-d.csv", id_column="id")
        np.testing.assert_array_equal(found.values, expected)
        assert found.ids == [str(i) for i in range(1, 81)]
