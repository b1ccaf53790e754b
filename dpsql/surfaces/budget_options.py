"""What the commands of `dpsql budget` share: their options, and the ledger they open."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.errors import UsageError
from dpsql.surfaces.options import database, ledger_option, schema_option

if TYPE_CHECKING:
    from dpsql.accounting.ledger import Ledger
    from dpsql.surfaces.options import F

format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
dataset_option = click.option(
    "--dataset", metavar="NAME", help="Dataset. [default: the only private one of the schema]"
)


def common(command: F) -> F:
    """--dataset, --schema, --ledger and --format."""
    return dataset_option(schema_option(ledger_option(format_option(command))))


def named(words: tuple[str, ...]) -> tuple[Path, str]:
    """DB and USER."""
    db, rest = database(words, 1, "DB USER")
    if not rest:
        raise UsageError("no user: give DB USER")
    return db, rest[0]


def dataset_of(db: Path, schemas: tuple[Path, ...], named: str | None) -> str:
    """The dataset meant: the one named, as the schema spells it, or its only private one."""
    from dpsql.schema import find

    try:
        found = find(db, schemas or None)
    except UsageError:
        if named is None or schemas:
            raise
        return named
    declared = [dataset.name for dataset in found]
    if named is None:
        listed = [dataset.name for dataset in found if not dataset.public] or declared
        if len(listed) == 1:
            return listed[0]
        raise UsageError(f"which dataset? add --dataset with one of: {', '.join(listed)}")
    for name in declared:
        if name.casefold() == named.casefold():
            return name
    raise UsageError(f"the schema has no dataset {named!r}; it has: {', '.join(declared)}")


def place_of(db: Path, place: Path | str | None) -> Path | str:
    """Where the ledger of a database is: where it was said to be, else beside it."""
    return place or db.with_suffix(".ledger")


def ledger_of(db: Path, place: Path | str | None, *, create: bool = False) -> Ledger:
    """The ledger of a database, open."""
    from dpsql.accounting.books.shelf import witness
    from dpsql.accounting.ledger import Ledger

    found = place_of(db, place)
    return Ledger.open(found, create=create, witness=witness(db, found))


def done(form: str, fields: dict[str, Any], *sentences: str) -> None:
    """Say what was done, in sentences or as one line of JSON."""
    from dpsql.surfaces.output import write_lines
    from dpsql.surfaces.terminal import visible

    made = [json.dumps(fields)] if form == "json" else map(visible, sentences)
    write_lines(made, sys.stdout)
