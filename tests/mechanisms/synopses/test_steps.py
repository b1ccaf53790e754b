"""The textbook's steps, against the same on a table of all cells."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.accounting.kept.stored import Stored
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.steps import STEPS, stepped
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import And, Leaf

DOMAIN = Domain(("a", "b", "c"), (4, 3, 2))
ROWS = 1000.0
LAW = Gaussian(1, Fraction(100))


def asked(**codes: list[int]) -> Workload:
    """The rows whose codes are among some."""
    leaves = tuple(
        Leaf(
            DOMAIN.project([name]),
            np.where(np.isin(np.arange(DOMAIN.size(name)), some), 2, 0).astype(np.uint8),
        )
        for name, some in codes.items()
    )
    everyone = Grouping((), np.zeros(1, np.int64))
    return Workload(DOMAIN, (Block(And(leaves), (Weight((Term(And(())),)),), (everyone,)),))


ASKED = [({"a": [1, 2], "b": [0]}, 400), ({"c": [1]}, 900), ({"a": [3], "b": [1, 2], "c": [0]}, 3),
         ({"a": [1, 2], "b": [0], "c": [1]}, 380)]  # fmt: skip


def stored(codes: dict[str, list[int]], value: int, law: Gaussian | Laplace = LAW) -> Stored:
    found = Stored.of(asked(**codes), law, [np.array([[value]])])
    assert found is not None
    return found


def dense(step: str, threshold: int) -> np.ndarray:
    """The same, cell by cell."""
    p = np.full(DOMAIN.sizes, 1 / DOMAIN.cells)
    known: list[tuple[np.ndarray, float]] = []

    def project(p: np.ndarray, q: np.ndarray, target: float) -> np.ndarray:
        share, slack = float((p * q).sum()), 10 / ROWS
        if abs(target - share) <= slack:
            return p
        edge = min(max(target - math.copysign(slack, target - share), 1e-12), 1 - 1e-12)
        return p * np.where(q == 1, edge / share, (1 - edge) / (1 - share))

    for codes, value in ASKED:
        q = np.zeros(DOMAIN.sizes)
        q[np.ix_(*(codes.get(name, range(DOMAIN.size(name))) for name in DOMAIN.names))] = 1
        share = value / ROWS
        if step == "projection":
            p = project(p, q, share)
            known.append((q, share))
            for _ in range(4):
                for other, target in reversed(known):
                    p = project(p, other, target)
        else:
            size = math.copysign(threshold / ROWS / 2, share - float((p * q).sum()))
            p = p * (np.exp(size * q) if step == "exponential" else 1 + size * q)
            p /= p.sum()
    return p


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("threshold", [30, 600])
def test_steps_are_those_of_the_textbook(step: str, threshold: int) -> None:
    releases = [stored(codes, value) for codes, value in ASKED]
    state = stepped(DOMAIN, Factored(DOMAIN, ROWS), releases, step, threshold)
    assert state.total == ROWS
    np.testing.assert_allclose(state.dense() / ROWS, dense(step, threshold), atol=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_what_is_no_single_count_teaches_nothing(step: str) -> None:
    grouped = Block(
        And(()), (Weight((Term(And(())),)),),
        (Grouping(((DOMAIN.project(["a"]), np.arange(4), 1),), np.arange(4)),),
    )  # fmt: skip
    several = Stored.of(Workload(DOMAIN, (grouped,)), LAW, [np.full((4, 1), 250)])
    heavy = stored(*ASKED[0], Laplace(1, 1, Fraction(10)))
    assert several is not None
    start = Factored(DOMAIN, ROWS)
    after = stepped(DOMAIN, start, [several, heavy], step, 30)
    np.testing.assert_array_equal(after.dense(), start.dense())


def test_too_many_columns_are_not_learnt() -> None:
    domain = Domain(("a", "b"), (300, 300))
    leaf = Leaf(domain, np.where(np.arange(90_000) % 7 == 0, 2, 0).astype(np.uint8))
    everyone = Grouping((), np.zeros(1, np.int64))
    query = Workload(domain, (Block(leaf, (Weight((Term(And(())),)),), (everyone,)),))
    found = Stored.of(query, LAW, [np.array([[5]])])
    assert found is not None
    start = Factored(domain, ROWS)
    assert stepped(domain, start, [found], "exponential", 30).factors == start.factors
