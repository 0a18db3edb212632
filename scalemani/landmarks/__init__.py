"""Stages 4 to 8 in the landmark form: takes a run with its graph, gives the model of m landmarks and all coordinates.

    graph -> landmarks (choice) -> rows of D by landmark, turned once (rows) -> kernel, constant, axes (solving)
          -> coordinates of all points, and of any others (placing)

D is (m, n) instead of (n, n). Kernel, constant and axes are those of the (m, m) square of the landmarks, each of which
stands for the points that lie nearest to it (:mod:`scalemani.landmarks.kernels`); every other point is placed as a test
point is (:mod:`scalemani.projection`), with the landmarks as the training set: they land on themselves, the others on
the same scale, and m = n is the full method.

Sources: de Silva and Tenenbaum, "Global versus local methods in nonlinear dimensionality reduction" (NIPS 15, 2003),
for Isomap by landmarks; the projection is kernel Isomap's own (Choi & Choi 2004).
"""
