"""A store is the fit: what it says is done is not done again, and a stopped run goes on to the same bits."""

import numpy as np
import pytest
from data import two
from stored_models import T, X, fitted, same

from scalemani import Isomap, KernelIsomap, fitting, load
from scalemani import fitting as pipeline
from scalemani.errors import DamagedStoreError, DisconnectedGraphError, ScalemaniError, StoreMismatchError
from scalemani.kernel import eigensolver
from scalemani.parameters import Parameters
from scalemani.steps.inputs import FeatureInput
from scalemani.storage.files import open_location
from scalemani.storage.records import RunDocument, versions
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as run_command

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

TILE_ROWS = 7  # of 32 vertices each


class Work:
    """Counts what a fit does."""

    def __init__(self, monkeypatch):
        self.reset()
        self.inside = 0  # of a call that is counted, or is the self-check's: tiles that it reads are not
        for kind, name in (
            *((Tiles, "write"), (Tiles, "read")),
            *((RunStore, "read_rows"), (RunStore, "read_columns"), (FeatureInput, "_lists")),
        ):
            self.count(monkeypatch, kind, name)

    def reset(self):
        self.counts = dict.fromkeys(("write", "read", "read_rows", "_lists"), 0)
        self.rows = []

    def count(self, monkeypatch, kind, name):
        real = getattr(kind, name)

        def counted(this, *args, **kwargs):
            if not self.inside and name in self.counts:
                self.counts[name] += 1
            if name == "write":
                self.rows.append(args[0])
            self.inside += 1
            try:
                return real(this, *args, **kwargs)
            finally:
                self.inside -= 1

        monkeypatch.setattr(kind, name, counted)


@pytest.fixture
def work(monkeypatch):
    return Work(monkeypatch)


def test_the_same_fit_again_does_no_work(work, tmp_path):
    first = fitted(tmp_path / "r")
    assert work.counts["write"] == TILE_ROWS and work.counts["_lists"] == 1
    assert work.counts["read"] == first.n_passes_ * TILE_ROWS * (TILE_ROWS + 1) // 2
    work.reset()
    again = fitted(tmp_path / "r")
    assert work.counts == dict.fromkeys(("write", "read", "read_rows", "_lists"), 0)
    same(first, again)
    assert again.n_passes_ == first.n_passes_


@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 3},
        {"correction": None},
        pytest.param({"correction": 2.5}, marks=pytest.mark.slow),
        pytest.param({"tol": 1e-3}, marks=pytest.mark.slow),
        pytest.param({"constant_solver": "arnoldi"}, marks=pytest.mark.slow),
    ],
)
def test_late_parameters_solve_again_and_nothing_else(change, work, undisturbed, run):
    changed = fitted(run, **change)
    assert work.counts["write"] == work.counts["_lists"] == 0
    read = work.counts["read"] + work.counts["read_rows"] > 0
    assert read == ("constant_solver" in change), "the first read was made with D"
    for name, value in change.items():
        assert load(run).get_params()[name] == value
    fresh = fitted(None, **change)
    same(changed, fresh)
    same(fitted(run), undisturbed)  # and back


def test_projection_alone_takes_no_work_at_all(work, undisturbed, run):
    paper = fitted(run, projection="paper")
    assert set(work.counts.values()) == {0}
    np.testing.assert_array_equal(paper.embedding_, undisturbed.embedding_)
    assert np.abs(paper.transform(T) - load(run).transform(T)).max() == 0
    assert np.abs(paper.transform(T) - undisturbed.transform(T)).max() > 1e-3


def test_both_estimators_share_a_store(work, run):
    plain = fitted(run, kind=Isomap)
    assert work.counts["write"] == 0
    assert type(load(run)) is Isomap
    same(plain, fitted(None, kind=Isomap))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n_neighbors": 9}, "n_neighbors=8"),
        ({"metric": "manhattan"}, "metric='euclidean'"),
        ({"graph": "mutual"}, "graph='union'"),
        ({"disconnected": "join"}, "disconnected='error'"),
        ({"edge_weights": "conformal"}, "edge_weights='plain'"),
        ({"knn": "exact"}, "knn='auto'"),
    ],
)
def test_other_distances_are_refused_by_the_field(change, field, work, undisturbed):
    with pytest.raises(StoreMismatchError, match=f"{field} where"):
        fitted(undisturbed.store_, **change)
    with pytest.raises(StoreMismatchError, match="other data"):
        KernelIsomap(n_neighbors=8, store=undisturbed.store_).fit(X + 1e-12)
    assert set(work.counts.values()) == {0}


