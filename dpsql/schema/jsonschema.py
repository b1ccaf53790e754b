"""The JSON Schema of a schema file, from which editors complete."""

from __future__ import annotations

from typing import Any

from dpsql.schema.kinds import DATE_STEPS, KEYS, MAX_ROWS, REQUIRED, Kind, Neighbours

_WORDS: dict[str, str] = {
    "min": "The least value.",
    "max": "The greatest value.",
    "values": "All values that the column may hold, from knowledge, not from the data.",
    "edges": "Half-open bins: a value belongs to the greatest edge at or below it.",
    "nullable": "NULL, and any value outside the domain, is a value of its own.",
    "source": "The name of the column in the table, where it is another.",
    "description": "Shown to analysts.",
}

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_DATE: dict[str, Any] = {"type": "string", "format": "date"}
_NUMBER: dict[str, Any] = {"type": "number"}
_POSITIVE: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}

_DOMAINS: dict[tuple[Kind, str], dict[str, Any]] = {
    (Kind.CATEGORY, "values"): {
        "type": "array",
        "minItems": 1,
        "uniqueItems": True,
        "anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}],
    },
    (Kind.INTEGER, "min"): {"type": "integer"},
    (Kind.INTEGER, "max"): {"type": "integer"},
    (Kind.NUMBER, "min"): _NUMBER,
    (Kind.NUMBER, "max"): _NUMBER,
    (Kind.NUMBER, "step"): {**_POSITIVE, "description": "A value falls on min + i * step below."},
    (Kind.NUMBER, "edges"): {
        "type": "array",
        "minItems": 2,
        "uniqueItems": True,
        "items": _NUMBER,
    },
    (Kind.DATE, "min"): _DATE,
    (Kind.DATE, "max"): _DATE,
    (Kind.DATE, "step"): {"enum": list(DATE_STEPS), "description": "Counted from min."},
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 7) of a schema file, as plain values."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A dataset of dpsql",
        "type": "object",
        "additionalProperties": False,
        "required": ["dataset", "unit", "source", "columns"],
        "properties": {
            "dataset": {**_TEXT, "description": "The name that FROM has for it."},
            "description": {"type": "string", "description": _WORDS["description"]},
            "neighbours": {
                "enum": [relation.value for relation in Neighbours],
                "default": Neighbours.ADD_REMOVE.value,
                "description": "replace-one: the number of rows is public; unit = row only.",
            },
            "unit": _unit(),
            "append_only": {
                "type": "boolean",
                "default": False,
                "description": "Rows are only added, never changed; unit = row only.",
            },
            "public": {
                "type": "boolean",
                "default": False,
                "description": "Its rows are no secret: synopses may guess by it.",
            },
            "unsafe": {
                "type": "boolean",
                "default": False,
                "description": "Values were read off the data: nothing is answered until removed.",
            },
            "source": {
                "type": "object",
                "description": "Where the rows are; never shown to analysts.",
                "oneOf": [
                    {
                        "additionalProperties": False,
                        "required": [key],
                        "properties": {key: {**_TEXT, "description": words}},
                    }
                    for key, words in (
                        ("table", "A table or view of the database."),
                        ("query", "A SELECT of the owner's own, trusted."),
                        ("file", "A Parquet or CSV file, relative to this file."),
                    )
                ],
            },
            "columns": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"minLength": 1},
                "additionalProperties": {"oneOf": [c for kind in Kind for c in _columns(kind)]},
            },
            "synopses": {
                "type": "object",
                "description": "Columns that a synopsis may learn together.",
                "additionalProperties": {"type": "array", "minItems": 1, "items": _TEXT},
            },
        },
    }


def _unit() -> dict[str, Any]:
    person = {
        "type": "object",
        "additionalProperties": False,
        "required": ["column", "max_rows"],
        "properties": {
            "column": _TEXT,
            "max_rows": {"type": "integer", "minimum": 1, "maximum": MAX_ROWS},
        },
    }
    words = "Whose presence is hidden: a row, or all rows with one value in a column."
    return {"description": words, "oneOf": [{"const": "row"}, person]}


def _columns(kind: Kind) -> list[dict[str, Any]]:
    """The shapes of a column of one kind: a number has two, a grid or edges."""
    keys = KEYS[kind]
    if kind is Kind.NUMBER:
        grid = tuple(key for key in keys if key != "edges")
        return [_column(kind, grid, grid), _column(kind, ("edges",), ("edges",))]
    return [_column(kind, keys, REQUIRED[kind])]


def _column(kind: Kind, keys: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    common = {
        "type": {"const": kind.value},
        "nullable": {"type": "boolean", "default": False, "description": _WORDS["nullable"]},
        "source": {**_TEXT, "description": _WORDS["source"]},
        "description": {"type": "string", "description": _WORDS["description"]},
    }
    domain = {
        key: {"description": _WORDS[key], **_DOMAINS[kind, key]}
        if key in _WORDS
        else _DOMAINS[kind, key]
        for key in keys
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["type", *required],
        "properties": {**common, **domain},
    }
