"""What goes wrong after a charge says what was charged, and nothing else; each call its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.curator.curator import Curator
from dpsql.errors import BudgetExceeded, Error, InternalError, LedgerError, SourceError
from dpsql.session import Session, build, tell
from dpsql.surfaces import dbapi

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
s = {type = "category", values = ["x", "y"]}
"""
SQL = "SELECT s, COUNT(*) AS n, AVG(a) AS m FROM t GROUP BY s HAVING COUNT(*) > -1e6 ORDER BY n"
SECRET = "4711 Petulengro"

# every step of an answer after the charge, by the name that it is called by
STEPS = [
    (Curator, "_noisy"),
    (Curator, "_cells"),
    (build, "_level"),
    (build, "estimate"),
    (build, "finish"),
    (build, "_answers"),
    (build, "_column"),
    (build, "_errors"),
    (build, "Release"),
    (tell, "budget"),
]
ERRORS = [
    ValueError(SECRET),
    ZeroDivisionError(SECRET),
    RecursionError(SECRET),
    MemoryError(SECRET),
    AssertionError(SECRET),
    duckdb.InvalidInputException(SECRET),
    OSError(5, SECRET),
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i % 10 AS a, 'x' AS s FROM range(100) AS r(i)")
    (tmp_path / "t.toml").write_text(SCHEMA)
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="t", epsilon=10)
    with Session(tmp_path / "t.duckdb", user="ann", ledger=ledger) as found:
        yield found


def failing(patch: pytest.MonkeyPatch, step: tuple[Any, str], error: BaseException) -> None:
    """Have one step work as always the first `budget` calls need, and then fail."""
    owner, name = step
    usual = getattr(owner, name)

    def fails(*given: Any, **named: Any) -> Any:
        if (owner, name) == (tell, "budget") and not taken:
            return usual(*given, **named)
        raise error

    taken: list[Any] = []
    measure = Curator.measure

    def measured(*given: Any, **named: Any) -> Any:
        taken.append(1)
        return measure(*given, **named)

    patch.setattr(Curator, "measure", measured)
    patch.setattr(owner, name, fails)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("step", STEPS, ids=lambda s: s[1])
def test_an_error_after_the_charge_is_ours_and_names_the_charge_alone(
    step: tuple[Any, str], error: Exception, session: Session
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, step, error)
        with pytest.raises(Error) as caught:
            session.answer(SQL, rho=0.01)
    spent = session.ledger.balance("ann", "t").spent_rho / 1e12
    assert session.last_charge is not None and session.last_charge.rho == spent > 0
    assert f"charged {session.last_charge} for the statement" in str(caught.value)
    assert "charged" in caught.value.to_dict()["message"]
    for told in chain(caught.value):
        assert "Petulengro" not in f"{told} {told!r} {told.args}"
    assert session.answer(SQL, rho=0.01).charged is not None


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s[1])
def test_an_interrupt_after_the_charge_names_the_charge(
    step: tuple[Any, str], session: Session
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, step, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt) as caught:
            session.answer(SQL, rho=0.01)
    assert session.last_charge is not None
    assert caught.value.__notes__ == [f"charged {session.last_charge} for the statement"]


def test_what_fails_before_the_charge_names_none(session: Session) -> None:
    with pytest.raises(BudgetExceeded) as dear:
        session.answer(SQL, rho=1000.0)
    assert session.last_charge is None and "for the statement" not in str(dear.value)
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, (Ledger, "charge"), ValueError(SECRET))
        with pytest.raises(InternalError, match="nothing was charged") as bug:
            session.answer(SQL, rho=0.01)
    assert "Petulengro" not in str(bug.value) and session.last_charge is None
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, (Curator, "measure"), SourceError("gone"))
        with pytest.raises(SourceError, match=r"^gone$"):
            session.answer(SQL, rho=0.01)
    assert session.ledger.balance("ann", "t").spent_rho == 0


def test_rows_that_cannot_be_shown_leave_the_answer_at_hand(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = dbapi.Connection(session)
    cursor = con.cursor()
    with monkeypatch.context() as patch:
        failing(patch, (dbapi, "sheet"), ValueError(SECRET))
        with pytest.raises(InternalError, match="charged ε") as caught:
            cursor.execute(SQL, rho=0.01)
    assert "Petulengro" not in str(caught.value)
    assert cursor.release.charged == session.last_charge and len(cursor.release.rows) == 2


# -- a receipt that does not come -------------------------------------------------------------


def cut_short(patch: pytest.MonkeyPatch, error: BaseException, *, paid: bool, other: bool) -> None:
    """Have a charge be made, or not, and its receipt get lost; and another call pay meanwhile."""
    charge = Ledger.charge

    def charged(ledger: Ledger, user: str, dataset: str, event: Any, **terms: Any) -> Any:
        if other:
            charge(ledger, user, dataset, event, **{**terms, "token": "another"})
        if paid:
            charge(ledger, user, dataset, event, **terms)
        raise error

    patch.setattr(Ledger, "charge", charged)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LedgerError("torn"), MemoryError()])
