"""One HTML page that needs no other file: headings, words, tables and pictures, laid out by `page.html` beside this."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from scalemani.methods.words import Notice, Section, Table
from scalemani.report.live import LiveMap, pack, script

__all__ = ["Notice", "Picture", "Section", "Table", "page"]


@dataclass(frozen=True)
class Picture:
    """A PNG file's bytes, a caption, and what it shows in words for those who can't see it.

    The legend has colours as ``#rrggbb`` with what they stand for. It is text of the page: names may hold any sign.
    """

    png: bytes
    caption: str
    alt: str
    legend: Sequence[tuple[str, str]] = ()


def page(
    title: str,
    lead: str,
    sections: Sequence[Section],
    footer: str = "",
    *,
    live: LiveMap | None = None,
    still: Sequence[Section] = (),
) -> str:
    """A self-contained page, to be written as UTF-8; all text is escaped, pictures are data URIs, it may fetch nothing.

    `live` is a map to explore, at the top. `still`, the same map as pictures, comes before the other sections; beside a
    live map it is folded away, but not where scripts don't run.

    >>> "a &lt;b&gt;" in page("a <b>", "", [])
    True
    """
    parts: dict[str, Any] = {"title": title, "lead": lead, "sections": [*still, *sections], "footer": footer}
    parts |= {"live": None, "folded": len(still) if live is not None else 0}
    if live is not None:
        # The page's policy names the one script that may run by its digest.
        program = script()
        digest = base64.b64encode(hashlib.sha256(program.encode("utf-8")).digest()).decode("ascii")
        parts |= {"live": pack(live), "script": Markup(program), "digest": digest}
    return _template().render(parts)


@cache
def _template() -> Template:
    layout = Environment(
        loader=PackageLoader("scalemani", "report"),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    layout.filters["base64"] = lambda data: base64.b64encode(data).decode("ascii")
    return layout.get_template("page.html")


def _plain(text: Any) -> Any:
    """Text with its control characters replaced, and its marks of direction: with them a name could read as another."""
    if not isinstance(text, str) or isinstance(text, Markup) or text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter.isspace() else "\ufffd" for letter in text)
