"""What a schema file may say, from the JSON Schema that the code makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.made.markdown import code, plain, table
from dpsql.schema.jsonschema import json_schema
from dpsql.schema.kinds import COMMON_KEYS


def schema() -> Iterator[str]:
    described = json_schema()
    keys = described["properties"]
    columns = keys["columns"]["additionalProperties"]["oneOf"]
    yield "# Schema files"
    yield ""
    yield "One dataset in each file, in TOML. A message names all faults of one, by line."
    yield "`dpsql schema json-schema` writes the JSON Schema from which editors complete."
    yield ""
    yield "## Keys of the file"
    yield ""
    needed = described["required"]
    yield from table(
        ("key", "value", "what"),
        (
            (code(key), _value(said), _needed(key in needed) + _what(said, "What may be asked."))
            for key, said in keys.items()
        ),
    )
    yield '`unit` is `"row"`, or `{column = "person_id", max_rows = 4}`. `[source]` has one of'
    yield ""
    yield from table(
        ("key", "what"),
        (
            (code(key), plain(said["description"]))
            for one in keys["source"]["oneOf"]
            for key, said in one["properties"].items()
        ),
    )
    yield "## Keys of a column"
    yield ""
    common = columns[0]["properties"]
    yield from table(
        ("key", "value", "what"),
        ((code(key), _value(common[key]), _what(common[key], "Its kind.")) for key in COMMON_KEYS),
    )
    yield "and, by its type,"
    yield ""
    yield from table(
        ("type", "key", "value", "what"),
        (
            (code(one["properties"]["type"]["const"]), code(key), _value(said),
             _needed(key in one["required"]) + plain(said.get("description", "")))
            for one in columns
            for key, said in one["properties"].items()
            if key not in COMMON_KEYS
        ),
    )  # fmt: skip
    yield "All of these are needed, but for a date's `step`, which is a day unless it is said."
    yield "A `number` has `min`, `max` and `step`, or else `edges`; a `boolean` no key."
    yield ""


def _what(said: dict[str, Any], otherwise: str) -> str:
    """What the schema says of a key, with the default."""
    words = plain(said.get("description", otherwise))
    default = said.get("default", False)
    return words if default is False else f"{words} Unless it is said: {code(default)}."


def _needed(needed: bool) -> str:
    return "Needed. " if needed else ""


def _value(said: dict[str, Any]) -> str:
    """What kind of value a key takes."""
    match said:
        case {"enum": listed}:
            return ", ".join(code(value) for value in listed)
        case {"const": _}:
            return "the type"
        case {"format": "date"}:
            return "a date"
        case {"type": "object"}:
            return "a table"
        case {"type": "array", "items": {"type": kind}}:
            return f"a list: {kind}s"
        case {"type": "array"}:
            return "a list: texts, or integers"
        case {"type": kind}:
            return {"string": "text", "boolean": "true or false"}.get(kind, str(kind))
        case _:
            return '`"row"`, or a table'
