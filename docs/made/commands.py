"""The commands and their options, from the tree that runs them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from docs.made.markdown import code, marked, plain, table
from dpsql.surfaces.commands import root
from dpsql.surfaces.magic import options


def commands() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "What `dpsql COMMAND --help` says, of all commands. Every command takes `-h, --help`."
    yield ""
    yield from _command(root, "dpsql")
    yield "## In the shell"
    yield ""
    yield "Commands of `dpsql shell`, and what psql calls them:"
    yield ""
    yield from marked("dots")
    yield ""
    yield "## In a notebook"
    yield ""
    yield "`%load_ext dpsql` brings the magics `%dpsql`, for a line, and `%%dpsql`, for a cell:"
    yield ""
    yield from _command(options, "%dpsql")


def _command(command: click.Command, name: str) -> Iterator[str]:
    yield f"{'#' * min(name.count(' ') + 2, 4)} {name}"
    yield ""
    arguments = [_argument(p) for p in command.params if isinstance(p, click.Argument)]
    children = isinstance(command, click.Group)
    words = [name, "[OPTIONS]", *arguments, *(["COMMAND [ARGS]..."] if children else [])]
    yield from ("```", " ".join(words), "```", "")
    for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "").replace("\f", "")):
        if part.startswith("\b"):
            yield from ("```", *part.replace("\b", "").splitlines()[1:], "```", "")
        else:
            yield from (*map(plain, part.splitlines()), "")
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        yield from table(("option", "what"), (_option(option) for option in options))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _command(found, f"{name} {child}")


def _argument(argument: click.Argument) -> str:
    """How an argument is written; without words of its own as click has it."""
    name = (argument.name or "").upper()
    return argument.metavar or (name if argument.required else f"[{name}]")


def _option(option: click.Option) -> tuple[str, str]:
    spelt = ", ".join(option.opts)
    if option.secondary_opts:
        spelt += " / " + ", ".join(option.secondary_opts)
    elif not option.is_flag:
        kind = option.type
        name = "|".join(kind.choices) if isinstance(kind, click.Choice) else kind.name.upper()
        spelt += f" {option.metavar or name}"
    said = " ".join((option.help or "").split())
    if option.show_default and option.default is not None:
        said += f" [default: {option.default}]"
    if option.required:
        said += " [required]"
    if option.envvar:
        return code(spelt), f"{plain(said)} Or {code(option.envvar)} says it."
    return code(spelt), plain(said)
