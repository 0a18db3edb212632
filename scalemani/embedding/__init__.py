"""Stage 7: eigenpairs become coordinates, with what the spectrum says of them and how good they are.

`coordinates` is the way in.
May import: kernel and what that may.
"""
