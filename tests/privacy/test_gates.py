"""Audits of gates: by exact sums over all noise, and by Clopper-Pearson on what gates really say.

The exact sums (`gates`) are a second way to the same law, and are held against the product's own
answers. Gates that are wrong on purpose must be caught: by the sums always, by sampling with a
chance that is computed from the sums and is above 1 - 1e-6.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, binom, chi2

from dpsql.accounting.events import PICO, AboveThreshold
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import Receipt
from dpsql.curator import noise
from dpsql.curator.gate import Gate
from dpsql.curator.sealed import Sealed
from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit
from tests.privacy.gates import Noisy, event, losses, outcomes, worst

EPSILON = 2.0
GATE = Noisy(1.0, 2.0)  # e1 = e2 = 1 for values that move by 1, any way
COUNT, ALARM = 4000, 5e-7  # gates on each table; of each of the two bounds
MANY = {"threshold renewed at every query": 12_000}  # the weakest signal

Values = Sequence[int]

# -- exact sums -----------------------------------------------------------------------------------


def pairs(monotone: bool, size: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Values near the threshold, and how they may move between neighbours."""
    moves = [(1,) * size, (0,) * (size - 1) + (1,), (1, 0) * (size // 2) + (1,) * (size % 2)]
    if not monotone:
        moves += [(1,) * (size - 1) + (-1,), (1, -1) * (size // 2) + (1,) * (size % 2)]
        moves += [(-1,) * (size - 1) + (1,)]
    starts = [(-1,) * size, (0,) * size, (-2,) * (size - 1) + (0,), (-3, 0) * (size // 2)]
    return [
        (start, tuple(v + m for v, m in zip(start, move, strict=True)))
        for start, move in itertools.product(starts, moves)
        if len(start) == size
    ]


def priced(gate: Noisy, monotone: bool) -> AboveThreshold:
    scales = Fraction(gate.threshold), Fraction(gate.query)
    return AboveThreshold(1, *scales, gate.positives, gate.runs, monotone, gate.noise)


GATES = [
    Noisy(1.0, 2.0), Noisy(2.0, 4.0), Noisy(0.75, 5.0), Noisy(1.0, 6.0, positives=3),
    Noisy(3.0, 6.0, runs=3), Noisy(4.0, 4.0, positives=2, runs=2),
    Noisy(1.0, 2.0, noise="laplace"), Noisy(2.0, 8.0, positives=2, noise="laplace"),
]  # fmt: skip


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_no_answers_betray_more_than_the_price(gate, monotone):
    """Pure epsilon, the interval of losses, and the divergence of every order, on many pairs."""
    claim = priced(gate, monotone)
    pure, span = (gate.runs * float(part) for part in claim.loss)
    for one, other in pairs(monotone, 6):
        found = losses(gate, one, other)
        assert max(map(abs, found)) <= pure * (1 + 1e-9)
        assert max(found) - min(found) <= span * (1 + 1e-9)
        p, q = outcomes(gate, one), outcomes(gate, other)
        for (p1, q1), order in itertools.product([(p, q), (q, p)], [1.01, 2.0, 8.0, 64.0]):
            terms = [p1[k] ** order * q1[k] ** (1 - order) for k in p1 if q1[k] > 1e-300]
            divergence = math.log(math.fsum(terms)) / (order - 1)
            assert divergence <= order * claim.rho / PICO + 1e-9


@pytest.mark.parametrize(
    ("gate", "one", "other", "monotone"),
    [
        (Noisy(2.0, 4.0), [0] * 4 + [-40], [1] * 4 + [-41], False),
        (Noisy(1.0, 6.0, positives=3), [0] * 4 + [-20] * 3, [1] * 4 + [-21] * 3, False),
        (Noisy(2.0, 4.0), [0] * 4 + [-40], [1] * 4 + [-40], True),
        (Noisy(3.0, 2.0, positives=2), [0] * 4 + [-20] * 2, [1] * 4 + [-20] * 2, True),
        (Noisy(2.0, 4.0, noise="laplace"), [8] * 8 + [-20], [9] * 8 + [-21], False),
    ],
    ids=repr,
)
def test_the_price_is_reached(gate, one, other, monotone):
    """A price that is smaller by a hundredth would be wrong."""
    pure = priced(gate, monotone).epsilon / PICO
    assert 0.99 * pure <= worst(gate, one, other) <= pure * (1 + 1e-9)


# Wrong gates that claim to be 2-private, and two tables on which they are not. What differs from a
# right gate is in `Noisy`, and in the event that the product's own gate is given.
WRONG: dict[str, tuple[Noisy, Values, Values]] = {
    "un-noised threshold": (Noisy(0.0, 2.0), [-1] * 2, [0] * 2),
    "threshold renewed at every query": (
        Noisy(1.0, 2.0, renewed=True), [-1] * 3 + [0], [0] * 3 + [-1],
    ),
    "query noise not scaled by c": (Noisy(1.0, 2.0, positives=3), [-1, 0, 0, 0], [0, -1, -1, -1]),
    "no query noise": (Noisy(1.0, 0.0), [0, 1], [1, 0]),
    "no cut-off": (Noisy(1.0, 2.0, positives=100), [-1] + [0] * 4, [0] + [-1] * 4),
    "sensitivity off by 2": (GATE, [-1, 1], [1, -1]),
    "threshold noise off by 4": (Noisy(0.25, 2.0), [-1, 1], [0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_gate_is_caught_by_exact_sums(name):
    gate, one, other = WRONG[name]
    p, q = outcomes(gate, one), outcomes(gate, other)
    _, hits, others = event(p, q, EPSILON)
    assert hits - math.exp(EPSILON) * others > 0.02
    _, hits, others = event(outcomes(GATE, [-1, 0]), outcomes(GATE, [0, -1]), EPSILON)
    assert hits <= math.exp(EPSILON) * others * (1 + 1e-9)


# -- what gates really say ------------------------------------------------------------------------

DATASET = Dataset(
    "d", (Column("a", Kind.INTEGER, minimum=0, maximum=19),), Neighbours.ADD_REMOVE, Unit(),
    Source(table="t"),
)  # fmt: skip


def counted(size: int) -> Workload:
    """Counts of the first values of a column."""
    domain = Domain(("a",), (20,))
    keys = ((domain, np.arange(20), 1),)
    block = Block(ALWAYS, (Weight((Term(ALWAYS),)),), (Grouping(keys, np.arange(size)),))
    return Workload(domain, (block,))


def receipt() -> Receipt:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="d", epsilon=1e3)
    return ledger.charge("alice", "d", AboveThreshold(1, Fraction(1), Fraction(2)), statement="")


RECEIPT = receipt()


def gates(gate: Noisy, values: Values) -> Callable[[], str]:
    """Draws from the product's gate over these answers: what comes out of one."""
    asked = counted(len(values))
    answers = [np.array(values, np.int64)]
    tiny = Fraction(1, 1000)  # noise that is 0 but once in exp(1000)
    scales = [Fraction(scale) if scale else tiny for scale in (gate.threshold, gate.query)]
    bought = AboveThreshold(1, *scales, gate.positives, gate.runs, False, gate.noise)

    def draw() -> str:
        opened = Gate(bought, RECEIPT, "", DATASET, lambda asked: Sealed(answers), None)
        return "".join("01"[told] for told in opened.first(asked, 0))

    def renewed() -> str:
        told = ""
        for value in values:
            single = [np.array([value], np.int64)]
            opened = Gate(bought, RECEIPT, "", DATASET, lambda asked, own=single: Sealed(own), None)
            told += "01"[opened.exceeds(ONE, 0)]
            if told[-1] == "1":
                break
        return told

    return renewed if gate.renewed else draw


ONE = counted(1)


def drawn(gate: Noisy, values: Values, count: int) -> Counter[str]:
    draw = gates(gate, values)
    return Counter(draw() for _ in range(count))


@pytest.mark.parametrize(
    ("gate", "values"),
    [
        (GATE, [-1, -2, 0, -1, 3]),
        (Noisy(3.0, 2.0, positives=2), [-1, 0, 1, -1]),
        (Noisy(2.0, 3.0, runs=2), [-1, 0, 1, -1]),
        (Noisy(2.0, 3.0, noise="laplace"), [-1, 0, 1, -1]),
    ],
    ids=repr,
)
def test_the_exact_sums_are_those_of_the_gate(gate, values):
    """Pearson's chi-square: false alarm 1e-8."""
    expected, found = outcomes(gate, values), drawn(gate, values, COUNT)
    assert set(found) <= set(expected)
    common = [told for told in expected if expected[told] * COUNT >= 50]
    rare = 1 - sum(expected[told] for told in common)
    pairs = [(found[told], expected[told] * COUNT) for told in common]
    if rare * COUNT >= 50:
        pairs.append((COUNT - sum(found[told] for told in common), rare * COUNT))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in pairs)
    assert chi2.sf(statistic, len(pairs) - 1) > 1e-8


def proven(hits: int, others: int, count: int) -> bool:
    """Whether P(E) > e^2 Q(E) for certain, with a false alarm below 1e-6 (Clopper-Pearson)."""
    lower = beta.ppf(ALARM, hits, count - hits + 1) if hits else 0.0
    upper = beta.ppf(1 - ALARM, others + 1, count - others) if others < count else 1.0
    return bool(lower > math.exp(EPSILON) * upper)


def caught(told: set[str], one: Counter[str], other: Counter[str]) -> bool:
    hits, others = (sum(found[what] for what in told) for found in (one, other))
    return proven(hits, others, one.total())


def surely(hits: float, others: float, count: int) -> bool:
    """Whether all but one in a million samples of an event of these chances prove it."""
    low, high = binom.ppf(5e-7, count, hits), binom.isf(5e-7, count, others)
    return proven(int(low), int(high), count)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_gate_is_caught_by_what_it_says(name):
    gate, one, other = WRONG[name]
    told, hits, others = event(outcomes(gate, one), outcomes(gate, other), EPSILON)
    count = MANY.get(name, COUNT)
    assert surely(hits, others, count)
    assert caught(told, drawn(gate, one, count), drawn(gate, other, count))


@pytest.mark.parametrize("name", WRONG)
def test_a_right_gate_is_not_accused(name):
    """The same events and tables, moved by no more than 1. False alarm 1e-6 each."""
    gate, one, other = WRONG[name]
    if name == "sensitivity off by 2":
        other = [v + max(min(w - v, 1), -1) for v, w in zip(one, other, strict=True)]
    told, _, _ = event(outcomes(gate, one), outcomes(gate, other), EPSILON)
    assert not caught(told, drawn(GATE, one, COUNT), drawn(GATE, other, COUNT))


def test_a_gate_that_releases_the_noisy_value_is_caught():
    """Lyu, Su, Li 2017, Alg. 3. The value bounds the threshold's noise, which then hides nothing.

    On [-1, 0] "below, then 0" needs Z = 0, and the first value may be below that; on [0, -1] not.
    """

    def told(values: Values) -> int:
        z = noise.exponential(1, COUNT)
        first, second = (value + noise.exponential(2, COUNT) for value in values)
        return int(((first < z) & (second >= z) & (second == 0)).sum())

    none, half = -math.expm1(-1.0), -math.expm1(-0.5)
    assert surely(none * half * half, 0.0, COUNT)
    assert proven(told([-1, 0]), told([0, -1]), COUNT)


def test_fresh_noise_for_the_value_keeps_to_the_sum_of_both_prices():
    """NumericSparse, by exact sums: the first "above", then its value with Laplace noise of 2."""
    one, other = [-1, 0, -3], [0, -1, -2]
    p, q = outcomes(GATE, one), outcomes(GATE, other)
    y = np.arange(-60, 61)
    most = 0.0
    for told in p:
        at = told.find("1")
        values = (0, 0) if at < 0 else (one[at], other[at])
        logs = [-np.abs(y - value) / 2 for value in values]
        most = max(most, abs(math.log(p[told] / q[told]) + logs[0] - logs[1]).max())
    assert 0.8 * (EPSILON + 0.5) <= most <= EPSILON + 0.5 + 1e-9