@pytest.mark.parametrize("paid", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_a_lost_receipt_is_looked_up_and_others_charges_are_left_out(
    error: BaseException, paid: bool, other: bool, session: Session
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        cut_short(patch, error, paid=paid, other=other)
        with pytest.raises((KeyboardInterrupt, Error)):
            session.answer(SQL, rho=0.01)
    charge = session.last_charge
    assert (charge is not None and 0 < charge.rho <= 0.01) if paid else charge is None


def test_an_identical_charge_of_another_call_is_not_taken_for_this_ones(session: Session) -> None:
    """The same statement, cheaper, before it; what is told is what this call paid."""
    charge = Ledger.charge

    def charged(ledger: Ledger, user: str, dataset: str, event: Any, **terms: Any) -> Any:
        charge(ledger, user, dataset, event, **terms)
        charge(ledger, user, dataset, cheaper, **{**terms, "footprint": None, "token": "other"})
        raise KeyboardInterrupt

    cheaper = Gaussian(1, Fraction(10**6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "charge", charged)
        with pytest.raises(KeyboardInterrupt):
            session.answer(SQL, rho=0.01)
    first = next(entry for entry in session.ledger.log("ann") if entry.kind == "charge")
    assert session.last_charge is not None
    assert session.last_charge.rho == first.charged.rho / 1e12


def test_a_ledger_that_cannot_be_read_afterwards_is_not_taken_for_no_charge(
    session: Session,
) -> None:
    def unread(*given: Any) -> Any:
        if broken:
            raise LedgerError("the ledger is gone")
        return balance(*given)

    broken: list[int] = []
    balance, charge = Ledger.balance, Ledger.charge

    def charged(*given: Any, **named: Any) -> Any:
        charge(*given, **named)
        broken.append(1)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "balance", unread)
        patch.setattr(Ledger, "charge", charged)
        with pytest.raises(KeyboardInterrupt) as caught:
            session.answer(SQL, rho=0.01)
    assert "does not tell whether" in caught.value.__notes__[0]


# -- threads ----------------------------------------------------------------------------------


def test_each_thread_reads_the_charge_of_its_own_call(session: Session) -> None:
    """Eight calls at once, at prices of their own, every other one failing after its charge."""
    meet = threading.Barrier(8, timeout=60)
    found: dict[int, tuple[float, float, str]] = {}

    def assembled(*given: Any, **named: Any) -> Any:
        meet.wait()
        if threading.current_thread().name.endswith("odd"):
            raise ValueError(SECRET)
        return done(*given, **named)

    def ask(number: int) -> None:
        price, words = 0.001 * (number + 1), ""
        try:
            session.answer(SQL, rho=price)
        except InternalError as error:
            words = str(error)
        meet.wait()  # all have answered before any looks
        assert session.last_charge is not None
        found[number] = price, session.last_charge.rho, words

    done = build.finish
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "finish", assembled)
        threads = [
            threading.Thread(target=ask, args=(n,), name=f"{n} {'odd' if n % 2 else 'even'}")
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == list(range(8))
    for number, (price, paid, words) in found.items():
        assert paid == pytest.approx(price, rel=1e-6)
        assert ("charged" in words) == (number % 2 == 1)
        if words:
            shown = dpsql.release.figure(paid)
            assert f"(ρ {shown})" in words
    assert session.last_charge is None, "this thread has asked nothing"


def test_an_error_of_one_thread_never_names_what_another_paid(session: Session) -> None:
    """A source that fails before the charge, while another call pays from the same purse."""
    measure = Curator.measure

    def gone(*given: Any, **named: Any) -> Any:
        other = threading.Thread(target=session.answer, args=("SELECT COUNT(*) FROM t",))
        patch.setattr(Curator, "measure", measure)
        other.start()
        other.join()
        raise SourceError("gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curator, "measure", gone)
        with pytest.raises(SourceError, match=r"^gone$"):
            session.answer(SQL, rho=0.01)
    assert session.last_charge is None and session.ledger.balance("ann", "t").spent_rho > 0
