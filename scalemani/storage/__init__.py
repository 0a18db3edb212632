"""A run on disk or in a bucket: files, records, arrays, tiles of distances, and who may write.

`run` is the way in. It knows sizes, names and bytes (docs/store-format.md), and nothing of what the numbers mean.
May import: errors, words, aliases, progress.
"""
