"""Edges that leap from one part of the data to another: found from the paths of a few points, and said or removed.

The graph's arrays stay as they are. Edges that are removed are in an array of their own, and every reader of the graph
leaves them out: :func:`scalemani.geodesics.rows.shared_graph` does it.
"""

from dataclasses import replace
from typing import Any

from msgspec import structs

from scalemani.aliases import I64
from scalemani.errors import DisconnectedGraphError, ScalemaniError, ShortcutWarning, warn
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import WITHOUT, graph_bytes, power_of_two_scale, scaled, shared_graph
from scalemani.geodesics.shortcuts import SOURCES, Shortcuts, find_shortcuts, shortcut_sources, shortcuts_bytes
from scalemani.graph.build import Graph
from scalemani.neighbors.lists import NeighborLists
from scalemani.parameters import Parameters
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.cuts import scattered_task_bytes
from scalemani.steps.graph import KEPT, stored_lists
from scalemani.steps.records import DataRecord, GraphRecord, ShortcutsFields, ShortcutsRecord
from scalemani.steps.rows import SOURCES_A_TASK, scattered_rows
from scalemani.steps.sources import first_rows
from scalemani.storage.run import RunStore
from scalemani.words import percent

SEEN, LENGTHS, FLOWS = "shortcuts", "shortcut_lengths", "shortcut_flows"
ARRAYS = {SEEN, WITHOUT, LENGTHS, FLOWS}
TRIED = 3  # smaller numbers of neighbours
NAMED = 3  # edges that a warning names


