"""`dpsql run`: a whole script, planned together and paid by one charge."""

from __future__ import annotations

import datetime
import os
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from dpsql.errors import UsageError
from dpsql.surfaces.aim import Aim
from dpsql.surfaces.options import (
    LONGEST_FILE,
    chosen,
    database,
    decoded,
    opened,
    purse_options,
    setting_options,
)
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.session.scripts.report import Report
    from dpsql.session.scripts.script import Script
    from dpsql.surfaces.bundle import Folder
    from dpsql.surfaces.output import Target

    Place: TypeAlias = Target | Folder

_SUFFIXES = {
    ".md": "markdown", ".markdown": "markdown", ".json": "json", ".txt": "table",
    ".html": "html", ".csv": "csv", ".parquet": "parquet", ".zip": "",
}  # fmt: skip
_TABLES = ("csv", "parquet")


@click.command("run", options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="DB SCRIPT")
@purse_options
@setting_options
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="What $NAME in the script stands for: a number, a date, true, false, null, or text "
    "('1' in quotes is text); may repeat.",
)
@click.option("--explain", is_flag=True, help="Show what the script would do and cost. Free.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "markdown", "html", "parquet"]),
    help="[default: by the suffix of -o; without -o table]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a file, which is whole or not there. CSV and Parquet hold one answer a file: "
    "several make a folder of that name, or a .zip.",
)
@click.pass_obj
def run_script(
    run: Run,
    /,
    words: tuple[str, ...],
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    params: tuple[str, ...],
    explain: bool,
    form: str | None,
    output: Path | None,
    **settings: Any,
) -> None:
    """Answer a whole script of SQL together, at one price.

    SCRIPT is a file of statements that end in semicolons, or - for standard input. All of them are
    planned as one and paid by one charge, which is less than one by one; if any is refused,
    nothing is charged. --epsilon, --rho and --accuracy are about the whole script; without them it
    costs 10 % of the grant. A script that is run again is answered from what was released, free.

    \b
    dpsql run adult.duckdb report.sql
    dpsql run adult.duckdb report.sql --explain --epsilon 0.5
    dpsql run adult.duckdb report.sql -o report.html --param year=2024
    dpsql run adult.duckdb report.sql -o tables.zip --format parquet

    Above a statement "-- # Title" names it, "-- weight: 4" halves its noise beside that of others,
    "-- chart: bar" (line, heat or none) draws it otherwise than its shape would, and other comments
    describe it. An .html page needs nothing from elsewhere. With -o a terminal is told what was
    written and what it cost, on standard error. SET holds for the statements after it,
    and options here go before it; SET epsilon, rho, backend and objective stand above the first
    SELECT; whole is about statements alone. SHOW, DESCRIBE and EXPLAIN are free.
    """
    from dpsql.surfaces import terminal
    from dpsql.surfaces.kept import writable
    from dpsql.surfaces.progress import Progress

    db, word = _words(words)
    if output is None and terminal.closed(sys.stdout):
        raise UsageError("standard output is closed: add -o FILE")
    script = read_script(word, run)
    given = read_params(params)
    answers = sum(not step.sets for step in script.steps)
    words_ = f"planning {answers:,} statement{'' if answers == 1 else 's'}"
    if explain:
        _explain(run, (db, schemas, user, ledger), script, given, form, output, settings, words_)
        return
    if output is not None:
        writable(output, Aim(db, ledger, schemas), Path(word))
    form, place = _place(form, output, answers)
    try:
        with opened(run, db, schemas, user, ledger, {}) as session, run.statement():
            with Progress(words_):
                report = session.report(script, given or None, **chosen(settings))
            show(report, form, place, run)
    finally:
        if place is not None:
            place.discard()


def _explain(
    run: Run,
    where: tuple[Path, tuple[Path, ...], str | None, Path | str | None],
    script: Script,
    params: dict[str, Any],
    form: str | None,
    output: Path | None,
    settings: dict[str, Any],
    words: str,
) -> None:
    from dpsql.surfaces import terminal
    from dpsql.surfaces.formats import json_lines
    from dpsql.surfaces.output import write_lines
    from dpsql.surfaces.pages import plan_lines
    from dpsql.surfaces.progress import Progress

    if output is not None or form not in (None, "table", "json"):
        raise click.UsageError("--explain prints a table, or JSON with --format json; without -o")
    with opened(run, *where, {}) as session, Progress(words):
        plan = session.explain_script(script, params or None, **chosen(settings))
    stream = sys.stdout
    if form == "json":
        made = json_lines(plan.to_dict())
    else:
        made = plan_lines(plan, width=terminal.width(stream), drawn=terminal.draws(stream))
    write_lines(made, stream)


