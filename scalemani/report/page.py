"""Report: takes headings, words, tables and pictures, gives one HTML page that needs no other file."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Notice", "Picture", "Section", "Table", "page"]

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # were a text to escape, it could do nothing
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
table.words th:last-child { text-align: left; }
thead th { border-bottom: 2px solid #888; }
.words td:last-child { white-space: normal; text-align: left; min-width: 14rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .92rem; }
.legend { list-style: none; margin: .3rem 0; padding: 0; font-size: .92rem; }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; }
.legend span { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 50%; }
.notice { border-left: .3rem solid #2166ac; background: #f2f6fa; margin: 1rem 0; padding: .6rem 1rem; }
.notice.warning { border-color: #b2182b; background: #fbf1f1; }
.notice p { margin: .3rem 0; } .notice p:first-child { font-weight: 600; }
footer { margin-top: 3rem; color: #555; font-size: .85rem; border-top: 1px solid #ddd; padding-top: .6rem; }
@media (max-width: 40rem) {
  th, td { padding: .3rem .4rem; }
  .words td, .words th { white-space: normal; } .words td:last-child { min-width: 8rem; }
}
@media print {
  body { margin: 0; max-width: none; } h2 { break-after: avoid; } figure, table { break-inside: avoid; }
}
"""


@dataclass(frozen=True)
class Table:
    """Headings (none for a list of names and values) and rows of cells; numbers are formatted by the caller.

    With `words` the last column is text, which wraps.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False


@dataclass(frozen=True)
class Picture:
    """A PNG file's bytes, a caption, and what it shows in words for those who can't see it.

    The legend has colours as ``#rrggbb`` with what they stand for. It is text of the page: names may hold any sign.
    """

    png: bytes
    caption: str
    alt: str
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Notice:
    """Something to know: what is so, then what it means and what to do; a warning or a remark."""

    headline: str
    words: Sequence[str] = ()
    warning: bool = True


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, then notices, then tables, then pictures."""

    heading: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    notices: Sequence[Notice] = ()


def page(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """A self-contained page, to be written as UTF-8; all text is escaped, pictures are data URIs, it may fetch nothing.

    >>> "a &lt;b&gt;" in page("a <b>", "", [])
    True
    """
    body = "\n".join(_section(section) for section in sections)
    opening = f"<p>{_text(lead)}</p>\n" if lead else ""
    closing = f"<footer>{_text(footer)}</footer>\n" if footer else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_text(title)}</h1>\n{opening}{body}\n{closing}</body>\n</html>\n"
    )


def _text(text: str) -> str:
    """Any text as the text of a page: escaped for elements and quoted attributes, control characters replaced.

    Marks of direction go too: with them a name on the page could read as another.
    """
    plain = "".join(letter if letter.isprintable() or letter.isspace() else "\ufffd" for letter in text)
    return html.escape(plain, quote=True)


def _section(section: Section) -> str:
    parts = [f"<h2>{_text(section.heading)}</h2>"]
    parts += [f"<p>{_text(paragraph)}</p>" for paragraph in section.paragraphs]
    parts += [_notice(notice) for notice in section.notices]
    parts += [_table(table) for table in section.tables]
    parts += [_picture(picture) for picture in section.pictures]
    return "\n".join(parts)


def _notice(notice: Notice) -> str:
    words = "\n".join(f"<p>{_text(text)}</p>" for text in (notice.headline, *notice.words))
    return f'<div class="notice{" warning" if notice.warning else ""}">\n{words}\n</div>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in table.headings)
    rows = "\n".join(_row(row) for row in table.rows)
    body = (f"<thead><tr>{head}</tr></thead>\n" if head else "") + f"<tbody>\n{rows}\n</tbody>"
    kind = ' class="words"' if table.words else ""
    return f'<div class="scroll"><table{kind}>\n{body}\n</table></div>'


def _row(cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    items = "".join(
        f'<li><span style="background:{_text(colour)}"></span>{_text(name)}</li>' for colour, name in picture.legend
    )
    legend = f'<ul class="legend">{items}</ul>\n' if items else ""
    return (
        f'<figure><img alt="{_text(picture.alt)}" src="data:image/png;base64,{data}">\n{legend}'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
    )
