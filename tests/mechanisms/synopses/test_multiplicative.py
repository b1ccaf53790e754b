"""Multiplicative weights: each step by its definition, both theorems near their bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.multiplicative import (
    Measured,
    averaged,
    exponential,
    learnt,
    mistakes,
    polynomial,
    projected,
    question,
    replayed,
)
from dpsql.query.linear import Table
from tests.mechanisms.boxes import asked, single

DOMAIN = Domain(("a", "b", "c"), (4, 3, 5))
UNIT = 1 << 20  # of weights that stand for numbers between -1 and 1


def boxes(draw, domain=DOMAIN):
    """A conjunction on two columns, and where it holds."""
    one, two = draw.choice(len(domain.names), 2, replace=False)
    masks, holds = {}, np.ones(domain.sizes, bool)
    for at in (one, two):
        size = domain.sizes[at]
        mask = np.isin(np.arange(size), draw.choice(size, draw.integers(1, size), replace=False))
        masks[domain.names[at]] = mask
        holds &= mask.reshape([-1 if k == at else 1 for k in range(len(domain.sizes))])
    return question(domain, asked(domain, masks)), holds


def weighted(domain, values):
    """A query with these values on each cell of one column, in units."""
    return question(domain, single(domain, table=Table(domain, values)))


def test_each_step_does_what_it_is_defined_to():
    draw = np.random.default_rng(0)
    state, dense = Factored(DOMAIN, 1.0), np.full(DOMAIN.sizes, 1 / DOMAIN.cells)
    for turn in range(40):
        one, holds = boxes(draw)
        step, target = draw.uniform(-0.9, 2), draw.uniform(0.01, 0.99)
        match turn % 3:
            case 0:
                state, dense = polynomial(state, one, step), dense * (1 + step * holds)
            case 1:
                state, dense = exponential(state, one, step), dense * np.exp(step * holds)
            case 2:
                share = dense[holds].sum()
                state = projected(state, one, target)
                dense = np.where(holds, dense * target / share, dense * (1 - target) / (1 - share))
                assert one.share(state) == pytest.approx(target, rel=1e-9)
        dense = dense / dense.sum()
        assert state.dense() == pytest.approx(dense, rel=1e-9)
    with pytest.raises(ValueError, match="above 0"):
        polynomial(state, one, -1.0)


def test_a_projection_stops_at_the_near_edge():
    draw = np.random.default_rng(1)
    one, _ = boxes(draw)
    start = Factored(DOMAIN, 1.0)
    share = one.share(start)
    assert one.share(projected(start, one, share + 0.1, 0.04)) == pytest.approx(share + 0.06)
    assert one.share(projected(start, one, share - 0.1, 0.04)) == pytest.approx(share - 0.06)
    assert projected(start, one, share + 0.03, 0.04) is start
    assert 0 < one.share(projected(start, one, -0.5, 0.1)) < 1e-9


def test_replay_brings_back_what_later_steps_moved():
    draw = np.random.default_rng(2)
    truth = draw.dirichlet(np.ones(DOMAIN.cells)).reshape(DOMAIN.sizes)
    stored, state = [], Factored(DOMAIN, 1.0)
    for _ in range(12):
        one, holds = boxes(draw)
        stored.append(Measured(one, float(truth[holds].sum()), 0.005))
        state = projected(state, one, stored[-1].share, 0.005)
    before = max(abs(m.asked.share(state) - m.share) for m in stored)
    state = replayed(state, stored, rounds=60)
    after = max(abs(m.asked.share(state) - m.share) for m in stored)
    assert before > 0.01 and after <= 0.006
    loose = [Measured(one.asked, one.share, 0.01) for one in stored]
    assert replayed(state, loose) is state


@pytest.mark.parametrize("step", [polynomial, exponential])
def test_regret_is_below_its_bound_and_above_half_of_it(step):
    """Against a cell that is the best in the end, after rounds that punish whoever is ahead.

    Both halves take turns, which costs eta / 2 a round; then one cell is better than all others,
    until that is learnt: ln N / eta. Together about 1.5 sqrt(T ln N).
    """
    size, turns = 1024, 4000
    domain = Domain(("x",), (size,))
    eta = math.sqrt(math.log(size) / turns)
    halves = np.where(np.arange(size) % 2 == 0, 1, -1)
    best = np.where(np.arange(size) == 0, -1, 1)
    last = math.ceil(3 * math.log(size) / eta)
    losses = [halves * (1 if turn % 2 == 0 else -1) for turn in range(turns - last)]
    losses += [best] * last
    state, paid, each = Factored(domain, 1.0), 0.0, np.zeros(size)
    known = {loss.tobytes(): weighted(domain, loss) for loss in losses}
    for loss in losses:
        paid += float(loss @ state.dense())
        each += loss
        state = step(state, known[loss.tobytes()], -eta)
    regret = paid - each.min()
    bound = 2 * math.sqrt(turns * math.log(size))
    assert bound / 2 < regret <= bound


def test_mistakes_are_below_their_bound_and_above_half_of_it():
    """One cell has all rows. A query is alpha there and +-1 elsewhere, balanced: it tells as little
    as it can at error alpha, and 1 / 0.375 ln N / alpha^2 of them are needed."""
    size, alpha = 1024, 0.1
    domain = Domain(("x",), (size,))
    state, steps = Factored(domain, 1.0), 0
    while steps <= mistakes(size, alpha):
        p = state.dense()
        values = np.zeros(size, np.int64)
        order = np.argsort(-p[1:], kind="stable") + 1
        tilt = 0.0
        for at in order:
            values[at] = UNIT if tilt < 0 else -UNIT  # the heavy ones lose
            tilt += math.copysign(p[at], values[at])
        values[0] = math.ceil(UNIT * (alpha + tilt) / (1 - p[0])) + 1
        error = (values[0] - values @ p) / UNIT
        if values[0] > UNIT or not error > alpha:
            break
        assert error < 1.05 * alpha or p[0] > 0.5
        state = exponential(state, weighted(domain, values), alpha / 2 / UNIT)
        steps += 1
    assert mistakes(size, alpha) / 2 < steps <= mistakes(size, alpha)


def test_every_mistake_lowers_the_divergence_enough():
    """By alpha^2 / 4 and more, whichever the query in [-1, 1]."""
    draw, alpha = np.random.default_rng(3), 0.2
    truth = draw.dirichlet(np.full(60, 0.05))
    domain = Domain(("x",), (60,))
    state, steps = Factored(domain, 1.0), 0
    for _ in range(500):
        values = draw.integers(-UNIT, UNIT + 1, 60)
        p = state.dense()
        away = float(values @ (truth - p)) / UNIT
        if abs(away) <= alpha:
            continue
        steps += 1
        state = exponential(state, weighted(domain, values), math.copysign(alpha / 2, away) / UNIT)
        q, some = state.dense(), truth > 0
        gained = (truth[some] * np.log(q[some] / p[some])).sum()
        assert gained >= alpha**2 / 4
    assert 0 < steps <= mistakes(60, alpha)


def test_public_shares_are_learnt():
    """All conjunctions of a public table on a universe of 10^6, within alpha."""
    domain = Domain(tuple("abcdef"), (10,) * 6)
    draw = np.random.default_rng(4)
    rows = {name: draw.integers(0, 10, 200) ** 2 // 10 for name in domain.names}
    public = []
    for one, two in itertools.combinations("abcd", 2):
        for low, high in ((3, 5), (6, 2)):
            masks = {one: np.arange(10) < low, two: np.arange(10) >= high}
            share = float((masks[one][rows[one]] & masks[two][rows[two]]).mean())
            public.append((question(domain, asked(domain, masks)), share))
    states, steps = learnt(domain, 1.0, public, 0.05)
    assert len(states) == steps + 1 and 0 < steps <= mistakes(domain.cells, 0.05)
    for one, share in public:
        assert abs(one.share(states[-1]) - share) <= 0.05
    (first, _), *_ = public
    mean = np.mean([first.share(state) for state in states])
    assert averaged(states, first.query)[0].item() == pytest.approx(mean)


def test_shares_that_no_table_has_are_found_out():
    everything = question(DOMAIN, single(DOMAIN))
    with pytest.raises(ValueError, match="no table"):
        learnt(DOMAIN, 1.0, [(everything, 0.2)], 0.5)
