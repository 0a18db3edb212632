"""What ``--help`` and completion show: commands and options by what one wants of them.

A command or an option that no table here names is shown all the same: the commands in the last group, the options with
those of their method.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from scalemani.errors import nearest
from scalemani.methods import REGISTRY

__all__ = ["Command", "Commands", "Words", "file_name"]

COMMANDS = {
    "Begin": ("demo",),
    "Before a fit": ("scan", "plan"),
    "Make a map": ("fit",),
    "Look at it": ("report", "plot", "info", "compare"),
    "Use it": ("project", "kernel", "export"),
    "Care for it": ("verify", "completion"),
}
READING = "Reading the file"
SEVERAL = "For several methods"
ALSO = "Also"
#: Options by the names of their parameters; {} stands for the options that only some methods have.
OPTIONS: dict[str, tuple[str, ...]] = {
    "What most need": ("n_neighbors", "n_components", "method", "metric", "embedding", "out", "as_json"),
    READING: ("id_column", "columns", "ignore", "delimiter", "decimal", "heading"),
    "The graph of neighbours": ("radius", "metric_params", "disconnected", "shortcuts", "graph", "edge_weights", "knn"),
    "Many points": ("landmarks", "landmark_method"),
    "{}": (),
    "Memory, disk and cluster": ("memory_limit", "keep_distances", "compression", "scheduler"),
    ALSO: ("projection", "tol", "random_state", "overwrite", "overwrite_output", "allow_nan", "quiet", "debug", "help"),
}
WIDTH = 24  # of the names of options; longer ones have a line of their own


class Words(click.ParamType[str]):
    """Text, for which a shell completes some words, or names of files where there are none.

    The library says what is allowed: ``points.npz:key`` is no file, and ``--correction`` takes numbers, too.
    """

    name = "text"

    def __init__(self, words: Callable[[], Iterable[str]] | None = None) -> None:
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words that begin so."""
        if self.words is None:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


file_name = Words()


class Command(click.Command):
    """A command whose options are listed by what they are for, and are not given twice."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, which of an option that is given twice drops the first value without a word."""
        if not ctx.resilient_parsing:
            given = self.make_parser(ctx).parse_args([*args])[2]
            for param in given:
                once = isinstance(param, click.Option) and not (param.multiple or param.is_flag or param.is_eager)
                if once and given.count(param) > 1:
                    name, metavar = max(param.opts, key=lambda name: name.startswith("--")), str(param.metavar)
                    remedy = f", with a comma between the values: {name} {metavar}" if "," in metavar else ""
                    raise click.UsageError(f"{name} is given {given.count(param)} times: give it once{remedy}", ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The methods if there is a choice, then the options, in columns that all groups share."""
        params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        fits = any(param.name == "n_neighbors" for param in params)
        if any(param.name == "method" for param in params):
            with formatter.section("Methods"):
                formatter.write_dl([(word, entry.about) for word, entry in REGISTRY.items()])
        found: dict[str, list[tuple[str, str]]] = {}
        for param in sorted(params, key=_place if fits else lambda param: _heading(param) == READING):
            record, heading = param.get_help_record(ctx), _heading(param)
            if record is not None:
                found.setdefault(heading if fits or heading == READING else "Options", []).append(record)
        width = min(WIDTH, max(len(name) for records in found.values() for name, _ in records))
        for heading, records in found.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), words) for name, words in records], col_max=width)


def _heading(param: click.Parameter) -> str:
    for heading, names in OPTIONS.items():
        if param.name in names:
            return heading
    having = [word for word, entry in REGISTRY.items() if param.name in entry.own]
    if param.name == "labels":  # asking the methods would import them
        having = ["isometric-projection"]
    return f"For {having[0]}" if len(having) == 1 else SEVERAL if having else ALSO


def _place(param: click.Parameter) -> tuple[int, int, int]:
    """Where an option is listed: by its group, its method, and its place in the group."""
    headings, methods = [*OPTIONS], [SEVERAL, *(f"For {word}" for word in REGISTRY)]
    heading = _heading(param)
    if heading in methods:
        return headings.index("{}"), methods.index(heading), 0
    names = OPTIONS[heading]
    return headings.index(heading), 0, names.index(param.name) if param.name in names else len(names)


class Commands(click.Group):
    """A group that lists its commands by what one wants, and knows what a misspelt one is like."""

    command_class = Command

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """As click; names of files are completed."""
        for param in cmd.params:
            file = isinstance(param, click.Argument) or (param.metavar or "").startswith(("FILE", "OUT", "DIR"))
            if file and param.type is click.STRING:
                param.type = file_name
        super().add_command(cmd, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each group under its heading."""
        width = max(map(len, self.commands))
        for heading, names in self.groups():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name.ljust(width), self.commands[name].get_short_help_str(formatter.width - width - 4))
                        for name in names
                    ]
                )

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """The commands there are, by their headings; those that no table names under the last."""
        listed = {name for names in COMMANDS.values() for name in names}
        for heading, names in COMMANDS.items():
            more = sorted({*self.commands} - listed) if heading == [*COMMANDS][-1] else []
            there = [*(name for name in names if name in self.commands), *more]
            if there:
                yield heading, there

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click, in one line that names the nearest command."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = nearest(args[0], self.commands)
            raise click.UsageError(f"{args[0]!r} is no command{f'; did you mean {near!r}?' if near else ''}", ctx)
        return super().resolve_command(ctx, args)
