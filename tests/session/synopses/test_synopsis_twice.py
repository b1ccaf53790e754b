"""What a synopsis has nothing to say of costs nothing to find out, and is said again as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpsql.curator.gate import Gate
from dpsql.errors import BudgetExceeded, UsageError
from dpsql.mechanisms.synopses import entropy
from dpsql.mechanisms.synopses.verifier import QUESTIONS
from dpsql.query.linear import Workload
from dpsql.session import Session
from dpsql.session.synopses import held
from tests.session.synopses.test_synopsis import COLUMNS, NOT_TOLD, TOLD, filled, opened, spent


@pytest.fixture
def path(town: Any) -> Any:
    return filled(town, "a", "i * 31 // 11 % 2 = 0", "i * 17 // 13 % 4")


@pytest.fixture
def session(town: Any, path: Any) -> Iterator[Session]:
    with opened(town, path) as found:
        yield found


def test_a_reader_pays_nothing_for_a_synopsis_that_is_not_accurate_enough(
    session: Session, town: Any, path: Any
) -> None:
    session.synopses.create("main", COLUMNS, rho=0.001)
    town.ledger.grant("bob", dataset="town", epsilon=100.0)
    with opened(town, path, "bob") as bob:
        asked = {"backend": "synopsis", "accuracy": 10}
        plan = bob.explain(TOLD, **asked)
        found = bob.answer(TOLD, **asked)
        assert plan.charged == found.charged and "not as accurate" in found.notes[0]
        entries = list(town.ledger.log("bob"))
        assert [e.statement for e in entries if e.statement] == [TOLD], (
            "bought, and nothing read for it"
        )
        again = bob.answer(TOLD, **asked)
        assert again.charged is not None and again.charged.rho == 0
        assert (again.rows, again.low, again.high) == (found.rows, found.low, found.high)


@pytest.mark.parametrize("method", ["marginals", "pmw"])
def test_what_was_bought_beside_a_synopsis_is_said_again_as_it_was(
    session: Session, method: str
) -> None:
    session.synopses.create("main", COLUMNS, rho=0.001, method=method)
    for sql in (TOLD, "SELECT COUNT(*) AS n FROM town WHERE age < 3", NOT_TOLD):
        first = session.answer(sql, backend="synopsis", accuracy=12)
        assert "so this was bought" in first.notes[0]
        before = spent(session)
        again = session.answer(sql, backend="synopsis", accuracy=12)
        assert (again.rows, again.low, again.high) == (first.rows, first.low, first.high)
        # asked in another way it may learn from the synopsis what was bought without it
        others = [session.answer(sql, backend="synopsis") for _ in range(2)]
        assert others[0].rows == others[1].rows and spent(session) == before
        for told, alone in zip(others[0].stderr, first.stderr, strict=True):
            assert told[-1] is not None and told[-1] <= alone[-1] * (1 + 1e-9)


def test_explain_names_a_synopsis_beside_what_would_be_bought(
    session: Session, town: Any, path: Any
) -> None:
    plan = session.explain(NOT_TOLD)
    assert all(c.backend != "synopsis" for c in plan.candidates)
    session.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1)
    town.ledger.grant("bob", dataset="town", epsilon=100.0)
    with opened(town, path, "bob") as bob:
        plan = bob.explain(NOT_TOLD)
        (offered,) = [c for c in plan.candidates if c.backend == "synopsis"]
        assert plan.backend != "synopsis" and "SET backend = synopsis" in plan.notes[-1]
        assert "off at most, all together, and no standard error" in plan.notes[-2]
        named = bob.explain(NOT_TOLD, backend="synopsis")
        assert (named.charged, named.backend) == (offered.charged, "synopsis")
        assert offered == named.candidates[0]
        found = bob.answer(NOT_TOLD, backend="synopsis")
        assert found.charged == offered.charged
    narrow = session.explain(NOT_TOLD, accuracy=2)
    assert "gate is not as accurate as was asked" in narrow.notes[-1]


def test_threads_ask_one_gate_of_a_session(session: Session) -> None:
    """Guesses that are near pass the gate that the first of them bought, whoever asks."""
    session.synopses.create("main", COLUMNS, rho=20.0, method="pmw", ways=1, updates=10)
    failures = []

    def ask(age: int) -> None:
        try:
            sql = f"{NOT_TOLD} AND age <> {age}"
            for _ in range(3):
                session.answer(sql, backend="synopsis")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(age,)) for age in range(5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum("GATE OF SYNOPSIS" in e.statement for e in session.ledger.log("alice")) == 1


def test_threads_whose_guesses_are_far_off_learn_each_table_once(town: Any, crowd: Any) -> None:
    """A gate that one thread closes is bought anew by the next, and nothing is learnt twice."""
    path = filled(town, "b", "i % 2 = 0", "i % 4")  # region tells sex, and no table has both
    with opened(town, path) as session:
        session.synopses.create("main", ["sex", "region"], rho=50.0, method="pmw", ways=1)
        failures = []

        def ask(region: str) -> None:
            try:
                sql = f"SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = '{region}'"
                session.answer(sql, backend="synopsis")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=ask, args=(region,)) for region in "NESW"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        (synopsis,) = session.synopses.listed()
        assert len(synopsis.charges) == 2, "the first tables, and the one that was learnt"


def test_a_reader_pays_all_that_a_statement_comes_to_or_nothing(town: Any) -> None:
    """Reading would fit; with the gate and the table that a far guess buys it does not."""
    far = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"
    with opened(town, filled(town, "b", "i % 4 < 2", "i % 4")) as alice:
        alice.synopses.create("main", COLUMNS, rho=0.2, method="pmw", ways=1, updates=2)
        (made,) = alice.synopses.listed()
    warm = 0.2e12 - 2 * made.rho
    town.ledger.grant("bob", dataset="town", epsilon=1.65)
    with opened(town, alice.database, "bob") as bob:
        left = town.ledger.balance("bob", "town").grant.rho
        assert warm < left < warm + made.rho
        plan = bob.explain(far, backend="synopsis", rho=1e-3)
        told = bob.answer(far, backend="synopsis", rho=1e-3)
        assert told.backend == plan.backend == "gaussian" and spent(bob) <= 10**9
        assert "too little is left" in told.notes[0]
        with pytest.raises(BudgetExceeded):
            bob.answer(f"{far} AND age = 2", backend="synopsis", rho=1.0)
        assert spent(bob) <= 10**9
        first = bob.answer("SELECT COUNT(*) AS n FROM town WHERE age = 1", backend="synopsis")
        assert first.backend == "synopsis" and spent(bob) > 0.9 * warm


def test_a_fit_that_stopped_early_is_told(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = session.synopses.create("one", COLUMNS, rho=0.1)
    assert not any("stopped early" in note for note in told.notes)
    monkeypatch.setattr(
        entropy.fitted, "__kwdefaults__", {**entropy.fitted.__kwdefaults__, "steps": 1}
    )
    made = session.synopses.create("two", ["sex", "region", "month"], rho=0.1)
    assert any("stopped early, in the mean" in note for note in made.notes)
    sql = "SELECT sex, month, COUNT(*) AS n FROM town GROUP BY ALL"
    assert any("stopped early" in note for note in session.answer(sql, backend="synopsis").notes)
    assert any("stopped early" in note for note in session.synopses.export("two", 10).notes)
    session._learned.fits.clear()  # as another process reads what was kept
    assert any("stopped early" in note for note in session.answer(sql, backend="synopsis").notes)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_guesses_of_a_statement_pass_one_gate_together(
    noise: Any, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one gate promises holds for all its guesses at once; what two promise does not."""
    session.synopses.create("main", COLUMNS, rho=20.0, method="pmw", ways=1, gate=noise)
    asked: list[tuple[Gate, bool]] = []
    far = [False]

    def exceeds(gate: Gate, *given: object) -> bool:
        asked.append((gate, far[0]))
        return far[0]

    def guessed(state: object, workload: Workload) -> list[Any]:
        return [np.full((block.groups, len(block.weights)), 400.0) for block in workload.blocks]

    monkeypatch.setattr(Gate, "exceeds", exceeds)
    monkeypatch.setattr(held, "answers", guessed)  # the same after it has learnt
    both = "SELECT sex, COUNT(*) AS n FROM town WHERE region = 'N' AND age < 5 GROUP BY sex"
    winners = f"{both} HAVING COUNT(*) > 10"
    session.answer(NOT_TOLD, backend="synopsis")  # one of both
    session.answer(both, backend="synopsis")
    assert len(asked) == 2 and len({gate for gate, _ in asked}) == 1  # the other one was asked
    session.answer(winners, backend="synopsis")
    assert len(asked) == 2
    far[0] = True
    session.answer("SELECT COUNT(*) FROM town WHERE smoker AND age < 3", backend="synopsis")
    far[0] = False
    session.answer(NOT_TOLD, backend="synopsis")
    session.answer(winners, backend="synopsis")
    assert len(asked) == 3  # what passed one gate together stays what it was
    session.answer(NOT_TOLD.replace("'N'", "'E'"), backend="synopsis")
    regions = "SELECT region, COUNT(*) AS n FROM town WHERE sex = 'male' AND age < 5 AND region"
    session.answer(f"{regions} IN ('N', 'E') GROUP BY region", backend="synopsis")
    assert len(asked) == 5 and asked[3][0] is asked[4][0] is not asked[0][0]
    if noise == "laplace":  # whose promise is about so many guesses: it is spent before the last
        for known in session._learned.gates.values():
            known.asked = QUESTIONS - 1
        again = f"{regions} IN ('N', 'E') GROUP BY region ORDER BY n LIMIT 1"
        session.answer(again, backend="synopsis")
        assert len(asked) == 5  # both have passed one
        session.answer(both.replace("'N'", "'S'"), backend="synopsis")
        assert len(asked) == 7 and asked[5][0] is asked[6][0] is not asked[4][0]


