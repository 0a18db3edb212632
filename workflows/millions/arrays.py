"""Zarr arrays of as many rows as are wanted, made chunk by chunk: memory holds one chunk whatever the length.

Beside the rows goes an array `truth` of the same length: where each row lies on its surface. An array that is there
and was made from the same numbers is taken as it is.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from scalemani.demo import swiss_roll

NOISE_VARIANCE = 0.25  # of the paper's roll

CHUNK = 100_000  # rows
SIDE, WIDTH = 28, 3.5  # pixels: of an image, and of its bump's standard deviation
NAMES = {"roll": ("length along the roll", "height"), "images": ("row of the bump", "column of the bump")}

Made = tuple[np.ndarray, np.ndarray]


def roll(noise_variance: float) -> Callable[[int, np.random.Generator], Made]:
    """Rows (n, 3) float64 of a Swiss roll and their places (n, 2) on the sheet, between which it is flat."""

    def make(n: int, rng: np.random.Generator) -> Made:
        surface = swiss_roll(n, noise_variance=noise_variance, random_state=rng)
        return surface.points, surface.parameters

    return make


def images(n: int, rng: np.random.Generator) -> Made:
    """Rows (n, 784) uint8, images of one Gaussian bump, and the places (n, 2) of its centre, in pixels."""
    pixels = np.arange(SIDE)
    centers = rng.uniform(WIDTH, SIDE - 1 - WIDTH, (n, 2))
    out = np.empty((n, SIDE * SIDE), np.uint8)
    for start in range(0, n, 4096):
        apart = pixels - centers[start : start + 4096, :, None]
        rows, columns = np.exp(-(apart**2) / (2 * WIDTH**2)).transpose(1, 0, 2)
        grey = 255 * np.einsum("nr,nc->nrc", rows, columns)
        out[start : start + 4096] = np.rint(grey).reshape(-1, SIDE * SIDE)
    return out, centers


def array(
    place: Path, n: int, make: Callable[[int, np.random.Generator], Made], *, seed: int, **made_of: Any
) -> tuple[zarr.Array, np.ndarray]:
    """Rows and their places on the surface.

    Parameters
    ----------
    place : Path
        Folder of the two arrays.
    make : callable
        Takes a number of rows and a generator; each chunk has a generator of its own.
    made_of
        What `make` follows from, for the record.

    Returns
    -------
    rows : zarr.Array, shape (n, d), in chunks of `CHUNK` rows
    places : ndarray of float64, shape (n, 2)
    """
    record = {"n": n, "seed": seed, **made_of}
    try:
        there = zarr.open_array(place / "points.zarr", mode="r")
        if dict(there.attrs) == record:
            return there, np.asarray(zarr.open_array(place / "truth.zarr", mode="r")[:])
    except FileNotFoundError:
        pass
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    rows = truth = None
    for chunk, start in enumerate(range(0, n, CHUNK)):
        stop = min(start + CHUNK, n)
        points, places = make(stop - start, np.random.default_rng([seed, chunk]))
        if rows is None or truth is None:
            rows = _new(place / "points.zarr", n, points)
            truth = _new(place / "truth.zarr", n, places)
        rows[start:stop], truth[start:stop] = points, places
    assert rows is not None and truth is not None
    rows.attrs.update(record)  # last: without it the array is not whole
    return zarr.open_array(place / "points.zarr", mode="r"), np.asarray(truth[:])


def _new(place: Path, n: int, like: np.ndarray) -> zarr.Array:
    width = like.shape[1]
    return zarr.create_array(str(place), shape=(n, width), chunks=(min(n, CHUNK), width), dtype=like.dtype)
