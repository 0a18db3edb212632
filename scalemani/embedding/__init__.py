"""Stage 7: eigenpairs become coordinates; what the spectrum says of them, how good they are, which dimension to take.

`coordinates` is the way in; `reconstruction` and `laplacian` make coordinates without D.
May import: kernel and what that may.
"""
