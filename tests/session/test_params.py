"""Statements and parameters as callers give them: what is wrong is said in words to act on."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import Refused, UsageError
from dpsql.session import Session

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
b = {type = "date", min = 2025-01-01, max = 2025-12-31}
c = {type = "category", values = ["x", "2025-02-03"]}
"""
ONE, TWO, NAMED = (
    "SELECT COUNT(*) FROM t WHERE a < ?",
    "SELECT COUNT(*) FROM t WHERE a < ? AND a > ?",
    "SELECT COUNT(*) FROM t WHERE a < $top AND a <> $top",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("params")
    with duckdb.connect(str(folder / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a, DATE '2025-02-03' AS b, 'x' AS c")
    (folder / "t.toml").write_text(SCHEMA)
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="t", epsilon=1_000_000)
    with Session(folder / "t.duckdb", user="ann", ledger=ledger) as found:
        yield found


@pytest.mark.parametrize("sql", [None, b"SELECT 1", 5, ["SELECT 1"], Path("x.sql")])
def test_a_statement_that_is_no_text_is_named_by_its_type(sql: Any, session: Session) -> None:
    for ask in (session.answer, session.explain):
        with pytest.raises(UsageError, match=rf"text \(str\), not {type(sql).__name__}"):
            ask(sql)


@pytest.mark.parametrize(
    ("sql", "params", "reason"),
    [
        (ONE, None, "the statement has 1 parameter, and no values were given"),
        (ONE, [], "the statement has 1 parameter, and no values were given"),
        (ONE, [1, 2], "the statement has 1 parameter, and 2 values were given"),
        (TWO, [1], "the statement has 2 parameters, and 1 value was given"),
        (TWO, (1, 2, 3), "the statement has 2 parameters, and 3 values were given"),
        ("SELECT COUNT(*) FROM t", [1], "the statement has no parameters, and 1 value was given"),
        (ONE, {"a": 1}, "there is no value for ?"),
        (NAMED, {"bottom": 1}, "there is no value for $top"),
        (NAMED, {"top": 1, "x": 2}, "there is a value for x, which the statement does not have"),
        (NAMED, [1], "there is no value for $top"),
        ("SELECT 1", [1], "the statement has no parameters, and 1 value was given"),
        ("SELECT ? + 1", [], "the statement has 1 parameter, and no values were given"),
        ("SELECT * FROM t LIMIT ?", [0, 0], "the statement has 1 parameter, and 2 values were"),
    ],
)
def test_values_that_do_not_answer_the_parameters_are_counted(
    sql: str, params: Any, reason: str, session: Session
) -> None:
    for ask in (session.answer, session.explain):
        with pytest.raises(Refused) as caught:
            ask(sql, params)
        assert caught.value.reason.startswith(reason) and caught.value.hint
    assert session.last_charge is None


@pytest.mark.parametrize(
    "condition",
    ["b > ?", "b = ?", "date_trunc('month', b) <= ?", "b + INTERVAL 1 DAY >= ?", "year(?) = 2025"],
)
def test_a_date_is_a_date(condition: str, session: Session) -> None:
    day = datetime.date(2025, 2, 3)
    sql = f"SELECT COUNT(*) FROM t WHERE {condition}"
    literal = session.explain(sql.replace("?", "DATE '2025-02-03'"))
    assert session.explain(sql, [day]).stderr == literal.stderr


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("a > ?", "date and number are mixed"), ("c = ?", "date and text are mixed")],
)
def test_a_date_is_no_number_and_no_text(condition: str, reason: str, session: Session) -> None:
    with pytest.raises(Refused, match=reason):
        session.answer(f"SELECT COUNT(*) FROM t WHERE {condition}", [datetime.date(2025, 2, 3)])


def test_a_missing_value_is_marked_at_its_parameter(session: Session) -> None:
    with pytest.raises(Refused) as caught:
        session.answer(TWO, [1])
    assert (caught.value.start, caught.value.end) == (TWO.rindex("?"), len(TWO))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "parameter 1 is nan"), (float("inf"), "parameter 1 is inf"),
        (-float("inf"), "parameter 1 is -inf"), (Decimal("NaN"), "parameter 1 is NaN"),
        (2**130, r"parameter 1 is beyond 2\^127"), ([1, 2], "one \\? for each of its values"),
        ({1, 2}, "one \\? for each of its values"), (object(), "parameter 1 is an object"),
        (np.array([1, 2]), "one \\? for each of its values"),
        (np.float64("nan"), "parameter 1 is nan"),
        (b"x", "parameter 1 is a bytes"), (datetime.datetime(2025, 1, 2), "give its text"),
    ],
)  # fmt: skip
def test_a_value_without_a_literal_is_refused_with_what_to_give(
    value: Any, words: str, session: Session
) -> None:
    with pytest.raises(UsageError, match=words):
        session.answer(ONE, [value])
    with pytest.raises(UsageError, match=words.replace("parameter 1", "parameter top")):
        session.answer(NAMED, {"top": value})


@pytest.mark.parametrize("params", [5, 1.5, "ab", b"ab", True, object()])
def test_parameters_that_are_no_list_are_refused(params: Any, session: Session) -> None:
    with pytest.raises(UsageError, match="parameters are a list or tuple"):
        session.answer(ONE, params)


def test_values_that_do_answer_are_used(session: Session) -> None:
    for sql, params in ((ONE, [5]), (TWO, (5, Decimal("0.5"))), (NAMED, {"top": 5})):
        assert len(session.answer(sql, params).rows) == 1
    assert session.answer("SELECT ? + 1", [2]).rows == ((3,),)
    assert len(session.answer("SELECT COUNT(*) FROM t WHERE a < $2 AND a > $1", [1, 5]).rows) == 1


class Number(int, enum.Enum):
    FIVE = 5


class Letter(str, enum.Enum):  # noqa: UP042
    X = "x"


@pytest.mark.parametrize(
    ("condition", "value", "literal"),
    [
        ("a < ?", np.int64(5), "5"), ("a < ?", np.uint8(5), "5"), ("a < ?", np.float64(5.5), "5.5"),
        ("a < ?", Number.FIVE, "5"), ("c = ?", np.str_("x"), "'x'"), ("c = ?", Letter.X, "'x'"),
        ("?", np.bool_(True), "true"), ("b > ?", np.datetime64("2025-03-01"), "DATE '2025-03-01'"),
        ("a < ?", np.array(5), "5"),
    ],
)  # fmt: skip
def test_scalars_of_numpy_and_members_of_enums_are_the_values_that_they_are(
    condition: str, value: Any, literal: str, session: Session
) -> None:
    """Each statement is new, so that none is known by what a value like it was compiled to; at
    epsilon 200 an answer is off by one with a chance of 1e-50."""
    name = f"n{abs(hash((condition, repr(value))))}"
    sql = f"SELECT COUNT(*) AS {name} FROM t WHERE {condition}"
    made = session.answer(sql, [value], epsilon=200)
    assert made.columns == (name,)
    assert session.answer(sql.replace("?", literal), epsilon=200).rows == made.rows
    [scripted] = session.run(sql.replace("?", "$x") + ";", {"x": value}, epsilon=200)
    assert scripted.rows == made.rows


def test_parameters_that_can_be_read_once_are_enough(session: Session) -> None:
    assert len(session.answer("SELECT COUNT(*) AS once FROM t WHERE a < ?", iter([5])).rows) == 1
