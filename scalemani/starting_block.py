"""Where the solver begins: asks one stage for the geodesic rows of landmarks, and another for the block they give.

`starting_block` takes a run whose graph is there, gives the first block (n, b) of the solver, which is multiplied
while D is written. Up to 301 points that is the whole complement of 1; where so many axes are wanted that the block
would be half as wide as there are landmarks, it is a random one.
"""

from scalemani.eigensolver import first_block, start_block
from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.inputs import GeodesicInput, Input
from scalemani.landmark_block import Vectors, choose_landmarks, landmark_block
from scalemani.landmark_rows import given_rows, landmark_rows
from scalemani.needs import landmark_count
from scalemani.parameters import Parameters


def starting_block(
    store: RunStore, given: Input, parameters: Parameters, cluster: Cluster, most_columns: int
) -> Vectors:
    """The first block for `parameters.correction`, orthonormal and orthogonal to 1.

    Parameters
    ----------
    most_columns : int
        Of the solver's basis, as planned.
    """
    state = store.stage("graph")
    assert state is not None
    n, scale, seed = state["n_vertices"], state["scale"], parameters.random_state
    width = first_block(n, parameters.n_components)
    if not landmark_count(parameters, n, most_columns):
        return start_block(n, width, seed)
    landmarks = choose_landmarks(n, most_columns, seed)
    if isinstance(given, GeodesicInput):
        rows = given_rows(given.checked, store.read_array("order"), landmarks, scale)
    else:
        rows = landmark_rows(cluster, store, landmarks)
    return landmark_block(rows, landmarks, width, parameters.n_components, parameters.correction_in(scale), seed)
