"""DuckDB's tree to ours: what is rendered reads back as itself; what is not known is refused."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.errors import Refused
from dpsql.query.clauses import Clauses
from dpsql.query.convert import MAX_NESTING, Converter
from dpsql.query.empty import parsing
from dpsql.query.expr import (
    Call,
    Case,
    Const,
    Expr,
    Foreign,
    Ref,
    Span,
    children,
    rebuild,
    render,
    walk,
)
from dpsql.query.parse import Ask, parse
from dpsql.query.syntax import Select, Union
from dpsql.query.text import Text
from tests.query.expressions import Expressions
from tests.query.grammar import asked
from tests.query.tables import Source_, table


def select(sql: str) -> Select:
    found = parse(sql)
    assert isinstance(found, Ask) and isinstance(found.query, Select)
    return found.query


def expression(sql: str) -> Expr:
    return select(f"SELECT {sql} FROM t").items[0][0]


@settings(max_examples=150, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.integers(0, 2**48), st.sampled_from(["boolean", "number", "text", "date"]))
def test_what_is_rendered_reads_back_as_itself(seed: int, kind: str) -> None:
    rng = Random(seed)
    source = Source_()
    for column in table(rng).dataset.columns:
        source.add(f'q."{column.name.replace(chr(34), chr(34) * 2)}"', column)
    found = expression(asked(Expressions(rng, source).of(kind, 3)))
    assert not any(isinstance(part, Foreign) for part in walk(found))
    assert expression(render(found)) == found


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("a != 1", "a <> 1"), ("a == 1", "a = 1"), ("a ISNULL", "a IS NULL"),
        ("a NOTNULL", "a IS NOT NULL"), ("IF(a, b, c)", "CASE WHEN a THEN b ELSE c END"),
        ("a::INT4", "CAST(a AS INTEGER)"), ("a::TEXT", "CAST(a AS VARCHAR)"),
        ("a::DECIMAL", "CAST(a AS DECIMAL(18,3))"), ("a::NUMERIC(4)", "a::DECIMAL(4,0)"),
        ("- 5", "-5"), ("-(5)", "-5"), ("1_000", "1000"), ("(a AND b) AND c", "(a AND b) AND c"),
        ("a NOT IN (1)", "NOT (a IN (1))"), ("s SIMILAR TO 'x'", "regexp_full_match(s, 'x')"),
        ("s GLOB 'x'", "s ~~~ 'x'"), ("$$it's$$", "'it''s'"), ("E'a\\nb'", "'a\nb'"),
        ("substring(s FROM 2 FOR 1)", "substring(s, 2, 1)"), ("count()", "count(*)"),
        ("position('a' IN s)", "\"position\"(s, 'a')"), ("main.abs(a)", "abs(a)"),
        ("COUNT(a) FILTER (b)", "COUNT(a) FILTER (WHERE b)"), ("a -- c\n + 1", "a + 1"),
        ("CASE a WHEN 1 THEN 2 END", "CASE WHEN a = 1 THEN 2 ELSE NULL END"),
        ("a IS NOT UNKNOWN", "a IS NOT NULL"),
    ],
)  # fmt: skip
def test_spellings_of_one_expression_are_one_tree(sql: str, same: str) -> None:
    left, right = expression(sql), expression(same)
    if sql.startswith("a NOT IN"):  # DuckDB 1 has a word of its own for it
        left, right = expression(render(left)), expression(render(left))
    assert left == right


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("(SELECT 1)", "a subquery in an expression"), ("a IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"), ("COUNT(*) OVER ()", "a window function"),
        ("list_filter([1], lambda x: x > 0)", "a list"), ("a[1]", "a subscript"),
        ("s COLLATE NOCASE", "COLLATE"), ("a::INT[]", "a cast to "),
        ("a::UUID", "a cast to UUID"), ("a::TIMESTAMPTZ", "a cast to TIMESTAMP"),
        ("#1", "a positional reference"), ("COLUMNS('a')", "COLUMNS(...)"),
        ("1e999", "a number beyond the range of DOUBLE"), ("[1, 2]", "a list"),
        ("{'x': 1}", "a "), ("other.f(a)", "this form of f()"), ("* EXCLUDE (a)", "* EXCLUDE"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_foreign_and_named(sql: str, what: str) -> None:
    found = [part.what for part in walk(expression(sql)) if isinstance(part, Foreign)]
    assert found and found[0].startswith(what)


def _nodes(tree: Any) -> list[dict[str, Any]]:
    """The dictionaries inside a tree that have a class or a type."""
    found = []
    if isinstance(tree, dict):
        if "class" in tree or "type" in tree:
            found.append(tree)
        for value in tree.values():
            found += _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            found += _nodes(value)
    return found


SQL = "SELECT a + 1 AS x, COUNT(b) FILTER (WHERE NOT c), CASE WHEN d IN (1, 2) THEN 'x' ELSE NULL END, CAST(e AS INTEGER) FROM t WHERE f BETWEEN 1 AND 2 AND g IS NULL GROUP BY a HAVING h > 1 ORDER BY i LIMIT 1"  # noqa: E501


def test_an_unknown_field_that_is_set_anywhere_in_an_expression_is_refused() -> None:
    text = Text(SQL)
    tree = parsing().parse(SQL)[0]
    count = len([node for node in _nodes(tree) if "class" in node])
    assert count > 20
    for index in range(count):
        copy = json.loads(json.dumps(tree))
        node = [node for node in _nodes(copy) if "class" in node][index]
        node["a_new_field"] = True
        query = Clauses(text).query(copy)
        assert isinstance(query, Select)
        exprs = [e for e, _ in query.items] + [o.expr for o in query.order] + list(query.groups)
        exprs += [e for e in (query.where, query.having, query.limit) if e is not None]
        foreign = [p for e in exprs for p in walk(e) if isinstance(p, Foreign)]
        assert foreign, node


def test_an_unknown_class_or_clause_is_refused() -> None:
    text, tree = Text(SQL), parsing().parse(SQL)[0]
    tree["a_new_clause"] = {"x": 1}
    assert Clauses(text).query(tree).foreign == "the clause a_new_clause"
    node = {"class": "NEW", "type": "NEW", "query_location": 7}
    assert Converter(text).expr(node) == Foreign("the construct NEW")


@pytest.mark.parametrize(
    ("sql", "foreign"),
    [
        ("SELECT DISTINCT a FROM t", "SELECT DISTINCT"),
        ("SELECT DISTINCT ON (a) a FROM t", "SELECT DISTINCT"),
        ("SELECT a FROM t QUALIFY row_number() OVER () = 1", "QUALIFY"),
        ("SELECT a FROM t USING SAMPLE 3", "a sample of rows"),
        ("SELECT a FROM t LIMIT 10 PERCENT", "LIMIT with a percentage"),
        ("SELECT a FROM t UNION SELECT a FROM t", "a set operation other than UNION ALL"),
        ("SELECT a FROM t EXCEPT SELECT a FROM t", "a set operation other than UNION ALL"),
        ("SELECT a FROM t INTERSECT ALL SELECT a FROM t", "a set operation other than UNION ALL"),
        ("SELECT a FROM t UNION ALL BY NAME SELECT a FROM t", "a set operation other than"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT n FROM r", ""),
    ],
)
def test_clauses_that_are_never_answered_are_named(sql: str, foreign: str) -> None:
    found = parse(sql)
    assert isinstance(found, Ask)
    assert found.query.foreign.startswith(foreign)
    if not foreign:
        assert found.query.ctes[0].query.foreign


def test_union_all_is_known_from_union() -> None:
    found = parse("SELECT a FROM t UNION ALL SELECT b FROM t UNION ALL SELECT c FROM t")
    assert isinstance(found, Ask) and isinstance(found.query, Union) and not found.query.foreign


def test_nesting_is_bounded_with_a_place() -> None:
    deep = "NOT " * (MAX_NESTING + 5) + "a"
    with pytest.raises(Refused, match="inside each other"):
        expression(deep)
    assert expression("NOT " * 50 + "a")


def test_every_part_of_an_expression_has_its_place() -> None:
    sql = "SELECT a + f(b) FROM t WHERE c = 'é' AND d"
    query = select(sql)
    item = query.items[0][0]
    assert isinstance(item, Call)
    call = item.args[1]
    assert call.span is not None and sql[call.span.start : call.span.end] == "f(b)"
    assert query.where is not None
    for part in walk(query.where):
        if isinstance(part, Ref | Const):
            assert part.span is not None
            shown = sql[part.span.start : part.span.end]
            assert shown.strip("'") == (part.text if isinstance(part, Const) else part.path[0])


def test_places_never_take_part_in_equality() -> None:
    assert Ref(("a",), Span(1, 2)) == Ref(("a",), Span(5, 6))
    assert hash(Const("text", "x", Span(1, 2))) == hash(Const("text", "x"))


def test_an_expression_is_rebuilt_from_its_parts() -> None:
    found = expression(
        "CASE WHEN a > 1 AND b IN (1, 2) THEN COUNT(c) FILTER (WHERE d) ELSE CAST(e AS INT) END"
    )
    assert rebuild(found, lambda part: part) == found
    assert len(children(found)) == 3 and isinstance(found, Case)


def test_every_node_of_a_query_refuses_a_field_that_is_not_known() -> None:
    sql = (
        "WITH q(z) AS (SELECT a FROM t) SELECT z::DECIMAL(4,2) AS x, COUNT(*) FROM "
        "(SELECT z FROM q AS r(z)) AS s GROUP BY z ORDER BY z DESC LIMIT 3"
    )
    text, tree = Text(sql), parsing().parse(sql)[0]
    kept = Clauses(text).query(tree)

    def nodes(found: Any) -> list[dict[str, Any]]:
        inner = found.values() if isinstance(found, dict) else found
        if not isinstance(found, dict | list):
            return []
        own = [found] if isinstance(found, dict) and found else []
        return own + [node for value in inner for node in nodes(value)]

    for index in range(len(nodes(tree))):
        copy = json.loads(json.dumps(tree))
        node = nodes(copy)[index]
        node["a_new_field"] = "yes"
        assert Clauses(text).query(copy) != kept, node
