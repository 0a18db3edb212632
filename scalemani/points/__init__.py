"""Stage 1: any array, table or matrix becomes validated rows, each distinct row once.

`rows` reads them, `given_matrix` a matrix of distances or kernel values, `classes` labels of the rows.
May import: cluster and what that may.
"""
