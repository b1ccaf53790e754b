"""Datasets, sources and units check themselves."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.errors import SchemaError
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

SEX = Column("Sex", Kind.BOOLEAN)


def dataset(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "visits",
        "columns": (SEX,),
        "neighbours": Neighbours.ADD_REMOVE,
        "unit": Unit(),
        "source": Source(table="visits"),
    }
    return Dataset(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"name": ""}, "the name of the dataset is empty"),
        ({"name": "a\0"}, "SQL cannot hold"),
        ({"columns": ()}, "the dataset has no columns"),
        ({"columns": (SEX, Column("sEX", Kind.BOOLEAN))}, "one name to SQL"),
        ({"columns": (SEX, SEX)}, "one name to SQL"),
        ({"neighbours": Neighbours.REPLACE_ONE, "unit": Unit("pid", 2)}, "replace-one is about"),
        ({"append_only": True, "unit": Unit("pid", 2)}, "append_only is about rows"),
        ({"synopses": (("main", ()),)}, "has no columns"),
        ({"synopses": (("main", ("age",)),)}, "there is no column 'age'"),
        ({"synopses": (("main", ("sex", "SEX")),)}, "listed twice"),
    ],
)
def test_a_wrong_dataset_cannot_be_built(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(SchemaError, match=found):
        dataset(**changes)


@pytest.mark.parametrize("rows", [0, -1, 10**9 + 1])
def test_a_unit_has_a_sensible_number_of_rows(rows: int) -> None:
    with pytest.raises(SchemaError, match="max_rows is"):
        Unit("pid", rows)


def test_a_row_is_one_row() -> None:
    assert Unit() == Unit(None, 1)
    with pytest.raises(SchemaError, match="a row cannot be 2 rows"):
        Unit(None, 2)


def test_a_source_is_one_thing() -> None:
    for fields in ({}, {"table": "a", "file": "b"}, {"query": "  "}):
        with pytest.raises(SchemaError):
            Source(**fields)


def test_columns_are_found_in_any_case() -> None:
    visits = dataset(columns=(SEX, Column("größe", Kind.BOOLEAN)))
    assert visits.column("Sex") is visits.column("SEX") is SEX
    assert visits.column("GRÖSSE").name == "größe"
    with pytest.raises(KeyError):
        visits.column("age")


def test_datasets_are_values() -> None:
    assert dataset() == dataset()
    assert hash(dataset()) == hash(dataset())
