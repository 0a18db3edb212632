"""The commands that take new points to a fit: their places, and values of its kernel.

The library and NumPy are imported inside the commands, so that ``--help`` is quick.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scalemani.errors import ScalemaniError, naming_columns
from scalemani.progress import reporting
from scalemani.terminal.console import refuse_nan
from scalemani.terminal.options import manners, reading, reading_again
from scalemani.words import printable


@click.command()
@click.argument("store")
@click.argument("points")
@click.argument("out")
@click.option("--allow-nan", is_flag=True, help="Points without a path to the training points are expected.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786, or 'synchronous'.")
@click.option(
    "--align-to",
    metavar="OTHER",
    help="Give coordinates on the map of the fit in OTHER, such as the last day's: this map is turned, mirrored and "
    "moved so that rows that both fits have, by their ids or their numbers, lie nearest to their places there.",
)
@reading
@manners
def project(
    store: str,
    points: str,
    out: str,
    how: dict[str, Any],
    allow_nan: bool,
    overwrite: bool,
    scheduler: str | None,
    align_to: str | None,
    quiet: bool,
) -> None:
    """Place POINTS in the fit of STORE.

    Coordinates go to OUT, a .npy, .csv, .zarr, .parquet or .h5, in the order of POINTS and with their ids. A
    projection that was stopped goes on from its finished blocks when the same command is given again.

    \b
    scalemani project run.zarr new.csv coordinates.csv --id-column name
    """
    from scalemani.formats.outputs import check_output, write_coordinates
    from scalemani.storage.pieces import drop_finished, kept_results

    drop_finished(out)
    check_output(out, ids=how["id_column"] is not None, overwrite=overwrite, store=store)
    from scalemani import load

    model = load(store)
    source = new_rows(model, store, points, how)
    check_output(out, ids=source.ids is not None, overwrite=overwrite, store=store)
    say_notes(source.notes, quiet)
    laid = model._laid_upon(align_to)
    with naming_columns(source.names), kept_results(out) as kept, reporting(not quiet) as report:
        coordinates = model._run.transform(source.values, scheduler, report, kept, laid)
        kept.check()
        folder = Path(str(kept.folder))
        write_coordinates(out, coordinates, ids=source.ids, id_name=source.id_name, overwrite=overwrite, folder=folder)
    if not quiet:
        resumed = f"; {kept.found:,} blocks of {kept.found + kept.made:,} resumed" if kept.found else ""
        click.echo(f"{out}: {len(coordinates):,} rows, {coordinates.shape[1]} axes{resumed}")
        if laid is not None:
            apart = f"{laid.apart:.3g} of the map's spread apart (RMS; 0 is best)"
            click.echo(f"aligned to {align_to}: {laid.n_points:,} rows in common, {apart}")
    if not allow_nan:
        refuse_nan(coordinates, source.ids, f"{out} is written")


TRAINING = "training"  # in place of a file of rows


@click.command()
@click.argument("store")
@click.argument("rows")
@click.argument("out")
@click.option("--allow-nan", is_flag=True, help="Points without a path to the training points are expected.")
@click.option("--memory-limit", metavar="SIZE", help="Most that a .npy's values may take in memory, such as 4GB.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786, or 'synchronous'.")
@reading
@manners
def kernel(
    store: str,
    rows: str,
    out: str,
    how: dict[str, Any],
    allow_nan: bool,
    memory_limit: str | None,
    scheduler: str | None,
    quiet: bool,
) -> None:
    """Write kernel values of ROWS with all points of the fit in STORE.

    ROWS is a file of new points, or the word "training": the points of the fit, which a learner is trained with, such
    as scikit-learn's SVC(kernel="precomputed"). A .zarr as OUT is written by blocks, and goes on where it was stopped;
    a .npy has to fit in memory. Rows are in the order of ROWS, columns in that of the points of the fit.

    \b
    scalemani kernel run.zarr training K.zarr
    scalemani kernel run.zarr new.csv k.npy --id-column name
    """
    from scalemani.formats.outputs import check_output, write_coordinates
    from scalemani.storage.pieces import drop_finished
    from scalemani.storage.user_arrays import refuse_existing

    if Path(out).suffix.lower() not in (".zarr", ".npy"):
        raise ScalemaniError(f"{out}: a kernel is written to .zarr or .npy; end the name so")
    options = reading_again(how, named=False)
    if rows == TRAINING and options:
        raise ScalemaniError(f"{options[0]} says how a file is read, and {TRAINING!r} is no file: leave it out")
    drop_finished(out)
    refuse_existing(out)
    check_output(out, store=store)
    from scalemani import load

    model = load(store)
    source = None if rows == TRAINING else new_rows(model, store, rows, how)
    given, names, ids = (None, None, None) if source is None else (source.values, source.names, source.ids)
    say_notes([] if source is None else source.notes, quiet)
    with naming_columns(names), reporting(not quiet) as report:
        if out.lower().endswith(".zarr"):
            values = model._run.kernel_to(out, given, scheduler, report)
        else:
            values = model._run.kernel(given, None, scheduler, report, memory_limit)
            write_coordinates(out, values)
    if not quiet:
        click.echo(f"{out}: {values.shape[0]:,} rows, with {values.shape[1]:,} points of the fit")
    if source is not None and not allow_nan:
        refuse_nan(values[:, int(model.kept_[0])][:, None], ids, f"{out} is written", "kernel values")


def new_rows(model: Any, store: str, points: str, how: dict[str, Any]) -> Any:
    """A file of new points, refused where its columns are not those of the fit."""
    from scalemani.formats.csv_text import quoted
    from scalemani.formats.points import open_points

    fitted = getattr(model, "feature_names_in_", None)
    source = open_points(points, **how, like=None if fitted is None else tuple(fitted))
    width = source.values.shape[1] if len(source.values.shape) == 2 else 0
    given = 0 <= width - model.n_features_in_ <= model._run.spare
    if not given and (fitted is None or source.names is None):
        raise ScalemaniError(f"{points} has {width} columns; {store} was fitted on {model.n_features_in_}: give those")
    try:
        model._check_features(source.names, points, store)
    except ScalemaniError as error:
        if fitted is None or sorted(fitted) != sorted(source.names or ()):
            raise
        raise ScalemaniError(f"{error}, as --columns {shlex.quote(','.join(map(quoted, fitted)))} does") from error
    return source


def say_notes(notes: Sequence[str], quiet: bool) -> None:
    """What a reader of points assumed."""
    for note in () if quiet else notes:
        click.echo(f"note: {printable(note)}", err=True)
