"""The commands of the program ``scalemani``: files and options go to the library, and lines and files come from it.

The library and NumPy are imported inside the commands, so that ``--help`` is quick.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from scalemani import __version__
from scalemani.errors import DoesNotFitError, ScalemaniError, naming_columns
from scalemani.progress import Progress, reporting
from scalemani.terminal.console import CutShort, IncompleteResult, give_missing_streams, refuse_nan, run
from scalemani.terminal.help import Command, Commands
from scalemani.terminal.options import (
    check_reading,
    chosen,
    estimator_options,
    in_options,
    manners,
    numbers,
    reading,
    reading_again,
    scan_options,
)
from scalemani.terminal.pictures import compare, plot
from scalemani.terminal.placing import kernel, new_rows, project, say_notes
from scalemani.words import printable


@click.command(cls=Command)
@click.argument("store")
@click.argument("out")
@click.option(
    "--color",
    "--colour",
    "colors",
    multiple=True,
    metavar="FILE[:COLUMN]",
    help="Colour the map by a column of a .csv, by a .npy, .npz:key, .zarr:path or .h5::dataset, by .h5ad::obs/column "
    "or by .parquet::column: a value for each row of the fit, numbers, text or categories. May be repeated.",
)
@click.option(
    "--project",
    "new",
    multiple=True,
    metavar="FILE",
    help="Also place new points on the map, a file as project takes it. May be repeated; --heading to --ignore are of "
    "these files, --delimiter and --decimal of all.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    metavar="M",
    help="Points sampled to compare distances; at most 512 unless given.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the sample.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there.")
@reading
@manners
def report(
    store: str,
    out: str,
    colors: tuple[str, ...],
    new: tuple[str, ...],
    how: dict[str, Any],
    rows: int | None,
    seed: int,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Draw the map as a web page that says how far to trust it.

    OUT is one .html page that needs no other file: a map to explore, how well it keeps distances, how many axes
    are worth having, the spectrum, the constant, and what to heed. Where a constant was added, the map without it is
    shown beside, from the distances in STORE if they are few enough; else these are not read.

    \b
    scalemani report run.zarr report.html --color labels.csv:kind
    scalemani report run.zarr report.html --project new.csv --id-column name
    """
    from scalemani.formats.outputs import check_page, write_page

    path = check_page(out, overwrite=overwrite)
    from scalemani import load
    from scalemani.formats.columns import read_column

    check_reading(how, new, colors)
    model = load(store)
    run = model._run
    text = how["delimiter"], how["decimal"]
    columns = [read_column(color, len(run.vertex), *text, run.ids) for color in colors]
    sources = [new_rows(model, store, points, how) for points in new]
    from scalemani.report.map_facts import NewPoints
    from scalemani.report.sections import run_page

    say_notes([note for source in sources for note in source.notes], quiet)
    places = [NewPoints(file, of.values, of.ids) for file, of in zip(new, sources, strict=True)]
    with naming_columns(sources[0].names if sources else None), reporting(not quiet) as progress:
        page = run_page(run, columns, new=places, rows=rows, seed=seed, name=store, report=progress)
    write_page(path, page)
    if not quiet:
        click.echo(f"{out}: one page of {len(page) / 1e6:.1f} MB")


KINDS = {
    "row": "row of tiles",
    "array": "array",
    "chunk": "block",
    "model": "model",
    "leftover": "left over",
    "stray": "not a run's",
}
MOST_LINES = 40  # of faults: a lost disk has a hundred thousand, and --json lists them all


