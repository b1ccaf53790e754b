"""What gates said, as bytes: read back as it was written, for the very question alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import AboveThreshold, Exponential, Gaussian, NoisyMax
from dpsql.accounting.kept.pack import pack, unpack
from dpsql.accounting.kept.told import Told, question
from dpsql.accounting.ledger import Ledger
from tests.mechanisms.measured import workload

EVENT = AboveThreshold(1, Fraction(7, 2), Fraction(9), 3, 1, True)
TOLD = Told("q", EVENT, (False, True, False, True, True))
NAME = ("alice", "town", "now")


def test_what_is_read_is_what_was_written():
    assert Told.from_bytes(TOLD.to_bytes()) == TOLD
    assert Told.from_bytes(Told("", EVENT, ()).to_bytes()).answers == ()


def test_a_selection_chooses_one_and_has_a_question_of_its_own():
    for event in (Exponential(1, Fraction(3), True), NoisyMax(2, Fraction(1, 3))):
        told = Told("q", event, (False, True, False))
        assert Told.from_bytes(told.to_bytes()) == told and told.selection == event
        for answers in ((False, False), (True, True)):
            with pytest.raises(ValueError, match="a selection chooses one"):
                Told.from_bytes(Told("q", event, answers).to_bytes())
    by = workload("SELECT sex, COUNT(*) FROM town GROUP BY sex")
    assert question(by, None) not in {question(by, 0), question(by, 1), None}


@pytest.mark.parametrize(
    "change",
    [{"version": 4}, {"event": Gaussian(1, Fraction(1)).to_dict()}, {"answers": np.array([2])},
     {"answers": [1]}, {"question": 3}, {"event": {}}],
)  # fmt: skip
def test_anything_else_is_refused(change):
    with pytest.raises(ValueError):
        Told.from_bytes(pack({**unpack(TOLD.to_bytes()), **change}))
    with pytest.raises(ValueError):
        Told.from_bytes(TOLD.to_bytes()[:-3])


def test_a_question_has_one_name_in_other_words_and_another_in_another_order():
    by = "SELECT sex, region, COUNT(*) FROM town GROUP BY sex, region"
    names = {question(workload(by), threshold) for threshold in (1, 2)}
    assert len(names) == 2
    same = "SELECT COUNT(*) FILTER (WHERE 1 = 1), sex, region FROM town GROUP BY sex, region"
    assert question(workload(same), 1) in names
    for other in (
        "SELECT sex, region, COUNT(*) FROM town GROUP BY region, sex",
        "SELECT sex, region, COUNT(*) FROM town WHERE age > 1 GROUP BY sex, region",
        "SELECT sex, COUNT(*) FROM town GROUP BY sex",
    ):
        assert question(workload(other), 1) not in names


def test_what_gates_said_is_kept_apart_from_measurements():
    """By user, data and question, the newest first; what is damaged counts as not kept."""
    ledger = Ledger.memory()
    older = Told("q", EVENT, (True,))
    ledger.releases.tell(NAME, 1, older)
    ledger.releases.tell(NAME, 2, TOLD)
    ledger.releases.tell(NAME, 3, Told("other", EVENT, ()))
    assert list(ledger.releases.told(NAME, "q")) == [TOLD, older]
    assert list(ledger.releases.told(("bob", "town", "now"), "q")) == []
    assert list(ledger.releases.told(("alice", "town", "then"), "q")) == []
    assert list(ledger.releases.listed(NAME, 0, (), others=False)) == []
    there = ("alice", "town", "gates of now")
    ledger._book.note(lambda page: page.put_release(there, 4, '["q"]', b"damaged"))
    assert list(ledger.releases.told(NAME, "q")) == [TOLD, older]


def test_from_what_a_question_was_answered_is_kept_under_the_key():
    """By user, data and question, those of the newest releases first; nobody's who has no key."""
    with Ledger.memory() as ledger:
        for used in ((1, 2), (2, 5), (1, 2)):
            ledger.releases.say(NAME, "q", used)
        ledger.releases.say(NAME, "other", (7,))
        assert ledger.releases.said(NAME, "q") == [(2, 5), (1, 2)]
        for other in (("bob", "town", "now"), ("alice", "town", "then")):
            assert ledger.releases.said(other, "q") == []
        assert list(ledger.releases.listed(NAME, 0, (), others=False)) == []
        assert list(ledger.releases.told(NAME, "q")) == []
        there, moved = ("alice", "town", "answers of now: q"), []

        def move(page):
            (place, _), *_ = page.releases(there, 0)
            moved.append(page.stored(there, [place])[place])
            page.put_release(there, place + 1, '["q"]', moved[0])

        ledger._book.note(move)
        # as an older release wrote it: all questions in one place
        older = ("alice", "town", "answers of now")
        for place, question in ((1, "q"), (2, "other")):
            ledger.releases._note(older, place, question, f'["{question}", 1, 9]'.encode())
        assert ledger.releases.said(NAME, "q") == [(1, 9), (2, 5), (1, 2)]
        ledger._book.note(lambda page: page.put_release(older, 3, '["q"]', moved[0]))
        assert moved and ledger.releases.said(NAME, "q") == [(1, 9), (2, 5), (1, 2)]
