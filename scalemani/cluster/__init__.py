"""Where tasks run: in this thread or on a Dask cluster; windows of tasks, health of workers, threads, compiled kernels.

`choice` is the way in. It knows no stage of the method: it runs functions.
May import: storage and what that may.
"""
