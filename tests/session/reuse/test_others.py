"""What another user has paid for costs its reader what that one learns, and the cap nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import EVERYBODY
from dpsql.accounting.seals.verify import verify
from dpsql.curator.curator import Curator
from dpsql.errors import BudgetExceeded, NoGrant
from dpsql.session import Session
from dpsql.session.reuse.others import READ
from dpsql.surfaces.audit import what

Row = tuple[object, ...]
SQL = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
PART = "SELECT COUNT(*) AS n FROM town WHERE age > 4"


def opened(path: Path, ledger: Ledger, user: str) -> Session:
    return Session(path, user=user, ledger=ledger, settings={"reuse": True})


def spent(ledger: Ledger, user: str) -> int:
    return ledger.balance(user, "town").spent_rho


def cap(ledger: Ledger) -> int:
    return ledger.caps()[0].spent_rho


@pytest.mark.parametrize("sql", [SQL, PART])
def test_the_same_question_is_read_at_the_price_of_what_is_learnt(
    sql: str, path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        first = alice.answer(sql, rho=0.004)
        used = cap(ledger)
        monkeypatch.setattr(Curator, "measure", None)  # nothing private is read
        plan = bob.explain(sql, rho=0.004)
        found = bob.answer(sql, rho=0.004)
        assert found.rows == first.rows and found.reused
        assert plan.backend == found.backend == "reuse"
        assert (plan.price, plan.charged) == (found.price, found.charged)
        assert plan.stderr == found.stderr
        assert found.charged.rho == first.charged.rho
        assert spent(ledger, "bob") == spent(ledger, "alice") and cap(ledger) == used
        again = bob.answer(sql, rho=0.004)
        assert again.charged.rho == 0 and again.rows == first.rows
    assert bob.last_charge is None


@pytest.mark.parametrize("own", [None, "SELECT age, sex, COUNT(*) FROM town GROUP BY age, sex"])
@pytest.mark.parametrize("backend", ["gaussian", "factorization"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, COUNT(*) AS n, COUNT_IF(age < 4) AS k FROM town GROUP BY ROLLUP(sex)",
        "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex",
        "SELECT COUNT(*) AS n FROM town",
    ],
)
def test_what_was_read_is_said_again_in_the_same_words(
    sql: str, backend: str, own: str | None, path: Path, ledger: Ledger
) -> None:
    """Whether it stands alone or is combined with what the reader bought before."""
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        if own:
            bob.answer(own, rho=0.002)
        alice.answer(sql, rho=0.01, backend=backend)
        ledger.cap(dataset="town", epsilon=epsilon_of(cap(ledger), 1e-6))  # nobody can buy
        asked = {"rho": 0.009, "backend": backend}
        plan, found = bob.explain(sql, **asked), bob.answer(sql, **asked)
        assert READ in found.notes and len(found.notes) == (2 if own else 1)
        assert found.notes == plan.notes and found.charged == plan.charged
        assert found.stderr == plan.stderr
        again = bob.answer(sql, **asked)
        assert again.charged.rho == 0 and again.rows == found.rows
        assert (again.stderr, again.low, again.high) == (found.stderr, found.low, found.high)
    with opened(path, ledger, "bob") as bob:  # and in another process, of what the ledger kept
        again = bob.answer(sql, **asked)
        assert again.charged.rho == 0 and again.rows == found.rows


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_a_release_that_links_ones_own_is_combined_with_them_at_once(
    backend: str, path: Path, ledger: Ledger
) -> None:
    """What the reader bought is about a column that the question is not about."""
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        bob.answer("SELECT age, COUNT(*) FROM town GROUP BY age", rho=0.02, backend=backend)
        alice.answer("SELECT sex, age, COUNT(*) FROM town GROUP BY sex, age", rho=0.02)
        asked = {"rho": 0.0019, "backend": backend}
        ledger.cap(dataset="town", epsilon=epsilon_of(cap(ledger), 1e-6))  # nobody can buy
        plan, found = bob.explain(SQL, **asked), bob.answer(SQL, **asked)
        assert READ in found.notes and len(found.notes) == 2 and plan.stderr == found.stderr
        again = bob.answer(SQL, **asked)
        assert again.charged.rho == 0 and again.rows == found.rows
        assert (again.stderr, again.low, again.high) == (found.stderr, found.low, found.high)


def test_a_part_of_a_large_release_is_bought_afresh_where_that_is_cheaper(
    path: Path, ledger: Ledger
) -> None:
    """Whoever reads it learns all of it, whatever was asked."""
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer("SELECT age, COUNT(*) FROM town GROUP BY age", rho=0.01)
        found = bob.answer("SELECT COUNT(*) FROM town WHERE age = 3", rho=0.001)
        assert not found.reused and found.backend == "gaussian"
        assert found.charged.rho == pytest.approx(0.001)
        finer = bob.answer("SELECT COUNT(*) FROM town WHERE age = 3", rho=0.02)
        assert finer.charged.rho < 0.02  # the rest is bought, or all ages are read


def test_what_is_read_pays_by_person(path: Path, ledger: Ledger) -> None:
    """Losses of other people than those who lost most cost nothing, read or bought."""
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        women = "SELECT COUNT(*) FROM town WHERE sex = 'female'"
        alice.answer(women, rho=0.004)
        bob.answer("SELECT COUNT(*) FROM town WHERE sex = 'male'", rho=0.004)
        before = spent(ledger, "bob")
        found = bob.answer(women, rho=0.004)
        assert found.reused and found.charged.rho == 0 and spent(ledger, "bob") == before


def test_who_cannot_pay_reads_nothing(path: Path, ledger: Ledger) -> None:
    ledger.grant("bob", dataset="town", epsilon=0.05)
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer(SQL, rho=0.01)
        entries = len(list(ledger.log()))
        with pytest.raises(BudgetExceeded):
            bob.answer(SQL, rho=0.01)
        assert len(list(ledger.log())) == entries and spent(ledger, "bob") == 0


def test_groups_that_paid_do_not_pay_again(path: Path, ledger: Ledger) -> None:
    ledger.grant("team", dataset="town", epsilon=1)
    for user in ("alice", "bob"):
        ledger.join(user, "team", dataset="town")
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer(SQL, rho=0.004)
        team = spent(ledger, "team")
        bob.answer(SQL, rho=0.004)
        assert spent(ledger, "team") == team == spent(ledger, "bob") > 0


def test_a_group_pays_for_reading_a_release_once_and_each_member_for_learning_it(
    path: Path, ledger: Ledger
) -> None:
    """The group's members know it together from the first reading on."""
    ledger.grant("team", dataset="town", epsilon=1)
    for user in ("bob", "carol"):
        ledger.join(user, "team", dataset="town")
    with (
        opened(path, ledger, "alice") as alice,
        opened(path, ledger, "bob") as bob,
        opened(path, ledger, "carol") as carol,
    ):
        for sql, rho in ((SQL, 0.004), (PART, 0.005)):
            alice.answer(sql, rho=rho)
            before = [spent(ledger, user) for user in ("bob", "team", "carol")]
            used = cap(ledger)
            bob.answer(sql, rho=rho)
            own, team, _ = (spent(ledger, user) for user in ("bob", "team", "carol"))
            assert own - before[0] == team - before[1] > 0
            plan = carol.explain(sql, rho=rho)
            found = carol.answer(sql, rho=rho)
            assert plan.charged == found.charged and READ in found.notes
            assert spent(ledger, "carol") - before[2] == own - before[0]
            assert spent(ledger, "team") == team and cap(ledger) == used
    assert [e.note for e in ledger.log() if e.note.startswith("reads")] == [
        f"reads entry {e.seq}" for e in ledger.log() if e.user == "alice" and e.kind == "charge"
        for _ in range(2)
    ]  # fmt: skip


