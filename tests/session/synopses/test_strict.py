"""Guesses that nothing verified: shown where strict = off, free, and never with an interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.session import Session
from tests.session.synopses.test_synopsis import COLUMNS, NOT_TOLD, TOLD, filled, opened, spent

SHOWN = {"backend": "synopsis", "strict": False}
ASKED = [
    NOT_TOLD,
    "SELECT sex, AVG(age) AS mean, SUM(age) AS total,"
    " COUNT(*) FILTER (WHERE smoker AND region = 'N') AS n FROM town"
    " WHERE region <> 'S' AND age > 2 GROUP BY sex",
]


@pytest.fixture
def session(town: Any) -> Iterator[Session]:
    path = filled(town, "a", "i * 31 // 11 % 2 = 0", "i * 17 // 13 % 4")
    with opened(town, path) as found:
        found.synopses.create("main", COLUMNS, rho=20.0, method="pmw", ways=1)
        yield found


@pytest.mark.parametrize("sql", ASKED)
def test_a_guess_is_free_and_has_no_error(session: Session, sql: str) -> None:
    before = spent(session)
    plan = session.explain(sql, **SHOWN)
    found = session.answer(sql, **SHOWN)
    assert spent(session) == before
    assert plan.charged == found.charged and found.charged is not None
    assert found.charged.rho == 0 and plan.backend == found.backend == "synopsis"
    for lines in (found.stderr, found.low, found.high, plan.stderr):
        assert all(cell is None for line in lines for cell in line)
    assert any(found.noisy) and any("not verified" in note for note in (*found.notes, *plan.notes))
    assert plan.candidates[0].rmse == math.inf
    json.dumps([plan.to_dict(), found.to_dict()], allow_nan=False)
    assert session.answer(sql, **SHOWN).rows == found.rows


def test_guesses_are_what_the_distribution_says(session: Session) -> None:
    """Single columns were measured well, and have hardly to do with each other."""
    (row,) = session.answer(NOT_TOLD, **SHOWN).rows
    assert row[0] == pytest.approx(20_000 / 2 / 4 / 2, rel=0.05)
    shown = session.answer(ASKED[1], **SHOWN)
    for _, mean, total, _ in shown.rows:
        assert mean == pytest.approx(6.0, rel=0.05)
        assert total == pytest.approx(6.0 * 20_000 * 3 / 4 / 2 * 7 / 10, rel=0.05)


def test_what_tables_tell_keeps_its_interval(session: Session) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    assert session.answer(sql, **SHOWN) == session.answer(sql, backend="synopsis")


def test_an_accuracy_is_never_met_by_a_guess(session: Session) -> None:
    found = session.answer(TOLD, accuracy=100, **SHOWN)
    assert found.low[0][2] is not None and not any("not verified" in n for n in found.notes)


def test_strict_is_on_unless_it_is_put_off(session: Session) -> None:
    found = session.answer(NOT_TOLD, backend="synopsis")
    assert found.low[0][0] is not None
