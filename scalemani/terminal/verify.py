"""The command ``verify``: takes a store, says what is wrong with it and what to run; with ``--repair`` mends it."""

import json
from typing import Any

import click

from scalemani.terminal.console import IncompleteResult
from scalemani.terminal.options import manners
from scalemani.terminal.printable import printable
from scalemani.terminal.progress import reporting

__all__ = ["verify"]

KINDS = {
    "row": "row of tiles",
    "array": "array",
    "chunk": "block",
    "model": "model",
    "leftover": "left over",
    "stray": "not a run's",
}
MOST_LINES = 40  # of faults: a lost disk has a hundred thousand, and --json lists them all


@click.command()
@click.argument("store")
@click.option("--repair", is_flag=True, help="Make again what is damaged, and nothing else.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers read the distances.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@manners
def verify(store: str, repair: bool, scheduler: str | None, as_json: bool, quiet: bool, debug: bool) -> None:
    """Check every byte of STORE.

    Checksums of all files, the ledger against the files, distances for symmetry and finiteness, and the graph, the
    distances and the model against one another. The exit code is 1 if anything is damaged. With --repair what
    can be made again from the store is; what needs the points is marked, and the same fit makes it again.

    \b
    scalemani verify run.zarr --repair
    """
    from scalemani.repair import repair as mend
    from scalemani.verification import remedy
    from scalemani.verification import verify as look

    done: list[str] = []
    with reporting(not quiet) as report:
        if repair:
            done, found = mend(store, scheduler, report)
        else:
            found = look(store, scheduler, report)
    given, to_the_fit = _given(store), repair or found.marked
    said = {
        "store": store,
        "damaged": found.damaged,
        "finished": found.finished,
        "repaired": done,
        "faults": [
            {
                **fault._asdict(),
                "remedy": remedy(fault, given=given, repaired=to_the_fit, landmarks=found.landmarks),
            }
            for fault in found.faults
        ],
        "landmarks": found.landmarks,
        "tile_rows": found.tile_rows,
        "arrays": found.arrays,
    }
    click.echo(json.dumps(said, indent=2) if as_json else "\n".join(map(printable, _lines(said))))
    if found.damaged:
        raise IncompleteResult(f"{store} is damaged; {'the same fit again' if to_the_fit else '--repair'} mends it")


def _given(store: str) -> bool:
    """Whether the run's distances were given."""
    from scalemani.engine.store import RunStore
    from scalemani.errors import DamagedStoreError, ScalemaniError

    try:
        return bool(RunStore(store).document["stages"]["data"]["fields"]["kind"] == "geodesic")
    except (DamagedStoreError, ScalemaniError, KeyError):
        return False


def _lines(said: dict[str, Any]) -> list[str]:
    """A line for each thing that was mended, a line for each that is wrong, in columns, and one for the whole."""
    lines = [f"repair: {sentence}" for sentence in said["repaired"]]
    rows = [
        (f"{KINDS.get(fault['kind'], '')} {fault['name']}".strip(), fault["remedy"], fault["problem"])
        for fault in said["faults"][:MOST_LINES]
    ]
    first, second = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    lines += [f"{name:<{first}}  {mends:<{second}}  {problem}" for name, mends, problem in rows]
    if len(said["faults"]) > MOST_LINES:
        lines.append(f"and {len(said['faults']) - MOST_LINES:,} more, which --json lists")
    if not said["damaged"]:
        more = "" if said["finished"] else "; the fit is not finished, and the same one goes on"
        blocks = "block" if said["tile_rows"] == 1 else "blocks"
        parts = f"{blocks} of distances to landmarks" if said["landmarks"] else "rows of tiles"
        lines.append(f"{said['store']}: whole, {said['tile_rows']:,} {parts} and {said['arrays']} arrays{more}")
    return lines
