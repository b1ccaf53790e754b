"""Tokens and places: characters of what was written, whatever its encoding and comments."""

from __future__ import annotations

import pytest

from dpsql.errors import Refused
from dpsql.query.describe import _AFTER_WHERE
from dpsql.query.expr import Span
from dpsql.query.text import MAX_LENGTH, Text


def words(sql: str) -> list[str]:
    return [token.text for token in Text(sql).tokens]


def test_tokens_are_cut_without_blanks_and_comments() -> None:
    sql = "SELECT /* a */ COUNT(*)-- b\nFROM \"t é\" WHERE x = 'it''s -- no' /* ; */"
    expected = ["SELECT", "COUNT", "(", "*", ")", "FROM", '"t é"', "WHERE", "x", "="]
    assert words(sql) == [*expected, "'it''s -- no'"]


def test_places_are_characters_not_bytes() -> None:
    text = Text("SELECT '日本', é FROM t")
    for token in text.tokens:
        assert text.sql[token.start : token.end] == token.text
    assert text.place(text.sql.encode().index("é".encode()), 2) == Span(13, 14)


def test_a_place_without_a_length_ends_at_the_closing_parenthesis_of_a_call() -> None:
    text = Text("SELECT f(a, (b)) + 1 FROM t")
    assert text.place(7, None) == Span(7, 16)
    assert text.place(19, None) == Span(19, 20)


def test_what_stands_in_a_call_is_found_through_comments_and_quotes() -> None:
    sql = "SELECT AVG /* ( */ (p = ')' /* ) */) FILTER (WHERE q) FROM t"
    inner = Text(sql).inside(Span(7, 53))
    assert sql[inner.start : inner.end] == "p = ')' /* ) */"


@pytest.mark.parametrize(
    ("sql", "without"),
    [
        ("SELECT a FROM t WHERE b = 1 GROUP BY a", "SELECT a FROM t GROUP BY a"),
        ("SELECT a FROM t WHERE b = 'GROUP BY'", "SELECT a FROM t "),
        ("SELECT COUNT(*) FILTER (WHERE p) FROM t", "SELECT COUNT(*) FILTER (WHERE p) FROM t"),
        (
            "SELECT 1 FROM (SELECT 2 FROM t WHERE a) WHERE (b OR c) LIMIT 1",
            "SELECT 1 FROM (SELECT 2 FROM t WHERE a) LIMIT 1",
        ),
        (
            "SELECT 1 FROM t WHERE a UNION ALL SELECT 2 FROM t WHERE b",
            "SELECT 1 FROM t UNION ALL SELECT 2 FROM t ",
        ),
        ("FROM t WHERE a SELECT 1", "FROM t SELECT 1"),
        ('SELECT "WHERE" FROM t', 'SELECT "WHERE" FROM t'),
    ],
)
def test_a_clause_is_left_out_up_to_the_next_one(sql: str, without: str) -> None:
    until = frozenset({"GROUP", "LIMIT", "UNION", "SELECT"})
    assert Text(sql).without("WHERE", until) == without


def test_words_that_begin_and_end_clauses_are_keywords_to_duckdb() -> None:
    """Only these are looked at when a clause is left out."""
    found = Text(" ".join(["WHERE", *sorted(_AFTER_WHERE)])).tokens
    assert [token.kind for token in found] == ["keyword"] * (1 + len(_AFTER_WHERE))


@pytest.mark.parametrize(
    ("sql", "start"),
    [
        ("SELECT 'a", 7), ("SELECT 'it''s", 7), ('SELECT "a', 7), ("SELECT 'a' -- '\n, 'b", 18),
        ("SELECT 'a'", None), ("SELECT -- it's\n1", None), ("SELECT /* ' */ 1", None),
        ("SELECT '' , \"\"", None), ("", None),
    ],
)  # fmt: skip
def test_a_quote_that_never_ends_is_found(sql: str, start: int | None) -> None:
    found = Text(sql).open_quote()
    assert (found and found.start) == start


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT\x00 1", "a NUL character"),
        ("SELECT '\ud800'", "a lone surrogate, which is no character"),
        ("SELECT\u200b 1", "an invisible character (zero width space)"),
        ("SELECT\u00a01", "an invisible character (no-break space)"),
        ("SELECT 1 \u202e", "an invisible character (right-to-left override)"),
        ("SELECT 1\x1b", "an invisible character (U+001B)"),
        ("x" * (MAX_LENGTH + 1), "the statement has 16,385 characters; at most 16,384 are read"),
    ],
)
def test_characters_that_parsers_read_differently_are_refused(sql: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        Text(sql)
    assert caught.value.reason.lower() == reason.lower()


@pytest.mark.parametrize(
    ("sql", "start"),
    [("SELECT (1", 7), ("SELECT (1) + (2", 13), ("SELECT 1)", 8), ("SELECT (')')", None)],
)
def test_a_parenthesis_without_its_other_half_is_found(sql: str, start: int | None) -> None:
    found = Text(sql).unmatched()
    assert (found and found.start) == start


def test_any_character_may_stand_in_quotes() -> None:
    assert words("SELECT '\u200b', \"\u00a0x\"")[1] == "'\u200b'"


def test_a_text_of_nothing_has_no_tokens() -> None:
    assert Text("").tokens == Text("  \n").tokens == Text("-- nothing").tokens == []
