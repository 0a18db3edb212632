"""What must hold of a small run on any machine: counts and rows, never seconds."""

from typing import Any

CLOSE = 2e-6  # relative, from SciPy's float64


def check(results: dict[str, Any]) -> None:
    """Counts and rows of a small run."""
    if "start" in results:
        assert results["start"]["kernels"]["misses"] == 0, "a second process compiled kernels again"
        assert results["start"]["kernels"]["hits"] > 0
    for rate in results.get("rates", []):
        where, work = f"{rate['graph']}, {rate['order']}", rate["work"]
        assert rate["deviation"] <= CLOSE, f"{where}: {rate['deviation']:.1e} from SciPy"
        assert work["heap_rows"] <= rate["rows"], where
        assert work["batches"] > 0 or work["heap_rows"] == rate["rows"], f"{where}: rows that nothing made"
        assert work["pops"] >= rate["n"] * work["batches"], f"{where}: a batch that did not see every vertex"
    for stage in [*results.get("threads", []), *results.get("stage", [])]:
        across = -(-stage["n"] // stage["tile"])
        assert stage["tasks"] == across, f"{stage['tasks']} tasks for {across} tile rows"
        assert stage["tiles"] == across * (across + 1) // 2, (
            f"{stage['tiles']} tiles: each pair of blocks is stored once"
        )
        description = stage["disk_bytes"] - stage["tiles"] * stage["tile"] ** 2 * 4
        assert 0 < description < 10_000, f"{stage['disk_bytes']} bytes are not those of whole float32 tiles"
        assert stage["deviation"] <= CLOSE, f"tiles are {stage['deviation']:.1e} from SciPy"
    for fit in [*results.get("fit", []), *results.get("transform", [])]:
        assert fit["shapes"][0] == fit["shapes"][1]
        assert fit["apart"] < 1e-6, f"coordinates differ: {fit['apart']:.1e}"
