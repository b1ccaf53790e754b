"""Gates and selections behind the wall: bought first, true to their event, in one process."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import AboveThreshold, Exponential, NoisyMax
from dpsql.accounting.purse import Price
from dpsql.curator import gate as gates
from dpsql.curator import noise
from dpsql.curator.curator import Curator
from dpsql.curator.gate import Gate, monotone
from dpsql.curator.quote import LaplaceNoise
from dpsql.domain import Domain
from dpsql.errors import BudgetExceeded, InternalError, SourceError, UsageError
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, Leaf
from dpsql.schema import Neighbours, Unit
from tests.curator.test_curator import SECRET, Spy, chain, dataset, granted, workload

SMALL = Fraction(1, 1000)  # noise of it is 0 but once in exp(1000)
ONE = AboveThreshold(1, SMALL, SMALL)
MANY = AboveThreshold(1, SMALL, SMALL, positives=100)
CHEAP = AboveThreshold(1, Fraction(100), Fraction(200))


def opened(event: AboveThreshold = ONE, spy: Spy | None = None, **named: object) -> Gate:
    return Curator(spy or Spy(), granted(), "alice").gate(event, "q", **named)


def first(a: int) -> Workload:
    """The count of one value of a."""
    where = Leaf(Domain(("a",), (2,)), np.array([a == 0, a == 1], np.uint8) * 2)
    total = Grouping((), np.zeros(1, np.int64))
    return Workload(where.domain, (Block(where, (Weight((Term(ALWAYS),)),), (total,)),))


def some(a: int) -> Workload:
    """The counts of b among one value of a."""
    leaf = Leaf(Domain(("a",), (2,)), np.array([a == 0, a == 1], np.uint8) * 2)
    keys = ((Domain(("b",), (3,)), np.arange(3), 1),)
    block = Block(leaf, (Weight((Term(ALWAYS),)),), (Grouping(keys, np.arange(3)),))
    return Workload(Domain(("a", "b"), (2, 3)), (block,))


def weighted(*values: int) -> Workload:
    """A sum of these weights of a."""
    domain = Domain(("a",), (2,))
    weight = Weight((Term(ALWAYS, Table(domain, np.array(values, np.int64))),))
    return Workload(domain, (Block(ALWAYS, (weight,), (Grouping((), np.zeros(1, np.int64)),)),))


# -- what comes out --------------------------------------------------------------------------------


def test_a_gate_says_whether_a_count_reaches_a_threshold():
    gate = opened(MANY)
    for threshold, reached in ((11, True), (12, True), (13, False), (-5, True)):
        assert gate.exceeds(first(1), threshold) is reached
    assert opened(MANY).exceeds(first(0), SECRET) is True
    assert opened(MANY).exceeds(first(0), SECRET + 1) is False


def test_a_gate_says_whether_a_guess_is_that_far_off_either_way():
    gate = opened(MANY)
    for guess in (2, 22):
        assert gate.exceeds(first(1), 10, guess) is True
        assert gate.exceeds(first(1), 11, guess) is False


def test_it_closes_with_its_last_above():
    gate = opened(AboveThreshold(1, SMALL, SMALL, positives=2, runs=2))
    for _ in range(3):
        assert gate.exceeds(first(1), 13) is False
        assert gate.exceeds(first(1), 12) is True
        assert not gate.closed
    assert gate.exceeds(first(1), 12) is True
    assert gate.closed
    with pytest.raises(UsageError, match="has closed"):
        gate.exceeds(first(1), 13)


def test_a_list_is_told_up_to_the_last_above():
    assert opened().first(workload("a", "b"), 6) == (True,)
    two = AboveThreshold(1, SMALL, SMALL, positives=2)
    found = opened(two).first(workload("a", "b"), 6)  # a + 3 b: SECRET, 5, 0, 0, 0, 7
    assert found == (True, False, False, False, False, True)
    assert opened(two).first(workload("a", "b"), 8) == (True, *[False] * 5)


@pytest.mark.parametrize(("positives", "runs"), [(3, 1), (1, 3)])
def test_the_threshold_is_drawn_again_with_each_run_and_only_then(positives, runs, monkeypatch):
    drawn: list[Fraction] = []
    law = noise.exponential

    def noted(scale, size, **named):
        drawn.append(scale)
        return law(scale, size, **named)

    monkeypatch.setattr(noise, "exponential", noted)
    a, b = Fraction(1, 900), Fraction(1, 1000)
    gate = opened(AboveThreshold(1, a, b, positives, runs))
    for _ in range(3):
        gate.exceeds(first(1), 13)
        gate.exceeds(first(1), 12)
    assert drawn.count(b) == 6
    assert drawn[0] == a
    assert drawn.count(a) == runs


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
def test_noise_is_of_the_kind_that_was_bought(kind, monkeypatch):
    asked = []
    for name in ("exponential", "laplace"):
        law = getattr(noise, name)
        monkeypatch.setattr(
            noise, name, lambda scale, size, law=law, name=name: asked.append(name) or law(scale, 1)
        )
    opened(AboveThreshold(1, SMALL, SMALL, noise=kind)).exceeds(first(1), 3)
    assert asked == [kind] * 2


# -- paid before anything is drawn -----------------------------------------------------------------


def test_the_price_is_charged_before_noise_is_drawn_or_rows_are_read(monkeypatch):
    spy, ledger = Spy(), granted()
    spy.watch(ledger, monkeypatch)
    law = noise.exponential
    monkeypatch.setattr(
        noise, "exponential", lambda *a, **n: spy.happened.append("noise") or law(*a, **n)
    )
    gate = Curator(spy, ledger, "alice").gate(CHEAP, "q")
    assert spy.happened == ["charge", "noise"]
    gate.exceeds(first(1), 10**6)
    assert spy.happened == ["charge", "noise", ("counts", ("a",)), "noise"]
    assert gate.receipt.price == Price.of(CHEAP)
    gate.exceeds(first(1), 10**6)
    assert spy.happened.count("charge") == 1
    assert ledger.balance("alice", "d").spent_rho == CHEAP.rho


def test_what_cannot_be_paid_draws_nothing(monkeypatch):
    monkeypatch.setattr(gates, "_draw", lambda *asked: pytest.fail("noise was drawn"))
    spy, ledger = Spy(), granted(epsilon=0.01)
    with pytest.raises(BudgetExceeded):
        Curator(spy, ledger, "alice").gate(AboveThreshold(1, Fraction(1), Fraction(1)), "q")
    with pytest.raises(BudgetExceeded):
        Curator(spy, ledger, "alice").select(workload("a"), NoisyMax(1, Fraction(1)), "q")
    assert spy.happened == []


def test_pure_grants_buy_gates_and_selections():
    ledger = granted(epsilon=0.5, delta=0.0)
    curator = Curator(Spy(), ledger, "alice")
    curator.gate(AboveThreshold(1, Fraction(10), Fraction(20)), "q")
    assert ledger.balance("alice", "d").spent_epsilon == 2 * 10**11
    curator.select(workload("a"), Exponential(1, Fraction(20)), "q")
    assert ledger.balance("alice", "d").spent_epsilon == 3 * 10**11


# -- the sensitivity is that of what is asked ------------------------------------------------------


def test_a_query_that_moves_further_than_was_bought_is_refused(monkeypatch):
    gate = opened(AboveThreshold(2, SMALL, SMALL, positives=9))
    monkeypatch.setattr(gates, "_draw", lambda *asked: pytest.fail("noise was drawn"))
    with pytest.raises(UsageError, match="moves by 3"):
        gate.exceeds(weighted(1, -3), 0)
    units = Spy(dataset(unit=Unit("id", 3)))
    with pytest.raises(UsageError, match="moves by 3"):
        Curator(units, granted(), "alice").select(workload("a"), NoisyMax(2, Fraction(1)), "q")
    monkeypatch.undo()
    assert gate.exceeds(weighted(1, -2), 0) is True  # SECRET - 24
    swapped = opened(AboveThreshold(3, SMALL, SMALL), Spy(dataset(Neighbours.REPLACE_ONE)))
    with pytest.raises(UsageError, match="moves by 4"):
        swapped.exceeds(weighted(1, -3), 0)


def test_queries_that_move_different_ways_need_a_gate_for_them():
    same = AboveThreshold(3, SMALL, SMALL, positives=9, monotone=True)
    gate = opened(same)
    assert gate.exceeds(weighted(0, 3), 36) is True
    for asked in (lambda: gate.exceeds(weighted(1, -3), 0), lambda: gate.exceeds(first(1), 0, 5)):
        with pytest.raises(UsageError, match="same way"):
            asked()
    with pytest.raises(UsageError, match="same way"):
        opened(same, Spy(dataset(Neighbours.REPLACE_ONE)))
    assert monotone(weighted(0, 3), dataset())
    assert not monotone(weighted(0, 3), dataset(Neighbours.REPLACE_ONE))
    assert not monotone(weighted(2, -1), dataset())


def test_a_gate_for_listed_queries_answers_no_others():
    listed = workload("a")
    gate = opened(MANY, listed=listed)
    assert gate.first(listed, 13) == (True, False)
    with pytest.raises(UsageError, match="other queries"):
        gate.exceeds(first(1), 13)
    with pytest.raises(UsageError, match="one query"):
        gate.exceeds(listed, 13)
    for wrong in (lambda: gate.first(listed, 13.0), lambda: opened().exceeds(first(1), 13, 0.0)):
        with pytest.raises(UsageError, match="whole number"):
            wrong()


# -- one process -----------------------------------------------------------------------------------


def test_a_gate_cannot_be_copied_or_kept():
    gate = opened()
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="one process"):
            copied(gate)
    assert str(SECRET) not in repr(gate)


@pytest.mark.parametrize("reused", [False, True])
def test_a_fork_cannot_go_on_asking(reused, monkeypatch):
    """Nor where the child has the number of a process that bought it."""
    if reused:
        monkeypatch.setattr(os, "getpid", lambda: 100)
    gate = opened()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"answered"
        try:
            gate.exceeds(first(1), 13)
        except UsageError as error:
            said = str(error).encode() + str(gate.closed).encode()
        finally:
            os.write(write, said)
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"this gate belongs to another process: buy one hereTrue"
    os.waitpid(child, 0)
    assert gate.exceeds(first(1), 13) is False


def test_threads_share_one_last_above():
    """However many ask at once, "above" comes out once."""
    told: list[bool] = []

    def ask():
        for gate in opened_before:
            try:
                told.append(gate.exceeds(asked, 12))
            except UsageError:
                continue

    asked, opened_before = first(1), [opened() for _ in range(40)]
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [True] * 40 and all(gate.closed for gate in opened_before)


def test_who_waited_while_it_closed_is_refused():
    gate, failed = opened(), []

    def ask():
        try:
            gate.exceeds(first(1), 13)
        except UsageError as error:
            failed.append(str(error))

    with gate._lock:
        waiting = threading.Thread(target=ask)
        waiting.start()
        waiting.join(0.2)  # long enough to come to the lock; if not, it finds the gate closed
        gate._left = 0
    waiting.join()
    assert failed == ["this gate has closed: buy another one"]


def test_a_gate_is_about_one_state_of_the_data():
    spy = Spy()
    gate = opened(MANY, spy)
    spy.stamp = "second"
    with pytest.raises(SourceError, match="touched"):
        gate.exceeds(first(1), 13)


def test_a_failure_says_nothing_of_the_counts(monkeypatch):
    spy = Spy(fault=RuntimeError(SECRET))
    gate = opened(MANY, spy)
    for ask in (
        lambda: gate.exceeds(first(0), 13),
        lambda: Curator(spy, granted(), "alice").select(
            workload("a"), NoisyMax(1, Fraction(1)), "q"
        ),
    ):
        with pytest.raises(InternalError) as caught:
            ask()
        assert str(SECRET) not in chain(caught.value)
        assert caught.value.__cause__ is None and caught.value.__context__ is None
    gate = opened(MANY)
    monkeypatch.setattr(gates, "_draw", lambda *asked: 1 // 0)
    with pytest.raises(InternalError) as caught:
        gate.exceeds(first(0), 13)
    assert "987" not in chain(caught.value)


def test_a_gate_and_fresh_noise_for_what_it_found_cost_their_sum(monkeypatch):
    """NumericSparse: two charges, and the value's noise is none of the gate's."""
    ledger = granted()
    curator = Curator(Spy(), ledger, "alice")
    gate = curator.gate(AboveThreshold(1, Fraction(1), Fraction(2)), "q")
    assert gate.exceeds(first(0), 1000) is True
    monkeypatch.setattr(gates, "_draw", lambda *asked: pytest.fail("the gate's noise was drawn"))
    found = curator.measure(first(0), LaplaceNoise(Fraction(10)), "q")
    assert abs(int(found.answers[0][0, 0]) - SECRET) < 400  # beyond it once in exp(40)
    both = gate.event.epsilon + found.event.epsilon
    assert ledger.balance("alice", "d").spent_epsilon == both
