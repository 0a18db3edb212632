"""The command ``verify``: takes a store, says what is wrong with it and what to run; with ``--repair`` mends it."""

import json
from typing import Any

import click

from scalemani.terminal.console import IncompleteResult
from scalemani.terminal.options import manners
from scalemani.terminal.progress import reporting

__all__ = ["verify"]

KINDS = {"row": "row of tiles", "array": "array", "metadata": "D", "model": "model"}


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
    from scalemani.verification import Verification, remedy
    from scalemani.verification import verify as look

    done: list[str] = []
    with reporting(not quiet) as report:
        if repair:
            done, found = mend(store, scheduler, report)
        else:
            found = look(store, scheduler, report)
    given = _given(store)

    def record(found: Verification) -> dict[str, Any]:
        faults = [
            {"kind": fault.kind, "name": fault.name, "problem": fault.problem, "remedy": remedy(fault, given=given)}
            for fault in found.faults
        ]
        counts = {"tile_rows": found.tile_rows, "arrays": found.arrays}
        return {"store": store, "damaged": found.damaged, "repaired": done, "faults": faults, **counts}

    said = record(found)
    if as_json:
        click.echo(json.dumps(said, indent=2))
    else:
        click.echo("\n".join(_lines(said)))
    if found.damaged:
        left = "is damaged still: run the same fit with the same points" if repair else "is damaged; --repair mends it"
        raise IncompleteResult(f"{store} {left}")


def _given(store: str) -> bool:
    """Whether the run's distances were given."""
    from scalemani.engine.store import RunStore
    from scalemani.errors import DamagedStoreError, ScalemaniError

    try:
        return bool(RunStore(store).document["stages"]["data"]["fields"]["kind"] == "geodesic")
    except (DamagedStoreError, ScalemaniError, KeyError):
        return False


def _lines(said: dict[str, Any]) -> list[str]:
    lines = [f"mended           {sentence}" for sentence in said["repaired"]]
    for fault in said["faults"]:
        name = f"{KINDS.get(fault['kind'], 'file')} {fault['name']}"
        lines += [f"{name}: {fault['problem']}", f"                 {fault['remedy']}"]
    if not said["damaged"]:
        lines.append(f"{said['store']}: whole ({said['tile_rows']:,} rows of tiles, {said['arrays']} arrays)")
    return lines
