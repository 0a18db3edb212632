"""Stage 2: the k nearest neighbours of every row, exact or approximate, by any metric.

`search` is the way in: `choice` says which search is cheapest, `exact`, `parts` (among clusters) or `descent`.
May import: points and what that may.
"""
