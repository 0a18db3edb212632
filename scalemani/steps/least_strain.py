"""The linear map of least strain: from the projected kernel, the features and a ridge."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.embedding.isometric import GRID, least_strain, left_out_error, panels
from scalemani.errors import RankWarning, ScalemaniWarning, keeping_warnings, warn
from scalemani.kernel import blas
from scalemani.kernel.eigensolver import fixed_signs
from scalemani.parameters import Parameters
from scalemani.steps.axes import LandmarkAxes, TileAxes, stored_embedding
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.features import PROJECTED, basis_in, feature_count, left_vectors, most_directions
from scalemani.steps.map_records import FeaturesRecord, MapFields, MapRecord
from scalemani.steps.passing_distances import sums
from scalemani.steps.placement import Placement
from scalemani.steps.records import DistancesRecord, FitRecord, GraphRecord, NamesRecord, SolveFields, SolveRecord
from scalemani.steps.sources import COORDINATES as PLACED
from scalemani.steps.sources import has_landmarks, landmark_count
from scalemani.storage.arrays import array_bytes
from scalemani.storage.audit import Fault
from scalemani.storage.run import RunStore

WEIGHTS, BACK, COORDINATES = "map_weights", "map_back", "map_coordinates"
LINEAR_RIDGE, KERNEL_RIDGE = 1e-3, 1e-4  # unless given
MOST_AXES = 60  # of the landmarks' Isomap
MOST_SHOWN = 10  # axes, and features of each, that are told of
SAME = 1e-6  # relative: products of the same numbers by another processor


class ManyAxes(LandmarkAxes):
    """Axes of the landmarks' own Isomap: more than the map has, since M is made of all of them."""

    title = "axes of landmark Isomap"

    def fields(self, parameters: Parameters, kind: str) -> SolveFields:
        """As many as the landmarks bear."""
        return super().fields(_with_many(parameters), kind)

    def run(self, work: Work) -> None:
        """Warnings about these axes don't concern the map's, and are not given."""
        with keeping_warnings():
            super().run(replace(work, parameters=_with_many(work.parameters)))

    def account(self, store: RunStore) -> dict[str, Any]:
        return {"n_landmark_axes": store.needed(SolveRecord).fields.n_components}


class ManyCoordinates(Placement):
    """The coordinates of all rows on these axes."""

    def needs(self, size: FitSize, cut: Any) -> Needs:
        return super().needs(replace(size, parameters=_with_many(size.parameters)), cut)


