"""Stages 5 and 6: the centred kernels as operators, their eigenpairs and the additive constant.

`constant` is the way in; `bottom` and `graph_pairs` need no D. Functions such as "rbf": embedding/kernel_functions.
May import: geodesics and what that may.
"""
