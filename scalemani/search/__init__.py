"""Leaf of stage 2: exact and approximate nearest rows, and the metrics by name or function. Imports no stage."""
