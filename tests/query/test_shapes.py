"""What follows from a statement of the same shape is what DuckDB reads, to the last place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpsql.errors import Refused
from dpsql.query import parse as parsing
from dpsql.query import shapes
from dpsql.query.parse import Ask, parse
from tests.cases.published import cases
from tests.query.grammar import Statements, asked
from tests.query.tables import table

_WORD = re.compile(r"'(?:[^']|'')*'|\b\d+\b|\b[A-Za-z_]\w*\b")
_TEXTS = ["''", "'a'", "'it''s'", "'2020-02-30'", "'t'", "'%x_'", "'year'", "'\\'", "'/*'", "'--'"]
_NAMES = [
    "c0", "Year", "current_date", "CURRENT_USER", "rowid", "user", "date", "interval", "excluded",
    "value", "key", "array", "struct", "row", "default", "lambda", "try_cast", "isnull", "glob",
    "columns", "unnest", "count", "x" * 70, "_", "nan", "infinity", "localtime", "position", "any",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_shapes() -> Iterator[None]:
    _forget()
    yield
    _forget()


def _forget() -> None:
    shapes._LAST.clear()
    shapes._LOOSE.clear()
    shapes._READ.clear()


def _spelled(part: Any) -> Any:
    """All that a statement holds, places included, which take no part in its equality."""
    if isinstance(part, tuple):
        return tuple(map(_spelled, part))
    if dataclasses.is_dataclass(part):
        names = [field.name for field in dataclasses.fields(part)]
        return type(part).__name__, *(_spelled(getattr(part, name)) for name in names)
    return part


def _read(sql: str) -> Any:
    """What is made of a text: the statement, or what the refusal says."""
    try:
        found = parse(sql)
    except Refused as refused:
        return str(refused), refused.start, refused.end
    assert isinstance(found, Ask)
    return _spelled((found.query, found.sql, found.options, found.params, found.first))


def _anew(sql: str) -> Any:
    _forget()
    return _read(sql)


def _others(rng: Random, sql: str) -> str:
    """The same statement with other words, some of them of another kind."""
    names = [word for word in _WORD.findall(sql) if word[0].isalpha()]

    def other(found: re.Match[str]) -> str:
        if rng.random() < 0.3:
            return found.group()
        if found.group()[0].isalpha() or found.group()[0] == "_":
            return rng.choice([*names, *_NAMES]) if rng.random() < 0.15 else found.group()
        if found.group()[0] == "'":
            return rng.choice(_TEXTS)
        return rng.choice(["0", "1", "7", "10", "0123", "99999999", str(rng.randrange(10**12))])

    return _WORD.sub(other, sql)


@given(st.integers(0, 2**64))
@settings(max_examples=25, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
def test_statements_follow_as_they_are_read(seed: int) -> None:
    rng = Random(seed)
    made = Statements(rng, table(rng))
    for _ in range(6):
        first = asked(made.statement().sql)
        _check(first, [_others(rng, first) for _ in range(3)])


@pytest.mark.parametrize("case", cases("accept.csv"), ids=lambda case: case["id"])
def test_handed_statements_follow_as_they_are_read(case: dict[str, str]) -> None:
    rng = Random(case["id"])
    _check(case["sql"], [_others(rng, case["sql"]) for _ in range(4)])


def _check(first: str, others: Sequence[str]) -> None:
    expected = [_anew(other) for other in others]
    _forget()
    _read(first)
    for other, found in zip(others, expected, strict=True):
        assert _read(other) == found, (first, other)


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (
            "SELECT COUNT(*) FROM t WHERE a = 1",
            ["SELECT COUNT(*) FROM t WHERE a = 123", "SELECT COUNT(*) FROM t WHERE long = 5"],
        ),
        (
            "SELECT AVG(a > 10) AS m FROM t WHERE b IN ('x', 'yy') AND c BETWEEN 5 AND 10;",
            ["SELECT AVG(a > 9) AS m FROM t WHERE b IN ('it''s', '') AND c BETWEEN 123 AND 0;"],
        ),
        (
            "SELECT b, COUNT(*)FILTER(a<5) FROM t\n WHERE NOT (c <> 'é' OR d='é'AND e='')"
            " GROUP BY b HAVING COUNT(*) > 10 -- of 5\n ORDER BY b",
            [
                "SELECT b, COUNT(*)FILTER(a<77) FROM t\n WHERE NOT (c <> 'é' OR d='é'AND e='it''s')"
                " GROUP BY b HAVING COUNT(*) > 0 -- of 5\n ORDER BY b"
            ],
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) b, COUNT(*) FROM t"
            " WHERE a >= 1 GROUP BY 1 FIRST 3 ABOVE 10",
            [
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) b, COUNT(*) FROM t"
                " WHERE a >= 44 GROUP BY 1 FIRST 5 ABOVE 99"
            ],
        ),
    ],
)  # fmt: skip
def test_of_a_shape_duckdb_reads_the_first(
    first: str, others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [_anew(other) for other in others]
    _forget()
    _read(first)
    monkeypatch.setattr(parsing, "parsing", None)  # to ask DuckDB would raise
    assert list(map(_read, others)) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a = 1", "a = 3000000000"),
        ("a = 1", "a = 1.5"),
        ("a = 1", "current_date = 1"),
        ("a = 1", "rowid = 1"),
        ("a = 1", "a.b = 1"),
        ("a = 1", "interval = 1"),
        ("a = b", "a = current_user"),
        ("a = b", "a = b(c)"),
        ("a = b", "a = b 'x'"),
        ("a IN (b)", "a IN (current_date)"),
        ("a IN b", "a IN c"),
        ("a = b COLLATE nocase", "a = c COLLATE posix"),
        ("f(a) = 1", "coalesce(a) = 1"),
        ("a = x -> 1", "a = y -> 1"),
        ("a = 'x'", "a = 'x"),
        ("a = 'x'", "a = 'it''"),
        ("a = 'x'", "a = '"),
        ("a = 'x'", "a = ''"),
        ("a = 'x'", "a = '''"),
        ("a = 'x'", "a = 'x\ty'"),
        ("a = 'x'", "a = 'é'"),
        ("a = 1", "a = 007"),
        ("a = 1", "a = 1_000"),
        ("a = -1", "a = -2"),
        ("a = - 1", "a = - 2"),
        ("a = - (1)", "a = - (2)"),
        ("a = 'x'", "a = 5"),
        ("a = U&'x'", r"a = U&'\0041'"),
        ("a = E'x'", r"a = E'\x41'"),
        ("a = X'12'", "a = X'zz'"),
        ("a = 'x'\n'y'", "a = ''\n'xy'"),
        ("a = ''\n'x'", "a = 'x'\n''"),
        ("a = 'x' 'y'", "a = 'z' ''"),
        ("a = $1", "a = $2"),
        ("a = DATE '2020-01-01'", "a = DATE 'x'"),
        ("a = 't'::BOOLEAN", "a = 'f'::BOOLEAN"),
        ("a = CAST('t' AS BOOLEAN)", "a = CAST('x' AS BOOLEAN)"),
        ("a = INTERVAL '1' DAY", "a = INTERVAL '1 month' DAY"),
        ("a = INTERVAL 1 DAY", "a = INTERVAL 2 DAY"),
        ("a::DECIMAL(10, 2) = 1", "a::DECIMAL(5, 1) = 1"),
        ("EXTRACT('year' FROM a) = 1", "EXTRACT('YEAR' FROM a) = 1"),
        ("a BETWEEN SYMMETRIC 1 AND 2", "a BETWEEN SYMMETRIC 2 AND 1"),
        ("a LIKE 'x%'", "a LIKE 'y_'"),
        ("a SIMILAR TO 'x' ESCAPE 'y'", "a SIMILAR TO '(' ESCAPE 'yy'"),
        ("a IN (1, 2)", "a IN (2, 2)"),
        ("a IN (1)", "a IN (22)"),
        ("CASE a WHEN 1 THEN 2 ELSE 3 END = 4", "CASE a WHEN 2 THEN 2 ELSE 2 END = 2"),
        ("a[1] = 1", "a[2] = 1"),
        ("a = 1 AND b = 2", "a = 1 /* ' */ AND b = 2"),
        ("{'x': 1} = 1", "{'y': 2} = 1"),
        (
            "a = 1 UNION ALL SELECT COUNT(*) FROM t WHERE a = 2",
            "a = 3 UNION ALL SELECT COUNT(*) FROM t WHERE a = 3",
        ),
    ],
)  # fmt: skip
def test_a_condition_whose_values_decide_is_read_anew(first: str, second: str) -> None:
    head = "SELECT COUNT(*) FROM t WHERE "
    _check(head + first, [head + second])
    _check(head + second, [head + first])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "SELECT COUNT(*) FROM t GROUP BY a = 1, a = 2",
            "SELECT COUNT(*) FROM t GROUP BY a = 1, a = 1",
        ),
        ("SELECT a, COUNT(*) FROM t GROUP BY 1", "SELECT a, COUNT(*) FROM t GROUP BY 2"),
        ("SELECT COUNT(*) FROM t LIMIT 5", "SELECT COUNT(*) FROM t LIMIT 0"),
        ("SELECT COUNT(*) FROM t LIMIT 5 %", "SELECT COUNT(*) FROM t LIMIT 6 %"),
        ("SELECT COUNT(*) FROM 't' WHERE a = 1", "SELECT COUNT(*) FROM 'u' WHERE a = 1"),
        ("SELECT COUNT(*) 'n' FROM t WHERE a = 1", "SELECT COUNT(*) 'm' FROM t WHERE a = 2"),
        ("SELECT 1, COUNT(*) FROM t", "SELECT 2, COUNT(*) FROM t"),
        (
            "SELECT COUNT(*) FROM t TABLESAMPLE 10 PERCENT WHERE a = 1",
            "SELECT COUNT(*) FROM t TABLESAMPLE 20 PERCENT WHERE a = 1",
        ),
        (
            "FROM t SELECT COUNT(*) WHERE a = 1 ORDER BY 1",
            "FROM t SELECT COUNT(*) WHERE a = 2 ORDER BY 2",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT a FROM t LIMIT 5) u WHERE a = 1",
            "SELECT COUNT(*) FROM (SELECT a FROM t LIMIT 7) u WHERE a = 2",
        ),
    ],
)  # fmt: skip
def test_whatever_a_value_decides_is_read_anew(first: str, second: str) -> None:
    _check(first, [second])
    _check(second, [first])


def test_what_may_be_another_literal_is_looked_at_beside_those_that_may_not() -> None:
    head = "SELECT COUNT(*) FROM t WHERE a = "
    _check(head + "'x'\n''", [head + "'x'\n'y'", head + "'z'\n'y'", head + "'z'\n''"])
    for beside in ("'x'\n'y'", "'x' -- 'z'\n'y'", "- 1", "(+ 1)", "DATE 'x'", "(1)::TEXT"):
        first, *others = (f"{head}{beside} AND b = {one} AND c = 'x'" for one in (1, 22, 3))
        _check(first, others)
    _check(
        "SELECT COUNT(*) FROM t WHERE a < 5 ORDER BY 1 LIMIT 3",
        [
            "SELECT COUNT(*) FROM t WHERE a < 6 ORDER BY 1 LIMIT 44",
            "SELECT COUNT(*) FROM t WHERE a < 7 ORDER BY 1 LIMIT 44",
            "SELECT COUNT(*) FROM t WHERE a < 88 ORDER BY 1 LIMIT 3",
        ],
    )


def test_only_so_many_shapes_are_kept() -> None:
    head = "SELECT COUNT(*) FROM t WHERE"
    for at in range(shapes._KEPT + 3):
        for number in (1, 2, 3):
            parse(f"{head}{' ' * (at + 1)}c = {number}")
        parse(f"SELECT{' ' * (at + 1)}COUNT(*) FROM t WHERE c = 1")
    assert len(shapes._READ) == len(shapes._LOOSE) == len(shapes._LAST) == shapes._KEPT
    found = [len(name.split("WHERE")[1].split("\2")[0]) for name, _ in shapes._READ]
    assert found == list(range(4, shapes._KEPT + 4))
    parse(f"SELECT COUNT(*) FROM t WHERE long IN ({', '.join('1' * 4000)})")  # would take 1 MiB
    assert not any("long" in name for name in shapes._LOOSE)
