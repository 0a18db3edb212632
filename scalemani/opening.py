"""Which run a fit works in: takes a path, the parameters and X's identity, gives a new run or the one that is there.

A run that is there is resumed when its fields agree, stage by stage; other data, neighbours or graph
is an error that names the field. One that is to be overwritten stays until the new run's graph is
known to be right: the new run is begun beside it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scalemani.engine.document import versions
from scalemani.engine.objects import beside, remove_partials
from scalemani.engine.places import absolute
from scalemani.engine.store import RunStore, kind_of
from scalemani.engine.store_folder import StoreFolder
from scalemani.engine.store_place import check_replaceable
from scalemani.engine.writer import Writer
from scalemani.errors import IN_A_SEARCH, StoreMismatchError
from scalemani.inputs import Input
from scalemani.parameters import Parameters

REDO = "redo"  # the stage that a repair leaves where the graph has to be made again, which takes the points


def recorded_graph(store: RunStore) -> dict[str, int]:
    """Checksums of the arrays that D was made from, by name, as the document has them."""
    arrays = store.document.get("arrays", {})
    return {name: value for name, value in arrays.items() if name.startswith("graph_") or name == "order"}


def open_run(path: str, parameters: Parameters, given: Input) -> tuple[Parameters, RunStore]:
    """The run to work in, and the parameters with their seed resolved.

    Raises StoreMismatchError: Naming the first field in which the run that is there differs.
    Raises ScalemaniError: If something else is there.
    """
    identity = {
        "kind": given.kind,
        "n_rows": given.n_rows,
        "n_features": given.n_features,
        "fingerprint": given.fingerprint,
    }
    found = kind_of(path)
    if found != "run" or parameters.overwrite:
        seeded = parameters.seeded(None)
        data = {"fields": identity, "seed": seeded.random_state, "n_distinct": given.n_distinct}
        return seeded, RunStore.create(beside(path) if found == "run" else path, stages={"data": data})
    store = RunStore(path)
    remove_partials(path)  # at once: it may be a whole D
    stages = store.document["stages"]
    seeded = parameters.seeded(stages["data"]["seed"])
    wanted = {"data": identity, **seeded.stage_fields(given.kind)}
    # without a graph no distances hang on the neighbour lists: other ones may take their place
    for stage in ("data", "neighbors", "graph") if "graph" in stages else ("data",):
        _refuse_other(path, stages[stage], wanted[stage])
    if "geodesics" in stages or "landmarks" in stages or store.has_distances:
        _refuse_other(path, stages.get("landmarks", {"fields": {}}), wanted["landmarks"])
    if "fit" not in stages:
        _refuse_other_versions(path, store.document["versions"], stages)
    if parameters.tile_size is not None and store.has_distances:
        tiles = {"fields": {"tile_size": store.blocks.size}}
        _refuse_other(path, tiles, {"tile_size": int(parameters.tile_size)})
    if "geodesics" in stages and "landmarks" not in stages and not store.has_distances:
        _refuse_other(path, stages.get("solve"), wanted["solve"], " and its distances were dropped")
    return seeded, store


def sole_writer(folder: StoreFolder) -> Writer:
    """The right to write at a user's path, for a ``with`` block; nobody else knows of a temporary one.

    Raises StoreInUseError: On entering, while another fit lives that writes there.
    """
    return Writer(folder.path, beats=not folder.temporary)


@contextmanager
def in_place(store: RunStore, path: str) -> Iterator[str]:
    """Put a run that was begun beside `path` there when the block ends well; remove it when not.

    Yields the path, at which the run is afterwards.
    """
    target = str(absolute(path))
    try:
        yield target
        if store.path != target:
            check_replaceable(target)  # once more: a search is long
    except BaseException:
        if store.path != target:
            store.remove()
        raise
    if store.path != target:
        store.moved_to(target, replace=True)


def differing(state: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The fields in which a finished stage differs; the seed is none where the search that ran is exact."""
    exact = "method" in state and state["method"] != "nndescent"
    return [
        name
        for name, value in wanted.items()
        if state["fields"].get(name) != value and not (exact and name == "random_state")
    ]


def _refuse_other_versions(path: str, begun: dict[str, str], stages: dict[str, Any]) -> None:
    """An unfinished run goes on under the releases that it was begun with, or its numbers would be of two kinds.

    Of this package each release counts, of the numerical ones each minor release, of pynndescent while it searches.
    """
    here = versions()
    for name in ("scalemani", "numpy", "scipy", "numba", *(() if "neighbors" in stages else ("pynndescent",))):
        parts = None if name == "scalemani" else 2
        then, now = begun.get(name, "unknown"), here[name]
        if "unknown" not in (then, now) and then.split(".")[:parts] != now.split(".")[:parts]:
            raise StoreMismatchError(
                f"the store {path!r} holds an unfinished run begun with {name} {then} where {name} {now} is installed: "
                "go on under that release, give another path, or overwrite=True to replace it"
            )


def _refuse_other(path: str, state: Any, wanted: dict[str, Any], more: str = "") -> None:
    """Name the first field in which a finished stage differs from what is asked for."""
    if state is None:
        return
    for name in differing(state, wanted):
        have, value = state["fields"].get(name), wanted[name]
        shown = "other data" if name == "fingerprint" else f"{name}={have!r}"
        asked = "" if name == "fingerprint" else f" where {name}={value!r} is asked for"
        raise StoreMismatchError(
            f"the store {path!r} holds a run with {shown}{asked}{more}: give another path, or overwrite=True to "
            f"replace it{IN_A_SEARCH}"
        )
