"""Gates that would be waste are not asked: what released tables say of a synopsis' guesses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.release import Release
from dpsql.session import Session
from dpsql.session.synopses.bypass import Record
from tests.session.synopses.test_synopsis import COLUMNS, opened, within

ASKED = {"backend": "synopsis"}
ALL = [*COLUMNS, "month"]
APART = [
    "sex = 'male' AND region = 'N'", "age = 0 AND smoker", "sex = 'male' AND age = 0",
    "month = 1 AND smoker",
]  # fmt: skip
LINKED = "region = 'N' AND age = 0"


def tied(town: Any, people: int = 20_000) -> Path:
    """All columns follow from one: guesses of single columns are far off, all of them."""
    path: Path = town.database("tied", [])
    with duckdb.connect(str(path)) as made:
        made.execute(
            "INSERT INTO people SELECT CASE WHEN i % 2 = 0 THEN 'male' ELSE 'female' END,"
            " 'NS'[1 + i % 2], i % 2, 1 + i % 2, i % 2 = 0"
            f" FROM (SELECT range::INT AS i FROM range({people}))"
        )
    return path


def asked(session: Session) -> list[Release]:
    session.synopses.create("main", ALL, rho=1.0, method="pmw", ways=1, updates=6)
    listed = [*APART, LINKED]
    return [session.answer(f"SELECT COUNT(*) AS n FROM town WHERE {w}", **ASKED) for w in listed]


def gates(session: Session) -> int:
    return sum("GATE" in entry.statement for entry in session.ledger.log(session.user))


def test_after_two_tables_no_more_gates_are_asked_in_vain_and_answers_are_as_good(
    town: Any,
) -> None:
    """One for each question would be five."""
    with opened(town, tied(town)) as session:
        told = asked(session)
        straight = [any("so none was" in note for note in each.notes) for each in told]
        assert straight == [False, False, True, True, False]
        assert all(abs(each.rows[0][0] - 10_000) < 200 and within(each) for each in told)
        assert gates(session) == 3 and len(session.synopses.listed()[0].charges) in (5, 6)


def test_explain_foretells_it(town: Any) -> None:
    with opened(town, tied(town)) as session:
        session.synopses.create("main", ALL, rho=1.0, method="pmw", ways=1, updates=6)
        for where in APART[:3]:
            sql = f"SELECT COUNT(*) AS n FROM town WHERE {where}"
            before = session.ledger.dump()
            plan = session.explain(sql, **ASKED)
            assert session.ledger.dump() == before
            told = session.answer(sql, **ASKED)
        assert any("so none was: the whole table of age, sex is measured" in n for n in plan.notes)
        assert (plan.backend, plan.charged, plan.price) == (told.backend, told.charged, told.price)
        assert plan.stderr[0][0] == pytest.approx(told.stderr[0][0])


def test_what_is_predicted_is_the_error_of_guesses_beyond_the_noise() -> None:
    """By 400 tables of cells that err by 30 % of themselves, and noise as large."""
    draw, record = np.random.default_rng(3), Record()
    for _ in range(400):
        guesses = draw.uniform(0, 1000, (20, 1))
        noisy = guesses * (1 + 0.3 * draw.choice([-1, 1], (20, 1))) + draw.normal(0, 200, (20, 1))
        record.learn([guesses], [noisy], 200.0**2)
    assert record.ratio == pytest.approx(0.3, rel=0.1)


def test_little_evidence_and_guesses_that_passed_speak_against_it() -> None:
    record, guesses = Record(), [np.full((2, 1), 100.0)]
    record.learn(guesses, [np.array([[0], [200]])], 0.0)
    assert record.ratio == 0
    record.learn(guesses, [np.array([[0], [200]])], 0.0)
    assert record.ratio == 1
    for guess in (10, 35, 30, 50, 19):
        assert record.ratio == 1 or guess == 19
        record.spare(guess, 10)
    assert record.ratio == 0
    for _ in range(1024):  # those are forgotten, and these say nothing
        record.spare(11, 10)
    assert record.ratio == 1
