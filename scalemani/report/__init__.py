"""The report of a run: one HTML page of words, tables and pictures.

`sections` is the way in.
May import: the top level and what that may; of a run it sees the model only.
"""
