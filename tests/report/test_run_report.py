"""The report of a run says what the run and the library say, reads no D, escapes what comes from files, or refuses."""

import base64
import html
import re
import shlex
import shutil

import numpy as np
import pytest
from test_report import read

from scalemani import Isomap, KernelIsomap, load
from scalemani.demo import swiss_roll
from scalemani.embedding.quality import quality_account
from scalemani.errors import AdditiveConstantWarning, DamagedStoreError
from scalemani.model import Run
from scalemani.report import map_facts, maps, sections
from scalemani.report import sections as run_report
from scalemani.report.sections import run_page
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run
from scalemani.words import number, two_digits

NASTY = "<script>alert('$x_1$ & \"y\"')</script>"
FAR = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A kernel Isomap of 80 points of a roll, of which two are equal, with six others far off that are left out."""
    folder = tmp_path_factory.mktemp("a & <b>")
    roll = swiss_roll(80, random_state=0).points
    X = np.vstack([roll[:40], roll[3], roll[40:], roll[:FAR] + 1e4])
    with pytest.warns(AdditiveConstantWarning):
        KernelIsomap(n_neighbors=5, disconnected="largest", store=folder / "run.zarr").fit(X)
    np.save(folder / "x.npy", X[:, 0])
    kinds = [NASTY if i % 2 else "_b" for i in range(len(X))]
    (folder / "kinds.csv").write_text(
        f'"{NASTY.replace(chr(34), chr(34) * 2)}",plain\n'
        + "".join(f'"{kind.replace(chr(34), chr(34) * 2)}",{i}.5\n' for i, kind in enumerate(kinds))
    )
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """Words without the time that pictures take."""
    for module in (sections, maps):
        monkeypatch.setattr(module, "png", lambda figure: b"\x89PNG\r\n\x1a\n")


@pytest.fixture
def program(place, monkeypatch, capsys):
    """Runs the program in the run's folder: exit code, standard output, standard error."""
    monkeypatch.chdir(place)

    def call(command):
        code = run(cli, shlex.split(command))
        return code, *capsys.readouterr()

    return call


def text_of(page):
    return " ".join("".join(read(page).text).split())


def test_the_page_is_whole_and_nothing_from_a_file_is_markup(place, program):
    command = "report run.zarr page.html --color kinds.csv:1 --colour x.npy"
    code, out, _ = program(command)
    assert code == 0
    assert re.fullmatch(r"page.html: one page of 0\.\d MB\n", out)
    page = (place / "page.html").read_text(encoding="utf-8")
    reader = read(page)
    scripts = re.findall(r"<script\b.*?</script>", page, re.DOTALL)
    assert len(scripts) == page.count("<script") and not any("alert" in one for one in scripts if "<script>" in one)
    assert NASTY in "".join(reader.text)
    assert f"{NASTY} (40)" in "".join(reader.text)  # a category of the legend, with its rows
    assert not re.search(
        r"https?:|//|@import|url\(", re.sub(r"base64,[^\"]*|<script\b.*?</script>", "", page, flags=re.S)
    )
    pictures = [base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in reader.references]
    assert len(pictures) == page.count("<img") == 8
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5000 for picture in pictures)
    for heading in (
        "The map",
        "In short",
        "How well distances are kept",
        "How many axes",
        "Spectrum and constant",
        "The method&#39;s kernel",
        "The run",
    ):
        assert f"<h2>{heading}" in page


def test_a_page_is_replaced_when_asked_to_and_quietly(place, program, undrawn):
    (place / "old.html").write_text("mine")
    assert program("report run.zarr old.html")[0] == 2
    assert (place / "old.html").read_text() == "mine"
    assert program("report run.zarr old.html --overwrite --quiet --rows 9") == (0, "", "")
    assert "9 sampled points" in (place / "old.html").read_text(encoding="utf-8")


def test_new_points_are_read_as_project_reads_them(place, program, undrawn):
    new = swiss_roll(9, random_state=1).points
    np.save(place / "new.npy", new)
    text = "".join(f"n{i},{','.join(map(str, row))}\n" for i, row in enumerate(new[:4]))
    (place / "named.csv").write_text("name,a,b,c\n" + text)
    options = "--rows 5 --quiet --id-column name --project"
    code, out, err = program(f"report run.zarr one.html {options} named.csv")
    assert (code, out) == (0, "") and "named.csv has feature names and run.zarr has none" in err
    page = (place / "one.html").read_text(encoding="utf-8")
    assert '{"name": "new points", "n": 4, "drawn": true' in page
    assert program("report run.zarr two.html --rows 5 -q --project new.npy --project new.npy")[0] == 0
    assert (place / "two.html").read_text(encoding="utf-8").count('"name": "new points: new.npy", "n": 9') == 2


def test_its_numbers_are_the_librarys(place, undrawn):
    model = load(place / "run.zarr")
    said = text_of(run_page(Run(RunStore(place / "run.zarr")), rows=20, seed=3))
    account = quality_account(model, n_rows=20, seed=3)
    spectrum = model.spectrum_
    for value in (
        account["residual_variance"][-1],
        account["normalised_stress"],
        account["normalised_stress_scaled"],
        account["trustworthiness"],
        account["continuity"],
        spectrum["additive_constant"],
        spectrum["trace"],
        spectrum["next_eigenvalue"],
        spectrum["most_negative_eigenvalue"],
        spectrum["negative_mass"],
    ):
        assert number(value) in said
    assert "each of 20 sampled points" in said
    assert f"about {two_digits(spectrum['constant_over_median'])} median distances further apart" in said
    assert f"about {two_digits(spectrum['median_distance'])}" in said
    assert "trust the residual variance" in said
    assert f"These numbers come from {account['n_pairs']:,} pairs" in said
    assert spectrum["warnings"][0] in said
    for name, value in (("n_neighbors", 5), ("disconnected", "largest"), ("tol", 1e-6)):
        assert f"{name}{value}" in said.replace(" ", "")


