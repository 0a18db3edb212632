"""Isomap by raw stress through a store, against the dense reference's arrays.

The oracle's arrays are compared in float64 in tests/embedding/test_stress.py; through float32 tiles they agree to 1e-6.
"""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from data import dup, roll
from naive import turned
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from scalemani import Isomap, StressIsomap, load
from scalemani.embedding.stress import minimize
from scalemani.errors import ConvergenceWarning, ScalemaniError
from scalemani.integrity import repair, verify
from scalemani.steps import stress as steps
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

GIVEN = np.load(Path(__file__).parent.parent / "oracles" / "raw_stress.npz")
X, T = roll(250), roll(30, seed=1)
K = 6


class Stop(Exception):
    """Of the user's own."""


def stress_of(D, Y):
    return ((D - cdist(Y, Y)) ** 2).sum() / 2


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return StressIsomap(K, store=tmp_path_factory.mktemp("stress") / "run").fit(X)


def test_a_start_from_some_points_ends_at_the_same_map_for_fewer_reads(made, tmp_path):
    model = StressIsomap(K, start_points=100, store=tmp_path / "run").fit(X)
    assert model.stress_[-1] == pytest.approx(made.stress_[-1], rel=1e-4)
    far, near = ((one.stress_ > 1.0001 * one.stress_[-1]).sum() for one in (made, model))
    assert near < far and "solve" not in model._run.store.document.stages
    (tmp_path / "run" / "stress_coordinates" / "c" / "0" / "0").unlink()
    repair(tmp_path / "run")
    np.testing.assert_array_equal(load(tmp_path / "run").embedding_, model.embedding_)
    other = StressIsomap(K, store=tmp_path / "run").fit(X)
    np.testing.assert_array_equal(other.embedding_, made.embedding_)
    assert verify(tmp_path / "run").faults == ()


def test_no_unit_of_conformal_edges_matters():
    maps = [StressIsomap(K, edge_weights="conformal").fit_transform(rows) for rows in (X, 8 * X)]
    np.testing.assert_allclose(*maps, atol=1e-6)


@pytest.fixture
def tile_reads(monkeypatch):
    """Tiles of D that are read."""
    seen, read = [], Tiles.read

    def counted(self, row, column, buffer=None):
        seen.append((self.name, row, column))
        return read(self, row, column, buffer)

    monkeypatch.setattr(Tiles, "read", counted)
    return seen


# ---- oracles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hole", pytest.param("sphere", marks=pytest.mark.slow)])
def test_a_map_of_given_distances_is_the_references(name, tmp_path):
    D = GIVEN[f"{name}_D"]
    model = load(StressIsomap(metric="geodesic", tol=1e-12, store=tmp_path / "run").fit(D).store_)
    found, total = model.spectrum_, (D**2).sum() / 2
    assert found["stress_1_of_start"] ** 2 * total == pytest.approx(float(GIVEN[f"{name}_stress_start"]), rel=1e-6)
    assert found["stress_by_read"][0] ** 2 * total == pytest.approx(float(GIVEN[f"{name}_stress_dilated"]), rel=1e-6)
    assert found["raw_stress"] == pytest.approx(float(GIVEN[f"{name}_stress"]), rel=1e-6)
    assert found["stress_1"] == pytest.approx(float(GIVEN[f"{name}_stress1"]), rel=1e-6)
    assert stress_of(D, model.embedding_) == pytest.approx(float(GIVEN[f"{name}_stress"]), rel=1e-6)
    assert model.stress_by_point_.sum() / 2 == pytest.approx(found["raw_stress"], rel=1e-12)
    if name == "hole":  # the sphere's is nearly free to turn, and the reference says so
        expected, spread = GIVEN["hole_embedding"], np.abs(GIVEN["hole_embedding"]).max()
        turn, shift = turned(model.embedding_, expected)
        assert np.abs(model.embedding_ @ turn + shift - expected).max() <= 1e-6 * spread
        placed = model.transform(GIVEN["hole_T_D"]) @ turn + shift
        assert np.abs(placed - GIVEN["hole_T_embedding"]).max() <= 1e-6 * spread


def test_a_map_has_the_stress_that_it_says_of_its_own_distances(made):
    D = made.geodesics(np.arange(len(X)))
    assert made.spectrum_["raw_stress"] == pytest.approx(stress_of(D, made.embedding_), rel=1e-5)
    own = ((D - cdist(made.embedding_, made.embedding_)) ** 2).sum(axis=1)
    np.testing.assert_allclose(made.stress_by_point_, own, rtol=1e-4)
    assert made.stress_[-1] == made.spectrum_["stress_1"] < made.stress_[0] < made.spectrum_["stress_1_of_start"]
    start = np.sqrt(stress_of(D, Isomap(K).fit(X).embedding_) / ((D**2).sum() / 2))
    assert made.spectrum_["stress_1_of_start"] == pytest.approx(start, rel=1e-3)


