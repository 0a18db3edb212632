"""Stage 8: rows that come later get coordinates, each by itself.

`projector` places a block, from the graph or by `landmarks`, `feature_map` by its features alone; `long` places test
sets of any length.
May import: embedding and what that may.
"""
