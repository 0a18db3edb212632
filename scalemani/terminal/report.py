"""The command ``report``: takes a finished store and names of files, gives a page."""

import click

from scalemani.terminal.options import manners
from scalemani.terminal.progress import reporting

__all__ = ["report"]


@click.command()
@click.argument("store")
@click.argument("out")
@click.option(
    "--colour",
    "--color",
    "colours",
    multiple=True,
    metavar="FILE[:COLUMN]",
    help="Colour the map by a column of a .csv, by a .npy, .npz:key, .zarr:path or .h5::dataset, by .h5ad::obs/column "
    "or by .parquet::column: a value for each row of the fit, numbers, text or categories. May be repeated.",
)
@click.option("--delimiter", metavar="CHARACTER", help="What separates the cells of a .csv; a comma unless given.")
@click.option("--decimal", metavar="SIGN", help="Decimal sign of a .csv, '.' or ','.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    metavar="M",
    help="Points sampled to compare distances; at most 512 unless given.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the sample.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there.")
@manners
def report(
    store: str,
    out: str,
    colours: tuple[str, ...],
    delimiter: str | None,
    decimal: str | None,
    rows: int | None,
    seed: int,
    overwrite: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Draw what the fit in STORE found.

    OUT is one .html page that needs no other file: the map, how well it keeps distances, how many axes
    are worth having, the spectrum, the constant, and what to heed. The distances in STORE are not read.

    \b
    scalemani report run.zarr report.html --colour labels.csv:kind
    """
    from scalemani.terminal.outputs import check_page, write_page

    path = check_page(out, overwrite=overwrite)
    from scalemani.engine.store import RunStore
    from scalemani.run import Run
    from scalemani.terminal.columns import read_column

    run = Run(RunStore(store))
    columns = [read_column(colour, len(run.vertex), delimiter, decimal) for colour in colours]
    from scalemani.reporting.run_report import run_page

    with reporting(not quiet) as progress:
        page = run_page(run, columns, rows=rows, seed=seed, name=store, report=progress)
    write_page(path, page)
    if not quiet:
        click.echo(f"{out}: one page of {len(page) / 1e6:.1f} MB")
