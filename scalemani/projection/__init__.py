"""Stage 8: rows that come later get coordinates, each by itself.

`projector`, `by_neighbors` and `feature_map` place a block; `long` places test sets of any length.
May import: embedding and what that may.
"""
