"""The command line gives what the library gives, in files, and says with its exit code whether it did."""

import contextlib
import gc
import inspect
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import weakref

import click
import numpy as np
import pytest
import zarr

from scalemani import KernelIsomap, progress
from scalemani.demo import swiss_roll
from scalemani.formats.points import open_points
from scalemani.terminal.commands import cli
from scalemani.terminal.console import resume_command, run

PASSING = {"progress", "store"}  # an option of its own, and an argument


def test_every_parameter_of_the_estimator_has_an_option_with_its_default():
    parameters = inspect.signature(KernelIsomap).parameters
    context = cli.commands["fit"].make_context("fit", ["points", "store"])
    assert set(parameters) - set(context.params) == {"progress"}
    for name, parameter in parameters.items():
        if name not in PASSING:
            assert context.params[name] == parameter.default, name


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from scalemani.terminal.console import run; from scalemani.terminal.commands import cli\n"
        "assert run(cli, ['fit', '--help']) == 0\n"
        "sys.exit(', '.join({'numpy', 'scipy', 'sklearn', 'zarr', 'dask', 'numba', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"
    assert "--constant-solver" in done.stdout


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_fit_and_project_give_what_the_library_gives_with_ids_in_order(files, program):
    code, out, _ = program("fit train.csv run.zarr -k 8 -p 3 --id-column who --embedding y.csv --correction cailliez")
    assert code == 0
    assert "is added to every distance, about" in out
    model = KernelIsomap(n_neighbors=8, n_components=3)
    model.fit(np.load("train.npy"))
    fitted = open_points("y.csv", id_column="who")
    np.testing.assert_array_equal(fitted.values, model.embedding_)
    assert fitted.ids == [f"train-{i}" for i in range(120)]
    assert program("project run.zarr test.csv p.csv --id-column who")[0] == 0
    projected = open_points("p.csv", id_column="who")
    np.testing.assert_array_equal(projected.values, model.transform(np.load("test.npy")))
    assert projected.ids == [f"test-{i}" for i in range(30)]
    # Training rows come back as they were fitted, to float32's share of the embedding's scale.
    assert program("project run.zarr train.npy back.npy")[0] == 0
    np.testing.assert_allclose(np.load("back.npy"), model.embedding_, atol=1e-5 * np.abs(model.embedding_).max())


def test_every_kind_of_points_gives_the_same(files, program):
    X = np.load("train.npy")
    np.savez("train.npz", X=X, other=X[:3])
    zarr.open_group("train.zarr", mode="w").create_array("deep/X", data=X)
    assert program("fit train.npy a.zarr -k 8 --embedding a.npy")[0] == 0
    for points in ("train.npz:X", "train.zarr:deep/X"):
        assert program(f"fit {points} b.zarr -k 8 --embedding b.npy --overwrite")[0] == 0
        np.testing.assert_array_equal(np.load("b.npy"), np.load("a.npy"))
        assert program(f"project a.zarr {points} out.zarr --overwrite")[0] == 0
        assert zarr.open_array("out.zarr", mode="r").attrs["axes"] == ["axis_1", "axis_2"]
        scale = np.abs(np.load("a.npy")).max()
        np.testing.assert_allclose(open_points("out.zarr").values[:], np.load("a.npy"), atol=1e-5 * scale)


def test_options_reach_the_estimator(files, program):
    command = (
        "fit train.npy run.zarr --radius 6 --components 1 --metric minkowski --metric-param p=3 --graph mutual "
        "--disconnected join --correction none --constant-solver ritz --projection paper --knn exact --tol 1e-5 "
        "--seed 7 --memory-limit 1GB --drop-distances --edge-weights conformal"
    )
    code, _, err = program(command)
    assert code == 0, err
    record = json.loads(program("info run.zarr --json")[1])
    expected = {
        "n_neighbors": None,
        "radius": 6.0,
        "n_components": 1,
        "metric": "minkowski",
        "metric_params": {"p": 3},
        "graph": "mutual",
        "disconnected": "join",
        "correction": None,
        "projection": "paper",
        "knn": "exact",
        "tol": 1e-5,
        "random_state": 7,
        "edge_weights": "conformal",
    }
    assert {name: record["parameters"][name] for name in expected} == expected
    assert record["spectrum"]["n_rows"] == 120
    assert not (files / "run.zarr" / "distances").exists()


