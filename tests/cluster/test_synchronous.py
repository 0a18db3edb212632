"""The same functions without a cluster: `scheduler="synchronous"`, which small fits take by themselves."""

import numpy as np
import pytest
from data import roll
from threadpoolctl import threadpool_info, threadpool_limits

from scalemani import KernelIsomap, load
from scalemani.cluster.choice import open_cluster
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import ScalemaniError
from scalemani.integrity import repair, verify

pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")

X, T = roll(400), roll(60, seed=1)


def model(**arguments):
    return KernelIsomap(n_neighbors=8, knn="exact", **arguments)


def same(ours, theirs):
    np.testing.assert_array_equal(ours.embedding_, theirs.embedding_)
    assert ours.additive_constant_ == theirs.additive_constant_
    np.testing.assert_array_equal(ours.transform(T), theirs.transform(T))
    np.testing.assert_array_equal(ours.geodesics([0, 7]), theirs.geodesics([0, 7]))
    return True


@pytest.fixture
def no_cluster(monkeypatch):
    """Starting one is an error."""

    def start(*_, **__):
        raise AssertionError("a cluster was started")

    monkeypatch.setattr(DaskCluster, "__init__", start)


# ---- the choice --------------------------------------------------------------------------------


def test_small_work_takes_this_thread_and_large_work_a_cluster():
    assert not isinstance(open_cluster(None, 300**2), DaskCluster)
    assert isinstance(open_cluster(None, 20_000**2), DaskCluster)
    assert isinstance(open_cluster(None, float("nan")), DaskCluster), "rows that nobody has counted"
    assert not isinstance(open_cluster("synchronous", 20_000**2), DaskCluster)


def test_work_with_many_neighbours_or_features_a_distance_takes_a_cluster_earlier():
    """So that no fit of few points with a dense graph waits for one core."""
    assert not isinstance(open_cluster(None, 1500**2, 10), DaskCluster)
    assert isinstance(open_cluster(None, 1500**2, 300), DaskCluster)


@pytest.mark.parametrize("more", [{"n_neighbors": None, "radius": 1e9}, {"n_neighbors": 399}])
def test_a_fit_with_a_dense_graph_takes_a_cluster(monkeypatch, more):
    started = []
    monkeypatch.setattr(DaskCluster, "__init__", lambda self, *_: started.append(1) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        KernelIsomap(**more).fit(X)
    assert started


def test_a_cluster_that_is_named_or_active_is_used_for_small_work_too(client):
    with open_cluster(None, 1) as active, open_cluster(client, 1) as given:
        assert active.client is client and given.client is client
    assert not isinstance(open_cluster("synchronous", 1), DaskCluster)


# ---- the same ----------------------------------------------------------------------------------


@pytest.mark.parametrize("landmarks", [None, 50])
def test_it_has_the_bits_of_a_cluster(client, no_cluster, monkeypatch, landmarks):
    here = model(scheduler="synchronous", landmarks=landmarks).fit(X)
    here.transform(T)
    monkeypatch.undo()
    there = model(scheduler=client, landmarks=landmarks).fit(X)
    assert same(here, there)


def test_all_that_take_a_scheduler_take_it(client, no_cluster, tmp_path):
    """A client is active; none of these asks it."""
    fitted = model(scheduler="synchronous", store=tmp_path / "r").fit(X)
    fitted.transform_to(T, tmp_path / "y")
    assert fitted.plan(X).refusal is None
    assert not verify(str(tmp_path / "r"), "synchronous").faults
    next((tmp_path / "r" / "distances").rglob("c/*/*")).write_bytes(b"damaged")
    done, left = repair(str(tmp_path / "r"), "synchronous")
    assert len(done) == 1 and not left.faults


def test_the_program_takes_it(client, no_cluster, files, program):
    method = "--method kernel-isomap -k 8 --scheduler synchronous --quiet"
    assert program(f"fit train.npy r {method}")[0] == 0
    assert program("project r test.npy out.csv --scheduler synchronous --quiet")[0] == 0
    assert program("verify r --scheduler synchronous --quiet")[0] == 0


@pytest.mark.parametrize("second", ["synchronous", None])
def test_a_fit_that_was_stopped_goes_on_from_its_rows_of_tiles(client, tmp_path, second):
    """By Ctrl-C in the middle of a stage; it goes on in this thread, or on a cluster."""
    reported = []

    def stop(stage, done, total):
        reported.append((stage, done))
        if stage == "geodesics" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(store=tmp_path / "r", scheduler="synchronous", progress=stop).fit(X)
    assert reported[-1] == ("geodesics", 2)
    reported.clear()
    going_on = model(store=tmp_path / "r", scheduler=second, progress=lambda *said: reported.append(said[:2])).fit(X)
    assert min(done for stage, done in reported if stage == "geodesics") >= 2, "rows of tiles were made again"
    assert same(going_on, model().fit(X))
    assert same(load(tmp_path / "r"), going_on)


# ---- tasks -------------------------------------------------------------------------------------


def fails(i):
    if i == 2:
        raise FloatingPointError(f"task {i}")
    return i


def blas_threads(_):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("scheduler", ["synchronous", "client"])
def test_an_error_in_a_task_comes_out_as_it_is_after_the_results_before_it(client, scheduler):
    received = []
    where = {"client": client}.get(scheduler, scheduler)
    with pytest.raises(FloatingPointError, match=r"^task 2$"), open_cluster(where, 1) as cluster:
        for result in cluster.map(fails, ((i,) for i in range(9))):
            received.append(result)
    assert received == [0, 1]


def test_one_task_is_made_at_a_time():
    taken = []
    with open_cluster("synchronous", 1) as cluster:
        for i, _ in enumerate(cluster.map(fails, (taken.append(i) or (3,) for i in range(5)))):
            assert taken == list(range(i + 1))
        assert (cluster.threads, cluster.workers, cluster.shares_process) == (1, 1, True)


def test_blas_has_one_thread_in_a_task_and_what_it_had_afterwards():
    with threadpool_limits(2, user_api="blas"):
        with open_cluster("synchronous", 1) as cluster:
            assert list(cluster.map(blas_threads, [(0,)])) == [{1}]
        assert blas_threads(0) == {2}


def test_a_word_that_is_no_address_is_refused():
    with pytest.raises(ScalemaniError, match=r"no Dask scheduler answers at 'sync'.* 'synchronous'"):
        model(scheduler="sync").fit(X)
