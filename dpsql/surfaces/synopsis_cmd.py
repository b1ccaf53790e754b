"""`dpsql synopsis`: create, show, drop, export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dpsql.errors import UsageError
from dpsql.surfaces.budget_options import dataset_option, done
from dpsql.surfaces.options import database, opened, purse_options
from dpsql.surfaces.run import Run

_format = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)


@click.group()
def synopsis() -> None:
    """Buy what is to be known of some columns once; then ask it without end.

    A synopsis is noisy tables of its columns and the distribution that is fitted to them. What
    follows from the tables is free for whoever bought or read them. With --method pmw it also
    guesses the rest: a gate tells whether guesses are far off, and only those that are cost
    anything, and teach it. With --method mwem it is made for the queries of a script: the tables
    are chosen by what the synopsis so far gets most wrong.

    \b
    dpsql synopsis create adult.duckdb main --columns sex,race,income --epsilon 0.5 -u alice
    dpsql query adult.duckdb "SELECT COUNT(*) FROM adult WHERE sex = 'Female'" --backend synopsis
    dpsql synopsis show adult.duckdb
    dpsql synopsis export adult.duckdb main -o rows.parquet -u alice
    dpsql synopsis drop adult.duckdb main
    """


@synopsis.command(options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="DB NAME")
@click.option(
    "--columns",
    metavar="A,B,C",
    help="Columns, commas between them. [default: those that the schema lists under NAME]",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="A,B",
    help="Columns whose table is measured; may repeat. All single columns are measured, too.",
)
@click.option(
    "--ways",
    type=int,
    help="Instead: the tables of all sets of up to so many columns. [default: 2]",
)
@click.option(
    "--queries",
    metavar="SCRIPT",
    help="Instead: a file of SELECTs that count rows (- for standard input), whose columns' tables"
    " are measured; mwem chooses among these.",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="What $NAME in the queries stands for, as for a script; may repeat.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "marginals", "pmw", "mwem", "smalldb", "holdout"]),
    default="auto",
    show_default=True,
    help="marginals (auto) spends all on tables at once; pmw keeps most of the price for questions"
    " that it gets wrong, which then teach it; mwem spends it in rounds, each on the"
    " table of a query that it gets most wrong; smalldb on one small database, of all, that answers"
    " the queries best.",
)
@click.option("--epsilon", type=float, help="Price in epsilon. [default: a tenth of the grant]")
@click.option("--rho", type=float, help="Price in zCDP, instead of epsilon.")
@click.option("--delta", type=float, help="Must be the grant's, if it is said.")
@click.option(
    "--updates",
    type=int,
    help="How many questions may teach it (pmw), or rounds (mwem). [default: 10; 15 for mwem]",
)
@click.option(
    "--accuracy",
    metavar="ROWS|N%",
    help="Instead: how far off guesses may be that pass (pmw), in rows, or of the number of rows"
    " that was released; thresholds, noise and updates follow from it and the price.",
)
@click.option(
    "--beta",
    type=float,
    help="With what probability one guess of a session may be further off. [default: 0.01]",
)
@click.option(
    "--threshold",
    type=int,
    metavar="ROWS",
    help="Instead: of how many rows a gate is asked whether a guess is so far off (pmw).",
)
@click.option(
    "--training",
    metavar="DATASET",
    help="The public dataset that guesses (holdout): only where it is far off is the private one"
    " asked.",
)
@click.option(
    "--step",
    type=click.Choice(["tables", "exponential", "polynomial", "projection"]),
    default="tables",
    show_default=True,
    help="How a question teaches it (pmw): by the whole table of its columns, or, as in the"
    " textbook, by a step towards its own answer.",
)
@click.option(
    "--gate",
    type=click.Choice(["exponential", "laplace"]),
    default="exponential",
    show_default=True,
    help="Noise of the gates that tell whether guesses are far off (pmw).",
)
@click.option(
    "--size", type=int, metavar="ROWS", help="Of the database of smalldb. [default: 8 or fewer]"
)
@click.option(
    "--for",
    "users",
    multiple=True,
    metavar="USER",
    help="Who may ask it; may repeat. [default: everybody with a grant]",
)
@click.option("--explain", is_flag=True, help="Show what it would cost, and its errors. Free.")
@dataset_option
@purse_options
@_format
@click.pass_obj
def create(
    run: Run,
    /,
    words: tuple[str, ...],
    columns: str | None,
    tables: tuple[str, ...],
    queries: str | None,
    params: tuple[str, ...],
    users: tuple[str, ...],
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str,
    accuracy: str | None,
    **given: Any,
) -> None:
    """Measure the tables of a synopsis, paid from the purse of -u USER.

    Whoever asks it later pays once for what was measured, as for any release of another user; the
    cap of all users does not pay again.

    \b
    dpsql synopsis create adult.duckdb main --columns sex,race,income --explain
    dpsql synopsis create adult.duckdb main --table sex,race,income --table age,income
    dpsql synopsis create adult.duckdb all --columns sex,race,age --method pmw --epsilon 1
    dpsql synopsis create adult.duckdb week --queries week.sql --method mwem --epsilon 1
    """
    from dpsql.surfaces.progress import Progress
    from dpsql.surfaces.query import show as printed
    from dpsql.surfaces.run_cmd import read_params, read_script

    db, name = _named(words)
    sets = [_names(text) for text in tables] or None
    script = None if queries is None else read_script(queries, run)
    values = read_params(params) or None
    with opened(run, db, schemas, user, ledger, {}) as session, run.statement():
        with Progress("planning and measuring the tables of the synopsis"):
            told = session.synopses.create(
                name, _names(columns) if columns is not None else None, sets=sets,
                queries=script, params=values, users=users or None,
                accuracy=_accuracy(accuracy), **given,
            )  # fmt: skip
        printed(told, form, None, run)


def _accuracy(text: str | None) -> float | str | None:
    """Rows, or a percentage as it was written, which the session reads."""
    if text is None or text.endswith("%"):
        return text
    try:
        return float(text)
    except ValueError:
        return text  # which the session refuses


@synopsis.command()
@click.argument("words", nargs=-1, metavar="DB [NAME]...")
@dataset_option
@purse_options
@_format
@click.pass_obj
def show(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str,
) -> None:
    """List the synopses that -u USER may ask: columns, tables, what they may still learn, and who
    else may ask. With NAME tell all of it: each table with its error, terms, and what reading it
    would take. Free.

    \b
    dpsql synopsis show adult.duckdb -u alice
    dpsql synopsis show adult.duckdb main -u alice
    """
    from dpsql.surfaces.query import show as printed

    db, names = database(words, len(words), "DB [NAME]...")
    with opened(run, db, schemas, user, ledger, {}) as session:
        found = session.synopses
        told = found.described(*names, dataset=dataset) if names else found.shown(dataset)
        printed(told, form, None, run)


@synopsis.command()
@click.argument("words", nargs=-1, metavar="DB NAME")
@click.option("--rows", type=int, help="How many. [default: as many as the table seems to have]")
@click.option(
    "--dealt/--drawn",
    default=True,
    help="Share the distribution out evenly, or draw each row by itself. [default: dealt]",
)
@dataset_option
@purse_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="A new .parquet, .csv or .duckdb file, which is whole or not there.",
)
@click.pass_obj
def export(
    run: Run,
    /,
    words: tuple[str, ...],
    rows: int | None,
    dealt: bool,
    dataset: str | None,
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    output: Path,
) -> None:
    """Write rows that the synopsis makes up; any SQL on them is free, and says nothing more.

    Their tables are as near to what was measured as notes say. What no table tells is a guess.

    \b
    dpsql synopsis export adult.duckdb main -o rows.parquet
    dpsql synopsis export adult.duckdb main -o rows.duckdb --rows 1000
    """
    from dpsql.surfaces import frames, terminal
    from dpsql.surfaces.aim import Aim
    from dpsql.surfaces.formats import csv_lines, summary
    from dpsql.surfaces.kept import writable
    from dpsql.surfaces.output import Target, aside, text_writer
    from dpsql.surfaces.progress import Progress
    from dpsql.surfaces.sheet import sheet

    db, name = _named(words)
    form = output.suffix.lower()
    if form not in (".parquet", ".csv", ".duckdb"):
        raise UsageError(f"cannot write {output}: end its name in .parquet, .csv or .duckdb")
    if form != ".duckdb":
        writable(output, Aim(db, ledger, schemas))
    elif output.exists():
        raise UsageError(f"{output} exists: name a new file")
    target = Target(output)
    try:
        with (
            opened(run, db, schemas, user, ledger, {}) as session,
            run.statement(),
            Progress("making up rows"),
        ):
            made = session.synopses.export(name, rows, dataset=dataset, dealt=dealt)
        page = sheet(made)
        if form == ".parquet":
            target.place(lambda path: frames.parquet(page, path))
        elif form == ".duckdb":
            target.place(lambda path: frames.database(page, path, made.dataset or name))
        else:
            target.place(text_writer(csv_lines(made)))
        aside(f"wrote {len(made.rows):,} rows to {output}")
        terminal.say(terminal.joined(summary(made), terminal.width(sys.stderr)), sys.stderr)
        for note in made.notes:
            terminal.say(f"note: {note}", sys.stderr)
    finally:
        target.discard()


@synopsis.command()
@click.argument("words", nargs=-1, metavar="DB NAME")
@dataset_option
@purse_options
@_format
@click.pass_obj
def drop(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str,
) -> None:
    """Forget a synopsis that -u USER bought. What was paid stays paid, releases stay kept.

    \b
    dpsql synopsis drop adult.duckdb main -u alice
    """
    db, name = _named(words)
    with opened(run, db, schemas, user, ledger, {}) as session:
        session.synopses.drop(name, dataset)
    done(form, {"dropped": name}, f"synopsis {name} is dropped; what was paid for it stays paid")


def _named(words: tuple[str, ...]) -> tuple[Path, str]:
    db, rest = database(words, 1, "DB NAME")
    if not rest:
        raise UsageError("no name: give DB NAME")
    return db, rest[0]


def _names(text: str) -> list[str]:
    """Column names between commas; one that has a comma is quoted, as in CSV."""
    import csv

    (found,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in found if name.strip()]