def test_info_for_people_and_an_exported_model(files, program):
    program("fit train.npy run.zarr -k 8")
    code, out, _ = program("info run.zarr")
    assert code == 0
    assert "8 of each point" in out
    assert "120 rows" in out
    assert program("export run.zarr model.zarr")[0] == 0
    assert not (files / "model.zarr" / "distances").exists()
    for store in ("run.zarr", "model.zarr"):
        assert program(f"project {store} test.npy {store}.npy")[0] == 0
    np.testing.assert_array_equal(np.load("run.zarr.npy"), np.load("model.zarr.npy"))


def test_what_given_distances_were_taken_for_is_said_and_what_negative_mass_means(files, program):
    X = np.load("train.npy")
    np.save("D.npy", np.linalg.norm(X[:, None] - X, axis=-1) ** 2)  # no path lengths
    code, out, err = program("fit D.npy final.zarr --metric geodesic --correction none")
    assert code == 0 and "sampled triangles have a side longer than the two others" in err
    for said in (out, program("info final.zarr")[1]):
        assert "given            the final distances (metric geodesic)" in said
        assert "metric precomputed would choose neighbours" in said
    said = program("info final.zarr")[1]
    assert "sampled triangles" in said and said.count("scalemani info final.zarr --all") == 1
    code, out, _ = program("fit D.npy chosen.zarr --metric precomputed --correction none -k 4")
    assert code == 0 and "given            distances to choose neighbours by (metric precomputed)" in out
    assert "metric geodesic would take them as the final ones" in out
    angles = np.arange(60) * np.pi / 30
    np.save("ring.npy", np.c_[np.cos(angles), np.sin(angles)])
    code, out, _ = program("fit ring.npy ring.zarr -k 4 --correction none")
    assert code == 0 and "closed or curved shape, or shortcut edges" in out and "try fewer neighbours" in out
    np.save("flat.npy", X[:60, :2])
    assert "closed or curved" not in program("fit flat.npy flat.zarr -k 59 --correction none")[1]


def test_quiet_says_nothing_and_lines_go_to_standard_error(files, program):
    assert program("fit train.npy run.zarr -k 8 --correction none --quiet") == (0, "", "")
    code, out, err = program("fit train.npy loud.zarr -k 8 --correction none")
    assert code == 0
    assert "geodesics: " in err
    assert "geodesics: " not in out


WRONG = [
    ("", "Usage"),
    ("fit train.npy", "STORE"),
    ("fit train.npy new.zarr --nonsense", "--nonsense"),
    ("fit train.npy new.zarr -k many", "many"),
    ("fit absent.npy new.zarr", "absent.npy"),
    ("fit train.csv new.zarr", "--id-column 1"),
    ("fit train.npy new.zarr -k 120", "121"),
    ("fit train.npy new.zarr -p 120", "121"),
    ("fit train.npy new.zarr -k 5 --radius 2", "both"),
    ("fit train.npy new.zarr --metric nonsense", "nonsense"),
    ("fit train.npy new.zarr --metric-param p", "NAME=VALUE"),
    ("fit train.npy new.zarr --correction nonsense", "nonsense"),
    ("fit train.npy new.zarr --graph both", "'mutual'"),
    ("fit train.npy new.zarr --seed x", "integer"),
    ("fit train.npy new.zarr --embedding y.txt", ".csv"),
    ("fit train.npy new.zarr --embedding train.csv", "--overwrite-output"),
    ("fit train.csv new.zarr --id-column who --embedding taken.npy", "taken.ids.csv"),
    ("project absent.zarr train.csv taken.npy --id-column who", "taken.ids.csv"),
    ("fit nan.npy new.zarr", "row 3, column 1"),
    ("fit objects.npy new.zarr", "objects"),
    ("fit train.npy train.csv", "train.csv"),
    ("project absent.zarr test.npy new.npy", "absent.zarr"),
    ("project train.csv test.npy new.npy", "train.csv"),
    ("kernel absent.zarr training K.zarr", "absent.zarr"),
    ("kernel absent.zarr training K.csv", "a kernel is written to .zarr or .npy"),
    (
        "kernel absent.zarr training K.npy --id-column who",
        "--id-column says how a file is read",
    ),
    ("kernel absent.zarr training nowhere/K.zarr", "there is no directory"),
    ("kernel absent.zarr training train.npy", "train.npy' exists"),
    ("info absent.zarr", "absent.zarr"),
    ("export absent.zarr new.zarr", "absent.zarr"),
]


