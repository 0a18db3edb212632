"""The paper's three data sets: noisy Swiss roll, roll without noise, noisy semi-sphere.

Each is fitted by Isomap and by kernel Isomap with 4 neighbours and three components, and other points
of the same surface are projected: by the continuous form (the default) and by the paper's own. The
figures say how large the additive constant is, how well true distances are kept, and how widely
projected points are spread against training points on each axis: 1 is the same scale, less is shrunk.

    python workflows/paper_swiss_roll.py --out paper        # 1,200 training and 3,000 test points
    python workflows/paper_swiss_roll.py --small --out tmp  # 200 and 300, for a smoke test
"""

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from scalemani import KernelIsomap
from scalemani.demo import TITLES, Manifold, Outcome, aligned, fit_both, four_panels, swiss_roll, table
from scalemani.embedding.quality import embedded_distances, residual_variance
from scalemani.errors import AdditiveConstantWarning
from scalemani.report.drawing import png
from scalemani.report.page import Picture, Section, Table, page

NOISE_VARIANCE = 0.25


def semi_sphere(n: int, *, noise_variance: float = 0.0, radius: float = 10.0, random_state: Any = None) -> Manifold:
    """The upper half of a sphere, uniform by area.

    It has curvature, so that no flat embedding keeps its geodesic distances: the additive constant
    takes up what is left. The parameters are the map (R θ cos φ, R θ sin φ), θ the angle from
    the pole. The radius is ours; 10 makes the noise of the paper's roll about as large against it.
    """
    rng = np.random.default_rng(random_state)
    z = rng.random(n)  # area of a zone is proportional to its height
    turn = 2 * np.pi * rng.random(n)
    ring = np.sqrt(1 - z * z)
    surface = radius * np.column_stack([ring * np.cos(turn), ring * np.sin(turn), z])
    noise = np.sqrt(noise_variance) * rng.standard_normal((n, 3))
    polar = radius * np.arccos(z)
    parameters = np.column_stack([polar * np.cos(turn), polar * np.sin(turn)])
    return Manifold(surface + noise, parameters, ("first polar coordinate", "second polar coordinate"))


DATA_SETS = {
    "noisy Swiss roll": lambda n, seed: swiss_roll(n, noise_variance=NOISE_VARIANCE, random_state=seed),
    "Swiss roll without noise": lambda n, seed: swiss_roll(n, random_state=seed),
    "noisy semi-sphere": lambda n, seed: semi_sphere(n, noise_variance=NOISE_VARIANCE, random_state=seed),
}

# So sparse a graph may fall apart; its parts are joined by the shortest bridges.
PARAMETERS = {"n_neighbors": 4, "n_components": 3, "disconnected": "join"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("paper-swiss-roll"), help="directory of the report")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a smoke test of a few seconds")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=AdditiveConstantWarning)  # the table says it
    n_train, n_test = (200, 300) if options.small else (1200, 3000)
    sections = []
    for name, make in DATA_SETS.items():
        train, test = make(n_train, options.seed), make(n_test, options.seed + 1_000_003)
        place = options.out / name.replace(" ", "_")
        place.mkdir(parents=True, exist_ok=True)
        outcomes = fit_both(train, test, place, **PARAMETERS, progress=sys.stderr.isatty())
        paper = paper_projection(place / TITLES["kernel Isomap"], train.points, test.points)
        headings, rows = table(outcomes)
        rows += projection_rows(outcomes, paper, test.parameters)
        print(f"\n{name}: {n_train:,} training and {n_test:,} test points")
        print("\n".join(aligned(headings, rows)))
        figure = four_panels(
            train.points,
            test.points,
            train.parameters[:, 0],
            test.parameters[:, 0],
            {title: (outcome.train, outcome.test) for title, outcome in outcomes.items()},
            color_name=train.names[0],
        )
        picture = Picture(png(figure), "Training points in grey, projected test points in colour.", name)
        sections.append(Section(name, tables=[Table(headings, rows)], pictures=[picture]))
    document = page("The paper's three data sets", str(__doc__).split("\n\n")[1], sections)
    (options.out / "report.html").write_text(document, encoding="utf-8")
    print(f"\nreport: {options.out / 'report.html'}")


def paper_projection(store: Path, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Test points placed by the paper's form, in the fit that is in the store."""
    model = KernelIsomap(**PARAMETERS, projection="paper", store=str(store))
    # The store holds this fit: nothing is computed again but what depends on the projection.
    return np.asarray(model.fit(train).transform(test))


def projection_rows(outcomes: dict[str, Outcome], paper: np.ndarray, parameters: np.ndarray) -> list[list[str]]:
    """How both projections treat test points, as rows below the comparison's table."""
    plain, kernel = outcomes.values()
    some = np.arange(min(1000, len(paper)))
    true = embedded_distances(parameters[some], some)
    shape = np.triu_indices(len(some), 1)
    kept = residual_variance(true[shape], embedded_distances(paper[some, :2], some)[shape])
    rows = [["test points against the truth, paper's form", "", f"{kept:.5f}"]]
    for axis in range(paper.shape[1]):
        spreads = [outcome.test[:, axis].std() / outcome.train[:, axis].std() for outcome in (plain, kernel)]
        shrunk = paper[:, axis].std() / kernel.train[:, axis].std()
        rows.append([f"spread of test on axis {axis + 1}", *(f"{spread:.3f}" for spread in spreads)])
        rows.append([f"spread of test on axis {axis + 1}, paper's form", "", f"{shrunk:.3f}"])
    return rows


if __name__ == "__main__":
    main()
