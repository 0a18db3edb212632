"""Fits of one small roll into stores, for the tests of what a store keeps."""

import numpy as np
from data import roll

from scalemani import KernelIsomap

X = roll(200)
T = roll(20, seed=1)


def fitted(path, kind=KernelIsomap, **arguments):
    return kind(**{"n_neighbors": 8, "store": path, **arguments}).fit(X)


def same(a, b):
    """Two models have the same bits."""
    for name in ("embedding_", "eigenvalues_", "residuals_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.additive_constant_ == b.additive_constant_
    np.testing.assert_array_equal(a.transform(T), b.transform(T))
