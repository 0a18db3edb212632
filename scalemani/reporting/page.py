"""Report: takes headings, words, tables and pictures, gives one HTML page that needs no other file."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Picture", "Section", "Table", "page"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #888; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .92rem; }
footer { margin-top: 3rem; color: #555; font-size: .85rem; border-top: 1px solid #ddd; padding-top: .6rem; }
@media print {
  body { margin: 0; max-width: none; } h2 { break-after: avoid; } figure, table { break-inside: avoid; }
}
"""


@dataclass(frozen=True)
class Table:
    """Headings and rows of cells; numbers are formatted by the caller."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A PNG file's bytes, a caption, and what it shows in words for those who can't see it."""

    png: bytes
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, then tables, then pictures."""

    heading: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = field(default=())


def page(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """A self-contained page; all text is escaped, pictures are data URIs.

    Parameters
    ----------
    title, lead, footer : str
    sections : sequence of Section

    Returns
    -------
    str
        HTML, to be written as UTF-8.

    Examples
    --------
    >>> "a &lt;b&gt;" in page("a <b>", "", [])
    True
    """
    body = "\n".join(_section(section) for section in sections)
    closing = f"<footer>{html.escape(footer)}</footer>\n" if footer else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(lead)}</p>\n{body}\n{closing}</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{html.escape(section.heading)}</h2>"]
    parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in section.paragraphs]
    parts += [_table(table) for table in section.tables]
    parts += [_picture(picture) for picture in section.pictures]
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.headings)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
    return f'<div class="scroll"><table>\n{body}\n</table></div>'


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    return (
        f'<figure><img alt="{html.escape(picture.alt)}" src="data:image/png;base64,{data}">\n'
        f"<figcaption>{html.escape(picture.caption)}</figcaption></figure>"
    )