def test_identical_rows_are_one_point_and_lengths_scale():
    rows = dup(60, 3)
    model = StressIsomap(n_neighbors=8).fit(rows)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(model.embedding_, model.embedding_[first][which.ravel()])
    longer = StressIsomap(n_neighbors=8).fit(rows * 1024)
    np.testing.assert_allclose(longer.embedding_, model.embedding_ * 1024, rtol=1e-9)
    assert longer.spectrum_["raw_stress"] == pytest.approx(model.spectrum_["raw_stress"] * 1024**2, rel=1e-9)


@pytest.mark.filterwarnings("ignore::scalemani.errors.RankWarning")
def test_distances_of_a_line_need_one_read_and_axes_past_their_rank_stay_0():
    line = np.arange(30.0)[:, None] * [[1.0, 1.0]]
    model = StressIsomap(2, 2).fit(line)
    assert len(model.stress_) == 1 and model.stress_[0] < 1e-7
    assert not model.embedding_[:, 1].any()


def test_conformal_edges_go_with_it():
    plain, conformal = (StressIsomap(K, edge_weights=way).fit(X) for way in ("plain", "conformal"))
    assert conformal.spectrum_["edge_weights"] == "conformal"
    assert conformal.stress_[-1] < conformal.spectrum_["stress_1_of_start"]
    assert np.abs(conformal.embedding_).max() != pytest.approx(np.abs(plain.embedding_).max(), rel=0.01)
    Y = conformal.transform(T)
    assert np.isfinite(Y).all() and np.array_equal(conformal.transform(T[3:4])[0], Y[3])


# ---- work --------------------------------------------------------------------------------------------


def test_a_step_is_one_read_of_the_distances(tile_reads, tmp_path):
    at = {}

    def report(stage, done, total):
        if stage == "stress":
            at.setdefault("begun", len(tile_reads))

    model = StressIsomap(K, store=tmp_path / "run", progress=report).fit(X)
    blocks = len(model._run.store.blocks)
    tiles = blocks * (blocks + 1) // 2
    assert len(tile_reads) - at["begun"] == len(model.stress_) * tiles
    assert model.n_passes_ * tiles >= len(model.stress_) * tiles
    assert len(model.stress_) <= 25  # Guttman's steps take some 80 to come as near


def test_it_stops_after_two_reads_that_lower_the_stress_by_less_than_tol(made):
    raw = made.stress_**2
    small = -np.diff(raw) <= 1e-5 * raw[1:]
    assert small[-2:].all() and not (small[:-2] & small[1:-1]).any()
    shorter = StressIsomap(K, tol=1e-2).fit(X)
    assert len(shorter.stress_) < len(made.stress_)
    np.testing.assert_array_equal(shorter.stress_, made.stress_[: len(shorter.stress_)])


