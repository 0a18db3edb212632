"""Neighbour lists, then the graph made of them."""

from typing import Any

from scalemani.geodesics.rows import graph_bytes
from scalemani.neighbors.choice import lists_bytes
from scalemani.steps.base import FitSize, Needs, Step


class Neighbors(Step):
    """Neighbour lists of the distinct rows."""

    name, title = "neighbors", "neighbours"

    # ---- what it will take ----

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The lists; the memory of the search counts with the graph's."""
        return Needs(disk=lists_bytes(size.n, size.listed))


class Graph(Step):
    """The connected graph in vertex order, the maps from rows to vertices, and what projections need of the points."""

    name, title = "graph", "graph"

    # ---- what it will take ----

    @property
    def in_memory(self) -> tuple[str, str]:
        """The search counts here: one comes after the other, and a fit that has a graph needs neither."""
        return "search", "neighbours and graph"

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The search or the making of the graph, whichever is more; the graph and the points on the disk."""
        return Needs(
            client={"search and graph": size.search},
            disk=graph_bytes(size.n, size.edges) + size.points,
            lines=[("graph", f"{size.edges // 2:,} edges")],
        )
