"""Errors say what was charged, quote the analyst, and never the data."""

from __future__ import annotations

import pytest

from dpsql.errors import BudgetExceeded, InternalError, Refused, SourceError, UsageError
from dpsql.release import Cost
from dpsql.surfaces import faults

SQL = "SELECT MIN(age) FROM adult"
MIN = Refused("MIN reveals one person's value", hint="a quantile", sql=SQL, start=7, end=15)
PAID = Cost(0.0008, 0.171, 1e-6)


def test_a_refusal_points_at_the_construct() -> None:
    assert faults.text(MIN, None, None) == (
        "refused: MIN reveals one person's value\n"
        "  SELECT MIN(age) FROM adult\n"
        "         ^^^^^^^^\n"
        "write instead: a quantile\n"
        "nothing was charged"
    )


@pytest.mark.parametrize("width", [30, 40, 80, None])
def test_the_caret_stands_below_its_construct_at_any_width(width: int | None) -> None:
    sql = "SELECT '日本', COUNT(*),\n\t" + "age + " * 60 + "MIN(age)" + " + age" * 60
    start = sql.index("MIN")
    line, carets = faults.quote(Refused("no", sql=sql, start=start, end=start + 8), width or 160)
    assert line[carets.index("^") : len(carets)] == "MIN(age)"
    assert len(line) <= (width or 160)


def test_the_caret_knows_wide_characters() -> None:
    sql = "SELECT '日本', MIN(age)"
    line, carets = faults.quote(Refused("no", sql=sql, start=13, end=21), 80)
    assert line == "  " + sql
    assert len(carets.rstrip("^")) == 2 + 13 + 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MIN, 1),
        (UsageError("x"), 2),
        (SourceError("x"), 3),
        (BudgetExceeded("x"), 4),
        (InternalError("x"), 70),
        (ZeroDivisionError("secret"), 70),
        (MemoryError(), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert faults.code(error) == code


def test_an_unknown_error_is_named_and_not_quoted() -> None:
    shown = faults.text(ValueError("secret 'n77'"), PAID, None)
    assert "ValueError" in shown and "secret" not in shown
    assert shown.endswith("charged ε 0.171 (ρ 0.000800) for the statement")


def test_an_interruption_says_what_was_charged() -> None:
    assert faults.text(KeyboardInterrupt(), None, None) == "interrupted: nothing was charged"
    assert "charged ε 0.171" in faults.text(KeyboardInterrupt(), PAID, None)


def test_a_trace_for_analysts_has_no_messages() -> None:
    secrets = ["n77", "n78"]

    def failing() -> None:
        try:
            raise ValueError(secrets[0])
        except ValueError as error:
            raise RuntimeError(secrets[1]) from error

    with pytest.raises(RuntimeError) as caught:
        failing()
    shown = faults.trace(caught.value, owner=False)
    assert "ValueError" in shown and "in failing" in shown
    assert not any(secret in shown for secret in secrets)
    assert all(secret in faults.trace(caught.value, owner=True) for secret in secrets)


def test_an_escape_sequence_is_shown_and_not_obeyed() -> None:
    sql = "SELECT \x1b[31mx"
    shown = faults.text(Refused("no column \x1b", sql=sql, start=7, end=12), None, 80)
    assert "\x1b" not in shown
