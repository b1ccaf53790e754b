"""Audits of what is found and of synopses that are read: record and replay on neighbouring tables.

The noise on the neighbour is whatever makes gates and selections say the same, and the same values
come out: all that is seen must be equal then, and nothing that was compared or measured may have
moved by more than was charged for.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.accounting.events import AboveThreshold, Exponential, Gaussian, NoisyMax, from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.curator import select
from dpsql.mechanisms.synopses import synthetic
from dpsql.session import Session
from dpsql.session.synopses import exported
from tests.privacy.test_learning import Gated
from tests.privacy.transcript import PAIRS
from tests.privacy.trial import NAME, USER, charges, table

RACES = "SELECT race, COUNT(*) AS n FROM people GROUP BY race"
PARTS = (
    "SELECT COUNT(*) AS n FROM people WHERE rich UNION ALL"
    " SELECT COUNT(*) FROM people WHERE age > 30 UNION ALL"
    " SELECT COUNT(*) FROM people WHERE hours > 30 AND NOT rich"
)
PLAIN = {"backend": "auto"}
ASKED: list[tuple[str, dict[str, Any]]] = [
    (f"{RACES} FIRST 2 ABOVE 3", PLAIN),
    (f"{RACES} LARGEST 1", PLAIN),
    (f"{PARTS} FIRST 2 ABOVE 5 WITH COUNTS", PLAIN),
    (f"{PARTS} LARGEST 1 WITH COUNTS", PLAIN),
    (f"{RACES} FIRST 2 ABOVE 3 WITH COUNTS", {"backend": "laplace"}),
    ("SELECT COUNT(*) FROM people WHERE rich AND age > 40 AND hours < 50", {"strict": False}),
    ("SELECT race, rich, COUNT(*) FROM people GROUP BY ALL", {}),
]
TRIED = [
    ("one row more", 1e-6), ("a row replaced", 1e-6), ("a unit of three equal rows", 1e-6),
    ("a row replaced", 0.0), ("one row more", 0.0),
]  # fmt: skip


class Words:
    """Bits of a seed, for the rows that are made up."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(7)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._draw.integers(0, 2**64, count, np.uint64)


class Found(Gated):
    """As `Gated`; selections by the noisy maximum, too."""

    def insert(self, patch: pytest.MonkeyPatch) -> None:
        super().insert(patch)
        patch.setattr(select, "noisy_max", select.exponential)
        patch.setattr(exported, "rows", functools.partial(synthetic.rows, bits=Words()))


def seen(path: Path, tape: Found, delta: float) -> tuple[list[Any], list[Any]]:
    """All that is seen, in the order of asking; what is in the ledger afterwards."""
    ledger_path = path.with_suffix(".ledger")
    with Ledger.open(ledger_path) as ledger:
        ledger.grant(USER, dataset=NAME, epsilon=20.0, delta=delta)
        ledger.grant("eve", dataset=NAME, epsilon=20.0)
    key = ledger_path.with_name(ledger_path.name + ".key")
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    settings = {"reuse": True, "backend": "synopsis"}
    asked = [pair for pair in ASKED if delta or (pair[1] == PLAIN and "WITH" not in pair[0])]
    with pytest.MonkeyPatch.context() as patch:
        tape.insert(patch)
        told: list[Any] = []
        with Session(path, user="eve", ledger=ledger_path, settings=settings) as owner:
            told.append(owner.synopses.create("main", ["race", "age", "rich", "hours"], rho=0.1))
        with Session(path, user=USER, ledger=ledger_path, settings=settings) as session:
            for sql, given in asked:
                told.append(session.explain(sql, **given))
                told.append(session.answer(sql, **given))
            told.append(session.synopses.shown(NAME))
            if delta:
                told.append(session.synopses.export("main", 30, dataset=NAME))
            told.append(session.budget(NAME))
            found = [each.to_dict() for each in told]
            found[-2 - bool(delta)]["rows"] = [row[:7] for row in told[-2 - bool(delta)].rows]
            return found, charges(session.ledger)


def both(folder: Path, pair: str, delta: float) -> tuple[list[Any], list[Found]]:
    first, second, declared = PAIRS[pair]
    tapes = [Found()]
    tapes.append(Found(tapes[0]))
    return [
        seen(table(folder / str(side), listed, **declared), tape, delta)
        for side, (listed, tape) in enumerate(zip((first, second), tapes, strict=True))
    ], tapes


@pytest.mark.parametrize(("pair", "delta"), TRIED)
def test_neighbours_are_told_apart_by_what_came_out_alone(
    pair: str, delta: float, tmp_path: Path
) -> None:
    (one, other), tapes = both(tmp_path, pair, delta)
    for there, here in zip(one[0], other[0], strict=True):
        assert there == here
    assert one[1] == other[1]
    assert tapes[0].released == tapes[1].released and len(tapes[0].said) >= 4
    events = [from_dict(charge[4]) for charge in one[1]]
    choices = [event for event in events if isinstance(event, Exponential | NoisyMax)]
    assert any(isinstance(event, AboveThreshold) for event in events)
    assert choices and len(choices) == len(tapes[0].scores)
    for (before, unit), (after, _) in zip(*(tape.compared for tape in tapes), strict=True):
        assert abs(before - after) <= unit
    for choice, before, after in zip(choices, *(tape.scores for tape in tapes), strict=True):
        moves = [b - a for a, b in zip(before, after, strict=True)]
        assert max(map(abs, moves)) <= choice.sensitivity
        assert not choice.monotone or min(moves) >= 0 or max(moves) <= 0
    laws = [event for event in events if isinstance(event, Gaussian)]
    for law, true, near in zip(laws, *(tape.true for tape in tapes), strict=False):
        assert sum((a - b) ** 2 for a, b in zip(true, near, strict=True)) <= law.sensitivity_squared