class Targets(TileAxes):
    """Isomap's own axes, which a ridge is chosen by."""

    title = "axes of Isomap"

    def run(self, work: Work) -> None:
        """Warnings about these axes don't concern the map's, and are not given."""
        with keeping_warnings():
            super().run(work)

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """A map that is made needs them no more."""
        if work.store.record(MapRecord) is None:
            return super().remake(work, faults, waiting=waiting)
        for name in self.left(work.store):
            work.store.remove_array(name)
        work.store.forget(self.name)
        return ["the axes of Isomap, which the ridge was chosen by, were removed: nothing needs them any more"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """Nothing: the map has its own."""
        return {}


def _with_many(parameters: Parameters) -> Parameters:
    """With a quarter as many axes as there are landmarks, 60 at the most; the map is less exact by more of them."""
    most = min(MOST_AXES, landmark_count(parameters) // 4)
    return replace(parameters, n_components=max(most, int(parameters.n_components)))


class Map(Step):
    """The map, and the coordinates of all vertices."""

    record, title = MapRecord, "map"
    late = True
    from_distances = False
    arrays = {"map_": "map", PROJECTED: "projected"}
    mends = {"map": "solves again", "projected": "takes it from the distances again"}

    def fields(self, parameters: Any, kind: str) -> MapFields:
        ridge = parameters.ridge
        if ridge is None:
            ridge = LINEAR_RIDGE if parameters.kernel == "linear" else KERNEL_RIDGE
        return MapFields(
            n_components=int(parameters.n_components),
            ridge=ridge if isinstance(ridge, str) else float(ridge),
            scale=parameters.scale,
        )

    def run(self, work: Work) -> None:
        """Solve, unless the map that is asked for is there."""
        if PROJECTED in work.made:
            total = work.made.pop(PROJECTED)
            scale = work.store.needed(GraphRecord).scale
            work.store.write_array(PROJECTED, -(total + total.T) / 2 * scale**2)
            work.store.finish()
        if self.done(work):
            return
        work.report(self.name, 0, 1)
        if has_landmarks(work.store) and PROJECTED not in work.store.document.arrays:
            self._project(work)
        self._make(work, self.fields(work.parameters, ""))
        work.report(self.name, 1, 1)

    def _project(self, work: Work) -> None:
        """M = (U'Y)(U'Y)', of the coordinates of all rows by landmarks."""
        left, placed = left_vectors(work), work.store.read_array(PLACED)
        inside = sum(blas.product(left[here].T, placed[here]) for here in panels(*left.shape))
        work.store.write_array(PROJECTED, blas.product(inside, np.transpose(inside)))

    def _make(self, work: Work, fields: MapFields) -> None:
        store, basis = work.store, basis_in(work.store)
        projected = store.read_array(PROJECTED)
        asked, ridge, errors = fields.n_components, fields.ridge, []
        if isinstance(ridge, str):
            targets = stored_embedding(store).coordinates()
            left = left_vectors(work)
            errors = [(rho, left_out_error(left, basis.spread, targets - targets.mean(axis=0), rho)) for rho in GRID]
            ridge = min(errors, key=lambda one: one[1])[0]
        found = least_strain(basis, projected, asked + 1, ridge, fields.scale)
        said, active = list[str](), int((np.abs(found.turn[:, :asked]).max(axis=0) > 0).sum())
        kernel, n = store.needed(FeaturesRecord).fields.kernel, store.needed(GraphRecord).n_vertices
        if ridge == 0 and basis.rank >= n - 1:
            said.append(
                f"ridge=0 with as many directions ({basis.rank}) as rows allow: the map runs through every training "
                "point, and new points may land anywhere; give a ridge such as 1e-3"
            )
            warn(said[0], ScalemaniWarning)
        if active < asked:
            said.append(
                f"{asked - active} of {asked} axes have no positive eigenvalue, or are past the rank of the features "
                f"({basis.rank}), and are 0: ask for n_components={max(active, 1)} or fewer"
            )
            warn(said[-1], RankWarning)
        coordinates, signs = _coordinates(left_vectors(work), found.turn[:, :asked])
        weights, turn = found.weights[:, :asked] * signs, found.turn[:, :asked] * signs
        store.forget(self.name, FitRecord.STEP)
        store.write_array(WEIGHTS, weights)
        store.write_array(COORDINATES, coordinates)
        if kernel == "linear":
            store.write_array(BACK, _back(turn, basis.spread, basis.loadings))
        following = found.eigenvalues[asked] if asked < basis.rank else None
        store.finish(
            MapRecord(
                fields=fields,
                ridge=ridge,
                left_out=errors,
                eigenvalues=found.eigenvalues[:asked].tolist(),
                next_eigenvalue=None if following is None else float(following),
                trace=found.trace,
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
        found = least_strain(basis, store.read_array(PROJECTED), asked, state.ridge, state.fields.scale)
        size = max(abs(state.eigenvalues[0]), float(np.abs(found.eigenvalues).max()))
        if (np.abs(found.eigenvalues - state.eigenvalues) > SAME * size).any():
            yield Fault("array", WEIGHTS, "the eigenvalues do not follow from the projected kernel")

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        store = work.store
        state = store.record(MapRecord)
        if waiting or state is None:
            return []
        if "projected" in faults and has_landmarks(store):
            self._project(work)
        elif "projected" in faults:  # D was stored, and may be gone
            store.write_array(PROJECTED, sums(work, store.needed(DistancesRecord).tile_size)[0])
        fit = store.record(FitRecord)
        self._make(work, state.fields)
        if fit is not None:
            store.finish(fit)
        return ["the map was solved again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """Eigenvalues, ridge, warnings, and which features make the axes."""
        state = store.needed(MapRecord)
        return {
            "eigenvalues": state.eigenvalues,
            "next_eigenvalue": state.next_eigenvalue,
            "trace": state.trace,
            "ridge": state.ridge,
            "left_out": [list(pair) for pair in state.left_out],
            "scale": state.fields.scale,
            "warnings": state.warnings,
            "lengths": np.linalg.norm(store.read_array(COORDINATES), axis=0).tolist(),
            "features": _largest(store),
        }

    def coordinates(self, store: RunStore) -> F64:
        return store.read_array(COORDINATES)

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The coordinates in four forms; on the disk with the weights, the way back, and M."""
        p, width, rank = size.parameters.n_components, feature_count(size), most_directions(size)
        disk = 8 * p * (size.n + 2 * width) + array_bytes(rank, 8 * rank)
        return Needs(client={"outputs": 4 * 8 * size.n * p}, disk=disk)


def moves(store: RunStore) -> F64 | None:
    """How far one standard deviation of each feature moves a row along each axis, (p, q); None of a kernel's map."""
    if store.needed(FeaturesRecord).fields.kernel != "linear":
        return None
    basis, n = basis_in(store), store.needed(GraphRecord).n_vertices
    spread = np.sqrt(blas.product(basis.loadings**2, basis.spread**2) / n)
    return np.asarray(store.read_array(WEIGHTS).T * spread)


def _largest(store: RunStore) -> list[list[dict[str, Any]]]:
    """Of each of the first ten axes the ten features that move rows most along it.

    weight: Of one unit of the feature. moves: Of one standard deviation. on_first_two: `moves` on axes 1 and 2.
    """
    moved = moves(store)
    if moved is None:
        return []
    weights, named = store.read_array(WEIGHTS), store.record(NamesRecord)
    names = None if named is None else named.features
    return [
        [
            {
                "feature": int(j),
                "name": None if names is None else names[j],
                "weight": float(weights[j, a]),
                "moves": float(axis[j]),
                "on_first_two": moved[:2, j].tolist(),
            }
            for j in np.argsort(-np.abs(axis), kind="stable")[:MOST_SHOWN]
        ]
        for a, axis in enumerate(moved[:MOST_SHOWN])
    ]


def _coordinates(left: F64, turn: F64) -> tuple[F64, F64]:
    """Y = U turn, with each axis' largest entry positive, and the signs that this took."""
    found = np.empty((len(left), turn.shape[1]))
    for here in panels(*left.shape):
        found[here] = blas.product(blas.by_rows(left[here]), turn)
    fixed = fixed_signs(found)
    return fixed, np.where((fixed != found).any(axis=0), -1.0, 1.0)


def _back(turn: F64, spread: F64, loadings: F64) -> F64:
    """B of X ≈ mean + Y B, by least squares over the training rows: (Y'Y)^-1 Y'JX, where JX = U Σ V'."""
    inverse = np.linalg.pinv(turn)  # of Y, since U is orthonormal
    return np.asarray(blas.product(inverse * spread, loadings.T))