class ShortcutEdges(Step):
    """Looks for them, warns of them or removes them."""

    record, title = ShortcutsRecord, "shortcut edges"
    arrays = {"shortcut": "shortcuts", WITHOUT: "shortcuts"}
    mends = {"shortcuts": "looks for them again"}

    def check_before(self, points: Any, parameters: Parameters) -> None:
        """Only edges of a graph that was made here are removed."""
        if parameters.shortcuts == "remove" and (points.kind == "geodesic" or _finished(points)):
            what = "a finished graph" if points.kind == "graph" else "final distances"
            raise ScalemaniError(
                f"shortcuts='remove' with X that is {what}: nothing is taken out of what was given; use "
                "shortcuts='warn', or give rows or distances to choose neighbours from"
            )

    def fields(self, parameters: Parameters, kind: str) -> ShortcutsFields:
        """Whether edges are removed, since all distances depend on that, and the seed of the sample."""
        if parameters.shortcuts == "remove":
            return ShortcutsFields(shortcuts="remove", random_state=parameters.random_state)
        return ShortcutsFields(shortcuts="warn")

    def finished(self, store: RunStore, parameters: Parameters) -> bool:
        """Whether they were looked for, or need not be."""
        state = store.record(self.record)
        return state is not None and (state.looked or parameters.shortcuts == "keep")

    def run(self, work: Work) -> None:
        """Look for them in the graph; what is found is removed from it, or warned of."""
        store, parameters = work.store, work.parameters
        if self.done(work):
            return
        fields = self.fields(parameters, work.points.kind)
        classes = store.needed(GraphRecord).n_classes is not None  # have no graph in common, along which one leaps
        if parameters.shortcuts == "keep" or work.given or classes:
            store.finish(ShortcutsRecord(fields=fields, seed=parameters.random_state, looked=work.given))
            return
        work.report(self.name, 0, 1)
        found = self._look(work, fields, parameters.random_state)
        work.report(self.name, 1, 1)
        if len(found.edges) and parameters.shortcuts == "warn":
            warn(f"{self._seen(store, found)}; {self._remedy(work)}", ShortcutWarning)

    def _look(self, work: Work, fields: ShortcutsFields, seed: int) -> Shortcuts:
        """The cluster finds the sampled rows, and this process the shortcuts; they are recorded.

        Distances that were made with other edges, or before anyone looked, are forgotten with all that hangs on them.
        """
        store, removes = work.store, fields.shortcuts == "remove"
        state, before = store.record(ShortcutsRecord), dict(store.document.arrays)
        for name in before.keys() & ARRAYS:
            store.remove_array(name)
        graph = shared_graph(store.path, store.identity)
        sources = shortcut_sources(graph.shape[0], seed)
        rows = scattered_rows(work.cluster, store, sources)
        bridges = store.read_array("vertex_of_distinct")[store.read_array("bridges")]
        found = find_shortcuts(graph, sources, rows, bridges)
        count = len(found.edges)
        if count:
            store.write_array(WITHOUT if removes else SEEN, found.edges)
            store.write_array(LENGTHS, found.lengths * store.needed(GraphRecord).scale)
            store.write_array(FLOWS, found.flows)
        harm, mass = found.harm, found.negative_mass
        store.finish(
            ShortcutsRecord(fields=fields, seed=seed, looked=True, n_shortcuts=count, harm=harm, negative_mass=mass)
        )
        there = 0 if state is None else state.n_shortcuts
        same = there == count and before.get(WITHOUT) in (None, store.document.arrays.get(WITHOUT))
        later = [name for name in store.document.stages if name not in (*KEPT, self.name)]
        if removes and not same and later:
            store.forget(*later)
            store.drop_distances()
        return found

    # ---- what is said of them ----

    def _seen(self, store: RunStore, found: Shortcuts) -> str:
        """How many there are, how much hangs on them, and the busiest by the user's rows."""
        n = len(found.edges)
        rows = rows_of(store, found.edges)
        named = ", ".join(f"{a} and {b}" for a, b in rows[:NAMED])
        leap = "1 edge of the graph leaps" if n == 1 else f"{n} edges of the graph leap"
        them, join = ("it", "it joins") if n == 1 else ("them", "they join")
        return (
            f"{leap} from one part of the data to another: without {them}, {percent(found.harm)} "
            f"of the sampled distances are longer by at least a fifth; {join} rows {named}"
            + ("" if n <= NAMED else f" and {n - NAMED} other pairs")
        )

    def _remedy(self, work: Work) -> str:
        """The largest smaller number of neighbours without any, of up to three tried; and the other way."""
        points, parameters = work.points, work.parameters
        remove = "" if _finished(points) else "shortcuts='remove' to take them out"
        k = parameters.n_neighbors
        if _finished(points) or k is None or "neighbors_indptr" not in work.store.document.arrays:
            fewer = "leave them out of the graph" if _finished(points) else "try a smaller radius"
            return f"{fewer}, or {remove}" if remove else fewer
        bent = work.store.needed(ShortcutsRecord).negative_mass or (0.0, 0.0)
        sound = sound_below(points, stored_lists(work.store), parameters, bent[0] / 2)
        fewer = f"use n_neighbors={sound}, where none was found" if sound else "try fewer neighbours"
        return f"{fewer}, or {remove}"

    def account(self, store: RunStore) -> dict[str, Any]:
        """What was found, and whether it was removed."""
        state = store.record(ShortcutsRecord)
        if state is None or not state.looked or store.needed(DataRecord).given:  # given distances have no edges
            return {}
        found = {
            "n_shortcuts": state.n_shortcuts,
            "shortcuts_removed": bool(state.n_shortcuts) and self._name(state) == WITHOUT,
        }
        if not state.n_shortcuts:
            return found
        edges = rows_of(store, store.read_array(self._name(state)))
        lengths, flows = store.read_array(LENGTHS), store.read_array(FLOWS)
        return {
            **found,
            "shortcut_harm": state.harm,
            "shortcut_edges": [
                {"rows": list(rows), "length": float(length), "flow": float(flow)}
                for rows, length, flow in zip(edges, lengths, flows, strict=True)
            ],
        }

    @staticmethod
    def _name(state: ShortcutsRecord) -> str:
        """Of the array of edges."""
        return WITHOUT if state.fields.shortcuts == "remove" else SEEN

    # ---- what is damaged ----

    def left(self, store: RunStore) -> set[str]:
        """The edges, their lengths and flows."""
        state = store.record(ShortcutsRecord)
        return {self._name(state), LENGTHS, FLOWS} if state is not None and state.n_shortcuts else set()

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Look for them again in the graph, or leave that to the fit that makes the graph again."""
        store = work.store
        state = store.record(ShortcutsRecord)
        if state is None:
            return []
        if waiting:
            store.finish(structs.replace(state, looked=False))
            return ["left to the same fit with the same points, which goes on: the shortcut edges"]
        stages = set(store.document.stages)
        self._look(work, state.fields, state.seed)
        if stages == set(store.document.stages):
            return ["shortcut edges were looked for again: they are those that they were"]
        return ["left to the same fit with the same points, which goes on: all that comes of the shortcut edges"]

    # ---- what it will take ----

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """Rows of the sampled points, and the graph with a count an edge."""
        if size.given or size.parameters.shortcuts == "keep" or self.name in size.done:
            return Needs()
        n, edges, sources = size.n, size.edges, min(SOURCES, size.n)
        rows, tasks = 4 * n * sources, -(-sources // SOURCES_A_TASK)
        return Needs(
            client={"graph": graph_bytes(n, edges), "rows": rows, "paths": shortcuts_bytes(n, edges)},
            worker={
                "graph": graph_bytes(n, edges),
                "tasks": size.threads * scattered_task_bytes(n, edges, SOURCES_A_TASK),
            },
            tasks=tasks,
            pieces=[f"{tasks} to look for shortcuts"],
        )

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float | None:
        """Rows from points that lie anywhere, and as much again to follow their paths."""
        if size.given or size.parameters.shortcuts == "keep" or self.name in size.done:
            return None
        return 2 * min(SOURCES, size.n) * float(rates.scattered(min(SOURCES, size.n)))


def _finished(points: Any) -> bool:
    """Whether X is a graph, from which no neighbours are chosen."""
    return points.kind == "graph" and not points.listed


def rows_of(store: RunStore, edges: I64) -> list[tuple[int, int]]:
    """The first of the user's rows at either end of each edge."""
    first = first_rows(store)
    return [(int(first[a]), int(first[b])) for a, b in edges]


def sound_below(points: Any, lists: NeighborLists, parameters: Parameters, most_mass: float) -> int | None:
    """The largest smaller number of neighbours of whose graph no edge leaps, of up to three that are tried.

    most_mass: The negative mass of a graph that is not bent as this one is.
    """
    high, sound = parameters.n_neighbors or 0, None
    low = high // 2
    for _ in range(TRIED):
        k = (low + high + 1) // 2
        if not low < k < high:
            break
        try:
            graph = points.graph(replace(parameters, n_neighbors=k), lists.nearest(k))
        except DisconnectedGraphError:  # more are needed
            low = k
            continue
        found = graph_shortcuts(points, graph, parameters.random_state)
        bent = len(found.edges) or found.negative_mass[0] > most_mass
        sound, low, high = (sound, low, k) if bent else (k, k, high)
    return sound


def graph_shortcuts(points: Any, graph: Graph, seed: int) -> Shortcuts:
    """The shortcuts of a graph that is not stored; those that a fit finds in it."""
    matrix = scaled(graph.matrix, power_of_two_scale(points.lengths(graph)))
    sources = shortcut_sources(matrix.shape[0], seed)
    bridges = graph.vertex_of(points.n_distinct)[graph.bridges]
    return find_shortcuts(matrix, sources, geodesic_rows(matrix, sources), bridges)
