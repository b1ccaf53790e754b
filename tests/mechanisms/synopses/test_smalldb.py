"""SmallDB: every database is looked at, the theorem holds on its worst instance, and answers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import PICO, Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.curator import select, small
from dpsql.curator.sensitivity import sensitivity
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms.synopses import smalldb
from dpsql.mechanisms.synopses.learnt import learnt as fitted_to
from dpsql.query.linear import Table, Workload
from dpsql.schema import Neighbours
from tests.mechanisms.boxes import asked, single

DOMAIN = Domain(("a", "b"), (3, 2))


def queries(*masks: dict[str, list[int]]) -> Workload:
    """Counts of these codes of each column."""
    blocks = [
        asked(DOMAIN, {n: np.isin(np.arange(DOMAIN.size(n)), on) for n, on in each.items()}).blocks
        for each in masks
    ]
    return Workload(DOMAIN, tuple(block for (block,) in blocks))


LISTED = queries({"a": [0]}, {"a": [0, 1], "b": [1]}, {"b": [0]}, {"a": [2], "b": [0]})


def brute(table: np.ndarray, size: int) -> list[int]:
    """The largest |m q(D) - n q(y)| of each database, by its definition."""
    true = LISTED.matvec(DOMAIN.grid(), table)
    found = []
    for cells in itertools.combinations_with_replacement(range(DOMAIN.cells), size):
        codes = {name: of[list(cells)] for name, of in DOMAIN.grid().items()}
        own = LISTED.matvec(codes, np.ones(size, np.int64))
        pairs = [(int(q.item()), int(p.item())) for q, p in zip(true, own, strict=True)]
        away = [size * q - int(table.sum()) * p for q, p in pairs]
        found.append(max(map(abs, away)))
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_database_is_looked_at_and_its_distance_is_exact(size):
    table = np.random.default_rng(size).integers(0, 30, 6)
    found = small.distances(small.matrix(LISTED, DOMAIN), table, size)
    assert found.tolist() == brute(table, size)
    every = small.multisets(6, size)
    assert len(every) == len(found) == small.databases(6, size)
    for place, cells in enumerate(every.tolist()):
        assert small.database(6, size, place) == cells


@pytest.mark.parametrize("size", [1, 3])
def test_no_distance_moves_by_more_than_the_size_and_some_do(size):
    """By brute force over all rows that come, go or are replaced."""
    matrix, reached = small.matrix(LISTED, DOMAIN), 0
    for seed in range(5):
        table = np.random.default_rng(seed).integers(1, 9, 6)
        before = small.distances(matrix, table, size)
        steps = [*np.eye(6, dtype=np.int64)]
        for step in (*steps, *(-s for s in steps), *(a - b for a in steps for b in steps)):
            moved = int(np.abs(small.distances(matrix, table + step, size) - before).max())
            assert moved <= size
            reached = max(reached, moved)
    assert reached == size


def test_queries_that_are_not_0_or_1_are_refused():
    table = Table(DOMAIN.project(["a"]), np.array([0, 1, 2]))
    with pytest.raises(UsageError, match="answers counts"):
        small.matrix(single(DOMAIN, table=table), DOMAIN)


def test_too_many_databases_are_refused_by_their_number():
    small.require(6, 4, 4)
    for cells, size, number in ((100, 8, 1), (1000, 1, 1 << 20), (1 << 14, 1, 1), (6, 0, 1)):
        with pytest.raises(UsageError, match=r"databases of|of a row or more"):
            small.require(cells, size, number)


# -- the theorem -----------------------------------------------------------------------------------


def test_the_best_database_errs_by_no_more_than_sampling_says():
    """And by more than half of that on the halves of a table that is spread evenly: all sets of
    half of the cells are asked about, so whichever cells a database has, one has all of them."""
    cells, size = 8, 4
    sets = [np.isin(np.arange(cells), s) for s in itertools.combinations(range(cells), cells // 2)]
    matrix = np.array(sets, np.int64)
    table = np.full(cells, 100, np.int64)
    best = small.distances(matrix, table, size).min() / size
    most = smalldb.sampled(table.sum(), len(matrix), size)
    assert most / 2 < best <= most
    for seed in range(5):  # any table, any queries
        draw = np.random.default_rng(seed)
        table, matrix = draw.integers(0, 200, 8), draw.integers(0, 2, (12, 8))
        best = small.distances(matrix, table, 4).min() / 4
        assert best <= smalldb.sampled(table.sum(), 12, 4)


def test_the_choice_errs_by_more_than_the_best_as_the_theorem_says_and_half_is_too_little():
    """One database is right, and all others are as far off as can be for the mechanism to take one
    of them: then the chance is beta, nearly. Exact chances, of a softmax."""
    many, size, beta, scale = 500, 4, 0.05, Fraction(40)
    most = smalldb.beyond(scale, many, size, beta) * size
    for share, kept in ((1.0, True), (0.5, False)):
        gaps = np.full(many, math.floor(share * most) + 1.0)
        gaps[0] = 0.0
        weights = np.exp(-gaps / float(scale))
        missed = weights[1:].sum() / weights.sum()  # by more than share x the bound
        assert bool(missed <= beta) is kept
    gaps = [0, *[-math.floor(most) - 1] * (many - 1)]
    drawn = sum(select.exponential(gaps, scale) != 0 for _ in range(400))
    assert drawn <= 45  # of 20 expected: once in 10^6


# -- what is bought and told -----------------------------------------------------------------------


def squared(workload):
    return sensitivity(workload, Neighbours.ADD_REMOVE, 1).squared


class Exactly:
    """Without noise: the database that errs least."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def first(self, asked):
        return tuple(asked.matvec(DOMAIN.grid(), self.table))

    def database(self, domain, size):
        self.far = small.distances(small.matrix(LISTED, domain), self.table, size)
        return int(self.far.argmin())

    def distance(self):
        return -(-int(self.far.min()) // 4)


TABLE = np.array([250, 250, 0, 250, 0, 250])


def bought(rho=1.0, size=4) -> tuple[smalldb.Plan, Stored]:
    plan = smalldb.planned(LISTED, DOMAIN, size, int(rho * PICO), squared, 1)
    return plan, smalldb.learnt(plan, Exactly(TABLE))


@pytest.mark.parametrize("rho", [1e-4, 0.3])
def test_the_price_is_what_was_asked_for(rho):
    plan, _ = bought(rho)
    assert 0.9999 * rho * PICO <= plan.event.rho <= rho * PICO
    assert plan.event.pick.sensitivity == 4 and plan.many == 126
    assert plan.event.pick.rho == pytest.approx(0.7 * rho * PICO, rel=1e-4)


def test_the_size_that_is_not_said_is_the_largest_that_is_looked_at():
    for cells, most in ((2, 8), (6, 8), (40, 4), (5000, 1)):
        domain = Domain(("x",), (cells,))
        listed = asked(domain, {"x": np.arange(cells) == 0})
        plan = smalldb.planned(listed, domain, None, PICO, squared, 1)
        assert plan.size == most and plan.many <= small.MOST


def test_a_database_answers_its_queries_and_is_kept():
    plan, stored = bought()
    again = Stored.from_bytes(stored.to_bytes())
    found = again.chosen
    assert found is not None and again.apart and again.picked == ()
    assert found.codes.tolist() == [[0, 0], [0, 1], [1, 1], [2, 1]]
    assert (found.total, found.distance, found.many) == (1000, 0, 126)
    assert smalldb.told(found, LISTED)
    (true, *_), (answer, *_) = LISTED.matvec(DOMAIN.grid(), TABLE), smalldb.answers(found, LISTED)
    assert answer.tolist() == true.tolist() == [[500]]
    assert not smalldb.told(found, queries({"a": [1]}))
    state = fitted_to(DOMAIN, [again])
    assert state.dense().reshape(-1).tolist() == pytest.approx(TABLE.tolist())
    assert plan.better(0.95) == pytest.approx(
        float(plan.event.pick.scale) * math.log(126 / 0.05) / 4
    )


def test_the_bound_is_the_distance_that_was_measured_with_its_noises_or_the_theorem():
    _, stored = bought(0.02)
    found = stored.chosen
    assert found is not None
    deviation = [math.sqrt(law.variance) for law in found.laws]
    most = smalldb.most(found, 0.95)
    assert sum(deviation) * 2 < most < sum(deviation) * 3 + 1  # at a sixth of 5 % each way: 2.4
    assert most == smalldb.at_best(found, 0.95)
    far = dataclasses.replace(found, distance=10**6)
    theorem = smalldb.sampled(1000, 4, 4) + float(found.scale) * math.log(126 * 60) / 4
    assert theorem < smalldb.most(far, 0.95) < 1.2 * theorem  # and the noise of the total
    assert smalldb.most(far, 0.99) > smalldb.most(far, 0.95)


def test_damaged_databases_are_none():
    _, stored = bought()
    found = stored.chosen
    assert found is not None
    codes = found.codes
    for change in ({"codes": codes[:, :1]}, {"codes": codes[:0]}, {"many": 0}, {"keys": ()}):
        with pytest.raises(ValueError, match="small database"):
            dataclasses.replace(found, **change)
    assert isinstance(found.laws[0], Gaussian)
