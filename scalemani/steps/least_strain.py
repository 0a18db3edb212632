"""The linear map of least strain: from what was taken of D, the features and a ridge."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.embedding.coordinates import fixed_signs
from scalemani.embedding.isometric import least_strain, panels
from scalemani.errors import RankWarning, warn
from scalemani.kernel import blas
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.features import basis_in, left_vectors
from scalemani.steps.map_records import FeaturesRecord, MapFields, MapRecord
from scalemani.steps.passing_distances import PROJECTED
from scalemani.steps.records import FitRecord
from scalemani.storage.audit import Fault
from scalemani.storage.run import RunStore

WEIGHTS, BACK, COORDINATES = "map_weights", "map_back", "map_coordinates"
TOLERANCE = 1e-7  # of the largest eigenvalue: what float32 distances leave of smaller ones is rounding
RIDGE = {"linear": 1e-3}  # unless given; of any kernel:
KERNEL_RIDGE = 1e-4
SAME = 1e-6  # relative: products of the same numbers by another processor


class Map(Step):
    """The map, and the coordinates of all vertices."""

    record, title = MapRecord, "map"
    late = True
    arrays = {"map_": "map"}
    mends = {"map": "solves again"}

    def fields(self, parameters: Any, kind: str) -> MapFields:
        """Axes, ridge and scale."""
        usual = RIDGE.get(parameters.kernel, KERNEL_RIDGE)
        return MapFields(
            n_components=int(parameters.n_components),
            ridge=usual if parameters.ridge is None else float(parameters.ridge),
            scale=parameters.scale,
        )

    def run(self, work: Work) -> None:
        """Solve, unless the map that is asked for is there."""
        if self.done(work):
            return
        work.report(self.name, 0, 1)
        self._make(work, self.fields(work.parameters, ""))
        work.report(self.name, 1, 1)

    def _make(self, work: Work, fields: MapFields) -> None:
        store, basis = work.store, basis_in(work.store)
        asked = fields.n_components
        found = least_strain(
            basis, store.read_array(PROJECTED), asked + 1, fields.ridge, fields.scale, tolerance=TOLERANCE
        )
        said, active = [], int((np.abs(found.turn[:, :asked]).max(axis=0) > 0).sum())
        if active < asked:
            said.append(
                f"{asked - active} of {asked} axes have no positive eigenvalue, or are past the rank of the features "
                f"({basis.rank}), and are 0: ask for n_components={max(active, 1)} or fewer"
            )
            warn(said[0], RankWarning)
        coordinates, signs = _coordinates(left_vectors(work), found.turn[:, :asked])
        weights, turn = found.weights[:, :asked] * signs, found.turn[:, :asked] * signs
        store.forget(self.name, FitRecord.STEP)
        store.write_array(WEIGHTS, weights)
        store.write_array(COORDINATES, coordinates)
        if store.needed(FeaturesRecord).fields.kernel == "linear":
            store.write_array(BACK, _back(turn, basis.spread, basis.loadings))
        following = found.eigenvalues[asked] if asked < basis.rank else None
        store.finish(
            MapRecord(
                fields=fields,
                eigenvalues=found.eigenvalues[:asked].tolist(),
                next_eigenvalue=None if following is None else float(following),
                trace=_trace(store.read_array(PROJECTED), basis.spread, fields.ridge),
                warnings=said,
            )
        )

    def left(self, store: RunStore) -> set[str]:
        """The map, and where all points are."""
        if store.record(MapRecord) is None:
            return set()
        linear = store.needed(FeaturesRecord).fields.kernel == "linear"
        return {WEIGHTS, COORDINATES} | ({BACK} if linear else set())

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """The weights are those of what was taken of D."""
        store, state = work.store, work.store.record(MapRecord)
        if state is None or any(name.startswith(("map_", "feature_", PROJECTED)) for name in broken):
            return
        basis, asked = basis_in(store), state.fields.n_components
        found = least_strain(
            basis, store.read_array(PROJECTED), asked, state.fields.ridge, state.fields.scale, tolerance=TOLERANCE
        )
        size = max(abs(state.eigenvalues[0]), float(np.abs(found.eigenvalues).max()))
        if (np.abs(found.eigenvalues - state.eigenvalues) > SAME * size).any():
            yield Fault("array", WEIGHTS, "the eigenvalues are not those of what was taken of D")

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Solve again."""
        store = work.store
        state = store.record(MapRecord)
        if waiting or state is None:
            return []
        fit = store.record(FitRecord)
        self._make(work, state.fields)
        if fit is not None:
            store.finish(fit)
        return ["the map was solved again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """Eigenvalues, and what part of the projected kernel they are."""
        state = store.needed(MapRecord)
        values = np.array(state.eigenvalues)
        return {
            "eigenvalues": state.eigenvalues,
            "next_eigenvalue": state.next_eigenvalue,
            "trace": state.trace,
            "ridge": state.fields.ridge,
            "scale": state.fields.scale,
            "warnings": state.warnings,
            "largest_share": float(values[0] / state.trace) if state.trace > 0 else None,
        }

    def coordinates(self, store: RunStore) -> F64:
        """Those of all vertices."""
        return store.read_array(COORDINATES)

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The coordinates, twice."""
        p = size.parameters.n_components
        return Needs(client={"outputs": 4 * 8 * size.n * p}, disk=8 * p * (size.n + 2 * size.features))


def _coordinates(left: F64, turn: F64) -> tuple[F64, F64]:
    """Y = U turn, with each axis' largest entry positive, and the signs that this took."""
    found = np.empty((len(left), turn.shape[1]))
    for here in panels(*left.shape):
        found[here] = blas.product(blas.by_rows(left[here]), turn)
    fixed = fixed_signs(found)
    at = np.abs(found).argmax(axis=0)
    columns = np.arange(found.shape[1])
    signs = np.where(found[at, columns] * fixed[at, columns] < 0, -1.0, 1.0)
    return fixed, signs


def _back(turn: F64, spread: F64, loadings: F64) -> F64:
    """B of X ≈ mean + Y B, by least squares over the training rows: (Y'Y)^-1 Y'JX, where JX = U Σ V'."""
    inverse = np.linalg.pinv(turn)  # of Y, since U is orthonormal
    return np.asarray(blas.product(inverse * spread, loadings.T))


def _trace(projected: F64, spread: F64, ridge: float) -> float:
    """Of T M T."""
    shrunk = spread**2 / (spread**2 + ridge * spread[0] ** 2)
    return float((np.diagonal(projected) * shrunk).sum())
