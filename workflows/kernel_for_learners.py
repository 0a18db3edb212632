"""What a learner can do with the kernel of kernel Isomap, and what each correction makes of it.

scikit-learn's 1,797 digits: 900 are fitted and train the learners, the others are told apart. Each correction's kernel
(`model.kernel`) is given to a support vector machine and to a Gaussian process, beside the RBF kernel of the pixels.

The machine is SVC(kernel="precomputed"), its C chosen by cross-validation on the training rows (for RBF gamma too). The
process is a regression of each digit's indicator. Its noise (and gamma) is the likeliest by the marginal likelihood, or
the best one in the same cross-validation. Kernel plus noise has to be positive definite: an indefinite kernel asks for
more noise than its lowest eigenvalue.

    python workflows/kernel_for_learners.py            # three draws of training rows, some two minutes
    python workflows/kernel_for_learners.py --small    # 600 digits, one draw, some seconds

It ends with code 1 if a kernel that is promised to be positive semidefinite is not; if that without a correction is; or
if the machine by "flip" is right less often than without a correction, or less than 85 times in a hundred.
"""

import argparse
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from scalemani import KernelIsomap
from scalemani.demo import aligned
from scalemani.errors import ScalemaniWarning

CORRECTIONS = {"Cailliez": "cailliez", "Lingoes": "lingoes", "flip": "flip", "none": None}
MEDIAN, RBF = "c = 1 median", "RBF of the pixels"
DEFINITE = ("Cailliez", "Lingoes", "flip", RBF)
ROUNDING, LEAST_RIGHT = 1e-6, 0.85
NEIGHBORS = 10
COSTS = 10.0 ** np.arange(-1, 5)
GAMMAS = 2.0 ** np.arange(-2, 4)  # over the pixels' number and variance
NOISES = 10.0 ** np.arange(-6, 3)  # of the kernel's mean diagonal


class Kernel(NamedTuple):
    """Values between training rows (n, n) and of the others with them (m, n), over the mean of the diagonal.

    constant: What is added to distances, in median ones; nan where nothing is.
    nugget: The share of the mean diagonal that a point has with itself alone.
    """

    training: Any
    others: Any
    constant: float = float("nan")
    nugget: float = 0.0


class Found(NamedTuple):
    """What two learners made of a kernel: how often they are right, and the machine's support vectors."""

    kernel: Kernel
    lowest: float
    machine: float
    support: int
    likeliest: float
    by_folds: float


