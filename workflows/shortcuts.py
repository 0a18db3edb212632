"""Counts false alarms, alarms and mended maps of the search for shortcut edges, on graphs whose leaps are known.

Sound clouds: rolls, S-curves, spheres, tori, rings, knots, trees, holes, bottlenecks, clusters tied by a few edges,
clouds and cubes in 2 to 50 dimensions, digits, wine, iris, images of a bump. Whatever is found there is a false alarm.

Ruined maps: rolls of several sizes, noises and numbers of neighbours; S-curves, tori and images of a bump with planted
leaps. A map counts as ruined if its correlation with the truth is below 0.9, and 0.97 or more without the edges that
leap. It is mended if the correlation comes to 0.99 of what it is without them.

    python workflows/shortcuts.py --seeds 5 6 7 8 9    # the table of the README, some minutes
    python workflows/shortcuts.py --small              # a smoke test
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from scalemani.demo import swiss_roll
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import power_of_two_scale, scaled
from scalemani.geodesics.shortcuts import find_shortcuts, shortcut_sources
from scalemani.graph.edges import with_edges, without_edges
from scalemani.parameters import Parameters
from scalemani.steps.inputs import read_input

SAMPLED = 400  # points whose map is judged


class Cloud(NamedTuple):
    """Points, what they are, neighbours, and what the first axes should show: (n, q), or None for paths on the surface.

    leaps: (rows, rows) -> whether an edge between them leaps. planted: Further edges, which do.
    """

    name: str
    points: Any
    k: int
    leaps: Any = None
    truth: Any = None
    planted: Any = None


def graph_of(cloud: Cloud) -> tuple[Any, Any]:
    """The graph, its vertices in the order of the rows, and bridges that joined its parts."""
    points = read_input(cloud.points, "euclidean")
    parameters = Parameters(n_neighbors=cloud.k, disconnected="join")
    made = points.graph(parameters, points.lists(parameters))
    back = np.argsort(made.order)
    matrix = sp.csr_array(made.matrix[back][:, back])
    matrix.sort_indices()
    if cloud.planted is not None:
        matrix = with_edges(matrix, cloud.planted, np.full(len(cloud.planted), np.quantile(matrix.data, 0.95)))
    return scaled(matrix, power_of_two_scale(matrix.data)), made.bridges


def found_in(graph: Any, bridges: Any, seed: int = 0) -> Any:
    """The shortcuts that a fit finds in a graph."""
    sources = shortcut_sources(graph.shape[0], seed)
    return find_shortcuts(graph, sources, geodesic_rows(graph, sources), bridges)


# ---- clouds ------------------------------------------------------------------------------------------


def sound(seed: int) -> Iterator[Cloud]:
    """Clouds in which no edge should leap, or in which those that do are known and taken out."""
    rng = np.random.default_rng([seed, 1])
    for n, noise, k in ((500, 0.0, 8), (1200, 0.0, 10), (1200, 0.1, 8), (2000, 0.1, 10), (5000, 0.25, 10)):
        yield roll(f"roll of {n}, noise {noise}, k {k}", n, noise, k, 1000 + seed)
    for n, noise, k in ((1000, 0.0, 8), (1000, 0.05, 10)):
        yield Cloud(f"S-curve, noise {noise}", s_curve(rng, n, noise)[0], k)
    points = rng.standard_normal((1500, 3))
    yield Cloud("sphere", points / np.linalg.norm(points, axis=1)[:, None], 8)
    yield Cloud("torus", torus(rng, 1500)[0], 8)
    yield Cloud("torus, noise", torus(rng, 2500)[0] + 0.1 * rng.standard_normal((2500, 3)), 12)
    for n, noise, k in ((500, 0.02, 5), (1000, 0.1, 10), (1000, 0.2, 10), (2000, 0.05, 6)):
        yield Cloud(f"ring, noise {noise}", circle(rng.random(n)) + noise * rng.standard_normal((n, 2)), k)
    turn = 2 * np.pi * rng.random(600)
    knot = np.c_[np.sin(turn) + 2 * np.sin(2 * turn), np.cos(turn) - 2 * np.cos(2 * turn), -np.sin(3 * turn)]
    yield Cloud("trefoil knot", knot + 0.05 * rng.standard_normal((600, 3)), 6)
    along = 6 * np.pi * rng.random(800)
    yield Cloud("helix", np.c_[np.cos(along), np.sin(along), 0.15 * along] + 0.03 * rng.standard_normal((800, 3)), 6)
    height = rng.random(1500)
    yield Cloud("cylinder", np.c_[circle(rng.random(1500)), 2 * height], 8)
    arms = rng.integers(0, 7, 800)
    ends = rng.standard_normal((7, 5))
    yield Cloud("tree", 4 * rng.random((800, 1)) * ends[arms] + 0.05 * rng.standard_normal((800, 5)), 8)
    square = rng.random((3000, 2))
    yield Cloud("square with a hole", square[np.linalg.norm(square - 0.5, axis=1) > 0.25][:1500], 10)
    strip = np.c_[1 + 0.6 * rng.random(40), 0.45 + 0.1 * rng.random(40)]
    yield Cloud("two squares and a strip", np.r_[rng.random((600, 2)), rng.random((600, 2)) + [1.6, 0], strip], 8)
    bell = 0.4 * rng.standard_normal((1000, 2)) + np.repeat([[-2.0, 0], [2, 0]], 500, axis=0)
    yield Cloud("dumbbell", np.r_[bell, np.c_[np.linspace(-1.6, 1.6, 60), 0.02 * rng.standard_normal(60)]], 7)
    for dimension, apart, many, ties in (
        (2, 6, 2, 2),
        (2, 6, 3, 3),
        (10, 8, 2, 0),
        (10, 8, 2, 5),
        (10, 8, 3, 4),
        (10, 4.5, 2, 0),
    ):
        label = rng.integers(many, size=800)
        points = rng.standard_normal((800, dimension))
        points[:, 0] += apart * label
        pairs = [
            [rng.choice(np.flatnonzero(label == some)) for some in rng.choice(many, 2, replace=False)]
            for _ in range(ties)
        ]
        yield Cloud(
            f"{many} clusters, {ties} ties, in {dimension}-D", points, 8, planted=np.array(pairs) if ties else None
        )
    for dimension, k in ((2, 8), (3, 10), (5, 10), (10, 10), (20, 10), (50, 10)):
        yield Cloud(f"Gaussian cloud in {dimension}-D", rng.standard_normal((1500, dimension)), k)
    for dimension in (2, 3, 6):
        yield Cloud(f"cube in {dimension}-D", rng.random((2000, dimension)), 8)
    for name, load in (
        ("digits", load_digits),
        ("iris", load_iris),
        ("wine", load_wine),
        ("breast cancer", load_breast_cancer),
    ):
        data = load().data
        data = data if name == "digits" else (data - data.mean(axis=0)) / data.std(axis=0)
        some = data[rng.permutation(len(data))[: int(0.9 * len(data))]]
        yield Cloud(f"{name}, k 6", some, 6)
        yield Cloud(f"{name}, k 10", some, 10)
    yield Cloud("images of a bump", bumps(rng, 1200)[0], 8)


def offered(seed: int, small: bool) -> Iterator[Cloud]:
    """Clouds in which edges leap, whether or not they ruin the map."""
    rng = np.random.default_rng([seed, 2])
    grid = [(500, v, k) for v in (0.2, 0.4) for k in (8, 10)] + [
        (800, v, k) for v in (0.2, 0.3, 0.4) for k in (8, 10, 12)
    ]
    grid += [(1200, v, k) for v in (0.2, 0.3, 0.4, 0.5) for k in (8, 10, 12, 15)]
    grid += [(2000, v, k) for v in (0.3, 0.4, 0.5, 0.6) for k in (8, 10, 15, 20)]
    grid += [(5000, 0.5, 8), (5000, 0.6, 10), (5000, 0.4, 15), (20000, 0.6, 8), (20000, 0.5, 10)]
    for at, (n, noise, k) in enumerate(grid[8:20:3] if small else grid):
        yield roll(f"roll of {n}, noise {noise}, k {k}", n, noise, k, 2000 + 100 * seed + at)
    for n, many, k in ((800, 1, 8), (1500, 2, 10), (2500, 5, 12)):
        points, along = s_curve(rng, n, 0.05)
        far = lambda i, j, along=along: np.abs(along[i] - along[j]) > 3.5  # noqa: E731
        yield Cloud(f"S-curve, {many} planted", points, k, far, along[:, None], planted(rng, n, many, far))
    for n, many, k in ((1200, 1, 8), (1200, 2, 8), (2000, 2, 10), (2000, 4, 12)):
        points, around = torus(rng, n)
        far = lambda i, j, around=around: np.abs((around[i] - around[j] + np.pi) % (2 * np.pi) - np.pi) > 2.6  # noqa: E731
        yield Cloud(f"torus, {many} planted", points, k, far, None, planted(rng, n, many, far))
    for n, many, k in ((1000, 1, 8), (1500, 2, 8), (2000, 3, 10)):
        points, center = bumps(rng, n)
        far = lambda i, j, c=center: np.linalg.norm(c[i] - c[j], axis=-1) > 0.75 * np.ptp(c[:, 0]) * np.sqrt(2)  # noqa: E731
        yield Cloud(f"images of a bump, {many} planted", points, k, far, center, planted(rng, n, many, far))


def roll(name: str, n: int, noise: float, k: int, seed: int) -> Cloud:
    """A Swiss roll; an edge leaps if its ends are more than half a turn apart."""
    made = swiss_roll(n, noise_variance=noise, random_state=seed)
    turn = np.linspace(1.5 * np.pi, 4.5 * np.pi, 20_000)
    length = 0.5 * (turn * np.sqrt(1 + turn**2) + np.arcsinh(turn))
    at = np.interp(made.parameters[:, 0], length - length[0], turn)
    return Cloud(name, made.points, k, lambda i, j: np.abs(at[i] - at[j]) > np.pi, made.parameters[:, :1])


def s_curve(rng: Any, n: int, noise: float) -> tuple[Any, Any]:
    """Points, and how far each is along it."""
    t = 3 * np.pi * (rng.random(n) - 0.5)
    points = np.c_[np.sin(t), 3 * rng.random(n), np.sign(t) * (np.cos(t) - 1)]
    return points + noise * rng.standard_normal((n, 3)), t


def torus(rng: Any, n: int) -> tuple[Any, Any]:
    """Points that are even on the surface, and the angle around the hole."""
    u, v, keep = 2 * np.pi * rng.random(4 * n), 2 * np.pi * rng.random(4 * n), rng.random(4 * n)
    u, v = (angle[keep < (3 + np.cos(v)) / 4][:n] for angle in (u, v))
    return np.c_[(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), np.sin(v)], u


def circle(share: Any) -> Any:
    """Points on the unit circle."""
    return np.c_[np.cos(2 * np.pi * share), np.sin(2 * np.pi * share)]


def bumps(rng: Any, n: int) -> tuple[Any, Any]:
    """Images (n, 400) of one bump, and where it is."""
    center, pixel = 3 + 13 * rng.random((n, 2)), np.arange(20)
    across, up = (np.exp(-((pixel - center[:, [axis]]) ** 2) / 12.5) for axis in (0, 1))
    return (across[:, :, None] * up[:, None, :]).reshape(n, -1), center


def planted(rng: Any, n: int, many: int, far: Any) -> Any:
    """Pairs of rows that are far apart."""
    pairs = np.sort(rng.integers(n, size=(4000, 2)), axis=1)
    pairs = np.unique(pairs[far(pairs[:, 0], pairs[:, 1])], axis=0)
    return pairs[rng.choice(len(pairs), many, replace=False)]


# ---- the count ---------------------------------------------------------------------------------------


def leaping(cloud: Cloud, graph: Any) -> Any:
    """The edges that leap (c, 2)."""
    upper = sp.triu(graph).tocoo()
    far = cloud.leaps(upper.row, upper.col)
    return np.column_stack([upper.row[far], upper.col[far]]).astype(np.int64)


def quality(cloud: Cloud, graph: Any, reference: Any = None) -> float:
    """Least correlation of a truth with the best linear function of the axes; else of paths with a reference's."""
    some = np.sort(np.random.default_rng(0).choice(graph.shape[0], min(SAMPLED, graph.shape[0]), replace=False))
    rows = geodesic_rows(graph, some)[:, some].astype(np.float64)
    if not np.isfinite(rows).all():
        return 0.0
    if cloud.truth is None:
        others = geodesic_rows(reference, some)[:, some]
        pairs = np.triu_indices(len(some), 1)
        return float(np.corrcoef(rows[pairs], others[pairs])[0, 1])
    squares = ((rows + rows.T) / 2) ** 2
    means = squares.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (squares - means - means[:, None] + means.mean()))
    axes = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, : cloud.truth.shape[1]]
    axes = np.c_[axes, np.ones(len(axes))]
    fitted = [(axes @ np.linalg.lstsq(axes, one, rcond=None)[0], one) for one in cloud.truth[some].T]
    return min(float(np.corrcoef(*both)[0, 1]) for both in fitted)


