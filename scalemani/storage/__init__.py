"""A run on disk or in a bucket: files, records, arrays, tiles of distances, and who may write.

`run` is the way in. It knows no stage of the method: only sizes, names and bytes (docs/store-format.md).
May import: errors, words, aliases.
"""