def test_rows_without_coordinates_and_values_are_counted(place, undrawn):
    values = np.linspace(0, 1, 81 + FAR)
    values[[2, 5, 85]] = np.nan  # the last is of a row that is left out
    said = text_of(run_page(Run(RunStore(place / "run.zarr")), [("x", values)], rows=5))
    assert "6 points of 86 are not in the map" in said
    assert "6 rows without coordinates are left out" in said
    assert "2 rows without a value are grey" in said
    assert "87, of which 1 are equal to others and merged" in said


def test_d_is_read_for_the_map_without_the_constant_alone(place, undrawn, monkeypatch):
    model = Run(RunStore(place / "run.zarr"))
    with monkeypatch.context() as patched:
        patched.setattr(map_facts, "without_constant", lambda *_: None)
        for name in ("read", "read_rows"):
            patched.setattr(Tiles, name, lambda *_, **__: pytest.fail("D was read"))
        page = run_page(model, name="it", seed=1)
        load(place / "run.zarr").export(place / "model.zarr")
        assert run_page(Run(RunStore(place / "model.zarr")), name="it", seed=1) == page
    assert "map without the constant" in run_page(Run(RunStore(place / "model.zarr")), rows=5)


def test_a_damaged_d_leaves_that_map_out(place, undrawn, monkeypatch):
    def damaged(*_):
        raise DamagedStoreError("tile (0, 0) is damaged")

    monkeypatch.setattr(map_facts, "without_constant", damaged)
    said = text_of(run_page(Run(RunStore(place / "run.zarr")), rows=5))
    assert "The map without the constant is not shown beside this one. There is none: tile (0, 0) is damaged." in said


@pytest.mark.parametrize("kept", [True, False])
def test_given_distances_are_compared_if_they_are_kept(tmp_path, undrawn, kept):
    X = swiss_roll(30, random_state=0).points
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    Isomap(metric="geodesic", n_components=3, store=tmp_path / "run.zarr", keep_distances=kept).fit(D)
    page = run_page(Run(RunStore(tmp_path / "run.zarr")))
    assert "Geodesic distances are those that were given." in page and "lengths of shortest paths" not in page
    assert "the final distances (metric geodesic)" in page and "metric precomputed would choose neighbours" in page
    assert ("are no longer in the store" in page) != kept
    assert ("trustworthiness" in page) == kept
    assert page.count("<img") == (7 if kept else 4)


@pytest.mark.filterwarnings("ignore::scalemani.errors.UndeterminedAxesWarning")
def test_equal_distances_have_a_page(tmp_path):
    Isomap(metric="geodesic", store=tmp_path / "run.zarr").fit(1 - np.eye(30))
    assert "30 points on 2 axes" in run_page(Run(RunStore(tmp_path / "run.zarr")))


@pytest.mark.parametrize("n", [2, 5])
def test_few_points_have_a_page(tmp_path, n):
    Isomap(n_neighbors=1, n_components=1, store=tmp_path / "run.zarr").fit(np.arange(float(n))[:, None])
    page = run_page(Run(RunStore(tmp_path / "run.zarr")), [("x", np.arange(n) / 7)])
    assert f"{n} points on 1 axis" in page


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("report none.zarr new.html", "holds no run: nothing is there"),
        ("report half.zarr new.html", "is not finished"),
        ("report x.npy new.html", "holds no run"),
        ("report run.zarr new.pdf", "end the name in .html"),
        ("report run.zarr nowhere/new.html", "no directory nowhere"),
        ("report run.zarr taken.html", "taken.html exists; give --overwrite"),
        ("report run.zarr folder.html --overwrite", "is a directory"),
        ("report run.zarr new.html --colour short.npy", r"shape (3,) and the fit 87 rows"),
        ("report run.zarr new.html --colour x.npy --colour none.csv:a", "none.csv does not exist"),
        ("report run.zarr new.html --colour kinds.csv:other", "no column 'other'"),
        ("report run.zarr new.html --project x.npy", "x.npy has 0 columns; run.zarr was fitted on 3"),
        ("report run.zarr new.html --project none.csv", "none.csv does not exist"),
        ("report run.zarr new.html --id-column name", "--id-column says how a file of --project is read"),
        ("report run.zarr new.html --rows 0", "--rows"),
        ("report run.zarr new.html --seed -1", "--seed"),
    ],
)
def test_errors_come_before_any_work_in_one_line(place, program, monkeypatch, command, what):
    np.save(place / "short.npy", np.ones(3))
    (place / "taken.html").write_text("mine")
    (place / "folder.html").mkdir(exist_ok=True)
    if not (place / "half.zarr").exists():
        shutil.copytree(place / "run.zarr", place / "half.zarr")
        RunStore(place / "half.zarr").forget("fit")
    monkeypatch.setattr(run_report, "quality_account", lambda *_, **__: pytest.fail("work had begun"))
    before = sorted(path.name for path in place.iterdir())
    code, out, err = program(command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in html.unescape(err)
    assert (place / "taken.html").read_text() == "mine"
    assert sorted(path.name for path in place.iterdir()) == before
