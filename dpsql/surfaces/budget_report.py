"""`dpsql budget report`: the owner's page."""

from __future__ import annotations

from pathlib import Path

import click

from dpsql.errors import UsageError
from dpsql.surfaces.budget_options import dataset_option, ledger_of
from dpsql.surfaces.options import database, ledger_option, schema_option
from dpsql.surfaces.run import Run


@click.command("report")
@click.argument("words", nargs=-1, metavar="DB")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The page, e.g. budget.html; it is whole or not there.",
)
@dataset_option
@schema_option
@ledger_option
@click.pass_obj
def budget_report(
    run: Run,
    /,
    words: tuple[str, ...],
    output: Path | None,
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
) -> None:
    """Write a page of all purses: granted, spent, left, and what is about to run dry.

    With spending over time, by user, mechanism and dataset, and the newest charges. One HTML file
    that needs nothing from elsewhere, made of the ledger alone: the data are not opened.

    \b
    dpsql budget report adult.duckdb -o budget.html
    """
    run.owner = True
    from dpsql.surfaces.aim import Aim
    from dpsql.surfaces.kept import writable
    from dpsql.surfaces.output import aside
    from dpsql.surfaces.progress import Progress

    db, _ = database(words, 0, "DB")
    if output is None:
        raise UsageError("no place for the page: add -o budget.html")
    writable(output, Aim(db, ledger, schemas))
    from dpsql.surfaces.html.books import read
    from dpsql.surfaces.html.budget import of_books
    from dpsql.surfaces.html.page import write

    with Progress("reading the log"), ledger_of(db, ledger) as book:
        books = read(book, dataset)
    write(of_books(books, db.stem), output)
    aside(f"wrote {output}")
