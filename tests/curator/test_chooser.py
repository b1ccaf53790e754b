"""Rounds behind the wall: paid by one charge before anything is read, and no more than was paid."""

from __future__ import annotations

import copy
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpsql.accounting.events import Exponential, Gaussian, Rounds
from dpsql.accounting.purse import Price
from dpsql.curator import small
from dpsql.curator.cells import Cells
from dpsql.curator.chooser import Chooser
from dpsql.curator.curator import Curator
from dpsql.curator.rises import rounds_rise
from dpsql.curator.sealed import Sealed
from dpsql.domain import Domain
from dpsql.errors import BudgetExceeded, InternalError, SourceError, UsageError
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, Leaf
from dpsql.schema import Neighbours, Unit
from tests.curator.test_curator import SECRET, Spy, chain, dataset, granted, workload

SMALL = Fraction(1, 1000)  # noise of it is 0 but once in exp(500)
LAW = Gaussian(1, SMALL)
EVENT = Rounds(LAW, Exponential(1, SMALL), LAW, 2)
PLACES = np.arange(3)


def bought(event: Rounds = EVENT, spy: Spy | None = None, **named: object) -> Chooser:
    return Curator(spy or Spy(), granted(), "alice").rounds(workload("b"), event, "q", **named)


def test_all_rounds_are_one_charge_of_everybody_before_anything_is_read(monkeypatch):
    spy, ledger = Spy(), granted()
    spy.watch(ledger, monkeypatch)
    foretold = rounds_rise(ledger, "alice", spy.dataset, "first", EVENT)
    rounds = Curator(spy, ledger, "alice").rounds(workload("b"), EVENT, "q")
    assert spy.happened == ["charge"]
    (values,) = rounds.first(workload("a"))
    assert values.ravel().tolist() == [SECRET, 12]
    assert rounds.pick(np.array([SECRET + 5, 0, 0]), PLACES) == 2
    rounds.measure(workload("b"))
    assert spy.happened.count("charge") == 1
    (entry,) = [entry for entry in ledger.log() if entry.kind == "charge"]
    assert entry.price == Price.of(EVENT) == Price(EVENT.rho, None)
    assert rounds.receipt.charged == foretold.charged == entry.price
    assert EVENT.rho == 3 * LAW.rho + 2 * EVENT.pick.rho


def test_what_is_not_paid_is_not_read():
    spy = Spy()
    with pytest.raises(BudgetExceeded):
        Curator(spy, granted(epsilon=0.01), "alice").rounds(workload("b"), EVENT, "q")
    assert spy.happened == []


def test_the_query_whose_guess_is_furthest_off_is_found_either_way():
    rounds = bought(Rounds(LAW, Exponential(1, SMALL), LAW, 4))
    true = [SECRET + 5, 0, 7]
    assert rounds.pick(np.array([true[0] - 1, 2, 7]), PLACES) == 1
    assert rounds.pick(np.array([true[0] + 3, 2, 8]), PLACES) == 0
    assert rounds.pick(np.array([true[0] + 3, 2, 8]), np.array([1, 2])) == 1
    assert rounds.pick(np.array([0, 0, 0]), np.array([1])) == 1


def test_no_more_comes_out_than_was_paid_for():
    rounds = bought()
    guesses = np.zeros(3, np.int64)
    rounds.first(workload("a"))
    for _ in range(2):
        rounds.pick(guesses, PLACES)
        rounds.measure(workload("b"))
    for more in (
        lambda: rounds.first(workload("a")),
        lambda: rounds.pick(guesses, PLACES),
        lambda: rounds.measure(workload("b")),
    ):
        with pytest.raises(UsageError, match="used up"):
            more()


def weighted(most: int) -> Workload:
    domain = Domain(("a",), (2,))
    weight = Weight((Term(ALWAYS, Table(domain, np.array([0, most], np.int64))),))
    return Workload(domain, (Block(ALWAYS, (weight,), (Grouping((), np.zeros(1, np.int64)),)),))


def test_what_moves_further_than_was_paid_for_is_refused_and_nothing_is_used():
    rounds = bought()
    twice = Workload(workload("a").domain, (*workload("a").blocks, *workload("a").blocks))
    for asked in (twice, weighted(2)):
        with pytest.raises(UsageError, match="move further"):
            rounds.first(asked)
        with pytest.raises(UsageError, match="move further"):
            rounds.measure(asked)
    rounds.first(weighted(1))
    for _ in range(2):
        rounds.measure(weighted(1))
    for guesses, among in (([0], PLACES), ([0, 0, 0], np.array([], int)), ([0, 0, 0], [-1])):
        with pytest.raises(UsageError, match="a guess for each"):
            rounds.pick(np.array(guesses), np.array(among))
    assert rounds.pick(np.array([0, 0, 0]), np.array([1])) == 1
    curator = Curator(Spy(), granted(), "alice")
    with pytest.raises(UsageError, match="moves by 2"):
        curator.rounds(weighted(2), EVENT, "q")
    with pytest.raises(UsageError, match="nothing to choose"):
        curator.rounds(Workload(Domain((), ()), ()), EVENT, "q")


