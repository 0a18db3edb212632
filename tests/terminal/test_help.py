"""Help is grouped by what one wants, the Tab key completes, and what is misspelt is recognised."""

import re
from dataclasses import fields

import click
import numpy as np
import pandas as pd
import pytest
import zarr
from click.shell_completion import BashComplete

import scalemani
from scalemani import Isomap, KernelIsomap
from scalemani.methods import REGISTRY, named
from scalemani.parameters import Arguments
from scalemani.terminal.commands import cli
from scalemani.terminal.help import COMMANDS
from scalemani.terminal.options import in_options


@pytest.fixture(params=[80, 100])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def test_an_option_given_twice_is_refused_and_not_halved(files, program):
    for line, said in (
        ("plot run.zarr map.png --color a.csv:x --colour b.csv:y", "--color is given 2 times"),
        ("fit train.npy run.zarr -k 8 --neighbors 9", "--neighbors is given 2 times: give it once"),
        (
            "fit train.npy run.zarr --ignore 1 --ignore 2 --ignore 3",
            "--ignore is given 3 times: give it once, with a comma",
        ),
    ):
        code, out, err = program(line)
        assert code == 2 and not out and said in err and err.count("\n") == 1
    assert program("fit train.npy run.zarr -k 8 --metric minkowski --metric-param p=3 --metric-param p=3 -q -q")[0] == 0


# ---- help ----------------------------------------------------------------------------------------


def test_every_command_has_a_group_a_whole_line_and_an_example(program, width):
    out = program("--help")[1]
    for heading, names in COMMANDS.items():
        assert f"\n{heading}:\n" in out
        for name in (one for one in names if one in cli.commands):
            assert re.search(rf"^  {name} +[A-Z][^.]*\.$", out, re.M), name  # one sentence, and not cut off
    assert {*cli.commands} <= {name for names in COMMANDS.values() for name in names}
    for name, command in cli.commands.items():
        assert f"scalemani {name}" in (command.help or ""), name
    assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_lists_every_option_once_within_the_width(program, width, name):
    out = program(f"{name} --help")[1]
    first = [found for line in out.splitlines() if (found := re.match(r"  (-\w, )?(--[\w-]+)( /|,| |$)", line))]
    listed = [found[2] for found in first]
    context = click.Context(cli.commands[name])
    options = [one for one in cli.commands[name].get_params(context) if isinstance(one, click.Option)]
    assert sorted(listed) == sorted(next(word for word in one.opts if word.startswith("--")) for one in options)
    assert max(map(len, out.splitlines())) <= width


def test_options_of_a_fit_are_in_the_order_of_need_and_under_their_methods(program):
    out = program("fit --help")[1]
    headings = re.findall(r"^(\S.*):$", out, re.M)
    assert headings[0] == "Methods" and headings[1:3] == ["What most need", "Reading the file"]
    assert headings.index("Many points") < headings.index("For kernel-isomap") < headings.index("For lle")
    assert headings[-2:] == ["Memory, disk and cluster", "Also"]
    part = dict(zip(headings, re.split(r"^\S.*:$", out, flags=re.M)[1:], strict=True))
    assert re.findall(r"--\w+", part["What most need"])[0] == "--neighbors"
    for word, entry in REGISTRY.items():
        assert f"  {word} " in part["Methods"] and entry.about in " ".join(part["Methods"].split())
        for one in entry.own:
            of = [other for other in REGISTRY if one in REGISTRY[other].own]
            if f"--{one.replace('_', '-')} " in out:
                heading = f"For {word}" if len(of) == 1 else "For several methods"
                assert f"--{one.replace('_', '-')} " in part[heading]


def test_a_method_of_another_package_and_its_options_are_listed(program, monkeypatch):
    monkeypatch.setitem(REGISTRY, "toy", scalemani.methods.Entry("toy:Toy", about="distances to a few rows"))
    assert re.search(r"^  toy +distances to a few rows$", program("fit --help")[1], re.M)


# ---- completion ----------------------------------------------------------------------------------


