"""What the shell says and means: which method an option asks for, options' names in errors, and what to type next."""

import ast
import inspect
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import scalemani
from scalemani import Isomap, IsometricProjection, KernelIsomap, load
from scalemani.formats.points import open_points
from scalemani.methods import REGISTRY
from scalemani.terminal.commands import cli
from scalemani.terminal.options import chosen, in_options

PASSING = {"progress", "store"}  # an option of its own, and an argument


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
@pytest.mark.parametrize(
    ("options", "kind", "parameters"),
    [
        ("", Isomap, {}),
        ("--method isomap --correction none", Isomap, {}),
        ("--correction none", Isomap, {}),
        ("--method kernel-isomap", KernelIsomap, {}),
        ("--method kernel-isomap --correction none", KernelIsomap, {"correction": None}),
        ("--correction lingoes", KernelIsomap, {"correction": "lingoes"}),
        ("--correction 2.5 --method kernel-isomap", KernelIsomap, {"correction": 2.5}),
        ("--correction 0", KernelIsomap, {"correction": 0}),
    ],
)
def test_the_method_is_isomap_unless_it_or_a_correction_says_otherwise(files, program, options, kind, parameters):
    code, out, err = program(f"fit train.npy run.zarr -k 8 {options}")
    assert code == 0, err
    model = load("run.zarr")
    assert type(model) is kind
    expected = kind(n_neighbors=8, **parameters).fit_transform(np.load("train.npy"))
    np.testing.assert_array_equal(model.embedding_, expected)
    method = {"Isomap": "isomap", "KernelIsomap": "kernel-isomap"}[kind.__name__]
    assert f"method           {method}\n" in out and f"method           {method}\n" in program("info run.zarr")[1]


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ("--scale whitened", "lle"),
        ("--scale kernel --kernel rbf", "lle"),
        ("--kernel rbf --reg 0.01", "lle"),
        ("--scale unit", "isometric-projection"),
        ("--kernel cosine", "isometric-projection"),
        ("--scale walk", "laplacian-eigenmaps"),
    ],
)
def test_a_value_that_one_method_has_asks_for_that_method(options, method):
    with cli.commands["plan"].make_context("plan", ["absent.npy", *options.split()]) as context:
        assert chosen(context.params, None)[0] is REGISTRY[method]


def test_one_method_takes_the_place_of_the_other_with_its_distances(files, program):
    assert program("fit train.npy run.zarr -k 8")[0] == 0
    made = {path: path.stat().st_mtime_ns for path in (files / "run.zarr" / "ledger").iterdir()}
    out = program("fit train.npy run.zarr -k 8 --method kernel-isomap")[1]
    assert "replaced         the result that was there (correction none)" in out
    assert type(load("run.zarr")) is KernelIsomap and load("run.zarr").spectrum_["correction"] == "cailliez"
    out = program("fit train.npy run.zarr -k 8")[1]
    assert "replaced         the result that was there (correction cailliez)" in out
    assert type(load("run.zarr")) is Isomap
    assert {path: path.stat().st_mtime_ns for path in (files / "run.zarr" / "ledger").iterdir()} == made


