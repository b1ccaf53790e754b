"""Synopses that learn as in the textbook: one count at a time, by a step; Laplace gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.accounting.kept import synopses
from dpsql.errors import BudgetExceeded, UsageError
from dpsql.mechanisms.synopses.steps import STEPS
from dpsql.session import Session
from dpsql.session.synopses import picked as picking
from tests.session.synopses.test_synopsis import COLUMNS, NOT_TOLD, filled, opened, spent, within

FAR = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"
NEAR_IT = f"{FAR} AND age < 9"
ASKED = {"backend": "synopsis"}


@pytest.fixture
def uneven(town: Any) -> Iterator[Session]:
    """Sex follows from region: a distribution of single columns is far off."""
    with opened(town, filled(town, "b", "i % 4 < 2", "i % 4")) as found:
        yield found


def made(session: Session, **given: Any) -> None:
    session.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4, **given)


@pytest.mark.parametrize("gate", ["exponential", "laplace"])
def test_what_its_guesses_will_promise_is_said_before_it_is_bought(
    uneven: Session, gate: Any
) -> None:
    given = {"rho": 1.0, "method": "pmw", "ways": 1, "updates": 4, "gate": gate}
    told = [uneven.synopses.create("main", COLUMNS, explain=True, **given)]
    told.append(uneven.synopses.create("main", COLUMNS, **given))
    guess = uneven.answer("SELECT COUNT(*) FROM town WHERE age < 5 AND smoker", backend="synopsis")
    most = round(guess.high[0][0] - guess.rows[0][0])
    assert "let pass, together" in guess.notes[-1]
    for each in told:
        assert f"off by {most:,} rows at most" in each.notes[0]
        assert "4 that are far off may be bought, at ε 2.21 (ρ 0.106) each" in each.notes[0]
    plain = uneven.synopses.create("plain", COLUMNS, rho=0.1)
    assert not any("may be bought" in note for note in plain.notes)


@pytest.mark.parametrize("step", STEPS)
def test_a_guess_that_is_far_off_is_measured_alone_and_stepped_towards(
    uneven: Session, step: str
) -> None:
    """A step of half the threshold moves a guess by less than a whole table does."""
    made(uneven, step=step)
    before = uneven.answer(NEAR_IT, strict=False, **ASKED).rows[0][0]
    paid = spent(uneven)
    plan = uneven.explain(FAR, **ASKED)
    assert any("buys its answer for ε 2.21 (ρ 0.106) more" in n for n in plan.notes)
    found = uneven.answer(FAR, **ASKED)
    assert abs(found.rows[0][0] - 5000) < 100 and within(found)
    assert any("it was measured, and synopsis main has learnt it" in n for n in found.notes)
    (synopsis,) = uneven.synopses.listed()
    assert (synopsis.step, synopsis.updates, len(synopsis.charges)) == (step, 3, 2)
    assert all(len(names) == 1 for names in synopsis.sets)
    assert found.charged is not None
    assert spent(uneven) - paid == round(found.charged.rho * 1e12) <= synopsis.rho + 1
    paid = spent(uneven)
    again = uneven.answer(FAR, **ASKED)
    assert again.rows == found.rows and spent(uneven) == paid
    after = uneven.answer(NEAR_IT, strict=False, **ASKED).rows[0][0]
    assert abs(before - 2250) < 100
    assert after > 1.7 * before if step == "projection" else before < after < 1.1 * before


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_another_process_takes_the_same_steps(
    uneven: Session, town: Any, step: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, where the ledger has not kept what came of them."""
    made(uneven, step=step)
    for age in (3, 4, 5):
        uneven.answer(f"{FAR} AND age <> {age}", **ASKED)
    said = [uneven.answer(sql, strict=False, **ASKED).rows for sql in (NEAR_IT, NOT_TOLD)]
    if not kept:
        monkeypatch.setattr(synopses.Synopses, "fit", lambda *_: None)
    with opened(town, uneven.database) as other:
        again = [other.answer(sql, strict=False, **ASKED).rows for sql in (NEAR_IT, NOT_TOLD)]
    assert again == said


def test_several_counts_at_once_are_bought_and_teach_nothing(uneven: Session) -> None:
    made(uneven, step="exponential")
    several = "SELECT sex, region, COUNT(*) AS n FROM town GROUP BY ALL"
    found = uneven.answer(several, rho=0.01, **ASKED)
    assert "from one count at a time, so this was bought" in found.notes[0]
    assert len(uneven.synopses.listed()[0].charges) == 1


