"""Whatever text comes: an answer or a refusal of ours, soon, and never another error."""

from __future__ import annotations

import contextlib
import time
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.errors import Refused
from dpsql.query.bind import Bound, bind
from dpsql.query.compile import compile_bound
from dpsql.query.grid import Grid
from dpsql.query.parse import Ask, Explain, parse
from dpsql.schema import load, loads
from tests.cases.made import ODD, VISITS
from tests.cases.published import HERE, cases

DATASETS = {
    dataset.name: dataset
    for dataset in (
        *(
            load(HERE.parents[1] / "schemas" / f"{name}.toml")
            for name in ("adult", "cps", "titanic")
        ),
        loads(VISITS),
        loads(ODD),
    )
}
GRIDS = {name: Grid(dataset) for name, dataset in DATASETS.items()}
STATEMENTS = [case["sql"] for name in ("accept", "reject", "own") for case in cases(f"{name}.csv")]
WORDS = sorted({word for sql in STATEMENTS for word in sql.split()})
ODDITIES = (
    "\0", "\ud800", "\udfff", "\u200b", "\u202e", "\ufeff", "\u00a0", "\u2028", "\x1a", "\x7f",
    "é", "日本", "𝔘", "١", "²", "--", "/*", "*/", "'", '"', "$$", "$x$", ";", "E'\\'", "U&'", "\\",
    "`", "@", "#", "::", "{", "}", "[", "]", "?", "1e999", "0x", "1_", "9" * 400, "..", "%",
    "CASE", "END", "OVER", "WITH", "RECURSIVE", "LATERAL", "ESCAPE", "GROUPING", "FILTER",
    "INTERVAL", "AT TIME ZONE", "COLLATE", "COLUMNS", "EXCLUDE", "QUALIFY", "PIVOT", "TABLESAMPLE",
    "TRY", "INTERSECT", "EXISTS", "ANY", "DISTINCT", "JOIN", "FETCH FIRST", "WINDOW", "EXPLAIN",
)  # fmt: skip


def run(sql: str) -> None:
    """Take a text as far as a workload."""
    statement = parse(sql)
    if isinstance(statement, Explain):
        statement = statement.ask
    if isinstance(statement, Ask):
        bound = bind(statement, DATASETS)
        if isinstance(bound, Bound):
            compile_bound(bound, GRIDS[bound.dataset.name])


def mutated(rng: Random) -> str:
    """A statement with some things cut, doubled, moved or put in."""
    sql = rng.choice(STATEMENTS)
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(sql) + 1)
        end = min(len(sql), start + rng.randrange(1, 12))
        match rng.randrange(8):
            case 0:
                sql = sql[:start] + sql[end:]
            case 1:
                sql = sql[:start] + rng.choice(ODDITIES) + sql[start:]
            case 2:
                sql = f"{sql[:start]} {rng.choice(WORDS)} {sql[start:]}"
            case 3:
                sql = sql[:start] + sql[start:end] * 2 + sql[end:]
            case 4:
                other = rng.choice(STATEMENTS)
                at = rng.randrange(len(other) + 1)
                sql = sql[:start] + other[at : at + rng.randrange(1, 60)] + sql[end:]
            case 5:
                sql = sql[:start] + chr(rng.randrange(0x110000)) + sql[start:]
            case 6:
                sql = sql.replace(rng.choice(WORDS), rng.choice(WORDS), 1)
            case _:
                sql = (
                    f"{sql[:start]} /* {rng.choice(WORDS)} */ -- {rng.choice(WORDS)}\n{sql[start:]}"
                )
    return sql


@settings(max_examples=1_500, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.integers(0, 2**48))
def test_only_refusals_come_of_broken_statements(seed: int) -> None:
    with contextlib.suppress(Refused):
        run(mutated(Random(seed)))


@settings(max_examples=300, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.text(max_size=60))
def test_only_refusals_come_of_any_text(text: str) -> None:
    for sql in (text, f"SELECT {text} FROM cps", f"SELECT COUNT(*) FROM cps WHERE {text}"):
        with contextlib.suppress(Refused):
            run(sql)


