"""What names mean: statements that mean the same bind alike; DuckDB is the judge elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.errors import Refused
from dpsql.query.bind import Bound, Probe, bind
from dpsql.query.expr import Const
from dpsql.query.names import MAX_SIZE
from dpsql.query.parse import Ask, parse
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit


def dataset(name: str, *columns: str) -> Dataset:
    return Dataset(
        name,
        tuple(Column(c, Kind.INTEGER, minimum=0, maximum=9) for c in columns),
        Neighbours.ADD_REMOVE,
        Unit(),
        Source(table=name),
    )


DATASETS = {
    "t": dataset("t", "a", "b", "c", "Ä"),
    "r": dataset("r", "a", "x"),
    "Two Words": dataset("Two Words", "a"),
}


def meaning(sql: str, **params: Any) -> Bound | Probe:
    statement = parse(sql)
    assert isinstance(statement, Ask)
    return bind(statement, DATASETS, {name: Const(*value) for name, value in params.items()})


def parts(sql: str) -> Any:
    """What a statement asks, apart from its text."""
    found = meaning(sql)
    assert isinstance(found, Bound)
    selects = tuple((s.where, s.keys, s.sets, s.aggregates, s.having) for s in found.selects)
    return (
        found.dataset.name,
        selects,
        found.order,
        [[item for item, _ in select.items] for select in found.selects],
    )


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        # columns, in any case of ASCII letters, with any name that the table has
        ("SELECT COUNT(A) FROM T", "SELECT COUNT(a) FROM t"),
        ("SELECT COUNT(q.a) FROM t AS q", "SELECT COUNT(a) FROM t"),
        ('SELECT COUNT("Two Words".a) FROM "two words"', 'SELECT COUNT(a) FROM "Two Words"'),
        ("SELECT COUNT(main.t.a) FROM main.t", "SELECT COUNT(a) FROM t"),
        ("SELECT COUNT(y) FROM t AS q(x, y)", "SELECT COUNT(b) FROM t"),
        ("SELECT COUNT(c) FROM t AS q(x, y)", "SELECT COUNT(c) FROM t"),
        # derived tables
        ("SELECT COUNT(*) FROM (SELECT a AS z FROM t WHERE b > 1) WHERE z = 2",
         "SELECT COUNT(*) FROM t WHERE b > 1 AND a = 2"),
        ("SELECT SUM(z) FROM (SELECT a + 1 AS z FROM t)", "SELECT SUM(a + 1) FROM t"),
        ("SELECT SUM(w) FROM (SELECT a AS z, z + 1 AS w FROM t)", "SELECT SUM(a + 1) FROM t"),
        ("SELECT SUM(w) FROM (SELECT b AS a, a + 1 AS w FROM t)", "SELECT SUM(a + 1) FROM t"),
        ("SELECT COUNT(*) FROM (SELECT a AS z FROM t WHERE z > 1)",
         "SELECT COUNT(*) FROM t WHERE a > 1"),
        ("SELECT SUM(b) FROM (SELECT * FROM t) AS q(x)", "SELECT SUM(b) FROM t"),
        ("SELECT SUM(p) FROM (SELECT q.* FROM t AS q) AS q(p)", "SELECT SUM(a) FROM t"),
        ("SELECT COUNT(*) FROM (SELECT 1, a + b FROM t)", "SELECT COUNT(*) FROM t"),
        # common table expressions: each sees those before it, and itself not
        ("WITH q AS (SELECT a AS z FROM t) SELECT SUM(z) FROM q", "SELECT SUM(a) FROM t"),
        ("WITH q(z) AS (SELECT a FROM t) SELECT SUM(z) FROM q AS p", "SELECT SUM(a) FROM t"),
        ("WITH q AS (SELECT * FROM r), r AS (SELECT a FROM t) SELECT SUM(x) FROM q",
         "SELECT SUM(x) FROM r"),
        ("WITH r AS (SELECT a AS x FROM t), q AS (SELECT * FROM r) SELECT SUM(x) FROM q",
         "SELECT SUM(a) FROM t"),
        ("WITH t AS (SELECT * FROM t WHERE a > 1) SELECT COUNT(*) FROM t",
         "SELECT COUNT(*) FROM t WHERE a > 1"),
        ("SELECT COUNT(*) FROM (WITH q AS (SELECT * FROM t WHERE a > 1) SELECT * FROM q)",
         "SELECT COUNT(*) FROM t WHERE a > 1"),
        ("WITH q AS (SELECT a + 1 AS a FROM t) SELECT SUM(a) FROM "
         "(WITH q AS (SELECT a + 2 AS a FROM q) SELECT a FROM q)",
         "SELECT SUM(a + 1 + 2) FROM t"),
        # WHERE: columns, then aliases
        ("SELECT COUNT(*) AS n, a + 1 AS z FROM t WHERE z > 3 GROUP BY a",
         "SELECT COUNT(*) AS n, a + 1 AS z FROM t WHERE a + 1 > 3 GROUP BY a"),
        ("SELECT a AS b, COUNT(*) FROM t WHERE b > 3 GROUP BY a",
         "SELECT a AS z, COUNT(*) FROM t WHERE t.b > 3 GROUP BY a"),
        # GROUP BY: columns, then aliases; positions; ALL takes what mentions a column
        ("SELECT a + 1 AS z, COUNT(*) FROM t GROUP BY z",
         "SELECT a + 1, COUNT(*) FROM t GROUP BY a + 1"),
        ("SELECT a + 1 AS z, COUNT(*) FROM t GROUP BY 1",
         "SELECT a + 1, COUNT(*) FROM t GROUP BY a + 1"),
        ("SELECT a, b + 1, 'x', COUNT(*), SUM(c) FROM t GROUP BY ALL",
         "SELECT a, b + 1, 'x', COUNT(*), SUM(c) FROM t GROUP BY a, b + 1"),
        ("SELECT 'x', COUNT(*) FROM t GROUP BY ALL", "SELECT 'x', COUNT(*) FROM t"),
        ("SELECT a, a, COUNT(*) FROM t GROUP BY a, 2, t.a",
         "SELECT a, a, COUNT(*) FROM t GROUP BY a"),
        ("SELECT COUNT(*) FROM t GROUP BY (a, b)", "SELECT COUNT(*) FROM t GROUP BY a, b"),
        # HAVING: keys, then aliases, then columns in aggregates
        ("SELECT b AS a, COUNT(*) FROM t GROUP BY b HAVING a > 1",
         "SELECT b, COUNT(*) FROM t GROUP BY b HAVING b > 1"),
        ("SELECT COUNT(*) AS a, b FROM t GROUP BY b HAVING a > 1",
         "SELECT COUNT(*), b FROM t GROUP BY b HAVING COUNT(*) > 1"),
        ("SELECT COUNT(*) AS a FROM t GROUP BY a HAVING a > 1",
         "SELECT COUNT(*) FROM t GROUP BY a HAVING t.a > 1"),
        ("SELECT -a AS a, COUNT(*) FROM t GROUP BY -a HAVING a > 1",
         "SELECT -a, COUNT(*) FROM t GROUP BY -a HAVING -a > 1"),
        ("SELECT COUNT(*) AS a, b FROM t GROUP BY b HAVING SUM(a) > 1",
         "SELECT COUNT(*), b FROM t GROUP BY b HAVING SUM(t.a) > 1"),
        # ORDER BY: aliases where they stand alone, else columns first
        ("SELECT -a AS a, COUNT(*) FROM t GROUP BY t.a ORDER BY a",
         "SELECT -a, COUNT(*) FROM t GROUP BY t.a ORDER BY 1"),
        ("SELECT -a AS a, COUNT(*) FROM t GROUP BY t.a ORDER BY a + 0",
         "SELECT -a, COUNT(*) FROM t GROUP BY a ORDER BY t.a + 0"),
        ("SELECT a AS z, b AS z, COUNT(*) FROM t GROUP BY a, b ORDER BY z",
         "SELECT a, b, COUNT(*) FROM t GROUP BY a, b ORDER BY 2"),
        ("SELECT COUNT(*) AS n, SUM(a) AS m FROM t UNION ALL SELECT 1, COUNT(*) FROM t ORDER BY M",
         "SELECT COUNT(*) AS n, SUM(a) AS m FROM t UNION ALL SELECT 1, COUNT(*) FROM t ORDER BY 2"),
        # equal aggregates are one
        ("SELECT COUNT(*) AS n, n + 1, COUNT( * ) FROM t",
         "SELECT COUNT(*), COUNT(*)+1, COUNT(*) FROM t"),
        ("FROM t SELECT COUNT(*)", "SELECT COUNT(*) FROM t"),
    ],
)  # fmt: skip
def test_statements_that_mean_the_same_bind_alike(sql: str, same: str) -> None:
    assert parts(sql) == parts(same)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(ä) FROM t", "there is no column 'ä'"),  # only ASCII letters have two cases
        ("SELECT COUNT(t.a) FROM t AS q", "there is no table 't' in FROM"),
        ("SELECT COUNT(a) FROM (SELECT b FROM t)", "there is no column 'a'"),
        ("SELECT COUNT(a) FROM (SELECT a AS z FROM t)", "there is no column 'a'"),
        ("SELECT COUNT(b) FROM t AS q(b)", "two columns of a derived table are called 'b'"),
        ("SELECT COUNT(*) FROM t AS q(v, w, x, y, z)", "there are 5 column aliases for 4 columns"),
        ("SELECT COUNT(*) FROM (SELECT a, b AS a FROM t)", "two columns of a derived table"),
        ("SELECT COUNT(*) FROM (SELECT *, a + 1 AS a FROM t)", "two columns of a derived table"),
        ("WITH q AS (SELECT a FROM z), z AS (SELECT a FROM t) SELECT COUNT(*) FROM q",
         "there is no dataset 'z'"),
        ("WITH q AS (SELECT nope FROM t) SELECT COUNT(*) FROM t", "there is no column 'nope'"),
        ("WITH q AS (SELECT repeat('x', 9) AS y FROM t) SELECT COUNT(*) FROM t", "REPEAT makes"),
        ("SELECT COUNT(*) FROM (SELECT random() AS y, a FROM t)", "RANDOM gives another value"),
        ("SELECT COUNT(*) FROM (SELECT (SELECT 1) AS y, a FROM t)", "a subquery in an expression"),
        ("SELECT COUNT(*) FROM main.q", "there is no dataset 'main.q'"),
        ("SELECT COUNT(*) FROM memory.main.t", "there is no dataset 'memory.main.t'"),
        ("SELECT a AS z, COUNT(*) FROM t GROUP BY z + 1", "there is no column 'z'"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY n", "the aggregate COUNT in GROUP BY"),
        ("SELECT COUNT(*) AS n FROM t WHERE n > 1", "the aggregate COUNT in WHERE"),
        ("SELECT a, COUNT(*) AS n, SUM(n) FROM t GROUP BY a", "an aggregate inside an aggregate"),
        ("SELECT COUNT(*) AS t, a FROM t GROUP BY a HAVING t > 1", "t is an alias, and the name"),
        ("SELECT -a AS b, b, COUNT(*) FROM t GROUP BY a, t.b ORDER BY b", "b is an alias, and the"),
        ("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY b", "b is neither grouped nor aggregated"),
        ("SELECT a//2 AS k, COUNT(*) FROM t GROUP BY ALL HAVING k > 1", "HAVING of a computed key"),
        ("SELECT a, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (1, b))", "a key of the grouping"),
        ("SELECT (a, b), COUNT(*) FROM t GROUP BY (a, b)", "a row in one column"),
        ("SELECT (a, b) AS r, COUNT(*) FROM t GROUP BY r", "a group key that is a row"),
        ("SELECT COUNT((a, b)) FROM t", "COUNT of a row"),
        ("SELECT COUNT(*) FROM t GROUP BY 0", "GROUP BY 0: SELECT has 1 column"),
        ("SELECT COUNT(*) FROM t ORDER BY 'x'", "ORDER BY of a constant"),
        ("SELECT COUNT(*) FROM t ORDER BY -1", "ORDER BY -1: SELECT has 1 column"),
        ("SELECT COUNT(*) FROM t LIMIT -1", "LIMIT of something else than a whole number from 0"),
        ("SELECT COUNT(*) FROM t LIMIT 1.5", "LIMIT of something else"),
        ("SELECT COUNT(*) FROM t LIMIT 1 + 1", "LIMIT of something else"),
        ("SELECT COUNT(*) FROM t LIMIT 99999999999999999999", "LIMIT of something else"),
        ("SELECT COUNT(*) FROM t LIMIT ALL OFFSET NULL", "LIMIT of something else"),
        ("SELECT COUNT(*) FROM t UNION ALL SELECT COUNT(*) FROM r", "UNION ALL over two datasets"),
        ("SELECT COUNT(*) FROM t UNION ALL SELECT 1, COUNT(*) FROM t", "the SELECTs of UNION ALL"),
        ("SELECT 'x', COUNT(*) FROM t UNION ALL SELECT 1, COUNT(*) FROM t",
         "number and text are mixed in one column of UNION ALL"),
        ("(SELECT COUNT(*) FROM t LIMIT 1) UNION ALL SELECT COUNT(*) FROM t", "ORDER BY or LIMIT"),
        ("SELECT COUNT(*) AS n FROM t UNION ALL SELECT 1 FROM t", "there is no aggregate"),
        ("SELECT COUNT(*) AS n FROM t UNION ALL SELECT SUM(a) FROM t ORDER BY n + 1",
         "ORDER BY of a UNION ALL by something else"),
        ("SELECT GROUPING(b), a, COUNT(*) FROM t GROUP BY a", "GROUPING() of something that is no"),
        ("SELECT #1, COUNT(*) FROM t GROUP BY a", "a positional reference is not answered"),
        ("SELECT COUNT(*) FILTER (WHERE COUNT(*) > 1) FROM t", "an aggregate inside an aggregate"),
        ("SELECT COUNT(*) FROM t WHERE current_date > DATE '2025-01-01'", "CURRENT_DATE depends"),
    ],
)  # fmt: skip
def test_names_that_mean_nothing_or_two_things_are_refused(sql: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        meaning(sql)
    assert caught.value.reason.startswith(reason)


def test_names_of_names_are_bounded() -> None:
    doubled = ", ".join(f"z{i} + z{i} AS z{i + 1}" for i in range(40))
    with pytest.raises(Refused, match=f"more than {MAX_SIZE:,} expressions"):
        meaning(f"SELECT a + a AS z0, {doubled}, COUNT(*) FROM t GROUP BY ALL")
    nested = "t"
    for _ in range(30):
        nested = f"(SELECT a + a AS a FROM {nested})"
    with pytest.raises(Refused, match=f"more than {MAX_SIZE:,} expressions"):
        meaning(f"SELECT SUM(a) FROM {nested}")


def test_parameters_stand_for_their_values_everywhere() -> None:
    sql = "SELECT SUM(a + $n) FROM (SELECT * FROM t WHERE b > $n) WHERE c < $m LIMIT $m"
    found = meaning(sql, n=("integer", "1"), m=("integer", "5"))
    assert isinstance(found, Bound)
    same = meaning("SELECT SUM(a + 1) FROM (SELECT * FROM t WHERE b > 1) WHERE c < 5 LIMIT 5")
    assert isinstance(same, Bound)
    assert (found.selects, found.limit) == (same.selects, same.limit)
    with pytest.raises(Refused, match="the parameter m has no value"):
        meaning(sql, n=("integer", "1"))
    with pytest.raises(Refused, match="ORDER BY of a constant"):
        meaning("SELECT COUNT(*) FROM t ORDER BY $n", n=("integer", "1"))


def test_a_mean_of_a_condition_is_written_for_duckdb_with_a_cast() -> None:
    sql = "SELECT AVG( /* ) */ a > (1) ) FILTER (WHERE b > 1) AS p, AVG(a), p + AVG(b = 1) FROM t"
    found = meaning(sql)
    assert isinstance(found, Bound)
    assert found.ask.sql == (
        "SELECT AVG((( /* ) */ a > (1) )::INTEGER)) FILTER (WHERE b > 1) AS p, AVG(a), "
        "p + AVG(((b = 1)::INTEGER)) FROM t"
    )
