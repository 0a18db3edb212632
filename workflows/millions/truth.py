"""Landmarks against what is known: a clean roll's own geodesics, and the full method where that can be run."""

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millions.arrays import NOISE_VARIANCE, array, roll
from millions.claims import TRUE_CORRELATION, Claims, correlation, procrustes_error
from scalemani import KernelIsomap
from scalemani.demo import aligned

CORRECTIONS: tuple[str | None, ...] = (None, "cailliez")
METHODS = ("maxmin", "random")


@dataclass(frozen=True)
class Sizes:
    """How much is fitted.

    Attributes
    ----------
    clean, clean_landmarks : int
        Points of the clean roll, and landmarks among them.
    full : int
        Points of the full method.
    full_landmarks : tuple of int
    close : float
        Procrustes error of the most of these at the most, without a constant.
    """

    clean: int = 100_000
    clean_landmarks: int = 1000
    full: int = 20_000
    full_landmarks: tuple[int, ...] = (100, 300, 1000, 3000)
    close: float = 0.001


SMALL = Sizes(2000, 100, 500, (30, 150), 0.05)


def against_truth(out: Path, sizes: Sizes, claims: Claims, progress: Any) -> list[dict[str, Any]]:
    """Print how well distances in the embedding follow those on the clean roll, with and without the constant."""
    X, places = array(out / "clean", sizes.clean, roll(0.0), seed=0, noise_variance=0.0)
    store, found = out / "clean.zarr", []
    for correction in CORRECTIONS:
        begun = time.perf_counter()
        model = _model(store, correction, progress, landmarks=sizes.clean_landmarks).fit(X)
        found.append(
            _record(model, begun) | {"correction": correction, "correlation": correlation(model.embedding_, places)}
        )
    shutil.rmtree(store)
    print(f"\nclean roll of {sizes.clean:,} points, {sizes.clean_landmarks:,} landmarks: distances against the truth")
    rows = [[str(one["correction"]), f"{one['correlation']:.5f}", *_common(one)] for one in found]
    print("\n".join(aligned(["correction", "correlation", "c / median", "fit, s"], rows)))
    plain = found[0]["correlation"]
    claims.hold(f"without a constant the correlation is {TRUE_CORRELATION} or more: {plain:.5f}", plain >= 0.999)
    return found


def against_full(out: Path, sizes: Sizes, claims: Claims, progress: Any) -> list[dict[str, Any]]:
    """Print how far landmarks' coordinates are from the full method's on the noisy roll."""
    X, _ = array(out / "noisy", sizes.full, roll(NOISE_VARIANCE), seed=0, noise_variance=NOISE_VARIANCE)
    reference, found, store = {}, [], out / "full.zarr"
    for correction in CORRECTIONS:
        begun = time.perf_counter()
        model = _model(store, correction, progress).fit(X)
        reference[correction] = model.embedding_
        found.append(_record(model, begun) | {"landmarks": None, "method": "full", "correction": correction})
    shutil.rmtree(store)
    for m in sizes.full_landmarks:
        for method in METHODS:
            for correction in CORRECTIONS:
                begun = time.perf_counter()
                model = _model(store, correction, progress, landmarks=m, landmark_method=method).fit(X)
                error = procrustes_error(model.embedding_, reference[correction])
                one = {"landmarks": m, "method": method, "correction": correction, "error": error}
                found.append(_record(model, begun) | one)
                print(f"{m:,} {method}, {correction}: {error:.1e}", file=sys.stderr, flush=True)
            shutil.rmtree(store)
    print(f"\nnoisy roll of {sizes.full:,} points: Procrustes error of landmarks against the full method")
    rows = [
        [
            "full method" if one["landmarks"] is None else f"{one['landmarks']:,} {one['method']}",
            str(one["correction"]),
            f"{one['error']:.1e}" if "error" in one else "",
            *_common(one),
        ]
        for one in found
    ]
    print("\n".join(aligned(["landmarks", "correction", "error", "c / median", "fit, s"], rows)))
    most, fewest = max(sizes.full_landmarks), min(sizes.full_landmarks)
    for method in METHODS:
        plain = [one for one in found if (one["method"], one["correction"]) == (method, None)]
        errors = {one["landmarks"]: one["error"] for one in plain}
        claims.hold(
            f"{method}, without a constant: {most:,} landmarks are nearer to the full method than {fewest:,}, within "
            f"{sizes.close:.1%}",
            errors[most] < min(errors[fewest], sizes.close),
        )
    return found


def _model(store: Path, correction: str | None, progress: Any, **given: Any) -> KernelIsomap:
    """The same store takes the second correction without new distances."""
    return KernelIsomap(10, 2, correction=correction, disconnected="join", store=str(store), progress=progress, **given)


def _record(model: KernelIsomap, begun: float) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - begun,
        "constant_over_median": model.spectrum_["constant_over_median"],
        "residual": float(model.residuals_.max()),
    }


def _common(one: dict[str, Any]) -> list[str]:
    return [f"{one['constant_over_median']:.3f}", f"{one['seconds']:.1f}"]