def test_overwrite_replaces_a_run(work, undisturbed, run):
    other = fitted(run, overwrite=True, n_neighbors=9)
    assert work.counts["write"] == TILE_ROWS
    assert load(run).n_neighbors == 9
    assert np.abs(other.embedding_ - undisturbed.embedding_).max() > 1e-3
    work.reset()
    fitted(run, overwrite=True, n_neighbors=9)  # it replaces even the same run
    assert work.counts["write"] == TILE_ROWS


# ---- interruptions -------------------------------------------------------------------------------


def stopper(stage, after):
    """A progress function that stops the fit."""

    def report(now, done, total):
        if now == stage and done >= after:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize(
    ("stage", "done"),
    [
        *(("neighbors", 0), ("neighbors", 1), ("graph", 0), ("graph", 1), ("geodesics", 0), ("geodesics", 3)),
        *(("solve", 0), ("solve", 1)),
    ],
)
def test_an_interrupted_fit_goes_on_to_the_same_bits(stage, done, work, undisturbed, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "r", progress=stopper(stage, done))
    with pytest.raises(ScalemaniError, match="not finished"):
        load(tmp_path / "r")
    written = list(work.rows)
    if stage == "geodesics" and done == 3:
        assert 3 <= len(written) < TILE_ROWS + 4
    work.reset()
    same(fitted(tmp_path / "r"), undisturbed)
    assert not set(written) & set(work.rows), "finished tile rows were computed again"
    assert sorted(written + work.rows) == list(range(TILE_ROWS))
    assert work.counts["_lists"] == (1 if (stage, done) == ("neighbors", 0) else 0)


def test_a_fit_that_goes_on_says_from_what(tmp_path, capsys):
    """The user would not know otherwise whether the hours of yesterday are still worth something."""
    np.save(tmp_path / "X.npy", X)
    command = ["fit", str(tmp_path / "X.npy"), str(tmp_path / "run"), "-k", "8"]
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "run", progress=stopper("geodesics", TILE_ROWS))
    (tmp_path / "run" / "ledger" / "4.json").unlink()
    assert run_command(cli, command) == 0
    said = capsys.readouterr().err
    assert f"{tmp_path / 'run'}: goes on; the neighbours, the graph, 6 of 7 pieces of the distances are there\n" in said
    assert run_command(cli, command) == 0
    printed = capsys.readouterr()
    assert "goes on" not in printed.err and "nothing to do    the fit was finished before\n" in printed.out


def test_a_fit_that_is_refused_does_not_say_that_it_goes_on(tmp_path, capsys):
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "run", progress=stopper("geodesics", 2))
    assert run_command(cli, ["fit", str(tmp_path / "X.npy"), str(tmp_path / "run"), "-k", "9"]) == 2
    assert "goes on" not in capsys.readouterr().err


def begun_with(path, **releases):
    """Let an unfinished run have been begun under other releases."""
    store = RunStore(path)
    RunDocument(open_location(path)).write(store.document.changed(versions={**store.document.versions, **releases}))


@pytest.mark.parametrize(
    ("releases", "named"),
    [
        ({"scalemani": "0.0.9"}, "scalemani 0.0.9 where scalemani 0.1.0"),
        ({"numpy": "1.26.4"}, r"numpy 1.26.4 where numpy 2\."),
        ({"numba": "0.1"}, "numba 0.1 where"),
        ({"dask": "1.0", "zarr": "3.0", "pynndescent": "0.1", "scikit-learn": "0.1"}, None),
        ({"scipy": "unknown"}, None),
    ],
)
def test_an_unfinished_run_goes_on_under_the_releases_that_matter(undisturbed, tmp_path, monkeypatch, releases, named):
    """A finished one is solved again under any."""
    monkeypatch.setattr(fitting, "versions", lambda: {**versions(), "scalemani": "0.1.0"})
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "r", progress=stopper("geodesics", 3))
    begun_with(tmp_path / "r", **releases)
    if named is None:
        same(fitted(tmp_path / "r"), undisturbed)
        begun_with(tmp_path / "r", numpy="1.26.4")
        fitted(tmp_path / "r", n_components=3)
    else:
        with pytest.raises(StoreMismatchError, match=f"unfinished run begun with {named}.*go on under that release"):
            fitted(tmp_path / "r")


