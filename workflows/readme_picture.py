"""The picture at the top of README: a rolled-up sheet, its map by PCA, and its map by Isomap.

The sheet is a wide Swiss roll of one and a half turns. PCA looks at it from one side, so that its layers lie on one
another. Isomap unrolls it. Both maps are made of 2,000 points, and 3,000 others are placed in them.

    python workflows/readme_picture.py --out picture     # readme.png, some seconds
    python workflows/readme_picture.py --small           # 1,000 and 300 points

It ends with code 1 unless a new point's place on the sheet can be read from Isomap's map (correlation 0.99 or more) and
can't be read from PCA's: then the picture would show nothing.
"""

import argparse
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.decomposition import PCA

from scalemani import Isomap
from scalemani.demo import Manifold, swiss_roll
from scalemani.report.drawing import COLORS, GRAY, new_figure, png

WIDER = np.array([1.0, 1.7, 1.0])  # the sheet is wider than a common roll's, so that no side shows its spiral
GOOD = 0.99


def wide_roll(n: int, seed: int) -> tuple[Any, Any]:
    """Points (n, 3) of the sheet, and where they lie on it (n, 2)."""
    roll: Manifold = swiss_roll(n, even=True, random_state=seed)
    return roll.points * WIDER, roll.parameters * WIDER[:2]


def read_from(map_of_fit: Any, sheet_of_fit: Any, map_of_new: Any, sheet_of_new: Any) -> float:
    """The lower correlation, of the two directions of the sheet, between true places and those read from a map."""
    line = np.linalg.lstsq(np.column_stack([np.ones(len(map_of_fit)), map_of_fit]), sheet_of_fit, rcond=None)[0]
    found = np.column_stack([np.ones(len(map_of_new)), map_of_new]) @ line
    return min(float(np.corrcoef(found[:, i], sheet_of_new[:, i])[0, 1]) for i in (0, 1))


def draw(points: Any, color: Any, maps: dict[str, tuple[Any, Any, Any]]) -> Any:
    figure = new_figure(11.0, 3.3)
    space: Any = figure.add_subplot(1, 3, 1, projection="3d")
    space.scatter(*points.T, c=color, s=6, cmap=COLORS, linewidths=0, depthshade=False)
    space.view_init(elev=10, azim=-78)
    space.set_box_aspect(np.ptp(points, axis=0), zoom=1.3)
    space.set_axis_off()
    space.set_title(f"The data: {len(points):,} points\nof a rolled-up sheet", fontsize=11)
    for place, (title, (fitted, placed, colors)) in enumerate(maps.items(), start=2):
        flat: Any = figure.add_subplot(1, 3, place)
        flat.scatter(*fitted.T, color=GRAY, s=14, linewidths=0)
        flat.scatter(*placed.T, c=colors, s=2.5, cmap=COLORS, linewidths=0)
        flat.set_aspect("equal", adjustable="datalim")
        flat.set_xlabel("axis 1")
        flat.set_ylabel("axis 2")
        flat.tick_params(labelsize=7)
        flat.set_title(title, fontsize=11)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="directory for readme.png; a temporary one unless given")
    parser.add_argument("--small", action="store_true", help="fewer points")
    arguments = parser.parse_args()
    out = Path(arguments.out or tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    n, n_new, k = (1000, 300, 7) if arguments.small else (2000, 3000, 10)
    (points, sheet), (new, new_sheet) = wide_roll(n, 0), wide_roll(n_new, 1)
    maps, scores = {}, {}
    methods = {
        "PCA: layers of the sheet\nlie on one another": PCA(2),
        f"Isomap: the sheet is flat;\n{n_new:,} new points in colour": Isomap(n_neighbors=k),
    }
    for title, method in methods.items():
        fitted, placed = np.asarray(method.fit_transform(points)), np.asarray(method.transform(new))
        maps[title] = (fitted, placed, new_sheet[:, 0])
        scores[type(method).__name__] = read_from(fitted, sheet, placed, new_sheet)
    picture = Image.open(io.BytesIO(png(draw(points, sheet[:, 0], maps))))
    picture.convert("RGB").quantize(128).save(out / "readme.png", optimize=True)  # a third of the bytes
    print({name: round(score, 4) for name, score in scores.items()}, out / "readme.png")
    return int(scores["Isomap"] < GOOD or scores["PCA"] > GOOD)


if __name__ == "__main__":
    raise SystemExit(main())
