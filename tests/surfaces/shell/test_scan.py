"""Tokens of SQL that is still being typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.query.text import Text
from dpsql.surfaces.shell.completion import Vocabulary
from dpsql.surfaces.shell.highlight import fragments
from dpsql.surfaces.shell.scan import scan, statement

PARTS = st.sampled_from(
    [
        "SELECT", "sex", "'", "''", '"', "e'", "\\", "--", "\n", " ", "/*", "*/", "$$", "$a$",
        ";", "(", ")", ",", ".", "1.5e3", "<>", "::", "é", "日本", "\t", ".help", "\x00", "count(",
    ]
)  # fmt: skip


@given(st.lists(PARTS, max_size=30).map("".join))
def test_tokens_cover_all_but_blanks(text: str) -> None:
    at = 0
    for token in scan(text):
        assert text[at : token.start].strip() == "" and token.start < token.end
        assert token.text == text[token.start : token.end]
        at = token.end
    assert text[at:].strip() == ""


@given(st.lists(PARTS, max_size=30).map("".join))
def test_colours_change_no_character(text: str) -> None:
    lines = fragments(text, Vocabulary())
    assert "\n".join("".join(part for _, part in line) for line in lines) == text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t WHERE a = 'it''s' AND \"b c\" <> 1.5 -- x\n AND c::INT >= 2",
        "SELECT e'a\\'b', $$c'd$$, /* e /* f */ g */ h FROM t",
    ],
)
def test_finished_sql_is_cut_where_duckdb_cuts_it(sql: str) -> None:
    """DuckDB's tokenizer keeps some signs together that are several here: starts are compared."""
    ours = [token.start for token in scan(sql) if token.kind != "comment"]
    assert {token.start for token in Text(sql).tokens} <= set(ours)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("'it''s", "text", "it's"), ("'it''", "text", "it'"), ('"a b', "name", "a b"),
        ("e'a\\'b", "text", "a\\'b"), ("$$ab", "text", None), ("/* a */ /* b", "comment", None),
    ],
)  # fmt: skip
def test_open_quotes_are_known(text: str, kind: str, value: str | None) -> None:
    last = scan(text)[-1]
    assert last.kind == kind and last.open and value in (None, last.value)
    assert not scan(text + {"t": "'", "n": '"', "c": "*/"}[kind[0]])[0].open or "$" in text


def test_the_statement_about_the_cursor_ends_at_semicolons() -> None:
    text = "SELECT 1; SELECT ';', b -- c;\n FROM t; SELECT 3"
    before, after = statement(text, text.index("b --"))
    assert [token.text for token in before] == ["SELECT", "';'", ","]
    assert [token.text for token in after] == ["b", "FROM", "t"]
