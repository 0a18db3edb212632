"""Pages of Markdown: their blocks of code, the commands in them, and their links."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from scalemani.terminal.commands import cli

ROOT = Path(__file__).parent.parent
REASONS = {"installation", "installation, and a server", "your own bucket", "your own files"}
REASONS |= {"hours, and your own files", "the whole of CI", "in a copy of the repository"}
REASONS |= {f"a {what} in another terminal" for what in ("scheduler", "worker")} | {"needs the scheduler above"}

_BLOCK = re.compile(r"((?:<!-- [^>\n]+ -->\n)*)```(\w*)\n(.*?)^```", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """`reason`: why no test runs it, or ""; `long`: it runs in the long tier alone."""

    language: str
    text: str
    reason: str
    long: bool
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for each in _BLOCK.finditer(text):
        reason = re.search(r"<!-- not run: (.+) -->", each[1])
        line = text[: each.start(3)].count("\n") + 1
        found.append(Block(each[2], each[3], reason[1] if reason else "", "<!-- long -->" in each[1], line))
    return found


def without_blocks(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[list[str]]:
    """The words of every scalemani command, those that no test runs and those within sentences too."""
    lines = [line for block in blocks(page) for line in block.text.splitlines()]
    lines += [each for each in re.findall(r"`([^`\n]+)`", without_blocks(page)) if "..." not in each]
    found = [shlex.split(line.split(">")[0], comments=True) for line in lines if line.startswith("scalemani ")]
    return [words[1:] for words in found if len(words) > 2]


def check_command(words: list[str]) -> None:
    """An error unless the program takes these words; what is in upper case stands for a value."""
    if words[0].isupper():  # scalemani COMMAND --help
        return
    cli.commands[words[0]].make_context(words[0], list(words[1:]), resilient_parsing=False)


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", without_blocks(page))
