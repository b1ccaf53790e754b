"""The laws of the house for gates: charged first, silent but for booleans, moved no further."""

from __future__ import annotations

from dataclasses import fields

import pytest

from dpsql.accounting.events import from_dict
from dpsql.curator.curator import Selected
from dpsql.curator.gate import Gate
from dpsql.session import Session
from tests.privacy.trial import USER, charges, purse, rows, table, watch

GATED = [
    "SELECT race, COUNT(*) AS n FROM people GROUP BY race FIRST 2 ABOVE 10",
    "SELECT rich, race, COUNT(*) AS n FROM people GROUP BY CUBE (rich, race) FIRST 9 ABOVE 5",
]


@pytest.mark.parametrize("backend", ["auto", "laplace"])
@pytest.mark.parametrize("sql", GATED)
def test_a_gate_is_charged_before_its_noise_and_tells_booleans_alone(
    sql, backend, tmp_path, monkeypatch
):
    """Laws 1 and 2. What is released is made of the gate's booleans and of what is public."""
    told: list[tuple[bool, ...]] = []
    first = Gate.first
    with Session(table(tmp_path, rows(60)), user=USER, ledger=purse()) as session:
        plan = session.explain(sql, rho=1.0, backend=backend)
        spy = watch(monkeypatch)
        monkeypatch.setattr(Gate, "first", lambda *asked: told.append(first(*asked)) or told[-1])
        found = session.answer(sql, rho=1.0, backend=backend)
        happened = spy.kinds("charge", "rows", "noise")
        assert happened == ["charge", "noise", "rows", "noise"]
        assert {type(answer) for answer in told[0]} <= {bool}
        places = [place for place, above in enumerate(told[0]) if above]
        assert found.rows == tuple(plan.rows[place] for place in places)
        assert {line[-1] for line in found.low} <= {found.low[0][-1]} if found.low else True
        assert (plan.price, plan.charged) == (found.price, found.charged)
        paid = from_dict(charges(session.ledger)[-1][4])
        assert paid.rho <= 10**12 and paid.sensitivity == 1


@pytest.mark.parametrize(
    ("neighbours", "unit", "moved"),
    [
        ("add-remove", '"row"', lambda listed: [*listed, listed[0]]),
        ("replace-one", '"row"', lambda listed: [*listed[1:], ("new", "Other", 30, True, 5)]),
        ("add-remove", '{column = "pid", max_rows = 3}',
         lambda listed: [*listed, *[("new", "White", 30, True, 5)] * 3]),
    ],
)  # fmt: skip
def test_gates_on_neighbours_say_the_same_but_for_their_booleans(
    neighbours, unit, moved, tmp_path, monkeypatch
):
    """Laws 1 and 3: the same booleans make the same release, and no number that a gate compares
    moves by more than was charged for, or the other way than the others where that was charged.
    """
    seen: list[list[int]] = []
    reached = Gate._reached

    def scripted(gate, value, threshold):
        seen[-1].append(value)
        return reached(gate, 10**9 * (len(seen[-1]) % 3 == 2), 10**6)

    monkeypatch.setattr(Gate, "_reached", scripted)
    listed, told = rows(34), []
    for number, some in enumerate((listed, moved(listed))):
        seen.append([])
        path = table(tmp_path / str(number), some, neighbours=neighbours, unit=unit)
        with Session(path, user=USER, ledger=purse()) as session:
            told.append([session.answer(sql, rho=1.0).to_dict() for sql in GATED])
            told[-1].append([charge[4:] for charge in charges(session.ledger)])
            event = from_dict(charges(session.ledger)[-1][4])
    assert told[0] == told[1]
    moves = [b - a for a, b in zip(*seen, strict=True)]
    assert max(map(abs, moves)) == event.sensitivity
    assert event.monotone == (neighbours == "add-remove")
    assert min(moves) >= 0 or not event.monotone


def test_only_booleans_and_places_leave_the_curator():
    """Law 1: what its gates and selections give is declared so, and checked by the type checker."""
    assert Gate.exceeds.__annotations__["return"] == "bool"
    assert Gate.first.__annotations__["return"] == "tuple[bool, ...]"
    assert {f.name: f.type for f in fields(Selected)} == {
        "place": "int", "event": "Selection", "receipt": "Receipt", "snapshot": "str",
    }  # fmt: skip
    public = [name for name in dir(Gate) if not name.startswith("_")]
    assert public == ["closed", "event", "exceeds", "first", "receipt", "snapshot"]