@pytest.mark.parametrize(("command", "cause"), WRONG, ids=[command or "nothing" for command, _ in WRONG])
def test_wrong_use_is_code_2_with_its_cause_in_one_line_and_no_file_made(files, program, command, cause):
    rows = np.load("train.npy")
    rows[3, 1] = np.nan
    np.save("nan.npy", rows)
    (files / "taken.ids.csv").touch()
    np.save("objects.npy", np.array([["a", 1]], dtype=object))
    before = sorted(files.iterdir())
    code, out, err = program(f"{command} --quiet" if command else "")
    assert code == 2
    assert cause in (err if command else out)
    assert err.count("\n") == (1 if command else 0)
    assert sorted(files.iterdir()) == before


def test_a_fit_with_other_parameters_or_points_is_refused_by_field(files, program):
    assert program("fit train.npy run.zarr -k 8")[0] == 0
    code, _, err = program("fit train.npy run.zarr -k 9 --quiet")
    assert (code, "--neighbors 8 where --neighbors 9 is asked for" in err) == (2, True) and "grid search" not in err
    np.save("wide.npy", np.ones((4, 5)))
    code, _, err = program("project run.zarr wide.npy out.npy --quiet")
    assert (code, "5 columns" in err, (files / "out.npy").exists()) == (2, True, False)
    assert program("fit train.npy run.zarr -k 9 --overwrite")[0] == 0


def test_a_store_that_ends_with_the_command_is_refused_unless_its_coordinates_are_written(files, program):
    pytest.importorskip("obstore")
    code, _, err = program("fit train.npy memory://a --quiet")
    assert code == 2 and "--embedding" in err
    assert program("fit train.npy memory://a --quiet --embedding fit.npy")[0] == 0 and (files / "fit.npy").exists()


def test_rows_without_coordinates_are_code_1_unless_asked_for(files, program):
    apart, far = np.load("train.npy"), np.arange(4, 24, 2)
    apart[far] += 1e4  # ten rows have their four neighbours among themselves
    np.save("apart.npy", apart)
    code, _, err = program("fit apart.npy stop.zarr -k 4 --quiet")
    assert (code, "10 points" in err) == (2, True)
    assert program("fit apart.npy run.zarr -k 4 --disconnected largest --embedding fit.npy --quiet")[0] == 0
    code, _, err = program("project run.zarr apart.npy out.csv --quiet")
    assert code == 1
    last = err.splitlines()[-1]
    assert "10 of 120 rows have no coordinates (the first: row 4)" in last
    assert "--allow-nan" in last
    assert program("project run.zarr apart.npy out.csv --quiet --overwrite --allow-nan")[0] == 0
    for written in (np.load("fit.npy"), open_points("out.csv").values):
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(written).any(axis=1)), far)


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_kernel_writes_what_the_library_gives(files, program):
    model = KernelIsomap(n_neighbors=8, store="run.zarr").fit(np.load("train.npy"))
    code, out, _ = program("kernel run.zarr training K.zarr")
    assert (code, "120 rows, with 120 points of the fit" in out) == (0, True)
    np.testing.assert_array_equal(zarr.open_array("K.zarr")[:], model.kernel())
    assert program("kernel run.zarr test.csv k.npy --id-column who --quiet")[0] == 0
    np.testing.assert_array_equal(np.load("k.npy"), model.kernel(np.load("test.npy")))
    before = sorted(files.iterdir())
    for command, cause in (
        ("kernel run.zarr training more.npy --memory-limit 1kB", "--memory-limit"),
        ("kernel run.zarr training K.zarr", "'K.zarr' exists"),
        ("kernel run.zarr K.zarr more.zarr", "120 columns"),
    ):
        code, _, err = program(f"{command} --quiet")
        assert (code, cause in err, err.count("\n")) == (1 if "limit" in command else 2, True, 1), err
    assert sorted(files.iterdir()) == before


def test_another_failure_is_code_1_with_one_line_and_debug_shows_where(files, program, monkeypatch):
    def broken(self, X, y=None):
        raise OSError(28, "No space left\non device")

    monkeypatch.setattr(KernelIsomap, "fit", broken)
    code, out, err = program("fit train.npy run.zarr --quiet")
    assert (code, out) == (1, "")
    assert err == "scalemani: OSError: [Errno 28] No space left on device (--debug shows where)\n"
    with pytest.raises(OSError, match="No space"):
        program("fit train.npy run.zarr --debug")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_fit_names_the_command_that_ends_it_with_the_same_bits(files, program, monkeypatch, number):
    handlers = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    assert program("fit train.npy whole.zarr -k 8 --embedding whole.npy --quiet")[0] == 0

    class Signalling:
        def __call__(self, stage, done, total):
            if stage == "geodesics" and done:
                signal.raise_signal(number)

        def close(self):
            pass

    (files / "y.npy").write_text("of an earlier fit")
    with monkeypatch.context() as patched:
        patched.setattr(progress, "terminal_reporter", Signalling)
        code, _, err = program("fit train.npy run.zarr -k 8 --embedding y.npy --overwrite")
    assert code == 1
    assert (files / "y.npy").read_text() == "of an earlier fit"
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == handlers
    said = err.splitlines()[-1]
    name, _, again = said.partition("to go on: scalemani ")
    assert name == "scalemani: stopped; "
    assert "--overwrite" not in shlex.split(again)
    written = sorted((files / "run.zarr" / "ledger").iterdir())
    made = {path: path.stat().st_mtime_ns for path in written}
    assert program("info run.zarr")[0] == 2
    assert program(f"{again} --quiet")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in written} == made, "finished blocks were made again"
    np.testing.assert_array_equal(np.load("y.npy"), np.load("whole.npy"))


