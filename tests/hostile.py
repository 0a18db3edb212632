"""What a stranger may hand over: a run's JSON as it is written, to be spoiled, and pickles that leave a mark."""

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np

from scalemani.storage import arrays
from scalemani.storage.files import open_location
from scalemani.storage.records import COPY, ROOT, RunDocument, as_group, canonical, seal

ESCAPE = "\x1b]0;title\x07\x1b[2J"
HEX = "0123456789abcdef" * 2
NEIGHBORS = {"n_neighbors": 8, "radius": None, "metric": "euclidean", "metric_params": None, "knn": "auto"}
GRAPH = {"graph": "union", "disconnected": "error", "edge_weights": "plain"}
SOLVE = {"n_components": 1, "correction": "cailliez", "constant_solver": "ritz", "tol": 1e-6, "random_state": 0}
DOCUMENT = {
    "format_version": 1,
    "id": HEX,
    "versions": {"scalemani": "0.1.0", "numpy": "2.4.6"},
    "arrays": {"vectors": 7, "order": 2**32 - 1},
    "stages": {
        "data": {
            "fields": {"kind": "features", "n_rows": 60, "n_features": 3, "fingerprint": HEX},
            "seed": 0,
            "n_distinct": 60,
        },
        "neighbors": {
            "fields": {**NEIGHBORS, "random_state": 0},
            "listed": True,
            "method": "kdtree",
            "recall": 1.0,
            "left_out": 0,
            "account": None,
        },
        "graph": {
            "fields": GRAPH,
            "scale": 4.0,
            "n_vertices": 60,
            "n_edges": 285,
            "n_components": 1,
            "component_sizes": [60],
            "n_bridges": 0,
        },
        "shortcuts": {
            "fields": {"shortcuts": "warn", "random_state": None},
            "seed": 0,
            "looked": True,
            "n_shortcuts": 0,
            "harm": 0.0,
            "negative_mass": [0.04, 0.04],
        },
        "start": {"fields": {"n_components": 1, "correction": None, "random_state": 0}, "most_columns": 60},
        "geodesics": {"tile_size": 16, "median": 4.9},
        "solve": {
            "fields": SOLVE,
            "constant": 16.5,
            "nugget": 135.4,
            "tolerance": 0.0,
            "spectrum": {
                "correction": "cailliez",
                **dict.fromkeys(("additive_constant", "median_distance", "max_distance"), 4.9),
                **dict.fromkeys(("constant_over_median", "shift", "trace", "trace_unshifted"), 16.5),
                "eigenvalues": [33166.7],
                "eigenvalues_unshifted": [33031.3],
                "share": [0.15],
                "share_unshifted": [0.5],
                "residuals": [1e-9],
                "share_of_squares": [0.5],
                "relative_eig": [None],
                "rel_corr_eig": [0.2],
                "broken_stick": [0.3],
                "gof": [0.5, 0.5],
                "next_eigenvalue": None,
                "gap": None,
                **dict.fromkeys(("lingoes_constant", "lowest_ritz_value", "most_negative_eigenvalue"), 0.0),
                **dict.fromkeys(("negative_mass", "reconstruction_error"), 0.5),
                "complete": False,
                "converged": True,
                "n_passes": 0,
                "n_vertices": 60,
                "warnings": ["the constant is large"],
                "self_check": {"pairs": 0.0},
            },
        },
        "fit": {
            "fields": {
                **NEIGHBORS,
                **GRAPH,
                **SOLVE,
                "projection": "continuous",
                "keep_distances": True,
                "landmarks": None,
                "landmark_method": "maxmin",
                "shortcuts": "warn",
            },
        },
        "method": {"name": "kernel-isomap", "module": "scalemani.estimators.isomap"},
        "names": {"features": ["x", "y", "z"]},
    },
}
METADATA = {
    "shape": [60, 60],
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": "NaN",
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {"tiles": "upper; D is symmetric"},
    "zarr_format": 3,
    "node_type": "array",
    "storage_transformers": [],
}
LINE = {"run": HEX, "row": 2, "crc32c": [1, 2**32 - 1]}
WRITER = {"writer": HEX, "host": "n1", "boot": "b", "pid": 9, "started": 1.5, "beat": 3, "seconds": 10.0}


def one_line(error):
    """What an error says, which is one line."""
    message = str(error)
    assert message.isprintable(), message
    assert len(message) < 700, message
    return message


class Marks:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def objects(path):
    """An object array that leaves a mark at `path` when it is unpickled."""
    found = np.empty((2, 1), object)
    found[:] = Marks(path)
    return found


def pickled(path):
    """Bytes that leave a mark at `path` when they are unpickled."""
    return pickle.dumps(objects(path))


def npy_header(shape, descr="<f8"):
    """The header of an .npy, without numbers behind it."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"shape": shape, "fortran_order": False, "descr": descr})
    return made.getvalue()


def npz_of(path: Path, **members: bytes):
    """An archive with members of any bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


# ---- stores whose checksums are made anew ------------------------------------------------------------------


def sealed_array(path, name, array):
    """Put an array in a run's place of it, as one who means harm would: with all its checksums."""
    document = RunDocument(open_location(path))
    found = document.read()
    sums = {**found.arrays, name: arrays.write(open_location(path), name, array)}
    document.write(found.changed(arrays=sums))


def sealed_document(path, change):
    """Change a run's document in place, with its checksum made anew and nothing looked at."""
    path = Path(path)
    found = json.loads((path / COPY).read_text())
    change(found)
    (path / ROOT).write_bytes(as_group(seal(found)))
    (path / COPY).write_bytes(canonical(seal(found)))