def show(report: Report, form: str, place: Place | None, run: Run) -> None:
    """Write the report to its place or to standard output.

    What was paid for is never lost: what a file cannot take is printed, and what standard output
    cannot take goes to standard error.
    """
    from dpsql.surfaces import pages, terminal
    from dpsql.surfaces.output import aside, words_of, write_lines

    if place is not None:
        try:
            place.place(_writer(report, form, place))
        except OSError as error:
            terminal.say(
                f"cannot write {place.path}: {words_of(error)}; the answers follow", sys.stderr
            )
            run.code = 2
            show(report, "table" if form in (*_TABLES, "html") else form, None, run)
            return
        aside(f"wrote {len(report.sections):,} answers to {place.path}")
        if form != "table":
            aside(terminal.joined(pages.summary(report), terminal.width(sys.stderr)))
        return
    stream = sys.stdout
    try:
        width, drawn = terminal.width(stream), terminal.draws(stream)
        write_lines(pages.lines(report, form, width=width, drawn=drawn), stream)
    except BrokenPipeError:
        raise
    except OSError as error:
        terminal.say(
            f"cannot write to standard output: {words_of(error)}; the answers follow", sys.stderr
        )
        run.code = 2
        again = pages.lines(report, form, width=None, drawn=terminal.draws(sys.stderr))
        write_lines(again, sys.stderr)


def _writer(report: Report, form: str, place: Place) -> Any:
    from dpsql.surfaces import bundle, pages
    from dpsql.surfaces.output import text_writer

    if form not in _TABLES:
        return text_writer(pages.lines(report, form, width=None, drawn=True))
    if isinstance(place, bundle.Folder):
        return bundle.files(report, form)
    if place.path.suffix.lower() == ".zip":
        return bundle.zipped(report, form)
    return bundle.file(report.releases[0], form)


def _place(form: str | None, output: Path | None, answers: int) -> tuple[str, Place | None]:
    """The format, and the file or folder for it. Raises UsageError before anything is charged."""
    from dpsql.surfaces.bundle import Folder
    from dpsql.surfaces.output import Target

    if output is None:
        if form in _TABLES:
            raise click.UsageError(
                f"{form} needs a place, one file an answer: add -o tables.zip, or a folder"
            )
        return form or "table", None
    suffix = output.suffix.lower()
    if form is None and suffix not in _SUFFIXES:
        raise click.UsageError(
            f"cannot tell the format of {output} by its name: end it in {', '.join(_SUFFIXES)}, "
            "or say --format"
        )
    form = form or _SUFFIXES[suffix] or "csv"
    if suffix == ".zip" and form not in _TABLES:
        raise click.UsageError(
            f"a .zip holds one table an answer: --format csv or parquet, not {form}"
        )
    single = answers == 1 and suffix in (".csv", ".parquet")
    if form in _TABLES and suffix != ".zip" and not single:
        return form, Folder(output)
    return form, Target(output)


def _words(words: tuple[str, ...]) -> tuple[Path, str]:
    """DB and SCRIPT; DB may be left out when DPSQL_DB names it."""
    if len(words) == 1 and os.environ.get("DPSQL_DB"):
        return Path(os.environ["DPSQL_DB"]), words[0]
    db, rest = database(words, 1, "DB SCRIPT")
    if not rest:
        raise UsageError("no script: give a file of SQL, or - for standard input")
    return db, rest[0]


def read_script(word: str, run: Run) -> Script:
    with run.importing():
        from dpsql.session.scripts.script import Script

    if word != "-" and len(word.split()) > 1 and not os.path.exists(word):
        raise UsageError(
            f"{word!r} is no file: a script is a file of SQL, or - for standard input; a statement"
            " by itself is asked with dpsql query"
        )
    if word != "-":
        return Script.read(Path(word))
    if sys.stdin.isatty():
        raise UsageError("no script: give a file of SQL, or pipe one in")
    return Script.of(decoded(sys.stdin.buffer.read(LONGEST_FILE + 1), "standard input"), "stdin")


def read_params(given: tuple[str, ...]) -> dict[str, Any]:
    """The values of --param. Raises UsageError."""
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise click.UsageError(f"--param {text!r} is not NAME=VALUE, e.g. --param year=2024")
        if name in found:
            raise click.UsageError(f"--param {name} is given twice")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    """A value as SQL would have it: number, date, true, false or null; anything else is text."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    word = text.strip().lower()
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word]
    for read in (int, _decimal, datetime.date.fromisoformat):
        try:
            if text.isascii() and "_" not in text:
                return read(text)
        except ValueError:
            continue
    return text


def _decimal(text: str) -> Decimal | float:
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise ValueError from None
    if not found.is_finite():
        raise ValueError
    return float(text) if "e" in text.lower() else found