@click.command(cls=Command)
@click.argument("store")
@click.option("--repair", is_flag=True, help="Make again what is damaged and nothing else.")
@click.option(
    "--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers read the distances, or 'synchronous'."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@manners
def verify(store: str, repair: bool, scheduler: str | None, as_json: bool, quiet: bool) -> None:
    """Look for damage in every byte of a fit; --repair mends it.

    Checked are the checksums of all files, the ledger against the files, the distances, and the graph, the distances
    and the model against one another. The exit code is 1 if anything is damaged. --repair makes again what the store
    alone can make. It marks what needs the points: the same fit makes that again.

    \b
    scalemani verify run.zarr --repair
    """
    from scalemani.integrity import repair as mend
    from scalemani.integrity import verify as look

    done: list[str] = []
    with reporting(not quiet) as report:
        if repair:
            done, found = mend(store, scheduler, report)
        else:
            found = look(store, scheduler, report)
    to_the_fit = repair or found.marked
    remedies = [said.removeprefix("--repair, then ") if to_the_fit else said for said in found.remedies]
    said = {
        "store": store,
        "damaged": found.damaged,
        "finished": found.finished,
        "repaired": done,
        "faults": [{**fault._asdict(), "remedy": said} for fault, said in zip(found.faults, remedies, strict=True)],
        "tiles": found.tiles,
        "tile_rows": found.tile_rows,
        "arrays": found.arrays,
    }
    click.echo(json.dumps(said, indent=2) if as_json else "\n".join(map(printable, _lines(said))))
    if found.damaged:
        way = "only a fit with --overwrite" if found.lost else "the same fit again" if to_the_fit else "--repair"
        raise IncompleteResult(f"{store} is damaged; {way} mends it")


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
        words = said["tiles"] if said["tile_rows"] != 1 else re.sub(r"^(\w+)s\b", r"\1", said["tiles"])
        tiles = f"{said['tile_rows']:,} {words} and " if words else ""
        lines.append(f"{said['store']}: whole, {tiles}{said['arrays']} arrays{more}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``scalemani`` program; exits with the code that :mod:`scalemani.terminal.console` states."""
    give_missing_streams()
    code = run(cli, list(sys.argv[1:] if arguments is None else arguments))
    if isinstance(code, CutShort):
        os._exit(code)
    sys.exit(code)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Make maps of data, by Isomap and methods like it. Begin with: scalemani demo

    POINTS is a table with one row for each point: a .csv, .parquet, .npy, .npz:key, .zarr:path, .h5ad::path or
    .h5::path. STORE is a directory that fit makes: it is the saved map. If a fit is stopped, the same command goes on.
    Rows are counted from 0, columns and axes from 1.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(2)


@cli.command()
@click.argument("points")
@click.argument("store")
@estimator_options
@click.option(
    "--embedding",
    metavar="OUT",
    help="Also write the coordinates to a .csv, .npy, .zarr, .parquet or .h5.",
)
@click.option("--overwrite-output", is_flag=True, help="Replace the file of --embedding alone.")
@click.option("--allow-nan", is_flag=True, help="Accept rows without coordinates (NaN).")
@reading
@manners
def fit(
    points: str,
    store: str,
    how: dict[str, Any],
    embedding: str | None,
    overwrite_output: bool,
    allow_nan: bool,
    labels: str | None,
    quiet: bool,
    **parameters: Any,
) -> None:
    """Make a map of POINTS and keep it in STORE.

    It ends with what to type next. If it is stopped, the same command goes on.

    \b
    scalemani fit points.csv run.zarr --id-column name
    scalemani fit points.csv run.zarr -k 8 -p 3 --id-column name
    """
    from scalemani.formats.columns import read_labels
    from scalemani.formats.outputs import check_output, write_coordinates
    from scalemani.formats.points import open_points

    method, arguments = chosen(parameters, labels)
    source = open_points(points, **how)
    y = None if labels is None else read_labels(labels, points, source, how)
    replace = overwrite_output or parameters["overwrite"]
    if embedding is None and store.lower().startswith("memory://"):
        raise ScalemaniError(f"{store} ends with this command: give a path or a bucket, or add --embedding FILE")
    if embedding is not None:
        # Its message names the option that leaves the store alone.
        check_output(embedding, ids=source.ids is not None, overwrite=replace, option="--overwrite-output", store=store)
    say_notes(source.notes, quiet)
    from scalemani.points.labels import unnumbered
    from scalemani.terminal.summary import begun_line, fit_lines, next_lines, result_in

    before = None if parameters["overwrite"] else result_in(store)
    begun = None if parameters["overwrite"] or quiet else begun_line(store)
    with naming_columns(source.names), reporting(not quiet) as report:
        stages: list[str] = []
        heard = _after_a_line(report, begun, stages)
        model = method.load()(**arguments, store=store, progress=heard).fit(source.values, y)
    model.name_features(unnumbered(source.names))
    model.name_rows(source.ids)
    coordinates = model.embedding_
    if embedding is not None:
        write_coordinates(embedding, coordinates, ids=source.ids, id_name=source.id_name, overwrite=replace)
    if not quiet:
        lines = fit_lines(model, store, before, worked=bool(stages))
        again = reading_again(how, named=source.names is not None)
        click.echo("\n".join([*lines, *next_lines(model, store, points, embedding, again)]))
    # Who embeds the largest component has asked for NaN in the others.
    if not (allow_nan or parameters["disconnected"] == "largest"):
        refuse_nan(coordinates, source.ids, f"{embedding or store} is written")


@cli.command()
@click.argument("points")
@click.argument("store", required=False)
@estimator_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@reading
@manners
def plan(
    points: str,
    store: str | None,
    how: dict[str, Any],
    as_json: bool,
    labels: str | None,
    quiet: bool,
    **parameters: Any,
) -> None:
    """Say how much memory, disk and time a fit would take.

    It finds the neighbours, makes the graph, and times a few seconds of the rest. STORE says which disk is meant;
    nothing is left there. The exit code is 1 if memory or disk are too small.

    \b
    scalemani plan points.csv run.zarr -k 8 -p 3 --id-column name
    """
    from scalemani.formats.columns import read_labels
    from scalemani.formats.points import open_points

    method, arguments = chosen(parameters, labels)
    source = open_points(points, **how)
    y = None if labels is None else read_labels(labels, points, source, how)
    say_notes(source.notes, quiet)
    from scalemani.terminal.summary import as_json_values

    with naming_columns(source.names), reporting(not quiet) as report:
        model = method.load()(**arguments, store=store, progress=report)
        try:
            made = model.plan(source.values, y)
        except DoesNotFitError as error:  # before there was a graph to plan for
            if as_json:
                click.echo(json.dumps({"refusal": in_options(str(error))}, indent=2))
            raise
    record = as_json_values(made.record())
    click.echo(json.dumps(record, indent=2, allow_nan=False) if as_json else in_options(str(made)))
    if made.refusal is not None:
        raise IncompleteResult(made.refusal)


@cli.command()
@click.argument("points")
@click.option(
    "-k",
    "--neighbors",
    "n_neighbors",
    default=["4:20"],
    multiple=True,
    show_default=True,
    metavar="FIRST:LAST",
    callback=numbers,
    help="Numbers of neighbours to compare; LAST is included. 4:20:2 takes every second, 5,8,12 these.",
)
@scan_options
@click.option("--report", "out", metavar="OUT", help="Also write a page with pictures, an .html.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@reading
@manners
def scan(
    points: str,
    n_neighbors: list[int],
    out: str | None,
    overwrite: bool,
    how: dict[str, Any],
    as_json: bool,
    quiet: bool,
    **parameters: Any,
) -> None:
    """Compare numbers of neighbours, and say which to take.

    For each number it makes the graph and a small map by Isomap, and says: into how many parts the graph falls; how
    many edges leap from one part of the data to another (shortcuts); negative mass; residual variance of the map with
    1 to 5 axes; and how like the map of the next number it is. All methods begin with neighbours, so there is no
    --method. No fit is made.

    \b
    scalemani scan points.csv --neighbors 4:20 --report scan.html
    """
    from scalemani.formats.outputs import check_page, write_page
    from scalemani.formats.points import open_points

    path = None if out is None else check_page(out, overwrite=overwrite)
    source = open_points(points, **how)
    say_notes(source.notes, quiet)
    from dataclasses import replace

    from scalemani.planning.scan import scan as look

    with naming_columns(source.names), reporting(not quiet) as progress:
        found = look(source.values, n_neighbors, progress=progress, **parameters)
    said = replace(found, reason=in_options(found.reason))
    if path is not None:
        from scalemani.report.scan import scan_page

        write_page(path, scan_page(said, points))
    click.echo(json.dumps(found.record(), indent=2) if as_json else str(said))


@cli.command()
@click.argument("store")
@click.option("--all", "everything", is_flag=True, help="All numbers, and what each is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@manners
def info(store: str, everything: bool, as_json: bool, quiet: bool) -> None:
    """Say in a few lines what a map shows and how good it is.

    \b
    scalemani info run.zarr
    scalemani info run.zarr --all
    """
    from scalemani import load
    from scalemani.terminal.summary import info_lines, info_record

    model = load(store)
    lines = [] if as_json else info_lines(model, store, everything=everything)
    click.echo(json.dumps(info_record(model), indent=2, allow_nan=False) if as_json else "\n".join(lines))


@cli.command()
@click.argument("store")
@click.argument("model")
@manners
def export(store: str, model: str, quiet: bool) -> None:
    """Copy a map to a small model, without the distances of all pairs.

    MODEL has all that it takes to place new points and to load the map in Python. STORE stays as it is.

    \b
    scalemani export run.zarr model.zarr
    """
    from scalemani import load

    load(store).export(model)
    if not quiet:
        click.echo(f"{model}: a model to project with and to load; {store} stays as it is")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@manners
def completion(shell: str, quiet: bool) -> None:
    """Print a script that makes the Tab key complete what you type.

    It completes commands, options and their values. Put one of these lines into the file that your shell reads when it
    starts, then open a new shell:

    \b
    ~/.bashrc                   eval "$(scalemani completion bash)"
    ~/.zshrc, after compinit    eval "$(scalemani completion zsh)"
    ~/.config/fish/config.fish  scalemani completion fish | source
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click has these three
    click.echo(found(cli, {}, "scalemani", "_SCALEMANI_COMPLETE").source())


@cli.command()
@click.option(
    "--out",
    default="scalemani-demo",
    show_default=True,
    metavar="DIR",
    help="Where the report, the pictures and the two fits go.",
)
@manners
def demo(out: str, quiet: bool) -> None:
    """Flatten a rolled-up sheet, to see what a map and a report are.

    Isomap and kernel Isomap make maps of 1,200 points of the sheet, and place 3,000 others on them. The points are
    left beside the report as tables, to try the other commands with.

    \b
    scalemani demo
    """
    from scalemani.demo import run_demo

    with reporting(not quiet) as report:
        run_demo(out, say=(lambda line: None) if quiet else click.echo, progress=report)


for command in (report, verify, project, kernel, plot, compare):
    cli.add_command(command)


def _after_a_line(report: Progress, line: str | None, stages: list[str]) -> Progress:
    """A report function that says a line before the first stage that works in the store: none is refused any more.

    It puts those stages into a list.
    """

    def said(stage: str, done: int, total: int) -> None:
        if line is not None and not stages and stage != "points":
            click.echo(line, err=True)
        stages.extend([stage] if stage != "points" else [])
        report(stage, done, total)

    return said
