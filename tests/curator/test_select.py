"""Selections, and who pays for them and for gates."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Exponential, NoisyMax
from dpsql.accounting.purse import Price
from dpsql.curator import select
from dpsql.curator.curator import Curator
from dpsql.curator.footprint import touched
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.query.linear import Workload
from dpsql.query.predicate import Leaf
from dpsql.schema import Neighbours, Unit
from tests.curator.test_curator import SECRET, Spy, dataset, granted, workload
from tests.curator.test_gate import CHEAP, SMALL, some


@pytest.mark.parametrize("event", [NoisyMax(1, SMALL), Exponential(1, SMALL)], ids=repr)
def test_the_largest_is_selected_and_nothing_else_is_told(event):
    curator = Curator(Spy(), granted(), "alice")
    found = curator.select(workload("a"), event, "q")
    assert (found.place, found.event) == (0, event)
    assert str(SECRET) not in repr(found)
    nobody = Leaf(Domain(("a",), (2,)), np.zeros(2, np.uint8))
    places = {curator.select(workload("a", where=nobody), event, "q").place for _ in range(40)}
    assert places == {0, 1}  # ties are broken by chance; false alarm 2e-12
    with pytest.raises(UsageError, match="nothing to select"):
        curator.select(Workload(Domain((), ()), ()), event, "q")


@pytest.mark.parametrize("event", [NoisyMax(1, Fraction(2)), Exponential(1, Fraction(2))], ids=repr)
def test_a_selection_charges_its_event(event, monkeypatch):
    spy, ledger = Spy(), granted()
    spy.watch(ledger, monkeypatch)
    for name in ("noisy_max", "exponential"):
        law = getattr(select, name)
        monkeypatch.setattr(
            select, name, lambda *a, law=law: spy.happened.append("drawn") or law(*a)
        )
    Curator(spy, ledger, "alice").select(workload("a"), event, "q")
    assert spy.happened == ["charge", ("counts", ("a",)), "drawn"]
    [*_, entry] = ledger.log()
    assert entry.event == event.to_dict() and entry.price == Price.of(event)


# -- who pays --------------------------------------------------------------------------------------


def test_everybody_pays_for_a_gate_whose_questions_are_not_known():
    ledger = granted()
    curator = Curator(Spy(), ledger, "alice")
    curator.gate(CHEAP, "q")
    curator.gate(CHEAP, "q")
    assert ledger.balance("alice", "d").spent_rho == 2 * CHEAP.rho


def test_who_is_counted_by_no_query_pays_nothing():
    """Selections over disjoint people cost what one does; a third about one of them does not."""
    ledger = granted()
    curator = Curator(Spy(), ledger, "alice")
    event = Exponential(1, Fraction(50))
    for a in (0, 1):
        curator.select(some(a), event, "q")
        assert ledger.balance("alice", "d").spent_rho == event.rho
    gate = curator.gate(CHEAP, "q", listed=(asked := some(0)))
    assert ledger.balance("alice", "d").spent_rho == event.rho + CHEAP.rho
    assert gate.first(asked, 10**12) == (False,) * 3


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_footprint_is_the_price_wherever_a_row_counts(neighbours):
    price = Price(1000, 2000)
    asked = some(1)
    for loss, most in zip(
        (lambda f: f.rho, lambda f: f.epsilon), (price.rho, price.epsilon), strict=True
    ):
        found = loss(touched(asked, dataset(neighbours), price))
        (factor,) = found.factors
        assert [axis.name for axis in factor.axes] == ["a"]
        assert factor.table == (0, most)
        assert (found.constant, found.largest) == (0, most)
        assert found.pairs == (neighbours is Neighbours.REPLACE_ONE)
        everybody = loss(touched(workload("b"), dataset(neighbours), price))
        assert (everybody.constant, everybody.factors) == (most, ())


def test_units_of_several_rows_all_pay():
    """Their rows may lie where different releases count: each of these costs them its price."""
    asked = some(1)
    found = touched(asked, dataset(unit=Unit("id", 2)), Price(1000, None))
    assert (found.rho.constant, found.rho.factors, found.epsilon) == (1000, (), None)