def test_members_without_grants_of_their_own_read_what_one_of_them_read(
    path: Path, ledger: Ledger
) -> None:
    """Free, and counted for the day that they have one."""
    ledger.grant("team", dataset="town", epsilon=1)
    for user in ("dave", "erin"):
        ledger.join(user, "team", dataset="town")
    with (
        opened(path, ledger, "alice") as alice,
        opened(path, ledger, "dave") as dave,
        opened(path, ledger, "erin") as erin,
    ):
        alice.answer(SQL, rho=0.004)
        first = dave.answer(SQL, rho=0.004)
        assert first.charged.rho == pytest.approx(0.004)
        plan, found = erin.explain(SQL, rho=0.004), erin.answer(SQL, rho=0.004)
        assert plan.charged == found.charged and found.charged.rho == 0
        assert found.rows == first.rows
        assert spent(ledger, "team") == 4 * 10**9
    ledger.grant("erin", dataset="town", epsilon=1)
    assert spent(ledger, "erin") == 4 * 10**9


def test_what_a_member_read_outside_of_a_group_is_paid_by_the_group(
    path: Path, ledger: Ledger
) -> None:
    ledger.grant("team", dataset="town", epsilon=1)
    ledger.join("carol", "team", dataset="town")
    with (
        opened(path, ledger, "alice") as alice,
        opened(path, ledger, "bob") as bob,
        opened(path, ledger, "carol") as carol,
    ):
        alice.answer(SQL, rho=0.004)
        bob.answer(SQL, rho=0.004)
        ledger.join("bob", "team", dataset="town")
        assert spent(ledger, "team") == 0
        carol.answer(SQL, rho=0.004)
        assert spent(ledger, "team") == spent(ledger, "carol") > 0


