"""The JSON Schema that editors complete from agrees with what is read."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from dpsql.errors import SchemaError
from dpsql.schema import json_schema, loads
from dpsql.schema.columns import DOMAIN_KEYS
from dpsql.schema.kinds import COMMON_KEYS, KEYS
from dpsql.schema.read import TOP_KEYS

ROOT = Path(__file__).parents[2]
SCHEMAS = sorted((ROOT / "schemas").glob("*.toml"))


def valid(text: str) -> bool:
    fields = json.loads(json.dumps(tomllib.loads(text), default=str))
    return bool(Draft7Validator(json_schema()).is_valid(fields))


def test_the_file_is_what_the_code_generates() -> None:
    written = (ROOT / "schemas" / "dataset.schema.json").read_text()
    assert written == json.dumps(json_schema(), indent=2) + "\n"


def test_it_is_a_json_schema() -> None:
    Draft7Validator.check_schema(json_schema())


def test_it_knows_the_keys_that_are_read() -> None:
    schema: dict[str, Any] = json_schema()
    assert set(schema["properties"]) == set(TOP_KEYS)
    shapes = schema["properties"]["columns"]["additionalProperties"]["oneOf"]
    known = {key for shape in shapes for key in shape["properties"]}
    assert known == {*COMMON_KEYS, *DOMAIN_KEYS} == {*COMMON_KEYS, *sum(KEYS.values(), ())}


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_published_schemas_are_valid(path: Path) -> None:
    assert valid(path.read_text())


GOOD = 'dataset = "d"\nunit = "row"\n[source]\ntable = "t"\n[columns]\nc = {type = "boolean"}\n'


@pytest.mark.parametrize(
    "change",
    [
        ('dataset = "d"', ""),
        ('dataset = "d"', 'dataset = ""'),
        ('dataset = "d"', 'dataset = "d"\nneighbours = "replace"'),
        ('"row"', '"person"'),
        ('"row"', '{column = "id"}'),
        ('"row"', '{column = "id", max_rows = 0}'),
        ('table = "t"', ""),
        ('table = "t"', 'table = "t"\nfile = "f"'),
        ('c = {type = "boolean"}', ""),
        ('"boolean"', '"bool"'),
        ('"boolean"', '"boolean", nulable = true'),
        ('"boolean"', '"boolean", nullable = 1'),
        ('"boolean"', '"integer", min = 0'),
        ('"boolean"', '"integer", min = 0, max = 1.5'),
        ('"boolean"', '"integer", min = 0, max = 9, step = 2'),
        ('"boolean"', '"number", min = 0, max = 9'),
        ('"boolean"', '"number", min = 0, max = 9, step = 0'),
        ('"boolean"', '"number", edges = [1]'),
        ('"boolean"', '"number", edges = [1, 2, 3], min = 0'),
        ('"boolean"', '"date", min = 2025-01-01, max = 2025-12-31, step = "hour"'),
        ('"boolean"', '"category", values = []'),
        ('"boolean"', '"category", values = ["a", "a"]'),
        ('"boolean"', '"category", values = ["a", 1]'),
    ],
)
def test_what_editors_mark_is_refused_too(change: tuple[str, str]) -> None:
    text = GOOD.replace(*change)
    assert valid(GOOD) and text != GOOD
    assert not valid(text)
    with pytest.raises(SchemaError):
        loads(text)
