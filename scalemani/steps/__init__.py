"""What a fit makes and its run keeps: each step runs a stage over the store and the cluster.

`base` says what one is; `axes` is Isomap's last, `least_strain` a linear map's, `pairs` is without D; `names` has ids.
May import: parameters, projection and what that may.
"""
