"""Stage 3: neighbour lists become a connected symmetric graph with a vertex order.

`build` is the way in.
May import: neighbors and what that may.
"""
