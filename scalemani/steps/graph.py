"""Neighbour lists, then the graph made of them."""

from scalemani.steps.base import Step


class Neighbors(Step):
    """Neighbour lists of the distinct rows."""

    name, title = "neighbors", "neighbours"


class Graph(Step):
    """The connected graph in vertex order, the maps from rows to vertices, and what projections need of the points."""

    name, title = "graph", "graph"
