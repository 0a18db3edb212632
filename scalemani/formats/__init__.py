"""Files that users have: tables, arrays, HDF5, Parquet; and files that they want back.

`points` is the way in, `outputs` the way out.
May import: the top level and what that may.
"""
