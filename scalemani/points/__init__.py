"""Stage 1: any array, table or matrix becomes validated rows, each distinct row once.

Nothing here knows a run or a cluster.
May import: cluster and what that may.
"""
