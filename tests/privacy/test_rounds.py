"""Audits of synopses that are made in rounds: record and replay, and the law of a choice.

A synopsis is made of a table, its noise and choices drawn from a seed, and recorded. Then one is
made of a neighbouring table, where the noise is whatever makes the same come out again: everything
that is seen must be equal, no true answer may have moved by more than was charged for, and no score
by more than a count moves (arXiv:2602.17454).
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dpsql.accounting.events import PICO, Exponential, Gaussian, Rounds, from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.curator import chooser, select
from dpsql.curator.curator import Curator
from dpsql.curator.sealed import unseal
from dpsql.session import Session
from tests.curator.test_curator import Spy, granted, workload
from tests.privacy.transcript import PAIRS, plain
from tests.privacy.trial import NAME, USER, charges, table

QUERIES = """
SELECT race, rich, COUNT(*) FROM people GROUP BY CUBE (race, rich);
SELECT COUNT(*) FROM people WHERE age > 80 AND hours > 90 AND race = 'White';
SELECT COUNT(*) FROM people WHERE age BETWEEN 17 AND 30 AND rich;
SELECT rich, AVG((hours > 50)::INT) FROM people GROUP BY rich;
"""
ASKED = ["SELECT race, rich, COUNT(*) FROM people GROUP BY ALL", "SELECT COUNT(*) FROM people"]


class Tape:
    """What is true, what is released and what is chosen, in order; or what is to be again."""

    def __init__(self, played: Tape | None = None) -> None:
        self._played, self._rng = played, np.random.default_rng(20263)
        self.asked: list[Any] = []
        self.true: list[list[int]] = []
        self.released: list[list[int]] = []
        self.scores: list[list[int]] = []
        self.chosen: list[int] = []

    def insert(self, patch: pytest.MonkeyPatch) -> None:
        def out(true: list[int], law: Any) -> list[int]:
            if self._played is not None:
                found = self._played.released[len(self.true)]
            else:
                width = int(math.sqrt(law.variance)) + 1
                drawn = self._rng.integers(-width, width + 1, len(true)).tolist()
                found = [v + z for v, z in zip(true, drawn, strict=True)]
            self.true.append(true)
            self.released.append(found)
            return found

        def noisy(curator: Curator, asked: Any, law: Any, snapshot: str) -> list[Any]:
            blocks = curator._answers(asked, snapshot)
            self.asked.append(plain(asked))
            found = out([int(v) for block in blocks for v in block.reshape(-1)], law)
            shaped, start = [], 0
            for block in blocks:
                own = np.array(found[start : start + block.size], np.int64)
                shaped.append(own.reshape(block.shape))
                start += block.size
            return shaped

        def distance(bought: chooser.Chooser) -> int:
            assert bought._distance is not None
            return out([unseal(bought._distance)], bought.event.each)[0]

        def choose(scores: Any, scale: Fraction) -> int:
            self.scores.append([int(score) for score in scores])
            if self._played is not None:
                place = self._played.chosen[len(self.chosen)]
            else:
                place = int(np.argmax(scores + self._rng.gumbel(size=len(scores)) * float(scale)))
            self.chosen.append(place)
            return place

        patch.setattr(Curator, "_noisy", noisy)
        patch.setattr(select, "exponential", choose)
        patch.setattr(chooser.Chooser, "distance", distance)


MWEM = {"queries": QUERIES, "method": "mwem", "updates": 3}
FEW = "SELECT race, rich, COUNT(*) FROM people GROUP BY ALL"  # a grid of 12 cells
SMALLDB = {"queries": FEW, "method": "smalldb", "size": 3}


def seen(path: Path, tape: Tape, made: dict[str, Any]) -> tuple[Any, ...]:
    """All that is seen of a synopsis; what is in the ledger afterwards."""
    ledger_path = path.with_suffix(".ledger")
    with Ledger.open(ledger_path) as ledger:
        ledger.grant(USER, dataset=NAME, epsilon=8.0)
    key = ledger_path.with_name(ledger_path.name + ".key")
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    given = {"rho": 0.5, **made}
    with (
        pytest.MonkeyPatch.context() as patch,
        Session(path, user=USER, ledger=ledger_path, settings={"reuse": True}) as session,
    ):
        tape.insert(patch)
        told = [session.synopses.create("main", explain=True, **given).to_dict()]
        told.append(session.synopses.create("main", **given).to_dict())
        told += [session.answer(sql, backend="synopsis").to_dict() for sql in ASKED]
        told.append(session.budget().to_dict())
        return told, charges(session.ledger)


def both(folder: Path, pair: str, made: dict[str, Any] = MWEM) -> tuple[list[Any], list[Tape]]:
    first, second, declared = PAIRS[pair]
    tapes = [Tape()]
    tapes.append(Tape(tapes[0]))
    found = [
        seen(table(folder / str(side), rows, **declared), tape, made)
        for side, (rows, tape) in enumerate(zip((first, second), tapes, strict=True))
    ]
    return found, tapes


def moves(event: Rounds, tapes: list[Tape]) -> list[bool]:
    """Of each measurement and choice whether it moved by no more than was charged for."""
    laws = [event.first, *[event.each] * event.times]
    answers = zip(laws, tapes[0].true, tapes[1].true, strict=True)
    within = [
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) <= law.sensitivity_squared
        for law, one, other in answers
    ]
    scored = zip(tapes[0].scores, tapes[1].scores, strict=True)
    return within + [
        max(abs(a - b) for a, b in zip(one, other, strict=True)) <= event.pick.sensitivity
        for one, other in scored
    ]


@pytest.mark.parametrize("pair", PAIRS)
def test_neighbours_are_told_apart_by_what_is_released_and_chosen_alone(pair, tmp_path):
    (one, other), tapes = both(tmp_path, pair)
    assert one == other
    assert tapes[0].asked == tapes[1].asked and tapes[0].chosen == tapes[1].chosen
    assert len(tapes[0].true) == 4 and len(tapes[0].scores) == 3
    (charge,) = one[1]
    event = from_dict(charge[4])
    assert isinstance(event, Rounds) and all(moves(event, tapes))


@pytest.mark.parametrize("pair", PAIRS)
def test_a_small_database_tells_neighbours_apart_by_what_is_released_alone(pair, tmp_path):
    (one, other), tapes = both(tmp_path, pair, SMALLDB)
    assert one == other and tapes[0].asked == tapes[1].asked
    assert [len(tape.scores) for tape in tapes] == [1, 1] and len(tapes[0].scores[0]) == 364
    assert len(tapes[0].true) == 2 and tapes[0].released == tapes[1].released
    (charge,) = one[1]
    event = from_dict(charge[4])
    assert isinstance(event, Rounds) and all(moves(event, tapes))
    if pair in ("one row more", "a unit of three equal rows"):  # reached, nearly
        first, second = (tape.scores[0] for tape in tapes)
        moved = max(abs(a - b) for a, b in zip(first, second, strict=True))
        assert event.pick.sensitivity >= moved >= event.pick.sensitivity * 2 / 3


def test_what_is_charged_for_is_reached(tmp_path):
    """By a row more: any smaller sensitivity would be seen."""
    (one, _), tapes = both(tmp_path, "one row more")
    event = from_dict(one[1][0][4])
    for law, true, near in zip(
        (event.first, *[event.each] * 3), *(tape.true for tape in tapes), strict=True
    ):
        assert sum((a - b) ** 2 for a, b in zip(true, near, strict=True)) == law.sensitivity_squared
    moved = [abs(a - b) for a, b in zip(*(tape.scores[0] for tape in tapes), strict=True)]
    assert max(moved) == event.pick.sensitivity == 1


def test_scores_that_move_too_far_are_seen(tmp_path, monkeypatch):
    """The sensitivity off by 2: as if each query were counted twice in its score."""
    count = chooser.Chooser._counted
    monkeypatch.setattr(chooser.Chooser, "_counted", lambda own: [2 * v for v in count(own)])
    (one, _), tapes = both(tmp_path, "one row more")
    assert not all(moves(from_dict(one[1][0][4]), tapes))


def test_guesses_that_look_at_the_data_are_seen(tmp_path, monkeypatch):
    """No noise: what is guessed is then another number on the neighbour."""
    monkeypatch.setattr(Tape, "insert", lambda tape, patch: leaking(tape, patch))
    (one, other), _ = both(tmp_path, "one row more")
    assert one != other


def leaking(tape: Tape, patch: pytest.MonkeyPatch) -> None:
    def noisy(curator: Curator, asked: Any, law: Any, snapshot: str) -> list[Any]:
        return list(curator._answers(asked, snapshot))

    patch.setattr(Curator, "_noisy", noisy)
    patch.setattr(select, "exponential", lambda scores, scale: 0)


# -- the law of a choice ---------------------------------------------------------------------------

EVENT = Rounds(
    Gaussian(1, Fraction(1)), Exponential(1, Fraction(2)), Gaussian(1, Fraction(1)), 4000
)


def chances(true: list[int], guesses: list[int], scale: float) -> np.ndarray:
    """A softmax of |q(D) - guess| / scale."""
    scores = np.abs(np.array(true, float) - guesses) / scale
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def test_a_query_is_chosen_with_its_exact_chance_and_neighbours_differ_by_its_price():
    """Pearson's chi-square, false alarm 1e-8; a scale a quarter off is rejected."""
    listed = workload("b")  # 0, 5 and 7 of TABLE, but for what is SECRET
    ledger = granted(epsilon=1e7)
    bought = Curator(Spy(), ledger, "alice").rounds(listed, EVENT, "q")
    true = bought._counted()
    guesses = np.array([true[0] - 6, true[1] + 2, true[2]], np.int64)
    places = np.arange(3)
    found = Counter(bought.pick(guesses, places) for _ in range(EVENT.times))

    def fits(scale: float) -> bool:
        expected = chances(true, guesses.tolist(), scale) * EVENT.times
        statistic = sum((found[i] - expected[i]) ** 2 / expected[i] for i in range(3))
        return bool(chi2.sf(statistic, 2) > 1e-8)

    assert fits(2.0) and not fits(2.5) and not fits(1.6)
    epsilon = math.sqrt(8 * EVENT.pick.rho / PICO)
    near = [true[0] + 1, true[1], true[2]]
    apart = [true[0] + 1, true[1] - 1, true[2] - 1]  # no two tables; the worst that scores can do
    p = chances(true, guesses.tolist(), 2.0)
    for other, most in ((near, epsilon / 2), (apart, epsilon)):
        losses = np.log(p / chances(other, guesses.tolist(), 2.0))
        assert losses.max() - losses.min() <= most + 1e-9
