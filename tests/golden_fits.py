"""Ten small fits down to their bits: what golden.json holds of them, and the process in which they have these bits.

    python tests/golden_fits.py           # what differs from golden.json
    python tests/golden_fits.py --write   # record

BLAS and NumPy choose kernels by the processor, so the fits run in a process of their own with those of AVX2 alone:
any x86-64 machine that has it gives the same bits. OpenBLAS' kernels make a difference, in the tenth digit. NumPy's did
not (the bits were the same with AVX512_SKX, with AVX2 and with neither), nor did numba's code for AVX2 alone, which is
why that is not asked for: it would be compiled again. Points are sums and products of uniform numbers, which any kernel
rounds alike. Threads and worker processes, however many, change no bit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import google_crc32c
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_info

RECORD = Path(__file__).with_name("golden.json")
N, NEW, K = 420, 20, 8  # beyond 301 points the solver reads D block by block


def simd():
    """Instruction sets that NumPy has kernels for and this processor has."""
    sets = np.show_config(mode="dicts")["SIMD Extensions"]
    return sorted({*sets.get("baseline", []), *sets.get("found", [])})


def surface(n, seed):
    """Points of a saddle, somewhat off it: curved, so that the constant is not 0."""
    u, v, off = np.random.default_rng(seed).random((3, n))
    u, v = 4 * u, 3 * v
    return np.column_stack([u, v, 0.3 * (u - 2) * (u - 2) - 0.4 * (v - 1) * (v - 1) + 0.1 * off])


def distances(rows, columns):
    x, y, z = (rows[:, None] - columns[None]).transpose(2, 0, 1)
    return np.sqrt(x * x + y * y + z * z)


def nearest(matrix):
    """The K smallest distances of each row that are not 0, as edges."""
    some = np.argsort(np.where(matrix == 0, np.inf, matrix), axis=1, kind="stable")[:, :K]
    rows = np.repeat(np.arange(len(matrix)), K)
    return sp.csr_array((matrix[rows, some.ravel()], (rows, some.ravel())), matrix.shape)


def fits():
    """Estimator, X and new rows by name."""
    from scalemani import Isomap, KernelIsomap

    X, T = surface(N, 0), surface(NEW, 1)
    zeros = np.random.default_rng(2).random((N + NEW, 9)) < 0.6
    wide = sp.csr_array(np.where(zeros, 0.0, np.tile(np.concatenate([X, T]), 3)))
    D, E = distances(X, X), distances(T, X)
    usual = {"n_neighbors": K, "n_components": 3, "memory_limit": "1GB"}
    exact = {**usual, "knn": "exact"}
    given = {**usual, "metric": "precomputed"}
    return {
        "cailliez": (KernelIsomap(**exact), X, T),
        "lingoes": (KernelIsomap(**exact, correction="lingoes"), X, T),
        "flip": (KernelIsomap(**exact, correction="flip"), X, T),
        "Isomap, the paper's projection": (Isomap(**exact, projection="paper"), X, T),
        "CSR, no correction": (KernelIsomap(**exact, correction=None), wide[:N], wide[N:]),
        "distances, the paper's projection": (KernelIsomap(**given, projection="paper"), D, E),
        "graph": (KernelIsomap(**given), nearest(D), nearest(E)),
        "geodesics": (KernelIsomap(**{**given, "metric": "geodesic"}), D + D * D / 8, E + E * E / 8),
        "landmarks": (KernelIsomap(**exact, landmarks=80), X, T),
        "landmarks of distances": (KernelIsomap(**given, landmarks=80), D, E),
    }


def entry(values):
    values = np.ascontiguousarray(values, np.dtype(values.dtype).newbyteorder("<"))
    three = values.ravel()[np.linspace(0, values.size - 1, 3).astype(int)].tolist()  # JSON has them as repr does
    crc = f"{google_crc32c.value(values.tobytes()):08x}"
    return {"crc32c": crc, "dtype": values.dtype.str, "shape": list(values.shape), "three": three}


def results():
    """All that is recorded, of this process: arrays by fit and name, and whose sums they are."""
    made = {}
    for name, (model, X, T) in fits().items():
        made[f"{name}: X"] = entry(X.data if sp.issparse(X) else X)
        made[f"{name}: embedding"] = entry(model.fit_transform(X))
        made[f"{name}: eigenvalues"] = entry(model.eigenvalues_)
        shift = [model.additive_constant_, model.spectrum_["lingoes_constant"] or 0]
        made[f"{name}: constants c, s"] = entry(np.array(shift, float))
        made[f"{name}: transform"] = entry(model.transform(T))
    blas = {f"{b['internal_api']} {b['version']} {b['architecture']}" for b in threadpool_info() if "architecture" in b}
    releases = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"made with": {**releases, "blas": sorted(blas)}, **made}


def run():
    """The results of a process that takes the kernels of AVX2."""
    off = [name for name in simd() if name.startswith("AVX512") or name == "X86_V4"]  # NumPy warns of what is not there
    off += os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    env = {**os.environ, "OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
    env |= {"NPY_DISABLE_CPU_FEATURES": " ".join(off)} if off else {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        done = subprocess.run([sys.executable, __file__, "--here", str(out)], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(out.read_text())


def differences(recorded, now):
    """One line each of what differs."""
    return [f"{name}: {now.get(name)}, recorded {recorded.get(name)}" for name in {**recorded, **now}
            if now.get(name) != recorded.get(name)]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record what there is now")
    parser.add_argument("--here", metavar="FILE", help="the fits in this process, into a file")
    options = parser.parse_args()
    if options.here:
        Path(options.here).write_text(json.dumps(results()))
    elif options.write:
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in run().items()]
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        print("\n".join(differences(json.loads(RECORD.read_text()), run())) or "nothing differs")