@pytest.mark.parametrize("command", ["fit", "plan"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--method isomap --correction cailliez", "--method isomap has no --correction"),
        ("--correction 3 --method isomap", "--method isomap has no --correction"),
        ("--method isomap --constant-solver ritz", "--method isomap has no --constant-solver"),
        ("--method kernal-isomap", "--method kernal-isomap: did you mean 'kernel-isomap'?"),
        ("--metod isomap", "'--method'"),
        (
            "--scale whitned",
            "--scale whitned: did you mean 'whitened'? Allowed are 'lstsq', 'unit', 'whitened', 'kernel',",
        ),
        ("--kernel rbf", "several methods have --kernel: give --method isometric-projection or lle"),
        ("--gamma -2", "--gamma -2.0: a positive number is needed"),
        (
            "--scale kernel --kernel cosine",
            "no method has these values of --scale and --kernel: give --method isometric",
        ),
    ],
)
def test_a_method_that_contradicts_another_option_is_refused_before_anything_is_read(
    files, program, command, options, words
):
    code, out, err = program(f"{command} absent.npy run.zarr {options}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_methods_are_the_estimators_with_the_parameters_that_they_have():
    every = set(inspect.signature(KernelIsomap).parameters)
    some = {name for method in REGISTRY.values() for name in method.own}
    for method in REGISTRY.values():
        has = set(inspect.signature(method.load()).parameters)
        assert has - set(method.lacks) == every - some - set(method.lacks) | set(method.own)


def test_a_fit_ends_with_where_the_coordinates_are_and_two_commands_that_run_as_they_stand(files, program):
    (files / "its's.csv").write_text((files / "train.csv").read_text().replace(",", ";"))
    (files / "my run.html").touch()
    reading = "--delimiter ';' --id-column who"
    code, out, _ = program(f"""fit "its's.csv" 'my run.zarr' -k 8 {reading}""")
    assert code == 0
    *_, where, page, place = out.splitlines()
    assert where.startswith("coordinates      in my run.zarr; the same fit with --embedding 'my run.csv'")
    assert page.startswith("to see the map   scalemani report 'my run.zarr' 'my run-2.html'  # ")
    for line in (page, place):
        words = shlex.split(line[17:], comments=True)
        assert words[0] == "scalemani"
        code, _, err = program(shlex.join(words[1:]))
        assert code == 0, err
    placed = open_points("my run.placed.csv", id_column="who")
    np.testing.assert_allclose(placed.values, load("my run.zarr").embedding_, atol=1e-9)
    # With a file of coordinates, and nothing of it for programs or for who asked for quiet.
    out = program(f"""fit "its's.csv" 'my run.zarr' -k 8 {reading} --embedding y.csv""")[1]
    assert "coordinates      y.csv (and my run.zarr)\n" in out
    assert program(f"""fit "its's.csv" 'my run.zarr' -k 8 {reading} --quiet""") == (0, "", "")


def test_the_next_commands_take_what_the_fit_asked_for(files, program):
    apart = np.load("train.npy")
    apart[4:24:2] += 1e4
    np.save("apart.npy", apart)
    out = program("fit apart.npy run.zarr -k 4 --disconnected largest")[1]
    assert program(shlex.join(shlex.split(out.splitlines()[-1][17:], comments=True)[1:]))[0] == 0
    np.save("d.npy", np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0))))
    out = program("fit d.npy line.zarr --metric geodesic -p 1")[1]
    assert out.splitlines()[-1] == "to read more     scalemani info line.zarr --all"


#: A command line with a wrong parameter, and the options that its one line names.
NAMED = [
    ("-k 0", "--neighbors 0"),
    ("-k 120", "--neighbors 120 needs"),
    ("-k 5 --radius 2", "both --neighbors 5 and --radius 2.0"),
    ("--radius -1", "--radius -1.0"),
    ("--radius 0.01", "--radius "),
    ("-k 1", "--disconnected join"),
    ("-p 0", "--components 0"),
    ("-p 120", "--components 120"),
    ("--metric nonsense", "--metric nonsense"),
    ("--metric cosine --metric-param p=3", "--metric-param"),
    ("--metric minkowski --metric-param p=-1", "--metric-param p"),
    ("--metric mahalanobis --metric-param VI=3", "--metric-param VI"),
    ("--metric precomputed", "POINTS"),
    ("--graph both", "--graph both"),
    ("--disconnected maybe", "--disconnected maybe"),
    ("--correction nonsense", "--correction nonsense"),
    ("--correction -1", "none or a number"),
    ("--method kernel-isomap --constant-solver q", "--constant-solver q"),
    ("--projection q", "--projection q"),
    ("--knn q", "--knn q"),
    ("--knn nndescent --radius 9", "--knn nndescent"),
    ("--tol 2", "--tol 2.0"),
    ("--seed -1", "--seed -1"),
    ("--memory-limit lots", "--memory-limit lots"),
    ("--compression gzip", "--compression gzip"),
    ("--landmarks 2", "--components 2 needs"),
    ("--landmarks 50 --compression lz4", "--compression lz4"),
    ("--landmarks 50 --landmark-method best", "--landmark-method best"),
]


