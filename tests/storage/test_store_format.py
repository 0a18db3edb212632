"""docs/store-format.md is enough to read a store: by Zarr, JSON and NumPy, with nothing of this package."""

import json
import re
from pathlib import Path

import google_crc32c  # which Zarr takes too
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from data import roll
from scipy.spatial.distance import cdist

from scalemani import LLE, Isomap, IsometricProjection, KernelIsomap, LaplacianEigenmaps, StressIsomap
from scalemani.steps import map_records, pair_records, records
from scalemani.storage.records import Line, WriterRecord, known_steps
from scalemani.storage.run import RunStore
from scalemani.storage.writer import Writer

PAGE = (Path(__file__).parents[2] / "docs" / "store-format.md").read_text(encoding="utf-8")
N_ROWS, K = 167, 9
MATRICES = ("distances_to_landmarks", "landmark_rows")
STEPS = {name: kind for name, kind in known_steps().items() if kind.__module__.startswith("scalemani.")}
EXPECTED = {name: expected for kind in STEPS.values() for name, expected in kind.ARRAYS.items()}


@pytest.fixture(scope="module")
def page():
    """The names that the page's code defines."""
    found = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(code, found)
    return found


@pytest.fixture(scope="module")
def points():
    """A roll with rows that are equal, and three far away that no path leads to."""
    X = roll(N_ROWS - 10)
    return np.vstack([X, X[:7], 1000.0 + X[:3]])


@pytest.fixture(scope="module")
def stores(points, tmp_path_factory):
    """Name -> model, of fits that leave stores of each kind."""
    folder = tmp_path_factory.mktemp("stores")
    common = {"n_neighbors": K, "graph": "mutual", "disconnected": "largest"}
    wholly = cdist(points[:60], points[:60])
    frame = pd.DataFrame(points, [f"point ä{i}" for i in range(N_ROWS)], ["x", "y", "z"])
    made = {
        "full": (KernelIsomap(store=folder / "full", correction="lingoes", compression="lz4", **common), frame),
        "plain": (Isomap(store=folder / "plain", **common), points),
        "flip": (KernelIsomap(store=folder / "flip", correction="flip", **common), points),
        "landmarks": (KernelIsomap(store=folder / "landmarks", landmarks=30, correction="lingoes", **common), points),
        "bent": (Isomap(store=folder / "bent", n_neighbors=8), roll(310)),
        "mended": (Isomap(store=folder / "mended", n_neighbors=8, shortcuts="remove"), roll(310)),
        "conformal": (Isomap(store=folder / "conformal", n_neighbors=K, edge_weights="conformal"), points[:60]),
        "sparse": (Isomap(store=folder / "sparse", n_neighbors=K), sp.csr_array(points[:60])),
        "given": (Isomap(store=folder / "given", n_neighbors=K, metric="precomputed"), wholly),
        "geodesic": (Isomap(store=folder / "geodesic", metric="geodesic"), wholly),
        "minkowski": (
            Isomap(store=folder / "p", n_neighbors=K, metric="minkowski", metric_params={"p": np.inf}),
            points[:60],
        ),
        "map": (IsometricProjection(store=folder / "map", n_neighbors=K), points[:60]),
        "kernel map": (IsometricProjection(store=folder / "kernel", n_neighbors=K, kernel="rbf"), points[:60]),
        "lle": (LLE(store=folder / "lle", **common), points),
        "kernel lle": (LLE(store=folder / "kernel lle", n_neighbors=K, kernel="rbf"), points[:60]),
        "lle by landmarks": (LLE(store=folder / "lle landmarks", n_neighbors=K, landmarks=20), points[:60]),
        "laplacian": (LaplacianEigenmaps(store=folder / "laplacian", weights="gaussian", **common), points),
        "diffusion": (LaplacianEigenmaps(store=folder / "diffusion", n_neighbors=K, alpha=1.0), points[:60]),
        "laplacian by landmarks": (
            LaplacianEigenmaps(store=folder / "laplacian landmarks", n_neighbors=K, landmarks=range(0, 60, 3)),
            points[:60],
        ),
        "stress": (StressIsomap(store=folder / "stress", **common), points),
        "stress by landmarks": (
            StressIsomap(store=folder / "stress landmarks", n_neighbors=K, landmarks=20),
            points[:60],
        ),
        "labelled": (IsometricProjection(store=folder / "labelled", n_neighbors=K, disconnected="join"), points[:60]),
    }
    labels = {"labelled": np.arange(60) % 2}
    with pytest.warns() as _:
        return {name: model.fit(X, labels.get(name)) for name, (model, X) in made.items()}


