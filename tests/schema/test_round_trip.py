"""What is written is read back, whatever the names and values are."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from dpsql.schema import (
    Column,
    Dataset,
    Kind,
    Neighbours,
    Source,
    Unit,
    dumps,
    json_schema,
    loads,
)
from dpsql.schema.kinds import DATE_STEPS
from dpsql.schema.lines import key_lines
from tests.rows import fill

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
names = st.one_of(
    texts.filter(bool),
    st.sampled_from(
        ["a b", 'a"b', "a'b", "a\\b", "a\nb", "a.b", "select", "é", "日本", "\x7f", "#"]
    ),
)
common: dict[str, Any] = {
    "name": names,
    "nullable": st.booleans(),
    "source": st.none() | names,
    "description": texts,
}
small = st.builds(
    lambda m, e: Decimal(m).scaleb(e), st.integers(-(10**7), 10**7), st.integers(-4, 3)
)


def lists(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, min_size=2, max_size=30, unique=True).map(tuple)


@st.composite
def grids(draw: st.DrawFn) -> Column:
    low = draw(small)
    step = draw(small.filter(lambda value: value > 0))
    high = low + step * draw(st.integers(1, 50)) + step * draw(st.sampled_from([0, Decimal("0.5")]))
    fields = {key: draw(strategy) for key, strategy in common.items()}
    return Column(kind=Kind.NUMBER, minimum=low, maximum=high, step=step, **fields)


@st.composite
def calendars(draw: st.DrawFn) -> Column:
    low = draw(st.dates(max_value=date(9000, 1, 1)))
    high = date.fromordinal(low.toordinal() + draw(st.integers(366, 10**4)))
    fields = {key: draw(strategy) for key, strategy in common.items()}
    step = draw(st.sampled_from(DATE_STEPS))
    return Column(kind=Kind.DATE, minimum=low, maximum=high, step=step, **fields)


@st.composite
def integers(draw: st.DrawFn) -> Column:
    low = draw(st.integers(-(2**63), 2**63 - 1001))
    fields = {key: draw(strategy) for key, strategy in common.items()}
    high = low + draw(st.integers(1, 1000))
    return Column(kind=Kind.INTEGER, minimum=low, maximum=high, **fields)


columns = st.one_of(
    st.builds(Column, kind=st.just(Kind.CATEGORY), values=lists(texts), **common),
    st.builds(
        Column,
        kind=st.just(Kind.CATEGORY),
        values=lists(st.integers(-(2**63), 2**63 - 1)),
        **common,
    ),
    st.builds(
        Column,
        kind=st.just(Kind.NUMBER),
        edges=st.lists(small, min_size=3, max_size=9, unique=True).map(sorted).map(tuple),
        **common,
    ),
    st.builds(Column, kind=st.just(Kind.BOOLEAN), **common),
    grids(),
    calendars(),
    integers(),
)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    chosen = draw(
        st.lists(columns, min_size=1, max_size=5, unique_by=lambda column: column.name.casefold())
    )
    person = draw(st.none() | names)
    filled = texts.filter(str.strip)
    kind = draw(st.sampled_from(["table", "query", "file"]))
    subsets = st.lists(
        st.sampled_from([column.name for column in chosen]), min_size=1, unique=True
    ).map(tuple)
    return Dataset(
        name=draw(names),
        columns=tuple(chosen),
        neighbours=draw(st.sampled_from(Neighbours)) if person is None else Neighbours.ADD_REMOVE,
        unit=Unit() if person is None else Unit(person, draw(st.integers(1, 10**9))),
        source=Source(**{kind: draw(filled)}),
        description=draw(texts),
        synopses=tuple(draw(st.dictionaries(names, subsets, max_size=2)).items()),
        unsafe=draw(st.booleans()),
        append_only=person is None and draw(st.booleans()),
        public=draw(st.booleans()),
    )


patient = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@patient
@given(dataset=datasets())
def test_a_dataset_is_read_as_it_was_written(dataset: Dataset) -> None:
    text = dumps(dataset)
    assert loads(text) == dataset
    assert loads(text).digest == dataset.digest
    assert loads(text.replace("\n", "\r\n")) == dataset


@patient
@given(dataset=datasets())
def test_what_is_written_fits_the_json_schema(dataset: Dataset) -> None:
    import tomllib

    fields = json.loads(json.dumps(tomllib.loads(dumps(dataset)), default=str))
    assert list(Draft7Validator(json_schema()).iter_errors(fields)) == []


@patient
@given(dataset=datasets())
def test_every_key_that_is_written_has_a_line(dataset: Dataset) -> None:
    lines = key_lines(dumps(dataset))
    rows = dumps(dataset).split("\n")
    for column in dataset.columns:
        assert ("columns", column.name, "type") in lines
        assert "{type = " in rows[lines["columns", column.name] - 1]


@patient
@given(column=columns)
def test_codes_and_points_are_one_to_one(column: Column) -> None:
    points = column.points()
    assert len(points) == column.size
    assert [column.code(point) for point in points] == list(range(column.size))
    if column.kind is not Kind.CATEGORY:
        assert points == sorted(points)


@patient
@given(column=columns)
def test_duckdb_holds_every_point_and_tells_them_apart(column: Column) -> None:
    points = column.points()[:40]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (i INT, v {column.sql_type})")
        fill(connection, "t", enumerate(points))
        rows = connection.execute("SELECT v FROM t ORDER BY i").fetchall()
        distinct = connection.execute("SELECT COUNT(DISTINCT v) FROM t").fetchall()
    assert [row[0] for row in rows] == points
    assert distinct == [(len(points),)]


BASE = Dataset(
    "visits",
    (
        Column("sex", Kind.CATEGORY, values=("f", "m")),
        Column("w", Kind.NUMBER, minimum=Decimal(0), maximum=Decimal(9), step=Decimal("0.50")),
        Column("day", Kind.DATE, minimum=date(2025, 1, 1), maximum=date(2025, 2, 1)),
    ),
    Neighbours.ADD_REMOVE,
    Unit(),
    Source(table="visits"),
)


def test_the_digest_does_not_change_between_versions() -> None:
    assert BASE.digest == "e9ffb72d1b64a40aefa91c64e74c2a4191db9647362aa95447f483433b845c92"


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, name="visit"),
        replace(BASE, neighbours=Neighbours.REPLACE_ONE),
        replace(BASE, unit=Unit("pid", 1)),
        replace(BASE, source=Source(file="visits")),
        replace(BASE, append_only=True),
        replace(BASE, public=True),
        replace(BASE, columns=BASE.columns[:2]),
        replace(BASE, columns=(BASE.columns[1], BASE.columns[0], BASE.columns[2])),
        replace(BASE, columns=(replace(BASE.columns[0], values=("m", "f")), *BASE.columns[1:])),
        replace(BASE, columns=(replace(BASE.columns[0], nullable=True), *BASE.columns[1:])),
        replace(BASE, columns=(replace(BASE.columns[0], source="gender"), *BASE.columns[1:])),
        replace(BASE, columns=(*BASE.columns[:2], replace(BASE.columns[2], step="week"))),
    ],
)
def test_the_digest_changes_with_the_meaning(other: Dataset) -> None:
    assert other.digest != BASE.digest


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, description="of a hospital"),
        replace(BASE, synopses=(("main", ("sex",)),)),
        replace(BASE, unsafe=True),
        replace(BASE, folder=Path("elsewhere")),
        replace(BASE, columns=(replace(BASE.columns[0], source="sex"), *BASE.columns[1:])),
        replace(
            BASE,
            columns=(
                BASE.columns[0],
                replace(BASE.columns[1], step=Decimal("0.5")),
                BASE.columns[2],
            ),
        ),
    ],
)
def test_the_digest_does_not_change_with_anything_else(other: Dataset) -> None:
    assert other.digest == BASE.digest
