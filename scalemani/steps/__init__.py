"""What a fit makes and its run keeps: each step runs a stage over the store and the cluster.

`base` says what one is; `axes` is the last of Isomap, `least_strain` of a linear map, `pairs` of one without
distances; `inputs`, `labelled` are read.
May import: parameters, projection and what that may.
"""
