"""The page of a scan over numbers of neighbours."""

from scalemani import __version__
from scalemani.planning.scan import SAMPLED, Scan
from scalemani.report.charts import scan_panels
from scalemani.report.drawing import png
from scalemani.report.page import Notice, Picture, Section, Table, page

_WORDS = (
    "Parts: into how many the neighbour graph falls. Shortcuts: edges that leap from one part of the data to another, "
    "and the share of all shortest paths that runs through the busiest of them. Negative mass: the sizes of negative "
    "eigenvalues over the sum of all; 0 is flat space. Axes: residual variance, 1 − r² of distances along the data and "
    "in a map with so many axes; 0 is a perfect map. As next: 1 where the map with the next k is the same but for "
    "a turn and its size."
)


def scan_page(scan: Scan, name: str) -> str:
    """The recommendation, a picture and the table."""
    headline = "No k is recommended." if scan.recommended is None else f"Take {scan.recommended} neighbours."
    found = Notice(headline, [scan.reason], warning=scan.recommended is None)
    alt = "Residual variances, negative mass and agreement of maps against the number of neighbours."
    caption = (
        f"Of {min(SAMPLED, scan.n_points):,} sampled points. With the shaded numbers of neighbours a map would be "
        "wrong: red, edges leap; grey, the graph falls into parts."
    )
    sections = [
        Section("In short", notices=[found]),
        Section(
            "By the number of neighbours",
            [_WORDS],
            [Table(*scan.table())],
            [Picture(png(scan_panels(scan)), caption, alt)],
        ),
    ]
    lead = f"Which number of neighbours makes a sound graph of {scan.n_points:,} points. No fit was made."
    return page(f"Neighbours for {name}", lead, sections, f"Made by scalemani {__version__}: scalemani scan")
