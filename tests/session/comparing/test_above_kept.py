"""What a gate said is kept, and answers the same question, free; and nothing else."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.accounting.kept.releases import Releases
from dpsql.accounting.ledger import Ledger
from dpsql.errors import LedgerError

BY = "SELECT region, sex, COUNT(*) AS n FROM town GROUP BY region, sex"


@pytest.fixture
def session(town, crowd):
    with town.open(town.database("a", crowd(400, 1))) as found:
        yield found


def spent(session):
    return session.ledger.balance("alice", "town").spent_rho


def free(session, sql, **given):
    given, before = {"reuse": True, **given}, spent(session)
    plan = session.explain(sql, **given)
    found = session.answer(sql, **given)
    assert spent(session) == before and session.last_charge is None
    assert (plan.backend, found.backend, found.reused) == ("reuse", "reuse", True)
    assert plan.price == found.price and found.price.rho == found.charged.rho == 0.0
    return found


def bought(session, sql, **given):
    given, before = {"reuse": True, **given}, spent(session)
    found = session.answer(sql, **given)
    assert spent(session) > before and session.last_charge is not None
    assert (found.backend, found.reused) == ("sparse", False)
    return found


def test_the_same_question_is_answered_again_free(session):
    sql = f"{BY} FIRST 3 ABOVE 45"
    first = bought(session, sql, rho=1e-3)
    for again in (
        sql,
        f"{sql};",
        sql.replace("COUNT(*)", "SUM(1)").replace("SUM(1)", "COUNT(1)"),
        BY.replace("town", "town WHERE age < 99") + " FIRST 3 ABOVE 45",
    ):
        found = free(session, again, rho=1e-3)
        assert found.rows == first.rows and found.low == first.low
    assert free(session, sql, rho=5e-4).rows == first.rows
    fewer = free(session, f"{BY} FIRST 1 ABOVE 45", rho=1e-4)
    assert fewer.rows == first.rows[:1]


@pytest.mark.parametrize("end", ["FIRST 3 ABOVE 5", "LARGEST 1"])
def test_counts_of_groups_that_were_found_before_are_said_to_be_bought(session, end):
    """Nothing says that it was free: what a gate or a selection told is not the count."""
    session.answer(f"{BY} {end}", reuse=True, rho=1.0)
    before = spent(session)
    found = session.answer(f"{BY} {end} WITH COUNTS", reuse=True, rho=1.0)
    assert spent(session) > before and found.charged.rho > 0
    assert (found.backend, found.reused) == ("gaussian", False)
    assert not any("nothing was charged" in note for note in found.notes)
    assert any("told by an earlier release: their counts" in note for note in found.notes)
    again = session.answer(f"{BY} {end} WITH COUNTS", reuse=True, rho=1.0)
    assert (again.backend, again.reused, again.rows) == ("reuse", True, found.rows)
    assert any("nothing was charged" in note for note in again.notes)


def test_another_question_or_a_better_answer_is_bought(session):
    sql = f"{BY} FIRST 3 ABOVE 0"
    bought(session, sql, rho=1e-3)
    bought(session, f"{BY} FIRST 3 ABOVE 1", rho=1e-3)
    bought(session, sql, rho=2.0)
    bought(session, sql, rho=2.0, reuse=False)
    # what was told at a thousandth, perhaps of all groups, is not accurate enough for this
    bought(session, f"{BY} FIRST 4 ABOVE 0", rho=1.0)
    other = "SELECT region, sex, COUNT(*) AS n FROM town GROUP BY sex, region"
    bought(session, f"{other} FIRST 3 ABOVE 0", rho=1e-3)


def test_a_gate_never_answers_for_a_count(session):
    bought(session, f"{BY} FIRST 3 ABOVE 45", rho=1.0)
    found = session.answer(BY, rho=1e-3)
    assert found.backend == "gaussian" and not found.reused
    again = bought(session, f"{BY} FIRST 3 ABOVE 46", rho=1e-3)
    assert again.charged.rho == again.price.rho


def test_it_is_kept_over_a_restart_and_lost_with_the_data(town, crowd, tmp_path):
    path, place = town.database("a", crowd(400, 1)), tmp_path / "x.ledger"
    sql = f"{BY} FIRST 3 ABOVE 45"
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="town", epsilon=100)
        ledger.grant("bob", dataset="town", epsilon=100)
        with town.open(path, ledger=ledger) as session:
            first = bought(session, sql, rho=1e-3)
    with Ledger.open(place) as ledger, town.open(path, ledger=ledger) as session:
        assert free(session, sql, rho=1e-3).rows == first.rows
    with Ledger.open(place) as ledger, town.open(path, "bob", ledger) as session:
        assert (
            session.answer(sql, rho=1e-3, reuse=True).backend == "sparse"
        )  # each pays for what they learn
    with duckdb.connect(str(path)) as made:
        made.execute("DELETE FROM people WHERE age = 3")
    with Ledger.open(place) as ledger, town.open(path, ledger=ledger) as session:
        bought(session, sql, rho=1e-3)


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(session, monkeypatch):
    def full(*asked):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(Releases, "tell", full)
    found = bought(session, f"{BY} FIRST 3 ABOVE 45", rho=1e-3)
    assert any("could not keep" in note for note in found.notes)


def test_the_counts_of_what_was_found_are_a_question_of_their_own(session):
    """NumericSparse: fresh noise, and a price beside the gate's."""
    found = bought(session, f"{BY} FIRST 2 ABOVE 30", rho=1.0)
    keys = " OR ".join(f"region = '{r}' AND sex = '{s}'" for r, s, _ in found.rows)
    counts = session.answer(BY.replace("town", f"town WHERE {keys}"), rho=1.0, reuse=True)
    assert [row[:-1] for row in counts.rows if row[-1] > 10] == [row[:-1] for row in found.rows]
    assert counts.charged.rho == pytest.approx(1.0) and not counts.reused
