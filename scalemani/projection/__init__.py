"""Stage 8: rows that come later get coordinates, each by itself.

`projector` (by the graph or `landmarks`), `by_neighbors` and `feature_map` place a block, `long` any test set.
May import: embedding and what that may.
"""
