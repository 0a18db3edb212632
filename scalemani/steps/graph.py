"""Neighbour lists, then the graph made of them."""

from typing import Any

from scalemani.geodesics.rows import graph_bytes
from scalemani.neighbors.choice import lists_bytes
from scalemani.steps.base import FitSize, Parts, Step


class Neighbors(Step):
    """Neighbour lists of the distinct rows."""

    name, title = "neighbors", "neighbours"

    # ---- what it will take ----

    def disk(self, size: FitSize, cut: Any) -> int:
        """The lists."""
        return lists_bytes(size.n, size.listed)


class Graph(Step):
    """The connected graph in vertex order, the maps from rows to vertices, and what projections need of the points."""

    name, title = "graph", "graph"

    # ---- what it will take ----

    @property
    def in_memory(self) -> tuple[str, str]:
        """The search counts here: one comes after the other, and a fit that has a graph needs neither."""
        return "search", "neighbours and graph"

    def memory(self, size: FitSize, cut: Any) -> tuple[Parts, Parts]:
        """Of the search or the making of the graph, whichever is more."""
        return {"search and graph": size.search}, {}

    def disk(self, size: FitSize, cut: Any) -> int:
        """The graph, and the points."""
        return graph_bytes(size.n, size.edges) + size.points

    def lines(self, size: FitSize, cut: Any) -> list[tuple[str, str]]:
        """How many edges."""
        return [("graph", f"{size.edges // 2:,} edges")]
