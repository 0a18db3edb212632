"""The commands that draw one picture, and that compare two maps.

The library and NumPy are imported inside the commands, so that ``--help`` is quick.
"""

import json
from typing import Any

import click

from scalemani.errors import ScalemaniError
from scalemani.progress import reporting
from scalemani.terminal.help import Command
from scalemani.terminal.options import check_reading, manners, numbers, reading
from scalemani.terminal.placing import new_rows, say_notes
from scalemani.words import count, printable

WHAT = "embedding", "spectrum", "residual-variance", "shepard"


@click.command(cls=Command)
@click.argument("store")
@click.argument("out")
@click.option(
    "--color",
    "--colour",
    "color",
    metavar="FILE[:COLUMN]",
    help="Colour the map by a value for each row of the fit, in a file that is named as for report --color.",
)
@click.option(
    "--project",
    "new",
    metavar="FILE",
    help="Also place new points on the map, as crosses: a file as project takes it. --heading to --ignore are of this "
    "file, --delimiter and --decimal of that of --color too.",
)
@click.option(
    "--axes",
    "shown",
    multiple=True,
    metavar="A,B",
    default=["1,2"],
    show_default=True,
    callback=numbers,
    help="The two axes of the map to draw, counted from 1 as the report names them; or one alone.",
)
@click.option(
    "--what",
    type=click.Choice(WHAT),
    default=WHAT[0],
    show_default=True,
    help="The map, or a chart: eigenvalues, residual variance by the number of axes, or distances on the map against "
    "those along the data.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there.")
@reading
@manners
def plot(
    store: str,
    out: str,
    color: str | None,
    new: str | None,
    shown: list[int],
    what: str,
    overwrite: bool,
    how: dict[str, Any],
    quiet: bool,
) -> None:
    """Draw the map, or one chart of it, as a picture.

    OUT is a .png, .svg or .pdf. Rows without coordinates are left out.

    \b
    scalemani plot run.zarr map.png --color labels.csv:kind
    scalemani plot run.zarr map.pdf --axes 2,3 --project new.csv --id-column name
    """
    from scalemani.formats.outputs import check_picture, write_page

    _check_options(what, color, new, how)
    path = check_picture(out, overwrite=overwrite)
    from scalemani import load
    from scalemani import plot as draw
    from scalemani.formats.columns import read_column
    from scalemani.report.drawing import picture

    model = load(store)
    p, axes = model.embedding_.shape[1], tuple(one - 1 for one in shown)
    if not 1 <= len({*axes}) == len(axes) <= 2 or max(axes) >= (2 if p == 1 and axes == (0, 1) else p):
        said = ",".join(map(str, shown))
        raise ScalemaniError(f"--axes {said}: {store} has {count(p, 'axis', 'axes')}; give one or two of 1 to {p}")
    signs = how["delimiter"], how["decimal"]
    name, values = ("", None) if color is None else read_column(color, len(model.embedding_), *signs, model._run.ids)
    points = None
    if new is not None:
        source = new_rows(model, store, new, how)
        say_notes(source.notes, quiet)
        with reporting(not quiet) as report:
            points = model._run.transform(source.values, model.scheduler, report)
    charts = {"spectrum": draw.spectrum, "residual-variance": draw.residual_variance, "shepard": draw.shepard}
    drawn = charts[what](model) if what in charts else draw.embedding(model, values, points, axes, name=name)
    write_page(path, picture(drawn.figure, path.suffix.lower()))
    if not quiet:
        click.echo(f"{out}: {'the map' if what == WHAT[0] else what.replace('-', ' ')} of {store}")


def _check_options(what: str, color: str | None, new: str | None, how: dict[str, Any]) -> None:
    """Refuse options of the map where another thing is drawn, and those of a file that there is not."""
    axes = click.get_current_context().get_parameter_source("shown") is click.core.ParameterSource.COMMANDLINE
    of_map = {"--color": color is not None, "--project": new is not None, "--axes": axes}
    for option, given in of_map.items():
        if given and what != WHAT[0]:
            raise ScalemaniError(f"{option} is for the map: leave it out with --what {what}, or leave --what out")
    check_reading(how, new, color)


@click.command(cls=Command)
@click.argument("store")
@click.argument("other")
@click.option("--picture", "out", metavar="OUT", help="Also draw both maps side by side: a .png, .svg or .pdf.")
@click.option(
    "--aligned",
    metavar="OUT",
    help="Also write the coordinates of OTHER as they lie upon the map of STORE, to a .csv, .npy, .zarr, .parquet or "
    ".h5: rows that both have, in the order of STORE, with their ids.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@manners
def compare(
    store: str, other: str, out: str | None, aligned: str | None, overwrite: bool, as_json: bool, quiet: bool
) -> None:
    """Compare two maps of the same points.

    The map of OTHER is moved, turned, mirrored and scaled so that its points lie nearest to those of STORE. Said is how
    far points are apart then, how many neighbours both maps share, and how their distances are correlated. Rows are
    matched by their ids where both fits have them (--id-column), else by their numbers where there are as many.

    \b
    scalemani compare monday.zarr tuesday.zarr --picture both.png
    """
    from scalemani.formats.outputs import check_output, check_picture, write_coordinates, write_page

    path = None if out is None else check_picture(out, overwrite=overwrite)
    for one in (store, other) if aligned is not None else ():
        check_output(str(aligned), overwrite=overwrite, store=one)
    from scalemani import compare as look

    found = look(store, other)
    if aligned is not None:
        write_coordinates(aligned, found.aligned, ids=found.ids, overwrite=overwrite)
    if path is not None:
        from scalemani.report.drawing import picture

        write_page(path, picture(found.plot()[0].figure, path.suffix.lower()))
    files = [f"{what:<17}{name}" for what, name in (("picture", out), ("laid upon", aligned)) if name is not None]
    said = "\n".join(map(printable, [*str(found).splitlines(), *files]))  # no name holds signs that a terminal obeys
    click.echo(json.dumps(found.record(), indent=2, allow_nan=False) if as_json else said)
