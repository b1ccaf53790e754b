"""Drafts schema files from the declarations of other systems: SmartNoise and mbi."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from types import ModuleType
from typing import Any

from dpsql.errors import MissingExtra, Problem, SchemaError
from dpsql.schema.dataset import Unit
from dpsql.schema.drafts import Fact, draft

_TYPES = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "datetime": "DATE",
}
_OPTIONS = (
    "rows",
    "rows_exact",
    "row_privacy",
    "max_ids",
    "sample_max_ids",
    "clamp_counts",
    "clamp_columns",
    "use_dpsu",
    "censor_dims",
)


def from_smartnoise(text: str, file: str = "metadata") -> tuple[tuple[str, str], ...]:
    """The name and the draft of each table in SmartNoise's YAML metadata.

    Its `private_id` becomes the unit, with `max_ids` rows. Values of text columns and steps of
    floats, which it does not have, are left to fill in. Raises MissingExtra without PyYAML.
    """
    yaml = _yaml()
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        found = f"not YAML: {getattr(error, 'problem', None) or 'it cannot be read'}"
        raise SchemaError((Problem(file, "", line, found, ""),)) from None
    return tuple((name, _table(name, table, file)) for name, table in _tables(tree, file))


def from_mbi(text: str, name: str, file: str = "domain") -> str:
    """The draft for an mbi domain, a JSON object of {column: number of values}: codes from 0."""
    try:
        sizes = json.loads(text)
    except ValueError as error:
        raise _wrong(file, "", f"not JSON: {error}", "") from None
    if not isinstance(sizes, dict) or not sizes:
        raise _wrong(file, "", "not an mbi domain", 'it is {"column": number of values, ...}')
    problems = [
        Problem(file, column, None, f"{size!r} is no number of values", "an integer above 0")
        for column, size in sizes.items()
        if not isinstance(size, int) or isinstance(size, bool) or size < 1
    ]
    if problems:
        raise SchemaError(tuple(problems))
    facts = [
        Fact(column, "BIGINT", minimum=0, maximum=size - 1, nullable=False)
        for column, size in sizes.items()
    ]
    remark = "From an mbi domain: the values are codes from 0; source = names another column."
    return draft(name, facts, remarks=[remark])


def _yaml() -> ModuleType:
    import importlib

    try:
        return importlib.import_module("yaml")
    except ImportError:
        message = "reading SmartNoise metadata needs PyYAML: pip install pyyaml"
        raise MissingExtra(message) from None


def _tables(tree: Any, file: str) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """The tables under {collection: {schema: {table: ...}}}, whatever the collection is called."""
    fix = "it is {collection: {schema: {table: {column: {type: int, ...}}}}}"
    if not isinstance(tree, dict):
        raise _wrong(file, "", "not SmartNoise metadata", fix)
    found = False
    for collection, schemas in tree.items():
        if collection == "engine":
            continue
        for schema, tables in (schemas if isinstance(schemas, dict) else {"": None}).items():
            if not isinstance(tables, dict):
                raise _wrong(file, f"{collection}.{schema}", "there are no tables", fix)
            for name, table in tables.items():
                if not isinstance(table, dict):
                    raise _wrong(file, f"{collection}.{schema}.{name}", "there is no table", fix)
                found = True
                yield str(name), table
    if not found:
        raise _wrong(file, "", "there are no tables", fix)


def _table(name: str, table: Mapping[Any, Any], file: str) -> str:
    problems: list[Problem] = []
    facts: list[Fact] = []
    unit: Unit | None = Unit() if table.get("row_privacy") is True else None
    for column, fields in table.items():
        if column in _OPTIONS:
            continue
        place = f"{name}.{column}"
        if not isinstance(column, str):
            found = f"YAML reads the name of a column as {column!r}"
            problems.append(Problem(file, place, None, found, "put the name in quotes"))
        elif not isinstance(fields, dict) or fields.get("type") not in _TYPES:
            found = f"column {column!r} has no type that is known"
            fix = f"one of {', '.join(_TYPES)}"
            problems.append(Problem(file, place, None, found, fix))
        elif fields.get("private_id") is True:
            unit = unit or _unit(column, table.get("max_ids", 1), file, name)
        else:
            facts.append(_fact(column, fields))
    if problems:
        raise SchemaError(tuple(problems))
    return draft(name, facts, unit=unit, remarks=["From SmartNoise metadata."])


def _unit(column: str, max_ids: object, file: str, name: str) -> Unit:
    if not isinstance(max_ids, int) or isinstance(max_ids, bool) or max_ids < 1:
        raise _wrong(file, f"{name}.max_ids", f"max_ids is {max_ids!r}", "an integer above 0")
    return Unit(column, max_ids)


def _fact(column: str, fields: Mapping[str, Any]) -> Fact:
    whole = fields["type"] == "int"
    low, high = _bound(fields.get("lower"), whole), _bound(fields.get("upper"), whole)
    nullable = fields.get("nullable", True) is not False and "missing_value" not in fields
    return Fact(column, _TYPES[fields["type"]], (), low, high, nullable=nullable)


def _bound(value: object, whole: bool) -> int | Decimal | None:
    """A bound as an exact number; None for what is none, and for a fraction where none can be."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        exact = Decimal(str(value))
    except InvalidOperation:
        return None
    if not exact.is_finite() or exact.adjusted() > 400:
        return None
    return exact if not whole else int(exact) if exact == int(exact) else None


def _wrong(file: str, key: str, found: str, fix: str) -> SchemaError:
    return SchemaError((Problem(file, key, None, found, fix),))