@pytest.mark.parametrize("step", ["tables", "projection"])
def test_a_laplace_gate_is_spent_after_the_guesses_that_it_promises_for(
    town: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picking, "QUESTIONS", 3)
    path = filled(town, "a", "i * 31 // 11 % 2 = 0", "i * 17 // 13 % 4")
    with opened(town, path) as session:
        made(session, step=step, gate="laplace")
        for age in range(7):
            sql = f"SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND age = {age}"
            found = session.answer(sql, **ASKED)
            assert found.backend == "synopsis" and within(found)
        gates = [e for e in session.ledger.log("alice") if "GATE" in e.statement]
        assert len(gates) == 3, "of three guesses, three, and one"
        assert all(e.event is not None and e.event["noise"] == "laplace" for e in gates)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"step": "slow", "method": "pmw"}, "step is one of tables, exponential"),
        ({"gate": "gaussian", "method": "pmw"}, "gate is one of exponential, laplace"),
        ({"step": "projection"}, "step and gate are of method pmw"),
        ({"gate": "laplace", "method": "marginals"}, "step and gate are of method pmw"),
    ],
)
def test_what_other_methods_do_not_know_is_refused(
    uneven: Session, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        uneven.synopses.create("main", COLUMNS, rho=0.1, **given)
    assert spent(uneven) == 0


@pytest.mark.parametrize("step", ["tables", "exponential"])
def test_no_gate_is_bought_where_what_a_far_guess_buys_cannot_be(
    uneven: Session, town: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where another process spends what was left meanwhile, the error tells of the gate."""
    town.ledger.grant("carol", dataset="town", epsilon=10.0)
    with opened(town, uneven.database, "carol") as carol:
        given = {"rho": 0.1, "updates": 1, "method": "pmw", "ways": 1, "step": step}
        carol.synopses.create("main", COLUMNS, **given)
        (found,) = carol.synopses.listed()
        before = town.ledger.balance("carol", "town")
        left = before.grant.rho - before.spent_rho - found.rho // 2 - 10**7
        carol.answer("SELECT age, COUNT(*) FROM town GROUP BY 1", rho=left / 1e12, reuse=False)
        paid = spent(carol)
        plan = carol.explain(NEAR_IT, backend="synopsis", rho=1e-6)
        plain = carol.answer(NEAR_IT, backend="synopsis", rho=1e-6)
        assert plain.backend == plan.backend == "gaussian" and spent(carol) - paid == 10**6
        assert "too little is left for all that it may come to" in plain.notes[0]
        with pytest.raises(BudgetExceeded):
            carol.answer(FAR, backend="synopsis", rho=0.4)
        assert spent(carol) - paid == 10**6 and carol.last_charge is None
        monkeypatch.setattr(picking, "_affordable", lambda *_: True)
        paid = spent(carol)
        with pytest.raises(BudgetExceeded) as told:
            carol.answer(FAR, backend="synopsis")
        gate = spent(carol) - paid
        assert gate > 0 and carol.last_charge is not None
        assert round(carol.last_charge.rho * 1e12) == gate
        assert "nothing was charged for this part of the statement" in str(told.value)
        assert str(told.value).endswith(f"charged {carol.last_charge} for the statement")
        with pytest.raises(BudgetExceeded) as told:  # that gate is closed, and none is paid
            carol.answer(FAR, backend="synopsis")
        assert carol.last_charge is None and "for this part" not in str(told.value)


def test_what_reading_several_lessons_and_a_gate_take_is_told_to_the_last_digit(
    town: Any, uneven: Session
) -> None:
    """Lessons about different people cost less together than each by itself; purses are shared."""
    for user in ("bob", "team"):
        town.ledger.grant(user, dataset="town", epsilon=20.0)
    town.ledger.join("bob", "team", dataset="town")
    made(uneven, step="exponential")
    for sex, region in (("male", "N"), ("female", "S")):
        far = f"SELECT COUNT(*) FROM town WHERE sex = '{sex}' AND region = '{region}'"
        assert "has learnt it" in str(uneven.answer(far, **ASKED).notes)
    with opened(town, uneven.database, "bob") as bob:
        told = []
        for _ in range(2):
            sql = "SELECT COUNT(*) AS n FROM town WHERE age = 3 AND smoker"
            plan, found = bob.explain(sql, **ASKED), bob.answer(sql, **ASKED)
            assert plan.backend == found.backend == "synopsis"
            assert plan.charged == found.charged and plan.after == found.left
            told.append(found)
        assert told[0].charged.rho > 0.0 == told[1].charged.rho
        assert any("read what" in note for note in told[0].notes)
