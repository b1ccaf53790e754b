"""Statements of ours are told by their tokens, before any parser of SQL sees them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from dpsql.errors import Refused
from dpsql.query.expr import Ref, Span, walk
from dpsql.query.parse import Ask, Describe, Explain, First, Set, Show, parse
from dpsql.query.syntax import Select


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("SET epsilon = 0.1", Set("epsilon", "0.1")),
        ("set EPSILON to 1e-2;", Set("epsilon", "1e-2")),
        ("SET rho=-1", Set("rho", "-1")),
        ("SET SESSION backend = 'gaussian'", Set("backend", "gaussian")),
        ("SET confidence = '95 %'", Set("confidence", "95 %")),
        ("SET clamp = on", Set("clamp", "on")),
        ("/* x */ SET -- y\n clamp = off ; ;", Set("clamp", "off")),
        ("RESET epsilon", Set("epsilon", None)), ("reset all", Set("all", None)),
        ("SHOW TABLES", Show("tables")), ("show all", Show("all")),
        ("SHOW ALL TABLES", Show("tables")),
        ('SHOW "Budget"', Show("budget")), ("SHOW epsilon;", Show("epsilon")),
        ("DESCRIBE adult", Describe("adult", Span(9, 14))),
        ("DESC main.adult", Describe("adult", Span(10, 15))),
        ('DESCRIBE TABLE "two ""words"""', Describe('two "words"', Span(15, 30))),
    ],
)  # fmt: skip
def test_a_statement_of_ours_is_known_by_its_tokens(sql: str, statement: Any) -> None:
    assert parse(sql) == statement


@pytest.mark.parametrize(
    "sql", ["EXPLAIN SELECT COUNT(*) FROM t", "explain FROM t SELECT COUNT(*)"]
)
def test_explain_holds_the_query_at_its_own_place(sql: str) -> None:
    found = parse(sql)
    assert isinstance(found, Explain)
    assert found.ask.sql == " " * 8 + sql[8:]
    assert found.ask.text.sql == sql


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        ("SELECT a, COUNT(*) FROM t GROUP BY a FIRST 3 ABOVE 100", (3, 100)),
        ("SELECT COUNT(*) FROM t first 1 /* of all */ above -- so\n 0 ;", (1, 0)),
        ("EXPLAIN SELECT a, COUNT(*) FROM t GROUP BY 1 FIRST 12 ABOVE 7", (12, 7)),
        ('SELECT first AS "above", COUNT(*) FROM t GROUP BY first', None),
        ("SELECT first above, COUNT(*) FROM t GROUP BY 1 ORDER BY 1 NULLS FIRST, above", None),
        ("SELECT COUNT(*) FROM t WHERE a = 'FIRST 3 ABOVE 100'", None),
    ],
)
def test_first_above_is_cut_and_leaves_every_place_as_it_was(
    sql: str, first: tuple[int, int] | None
) -> None:
    found = parse(sql)
    ask = found.ask if isinstance(found, Explain) else found
    assert isinstance(ask, Ask)
    assert ask.first == (first and First(*first, Span(0, 0)))
    cut = sql.upper().rindex("FIRST") if first else len(sql)
    kept = ask.sql.rstrip("; ")
    assert kept.removeprefix(" " * 8).strip() in sql[:cut].strip()
    assert kept.endswith(sql[:cut].rstrip()[-5:])


@pytest.mark.parametrize(
    "clause",
    ["FIRST 3 ABOVE", "FIRST 3 ABOVE x", "FIRST 3 ABOVE -1", "FIRST 3 ABOVE 1.5", "FIRST 3 ABOVE ?",
     "FIRST 2.5 ABOVE 1", "FIRST 3 ABOVE 100 LIMIT 2", "FIRST 0 ABOVE 1", "FIRST 1 ABOVE 1_0",
     "FIRST 9999999999999999 ABOVE 1", "FIRST 1 ABOVE 1 FIRST 1 ABOVE 1"],
)  # fmt: skip
def test_first_above_in_another_form_is_refused_at_its_place(clause: str) -> None:
    sql = f"SELECT COUNT(*) FROM t {clause}"
    with pytest.raises(Refused) as caught:
        parse(sql)
    assert sql[caught.value.start :].startswith("FIRST")