def document(path):
    return json.loads(Path(path, "zarr.json").read_text(encoding="utf-8"))["attributes"]["scalemani"]


def crc(content):
    return google_crc32c.value(bytes(content))


# ---- the page's code ---------------------------------------------------------------------------


EVERY = ["full", "plain", "flip", "landmarks", "sparse", "given", "geodesic", "map", "kernel map", "labelled"]
EVERY += ["lle", "kernel lle", "lle by landmarks", "laplacian", "diffusion", "laplacian by landmarks"]
EVERY += ["stress", "stress by landmarks"]


@pytest.mark.parametrize("name", EVERY)
def test_the_embedding_is_read_as_the_page_says(page, stores, name):
    model = stores[name]
    found = page["embedding"](model.store)
    np.testing.assert_allclose(found, model.embedding_, rtol=1e-13, atol=1e-13 * np.nanmax(abs(found)))
    assert np.isnan(found).any() == (name in ("full", "plain", "flip", "landmarks", "lle", "laplacian", "stress"))


@pytest.mark.parametrize("name", ["full", "plain", "geodesic"])
@pytest.mark.parametrize("row", [0, 31, 59])
def test_a_row_of_distances_is_read_as_the_page_says(page, stores, name, row):
    """Of tiles that are compressed, too; in the user's unit and order."""
    model = stores[name]
    found = page["row_of_distances"](model.store, row)
    np.testing.assert_array_equal(found, model.geodesics([row])[0])


def test_a_landmarks_distances_are_a_column_times_the_scale(page, stores):
    model = stores["landmarks"]
    run = zarr.open_group(model.store, mode="r")
    scale = document(model.store)["stages"]["graph"]["scale"]
    found = page["by_row"](run["distances_to_landmarks"][:, 3].astype(float) * scale, run["vertex"][:])
    row = int(np.flatnonzero(run["vertex"][:] == run["landmarks"][3])[0])
    np.testing.assert_allclose(found, model.geodesics([row])[0], rtol=1e-5)


def test_lengths_have_the_units_that_the_page_says(stores):
    """Neighbours' in the user's, edges' in that of the tiles."""
    run = zarr.open_group(stores["plain"].store, mode="r")
    points, order, scale = (
        run["points"][:],
        run["order"][:],
        document(stores["plain"].store)["stages"]["graph"]["scale"],
    )
    for part, rows, lengths in (("neighbors", points, "distances"), ("graph", points[order] / scale, "weights")):
        indptr, indices = run[f"{part}_indptr"][:], run[f"{part}_indices"][:]
        ends = rows[np.repeat(np.arange(len(rows)), np.diff(indptr))], rows[indices]
        found = np.linalg.norm(ends[0] - ends[1], axis=1)
        np.testing.assert_allclose(run[f"{part}_{lengths}"][:], found, rtol=1e-6)
    np.testing.assert_array_equal(run["vertex_of_distinct"][:][order], np.arange(len(order)))


def test_ids_of_rows_are_read_as_the_page_says(stores):
    run = zarr.open_group(stores["full"].store, mode="r")
    starts, text = run["row_id_starts"][:], run["row_id_text"][:].tobytes()
    assert text[starts[31] : starts[32]].decode() == "point ä31" and starts[-1] == len(text)


def test_weights_and_a_landmarks_map_are_what_the_page_says(stores):
    """Each point's weights add up to 1 and rebuild it nearly; a landmark has weight 1 of itself."""
    run = zarr.open_group(stores["lle"].store, mode="r")
    indptr, indices, values = (run[f"weights_{part}"][:] for part in ("indptr", "indices", "values"))
    n = len(indptr) - 1
    W, Y = sp.csr_array((values, indices, indptr), shape=(n, n)), run["pair_coordinates"][:]
    np.testing.assert_allclose(W.sum(axis=1), 1, rtol=1e-12)
    left = ((Y - W @ Y) ** 2).mean(axis=0)
    np.testing.assert_allclose(left, document(stores["lle"].store)["stages"]["pairs"]["eigenvalues"], rtol=1e-6)
    for name in ("lle by landmarks", "laplacian by landmarks"):
        run = zarr.open_group(stores[name].store, mode="r")
        np.testing.assert_allclose(run["pair_map"][:], run["pair_coordinates"][:][run["pair_landmarks"][:]], atol=1e-12)


