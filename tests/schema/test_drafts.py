"""Drafts say what is known, leave the rest to a person, and never hide that data were read."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import SchemaError
from dpsql.schema import Fact, Kind, Source, Unit, draft, loads
from dpsql.schema.constraint import limits
from dpsql.schema.sqltypes import enum_values, kind_of

patient = settings(deadline=None)

FACTS = (
    Fact("age", "INTEGER", checks=("CHECK((age BETWEEN 0 AND 110))",), comment="in years"),
    Fact("hours", "UTINYINT", checks=("CHECK(((hours >= 0) AND (hours < 100)))",), nullable=False),
    Fact("mood", "ENUM('sad', 'ha''ppy')"),
    Fact("sex", "VARCHAR", checks=("CHECK((sex IN ('f', 'm''x')))",)),
    Fact("smoker", "BOOLEAN"),
    Fact(
        "day",
        "DATE",
        checks=('CHECK((("day" >= \'2025-01-01\') AND ("day" < CAST(\'2026-01-01\' AS "DATE"))))',),
    ),
    Fact("weight", "DECIMAL(5,2)", checks=("CHECK((weight BETWEEN 0.5 AND 1.5e1))",)),
    Fact("state", "VARCHAR"),
    Fact("seen", "TIMESTAMP"),
    Fact("tags", "VARCHAR[]"),
)

TEXT = """\
# Drafted: read every line before anybody asks anything of this table.
# Give each column that is still a comment its values, from documentation or from your
# own knowledge: values that are read off the data tell on the people in it.
# Columns that stay comments cannot be asked about.

dataset = "visits"
neighbours = "add-remove"
# Does a person have several rows? Then protect the person, not the row:
# unit = {column = "patient_id", max_rows = 4}
unit = "row"

[source]
table = "visits"