@pytest.mark.parametrize("kill", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fit_that_is_stopped_twice_in_its_longest_step_goes_on_to_the_same_bits(made, kill, tile_reads, tmp_path):
    store = tmp_path / "run"
    for at in (4, 9):
        if kill:
            code = (
                "import os, signal, sys, numpy as np; from scalemani import StressIsomap\n"
                "def report(stage, done, total):\n"
                f"    if stage == 'stress' and done == {at}: os.kill(os.getpid(), signal.SIGKILL)\n"
                "StressIsomap(6, store=sys.argv[2], progress=report).fit(np.load(sys.argv[1]))\n"
            )
            np.save(tmp_path / "X.npy", X)
            ended = subprocess.run([sys.executable, "-c", code, tmp_path / "X.npy", store], env=os.environ, check=False)
            assert ended.returncode == -signal.SIGKILL
        else:

            def stop(stage, done, total, at=at):
                if stage == "stress" and done == at:
                    raise Stop

            with pytest.raises(Stop):
                StressIsomap(K, store=store, progress=stop).fit(X)
    tile_reads.clear()
    model = StressIsomap(K, store=store).fit(X)
    blocks = len(model._run.store.blocks)
    assert len(tile_reads) == (len(made.stress_) - 9) * blocks * (blocks + 1) // 2  # none of the nine is made again
    assert np.array_equal(model.embedding_, made.embedding_) and np.array_equal(model.stress_, made.stress_)
    assert np.array_equal(model.transform(T), made.transform(T))
    assert not verify(str(store)).faults and not list(store.glob("pieces_*"))


def test_another_tol_looks_again_also_where_distances_are_gone(made, tmp_path):
    store = tmp_path / "run"
    StressIsomap(K, store=store, keep_distances=False, tol=1e-2).fit(X)
    assert not (store / "distances").exists()
    model = StressIsomap(K, store=store, keep_distances=False).fit(X)  # D is made again from the graph
    np.testing.assert_array_equal(model.stress_, made.stress_)
    assert not (store / "distances").exists() and not verify(str(store)).faults


def test_more_axes_in_the_same_store_are_gone_on_with_after_a_stop_between_scaling_and_stress(tmp_path):
    store, rows = tmp_path / "run", X[:150]
    StressIsomap(K, store=store).fit(rows)

    def stop(stage, done, total):
        if stage == "stress":
            raise Stop

    with pytest.raises(Stop):
        StressIsomap(K, n_components=3, store=store, progress=stop).fit(rows)
    assert not verify(str(store)).damaged
    model = StressIsomap(K, n_components=3, store=store).fit(rows)
    assert np.array_equal(model.embedding_, StressIsomap(K, n_components=3).fit(rows).embedding_)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (False, True),
        (True, False),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in [(True, True), (False, False)]),
    ],
)
def test_a_damaged_map_is_looked_for_again_and_without_distances_by_the_same_fit(given, kept, tmp_path):
    store = tmp_path / "run"
    model = StressIsomap(K, metric="geodesic" if given else "euclidean", store=store, keep_distances=kept)
    rows = cdist(X[:80], X[:80]) if given else X
    before = model.fit(rows).embedding_
    for name in ("stress_coordinates", "vectors") if not kept else ("stress_coordinates",):
        file = store / name / "c" / "0" / "0"
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    done, left = repair(str(store))
    assert done and not left.damaged and left.finished == kept
    assert np.array_equal((load(store) if kept else model.fit(rows)).embedding_, before)
    assert not verify(str(store)).damaged


@pytest.mark.parametrize("landmarks", [None, 60])
def test_coordinates_that_are_not_those_of_the_stress_are_found(landmarks, tmp_path):
    model = StressIsomap(K, landmarks=landmarks, store=tmp_path / "run").fit(X)
    store = RunStore(model.store_)
    store.write_array("stress_coordinates", store.read_array("stress_coordinates") * 1.01)
    store.finish()
    assert any("stress of points" in fault.problem for fault in verify(model.store_).faults)
    assert repair(model.store_)[0] and np.array_equal(load(model.store_).embedding_, model.embedding_)


@pytest.mark.slow
def test_threads_of_a_cluster_do_not_change_a_bit(made, embedded, tmp_path):
    model = StressIsomap(K, store=tmp_path / "run").fit(X)
    assert np.array_equal(model.embedding_, made.embedding_)


# ---- new points --------------------------------------------------------------------------------------


def test_rows_one_by_one_in_blocks_and_into_zarr_have_the_bits_of_the_batch(made, tmp_path):
    whole = made.transform(T)
    assert all(np.array_equal(made.transform(T[i : i + 1])[0], whole[i]) for i in range(len(T)))
    assert np.array_equal(made.transform(T[::-1])[::-1], whole)
    assert np.array_equal(made.transform(da.from_array(T, chunks=(7, 3))).compute(), whole)
    made.transform_to(zarr.array(T, chunks=(8, 3)), tmp_path / "out.zarr")
    assert np.array_equal(zarr.open_array(tmp_path / "out.zarr")[:], whole)


def test_new_points_have_the_least_stress_and_the_spread_of_training_points(made):
    placed = made.transform(T)
    both = StressIsomap(K).fit(np.vstack([X, T]))
    turn, shift = turned(both.embedding_[: len(X)], made.embedding_)
    apart = np.linalg.norm(both.embedding_ @ turn + shift - np.vstack([made.embedding_, placed]), axis=1)
    moved, spread = np.sqrt(np.mean(apart[: len(X)] ** 2)), made.embedding_.std()
    assert np.sqrt(np.mean(apart[len(X) :] ** 2)) <= 3 * moved + 1e-3 * spread
    np.testing.assert_array_equal(made.transform(X), made.embedding_)


def test_points_without_a_path_are_nan():
    apart = np.vstack([X[:80], X[:20] + 1000])
    model = StressIsomap(K, disconnected="largest").fit(apart)
    with pytest.warns(match="no finite path"):
        found = model.transform(apart[[0, 90]])
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()
    assert np.isnan(model.stress_by_point_[80:]).all() and np.isfinite(model.stress_by_point_[:80]).all()