def test_the_counts_of_distances_are_by_the_bits_that_the_page_says(stores):
    run = zarr.open_group(stores["plain"].store, mode="r")
    D = run["distances"][:]
    pairs = D[np.triu_indices(len(D), 1)]
    bins = np.where(pairs == 0, 0, 1 + (pairs.view(np.uint32) >> 20))
    np.testing.assert_array_equal(run["distance_counts"][:], np.bincount(bins, minlength=2042))


def test_the_parameters_are_read(stores):
    said = document(stores["full"].store)["stages"]["fit"]["fields"]
    assert said["n_neighbors"] == K and said["correction"] == "lingoes" and said["disconnected"] == "largest"
    listed = PAGE.partition("### `fit`")[2].partition("###")[0]
    every, _, own = listed.partition("| of the method")
    assert said.keys() == set(re.findall(r"`(\w+)`", every)) - {"fields"}
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", own, re.M))
    names = {"map": "isometric-projection", "lle": "lle", "laplacian": "laplacian-eigenmaps"}
    assert rows.keys() == {*names.values()}
    for name, method in names.items():
        stages = document(stores[name].store)["stages"]
        assert stages["method"]["name"] == method
        assert stages["fit"]["fields"].keys() - said.keys() == set(re.findall(r"`(\w+)`", rows[method]))
    assert document(stores["minkowski"].store)["stages"]["fit"]["fields"]["metric_params"] == {"p": {"float": "inf"}}


# ---- checksums ---------------------------------------------------------------------------------


def test_the_documents_checksum_is_of_its_text(stores):
    for model in stores.values():
        group, copy = Path(model.store, "zarr.json").read_bytes(), Path(model.store, "document.json").read_bytes()
        before, after = b'{"attributes":{"scalemani":', b'},"node_type":"group","zarr_format":3}'
        assert group == before + copy + after
        said = json.loads(copy)["crc32c"]
        assert crc(copy.replace(b'"crc32c":%d,' % said, b"", 1)) == said


def test_the_checksums_of_arrays_are_as_the_page_says(stores):
    checked = set()
    for model in stores.values():
        run = zarr.open_group(model.store, mode="r")
        for name, known in document(model.store)["arrays"].items():
            assert crc(Path(model.store, name, "zarr.json").read_bytes()) == known
            if name == "distances":
                continue
            array = run[name]
            assert array.attrs["name"] == name and crc(array[...].tobytes()) == array.attrs["crc32c"]
            for chunk in Path(model.store, name).glob("c/**/*"):
                if chunk.is_file():
                    content = chunk.read_bytes()
                    assert crc(content[:-4]) == int.from_bytes(content[-4:], "little")
                    checked.add(name)
    assert len(checked) >= 25


