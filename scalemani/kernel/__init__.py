"""Stages 5 and 6: the centred kernels as operators, their eigenpairs and the additive constant.

`constant` is the way in; `operators` reads tiles, `eigensolver` sees products; `bottom`, `graph_pairs` need no D.
May import: geodesics and what that may.
"""
