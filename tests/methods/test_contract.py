"""What every method promises, whatever it makes: one contract, held against each that is registered."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from data import roll
from scipy.spatial.distance import cdist

from scalemani import (
    LLE,
    Isomap,
    IsometricProjection,
    KernelIsomap,
    LaplacianEigenmaps,
    StressIsomap,
    load,
    methods,
)
from scalemani.errors import ScalemaniError
from scalemani.integrity import repair, verify
from scalemani.storage.run import RunStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning"),
    pytest.mark.usefixtures("quick_calibration"),
]
X, T = roll(200), roll(20, seed=1)
KERNEL = [np.exp(-0.01 * cdist(rows, X, "sqeuclidean")) for rows in (X, T)]
OWN = {"isomap", "kernel-isomap", "isometric-projection", "lle", "laplacian-eigenmaps", "stress"}
KINDS = [
    "isomap",
    "kernel-isomap",
    "landmarks",
    "isometric-projection",
    "by its kernel",
    "nystrom",
    "by loo",
    "by landmarks",
    "lle",
    "kernel lle",
    "lle of values",
    "lle by landmarks",
    "laplacian-eigenmaps",
    "normalised",
    "diffusion",
    "laplacian by landmarks",
    "stress",
    "stress by landmarks",
    "toy",
]
SLOW = {  # the others hold each step in the default run
    *("by its kernel", "by loo", "by landmarks", "lle of values", "lle by landmarks", "normalised"),
    *("laplacian by landmarks", "stress by landmarks"),
}
DOCUMENTS = ("zarr.json", "document.json")


class Stop(Exception):
    """Of the user's own."""


def estimator(kind, toy, store=None, **given):
    made, more = {
        "isomap": (Isomap, {}),
        "kernel-isomap": (KernelIsomap, {}),
        "landmarks": (KernelIsomap, {"landmarks": 20}),
        "isometric-projection": (IsometricProjection, {}),
        "by its kernel": (IsometricProjection, {"kernel": "rbf"}),
        "nystrom": (IsometricProjection, {"kernel": "rbf", "nystrom": 40}),
        "by loo": (IsometricProjection, {"ridge": "loo"}),
        "by landmarks": (IsometricProjection, {"landmarks": 40}),
        "lle": (LLE, {}),
        "kernel lle": (LLE, {"kernel": "rbf"}),
        "lle of values": (LLE, {"kernel": "precomputed"}),
        "lle by landmarks": (LLE, {"landmarks": 40}),
        "laplacian-eigenmaps": (LaplacianEigenmaps, {}),
        "normalised": (LaplacianEigenmaps, {"normalized": True, "weights": "gaussian"}),
        "diffusion": (LaplacianEigenmaps, {"alpha": 1}),
        "laplacian by landmarks": (LaplacianEigenmaps, {"landmarks": 40}),
        "stress": (StressIsomap, {}),
        "stress by landmarks": (StressIsomap, {"landmarks": 40}),
        "toy": (toy.Toy, {"start": 3}),
    }[kind]
    return made(**{"n_neighbors": 6, "store": store, **more, **given})


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in KINDS]
)
def kind(request):
    return request.param


def data(kind):
    """Training rows and new ones, or their kernel values."""
    return KERNEL if kind == "lle of values" else (X, T)


@pytest.fixture(scope="module")
def made(kind, toy, tmp_path_factory):
    """An undisturbed run of each."""
    return estimator(kind, toy, tmp_path_factory.mktemp(kind) / "run.zarr").fit(data(kind)[0])


def numbers(store):
    """Files of arrays; ledgers and documents name the run."""
    files = (file for file in Path(store).rglob("*") if file.is_file() and file.name not in DOCUMENTS)
    return {str(file.relative_to(store)): file.read_bytes() for file in files if "ledger" not in file.parts}


def test_every_method_is_held_to_it(toy):
    assert set(methods.REGISTRY) == {*OWN, "toy"}
    assert {methods.word_of(type(estimator(kind, toy))) for kind in KINDS} == set(methods.REGISTRY)


