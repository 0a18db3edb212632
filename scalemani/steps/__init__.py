"""What a fit makes and its run keeps: each step runs a stage over the store and the cluster.

`base` says what one is. In order: `graph`, `sources`, `start`, `distances`, `axes`; `landmark_distances`, `placement`;
of a linear map `features`, `passing_distances`, `least_strain`. `inputs` and `labelled` are what they read.
May import: parameters, projection and what that may.
"""
