"""What a fit makes and its run keeps, a step a file: each runs a stage over the store and the cluster.

`inputs`, `graph`, `sources`; then `start`, `distances`, `axes`, or `landmark_distances`, `axes`, `placement`.
May import: parameters, projection and what that may.
"""
