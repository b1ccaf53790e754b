"""Audits of synopses that go on learning, and of holdouts: record and replay.

What is asked of a synopsis depends on what it said before. On a neighbouring table the noise is
whatever makes gates say the same, and the same values come out: all that is seen must be equal, and
neither what a gate compared nor what was measured may have moved by more than was charged for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.events import AboveThreshold, Gaussian, from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.curator.gate import Gate
from dpsql.session import Session
from tests.privacy.test_rounds import Tape
from tests.privacy.transcript import PAIRS
from tests.privacy.trial import NAME, SCHEMA, USER, charges, rows, table

COUNT = "SELECT COUNT(*) AS n FROM people WHERE "
ASKED = [
    (COUNT + "race = 'White' AND age > 50", {}),
    (COUNT + "race = 'White' AND age > 50 AND rich", {}),
    (COUNT + "hours > 90 AND age = 90", {}),
    ("SELECT race, rich, COUNT(*) FROM people GROUP BY ALL", {}),
    ("SELECT AVG((hours > 50)::INT) AS share FROM people WHERE rich AND age < 40", {}),
    (COUNT + "rich AND hours < 10", {"strict": False}),
    ("SELECT SUM(age) FROM people WHERE rich", {"strict": False}),
    (COUNT + "hours > 20 AND rich AND race = 'Black'", {"accuracy": 5}),
]
MADE: dict[str, dict[str, Any]] = {
    "tables": {"method": "pmw", "ways": 1},
    "warm tables of two columns": {"method": "pmw"},
    "projection, Laplace gates": {
        "method": "pmw", "ways": 1, "step": "projection", "gate": "laplace",
    },
    "holdout": {"method": "holdout", "training": "train"},
}  # fmt: skip


class Gated(Tape):
    """As `Tape`; what gates compared, and what they said, besides."""

    def __init__(self, played: Gated | None = None) -> None:
        super().__init__(played)
        self._before = played
        self.compared: list[tuple[int, int]] = []
        self.said: list[bool] = []

    def insert(self, patch: pytest.MonkeyPatch) -> None:
        super().insert(patch)

        def reached(gate: Gate, value: int, threshold: int) -> bool:
            at = len(self.said)
            above = (
                bool(value >= threshold) != (at % 3 == 1)  # sometimes by the noise alone
                if self._before is None
                else self._before.said[at]
            )
            self.compared.append((value, gate.event.sensitivity))
            self.said.append(above)
            gate._left -= above
            return above

        patch.setattr(Gate, "_reached", reached)


def seen(path: Path, tape: Gated, made: dict[str, Any]) -> tuple[Any, ...]:
    """All that is seen of a synopsis, in the order of asking; what is in the ledger afterwards."""
    ledger_path = path.with_suffix(".ledger")
    with Ledger.open(ledger_path) as ledger:
        ledger.grant(USER, dataset=NAME, epsilon=20.0)
    key = ledger_path.with_name(ledger_path.name + ".key")
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    public = SCHEMA.format(neighbours="add-remove", unit='"row"', source='table = "train"')
    train = path.with_name("train.toml")
    train.write_text("public = true\n" + public.replace('"people"\nneigh', '"train"\nneigh'))
    given: dict[str, Any] = {"rho": 2.0, "updates": 4, "dataset": NAME, **made}
    columns = ["race", "age", "rich", "hours"]
    with (
        pytest.MonkeyPatch.context() as patch,
        Session(
            path, schema=[path.with_suffix(".toml"), train], user=USER, ledger=ledger_path,
            settings={"reuse": True, "backend": "synopsis"},
        ) as session,
    ):  # fmt: skip
        tape.insert(patch)
        told = [session.synopses.create("main", columns, explain=True, **given).to_dict()]
        told.append(session.synopses.create("main", columns, **given).to_dict())
        for turn in range(2):
            for sql, settings in ASKED:
                asked = sql
                if turn and told[-1]["rows"] and isinstance(told[-1]["rows"][0][0], int):
                    asked = sql.replace("age", f"age + {told[-1]['rows'][0][0] % 3}", 1)
                told.append(session.explain(asked, **settings).to_dict())
                told.append(session.answer(asked, **settings).to_dict())
        told.append(session.synopses.shown(NAME).to_dict()["rows"][0][:6])
        told.append(session.budget(NAME).to_dict())
        return told, charges(session.ledger)


def both(folder: Path, pair: str, made: dict[str, Any]) -> tuple[list[Any], list[Gated]]:
    first, second, declared = PAIRS[pair]
    tapes = [Gated()]
    tapes.append(Gated(tapes[0]))
    then = [
        *declared.get("then", ()),
        "CREATE TABLE train AS FROM people LIMIT 0",
        *(f"INSERT INTO train VALUES {row!r}".replace("None", "NULL") for row in rows(25)),
    ]
    found = []
    for side, (listed, tape) in enumerate(zip((first, second), tapes, strict=True)):
        path = table(folder / str(side), listed, **{**declared, "then": then})
        found.append(seen(path, tape, made))
    return found, tapes


FEW = ("one row more", "a row replaced by one outside", "a unit of three equal rows")
TRIED = [(pair, made) for pair in PAIRS for made in MADE if pair in FEW or made == "tables"]


@pytest.mark.parametrize(("pair", "made"), TRIED)
def test_neighbours_are_told_apart_by_what_came_out_alone(
    pair: str, made: str, tmp_path: Path
) -> None:
    (one, other), tapes = both(tmp_path, pair, MADE[made])
    for seen_there, seen_here in zip(one[0], other[0], strict=True):
        assert seen_there == seen_here
    assert one[1] == other[1]
    assert tapes[0].asked == tapes[1].asked and tapes[0].released == tapes[1].released
    events = [from_dict(charge[4]) for charge in one[1]]
    gates = [event for event in events if isinstance(event, AboveThreshold)]
    laws = [event for event in events if isinstance(event, Gaussian)]
    assert gates and len(laws) >= 2 and len(laws) + len(gates) == len(events)
    assert len(tapes[0].said) >= 2 and sum(tapes[0].said) >= 1 and not all(tapes[0].said)
    for (here, unit), (there, _) in zip(*(tape.compared for tape in tapes), strict=True):
        assert abs(here - there) <= unit
    for law, true, near in zip(laws, *(tape.true for tape in tapes), strict=True):
        assert sum((a - b) ** 2 for a, b in zip(true, near, strict=True)) <= law.sensitivity_squared


@pytest.mark.parametrize("made", ["tables", "holdout"])
def test_what_a_gate_compares_moves_by_as_much_as_it_was_sold_for(
    made: str, tmp_path: Path
) -> None:
    """Any smaller sensitivity would be seen."""
    _, tapes = both(tmp_path, "one row more", MADE[made])
    both_sides = zip(*(tape.compared for tape in tapes), strict=True)
    assert any(abs(here - there) == unit for (here, unit), (there, _) in both_sides)
