"""`dpsql schema`: infer, check, show, json-schema."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.errors import UsageError
from dpsql.surfaces.options import database, schema_option
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.curator.owner import Fit, Report
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
@click.option("--table", metavar="NAME", help="Table. [default: the only one]")
@click.option(
    "--from-data",
    is_flag=True,
    help="Read values and bounds off the rows. They tell on the people in the table: the draft is "
    "marked unsafe, and nothing is answered until you have checked each and removed the mark.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a new file. [default: standard output]",
)
@click.pass_obj
def infer(
    run: Run,
    /,
    words: tuple[str, ...],
    table: str | None,
    from_data: bool,
    output: Path | None,
) -> None:
    """Draft a schema from the types of a table's columns.

    Enums, booleans, CHECK constraints and comments are read; domains that types do not tell are
    left for you to fill in, from what you know and not from the data. FILE may also be SmartNoise
    metadata (.yaml) or an mbi domain (.json).

    \b
    dpsql schema infer visits.duckdb --table visits -o visits.toml
    dpsql schema infer visits.parquet > visits.toml
    """
    run.owner = True
    from dpsql.surfaces.output import Target, aside, text_writer, words_of, write_lines
    from dpsql.surfaces.terminal import say

    db, rest = database(words, 0, "DB")
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}: give DB alone")
    if output is not None and output.exists():
        raise UsageError(f"{output} is there already: name another file, or remove it")
    target = None if output is None else Target(output)
    try:
        text = _drafted(run, db, table, from_data).splitlines()
        if from_data:
            say(
                "WARNING: values and bounds of this draft were read off the rows and tell on the "
                "people in them: put what you know in the place of each, and show nobody the draft",
                sys.stderr,
            )
        if target is None:
            write_lines(text, sys.stdout)
            return
        try:
            target.place(text_writer(text))
        except OSError as error:
            raise UsageError(f"cannot write {output}: {words_of(error)}") from None
        check = f"dpsql schema check {shlex.quote(str(db))}"
        if target.path.resolve() != db.with_suffix(".toml").resolve():
            check += f" -s {shlex.quote(str(output))}"
        aside(f"wrote {output}: read it, fill in what is missing, then {check}")
    finally:
        if target is not None:
            target.discard()


def _drafted(run: Run, file: Path, table: str | None, from_data: bool) -> str:
    """The draft for a table, or from the metadata of another system."""
    from dpsql.schema import draft, from_mbi, from_smartnoise
    from dpsql.surfaces.options import read

    match file.suffix.lower():
        case ".json":
            return from_mbi(read(file), file.stem, str(file))
        case ".yaml" | ".yml":
            drafts = dict(from_smartnoise(read(file), str(file)))
            if table is None and len(drafts) == 1:
                return next(iter(drafts.values()))
            if table in drafts:
                return drafts[table]
            raise UsageError(f"which table? add --table with one of: {', '.join(drafts)}")
        case _:
            with run.importing():
                from dpsql.curator.facts import facts
            from dpsql.surfaces.progress import Progress

            with Progress(f"reading {file.name}") as progress:
                found = facts(file, table, from_data=from_data, progress=progress)
            name = (found.source.table or file.stem).rsplit(".", 1)[-1]
            return draft(name, found.columns, source=found.source)


@schema.command()
@click.argument("words", nargs=-1, metavar="DB|FILE")
@schema_option
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.pass_obj
def check(run: Run, /, words: tuple[str, ...], schemas: tuple[Path, ...], form: str) -> None:
    """Compare a schema with the data, or check a schema file alone.

    For DB, shows how many values lie outside of their domains. These are true numbers, for the
    owner alone. In a nullable column an outside value reads as NULL; in any other column it takes
    its row out of the dataset.

    \b
    dpsql schema check adult.duckdb
    dpsql schema check adult.toml
    """
    run.owner = True
    from dpsql.surfaces.output import write_lines

    db, datasets = declared(words, schemas)
    if db is None:
        from dpsql.surfaces.declared import well_formed

        fields: list[Any] = [{"dataset": d.name, "problems": []} for d in datasets]
        made = [well_formed(dataset) for dataset in datasets]
    else:
        with run.importing():
            from dpsql.curator import owner
        from dpsql.surfaces import terminal
        from dpsql.surfaces.progress import Progress

        made, fields = [], []
        width, drawn = terminal.width(sys.stdout), terminal.draws(sys.stdout)
        for dataset in datasets:
            with Progress(f"checking {dataset.name}") as progress:
                report = owner.check(db, dataset, progress)
            if report.problems:
                run.code = 2
            made += _report_lines(report, dataset, width=width, drawn=drawn)
            fields.append({**dataclasses.asdict(report), "counted": report.counted})
    write_lines([json.dumps(fields, indent=2)] if form == "json" else made, sys.stdout)


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


def _report_lines(
    report: Report, dataset: Dataset, *, width: int | None = None, drawn: bool = True
) -> Iterator[str]:
    """What the check of a dataset found: problems, or how many rows are counted and why."""
    from dpsql.surfaces.table import table
    from dpsql.surfaces.terminal import visible

    if report.problems:
        count = len(report.problems)
        yield f"{report.dataset}: {count} problem{'' if count == 1 else 's'}; nothing is answered"
        yield from (f"  {visible(problem)}" for problem in report.problems)
        return
    yield f"{report.dataset}: {report.counted:,} of {report.rows:,} rows are in the dataset"
    rows = [
        [visible(fit.column), f"{fit.nulls:,}", f"{fit.outside:,}", _meaning(fit)]
        for fit in report.columns
    ]
    names = ("column", "NULL", "outside", "which means")
    yield from table(names, rows, (False, True, True, False), width=width, drawn=drawn)
    if dataset.unit.column is not None:
        unit = visible(dataset.unit.column)
        if report.unitless:
            yield (
                f"{report.unitless:,} rows have no {unit}: each is a unit of its own, "
                "and the answers hide that row alone"
            )
        yield (
            f"{report.units_over:,} values of {unit} have more than {dataset.unit.max_rows:,} "
            f"rows; {report.dropped:,} of their rows are not counted"
        )
    yield from (f"remark: {visible(remark)}" for remark in report.remarks)
    yield "these are true numbers, for the owner alone"


def _meaning(fit: Fit) -> str:
    if fit.taken_out:
        return f"takes {fit.taken_out:,} row{'' if fit.taken_out == 1 else 's'} out"
    if fit.outside:
        return "read as NULL"
    return "fits"
