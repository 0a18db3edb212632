"""Stages 5 and 6: the centred kernels as operators, their eigenpairs and the additive constant.

`constant` is the way in; `operators` reads the tiles, `eigensolver` sees products only. `bottom` and `graph_pairs` find
the lowest eigenvectors of sparse matrices, without D.
May import: geodesics and what that may.
"""
