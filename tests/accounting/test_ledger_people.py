"""Charges with a footprint: what every book keeps of them."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpsql.accounting.book import Page
from dpsql.accounting.events import PICO
from dpsql.accounting.footprints import footprint, joint
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.ledger import Ledger, Receipt
from dpsql.accounting.purse import Price
from dpsql.accounting.seals.verify import accept, verify
from dpsql.errors import BudgetError, BudgetExceeded, LedgerError, UsageError
from tests.accounting.books.test_ledger_sqlite import OLD
from tests.accounting.people import about, gaussian, laplace


@pytest.fixture
def ledger(opener: Callable[[], Ledger]) -> Iterator[Ledger]:
    with opener() as opened:
        opened.grant("alice", dataset="adult", epsilon=1)
        yield opened


def pay(ledger: Ledger, code: int, rho: int = 10, user: str = "alice", when: str = "") -> Receipt:
    event = gaussian(rho)
    return ledger.charge(
        user,
        "adult",
        event,
        statement=f"SELECT {code}",
        footprint=about(event, "sex", code),
        snapshot=when,
    )


def spent(ledger: Ledger, user: str = "alice") -> int:
    return ledger.balance(user, "adult").spent_rho


def test_statements_about_disjoint_people_do_not_add_up(ledger: Ledger) -> None:
    first, second, third = pay(ledger, 0), pay(ledger, 1), pay(ledger, 1)
    assert [r.price.rho for r in (first, second, third)] == [10, 10, 10]
    assert [r.charged.rho for r in (first, second, third)] == [10, 0, 10]
    assert (second.before.spent_rho, second.after.spent_rho) == (10, 10)
    assert spent(ledger) == 20


def test_a_purse_holds_as_much_for_each_person(ledger: Ledger) -> None:
    whole = ledger.balance("alice", "adult").grant.rho
    for code in range(5):
        pay(ledger, code, whole - 1)
        pay(ledger, code, 1)
        with pytest.raises(BudgetExceeded):
            pay(ledger, code, 1)
    assert spent(ledger) == whole
    pay(ledger, 7, whole)


def test_a_rise_is_what_is_charged_to_the_last_digit(ledger: Ledger) -> None:
    draw = random.Random(5)
    for _ in range(40):
        event = gaussian(draw.randrange(1, 50))
        footprint = about(event, draw.choice("ab"), draw.randrange(3))
        when = draw.choice("xy")
        before = ledger.dump()
        asked = ledger.rise("alice", "adult", event, footprint=footprint, snapshot=when)
        assert ledger.dump() == before
        given = ledger.charge(
            "alice", "adult", event, statement="", footprint=footprint, snapshot=when
        )
        assert asked == given.rise


def test_a_rise_is_told_even_when_it_is_beyond_the_purse(ledger: Ledger) -> None:
    event = gaussian(PICO)
    assert ledger.rise("alice", "adult", event).charged == Price(PICO, None)
    with pytest.raises(BudgetExceeded):
        ledger.charge("alice", "adult", event, statement="")


def test_charges_without_a_footprint_count_for_everybody(ledger: Ledger) -> None:
    pay(ledger, 0)
    ledger.charge("alice", "adult", gaussian(5), statement="")
    assert pay(ledger, 1).charged.rho == 0
    assert pay(ledger, 0).charged.rho == 10
    assert spent(ledger) == 25


def test_a_changed_snapshot_adds(ledger: Ledger) -> None:
    pay(ledger, 0, when="march")
    assert pay(ledger, 1, when="april").charged.rho == 10
    assert pay(ledger, 2, when="april").charged.rho == 0
    assert pay(ledger, 2, when="march").charged.rho == 0
    assert spent(ledger) == 20


def test_pure_purses_add_person_by_person_too(ledger: Ledger) -> None:
    ledger.grant("bob", dataset="adult", epsilon=0.3, delta=0)
    event = laplace(10)
    for code in (0, 1, 2):
        for _ in range(3):
            ledger.charge("bob", "adult", event, statement="", footprint=about(event, "sex", code))
        assert ledger.balance("bob", "adult").left_epsilon == 0
        with pytest.raises(BudgetExceeded, match=r"costs ε=0.1, bob on adult has ε=0 left"):
            ledger.charge("bob", "adult", event, statement="", footprint=about(event, "sex", code))


def test_a_refusal_tells_the_rise_and_the_price(ledger: Ledger) -> None:
    whole = ledger.balance("alice", "adult").grant.rho
    pay(ledger, 0, whole - 4)
    pay(ledger, 1, 8)
    with pytest.raises(BudgetExceeded, match=r"costs ρ=0.000000000008 \(ε=.*\) \(alone ρ=0.0243"):
        pay(ledger, 1, whole - 4)


def test_a_refused_charge_leaves_no_trace(ledger: Ledger) -> None:
    pay(ledger, 0)
    before = ledger.dump()
    with pytest.raises(BudgetExceeded):
        pay(ledger, 1, PICO)
    assert ledger.dump() == before
    assert pay(ledger, 1).charged.rho == 0
    assert pay(ledger, 1).charged.rho == 10


def test_the_log_says_who_lost_what(ledger: Ledger) -> None:
    pay(ledger, 0, when="march")
    pay(ledger, 1, when="march")
    ledger.charge("alice", "adult", gaussian(1), statement="")
    _, first, second, last = ledger.log()
    assert (first.charged.rho, second.charged.rho, last.charged.rho) == (10, 0, 1)
    assert second.price == Price(10, None)
    assert (first.exact, last.exact) == (True, None)
    assert (first.snapshot, last.snapshot) == ("march", "")
    assert Footprint.from_text(second.footprint) == about(gaussian(10), "sex", 1)
    assert last.footprint == ""


def test_purses_are_apart(ledger: Ledger) -> None:
    ledger.grant("bob", dataset="adult", epsilon=1)
    pay(ledger, 0)
    assert pay(ledger, 1, user="bob").charged.rho == 10
    assert pay(ledger, 1).charged.rho == 0
    assert spent(ledger, "bob") == 10


def test_what_is_spent_outlives_the_grant(ledger: Ledger) -> None:
    pay(ledger, 0)
    ledger.revoke("alice", dataset="adult")
    ledger.grant("alice", dataset="adult", epsilon=2)
    assert pay(ledger, 1).charged.rho == 0
    assert pay(ledger, 0).charged.rho == 10


# -- a file that several share ---------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def test_several_that_have_it_open_know_of_each_other(path: Path) -> None:
    draw = random.Random(7)
    with contextlib.ExitStack() as stack:
        ledgers = [stack.enter_context(Ledger.open(path)) for _ in range(3)]
        ledgers[0].grant("alice", dataset="adult", epsilon=1)
        lost = [0, 0, 0]
        for _ in range(60):
            code, rho = draw.randrange(3), draw.randrange(1, 9)
            lost[code] += rho
            before = spent(draw.choice(ledgers))
            assert pay(draw.choice(ledgers), code, rho).charged.rho == max(lost) - before
        assert [spent(ledger) for ledger in ledgers] == [max(lost)] * 3


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_opening_again_changes_nothing(path: Path, batch: int) -> None:
    draw = random.Random(11)
    lost = [0, 0, 0, 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "BATCH", batch)
        with Ledger.open(path) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=1)
        for _ in range(12):
            with Ledger.open(path, create=False) as ledger:
                for _ in range(4):
                    code, rho = draw.randrange(4), draw.randrange(1, 9)
                    lost[code] += rho
                    assert pay(ledger, code, rho).after.spent_rho == max(lost)


DAMAGES = [
    "UPDATE state SET joint = x'00'",
    "DELETE FROM state",
    "UPDATE state SET joint = (SELECT joint FROM state ORDER BY user DESC LIMIT 1)",
    "DELETE FROM paid WHERE seq = (SELECT max(seq) FROM paid)",
    "UPDATE paid SET seq = seq + 100 WHERE user = '' AND seq = (SELECT max(seq) FROM paid)",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_state_or_footprint_that_was_changed_is_found_and_can_be_got_over(
    path: Path, damage: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "BATCH", 2)
        with Ledger.open(path) as ledger:
            for user in ("alice", "bob"):
                ledger.grant(user, dataset="adult", epsilon=1)
            for code, user in enumerate(["bob", "bob", "alice", "alice", "alice", "bob", "bob"]):
                pay(ledger, code % 3, user=user)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        before = list(other.iterdump())
        other.execute(damage)
        assert list(other.iterdump()) != before
    with Ledger.open(path, create=False) as ledger:
        dump = ledger.dump()
        for user in ("alice", "bob"):
            with pytest.raises(LedgerError, match="paid on adult was changed by something else"):
                pay(ledger, 0, user=user)
        assert ledger.dump() == dump and spent(ledger) == 10
    assert any("was changed by something else" in problem for problem in verify(path).problems)
    accept(path, "a disk was damaged")
    assert verify(path).problems == ()
    with Ledger.open(path, create=False) as ledger:
        (cap,) = ledger.caps()
        for code, more in ((7, 10), (8, 10), (8, 20)):  # what was spent counts for everybody
            (everybody,) = pay(ledger, code).after.others
            assert everybody.spent_rho == cap.spent_rho + more
    assert verify(path).problems == ()


def test_a_footprint_that_was_changed_is_found(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1)
        pay(ledger, 0)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert other.execute("UPDATE entry SET more = replace(more, 'sex', 'six')").rowcount
    with pytest.raises(LedgerError, match="entry 2 was changed or forged"):
        Ledger.open(path, create=False)


def test_what_was_spent_in_an_older_ledger_is_everybodys(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.executescript(OLD)
    with Ledger.open(path, create=False) as reader, Ledger.open(path, create=False) as writer:
        asked = reader.rise("alice", "adult", gaussian(5), footprint=about(gaussian(5), "sex", 0))
        assert asked.charged.rho == 5
        assert pay(writer, 0).after.spent_rho == 1_000_000_010
        assert pay(reader, 1).charged.rho == 0
        assert pay(writer, 1).charged.rho == 10
        assert [entry.exact for entry in reader.log()][-4:] == [None, True, True, True]
    assert verify(path).problems == ()


def test_losses_of_other_people_are_not_added(ledger: Ledger) -> None:
    rows, persons = "each row (add-remove)", "all rows of each pid (add-remove)"

    def charge(people: str) -> Receipt:
        return ledger.charge("alice", "adult", gaussian(10), statement="", people=people)

    charge(rows)
    charge(rows)
    dump = ledger.dump()
    for ask in (charge, lambda people: ledger.rise("alice", "adult", gaussian(1), people=people)):
        with pytest.raises(UsageError) as caught:
            ask(persons)
        for words in (rows, persons, "adult", "nothing was charged"):
            assert words in str(caught.value)
    assert ledger.dump() == dump
    ledger.grant("alice", dataset="adult_persons", epsilon=1)
    ledger.charge("alice", "adult_persons", gaussian(10), statement="", people=persons)


def test_a_commit_that_fails_is_not_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        ledger.grant("alice", dataset="adult", epsilon=1)
        pay(ledger, 0)
        write = ledger._book.write

        def failing(change):
            def then(page: Page) -> None:
                change(page)
                raise LedgerError("the disk is full")

            return write(then)

        monkeypatch.setattr(ledger._book, "write", failing)
        with pytest.raises(LedgerError, match="full"):
            pay(ledger, 1)
        monkeypatch.undo()
        assert pay(other, 2).charged.rho == 0  # under the number that failed
        assert pay(ledger, 1).charged.rho == 0
        assert pay(ledger, 2).charged.rho == 10


@pytest.mark.usefixtures("restless")
def test_fifty_threads_spend_exactly_what_is_there_for_each(ledger: Ledger) -> None:
    """A purse that holds three questions about each of two groups, and none about both."""
    ledger.cap("adult", epsilon=100)
    for number in range(4):
        user = f"user{number}"
        third = ledger.grant(user, dataset="adult", epsilon=1).rho // 3
        gate = threading.Barrier(50)
        outcomes: list[tuple[int, str]] = []

        def buy(
            code: int,
            user: str = user,
            third: int = third,
            gate: threading.Barrier = gate,
            kept: list[tuple[int, str]] = outcomes,
        ) -> None:
            gate.wait()
            try:
                pay(ledger, code, third, user)
                kept.append((code, "paid"))
            except BudgetError as refusal:
                kept.append((code, type(refusal).__name__))

        threads = [threading.Thread(target=buy, args=(i % 2,)) for i in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for code in (0, 1):
            told = sorted(what for of, what in outcomes if of == code)
            assert told == ["BudgetExceeded"] * 22 + ["paid"] * 3
        assert spent(ledger, user) == 3 * third


def test_a_state_of_another_version_is_said_to_be_that(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "BATCH", 2)
        patch.setattr(joint, "VERSION", 1)
        with Ledger.open(path) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=1)
            for code in range(5):
                pay(ledger, code)
    words = r"another version of dpsql \(there is a state of version 1, not 2\)"
    with Ledger.open(path, create=False) as ledger:
        dump = ledger.dump()
        with pytest.raises(LedgerError, match=words):
            pay(ledger, 0)
        assert ledger.dump() == dump and spent(ledger) == 10
    problems = verify(path).problems
    assert any("another version of dpsql" in problem for problem in problems)
    assert not any("something else" in problem for problem in problems)
    accept(path, "an older dpsql is not there any more")
    with Ledger.open(path, create=False) as ledger:
        assert pay(ledger, 7).after.spent_rho == 20
    assert verify(path).problems == ()


def test_a_footprint_of_another_version_is_said_to_be_that(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprint, "VERSION", 7)
        with Ledger.open(path) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=1)
            pay(ledger, 0)
    words = r"another version of dpsql \(there is a footprint of version 7, not 1\)"
    with Ledger.open(path, create=False) as ledger, pytest.raises(LedgerError, match=words):
        pay(ledger, 0)
    problems = verify(path).problems
    assert "entry 2 was written by another version of dpsql: it has a footprint of" in problems[0]
    assert not any("something else" in problem or "takes" in problem for problem in problems)
