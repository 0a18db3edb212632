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
    for one in results.get("reads", []):
        check_reads(one)
    if "read-cost" in results:
        cost = results["read-cost"]
        across = -(-cost["n"] // cost["tile"])
        assert cost["tiles"] == across * (across + 1) // 2
        for precision, apart in (("float32", 1e-5), ("float64", 1e-12)):
            one = cost[precision]
            assert one["different_tiles"] == cost["tiles"], "a product that did not read every tile"
            assert one["tile_reads"] == [1, 1], f"a product read a tile {one['tile_reads'][1]} times"
            assert one["apart"] < apart, f"the product is {one['apart']:.1e} from the plain loop's"
    for fit in [*results.get("fit", []), *results.get("transform", [])]:
        assert all(shape == fit["shapes"][0] for shape in fit["shapes"])
        assert fit["apart"] < 1e-6, f"coordinates differ: {fit['apart']:.1e}"
    for one in results.get("whole", []):
        assert one["converged"] and one["shape"] == [one["n"], one["components"]]
        assert one["disk_bytes"] > one["n_vertices"] ** 2 * 2, "half of D is not there"


def check_reads(one: dict[str, Any]) -> None:
    """Of one data set: what is reported is what was read, a dozen at most, and fewer than ARPACK's."""
    where = f"{one['data']}, n = {one['n']}"
    for correction in ("cailliez", "lingoes", "flip", "None"):
        fit = one[correction]
        assert fit["converged"], f"{where}: {correction} did not converge"
        assert fit["tile_reads"] == fit["reads"] * fit["tiles"], f"{where}, {correction}: reads that are not counted"
        assert 0 < fit["reads"] <= 12, f"{where}, {correction}: {fit['reads']} reads"
    if "arpack" in one:
        assert one["arpack"]["reads"] > one["cailliez"]["reads"], where
        constant, other = one["cailliez"]["additive_constant"], one["arpack"]["constant"]
        assert other is None or abs(other / constant - 1) < 1e-5, f"{where}: c* {constant} and {other}"
