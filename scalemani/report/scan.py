"""The page of a scan over numbers of neighbours."""

from scalemani import __version__
from scalemani.planning.scan import SAMPLED, Scan
from scalemani.report.charts import scan_panels
from scalemani.report.drawing import new_figure, png
from scalemani.report.page import Notice, Picture, Section, Table, page
from scalemani.words import count

_MEANINGS = [
    ["parts", "Pieces of the neighbour graph; 1 is right."],
    ["shortcuts", "How many edges leap from one part of the data to another, and which share of all shortest paths "
     "runs through the busiest one."],
    ["negative mass", "Sizes of negative eigenvalues over the sum of all; 0 is flat space."],
    ["1 axis, 2 axes, ...", "Residual variance, 1 − r², of a map with that many axes; 0 is best."],
    ["as next", "How similar the map is to that of the next k, up to turning, mirroring and size; 1 is equal."],
]  # fmt: skip


def scan_page(scan: Scan, name: str) -> str:
    """The recommendation, a picture and the table."""
    headline = "No k is recommended." if scan.recommended is None else f"Take {scan.recommended} neighbours."
    found = Notice(headline, [scan.reason], warning=scan.recommended is None)
    alt = "Residual variances, negative mass and agreement of maps against the number of neighbours."
    caption = f"From {min(SAMPLED, scan.n_points):,} sampled points."
    if any(one.n_shortcuts or one.n_parts > 1 for one in scan.ks):
        caption += " Shaded numbers give wrong maps: red, edges leap; grey, the graph is in several parts."
    figure = new_figure(11, 4.2)
    scan_panels(scan, *figure.subplots(1, 2))
    tables = [Table(*scan.table()), Table([], _MEANINGS, words=True)]
    sections = [
        Section("In short", notices=[found]),
        Section("By the number of neighbours", tables=tables, pictures=[Picture(png(figure), caption, alt)]),
    ]
    looked = count(len(scan.ks), "number")
    lead = f"This page compares {looked} of neighbours for {scan.n_points:,} points. No fit was made."
    return page(f"Neighbours for {name}", lead, sections, f"Made by scalemani {__version__}: scalemani scan")