@pytest.mark.parametrize("method", ["pmw", "marginals"])
def test_a_synopsis_that_is_paid_for_goes_before_one_that_would_be_read(
    town: Any, method: str
) -> None:
    """Of two alike one's own is asked, however they are called; who has read one asks that."""
    path = filled(town, "a", "i * 31 // 11 % 2 = 0", "i * 17 // 13 % 4")
    for user in ("bob", "carol"):
        town.ledger.grant(user, dataset="town", epsilon=100)
    with opened(town, path, "bob") as bob, opened(town, path, "carol") as carol:
        bob.synopses.create("beta", COLUMNS, method=method, rho=0.1)
        carol.answer(TOLD, backend="synopsis")
        bob.synopses.create("alpha", COLUMNS, method=method, rho=0.1)
        free = carol.answer(NOT_TOLD, backend="synopsis", strict=False)
        assert free.charged is not None and free.charged.rho == 0
        with opened(town, path) as alice:
            alice.synopses.create("zeta", COLUMNS, method=method, rho=0.1)
            found = alice.answer(NOT_TOLD, backend="synopsis")
            assert not any("read what bob bought" in note for note in found.notes)
            assert any("zeta" in note for note in found.notes)


def test_where_there_is_none_no_columns_are_named_for_all_rows(town: Any, crowd: Any) -> None:
    path, found = town.database("a", crowd(40, 1)), "that alice may ask: there is none"
    with opened(town, path) as session, pytest.raises(UsageError, match=found):
        session.answer("SELECT COUNT(*) FROM town", backend="synopsis")
