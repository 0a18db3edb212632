"""The page of a run, comparisons of two maps (`comparison`), a look at a kernel (`kernel_view`), and their pictures.

`sections` is the way in; `map_facts` finds what the live map shows, and `live` packs it with the scripts `map_*.js`.
May import: the top level and what that may; of a run it sees the model only.
"""