@pytest.mark.parametrize(
    "sql",
    ["SELECT COUNT(*) FROM (SELECT a FROM t FIRST 3 ABOVE 100)",
     "SELECT COUNT(*) FROM t FIRST ABOVE 100", "SELECT COUNT(*) FROM t FIRST x ABOVE 100"],
)  # fmt: skip
def test_first_above_elsewhere_is_no_sql(sql: str) -> None:
    with pytest.raises(Refused):
        parse(sql)


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) FROM t",
         (("epsilon", "0.1"),)),
        ("select with differential_privacy options(EPSILON=1e-1 , delta = '1e-6') COUNT(*) FROM t",
         (("epsilon", "1e-1"), ("delta", "1e-6"))),
        ("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t", ()),
        ("SELECT COUNT(*) FROM t", ()),
    ],
)  # fmt: skip
def test_options_are_cut_and_leave_every_place_as_it_was(
    sql: str, options: tuple[tuple[str, str], ...]
) -> None:
    found = parse(sql)
    assert isinstance(found, Ask)
    assert tuple((option.name, option.value) for option in found.options) == options
    assert (
        len(found.sql) == len(sql) and found.sql.split() == ["SELECT", "COUNT(*)", "FROM", "t"]
    ) or (found.sql.lower().split() == ["select", "count(*)", "from", "t"])
    assert found.sql.index("COUNT") == sql.index("COUNT")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "there is no statement"), (" ; ; ", "there is no statement"), ("-- x", "there is no"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT 1;; SELECT 2;", "several statements"),
        ("SET epsilon = 1; SELECT 1", "several statements"),
        ("SET", "SET without a setting"), ("SET epsilon", "a SET that is not name = value"),
        ("SET epsilon = 1 2", "a SET that is not name = value"),
        ("SET VARIABLE x = 1", "SET VARIABLE"),
        ("RESET epsilon rho", "a RESET of more than one setting"),
        ("SHOW", "a SHOW of something else"),
        ("SHOW TABLES FROM x", "a SHOW of something else"), 
        ("SHOW SYNOPSIS", "a SHOW of something else"),
        ("DESCRIBE SELECT 1", "DESCRIBE of something other than a dataset"),
        ("EXPLAIN", "EXPLAIN without a statement"), ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN ANALYZE"),
        ("EXPLAIN (FORMAT json) SELECT 1", "EXPLAIN takes no options"),
        ("EXPLAIN VERBOSE SELECT 1", "EXPLAIN takes no options"),
        ("EXPLAIN DELETE FROM t", "DELETE changes"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS COUNT(*) FROM t", "OPTIONS without its list"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon) COUNT(*) FROM t", "an OPTIONS list"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1", "an OPTIONS list"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS () COUNT(*) FROM t", "an OPTIONS list"),
        ("TABLE t", "TABLE shows single people's values"), ("4", "a syntax error"),
        ("SELECT COUNT(*) FROM t WHERE", "a syntax error"),
        ("SELECT COUNT(*) FORM t", "a syntax error near"),
        ("SELEC COUNT(*) FROM t", "a syntax error"),
        ("DELETE FROM t", "DELETE changes data"), ("delete from t", "DELETE changes data"),
        ("TRUNCATE t", "TRUNCATE changes data"), ("ALTER TABLE t ADD x INT", "ALTER changes"),
        ("EXPORT DATABASE 'x'", "EXPORT writes or reads files"), ("USE x", "USE opens or closes"),
        ("INSTALL httpfs", "INSTALL loads code"), ("CHECKPOINT", "CHECKPOINT commands"),
        ("ROLLBACK", "ROLLBACK controls transactions"), ("DEALLOCATE p", "DEALLOCATE handles"),
        ("PIVOT t ON a USING COUNT(*)", "PIVOT makes columns of the values that exist"),
        ("COMMENT ON TABLE t IS 'x'", "COMMENT changes the catalogue"),
        ("GRANT x", "a syntax error"),
    ],
)  # fmt: skip
def test_other_statements_are_refused_by_name(sql: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        statement = parse(sql)
        assert isinstance(statement, Ask) and statement.query.foreign
        raise Refused(statement.query.foreign)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize("before", ["/* é日 */ ", "-- é\n", "-- é\nEXPLAIN /* 𝔘 */", ";/* é */;"])
@pytest.mark.parametrize("options", ["", "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = '日') "])
def test_places_are_right_behind_any_letters_that_are_cut(before: str, options: str) -> None:
    """DuckDB is given fewer bytes than the text has."""
    sql = f"{before}SELECT {options}COUNT(*) FROM t WHERE 'é' = 'y' AND x"
    found = parse(sql)
    ask = found.ask if isinstance(found, Explain) else found
    assert isinstance(ask, Ask) and isinstance(ask.query, Select) and ask.query.where is not None
    spans = [part.span for part in walk(ask.query.where) if isinstance(part, Ref)]
    assert spans == [Span(len(sql) - 1, len(sql))]
    with pytest.raises(Refused) as caught:
        parse(sql.replace("é' =", "e' =") + " ELSE x")  # DuckDB 1 counts letters here, not bytes
    assert caught.value.start == len(sql) + 1


@pytest.mark.parametrize("literal", ["B'é'", "x'日'", "X'zz'", "B'12'"])
def test_bits_of_letters_are_refused_or_read(literal: str) -> None:
    """DuckDB 2 writes no tree of some, without a word."""
    with contextlib.suppress(Refused):
        parse(f"SELECT COUNT(*) FROM t WHERE a = {literal}")


def test_a_semicolon_in_quotes_or_comments_ends_nothing() -> None:
    for sql in ("SELECT ';' AS \";\"", "SELECT 1 -- ; x\n", "SELECT /* ; */ 1;", "SELECT $$;$$"):
        assert isinstance(parse(sql), Ask)
