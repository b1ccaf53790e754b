"""`dpsql shell`: statements typed at a prompt or piped in, each ended by a semicolon."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dpsql.errors import UsageError
from dpsql.surfaces.options import (
    chosen,
    database,
    decoded,
    opened,
    purse_options,
    setting_options,
)
from dpsql.surfaces.run import Run
from dpsql.surfaces.shell.dots import MODES


@click.command()
@click.argument("words", nargs=-1, metavar="DB")
@purse_options
@setting_options
@click.option("--format", "form", type=click.Choice(MODES), default="table", show_default=True)
@click.pass_obj
def shell(
    run: Run,
    /,
    words: tuple[str, ...],
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str,
    **settings: Any,
) -> None:
    """Ask SQL at a prompt, or pipe statements in.

    A statement ends with a semicolon; .help lists the shell's own commands. At the prompt, Tab
    completes names and declared values, a statement that takes more than 10 % of what is left is
    asked about first, Ctrl-C stops a statement and says what it charged, and what is typed is kept
    for you alone (DPSQL_HISTORY names another file). Piped statements stop at the first error.
    The options hold until SET says otherwise; RESET returns to them.

    \b
    dpsql shell adult.duckdb -u alice
    dpsql shell adult.duckdb --format csv < statements.sql
    """
    from dpsql.surfaces.shell.room import Room

    db, rest = database(words, 0, "DB")
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}: give DB alone")
    with opened(run, db, schemas, user, ledger, chosen(settings)) as session:
        room = Room(session, run, form)
        try:
            if sys.stdin.isatty() and sys.stdout.isatty():
                from dpsql.surfaces.shell.prompt import reader

                with run.importing():
                    person, warning = reader(session)
                room.talk(person, warning)
            else:
                room.follow(_piped())
        finally:
            room.close()


def _piped() -> Iterator[str]:
    """The lines of standard input."""
    for line in sys.stdin.buffer:
        yield decoded(line, "standard input")