@pytest.mark.parametrize("name", ["full", "plain", "landmarks"])
def test_the_ledger_has_the_checksums_of_the_tiles(stores, name):
    path = Path(stores[name].store)
    matrix = path / ("distances_to_landmarks" if name == "landmarks" else "distances")
    ledger = matrix / "ledger" if name == "landmarks" else path / "ledger"
    metadata = json.loads((matrix / "zarr.json").read_text(encoding="utf-8"))
    shape, chunk = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
    rows, columns = (-(-side // length) for side, length in zip(shape, chunk, strict=True))
    assert len(list(ledger.iterdir())) == rows >= (1 if name == "landmarks" else 3)
    for row in range(rows):
        line = json.loads((ledger / f"{row}.json").read_text(encoding="utf-8"))
        assert line["run"] == document(path)["id"] and line["row"] == row
        first = 0 if name == "landmarks" else row
        there = [(matrix / "c" / str(row) / str(column)).read_bytes() for column in range(first, columns)]
        assert line["crc32c"] == [crc(content) for content in there]


def test_a_piece_of_unfinished_work_is_as_the_page_says(points, tmp_path):
    Isomap(n_neighbors=K, store=tmp_path / "run", disconnected="join").fit(points)
    arrays = [np.arange(6.0).reshape(2, 3), np.array([7, 8])]
    RunStore(tmp_path / "run").pieces("solve", {"made": "of this"}).put("read_0", arrays)
    content = (tmp_path / "run" / "pieces_solve" / "read_0.kept").read_bytes()
    assert crc(content[8:]) == int(content[:8], 16) and content[8:9] == b"\n"
    end = content.index(b"\n", 9)
    said = json.loads(content[9:end])
    assert said["name"] == "read_0" and re.fullmatch("[0-9a-f]+", said["of"]) and (end + 1) % 8 == 0
    for (dtype, shape), array in zip(said["arrays"], arrays, strict=True):
        size = 8 * array.size
        np.testing.assert_array_equal(np.frombuffer(content[end + 1 : end + 1 + size], dtype).reshape(shape), array)
        end += size


# ---- what is there is named --------------------------------------------------------------------


def section(step):
    found = re.search(rf"^### `{step}`\n(.*?)(?=^##)", PAGE, re.S | re.M)
    assert found is not None, f"no section on the step {step!r}"
    return found[1]


def names(text):
    return set(re.findall(r"`([\w.<>/]+)`", text))


def unnamed(said, known, before=""):
    """Keys of a record, at any depth, that are not in a section's words."""
    return {
        before + key
        for key, value in said.items()
        if before + key not in known
        and not (isinstance(value, dict) and value and not unnamed(value, known, f"{before}{key}."))
    }


def test_every_array_and_field_of_the_stores_is_on_the_page(stores):
    steps, arrays = set(), set()
    for model in stores.values():
        said = document(model.store)
        assert said.keys() <= names(PAGE.partition("## The document")[2].partition("## ")[0])
        for step, record in said["stages"].items():
            if step != "fit":
                bare = {key: value for key, value in record.items() if key != "spectrum"}
                assert not unnamed(bare, names(section(step))), step
                assert record.get("spectrum", {}).keys() <= names(section(step))
        there = {entry.name for entry in Path(model.store).iterdir() if entry.is_dir()}
        assert there - {"ledger", "distances_to_landmarks"} == said["arrays"].keys()
        steps |= said["stages"].keys()
        arrays |= there
    assert arrays - {"ledger"} <= names(PAGE)
    assert steps >= {*STEPS} - {"redo"}
    assert arrays >= {*EXPECTED}


def test_every_array_and_field_that_a_store_may_have_is_on_the_page():
    """Those that no fit leaves, too: marks of a repair, lines of a ledger, the writer's file."""
    for step, kind in STEPS.items():
        known = names(section(step))
        assert {field for field in kind.__struct_fields__ if field != "fields"} <= known, step
        fields = kind.__annotations__.get("fields")
        if isinstance(fields, str):
            fields = next(
                getattr(part, fields) for part in (records, map_records, pair_records) if hasattr(part, fields)
            )
        inside = getattr(fields, "__struct_fields__", ())
        assert {f"fields.{field}" for field in inside} <= known, step
    assert {*records.SpectrumRecord.__struct_fields__, "self_check"} <= names(section("solve"))
    assert {*EXPECTED, *MATRICES} <= names(PAGE)
    assert {*Line.__struct_fields__} <= names(PAGE.partition("## D in tiles")[2].partition("## ")[0])
    assert {*WriterRecord.__struct_fields__} <= names(PAGE.partition("**The writer's file**")[2])


def test_the_table_of_arrays_has_their_dtypes():
    table = PAGE.partition("## Arrays")[2].partition("## D in tiles")[0]
    for name, expected in EXPECTED.items():
        line = next(line for line in table.splitlines() if f"`{name}`" in line.partition(" | ")[0])
        for dtype in expected.dtypes.split() if expected.dtypes != "a real dtype" else ["as given"]:
            assert dtype in line, name


def test_the_writers_file_is_beside_the_store(tmp_path):
    with Writer(tmp_path / "run"):
        said = json.loads((tmp_path / ".run.writer.json").read_text(encoding="utf-8"))
    assert said.keys() == {"writer", "host", "boot", "pid", "started", "beat", "seconds"}
    assert not (tmp_path / ".run.writer.json").exists()
