"""What a fit makes and its run keeps, a step a file: each runs a stage over the store and the cluster.

`inputs` -> `sources` -> `distances` -> `start` -> `axes`.
May import: parameters, projection and what that may.
"""
