"""Stage 7: eigenpairs become coordinates; what the spectrum says of them, how good they are, which dimension to take.

`coordinates` is the way in; `reconstruction` and `laplacian` need no D; `agreement` lays a map on another (Procrustes).
May import: kernel and what that may.
"""
