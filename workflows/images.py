"""Images (or any rows) from a file: fits on the first rows, projects the next ones, and scores both.

With labels, a test row gets the label that most of its 5 nearest training rows carry, nearest in the
embedding; the share of right ones says how much of the classes the coordinates keep.

    python workflows/images.py images.npz:X --labels images.npz:y --train 10000 --test 10000 \\
        --neighbors 10 --components 10 --compare-sklearn
    python workflows/images.py --small    # scikit-learn's digits, for a smoke test
"""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from scalemani import KernelIsomap
from scalemani.demo import aligned
from scalemani.errors import AdditiveConstantWarning
from scalemani.formats.outputs import write_coordinates
from scalemani.formats.points import open_points

CORRECTIONS: dict[str, str | None] = {"none": None, "cailliez": "cailliez"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", nargs="?", help="rows: .npy, .npz:key, .csv or .zarr:path")
    parser.add_argument("--labels", help="one label a row, in a file of the same kinds")
    parser.add_argument("--train", type=int, default=10_000, help="rows to fit (default: %(default)s)")
    parser.add_argument("--test", type=int, default=10_000, help="rows to project (default: %(default)s)")
    parser.add_argument("-k", "--neighbors", type=int, default=10)
    parser.add_argument("-p", "--components", type=int, default=10)
    parser.add_argument("--correction", choices=[*CORRECTIONS, "both"], default="both")
    parser.add_argument("--compare-sklearn", action="store_true", help="scikit-learn's Isomap on the same split")
    parser.add_argument("--out", type=Path, default=Path("images"), help="directory of stores and coordinates")
    parser.add_argument("--small", action="store_true", help="digits, 300 and 200 rows, with --compare-sklearn")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=AdditiveConstantWarning)  # the table says it
    if options.small:
        options.train, options.test, options.compare_sklearn = 300, 200, True
        options.points, options.labels = digits()
    elif options.points is None:
        parser.error("give a file of rows, or --small")
    options.out.mkdir(parents=True, exist_ok=True)
    X = open_points(options.points).values
    if len(X) < options.train + options.test:
        parser.error(f"{len(X):,} rows are fewer than --train {options.train} and --test {options.test}")
    train, test = X[: options.train], X[options.train : options.train + options.test]
    labels = None if options.labels is None else np.asarray(open_labels(options.labels))
    wanted = list(CORRECTIONS) if options.correction == "both" else [options.correction]
    rows = [ours(name, train, test, labels, options) for name in wanted]
    if options.compare_sklearn:
        rows.append(theirs(train, test, labels, options))
    headings = ["", "fit, s", "project, s", "c* / median", "5-nearest-neighbour accuracy"]
    print("\n".join(aligned(headings, rows)))


def digits() -> tuple[str, str]:
    """scikit-learn's digits as a file, so that the smoke test reads one too."""
    from sklearn.datasets import load_digits

    path = Path(tempfile.mkdtemp()) / "digits.npz"
    X, y = load_digits(return_X_y=True)
    np.savez(path, X=X, y=y)
    return f"{path}:X", f"{path}:y"


def open_labels(spec: str) -> np.ndarray:
    return np.asarray(open_points(spec).values).ravel()


def ours(
    name: str, train: np.ndarray, test: np.ndarray, labels: np.ndarray | None, options: argparse.Namespace
) -> list[str]:
    """One row of the table for this library, with its coordinates written to --out."""
    model = KernelIsomap(
        n_neighbors=options.neighbors,
        n_components=options.components,
        correction=CORRECTIONS[name],
        disconnected="join",
        store=str(options.out / f"{name}.zarr"),
        overwrite=True,
        progress=sys.stderr.isatty(),
    )
    fitted, projected, seconds = timed(model, train, test)
    write_coordinates(options.out / f"{name}_train.npy", fitted, overwrite=True)
    write_coordinates(options.out / f"{name}_test.npy", projected, overwrite=True)
    ratio = f"{model.spectrum_['constant_over_median']:.3f}"
    return [f"scalemani, correction {name}", *seconds, ratio, accuracy(fitted, projected, labels)]


def theirs(train: np.ndarray, test: np.ndarray, labels: np.ndarray | None, options: argparse.Namespace) -> list[str]:
    """The same row for scikit-learn's Isomap."""
    from sklearn.manifold import Isomap

    model = Isomap(n_neighbors=options.neighbors, n_components=options.components)
    fitted, projected, seconds = timed(model, np.asarray(train, dtype=np.float64), np.asarray(test, dtype=np.float64))
    return ["scikit-learn", *seconds, "", accuracy(fitted, projected, labels)]


def timed(model, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Coordinates of both sets, and the seconds that each took."""
    started = time.perf_counter()
    fitted = np.asarray(model.fit_transform(train))
    between = time.perf_counter()
    projected = np.asarray(model.transform(test))
    ended = time.perf_counter()
    return fitted, projected, [f"{between - started:.1f}", f"{ended - between:.1f}"]


def accuracy(fitted: np.ndarray, projected: np.ndarray, labels: np.ndarray | None) -> str:
    if labels is None:
        return ""
    nearest = KNeighborsClassifier(5).fit(fitted, labels[: len(fitted)])
    score = nearest.score(projected, labels[len(fitted) : len(fitted) + len(projected)])
    return f"{score:.4f}"


if __name__ == "__main__":
    main()