@pytest.mark.parametrize(
    ("declared", "unit"),
    [(dataset(unit=Unit("a", 3)), 3), (dataset(Neighbours.REPLACE_ONE), 1)],
)
def test_the_sensitivity_is_that_of_the_neighbours(declared, unit):
    for most, right in ((unit, True), (unit - 1, False)):
        if not most:
            continue
        event = Rounds(LAW, Exponential(most, SMALL), LAW, 1)
        curator = Curator(Spy(declared), granted(), "alice")
        if right:
            rounds = curator.rounds(workload("b"), event, "q")
            with pytest.raises(UsageError, match="move further"):  # by more than 1, squared
                rounds.measure(workload("b"))
        else:
            with pytest.raises(UsageError, match=f"moves by {unit}"):
                curator.rounds(workload("b"), event, "q")


def test_they_live_in_one_process():
    rounds = bought()
    with pytest.raises(TypeError, match="one process"):
        copy.copy(rounds)
    with pytest.raises(TypeError, match="one process"):
        pickle.dumps(rounds)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            rounds.pick(np.zeros(3, np.int64), PLACES)
            word = b"told"
        except UsageError:
            word = b"refused"
        os.write(writing, word)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 16) == b"refused"
    assert rounds.pick(np.array([0, 0, 0]), PLACES) == 0


@pytest.mark.parametrize("fault", [ValueError(f"{SECRET}"), SourceError("gone"), RuntimeError()])
def test_what_goes_wrong_says_nothing_of_the_data(fault):
    rounds = bought(spy=Spy(fault=fault))
    for more in (
        lambda: rounds.pick(np.zeros(3, np.int64), PLACES),
        lambda: rounds.first(workload("a")),
    ):
        with pytest.raises((InternalError, SourceError)) as told:
            more()
        assert str(SECRET) not in chain(told.value)


def test_data_that_change_between_rounds_are_not_read():
    spy = Spy()
    rounds = bought(spy=spy)
    rounds.first(workload("a"))
    spy.stamp = "second"
    with pytest.raises(SourceError, match="was touched"):
        rounds.pick(np.zeros(3, np.int64), PLACES)


# -- small databases -------------------------------------------------------------------------------

SMALLDB = Rounds(LAW, Exponential(2, SMALL), LAW, 1)
GRID = Domain(("a", "b"), (2, 3))


def halves() -> Workload:
    """Counts by b, and by a and b."""
    return Workload(GRID, (*workload("b").blocks, *workload("a", "b").blocks))


def of_queries(event: Rounds = SMALLDB, spy: Spy | None = None) -> Chooser:
    return Curator(spy or Spy(), granted(), "alice").rounds(halves(), event, "q")


def test_the_database_that_errs_least_is_found_and_how_far_it_errs():
    """SECRET rows in one cell, and 12 in others: all of a database's are in that one."""
    rounds = of_queries()
    (total,) = rounds.first(Workload(GRID, workload().blocks))
    assert total.item() == SECRET + 12
    place = rounds.database(GRID, 2)
    assert small.database(6, 2, place) == [0, 0]
    assert rounds.distance() == 12
    for more in (lambda: rounds.database(GRID, 2), rounds.distance):
        with pytest.raises(UsageError, match="used up"):
            more()


def test_a_database_that_moves_further_than_was_paid_for_is_refused():
    rounds = of_queries()
    with pytest.raises(UsageError, match="move further"):
        rounds.database(GRID, 3)
    with pytest.raises(UsageError, match="no database was chosen"):
        rounds.distance()
    with pytest.raises(UsageError, match="databases of 300 rows"):
        rounds.database(GRID, 300)
    rounds.database(GRID, 2)
    unit = Spy(dataset(unit=Unit("a", 3)))
    with pytest.raises(UsageError, match="moves by 3"):
        of_queries(spy=unit)
    with pytest.raises(UsageError, match="move further"):  # 2 rows of a database times 3 of a unit
        of_queries(Rounds(LAW, Exponential(5, SMALL), LAW, 1), unit).database(GRID, 2)
    rounds = of_queries(Rounds(LAW, Exponential(6, SMALL), LAW, 1), unit)
    rounds.database(GRID, 2)
    with pytest.raises(UsageError, match="moves further"):
        rounds.distance()


def test_a_database_is_chosen_with_its_exact_chance():
    """Pearson's chi-square, false alarm 1e-8; a scale a third off is rejected."""
    scale, times = Fraction(3), 8000
    law = Gaussian(1, Fraction(1))
    event = Rounds(law, Exponential(2, scale), law, times)
    spy = Spy()
    listed = workload("b", where=Leaf(Domain(("a",), (2,)), np.array([0, 2], np.uint8)))
    listed = Workload(GRID, listed.blocks)  # 5, 0 and 7 of those with a = 1
    curator = Curator(spy, granted(), "alice")
    rounds = curator.rounds(listed, event, "q")
    table = np.array([0, 0, 0, 5, 0, 7])
    spy.counts = lambda columns: Sealed(Cells(GRID.grid(), table))
    found = np.bincount([rounds.database(GRID, 1) for _ in range(times)], minlength=6)
    counts = np.array([5, 0, 7])
    far = np.array([np.abs(counts - 12 * (np.arange(3, 6) == x)).max() for x in range(6)])

    def fits(width: float) -> bool:
        expected = np.exp(-(far - far.min()) / width)
        expected *= times / expected.sum()
        return bool(chi2.sf(((found - expected) ** 2 / expected).sum(), 5) > 1e-8)

    assert fits(3.0) and not fits(4.0) and not fits(2.25)
