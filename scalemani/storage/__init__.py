"""A run on disk or in a bucket: files, records, arrays, tiles of distances, and who may write.

It knows no stage of the method: only sizes, names and bytes.
May import: errors, aliases, progress.
"""