# ---- landmarks ---------------------------------------------------------------------------------------


def test_all_points_as_landmarks_are_the_whole_and_fewer_come_near(made):
    whole = StressIsomap(K, landmarks=len(X)).fit(X)
    assert whole.stress_[-1] == pytest.approx(made.stress_[-1], rel=1e-6)
    D = made.geodesics(np.arange(len(X)))
    best = stress_of(D, made.embedding_)
    few = StressIsomap(K, landmarks=80).fit(X)
    assert best < stress_of(D, few.embedding_) < 1.2 * best < stress_of(D, Isomap(K).fit(X).embedding_)
    assert np.isfinite(few.stress_by_point_).sum() == 80
    own = few.stress_by_point_[few.landmarks_].sum() / 2
    assert few.spectrum_["raw_stress"] == pytest.approx(own, rel=1e-12)
    placed = few.transform(T)
    assert all(np.array_equal(few.transform(T[i : i + 1])[0], placed[i]) for i in range(5))
    np.testing.assert_array_equal(few.transform(X), few.embedding_)


# ---- wrong use ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tol": 0}, "tol=0: a number from 1e-12 to 1 is needed"),
        ({"n_components": 250}, "n_components=250"),
        ({"start_points": 2.5}, "start_points=2.5: an integer of 1 or more is needed"),
        ({"start_points": 3}, "start_points=3: 2 axes need 4 points"),
        ({"start_points": 500}, "start_points=500: X has 250 distinct rows"),
        ({"start_points": 50, "landmarks": 60}, "start_points=50 with landmarks"),
    ],
)
def test_wrong_use_is_refused_in_one_line_before_a_file_is_made(given, said, tmp_path):
    with pytest.raises(ScalemaniError, match=said) as caught:
        StressIsomap(K, store=tmp_path / "run", **given).fit(X)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("landmarks", [None, 60])
def test_a_map_that_is_not_final_is_warned_about_and_the_same_fit_goes_on_from_it(landmarks, monkeypatch, tmp_path):
    made = StressIsomap(K, landmarks=landmarks).fit(X)
    monkeypatch.setattr(steps, "minimize", partial(minimize, most=5))
    again = StressIsomap(K, landmarks=landmarks, store=tmp_path / "run")
    with pytest.warns(ConvergenceWarning, match="after 5 reads.* same store, which goes on"):
        first = again.fit(X).stress_
    assert not again.spectrum_["converged"] and "after 5 reads" in again.spectrum_["warnings"][0]
    monkeypatch.undo()
    model = again.fit(X)
    assert model.spectrum_["converged"] and np.array_equal(model.stress_[:5], first) and len(model.stress_) > 5
    assert model.stress_[-1] == pytest.approx(made.stress_[-1], rel=1e-4)
    assert model.spectrum_["stress_1_of_start"] == made.spectrum_["stress_1_of_start"]


@pytest.mark.filterwarnings("ignore::scalemani.errors.UndeterminedAxesWarning")
def test_a_stress_beyond_float64_is_refused():
    here = np.arange(200)
    ring = csr_array((np.full(200, 1e150), (here, (here + 1) % 200)), shape=(200, 200))
    with pytest.raises(ScalemaniError, match="the raw stress is above 1e\\+306; divide what you gave"):
        StressIsomap(2, 1, metric="precomputed").fit(ring + ring.T)


# ---- words -------------------------------------------------------------------------------------------


def test_the_shell_fits_tells_and_reports_it(files, program):
    code, out, err = program("fit train.npy run --method stress -k 8 --tol 1e-4 --landmarks 40 --overwrite")
    assert code == 0, err
    assert "stress-1" in out and "40 by maxmin" in out
    code, out, err = program("fit train.npy run --method stress -k 8 --tol 1e-4 --overwrite")
    model = load("run")
    assert code == 0 and type(model) is StressIsomap and model.tol == 1e-4
    told = program("info run")[1]
    assert "are off by about" in told and "(stress-1)" in told and "eigenvalue" not in told and "share" not in told
    assert program("report run run.html")[0] == 0
    page = Path("run.html").read_text(encoding="utf-8")
    assert "stress-1, of the sampled pairs alone" in page  # beside the normalised stress, which is the same
    assert "Isomap by raw stress" in page and "Stress-1 is the root" in page and "eigenvalue" not in page.lower()
    assert program("project run test.npy out.npy")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), model.transform(np.load("test.npy")))
    code, _, err = program("fit train.npy other --method stress --projection paper")
    assert code != 0 and "has no --projection" in err