@pytest.mark.parametrize(("options", "words"), NAMED, ids=[options for options, _ in NAMED])
def test_a_wrong_parameter_is_named_by_its_option(files, program, options, words):
    code, out, err = program(f"fit train.npy run.zarr --quiet {options}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    names = "|".join(inspect.signature(KernelIsomap).parameters)
    assert not re.search(rf"\b(?:{names})=|\b\w+_(?:neighbors|components|params|solver|limit|state|method)\b", err), err


def test_every_refusal_of_the_package_has_the_options_names_in_the_shell():
    """Also those that take a whole fit to bring about: their texts, with anything in the braces."""
    parameters = set(inspect.signature(KernelIsomap).parameters) - PASSING
    left = []
    for path in Path(scalemani.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and "Error" in ast.unparse(node.exc.func):
                for text in ast.walk(node.exc):
                    if isinstance(text, ast.JoinedStr):
                        parts = (v.value if isinstance(v, ast.Constant) else "7" for v in text.values)
                        said = in_options("".join(map(str, parts)))
                        left += [said] if re.search(rf"(?<![\w{{}}])(?:{'|'.join(parameters)})=", said) else []
    assert not left


def test_a_cell_is_named_by_its_column_in_the_shell(files, program):
    """A column called X stays that: only the library's X is POINTS."""
    (files / "bad.csv").write_text("X,y\n" + "1,2\n" * 12 + "nan,3\n")
    said = "Input POINTS contains NaN at row 12, column 'X'"
    assert said in program("fit bad.csv run.zarr --quiet")[2] and said in program("plan bad.csv --quiet")[2]


# ---- labels ------------------------------------------------------------------------------------


@pytest.fixture
def labeled(files):
    """Beside the roll, classes of its rows: text and numbers, with and without gaps, too few, and in an array."""
    halves = np.where(np.arange(120) % 40 < 20, "thick", "thin")
    rows = [f"{'NA' if i == 5 else kind};{kind};{'' if i == 7 else i % 2}" for i, kind in enumerate(halves)]
    (files / "labels.csv").write_text("\n".join(["lost;kind;number", *rows]) + "\n")
    (files / "short.csv").write_text("\n".join(["kind", *halves[:100]]) + "\n")
    (files / "points.csv").write_text((files / "train.csv").read_text().replace(",", ";"))
    ids = [line.partition(";")[0] for line in (files / "points.csv").read_text().splitlines()]
    shuffled = [f"{one};{kind}" for one, kind in zip([*ids[2:], ids[1]], halves, strict=True)]
    (files / "shuffled.csv").write_text("\n".join(["who;kind", *shuffled]) + "\n")
    np.save("labels.npy", (np.arange(120) % 40 >= 20) * 2)
    return halves


@pytest.mark.parametrize(
    ("command", "same"),
    [
        ("points.csv --delimiter ; --labels labels.csv:kind --method isometric-projection", True),
        ("points.csv --delimiter ; --labels labels.npy", True),  # the delimiter is that of POINTS
        ("points.csv --delimiter ; --method isometric-projection", False),
    ],
)
def test_labels_are_those_of_the_library_and_ask_for_the_method_that_takes_them(labeled, program, command, same):
    options = f"-k 6 --disconnected join --id-column who --kernel rbf {command[10:]}".replace(";", "';'")
    code, out, err = program(f"fit points.csv run.zarr {options}")
    assert code == 0 and "method           isometric-projection\n" in out, err
    model = IsometricProjection(n_neighbors=6, disconnected="join", kernel="rbf")
    expected = model.fit(np.load("train.npy"), labeled if same else None).embedding_
    np.testing.assert_array_equal(load("run.zarr").embedding_, expected)
    said = program(f"plan points.csv {options} --json")[1]
    assert json.loads(said)["n_edges"] == model.plan(np.load("train.npy"), labeled if same else None).n_edges


@pytest.mark.parametrize("command", ["fit", "plan"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--method isomap --labels absent.csv", "no --labels: leave one of them out, or give --method isometric-proj"),
        ("--method kernel-isomap --labels labels.csv:kind", "--method kernel-isomap has no --labels"),
        ("--labels labels.csv:kind --landmarks 9", "landmarks with labels: each class has a graph"),
        ("--correction cailliez --labels labels.csv:kind", "isometric-projection has no --correction"),
        ("--labels labels.csv:size", "labels.csv has no column 'size' (lost, kind, number)"),
        ("--labels labels.csv:lost", "--labels is missing at row 5 (1 of 120 labels)"),
        ("--labels labels.csv:number", "--labels is missing at row 7 (1 of 120 labels)"),
        ("--labels short.csv", "short.csv has 101 lines and the fit 120 rows"),
        ("--labels shuffled.csv:kind", "shuffled.csv:kind: row 0 has another id than that of POINTS"),
        ("--labels points.csv:x", "that column is read as a feature, too; add --ignore x"),
        ("--labels test.npy:1", "test.npy has shape (30, 3) and the fit 120 rows"),
        ("--labels train.npy:1", "--labels looks like a continuous target"),
        ("--labels absent.csv", "absent.csv does not exist"),
    ],
)
def test_labels_that_are_none_are_refused_in_one_line_before_a_file_is_made(
    labeled, files, program, command, options, words
):
    code, out, err = program(f"{command} points.csv run.zarr -q --delimiter ';' --id-column who {options}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err and not (files / "run.zarr").exists()