class Dropping:
    """Ways to have an exception dropped: whatever `work` raises goes nowhere."""

    def gc_callback(self, work):
        def collected(phase, _):
            if phase == "start":
                work()

        gc.callbacks.append(collected)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(collected)

    def finaliser(self, work):
        type("Finalised", (), {"__del__": lambda _: work()})()

    def weak_reference(self, work):
        thing = threading.Event()
        reference = weakref.ref(thing, lambda _: work())
        del thing
        assert reference() is None

    def catch_all(self, work):
        with contextlib.suppress(BaseException):
            work()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("way", ["gc_callback", "finaliser", "weak_reference", "catch_all"])
@pytest.mark.parametrize("wait", [True, False], ids=["works on", "is done at once"])
def test_a_stop_that_python_drops_is_raised_again_without_a_traceback(capfd, way, number, wait):
    """And while it is raised again the user's second signal keeps its default, which ends the process."""
    raised, kept = [], []
    taken = (signal.SIGTERM, signal.SIGINT, signal.SIGURG)
    before = [signal.getsignal(s) for s in taken], sys.unraisablehook

    def signalled():
        raised.append(number)
        try:
            signal.raise_signal(number)
        finally:  # on a busy machine it is raised again before `drop` has come back
            kept.append(signal.getsignal(number))

    @click.command()
    def work():
        drop = getattr(Dropping(), way)
        drop(signalled)
        if wait:
            drop(lambda: threading.Event().wait(60))  # dropped a second time
            threading.Event().wait(60)
            kept.append("the wait was not ended")

    assert run(work, []) == 1
    err = capfd.readouterr().err
    assert (raised, kept) == ([number], [signal.SIG_DFL])
    assert err.split("\n", 2)[1].startswith("scalemani: stopping")
    said = [line for line in err.splitlines()[2:] if line]  # Click ends the line where the cursor is
    assert said == ["scalemani: stopped"], "said twice, or a traceback"
    assert ([signal.getsignal(s) for s in taken], sys.unraisablehook) == before


def test_a_stop_on_its_way_is_not_raised_again_while_things_are_put_in_order(capfd):
    done = []

    @click.command()
    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            gc.collect()
            done.append(threading.Event().wait(0.3))

    assert run(work, []) == 1
    assert done == [False], "the clean-up was broken off"


def test_other_exceptions_that_python_drops_are_still_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda given: told.append(given.exc_type))

    @click.command()
    def work():
        Dropping().finaliser(lambda: [].pop())

    assert (run(work, []), told) == (0, [IndexError])


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_nothing_is_said_into_a_file_when_standard_streams_are_closed(tmp_path, closed):
    """A file that is opened gets their numbers, were they not taken at the start."""
    code = (
        "import os, signal, sys, click; from scalemani.terminal.console import give_missing_streams, run\n"
        "give_missing_streams()\n"
        "@click.command()\n"
        "def work():\n"
        "    assert os.open('data', os.O_CREAT | os.O_WRONLY) > 2\n"
        "    assert all(os.get_inheritable(number) for number in range(3))\n"
        "    click.echo('out'); print('err', file=sys.stderr, flush=True)\n"
        "    open('reached', 'w').close(); signal.raise_signal(signal.SIGTERM)\n"
        "sys.exit(run(work, []))"
    )
    shell = f"exec {shlex.join([sys.executable, '-c', code])} {closed}"
    assert (
        subprocess.run(["/bin/sh", "-c", shell], cwd=tmp_path, stdout=subprocess.DEVNULL, check=False).returncode == 1
    )
    assert (tmp_path / "reached").exists()
    assert (tmp_path / "data").read_bytes() == b""