def test_a_fit_that_is_stopped_at_every_stage_ends_with_the_same_bits(kind, toy, made, tmp_path):
    seen = set()

    def stop(stage, done, total):
        if stage not in seen:
            seen.add(stage)
            raise Stop

    for _ in range(20):
        try:
            model = estimator(kind, toy, tmp_path / "r", progress=stop).fit(data(kind)[0])
            break
        except Stop:
            if (tmp_path / "r").exists():
                found = verify(str(tmp_path / "r"))
                assert not found.damaged and not found.finished
    steps = {step.name for step in model._run.steps}
    assert {"graph", *steps & {"solve", "coordinates", "toy"}} <= seen
    assert np.array_equal(model.embedding_, made.embedding_)
    assert numbers(tmp_path / "r") == numbers(made.store_)


def test_a_fit_that_is_refused_or_stopped_leaves_a_model_the_method_that_it_is_of(tmp_path):
    """Until its own result takes that one's place."""
    store = tmp_path / "run"
    model = KernelIsomap(n_neighbors=6, store=store).fit(X)

    def stop(stage, done, total):
        if stage == "solve":
            raise Stop

    for error, how in ((ScalemaniError, {"memory_limit": 1_000_000}), (Stop, {"progress": stop})):
        with pytest.raises(error):
            Isomap(n_neighbors=6, store=store, **how).fit(X)
        kept = load(store)
        assert type(kept) is KernelIsomap and np.array_equal(kept.embedding_, model.embedding_)
    Isomap(n_neighbors=6, store=store).fit(X)
    assert type(load(store)) is Isomap


def test_a_row_is_placed_as_in_its_batch_and_a_training_row_where_it_is(kind, made):
    X, T = data(kind)
    placed = made.transform(T)
    assert placed.shape == (len(T), made._n_features_out)
    for row in (0, 7, 19):
        assert np.array_equal(made.transform(T[row : row + 1])[0], placed[row])
    scale = np.abs(made.embedding_).max()
    assert np.abs(made.transform(X) - made.embedding_).max() <= 1e-5 * scale


def test_its_plan_names_the_step_that_holds_most(kind, toy):
    plan = estimator(kind, toy).plan(data(kind)[0])
    assert plan.memory_peak >= 0 and plan.memory_stage in plan.memory
    assert all(held >= 0 for parts in plan.memory.values() for held in parts.values())
    titles = [step.in_memory[1] for step in plan.steps if step.in_memory[0] in plan.memory]
    assert titles and all(title in str(plan) for title in titles)
    assert plan.record()["memory_peak"] == plan.memory_peak and plan.disk > 0


def test_every_array_of_it_is_declared_by_one_of_its_steps(made):
    run = made._run
    declared = {name for step in run.steps for name in step.record.ARRAYS}
    declared |= set(type(run.data).ARRAYS) | {name for step in run.steps for name in step.record.FOLDERS}
    assert set(run.store.document.arrays) <= declared
    assert {name for step in run.steps for name in step.left(run.store)} <= set(run.store.document.arrays)


def test_one_damaged_byte_of_any_array_is_found_and_named(made, tmp_path):
    assert not verify(made.store_).faults
    run = Path(shutil.copytree(made.store_, tmp_path / "r"))
    for name in RunStore(run).document.arrays.keys() - {"distances"}:
        chunks = [file for file in (run / name).rglob("*") if file.is_file() and file.name != "zarr.json"]
        for file in [run / name / "zarr.json", *chunks[:1]]:
            whole = file.read_bytes()
            file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            assert name in {fault.name for fault in verify(str(run)).faults}, file
            file.write_bytes(whole)
    assert not verify(str(run)).faults


def test_what_its_model_is_of_is_mended_to_the_bits_that_were_there(made, tmp_path):
    run = Path(shutil.copytree(made.store_, tmp_path / "r"))
    last = made._run.steps[-1]
    for name in last.left(RunStore(run)):
        file = next(file for file in (run / name / "c").rglob("*") if file.is_file())
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert verify(str(run)).damaged
    done, left = repair(str(run))
    assert done and not left.faults
    assert numbers(run) == numbers(made.store_)


def test_a_copy_is_loaded_and_answers_the_same(kind, made, tmp_path):
    made.export(tmp_path / "copy")
    copy = load(tmp_path / "copy")
    assert type(copy) is type(made)
    assert np.array_equal(copy.embedding_, made.embedding_)
    T = data(kind)[1]
    assert np.array_equal(copy.transform(T), made.transform(T))
    assert copy.spectrum_ == made.spectrum_
    given = {"store", "progress", "keep_distances"}
    assert {key: value for key, value in copy.get_params().items() if key not in given} == {
        key: value for key, value in made.get_params().items() if key not in given
    }
    assert not verify(str(tmp_path / "copy")).faults