def completed(words, incomplete):
    """What the shell offers: words, or "file" for names of files."""
    found = BashComplete(cli, {}, "scalemani", "_SCALEMANI_COMPLETE").get_completions(words.split(), incomplete)
    return [one.value if one.type == "plain" else one.type for one in found]


@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        ("", "pro", ["project"]),
        ("fit a b", "--met", ["--method", "--metric", "--metric-param"]),
        ("fit a b --method", "i", ["isomap", "isometric-projection"]),
        ("plan a --metric", "euc", ["euclidean"]),
        ("fit a b --correction", "c", ["cailliez"]),
        ("fit a b --ridge", "", ["loo"]),
        ("fit a b --scale", "w", ["whitened", "walk"]),
        ("scan a --graph", "", ["union", "mutual"]),
        ("completion", "", ["bash", "zsh", "fish"]),
        ("fit", "po", ["file"]),
        ("fit a b --labels", "la", ["file"]),
        ("report a b --color", "la", ["file"]),
        ("fit a b --embedding", "y", ["file"]),
    ],
)
def test_commands_options_values_and_files_are_completed(words, incomplete, found):
    assert completed(words, incomplete) == found


def test_the_program_answers_the_shell_whose_script_it_prints(program, monkeypatch, capsys):
    for shell in ("bash", "zsh", "fish"):
        code, out, _ = program(f"completion {shell}")
        assert code == 0 and f"_SCALEMANI_COMPLETE={shell}_complete" in out and "scalemani" in out
    for name, value in {
        "_SCALEMANI_COMPLETE": "bash_complete",
        "COMP_WORDS": "scalemani ver",
        "COMP_CWORD": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        program("")
    assert (ended.value.code, capsys.readouterr().out) == (0, "plain,verify\n")


# ---- did you mean --------------------------------------------------------------------------------

KINDS = [Arguments, *(named(method.arguments) for method in REGISTRY.values() if method.arguments)]
CHOICES = {
    f"{one.name}={choice}": (one, choice)
    for kind in KINDS
    for one in fields(kind)
    for choice in [max(one.metadata["choices"], key=len, default="")]
    if choice
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_misspelt_choice_of_any_parameter_is_recognised(name):
    parameter, choice = CHOICES[name]
    with pytest.raises(scalemani.errors.ScalemaniError, match=f"did you mean '{choice}'") as refused:
        parameter.metadata["check"](parameter.name, choice[:-1])
    if parameter.metadata["option"]:
        assert str(in_options(str(refused.value))).startswith("--")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fti train.npy run.zarr", "'fti' is no command; did you mean 'fit'?"),
        ("fit train.npy run.zarr --nieghbors 3", "'--neighbors'"),
        ("fit train.npy run.zarr --n-neighbors 3", "'--neighbors'"),
        ("fit train.npy run.zarr --method llle", "--method llle: did you mean 'lle'?"),
        ("fit train.npy run.zarr --metric euclidian", "--metric euclidian: did you mean 'euclidean'?"),
        ("fit train.npy run.zarr --correction caillez", "did you mean 'cailliez'?"),
        ("fit train.npy run.zarr --ridge lo", "--ridge lo: did you mean 'loo'?"),
        ("fit train.npy run.zarr --distances store", "--distances store: did you mean 'stored'?"),
        ("fit train.npy run.zarr --compression zst", "did you mean 'zstd'?"),
        (
            "fit train.npy run.zarr --method lle --kernel pol",
            "did you mean 'poly'? Allowed are 'linear', 'rbf', 'poly'",
        ),
        ("fit train.csv run.zarr --id-column woh", "did you mean 'who'?"),
        ("fit train.csv run.zarr --id-column who --columns x,yy", "did you mean 'y'?"),
        ("fit train.csv run.zarr --id-column who --ignore xx", "did you mean 'x'?"),
        ("fit train.csv run.zarr --id-column who --labels train.csv:whoo", "did you mean 'who'?"),
        ("fit train.npz:pionts run.zarr", "did you mean 'points'?"),
        ("fit group.zarr:deep/point run.zarr", "did you mean 'deep/points'?"),
        ("fit train.h5::deep/point run.zarr", "did you mean 'deep/points'?"),
        ("fit trian.npy run.zarr", "trian.npy does not exist; did you mean 'train.npy'?"),
        ("info rum.zarr", "did you mean"),
    ],
)
def test_what_is_misspelt_in_the_shell_is_recognised_in_one_line(files, program, command, words):
    h5py = pytest.importorskip("h5py")
    X = np.load("train.npy")
    np.savez("train.npz", points=X, other=X[:3])
    zarr.open_group("group.zarr", mode="w").create_array("deep/points", data=X)
    (files / "run.zarr.txt").touch()
    with h5py.File("train.h5", "w") as file:
        file["deep/points"], file["other"] = X, X
    code, out, err = program(f"{command} --quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_in_the_shell_no_message_speaks_of_functions_or_parameters(files, program):
    err = program("fit train.npy run.zarr --method lle --kernel cosine -q")[2]
    assert err == "scalemani: --kernel cosine: allowed are 'linear', 'rbf', 'poly', 'precomputed', none\n"
    with pytest.raises(scalemani.errors.ScalemaniError, match="did you mean None"):
        KernelIsomap(correction="none").fit(np.load("train.npy"))
    err = program("fit train.npy run.zarr --memory-limit 30MB -q --scheduler synchronous")[2]
    assert "120 points need " in err and " for constant and axes (" in err and "--memory-limit allows 30,000,000" in err


def test_columns_of_a_data_frame_are_named():
    frame = pd.DataFrame(np.random.default_rng(0).random((30, 3)), columns=["height", "weight", "age"])
    model = Isomap(n_neighbors=5).fit(frame)
    for new, words in (
        (frame[["height", "age"]], "and weight is missing"),
        (frame.rename(columns={"age": "aage"}), "and age is missing (is aage meant for age?)"),
        (frame.assign(shoe=1.0), "without shoe"),
        (frame[["weight", "height", "age"]], "in another order"),
        (frame.assign(weight=np.nan), "row 0, column 1, 'weight'"),
        (frame.assign(weight="heavy"), "'heavy' at row 0, column 1, 'weight'"),
        (frame.assign(age=pd.Timestamp(0)), "the column 'age' of dtype datetime"),
    ):
        with pytest.raises(scalemani.errors.ScalemaniError, match=re.escape(words)):
            model.transform(new)


# ---- info ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")
@pytest.mark.parametrize(
    "options",
    ["kernel-isomap", "lle", "isometric-projection", "isomap --landmarks 30", "laplacian-eigenmaps --alpha 1"],
)
def test_info_is_plain_words_and_all_has_every_number_with_what_it_is(files, program, options):
    code, out, err = program(f"fit train.npy run.zarr -k 8 --method {options}")
    assert code == 0, err
    plain, everything = program("info run.zarr")[1], program("info run.zarr --all")[1]
    for said in (out, plain):
        assert not re.search(r"\w_\w", re.sub(r"/\S+", "", said)), said  # no names of programs
        assert all(re.match(r"[a-z][a-z ]{0,15} +\S", line) for line in said.splitlines())
        assert f"method           {options.split()[0]}\n" in said and "120 rows on 2 axes" in said
        assert "scalemani report run.zarr run.html" in said and "scalemani project run.zarr " in said
    assert len(plain.splitlines()) <= 14 and plain.splitlines()[-1] == "all numbers      scalemani info run.zarr --all"
    assert re.search(r"^store            /.*run\.zarr, \d+ kB$", plain, re.M)
    assert "What was asked for\n" in everything and re.search(r"^  --neighbors +8$", everything, re.M)
    if options == "kernel-isomap":
        assert re.search(r"^constant  .* is added to every distance, about .* times the median distance", plain, re.M)
        assert re.search(r"^warning  ", plain, re.M)
        assert re.search(r"^  Rel_corr_eig +as in ape's pcoa: ", everything, re.M)
