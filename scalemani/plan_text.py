"""What a plan says to people: takes a plan, gives lines."""

from typing import Any

from scalemani.engine.resources import ENDLESS


def size(count: float) -> str:
    """Bytes in the unit that leaves a few digits.

    >>> size(512), size(7_123_456), size(1.5e12)
    ('512 B', '7.1 MB', '1.5 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float, tenths: bool = False) -> str:
    """Seconds as a person says them, if they are few with `tenths` of one.

    >>> duration(4.2, tenths=True), duration(4.2), duration(75), duration(7260)
    ('4.2 s', '4 s', '1 min 15 s', '2 h 1 min')
    """
    if tenths and seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


METHODS = {"kdtree": "k-d tree, exact", "brute": "all pairs, exact", "nndescent": "NN-descent", "graph": "given"}
STAGES = {
    "search": "neighbours and graph",
    "neighbors": "neighbours",
    "solve": "constant and axes",
    "start": "the solver's start",
}


def _verdict(plan: Any, more: int) -> str:
    """Whether the fit can run, or what does not let it; `more` is what the disk holds for a while."""
    if plan.refusal is None:
        return "fits"
    if plan.memory_peak > plan.memory_limit:
        return f"does not fit: {size(plan.memory_peak)} of memory, {size(plan.memory_limit)} is allowed"
    if plan.disk + more > plan.disk_free:
        return f"does not fit: {size(plan.disk + more)} of disk, {size(plan.disk_free)} is free"
    return f"does not fit: {plan.refusal}"


def plan_lines(plan: Any) -> list[str]:
    """The lines of ``scalemani plan``."""
    tiles = f"{plan.tile_rows} rows of tiles (squares of {plan.tile_size:,} x {plan.tile_size:,})"
    reads = f"about {plan.reads}" if plan.reads else "none"
    before = plan.tasks - plan.reads * plan.tasks_a_read
    made = "the solver's start and D" if before and plan.start_vertices else "D"
    return [
        *_head(plan, plan.disk_solving),
        f"distances D      {tiles}, {size(plan.disk_distances)}",
        f"reads of D       {reads}, besides the one while it is written",
        *_work(plan, f"{before} for {made}, {plan.tasks_a_read} a read"),
        *_disk_and_time(plan, "while it is solved, more", plan.disk_solving),
    ]


def landmark_plan_lines(plan: Any) -> list[str]:
    """The lines of ``scalemani plan`` for a fit by landmarks."""
    how = {"maxmin": "each farthest from those before it", "random": "at random", "given": "given by their rows"}
    rows, chunks = -(-plan.n_landmarks // plan.landmarks_a_task), -(-plan.n_vertices // plan.points_a_chunk)
    found, matrix = plan.tasks - 2 * chunks, f"{plan.n_vertices:,} x {plan.n_landmarks:,}, {size(plan.disk_distances)}"
    found_in = f"{found} of {plan.landmarks_a_task} landmarks or fewer, " if found else ""
    assert found in (0, rows)
    return [
        *_head(plan, plan.disk_turning),
        f"landmarks        {plan.n_landmarks:,}, {how[plan.landmark_method]}",
        f"their distances  {matrix} in {_blocks(chunks)} of {plan.points_a_chunk:,} points",
        *_work(plan, f"{found_in}{chunks} to turn and {chunks} to place a block of points"),
        *_disk_and_time(plan, "while they are turned, more", plan.disk_turning),
    ]


def _blocks(count: int) -> str:
    return f"{count:,} block{'' if count == 1 else 's'}"


def _head(plan: Any, more: int) -> list[str]:
    merged, outside = plan.n_rows - plan.n_distinct, plan.n_distinct - plan.n_vertices
    points = f"{plan.n_rows:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    return [
        f"verdict          {_verdict(plan, more)}",
        f"points           {points}" + (f", {outside:,} outside the largest component" if outside else ""),
        f"neighbours       {METHODS.get(plan.method, plan.method)}",
        f"graph            {plan.n_edges:,} edges",
    ]


def _work(plan: Any, counts: str) -> list[str]:
    """Tasks and memory."""
    where, largest = "" if plan.workers == 1 else f" on each of {plan.workers} workers", plan.memory_stage
    lines = [
        f"pieces of work   {plan.tasks:,} ({counts}), {plan.threads} at once{where}",
        f"memory a process {size(plan.memory_peak)} above its size at the start; {size(plan.memory_limit)} is allowed",
    ]
    for stage, parts in plan.memory.items():
        lines.append(f"  {STAGES.get(stage, stage):<29}{size(sum(parts.values())):>10}")
        if stage == largest:
            lines += [f"    {name:<27}{size(held):>10}" for name, held in parts.items() if held]
    return lines


def _disk_and_time(plan: Any, while_: str, more: int) -> list[str]:
    free = f"and {size(plan.disk_free)} is free at" if plan.disk_free < ENDLESS else "in object storage, at"
    lines = [f"disk             {size(plan.disk)}, {free} {plan.folder}"]
    if more:
        lines.append(f"  {while_:<29}{size(more):>10}")
    if plan.seconds:
        lines.append(f"time             about {duration(sum(plan.seconds.values()), tenths=True)}")
        spent = {STAGES.get(name, name): duration(seconds, tenths=True) for name, seconds in plan.seconds.items()}
        lines += [f"  {name:<29}{said:>10}" for name, said in spent.items()]
    return lines