def fit(rows: Any, correction: Any, store: str) -> KernelIsomap:
    """Fits in one store share the distances."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScalemaniWarning)  # of the constant's size, which the table has
        return KernelIsomap(NEIGHBORS, 2, correction=correction, disconnected="join", store=store).fit(rows)


def of_isomap(rows: Any, others: Any, correction: Any, store: str) -> Kernel:
    """The kernel of a fit."""
    model = fit(rows, correction, store)
    training, others = model.kernel(), model.kernel(others)
    size, said = np.trace(training) / len(training), model.spectrum_
    constant = said["constant_over_median"] if said["shift"] else float("nan")
    return Kernel(training / size, others / size, constant, said["shift"] * (1 - 1 / len(training)) / size)


def of_pixels(rows: Any, others: Any) -> list[Kernel]:
    """RBF kernels, one for each gamma."""
    gammas = GAMMAS / rows.shape[1] / rows.var()
    return [Kernel(rbf_kernel(rows, gamma=gamma), rbf_kernel(others, rows, gamma=gamma)) for gamma in gammas]


def machine(kernels: list[Kernel], y: Any, of_others: Any, folds: Any) -> tuple[float, int]:
    """How often the best machine is right, and its support vectors."""
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": COSTS}, cv=folds)
    tried = [clone(search).fit(kernel.training, y) for kernel in kernels]
    best = int(np.argmax([one.best_score_ for one in tried]))
    chosen = tried[best].best_estimator_
    return float(chosen.score(kernels[best].others, of_others)), int(chosen.n_support_.sum())


def processes(training: Any, others: Any, number: Any) -> dict[float, tuple[float, Any]]:
    """For each noise that makes a covariance: the likelihood of the training rows, and classes of the others."""
    targets = np.eye(number.max() + 1)[number]
    means = targets.mean(axis=0)
    values, vectors = np.linalg.eigh(training)
    turned, found = vectors.T @ (targets - means), {}
    for noise in NOISES[values[0] + NOISES > ROUNDING * NOISES]:
        total = values + noise
        size = float((turned**2 / total[:, None]).mean())  # the likeliest amplitude
        likelihood = -0.5 * (np.log(size) + float(np.log(total).mean()))
        classes = (means + others @ (vectors @ (turned / total[:, None]))).argmax(axis=1)
        found[float(noise)] = likelihood, classes
    return found


def process(kernels: list[Kernel], y: Any, of_others: Any, folds: Any) -> tuple[float, float]:
    """How often the likeliest process is right, and the one that is right most often in cross-validation."""
    made: dict[tuple[int, float], tuple[float, float, float]] = {}
    for at, kernel in enumerate(kernels):
        held: dict[float, int] = {}
        for some, rest in folds.split(kernel.training, y):
            within = kernel.training[np.ix_(some, some)], kernel.training[np.ix_(rest, some)]
            for noise, (_, classes) in processes(*within, y[some]).items():
                held[noise] = held.get(noise, 0) + int((classes == y[rest]).sum())
        for noise, (likelihood, classes) in processes(kernel.training, kernel.others, y).items():
            made[at, noise] = likelihood, held.get(noise, 0), float((classes == of_others).mean())
    return max(made.values())[2], max(made.values(), key=lambda one: one[1])[2]


def draw(X: Any, y: Any, n: int, seed: int) -> dict[str, Found]:
    """Every kernel on one draw of training rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    some, others = order[:n], order[n:]
    folds, found = StratifiedKFold(5, shuffle=True, random_state=seed), {}

    def learn(kernels: list[Kernel]) -> Found:
        values = np.linalg.eigvalsh(kernels[len(kernels) // 2].training)
        asked = kernels, y[some], y[others], folds
        return Found(kernels[0], float(values[0] / values[-1]), *machine(*asked), *process(*asked))

    with TemporaryDirectory() as folder:
        store = f"{folder}/run.zarr"
        median = fit(X[some], None, store).spectrum_["median_distance"]
        for name, correction in {**CORRECTIONS, MEDIAN: median}.items():
            found[name] = learn([of_isomap(X[some], X[others], correction, store)])
    return {**found, RBF: learn(of_pixels(X[some], X[others]))}


def table(draws: list[dict[str, Found]], n: int, of_all: float) -> str:
    """Means over the draws, with their standard deviations, and what they say.

    of_all: The constant of training rows and others together, in median distances.
    """

    def mean(name: str, of: Any) -> float:
        return float(np.mean([of(one[name]) for one in draws]))

    def right(name: str, of: Any) -> str:
        shares = [of(one[name]) for one in draws]
        return f"{np.mean(shares):.3f}" + (f" ± {np.std(shares, ddof=1):.3f}" if len(shares) > 1 else "")

    def by_machine(one: Found) -> float:
        return one.machine

    rows = []
    for name in draws[0]:
        constant = mean(name, lambda one: one.kernel.constant)
        rows.append(
            [
                name,
                "-" if np.isnan(constant) else f"{constant:.1f}",
                f"{mean(name, lambda one: one.kernel.nugget):.1%}",
                f"{mean(name, lambda one: one.lowest):.0e}",
                right(name, by_machine),
                f"{mean(name, lambda one: one.support):.0f}",
                right(name, lambda one: one.likeliest),
                right(name, lambda one: one.by_folds),
            ]
        )
    heading = ["kernel", "constant", "nugget", "lowest", "SVM", "support", "GP, likeliest", "GP, by folds"]
    constant = mean("Cailliez", lambda one: one.kernel.constant)
    nugget, support = mean("Cailliez", lambda one: one.kernel.nugget), mean("Cailliez", lambda one: one.support)
    said = (
        "Constant: what is added to distances (the root of what Lingoes adds to their squares), in median distances. "
        "Nugget: the part of the mean diagonal that no two digits share. Lowest: the lowest eigenvalue of the training "
        "kernel over the highest. Support: how many support vectors. SVM, GP: the share of the other digits that is "
        "told right, by a process with the likeliest noise, or with the best noise in cross-validation.",
        f"Cailliez' constant makes the training kernel positive semidefinite, but it is {constant:.0f} median "
        f"distances: {nugget:.0%} of the mean diagonal is nugget, which tells no two digits apart. {support:.0f} of "
        f"{n} training digits become support vectors, and the share that the machine tells right is "
        f"{right('Cailliez', by_machine)}: flip {right('flip', by_machine)}, one median {right(MEDIAN, by_machine)}, "
        f"no correction {right('none', by_machine)}, RBF {right(RBF, by_machine)}.",
        f"Training digits and others together have a constant of {of_all:.0f} median distances. With the smaller one, "
        "a process whose noise is small beside the nugget trusts directions in which the training kernel is 0 and that "
        "of new digits is not.",
    )
    return "\n".join([*aligned(heading, rows), *(f"\n{fill(paragraph, 120)}" for paragraph in said)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3, help="of training rows")
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--small", action="store_true", help="600 digits and one draw")
    parser.add_argument("--out", type=Path, help="a directory for the table as text")
    asked = parser.parse_args()
    (X, y), start = load_digits(return_X_y=True), time.perf_counter()
    n, count = (300, 1) if asked.small else (900, asked.draws)
    if asked.small:
        X, y = X[:600], y[:600]
    draws = [draw(X, y, n, asked.seed + at) for at in range(count)]
    with TemporaryDirectory() as folder:
        of_all = fit(X, "cailliez", f"{folder}/run.zarr").spectrum_["constant_over_median"]
    said = f"{len(X):,} digits, {n} of them trained with; draws: {count}\n\n{table(draws, n, of_all)}"
    print(said, f"({time.perf_counter() - start:.0f} s)", sep="\n")
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "tables.txt").write_text(f"{said}\n", encoding="utf-8")
    missed = [f"{name}: lowest eigenvalue {one[name].lowest:.1e} of the highest" for one in draws for name in one
              if (one[name].lowest >= -ROUNDING) != (name in DEFINITE)]  # fmt: skip
    for one in draws:
        if one["flip"].machine < max(one["none"].machine, LEAST_RIGHT):
            missed.append(f"the machine is right by flip in {one['flip'].machine:.3f}")
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