COUNT = "SELECT COUNT(*) FROM cps"
BOMBS = {
    "parentheses": f"{COUNT} WHERE {'(' * 7_000}age = 30{')' * 7_000}",
    "parentheses of 200": f"{COUNT} WHERE {'(' * 200}age = 30{')' * 200}",
    "NOT": f"{COUNT} WHERE {'NOT ' * 3_000}age = 30",
    "minus": f"{COUNT} WHERE {'- ' * 5_000}age > 3",
    "CASE in CASE": f"{COUNT} WHERE {'CASE WHEN age > 1 THEN ' * 400}TRUE{' END' * 400}",
    "CASE of many": "SELECT SUM(CASE "
    + " ".join(f"WHEN age = {21 + i % 40} THEN {i}" for i in range(600)) + " END) FROM cps",
    "IN of 5,000": f"{COUNT} WHERE age IN ({','.join(['30'] * 5_000)})",
    "IN of texts": "SELECT COUNT(*) FROM adult WHERE native_country IN ("
    + ",".join(["'Cuba'"] * 2_000) + ")",
    "OR of 1,100": f"{COUNT} WHERE {' OR '.join(f'age > {i}' for i in range(1_100))}",
    "AND in OR": f"{COUNT} WHERE {'(age > 1 OR (age > 2 AND ' * 45}TRUE{'))' * 45}",
    "plus": f"{COUNT} WHERE age{' + 1' * 4_000} > 3",
    "casts": f"{COUNT} WHERE age{'::INT' * 2_500} > 3",
    "derived tables": f"SELECT COUNT(*) FROM {'(SELECT * FROM ' * 500}cps{')' * 500}",
    "names of names": "SELECT age + age AS x0"
    + "".join(f", x{i} + x{i} AS x{i + 1}" for i in range(99)) + ", COUNT(*) FROM cps GROUP BY ALL",
    "tables of tables": "WITH q0 AS (SELECT age AS a FROM cps)"
    + "".join(f", q{i + 1} AS (SELECT a + a AS a FROM q{i})" for i in range(99))
    + " SELECT SUM(a) FROM q99",
    "UNION ALL": " UNION ALL ".join(["SELECT 1 FROM cps"] * 700),
    "aggregates": "SELECT "
    + ",".join(f"COUNT(*) FILTER (WHERE age > {i})" for i in range(300)) + " FROM cps",
    "digits": f"{COUNT} WHERE age > {'9' * 15_000}",
    "decimals": f"{COUNT} WHERE age = 30.{'0' * 15_000}",
    "LIMIT": f"{COUNT} LIMIT {'9' * 5_000}",
    "text": f"{COUNT} WHERE gender = '{'a' * 15_000}'",
    "pattern": f"SELECT COUNT(*) FROM adult WHERE native_country LIKE '{'%a' * 5_000}'",
    "regular expression": "SELECT COUNT(*) FROM adult WHERE "
    f"regexp_matches(native_country, '{'(a?){50}' * 50}')",
    "repetition": "SELECT COUNT(*) FROM adult WHERE "
    "regexp_matches(native_country, '((a{100}){100}){100}')",
    "texts of texts": f"SELECT COUNT(*) FROM adult WHERE length({'replace(' * 20}native_country"
    + ",'a','aaaaaaaaaa')" * 20 + ") > 3",
    "distances": f"SELECT COUNT(*) FROM adult WHERE levenshtein(native_country || '{'a' * 5_000}', "
    f"'{'b' * 5_000}') > 3",
    "comments": f"SELECT {'/* x */' * 2_000} COUNT(*) FROM cps",
    "semicolons": f"{COUNT}{';' * 10_000}",
    "semicolons between": f"SELECT COUNT(*){';' * 10_000} FROM cps",
    "quotes": f"{COUNT} WHERE gender = '{chr(39) * 14_000}'",
    "dots": f"{COUNT} WHERE {'a.' * 5_000}b = 1",
    "CUBE": f"SELECT COUNT(*) FROM adult GROUP BY CUBE ({','.join('abcdefghijklmnopqrst')})",
    "CUBE of CUBE": f"SELECT COUNT(*) FROM adult GROUP BY {', '.join(['CUBE(sex)'] * 40)}",
    "keys": f"{COUNT} GROUP BY {','.join(f'age + {i}' for i in range(1_500))}",
    "ORDER BY": f"{COUNT} ORDER BY {','.join(['COUNT(*)'] * 1_500)}",
    "HAVING": f"{COUNT} HAVING {' OR '.join(f'COUNT(*) > {i}' for i in range(800))}",
    "rows": f"{COUNT} WHERE ({','.join(['age'] * 3_000)}) = (1)",
    "subqueries": f"{COUNT} WHERE {'EXISTS (SELECT 1 WHERE ' * 400}TRUE{')' * 400}",
    "parameters": f"{COUNT} WHERE {' OR '.join(['age = ?'] * 1_400)}",
    "options": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ("
    + ",".join(["epsilon=1"] * 1_000) + ") COUNT(*) FROM cps",
    "length": f"{COUNT} WHERE {'age > 3 AND ' * 50_000} TRUE",
}  # fmt: skip


@pytest.mark.parametrize("sql", BOMBS.values(), ids=BOMBS)
def test_no_statement_takes_a_second(sql: str) -> None:
    started = time.process_time()
    with contextlib.suppress(Refused):
        run(sql)
    assert time.process_time() - started < 1


def test_a_deep_stack_gives_a_refusal_and_no_recursion_error() -> None:
    def deep(levels: int, sql: str) -> Any:
        return deep(levels - 1, sql) if levels else run(sql)

    for levels in (300, 600, 750):
        for sql in (BOMBS["AND in OR"], f"{COUNT} WHERE {'NOT ' * 90}age = 30"):
            with contextlib.suppress(Refused):
                deep(levels, sql)


# -- attacks -----------------------------------------------------------------------------------

ATTACKS = {
    "division by zero": "WHERE 1 // (age - 30) > 0",
    "remainder by zero": "WHERE age % (age - 30) = 0",
    "cast of one value": "WHERE CASE WHEN gender = 'male' THEN CAST(gender AS INT) ELSE 0 END = 0",
    "error()": "WHERE CASE WHEN age = 30 THEN error('x') IS NULL ELSE TRUE END",
    "strptime": "WHERE strptime(gender, '%Y') IS NULL",
    "uuid": "WHERE gender::UUID IS NULL",
    "date": "WHERE gender::DATE IS NULL",
    "json": "WHERE json_extract(gender, '$') IS NULL",
    "chr": "WHERE chr(age * 100000) = 'a'",
    "factorial": "WHERE factorial(age) > 3",
    "set_bit": "WHERE set_bit('1'::BIT, age, 1) IS NULL",
    "pattern of data": "WHERE regexp_matches(gender, region)",
    "subquery of many rows": "WHERE age = (SELECT age FROM cps)",
    "overflow of a sum": "WHERE age * 9223372036854775807 > 3",
    "files": "WHERE read_text('/etc/passwd') IS NULL",
    "environment": "WHERE getenv('HOME') IS NULL",
    "lists": "WHERE list_sum(range(1000000 + age)) > 0",
    "repetition": "WHERE repeat('a', 20000000 + age) = ''",
    "sleep": "WHERE pg_sleep(0.05) IS NULL",
    "padding": "WHERE lpad(gender, 100000000, 'x') = ''",
    "formats": "WHERE format('{:1000000}', age) = ''",
    "time of a version": "AT (VERSION => 1)",
    "samples": "USING SAMPLE 10%",
    "identifiers": "WHERE \"age; DROP TABLE cps\" = 1",
    "unicode quotes": "WHERE gender = U&'\\0027'",
    "infinite literals": "WHERE age < 1e400",
    "variables": "WHERE age = getvariable('x')",
}  # fmt: skip


@pytest.mark.parametrize("clause", ATTACKS.values(), ids=ATTACKS)
def test_what_may_tell_one_row_by_an_error_or_a_delay_is_refused(clause: str) -> None:
    with pytest.raises(Refused):
        run(f"{COUNT} {clause}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM duckdb_tables()", "SELECT * FROM pg_catalog.pg_class", "SUMMARIZE cps",
        "SELECT * FROM pragma_storage_info('cps')", "EXPLAIN ANALYZE SELECT COUNT(*) FROM cps",
        "SELECT * FROM information_schema.schemata", "SELECT COUNT(*) FROM '/etc/passwd'",
        "SELECT * FROM glob('*')", "SELECT * FROM sniff_csv('x.csv')", "COPY cps TO 'x.csv'",
        "ATTACH 'x.db'", "EXPORT DATABASE 'x'", "INSTALL httpfs", "LOAD httpfs",
        "CREATE SECRET s (TYPE s3)", "SELECT COUNT(*) FROM query('SELECT 1')",
        "SELECT COUNT(*) FROM query_table('cps')", "SELECT COUNT(COLUMNS('a.*')) FROM cps",
        "PIVOT cps ON gender USING COUNT(*)", "FROM cps PIVOT (COUNT(*) FOR gender IN ('male'))",
        "PREPARE p AS SELECT 1", "EXECUTE p", "SET VARIABLE x = 1", "CALL pragma_version()",
        "CREATE TEMP MACRO count(x) AS 1", "PRAGMA version", "SELECT COUNT(*) FROM cps; SELECT 1",
        "SELECT COUNT(*) FROM \"cps; DROP TABLE cps\"", "SELECT 1 FROM cps LIMIT 1",
        "SELECT COUNT(*) FROM cps, LATERAL (SELECT 1)", "TABLE cps", "DESCRIBE SELECT 1",
        "SELECT COUNT(*) FROM cps AS a ASOF JOIN cps AS b ON a.age >= b.age",
        "SELECT COUNT(*) FROM cps WHERE age IN (FROM cps SELECT age)", "VALUES (1)",
    ],
)  # fmt: skip
def test_what_reaches_the_engine_or_another_table_is_refused(sql: str) -> None:
    with pytest.raises(Refused):
        run(sql)
