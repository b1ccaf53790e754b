"""Factored distributions: those of the dense table, on every universe small enough to hold."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.domain import Domain
from dpsql.mechanisms.synopses import expectation
from dpsql.mechanisms.synopses.expectation import answers, indicator
from dpsql.mechanisms.synopses.factors import Factored, of_dense
from dpsql.mechanisms.synopses.junction import Entangled
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, And, Is, Leaf, Not, Or, truth
from tests.mechanisms.boxes import asked, leaf, single

NEAR = 1e-12


@st.composite
def universes(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    return Domain(tuple(f"c{at}" for at in range(len(sizes))), tuple(sizes))


@st.composite
def predicates(draw, domain, depth=2):
    """Trees of leaves over one column or two, with all three truths."""
    kind = draw(st.sampled_from(("leaf", "and", "or", "not", "is"))) if depth else "leaf"
    inner = predicates(domain, max(depth - 1, 0))
    match kind:
        case "and" | "or":
            parts = tuple(draw(st.lists(inner, min_size=1, max_size=3)))
            return And(parts) if kind == "and" else Or(parts)
        case "not":
            return Not(draw(inner))
        case "is":
            return Is(draw(inner), draw(st.integers(0, 2)))
    names = draw(st.permutations(domain.names))[: draw(st.integers(0, 2))]
    own = domain.project(names)
    table = draw(st.lists(st.integers(0, 2), min_size=own.cells, max_size=own.cells))
    return Leaf(own, np.array(table, np.uint8))


def on_grid(domain, predicate):
    return (truth(predicate, domain.grid(), domain.cells) == 2).reshape(domain.sizes)


@st.composite
def learnt(draw, domain):
    """A state after some updates, and the same as a dense table."""
    state, dense = Factored(domain, 1000.0), np.full(domain.sizes, 1000.0 / domain.cells)
    for _ in range(draw(st.integers(0, 6))):
        predicate = draw(predicates(domain))
        step = draw(st.floats(-3, 3))
        told, table = indicator(domain, single(domain, predicate), 1 << 20)
        state = state.times(told, step * table)
        dense = dense * np.exp(step * on_grid(domain, predicate))
        dense *= 1000.0 / dense.sum()
    return state, dense


@st.composite
def workloads(draw, domain):
    """Weights of tables under conditions, in groups of up to two keys."""
    own = domain.project(draw(st.permutations(domain.names))[: draw(st.integers(0, 2))])
    values = np.array(
        draw(st.lists(st.integers(-3, 3), min_size=own.cells, max_size=own.cells)), np.int64
    )
    predicate = draw(predicates(domain))
    weights = (
        Weight((Term(predicate, Table(own, values)),), 3),
        Weight((Term(ALWAYS), Term(Not(Is(predicate, 2)), Table(own, values)))),
    )
    keys, stride = [], 1
    for name in draw(st.permutations(domain.names))[: draw(st.integers(0, 2))]:
        size = domain.size(name)
        codes = np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), np.int64)
        keys.append((domain.project([name]), codes, stride))
        stride *= 3
    groups = Grouping(tuple(reversed(keys)), np.arange(stride))
    listed = np.flatnonzero(np.arange(stride) % 2 == 0)
    where = draw(predicates(domain))
    return Workload(domain, (Block(where, weights, (groups, Grouping(groups.keys, listed))),))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_dense_and_factored_agree(data):
    """Marginals and answers of every kind of workload, after any updates; by joint distributions
    that are formed, and by sums over the tree where these are too large."""
    domain = data.draw(universes())
    state, dense = data.draw(learnt(domain))
    assert np.abs(state.dense() - dense).max() <= NEAR * 1000
    names = data.draw(st.permutations(domain.names))[: data.draw(st.integers(0, 3))]
    gone = tuple(at for at, name in enumerate(domain.names) if name not in names)
    kept = [name for name in domain.names if name in names]
    margin = dense.sum(axis=gone).transpose([kept.index(name) for name in names])
    assert np.abs(state.marginal(names) - margin).max() <= NEAR * 1000
    workload = data.draw(workloads(domain))
    most = data.draw(st.sampled_from((1 << 16, 0)))
    with mock.patch.multiple(expectation, _JOINT=most, _SPREAD=most):
        (found,) = answers(state, workload)
    expected = judged(workload, domain, dense)
    assert np.abs(found - expected).max(initial=0) <= NEAR * 1000 * 20


def judged(workload, domain, dense):
    """The workload cell by cell."""
    codes, rows = domain.grid(), dense.reshape(-1)
    (block,) = workload.blocks
    kept = truth(block.where, codes, domain.cells) == 2
    found = []
    for grouping in block.groupings:
        at = grouping.position(codes, domain.cells)
        for group in range(grouping.size):
            inside = kept & (at == group)
            found.append([w.values(codes, domain.cells)[inside] @ rows[inside]
                          for w in block.weights])  # fmt: skip
    return np.array(found)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_dense_table_is_a_state(data):
    """Zeros included."""
    domain = data.draw(universes())
    draw = np.random.default_rng(data.draw(st.integers(0, 1000)))
    dense = draw.integers(0, 4, domain.sizes).astype(float)
    dense.flat[0] += 1
    assert np.abs(of_dense(domain, dense).dense() - dense).max() <= NEAR * dense.sum()


@pytest.mark.parametrize(("columns", "size"), [(6, 10), (9, 100), (79, 10)])
def test_huge_universes_cost_what_was_learnt(columns, size):
    """Updates on columns that do not meet multiply: 10^6, 10^18 and 10^79 cells by hand."""
    domain = Domain(tuple(f"c{at}" for at in range(columns)), (size,) * columns)
    state, odds = Factored(domain, 1e6), {}
    low = np.arange(size) < size // 2
    for at in range(0, columns - 1, 2):
        one, two = f"c{at}", f"c{at + 1}"
        told, table = indicator(domain, asked(domain, {one: low, two: low}), 1 << 20)
        state = state.times(told, math.log(1.0 + at) * table)
        odds[at] = (1.0 + at) / (4.0 + at)
    for at, share in odds.items():
        (found,) = answers(state, asked(domain, {f"c{at}": low, f"c{at + 1}": low}))
        assert found.item() == pytest.approx(1e6 * share, rel=1e-12)
    (both,) = answers(state, asked(domain, {"c0": low, "c1": low, "c2": low, "c3": low}))
    assert both.item() == pytest.approx(1e6 * odds[0] * odds[2], rel=1e-12)
    assert sum(table.size for table in state.beliefs) <= 4 * columns


def test_a_chain_over_a_huge_universe_is_summed_exactly():
    """Neighbours that are equal more often: by powers of the transfer matrix."""
    domain = Domain(tuple(f"c{at}" for at in range(79)), (10,) * 79)
    state = Factored(domain, 1.0)
    digits = np.arange(10)
    for at in range(78):
        told = {f"c{at}": digits, f"c{at + 1}": digits}
        state = state.times(told, np.eye(10))
    step = np.exp(np.eye(10))
    power = np.linalg.matrix_power(step / step.sum(axis=0), 78)
    first = digits == 3
    (found,) = answers(state, asked(domain, {"c0": first, "c78": first}))
    assert found.item() == pytest.approx(power[3, 3] / 10, rel=1e-12)


def test_what_is_too_entangled_is_refused_and_the_state_stays():
    domain = Domain(tuple(f"c{at}" for at in range(20)), (10,) * 20)
    state = Factored(domain, 1.0, most=1000)
    digits = np.arange(10)
    state = state.times({name: digits for name in ("c0", "c1", "c2")}, np.zeros((10, 10, 10)))
    with pytest.raises(Entangled):
        state.times({"c2": digits, "c3": digits}, np.zeros((10, 10)))
    with pytest.raises(Entangled):
        state.marginal(("c0", "c1", "c2", "c3"))
    with pytest.raises(Entangled):
        everything = Not(And(tuple(leaf(domain, f"c{at}", digits == at % 10) for at in range(20))))
        answers(state, single(domain, everything))
    assert state.marginal(("c2",)) == pytest.approx(np.full(10, 0.1))
