"""What is asked: of which datasets, in which statement, under which settings."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpsql import schema as schemas
from dpsql.errors import UsageError
from dpsql.query.parse import Ask, Statement, parse
from dpsql.schema import Dataset
from dpsql.schema.files import require
from dpsql.session.settings import Settings

_KEPT = 256  # statements that are kept as they were read


def statement(sql: str) -> Statement:
    """The statement of a text. Raises UsageError for anything that is no text."""
    if not isinstance(sql, str):
        raise UsageError(f"a statement is a text (str), not {type(sql).__name__}")
    return parsed(sql)


def declared(
    database: Path, schema: str | Path | Sequence[str | Path] | None
) -> Mapping[str, Dataset]:
    """The datasets of a database, by name.

    Raises SourceError where there is none, SchemaError, and UsageError for unsafe ones.
    """
    require(database)
    listed = [schema] if isinstance(schema, str | Path) else schema
    found = {dataset.name: dataset for dataset in schemas.find(database, listed)}
    unsafe = [name for name, dataset in found.items() if dataset.unsafe]
    if unsafe:
        raise UsageError(
            f"the schema of {', '.join(unsafe)} is marked unsafe: its values were read off "
            "the data; the owner checks them and removes `unsafe = true`"
        )
    return found


def named(datasets: Mapping[str, Dataset], name: str | None) -> Dataset:
    """The dataset of a name, or the only one that is private. Raises UsageError."""
    if name is None:
        private = [each for each in datasets.values() if not each.public]
        listed = private or list(datasets.values())
        if len(listed) != 1:
            names = ", ".join(each.name for each in listed)
            raise UsageError(f"which dataset? name it (--dataset, or dataset=): one of {names}")
        return listed[0]
    if name not in datasets:
        raise UsageError(f"there is no dataset {name!r}: {', '.join(datasets)}")
    return datasets[name]


@functools.lru_cache(_KEPT)
def parsed(sql: str) -> Statement:
    """The statement of a text, which is the same for everybody."""
    return parse(sql)


def effective(ask: Ask, settings: Settings) -> Settings:
    """What holds for a statement: its OPTIONS go before what was set. Raises Refused."""
    options: dict[str, str] = {}
    for option in ask.options:
        if option.name == "delta":
            continue
        options[option.name] = option.value
        try:
            Settings().with_values(options)
        except UsageError as error:
            raise ask.text.refusal(
                str(error), option.span, "OPTIONS (epsilon = 0.1, confidence = 0.99)"
            ) from None
    return settings.with_values(options)


def require_private(ask: Ask, dataset: Dataset) -> None:
    """Refuse a statement about a table whose rows are no secret."""
    if dataset.public:
        raise ask.text.refusal(
            f"{dataset.name} is public: its rows are no secret, and no noise is due",
            ask.text.find("FROM"),
            "the same in DuckDB itself; a synopsis of method holdout guesses by it",
        )


def check_delta(ask: Ask, delta: float) -> None:
    """Refuse an OPTIONS clause whose delta is not the grant's."""
    for option in ask.options:
        if option.name != "delta":
            continue
        try:
            agrees = float(option.value) == delta
        except ValueError:
            agrees = False
        if not agrees:
            raise ask.text.refusal(
                f"delta is the grant's, {delta:g}; a statement cannot choose its own",
                option.span,
                f"OPTIONS without delta, or delta = {delta:g}",
            )