def test_the_log_tells_of_it_and_verifies(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "b.ledger"
    with Ledger.open(place) as ledger:
        for user in ("alice", "bob", "carol"):
            ledger.grant(user, dataset="town", epsilon=1)
        with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
            alice.answer(SQL, rho=0.004)
            bob.answer(PART, rho=0.004)
            bob.answer(SQL, rho=0.004)
            bob.answer(PART, rho=0.003)
        entries = list(ledger.log())
        read = entries[-1]
        assert read.note == f"reads entry {entries[-3].seq}" and read.user == "bob"
        assert what(read).startswith(f"{read.note}: ρ ")
        assert [payment.purse for payment in read.payments] == ["bob"]
        with opened(path, ledger, "carol") as carol:  # of two, the one that was measured
            carol.answer(SQL, rho=0.004)
        assert list(ledger.log())[-1].note == read.note
        assert EVERYBODY not in [payment.purse for payment in list(ledger.log())[-1].payments]
    assert not verify(place).problems


def test_reuse_off_reads_nothing_of_others(path: Path, ledger: Ledger) -> None:
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer(SQL, rho=0.004)
        used = cap(ledger)
        assert not bob.answer(SQL, rho=0.004, reuse=False).reused
        assert cap(ledger) > used


def test_pure_purses_read_pure_releases_alone(path: Path, ledger: Ledger) -> None:
    ledger.grant("bob", dataset="town", epsilon=3, delta=0)
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer(SQL, rho=0.004)
        assert bob.answer(SQL, epsilon=0.05).backend == "laplace"
        alice.answer(PART, epsilon=0.05, backend="laplace")
        found = bob.answer(PART, epsilon=0.01)
        assert found.charged.epsilon <= 0.05


def test_nothing_is_read_twice(path: Path, ledger: Ledger) -> None:
    """A copy stands under the number of its source, so that no noise counts twice."""
    ages = "SELECT age, COUNT(*) FROM town GROUP BY age"
    part = "SELECT COUNT(*) FROM town WHERE age = 7"
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        bob.answer(ages, rho=0.02)
        assert alice.answer(ages, rho=0.02).reused
        alice.answer("SELECT COUNT(*) FROM town WHERE age > 4", rho=0.05)
        before = spent(ledger, "alice")
        for _ in range(3):
            assert alice.answer(part, rho=0.02).charged.rho == 0
        assert spent(ledger, "alice") == before
        errors = [line[1] for line in alice.answer(ages, rho=0.02).stderr]
        assert min(errors) > 0.7 * (1 / (2 * 0.02)) ** 0.5


def test_of_equal_rises_the_one_that_teaches_less_is_taken(path: Path, ledger: Ledger) -> None:
    women = "SELECT COUNT(*) FROM town WHERE sex = 'female'"
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        bob.answer(women, rho=0.1)
        alice.answer("SELECT COUNT(*) FROM town WHERE sex = 'male'", rho=0.1)
        found = alice.answer(women, rho=0.001)
        assert not found.reused and found.charged.rho == 0


def test_what_the_cap_refuses_is_read_where_others_have_bought_it(
    path: Path, ledger: Ledger
) -> None:
    """To buy a part would be cheaper, but all users together have nothing left."""
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer("SELECT age, COUNT(*) FROM town GROUP BY age", rho=0.01)
        ledger.cap(dataset="town", epsilon=epsilon_of(cap(ledger), 1e-6))
        part = "SELECT COUNT(*) FROM town WHERE age = 3"
        plan, found = bob.explain(part, rho=0.001), bob.answer(part, rho=0.001)
        assert found.reused and found.charged == plan.charged and plan.backend == "reuse"
        assert found.charged.rho == pytest.approx(0.01)
        with pytest.raises(BudgetExceeded):
            bob.answer("SELECT COUNT(*) FROM town WHERE sex = 'male'", rho=0.001)


def test_a_reading_after_the_end_of_a_grant_is_logged_as_such(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.grant("bob", dataset="town", epsilon=1, until="2030-01-01")
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        alice.answer(SQL, rho=0.004)
        seq = list(ledger.log())[-1].seq
        monkeypatch.setattr(
            "dpsql.accounting.kept.reads.now", lambda: "2031-01-01T00:00:00.000+00:00"
        )
        with pytest.raises(NoGrant):
            ledger.reads.charge("bob", "town", seq, statement=SQL)
        assert [entry.kind for entry in ledger.log()][-1] == "end"
        assert bob.user == "bob"
