"""A script is cut where DuckDB sees its statements end, and quotes the place of what is wrong."""

from __future__ import annotations

import re

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import Refused, UsageError
from dpsql.session.scripts.script import Script

PIECES = st.sampled_from(
    [
        "SELECT 1", "'a;b'", "'it''s ; '", '"q;""r"', "$$;$$", "$x$ ; $$ ; $x$", "E'\\';'",
        "/* ; */", "/* a /* ; */ ; */", "-- ; '\n", "COUNT(*)", "é", "'日;本'", "$year", "(a, b)",
        "<>", "1.5", "\n", "\t",
    ]
)  # fmt: skip
STATEMENT = st.lists(PIECES, min_size=0, max_size=5).map(lambda parts: " ".join(["SELECT", *parts]))


@settings(max_examples=200, deadline=None)
@given(st.lists(STATEMENT, min_size=1, max_size=6), st.sampled_from(["; ", ";\n", " ;\n\n", ";;"]))
def test_statements_that_are_joined_are_cut_again(statements: list[str], joint: str) -> None:
    text = joint.join(statements)
    script = Script.of(text)
    assert [step.sql for step in script.steps] == [statement.rstrip() for statement in statements]
    for step in script.steps:
        assert text[step.start :].startswith(step.sql)


@settings(max_examples=200, deadline=None)
@given(st.lists(STATEMENT, min_size=1, max_size=6))
def test_duckdb_cuts_in_the_same_places(statements: list[str]) -> None:
    text = ";\n".join(statements)
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error:  # not all of these are SQL
        return
    assert len(found) == len(Script.of(text).steps)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab;'\"$-/*\n\\ é(E", max_size=40))
def test_any_text_is_cut_or_refused_and_nothing_is_lost(text: str) -> None:
    try:
        script = Script.of(text)
    except (Refused, UsageError):
        return
    for step in script.steps:
        assert step.sql == step.sql.strip() != ""
        assert text[step.start : step.start + len(step.sql)] == step.sql
    starts = [step.start for step in script.steps]
    assert starts == sorted(set(starts))


def test_lines_and_columns_are_those_of_the_file() -> None:
    text = "SELECT 'é\n;';\r\n  -- é\n\n  SELECT 2; SELECT 3\n"
    script = Script.of(text, "r.sql")
    assert [str(script.place(s.start)) for s in script.steps] == [
        "r.sql:1:1", "r.sql:5:3", "r.sql:5:13",
    ]  # fmt: skip


def test_comments_above_a_statement_are_its_title_weight_chart_and_description() -> None:
    script = Script.of(
        "-- # All of it\n-- For the year.\n\nSET epsilon = 1; -- of all\n\n"
        "-- # First\n-- weight: 2.5\n-- chart: Bar\n-- two\n--\n-- lines: here\n-- -----\n"
        "SELECT 1; -- beside it\n"
        "/* A block,\n * of lines */\nSELECT 2;\n"
        "-- # Carried\nRESET all;\nSELECT 3;\nSELECT 4; -- the end\n"
    )
    assert (script.title, script.description) == ("All of it", "For the year.")
    _, first, second, reset, third, fourth = script.steps
    assert (first.title, first.weight, first.chart) == ("First", 2.5, "bar")
    assert first.description == "two\n\nlines: here"
    assert second.description == "A block,\nof lines" and second.weight is None
    assert reset.sets and reset.title == "" and third.title == "Carried"
    assert (fourth.title, fourth.description, fourth.caption) == ("", "", "SELECT 4")


@pytest.mark.parametrize(
    ("text", "title", "first"),
    [
        ("-- # Mine\nSELECT 1", "", "Mine"),
        ("-- # All\n\n-- # Mine\nSELECT 1", "All", "Mine"),
        ("-- # All\n-- # Mine\nSELECT 1", "All", "Mine"),
        ("-- # All\n\nSET epsilon = 1; -- # Mine\nSELECT 1", "All", ""),
        ("-- # All\nSET epsilon = 1;\n-- # Mine\nSELECT 1", "All", "Mine"),
    ],
)
def test_a_heading_apart_is_the_scripts(text: str, title: str, first: str) -> None:
    script = Script.of(text)
    assert script.title == title
    assert [step.title for step in script.steps if not step.sets] == [first]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("-- weight: 0\nSELECT 1", "r.sql:1:4", "a weight is a finite number above 0, not '0'"),
        ("-- weight: inf\nSELECT 1", "r.sql:1:4", "a weight is a finite number"),
        ("-- weight: nan\nSELECT 1", "r.sql:1:4", "a weight is a finite number"),
        ("-- weight: much\nSELECT 1", "r.sql:1:4", "a weight is a finite number"),
        ("SELECT 1;\n-- weight: 1\n-- weight: 2\nSELECT 1", "r.sql:3:4", "given twice"),
        ("-- wieght: 4\nSELECT 1", "r.sql:1:4", "did you mean weight"),
        ("SELECT 1;\n\n-- weight: 4\n", "r.sql:3:4", "weight stands above no statement"),
        ("-- weight: 4\nSET epsilon = 1;\nSELECT 1", "r.sql:1:4", "stands above no statement"),
        ("SELECT 1;\nSELECT\0 2", "r.sql:2:7", "a NUL character"),
    ],
)
def test_what_comments_cannot_mean_is_refused_at_its_place(
    text: str, place: str, reason: str
) -> None:
    with pytest.raises(Refused, match=re.escape(reason)) as refused:
        Script.of(text, "r.sql")
    assert str(refused.value).startswith(f"{place}: refused: ")
    assert str(refused.value.place) == place


@pytest.mark.parametrize("text", ["", " ;; ", "-- only\n/* comments */"])
def test_a_script_without_statements_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="holds no statement"):
        Script.of(text)
