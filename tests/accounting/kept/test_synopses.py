"""Synopses are written down with their charge, or not at all, in every book."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.synopses import Stale, Synopsis, check_name, learnt, made
from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetExceeded, LedgerError, UsageError

MAIN = Synopsis(
    "main", "adult", "s1", "alice", "2026-01-01T00:00:00Z", "marginals", ("age", "sex"),
    (("age",), ("age", "sex")), (2,), None, 3, 10**9,
)  # fmt: skip
NOISE = Gaussian(1, Fraction(1000))


@pytest.fixture
def granted(ledger: Ledger) -> Ledger:
    ledger.grant("alice", dataset="adult", epsilon=1)
    return ledger


def bought(ledger: Ledger, synopsis: Synopsis) -> None:
    ledger.charge("alice", "adult", NOISE, statement="", also=lambda page, _: made(page, synopsis))


def test_a_synopsis_is_there_after_its_charge_and_gone_when_dropped(granted: Ledger) -> None:
    assert granted.synopses.listed("adult") == []
    other = dataclasses.replace(MAIN, name="b", users=("bob",))
    bought(granted, other)
    bought(granted, MAIN)
    assert granted.synopses.listed("adult") == [other, MAIN]
    assert granted.synopses.listed("town") == []
    assert granted.synopses.get("adult", "main") == MAIN
    granted.synopses.drop("adult", "main")
    assert granted.synopses.listed("adult") == [other]
    with pytest.raises(UsageError, match="has no synopsis 'main'; there are: b"):
        granted.synopses.drop("adult", "main")
    bought(granted, MAIN)
    assert granted.synopses.get("adult", "main") == MAIN


def test_a_synopsis_whose_charge_is_refused_is_not_there(granted: Ledger) -> None:
    with pytest.raises(BudgetExceeded):
        granted.charge(
            "alice", "adult", Gaussian(1, Fraction(1, 10**6)), statement="",
            also=lambda page, _: made(page, MAIN),
        )  # fmt: skip
    assert granted.synopses.listed("adult") == []


def test_a_name_is_taken_once_a_snapshot_and_then_nothing_is_charged(granted: Ledger) -> None:
    bought(granted, MAIN)
    before = granted.dump()
    with pytest.raises(UsageError, match="has a synopsis main already"):
        bought(granted, MAIN)
    assert granted.dump() == before
    newer = dataclasses.replace(MAIN, snapshot="s2")
    bought(granted, newer)
    assert granted.synopses.listed("adult") == [newer]


def test_what_is_learnt_stands_with_its_charge_or_nothing_is_charged(granted: Ledger) -> None:
    bought(granted, MAIN)

    def teach(before: Synopsis) -> None:
        granted.charge(
            "alice", "adult", NOISE, statement="",
            also=lambda page, seq: learnt(page, before, seq, ("sex",)),
        )  # fmt: skip

    teach(MAIN)
    (found,) = granted.synopses.listed("adult")
    charges = [entry.seq for entry in granted.log() if entry.kind == "charge"]
    assert found == dataclasses.replace(
        MAIN, charges=(2, charges[1]), sets=(*MAIN.sets, ("sex",)), updates=2
    )
    before = granted.dump()
    for stale in (MAIN, dataclasses.replace(found, snapshot="s2")):
        with pytest.raises(Stale, match="was changed meanwhile"):
            teach(stale)
    granted.synopses.drop("adult", "main")
    with pytest.raises(Stale, match="was changed meanwhile"):
        teach(found)
    assert granted.dump() == before


def test_who_may_ask() -> None:
    assert MAIN.may_ask("anybody")
    closed = dataclasses.replace(MAIN, users=("bob",))
    assert [closed.may_ask(user) for user in ("alice", "bob", "carol")] == [True, True, False]


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", "null", MAIN.to_text().replace('"version":1', '"version":2'),
     MAIN.to_text().replace('"updates":3', '"updates":-3'),
     MAIN.to_text().replace('"main"', "7"), MAIN.to_text().replace('"updates"', '"other"')],
)  # fmt: skip
def test_what_is_no_synopsis_is_an_error_of_ours(granted: Ledger, text: str) -> None:
    with pytest.raises(ValueError):
        Synopsis.from_text(text)
    granted._write(lambda page: page.put_synopsis("adult", "main", text))
    with pytest.raises(LedgerError, match="a synopsis of adult cannot be read"):
        granted.synopses.listed("adult")


@pytest.mark.parametrize("name", ["", "1a", "a b", "a;", "ä", "a" * 64])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a synopsis"):
        check_name(name)
    check_name("a_1")


def test_a_note_of_before_there_were_rounds_is_read(granted: Ledger) -> None:
    fields = json.loads(MAIN.to_text())
    del fields["rounds"]
    assert Synopsis.from_text(json.dumps(fields)) == MAIN
    assert Synopsis.from_text(dataclasses.replace(MAIN, rounds=4).to_text()).rounds == 4