def test_signs_that_the_terminal_lacks_are_written_as_escapes(tmp_path):
    code = (
        "import sys, click; from scalemani.terminal.console import give_missing_streams, run\n"
        "give_missing_streams()\n"
        "sys.exit(run(click.Command('work', callback=lambda: click.echo('10⁻⁶ é')), []))"
    )
    around = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=around, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, "10\\u207b\\u2076 é\n".encode("latin-1"))


@pytest.mark.slow  # a process that imports everything
def test_a_fit_with_closed_standard_streams_writes_its_output(files):
    fit = [sys.executable, "-m", "scalemani", *shlex.split("fit train.npy run.zarr -k 8 --embedding y.npy")]
    assert subprocess.run(["/bin/sh", "-c", f"exec {shlex.join(fit)} >&- 2>&-"], check=False).returncode == 0
    assert np.load("y.npy").shape == (120, 2)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_without_room_is_one_plain_line(files, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scalemani", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
        )
    said = "scalemani: standard output can't be written: No space left on device; send it where there is room\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ("fit 'a b.npy' r.zarr --overwrite", "fit 'a b.npy' r.zarr"),
        ("fit a.npy r.zarr --overwrite --embedding=y.npy", "fit a.npy r.zarr --embedding=y.npy --overwrite-output"),
        ("fit a.npy r.zarr --embedding y.npy", "fit a.npy r.zarr --embedding y.npy"),
        (
            "fit a.npy r.zarr --embedding y.npy --overwrite-output",
            "fit a.npy r.zarr --embedding y.npy --overwrite-output",
        ),
        ("fit a.npy r.zarr --method kernel-isomap -k 5", "fit a.npy r.zarr --method kernel-isomap -k 5"),
        ("project r.zarr a.npy y.npy --overwrite", "project r.zarr a.npy y.npy --overwrite"),
    ],
)
def test_the_command_that_goes_on_is_quoted_and_replaces_outputs_alone(given, again):
    assert resume_command(shlex.split(given)) == f"scalemani {again}"


@pytest.mark.parametrize("command", ["demo", "info run.zarr", "export run.zarr model.zarr", ""])
def test_other_commands_have_nothing_to_go_on_with(program, monkeypatch, command):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", stop)
    assert program(command) == (1, "", "scalemani: stopped\n")


def test_an_option_of_its_own_replaces_the_embedding_and_keeps_the_store(files, program):
    (files / "y.npy").touch()
    assert program("fit train.npy run.zarr -k 8 --correction none --quiet")[0] == 0
    made = {path: path.stat().st_mtime_ns for path in (files / "run.zarr" / "ledger").iterdir()}
    assert made
    again = "fit train.npy run.zarr -k 8 --correction none --quiet --embedding y.npy"
    code, _, err = program(again)
    assert (code, "--overwrite-output" in err) == (2, True)
    assert program(f"{again} --overwrite-output")[0] == 0
    assert len(np.load("y.npy")) == 120
    kept = {path: path.stat().st_mtime_ns for path in (files / "run.zarr" / "ledger").iterdir()}
    assert kept == made, "the store was made again"


def test_as_a_module(files):
    done = subprocess.run([sys.executable, "-m", "scalemani", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("scalemani, version ")) == (0, True)


def test_columns_of_other_names_are_refused(tmp_path, monkeypatch):
    """The fit's headings are kept with the model: swapped columns are no test set."""
    monkeypatch.chdir(tmp_path)
    points = swiss_roll(80, random_state=0).points
    np.savetxt("fit.csv", points, delimiter=",", header="x,y,z", comments="")
    np.savetxt("other.csv", points[:, [1, 0, 2]], delimiter=",", header="y,x,z", comments="")
    assert run(cli, ["fit", "fit.csv", "run.zarr", "-k", "8", "-q"]) == 0
    assert run(cli, ["project", "run.zarr", "fit.csv", "same.csv", "-q"]) == 0
    assert run(cli, ["project", "run.zarr", "other.csv", "y.csv", "-q"]) == 2
    assert not (tmp_path / "y.csv").exists()


def test_too_little_memory_is_code_1_in_one_line_and_in_json_for_programs(files, program):
    """The machine is too small, which is no wrong use."""
    before = sorted(path.name for path in files.iterdir())
    code, out, err = program("fit train.npy run.zarr --memory-limit 1MB --quiet")
    assert (code, out, err.count("\n")) == (1, "", 1)
    planned, as_json, said = program("plan train.npy run.zarr --memory-limit 1MB --json --quiet")
    assert (planned, said) == (1, err)
    assert json.loads(as_json)["refusal"] in err
    assert sorted(path.name for path in files.iterdir()) == before