def count(seeds: list[int], small: bool) -> dict[str, Any]:
    """False alarms, alarms, mended maps; each that went wrong is printed."""
    counted = {"sound": 0, "false alarms": 0, "ruined": 0, "alarms": 0, "mended": 0}
    for seed in seeds:
        for at, cloud in enumerate(sound(seed)):
            if small and at % 6:
                continue
            graph, bridges = graph_of(cloud)
            if cloud.leaps is not None:
                graph = without_edges(graph, leaping(cloud, graph))
            found = len(found_in(graph, bridges).edges)
            counted["sound"] += 1
            counted["false alarms"] += bool(found)
            if found:
                print(f"seed {seed}, {cloud.name}: false alarm, {found} edges", flush=True)
        for cloud in offered(seed, small):
            graph, bridges = graph_of(cloud)
            bad = leaping(cloud, graph)
            clean = without_edges(graph, bad)
            best = quality(cloud, clean, clean) if 0 < len(bad) <= 60 else 0.0
            if best < 0.97 or quality(cloud, graph, clean) >= 0.9:
                continue
            edges = found_in(graph, bridges).edges
            after = quality(cloud, without_edges(graph, edges), clean) if len(edges) else 0.0
            counted["ruined"] += 1
            counted["alarms"] += bool(len(edges))
            counted["mended"] += after >= 0.99 * best
            if after < 0.99 * best:
                what = f"{len(edges)} edges found" if len(edges) else "no alarm"
                print(
                    f"seed {seed}, {cloud.name}: {len(bad)} edges leap, {what}, {after:.3f} of {best:.3f}", flush=True
                )
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 6, 7, 8, 9])
    parser.add_argument("--small", action="store_true", help="one seed and few clouds: a smoke test")
    parser.add_argument("--out", type=Path, help="a directory for the counts as JSON")
    asked = parser.parse_args()
    counted = count(asked.seeds[:1] if asked.small else asked.seeds, asked.small)
    for name, value in counted.items():
        print(f"{name:<14}{value:>6}")
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "shortcuts.json").write_text(json.dumps(counted, indent=2))
    if counted["false alarms"] > 0.01 * counted["sound"] + 1 or counted["alarms"] < 0.9 * counted["ruined"]:
        raise SystemExit("the search for shortcuts is not as good as it was")


if __name__ == "__main__":
    main()
