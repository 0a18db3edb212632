"""Three ways to the additive constant, by their reads of D: Rayleigh-Ritz, shifted power iteration, Arnoldi.

Out of core a read of D is the price of everything. The table gives, for a few data sets, c* over the
median distance, the reads that each solver took (a dash where it did not get there), how far their
constants are apart, and what plain power iteration on the Cailliez matrix tends to: its dominant
eigenvalue, which is negative and is not c*.

    python workflows/constant_solvers.py           # 1,000 points each; a few minutes
    python workflows/constant_solvers.py --small   # 120 points, for a smoke test
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import eigs
from sklearn.datasets import load_digits

from scalemani.demo import swiss_roll
from scalemani.errors import SolverError
from scalemani.geodesics.paths import geodesic_rows
from scalemani.graph.build import make_graph, symmetric_graph
from scalemani.kernel.constant import CailliezOperator, arnoldi_constant, power_constant, solve
from scalemani.kernel.operators import DenseKernels
from scalemani.neighbors.search import find_neighbors
from scalemani.points.rows import read_points

ALTERNATIVES = {"power": power_constant, "arnoldi": arnoldi_constant}


def data_sets(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sphere = rng.standard_normal((n, 3))
    return {
        "Swiss roll": swiss_roll(n, random_state=0).points,
        "sphere": sphere / np.linalg.norm(sphere, axis=1, keepdims=True),
        "Gaussian, 5 features": rng.standard_normal((n, 5)),
        "digits": load_digits().data[:n],
    }


def geodesic_distances(points: np.ndarray, k: int) -> np.ndarray:
    lists = find_neighbors(read_points(points), n_neighbors=k, knn="exact")
    graph = make_graph(symmetric_graph(lists), disconnected="largest")
    rows = geodesic_rows(graph.matrix, np.arange(len(graph.order))).astype(float)
    return np.triu(rows, 1) + np.triu(rows, 1).T


def dominant(distances: np.ndarray) -> float:
    """Eigenvalue of largest modulus of [[0, 2 K2], [-I, -4 K1]], by Arnoldi: what plain power iteration finds."""
    operator = CailliezOperator(DenseKernels(distances))
    start = np.random.default_rng(0).standard_normal(operator.shape[0])
    return float(eigs(operator, k=1, which="LM", v0=start, return_eigenvectors=False)[0].real)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="120 points: a smoke test")
    parser.add_argument("--out", type=Path, help="directory for the table as constant_solvers.json")
    options = parser.parse_args()
    n, table = 120 if options.small else 1000, []
    print(f"{'data':22} {'n':>5} {'c*/median':>9} ", end="")
    print(f"{'ritz':>6} {'power':>6} {'arnoldi':>7} {'apart':>8} {'dominant/c*':>11}")
    for name, points in data_sets(n).items():
        distances = geodesic_distances(points, 10)
        kernels = DenseKernels(distances)
        constant = solve(kernels, 3).constant
        reads, apart = {"ritz": kernels.n_reads}, 0.0
        for solver, find in ALTERNATIVES.items():
            kernels = DenseKernels(distances)
            try:
                found = find(kernels)
                reads[solver] = kernels.n_reads
                apart = max(apart, abs(found / constant - 1))
            except SolverError:
                reads[solver] = "-"
        table.append({"data": name, "n": len(distances), "constant": constant, "reads": reads})
        median = np.median(distances[np.triu_indices(len(distances), 1)])
        print(
            f"{name:22} {len(distances):5d} {constant / median:9.2f} {reads['ritz']:>6} {reads['power']:>6} "
            f"{reads['arnoldi']:>7} {apart:8.0e} {dominant(distances) / constant:11.1f}"
        )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "constant_solvers.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