def test_another_size_of_tiles_is_refused_where_it_is_asked_for(run):
    with pytest.raises(StoreMismatchError, match="tile_size=32 where tile_size=16 is asked for"):
        pipeline.fit(X, Parameters(n_neighbors=8, store=str(run), tile_size=16))


def test_tiles_without_a_line_in_the_ledger_are_made_again(work, undisturbed, tmp_path):
    """A task that was killed after its tiles and before its line: what it left is not read."""
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "r", progress=stopper("geodesics", TILE_ROWS))
    (tmp_path / "r" / "ledger" / "2.json").unlink()
    for chunk in (tmp_path / "r" / "distances" / "c" / "2").iterdir():
        chunk.write_bytes(chunk.read_bytes()[:100])  # a write that was cut short
    work.reset()
    same(fitted(tmp_path / "r"), undisturbed)
    assert work.rows == [2]


@pytest.mark.parametrize("damage", ["delete", "zero", "cut", "flip"])
def test_a_damaged_tile_is_never_read_as_distances(damage, run, monkeypatch):
    chunk = run / "distances" / "c" / "1" / "4"
    content = chunk.read_bytes()
    new = {"zero": bytes(len(content)), "cut": content[:77], "flip": bytes([content[0] ^ 1]) + content[1:]}
    if damage == "delete":
        chunk.unlink()
    else:
        chunk.write_bytes(new[damage])
    monkeypatch.setattr(eigensolver, "FULL_BASIS", 1)  # else the first read, made with D, is all that is needed
    with pytest.raises(DamagedStoreError, match=r"tile \(1, 4\)"):
        fitted(run, n_components=3)
    with pytest.raises(DamagedStoreError, match=r"tile \(1, 4\)"):
        load(run).geodesics(np.arange(200))


def test_a_refused_graph_leaves_its_path_open_to_other_parameters(tmp_path):
    rows = two(60)
    with pytest.raises(DisconnectedGraphError):
        KernelIsomap(n_neighbors=5, store=tmp_path / "r").fit(rows)
    joined = KernelIsomap(n_neighbors=5, disconnected="join", store=tmp_path / "r").fit(rows)
    same_way = KernelIsomap(n_neighbors=5, disconnected="join").fit(rows)
    np.testing.assert_array_equal(joined.embedding_, same_way.embedding_)
    with pytest.raises(DisconnectedGraphError):
        KernelIsomap(n_neighbors=5, store=tmp_path / "k").fit(rows)
    more = KernelIsomap(n_neighbors=31, store=tmp_path / "k").fit(rows)
    np.testing.assert_array_equal(more.embedding_, KernelIsomap(n_neighbors=31).fit(rows).embedding_)


def test_a_model_whose_store_was_solved_again_does_not_answer_for_the_other(run):
    old = load(run)
    expected = old.transform(T)
    fitted(run, n_components=3, correction=None)
    try:
        placed = old.transform(T)
    except ScalemaniError as error:
        assert "again" in str(error)
    else:
        np.testing.assert_array_equal(placed, expected)


def test_overwrite_keeps_the_old_run_until_the_new_graph_is_possible(undisturbed, run):
    for arguments in ({"n_neighbors": 2}, {"disconnected": "largest", "n_neighbors": 2, "n_components": 55}):
        with pytest.raises(ScalemaniError):
            KernelIsomap(store=run, overwrite=True, **arguments).fit(two(60))
        same(load(run), undisturbed)


def test_functions_of_one_name_are_not_one_metric(tmp_path):
    def taxi(a, b):
        return float(np.abs(a - b).sum())

    first = taxi
    KernelIsomap(n_neighbors=8, metric=first, store=tmp_path / "r").fit(X)

    def taxi(a, b):
        return float(np.abs(a - b).max())

    with pytest.raises(ScalemaniError, match="metric"):
        KernelIsomap(n_neighbors=8, metric=taxi, store=tmp_path / "r").fit(X)


def test_progress_names_the_stages_in_order_and_counts_up(tmp_path):
    seen = []
    fitted(tmp_path / "r", progress=lambda *call: seen.append(call))
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert stages == ["points", "neighbors", "graph", "shortcuts", "geodesics", "solve"]
    done = [d for stage, d, total in seen if stage == "geodesics"]
    assert done == list(range(TILE_ROWS + 1))
