"""Coordinates of all points, where the axes are those of some: each is placed as a test point is."""

from scalemani.steps.base import Step


class Placement(Step):
    """The coordinates of all vertices."""

    name, title = "coordinates", "coordinates"