[columns]
# age: CHECK((age BETWEEN 0 AND 110))
age = {type = "integer", min = 0, max = 110, nullable = true, description = "in years"}
# hours: CHECK(((hours >= 0) AND (hours < 100)))
hours = {type = "integer", min = 0, max = 99}
mood = {type = "category", values = ["sad", "ha'ppy"], nullable = true}
# sex: CHECK((sex IN ('f', 'm''x')))
sex = {type = "category", values = ["f", "m'x"], nullable = true}
smoker = {type = "boolean", nullable = true}
# day: CHECK((("day" >= '2025-01-01') AND ("day" < CAST('2026-01-01' AS "DATE"))))
day = {type = "date", min = 2025-01-01, max = 2025-12-31, nullable = true}
# weight: CHECK((weight BETWEEN 0.5 AND 1.5e1))
# weight = {type = "number", min = 0.5, max = 15, step = ..., nullable = true}  # DECIMAL(5,2)
# state = {type = "category", values = [...], nullable = true}  # VARCHAR
# seen: type TIMESTAMP cannot be declared; declare it through a query source that casts it
# tags: type VARCHAR[] cannot be declared; declare it through a query source that casts it
"""


def test_a_draft_has_what_types_and_constraints_say() -> None:
    assert draft("visits", FACTS) == TEXT


def test_a_draft_loads_with_what_is_known() -> None:
    dataset = loads(draft("visits", FACTS))
    assert [column.name for column in dataset.columns] == [
        "age",
        "hours",
        "mood",
        "sex",
        "smoker",
        "day",
    ]


def test_a_draft_loads_once_it_is_filled_in() -> None:
    text = draft("visits", FACTS)
    for old, new in (("[...]", '["01", "02"]'), ("step = ...", "step = 0.5")):
        text = text.replace(old, new)
    lines = [
        line[2:] if line.startswith(("# state =", "# weight =")) else line
        for line in text.split("\n")
    ]
    dataset = loads("\n".join(lines))
    assert dataset.column("state").values == ("01", "02")
    assert dataset.column("weight").point(1) == 1.0


def test_values_that_were_read_from_data_make_a_draft_unsafe() -> None:
    facts = [Fact("state", "VARCHAR", ("01", "02"), from_data=True), Fact("smoker", "BOOLEAN")]
    text = draft("visits", facts)
    assert loads(text).unsafe
    assert text.startswith("# UNSAFE") and "READ FROM THE DATA" in text
    assert not loads(draft("visits", facts[1:])).unsafe


def test_a_draft_says_what_it_is_told() -> None:
    text = draft(
        "visits",
        [Fact("b", "BOOLEAN")],
        source=Source(file="v.parquet"),
        unit=Unit("pid", 3),
        description="Visits",
        remarks=["two\nlines\x07"],
    )
    dataset = loads(text)
    assert dataset.source == Source(file="v.parquet")
    assert dataset.unit == Unit("pid", 3)
    assert dataset.description == "Visits"
    assert "# two lines \n" in text


@pytest.mark.parametrize(
    ("fact", "found"),
    [
        (Fact("c", "INTEGER", minimum=0, maximum=10**9), "1,000,000,001 points are more"),
        (Fact("c", "DATE", minimum=date(2025, 1, 2), maximum=date(2025, 1, 1)), "is above max"),
        (Fact("c", "VARCHAR", ("a",), nullable=False), "a universe of one value"),
    ],
)
def test_facts_that_make_no_domain_stay_a_comment(fact: Fact, found: str) -> None:
    text = draft("visits", [fact])
    assert found in text
    with pytest.raises(SchemaError, match="there are no columns"):
        loads(text)


def test_a_number_needs_a_step_from_somebody() -> None:
    fact = Fact("w", "DOUBLE", minimum=0, maximum=Decimal("9.5"))
    assert '# w = {type = "number", min = 0, max = 9.5, step = ...' in draft("d", [fact])
    stepped = Fact("w", "DOUBLE", minimum=0, maximum=9, step=3)
    assert loads(draft("d", [stepped])).column("w").size == 4


anything = st.text(st.characters(exclude_categories=["Cs"]))


@patient
@given(
    facts=st.lists(
        st.builds(
            Fact,
            name=anything,
            sql_type=st.sampled_from(["INTEGER", "VARCHAR", "DOUBLE", "DATE", "BOOLEAN", "BLOB"])
            | anything,
            values=st.lists(anything, max_size=3).map(tuple),
            minimum=st.none() | st.integers() | st.decimals(),
            maximum=st.none() | st.integers() | st.decimals(),
            comment=anything,
            checks=st.lists(anything, max_size=2).map(tuple),
            from_data=st.booleans(),
        ),
        max_size=4,
        unique_by=lambda fact: fact.name,
    ),
    name=anything.filter(lambda name: name and "\0" not in name),
    remark=anything,
)
def test_a_draft_is_toml_whatever_the_catalogue_says(
    facts: list[Fact], name: str, remark: str
) -> None:
    import tomllib

    fields: dict[str, Any] = tomllib.loads(draft(name, facts, remarks=[remark]))
    assert fields["dataset"] == name
    assert set(fields["columns"]) <= {fact.name for fact in facts}
    assert fields.get("unsafe", False) == any(fact.from_data for fact in facts)


@pytest.mark.parametrize(
    ("check", "low", "high", "values"),
    [
        ("CHECK((a >= 0))", Decimal(0), None, ()),
        ("CHECK ( 0 <= A and a <= 5 )", Decimal(0), Decimal(5), ()),
        ("(a BETWEEN -3 AND 1.5e1)", Decimal(-3), Decimal(15), ()),
        ("((a BETWEEN 1 AND 3) AND (a IN (1, 2, -3)))", Decimal(1), Decimal(3), (1, 2, -3)),
        ("((a = 'x') OR (a = 'y''z'))", None, None, ("x", "y'z")),
        ("((a = 1) OR (b = 2))", None, None, ()),
        ("(NOT (a > 3))", None, None, ()),
        ("((a > 3) OR (a < 1))", None, None, ()),
        ("(length(a) > 3)", None, None, ()),
        ("((a % 2) = 0)", None, None, ()),
        ("(a <> 3)", None, None, ()),
        ("(b > 3)", None, None, ()),
        ("(a > b)", None, None, ()),
        ("(a IN (SELECT 1))", None, None, ()),
        ("(a NOT IN (1, 2))", None, None, ()),
        ("(((a >= 0) AND (b > 2)) AND (9 >= a))", Decimal(0), Decimal(9), ()),
        ("", None, None, ()),
        ("((((", None, None, ()),
    ],
)
def test_a_constraint_says_what_it_says_simply(
    check: str, low: object, high: object, values: tuple[object, ...]
) -> None:
    found = limits("a", [check])
    assert (found.low, found.high, found.values) == (low, high, values)


@patient
@given(check=st.text(alphabet="a1'\"()<>=, ANDORIN\n-.", max_size=60))
def test_no_constraint_stops_a_draft(check: str) -> None:
    limits("a", [check])


def test_the_types_of_duckdb_have_kinds() -> None:
    assert kind_of("DECIMAL(18,3)") is Kind.NUMBER
    assert kind_of("enum('a')") is Kind.CATEGORY
    assert kind_of("hugeint") is Kind.INTEGER
    assert kind_of("TIMESTAMP WITH TIME ZONE") is None
    assert kind_of("STRUCT(a INTEGER)") is None
    assert kind_of("INTEGER[]") is None
    assert enum_values("ENUM('a, b', 'c''d', '')") == ("a, b", "c'd", "")
