"""Stages 5 and 6: the centred kernels as operators, their eigenpairs and the additive constant.

`constant` is the way in; `operators` reads the tiles, `eigensolver` sees products only.
May import: geodesics and what that may.
"""
