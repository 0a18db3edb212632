"""The page of a scan over numbers of neighbours."""

from scalemani import __version__
from scalemani.planning.scan import SAMPLED, Scan
from scalemani.report.charts import scan_panels
from scalemani.report.drawing import new_figure, png
from scalemani.report.page import Notice, Picture, Section, Table, page
from scalemani.words import count

_MEANINGS = [
    ["parts", "Pieces of the neighbour graph; 1 is right."],
    ["shortcuts", "Edges that leap from one part of the data to another, and the share of all shortest paths that runs "
     "through the busiest of them."],
    ["negative mass", "Sizes of negative eigenvalues over the sum of all; 0 is flat space."],
    ["1 axis, 2 axes, ...", "How badly a map with so many axes keeps distances: residual variance, 1 − r²; 0 is best."],
    ["as next", "How similar the map is to that of the next k, up to turning, mirroring and size; 1 is equal."],
]  # fmt: skip


def scan_page(scan: Scan, name: str) -> str:
    """The recommendation, a picture and the table."""
    headline = "No k is recommended." if scan.recommended is None else f"Take {scan.recommended} neighbours."
    found = Notice(headline, [scan.reason], warning=scan.recommended is None)
    alt = "Residual variances, negative mass and agreement of maps against the number of neighbours."
    caption = (
        f"Of {min(SAMPLED, scan.n_points):,} sampled points. With the shaded numbers of neighbours maps are wrong: "
        "red, edges leap; grey, the graph falls into parts."
    )
    figure = new_figure(11, 4.2)
    scan_panels(scan, *figure.subplots(1, 2))
    tables = [Table(*scan.table()), Table([], _MEANINGS, words=True)]
    sections = [
        Section("In short", notices=[found]),
        Section("By the number of neighbours", tables=tables, pictures=[Picture(png(figure), caption, alt)]),
    ]
    looked = count(len(scan.ks), "number")
    lead = f"A look at {looked} of neighbours for {scan.n_points:,} points, without a fit."
    return page(f"Neighbours for {name}", lead, sections, f"Made by scalemani {__version__}: scalemani scan")
