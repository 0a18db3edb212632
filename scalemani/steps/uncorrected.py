"""The axes of a run's distances without the constant that was added to them: solved beside the model, and not kept."""

from dataclasses import replace

from scalemani.aliases import F64
from scalemani.cluster.choice import open_cluster
from scalemani.cluster.client import Cluster
from scalemani.embedding.coordinates import make_embedding
from scalemani.errors import ScalemaniError, keeping_warnings
from scalemani.kernel.constant import Solution, solve
from scalemani.kernel.far_rows import RANK_TOLERANCE
from scalemani.kernel.operators import CenteredKernels, DenseKernels, DistanceSums, FirstRead, Kernels, kernels_bytes
from scalemani.progress import Progress
from scalemani.projection.linear_map import Axes
from scalemani.steps.placement import place_all
from scalemani.steps.records import GraphRecord, PlacementRecord, SolveRecord, StartRecord
from scalemani.steps.sources import COUNTS, Layout, has_landmarks, symmetric_square
from scalemani.storage.run import RunStore
from scalemani.words import bytes_in_words

MOST_READS = 6
MOST_BYTES = 8_000_000_000  # of the distances that are read
TOL = 1e-3  # of the residuals: what that leaves is too small to be seen on a map
SETTLED = 1e-2  # the largest residual of axes that are worth a look


def without_constant(store: RunStore, report: Progress) -> F64 | None:
    """Coordinates (n, p) of all vertices by the kernel without a correction; None where nothing was added.

    Raises ScalemaniError: Where the distances are not kept, too many to be read again, or not enough reads of them.
    """
    state = store.record(SolveRecord)
    if state is None or not (state.constant or state.nugget):
        return None
    n, landmarks = store.needed(GraphRecord).n_vertices, has_landmarks(store)
    if not landmarks and not store.has_distances:
        raise ScalemaniError("the distances are not kept")
    m = Layout.of(store).m if landmarks else n
    # Each pair once in float32; by landmarks their square, and all distances once.
    size = MOST_READS * kernels_bytes(m) + 4 * n * m if landmarks else MOST_READS * 2 * n**2
    if size > MOST_BYTES:
        raise ScalemaniError(
            f"it takes reads of {bytes_in_words(size)}, and {bytes_in_words(MOST_BYTES)} are read at the most"
        )
    # Of axes that are looked at and not kept no warnings are given.
    with keeping_warnings(), open_cluster(None, n * m) as cluster:
        cluster.check_shared(store.path, writing=False)
        solution, sums = (_by_landmarks if landmarks else _by_tiles)(store, cluster, state, report)
        if not float(solution.pairs.residuals.max()) <= SETTLED:
            raise ScalemaniError(f"its axes are not settled after {MOST_READS} reads of the distances")
        embedding = make_embedding(solution, sums, store.needed(GraphRecord).scale)
        if not landmarks:
            return embedding.coordinates()
        form = store.needed(PlacementRecord).fields.projection
        return place_all(cluster, store, Axes(embedding, form), report)


def _by_tiles(store: RunStore, cluster: Cluster, state: SolveRecord, report: Progress) -> tuple[Solution, DistanceSums]:
    """From tiles of D, beginning with the read of it that the fit kept."""
    start = store.record(StartRecord)
    report("without the constant", 0, MOST_READS)
    kernels = CenteredKernels(
        cluster,
        store,
        "float64" if state.tolerance < RANK_TOLERANCE else None,  # rows are far off: float32 loses the others
        on_read=lambda reads: report("without the constant", reads, MOST_READS),
        first=FirstRead.load(store),
    )
    solution = _solved(kernels, state, None if start is None else start.most_columns)
    report("without the constant", MOST_READS, MOST_READS)
    return solution, kernels.sums


def _by_landmarks(
    store: RunStore, cluster: Cluster, state: SolveRecord, report: Progress
) -> tuple[Solution, DistanceSums]:
    kernels = DenseKernels(symmetric_square(store), store.read_array(COUNTS))
    solution = _solved(kernels, state)
    pairs = solution.pairs
    return replace(solution, pairs=replace(pairs, vectors=kernels.on_points(pairs.vectors))), kernels.sums


def _solved(kernels: Kernels, state: SolveRecord, most_columns: int | None = None) -> Solution:
    reads = None if isinstance(kernels, DenseKernels) else MOST_READS
    return solve(
        kernels,
        state.fields.n_components,
        correction=None,
        tol=TOL,
        seed=state.fields.random_state,
        most_reads=reads,
        most_columns=most_columns,
        tolerance=lambda: state.tolerance,
    )
