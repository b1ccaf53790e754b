"""`dpsql query` and `dpsql explain`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dpsql.errors import UsageError
from dpsql.surfaces.options import (
    chosen,
    database,
    format_option,
    opened,
    purse_options,
    setting_options,
    statement,
)
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.surfaces.output import Target


@click.command(options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar='DB ["SQL"]')
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path),
    help="Read the statement from a file (- : stdin).",
)
@purse_options
@setting_options
@format_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a file, which is whole or not there. Parquet needs one.",
)
@click.pass_obj
def query(
    run: Run,
    /,
    words: tuple[str, ...],
    file: Path | None,
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str | None,
    output: Path | None,
    **settings: Any,
) -> None:
    """Answer one SQL statement, privately.

    DB is a .duckdb, .parquet or .csv file. The statement is an argument, a file (-f) or standard
    input. Without --epsilon, --rho or --accuracy it costs 1 % of the grant. Settings in the
    statement's own OPTIONS (epsilon = 0.1) go before options here.

    \b
    dpsql query adult.duckdb "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"
    dpsql query adult.duckdb -f report.sql --epsilon 0.1 --format json
    echo "SELECT AVG((age > 40)::INT) FROM adult" | dpsql query adult.duckdb
    dpsql query adult.duckdb "SELECT ..." --intervals -o answer.parquet

    A table shows each value with the half-width of its interval; the other formats hold plain
    values (JSON: the whole release). In Parquet a repeated column name gets a number: n, n_1.
    """
    from dpsql.surfaces import terminal
    from dpsql.surfaces.aim import Aim
    from dpsql.surfaces.formats import SUFFIXES
    from dpsql.surfaces.kept import writable
    from dpsql.surfaces.output import Target
    from dpsql.surfaces.progress import Progress

    db, rest = database(words, 1, 'DB "SQL"')
    if output is None and terminal.closed(sys.stdout):
        raise UsageError("standard output is closed: add -o FILE")
    sql = statement(rest, file)
    if form is None:
        form = "table" if output is None else SUFFIXES.get(output.suffix.lower(), "")
    if form == "parquet" and output is None:
        raise click.UsageError("parquet needs a file: add -o FILE")
    if output is not None:
        writable(output, Aim(db, ledger, schemas), file)
    if not form:
        raise click.UsageError(
            f"cannot tell the format of {output} by its name: end it in "
            f"{', '.join(SUFFIXES)}, or say --format"
        )
    target = None if output is None else Target(output)
    try:
        with opened(run, db, schemas, user, ledger, {}) as session, run.statement():
            with Progress("counting"):
                release = session.answer(sql, **chosen(settings))
            show(release, form, target, run)
    finally:
        if target is not None:
            target.discard()


def show(
    release: Release,
    form: str,
    target: Target | None,
    run: Run,
    write: Callable[[Iterable[str], TextIO], None] | None = None,
) -> None:
    """Write the release to its file or, by `write`, to standard output.

    A paid answer is never lost: what a file cannot take is printed, and what standard output
    cannot take goes to standard error.
    """
    from dpsql.surfaces import terminal
    from dpsql.surfaces.formats import lines, summary
    from dpsql.surfaces.output import aside, text_writer, words_of, write_lines

    made = lines(
        release,
        form if form != "parquet" else "csv",
        width=terminal.width(sys.stdout) if target is None else None,
        drawn=target is not None or terminal.draws(sys.stdout),
    )
    if target is not None:
        try:
            if form == "parquet":
                from dpsql.surfaces import frames
                from dpsql.surfaces.sheet import sheet

                page = sheet(release)
                target.place(lambda path: frames.parquet(page, path))
            else:
                target.place(text_writer(made))
        except OSError as error:
            terminal.say(
                f"cannot write {target.path}: {words_of(error)}; the answer follows", sys.stderr
            )
            run.code = 2
            show(release, "csv" if form == "parquet" else form, None, run)
            return
        aside(f"wrote {len(release.rows):,} rows to {target.path}")
    else:
        try:
            (write or write_lines)(made, sys.stdout)
        except BrokenPipeError:
            raise
        except OSError as error:
            terminal.say(
                f"cannot write to standard output: {words_of(error)}; the answer follows",
                sys.stderr,
            )
            run.code = 2
            again = lines(release, form, drawn=terminal.draws(sys.stderr))
            write_lines(again, sys.stderr)
            return
    if form != "table" and form != "json":
        aside(terminal.joined(summary(release), terminal.width(sys.stderr)))
        for note in release.notes:
            aside(f"note: {terminal.visible(note)}")


@click.command()
@click.argument("words", nargs=-1, metavar='DB ["SQL"]')
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path),
    help="Read the statement from a file (- : stdin).",
)
@purse_options
@setting_options
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.pass_obj
def explain(
    run: Run,
    /,
    words: tuple[str, ...],
    file: Path | None,
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str,
    **settings: Any,
) -> None:
    """Show what a statement would do and cost. Free; reads no private data.

    \b
    dpsql explain adult.duckdb "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --epsilon 0.1
    """
    from dpsql.surfaces import terminal
    from dpsql.surfaces.formats import json_lines, plan_lines
    from dpsql.surfaces.output import write_lines

    db, rest = database(words, 1, 'DB "SQL"')
    sql = statement(rest, file)
    with opened(run, db, schemas, user, ledger, {}) as session:
        plan = session.explain(sql, **chosen(settings))
    stream = sys.stdout
    if form == "json":
        made = json_lines(plan.to_dict())
    else:
        made = plan_lines(plan, width=terminal.width(stream), drawn=terminal.draws(stream))
    write_lines(made, stream)
