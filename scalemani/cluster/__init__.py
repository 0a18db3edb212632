"""Where tasks run: a Dask client, a window of tasks, the health of workers, threads, compiled kernels.

It knows no stage of the method: it runs functions.
May import: storage and what that may.
"""
