"""`dpsql schema`: infer, check, show, json-schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.errors import UsageError
from dpsql.surfaces.commands import Run
from dpsql.surfaces.options import database, schema_option

if TYPE_CHECKING:
    from dpsql.schema import Dataset


@click.group()
def schema() -> None:
    """Draft, check and show what the owner declares about a table.

    \b
    dpsql schema infer visits.duckdb -o visits.toml    draft from the column types
    dpsql schema check visits.duckdb                   compare the file with the data
    dpsql schema show visits.duckdb                    what an analyst may know
    """


@schema.command()
@click.argument("words", nargs=-1, metavar="DB|FILE")
@schema_option
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.pass_obj
def show(run: Run, /, words: tuple[str, ...], schemas: tuple[Path, ...], form: str) -> None:
    """Show the columns, their domains, and whom the answers hide. The source is not shown.

    \b
    dpsql schema show adult.duckdb
    dpsql schema show schemas/adult.toml --format json
    """
    del run
    from dpsql.surfaces import terminal
    from dpsql.surfaces.declared import dataset_fields, dataset_lines
    from dpsql.surfaces.output import write_lines

    _, datasets = declared(words, schemas)
    if form == "json":
        made = [json.dumps([dataset_fields(d) for d in datasets], indent=2, ensure_ascii=False)]
        write_lines(made, sys.stdout)
        return
    width, drawn = terminal.width(sys.stdout), terminal.draws(sys.stdout)
    for dataset in datasets:
        write_lines(dataset_lines(dataset, width=width, drawn=drawn), sys.stdout)


@schema.command("json-schema")
def json_schema() -> None:
    """Print the JSON Schema of schema files, for editors.

    \b
    dpsql schema json-schema > dataset.schema.json
    """
    from dpsql.schema import json_schema as of
    from dpsql.surfaces.output import write_lines

    write_lines([json.dumps(of(), indent=2)], sys.stdout)


def declared(
    words: tuple[str, ...], schemas: tuple[Path, ...]
) -> tuple[Path | None, tuple[Dataset, ...]]:
    """The database, if one is named, and the datasets declared for it or in the file named."""
    from dpsql.schema import find

    db, rest = database(words, 0, "DB or a schema file")
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}: give DB or a schema file alone")
    if db.suffix.lower() != ".toml" and not db.is_dir():
        return db, find(db, schemas or None)
    if schemas:
        raise UsageError(f"{db} is a schema itself: leave out -s")
    return None, find(db, [db])
