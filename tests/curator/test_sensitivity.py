"""Sensitivity against brute force: dense matrices by hand, all neighbours, Python's integers."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.curator import norms, pairs
from dpsql.curator.sensitivity import Sensitivity, sensitivity
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.query.linear import MAX_WEIGHT, Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, UNKNOWN, And, Is, Leaf, Not, Or
from dpsql.schema import Neighbours

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


# -- the judge: every query of every cell, one at a time -----------------------------------------


def holds(predicate, cell: dict[str, int]) -> int:
    """Three-valued truth of one cell, by the tables of logic."""
    match predicate:
        case Leaf(domain=domain, table=table):
            return int(table[place(domain, cell)])
        case And(parts=parts):
            found = [holds(part, cell) for part in parts]
            return FALSE if FALSE in found else UNKNOWN if UNKNOWN in found else TRUE
        case Or(parts=parts):
            found = [holds(part, cell) for part in parts]
            return TRUE if TRUE in found else UNKNOWN if UNKNOWN in found else FALSE
        case Not(part=part):
            return {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}[holds(part, cell)]
        case Is(part=part, truth=wanted):
            return TRUE if holds(part, cell) == wanted else FALSE


def place(domain: Domain, cell: dict[str, int]) -> int:
    return int(np.ravel_multi_index([cell[n] for n in domain.names], domain.sizes or (1,))
               if domain.names else 0)  # fmt: skip


def column(workload: Workload, cell: dict[str, int]) -> list[int]:
    """W e_x: what one row in `cell` adds to every query."""
    found: list[int] = []
    for block in workload.blocks:
        weights = []
        for weight in block.weights:
            total = 0
            for term in weight.terms:
                if holds(term.predicate, cell) == TRUE:
                    table = term.table
                    total += 1 if table is None else int(table.values[place(table.domain, cell)])
            weights.append(total * weight.factor)
        kept = holds(block.where, cell) == TRUE
        for grouping in block.groupings:
            at = sum(int(table[place(domain, cell)]) * s for domain, table, s in grouping.keys)
            for listed in grouping.listed.tolist():
                found += [w if kept and at == listed else 0 for w in weights]
    return found


def cells(domain: Domain) -> list[dict[str, int]]:
    return [
        dict(zip(domain.names, codes, strict=True))
        for codes in itertools.product(*(range(size) for size in domain.sizes))
    ]


@dataclass(frozen=True)
class Truth:
    squared: int
    absolute: int
    largest: int


def truth_of(moves) -> Truth:
    moves = list(moves)
    return Truth(
        max(sum(x * x for x in m) for m in moves),
        max(sum(abs(x) for x in m) for m in moves),
        max((abs(x) for m in moves for x in m), default=0),
    )


def brute(workload: Workload, neighbours: Neighbours, rows: int = 1) -> Truth:
    """By all units of at most `rows` rows, or all pairs of rows and nothing."""
    columns = [column(workload, cell) for cell in cells(workload.domain)]
    if neighbours is ADD:
        units = itertools.chain.from_iterable(
            itertools.combinations_with_replacement(columns, n) for n in range(1, rows + 1)
        )
        return truth_of([sum(parts) for parts in zip(*unit, strict=True)] for unit in units)
    columns.append([0] * len(columns[0]))
    return truth_of(
        [x - y for x, y in zip(a, b, strict=True)] for a, b in itertools.product(columns, columns)
    )


def assert_sound(found: Sensitivity, truth: Truth) -> None:
    assert found.squared >= truth.squared
    assert found.absolute >= truth.absolute
    assert found.largest >= truth.largest


def assert_exact(found: Sensitivity, truth: Truth) -> None:
    """Equal, where the truth is not below one row."""
    assert found.squared == max(truth.squared, 1)
    assert found.absolute == max(truth.absolute, 1)
    assert found.largest == max(truth.largest, 1)


# -- random workloads ----------------------------------------------------------------------------

SIZES = st.sampled_from([1, 2, 3])
DOMAINS = st.lists(SIZES, min_size=0, max_size=3).map(
    lambda sizes: Domain(tuple("abc"[: len(sizes)]), tuple(sizes))
)
SMALL = st.integers(-3, 4)
WIDE = st.sampled_from([0, 1, MAX_WEIGHT, MAX_WEIGHT - 1, -MAX_WEIGHT, 1 << 33, (1 << 33) - 1])


@st.composite
def subdomains(draw, domain):
    names = [name for name in domain.names if draw(st.booleans())]
    return domain.project(names)


@st.composite
def leaves(draw, domain):
    part = draw(subdomains(domain))
    table = draw(st.lists(st.sampled_from([0, 1, 2, 2]), min_size=part.cells, max_size=part.cells))
    return Leaf(part, np.array(table, np.uint8))


def predicates(domain):
    return st.recursive(
        leaves(domain),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda p: And(tuple(p))),
            st.lists(inner, min_size=1, max_size=2).map(lambda p: Or(tuple(p))),
            inner.map(Not),
            st.tuples(inner, st.sampled_from([FALSE, UNKNOWN, TRUE])).map(lambda p: Is(*p)),
        ),
        max_leaves=4,
    )


@st.composite
def weights(draw, domain, numbers):
    """A count, or terms that exclude each other, with and without tables."""
    if draw(st.booleans()):
        predicate = draw(st.one_of(st.just(ALWAYS), predicates(domain)))
        return Weight((Term(predicate),), draw(st.sampled_from([1, 1, 16])))
    test = draw(predicates(domain))
    terms = []
    for wanted in draw(st.sets(st.sampled_from([FALSE, UNKNOWN, TRUE]), max_size=3)):
        table = None
        if draw(st.booleans()):
            part = draw(subdomains(domain))
            values = draw(st.lists(numbers, min_size=part.cells, max_size=part.cells))
            table = Table(part, np.array(values, np.int64))
        terms.append(Term(Is(test, wanted), table))
    return Weight(tuple(terms), draw(st.sampled_from([1, 1, 2])))


@st.composite
def groupings(draw, domain):
    """Keys of some columns; every group that a cell is in is listed, and sometimes more."""
    keys, stride = [], 1
    for _ in range(draw(st.integers(0, 2))):
        part = draw(subdomains(domain))
        codes = draw(st.lists(st.integers(0, 2), min_size=part.cells, max_size=part.cells))
        keys.append((part, np.array(codes, np.int64), stride))
        stride *= 3
    ids = {sum(int(t[place(d, c)]) * s for d, t, s in keys) for c in cells(domain)}
    ids |= draw(st.sets(st.integers(0, stride - 1), max_size=2))
    return Grouping(tuple(keys), np.array(sorted(ids), np.int64))


@st.composite
def workloads(draw, numbers=SMALL, blocks=3):
    domain = draw(DOMAINS)
    return Workload(
        domain,
        tuple(
            Block(
                draw(st.one_of(st.just(ALWAYS), predicates(domain))),
                tuple(draw(st.lists(weights(domain, numbers), min_size=1, max_size=3))),
                tuple(draw(st.lists(groupings(domain), min_size=1, max_size=2))),
            )
            for _ in range(draw(st.integers(1, blocks)))
        ),
    )


# -- laws ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workloads())
def test_the_matrix_judged_is_the_one_that_is_measured(workload):
    for cell in cells(workload.domain):
        codes = {name: np.array([code], np.int64) for name, code in cell.items()}
        answers = workload.matvec(codes, np.array([1], np.int64))
        assert [int(x) for block in answers for x in block.ravel()] == column(workload, cell)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.one_of(workloads(), workloads(WIDE)), st.sampled_from([ADD, REPLACE]))
def test_small_workloads_have_their_exact_sensitivity(workload, neighbours):
    """In 64 bits and beyond them: weights up to 2^36, whose squares wrap (A3, A4)."""
    found = sensitivity(workload, neighbours, 1)
    truth = brute(workload, neighbours)
    assert_sound(found, truth)
    if found.exact:
        assert_exact(found, truth)
    assert found.exact or len(workload.blocks) > 1 or neighbours is REPLACE


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workloads(blocks=2), st.integers(1, 3))
def test_the_worst_unit_puts_all_its_rows_into_one_cell(workload, rows):
    found = sensitivity(workload, ADD, rows)
    truth = brute(workload, ADD, rows)
    assert_sound(found, truth)
    if found.exact and truth.squared:
        assert_exact(found, truth)
    assert found.squared >= rows**2 and found.absolute >= found.largest >= rows


LIMITS = [{"_VISITED": 0}, {"_WORK": 8}, {"_VISITED": 3, "_PLAIN": 0}]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@settings(deadline=None, max_examples=50, derandomize=True)
@given(workload=st.one_of(workloads(), workloads(WIDE)), neighbours=st.sampled_from([ADD, REPLACE]))
def test_bounds_are_never_below_the_truth(limits, workload, neighbours):
    """By components, by weights alike, and by the largest weights."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(norms, name, value)
        found = sensitivity(workload, neighbours, 1)
    truth = brute(workload, neighbours)
    assert_sound(found, truth)
    if found.exact:
        assert_exact(found, truth)


@pytest.mark.parametrize("held", [0, 1 << 22])
@pytest.mark.parametrize("compared", [0, 12, 60])
@settings(deadline=None, max_examples=30, derandomize=True)
@given(workload=st.one_of(workloads(), workloads(WIDE)))
def test_pairs_cut_short_are_never_below_the_truth(held, compared, workload):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_HELD", held)
        patch.setattr(pairs, "_COMPARED", compared)
        found = sensitivity(workload, REPLACE, 1)
    truth = brute(workload, REPLACE)
    assert_sound(found, truth)
    if found.exact:
        assert_exact(found, truth)
    one = sensitivity(workload, ADD, 1)
    if one.exact:
        assert found.squared <= 4 * one.squared and found.absolute <= 2 * one.absolute


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workload=st.one_of(workloads(), workloads(WIDE)))
def test_pairs_without_their_groups_are_never_below_the_truth(workload):
    columns = pairs._columns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_by_norms", lambda *args: [1 << 120] * 3)
        patch.setattr(pairs, "_columns", lambda w, f, told: None if told else columns(w, f, told))
        found = sensitivity(workload, REPLACE, 1)
    assert found.squared < 1 << 120
    assert_sound(found, brute(workload, REPLACE))


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workload=workloads(blocks=1))
def test_components_of_one_block_are_exact(workload):
    """What one visit of the whole domain finds, found by parts."""
    found = sensitivity(workload, ADD, 1)
    assert found.exact
    assert_exact(found, brute(workload, ADD))


# -- known answers -------------------------------------------------------------------------------


def leaf(name: str, *table: int) -> Leaf:
    return Leaf(Domain((name,), (len(table),)), np.array(table, np.uint8))


def table(name: str, *values: int) -> Table:
    return Table(Domain((name,), (len(values),)), np.array(values, np.int64))


COUNT = Weight((Term(ALWAYS),))
TOTAL = Grouping((), np.zeros(1, np.int64))


def by(name: str, size: int) -> Grouping:
    codes = np.arange(size, dtype=np.int64)
    return Grouping(((Domain((name,), (size,)), codes, 1),), codes)


def one_block(domain: Domain, where, ws, gs=(TOTAL,)) -> Workload:
    return Workload(domain, (Block(where, tuple(ws), tuple(gs)),))


AB = Domain(("a", "b"), (2, 3))


@pytest.mark.parametrize(
    ("workload", "added", "replaced"),
    [
        (one_block(AB, ALWAYS, [COUNT]), 1, 1),
        (one_block(AB, leaf("a", 0, 2), [COUNT]), 1, 1),
        (one_block(AB, ALWAYS, [COUNT], [by("b", 3)]), 1, 2),
        (one_block(AB, ALWAYS, [COUNT], [by("b", 3), TOTAL]), 2, 2),
        (one_block(AB, ALWAYS, [COUNT, COUNT], [by("a", 2), by("b", 3), TOTAL]), 6, 8),
        (one_block(AB, leaf("a", 0, 0), [COUNT]), 1, 1),
    ],
    ids=["total", "filter", "groups", "groups and total", "cube", "nobody"],
)
def test_counts_move_as_known(workload, added, replaced):
    """T43: replace-one is sqrt(2) of add-remove for a histogram, and equal for one count."""
    assert sensitivity(workload, ADD, 1).squared == added
    assert sensitivity(workload, REPLACE, 1).squared == replaced


def test_a_mean_costs_as_much_as_one_count():
    """Its two parts are disjoint: B02, an AVG is no two releases."""
    p, q = Term(leaf("a", 0, 2)), Term(leaf("a", 2, 0))
    mean = one_block(AB, ALWAYS, [Weight((p,)), Weight((q,))])
    assert sensitivity(mean, ADD, 1) == Sensitivity(1, 1, 1, True)
    assert sensitivity(mean, REPLACE, 1) == Sensitivity(2, 2, 1, True)
    values = one_block(
        AB, ALWAYS, [Weight((Term(ALWAYS, table("b", 0, 1, 2)),)),
                     Weight((Term(ALWAYS, table("b", 2, 1, 0)),))],
    )  # fmt: skip
    assert sensitivity(values, ADD, 1) == Sensitivity(4, 2, 2, True)


def test_disjoint_groups_do_not_add_up():
    many = Domain(("a",), (1000,))
    for ws in ([COUNT], [COUNT, COUNT]):
        found = sensitivity(one_block(many, ALWAYS, ws, [by("a", 1000)]), ADD, 1)
        assert found.squared == len(ws)


def test_blocks_that_exclude_each_other_do_not_add_up():
    halves = Workload(AB, tuple(Block(leaf("a", *t), (COUNT,), (TOTAL,)) for t in ((0, 2), (2, 0))))
    assert sensitivity(halves, ADD, 1) == Sensitivity(1, 1, 1, True)
    twice = Workload(AB, (Block(ALWAYS, (COUNT,), (TOTAL,)),) * 2)
    assert sensitivity(twice, ADD, 1) == Sensitivity(2, 2, 1, True)


def test_many_blocks_of_heavy_weights_do_not_wrap():
    """Sixteen blocks whose squares are each just within 62 bits: their sum is not."""
    heavy = (1 << 31) - 1
    blocks = [Block(ALWAYS, (Weight((Term(ALWAYS),), heavy),), (TOTAL,))] * 16
    for neighbours in (ADD, REPLACE):
        found = sensitivity(Workload(AB, tuple(blocks)), neighbours, 1)
        assert found.squared == 16 * heavy**2 > 1 << 63


def test_the_last_bits_of_heavy_weights_count():
    """Squares of about 2^72: floats cannot tell these two cells apart (A3)."""
    crowd = one_block(
        AB, ALWAYS, [Weight((Term(ALWAYS, table("b", MAX_WEIGHT, MAX_WEIGHT, 0)),)),
                     Weight((Term(ALWAYS, table("b", 705, 759, 0)),)),
                     Weight((Term(ALWAYS, table("b", 705, 0, 0)),))],
    )  # fmt: skip
    rough = np.array([[MAX_WEIGHT, 705, 705], [MAX_WEIGHT, 759, 0]], float) ** 2 @ np.ones(3)
    assert rough[0] < rough[1] and 2 * 705**2 > 759**2
    assert sensitivity(crowd, ADD, 1).squared == MAX_WEIGHT**2 + 2 * 705**2
    equal = [MAX_WEIGHT, MAX_WEIGHT, MAX_WEIGHT]
    last = one_block(
        AB, ALWAYS, [Weight((Term(ALWAYS, table("b", *equal)),)),
                     Weight((Term(ALWAYS, table("b", 1, 2, 1)),))],
    )  # fmt: skip
    assert float(MAX_WEIGHT**2 + 1) == float(MAX_WEIGHT**2 + 4)
    assert sensitivity(last, ADD, 1).squared == MAX_WEIGHT**2 + 4


def test_weights_beyond_the_integers_are_refused():
    """A4: by a bound on the workload alone."""
    heavy = one_block(AB, ALWAYS, [Weight((Term(ALWAYS, table("a", MAX_WEIGHT, 0)),), 4)])
    with pytest.raises(UsageError):
        sensitivity(heavy, ADD, 1)
    legal = one_block(AB, ALWAYS, [Weight((Term(ALWAYS, table("a", MAX_WEIGHT, 0)),))])
    with pytest.raises(UsageError):
        sensitivity(legal, ADD, 1 << 28)


def test_negative_weights_move_by_their_sum():
    signed = one_block(AB, ALWAYS, [Weight((Term(ALWAYS, table("b", -3, 0, 4)),))])
    assert sensitivity(signed, ADD, 1) == Sensitivity(16, 4, 4, True)
    assert sensitivity(signed, REPLACE, 1) == Sensitivity(49, 7, 7, True)


def test_rows_of_a_unit_multiply():
    found = sensitivity(one_block(AB, ALWAYS, [COUNT], [by("b", 3), TOTAL]), ADD, 4)
    assert found == Sensitivity(32, 8, 4, True)


def test_a_sensitivity_checks_itself():
    for wrong in ((0, 1, 1), (1, 0, 0), (1, 1, 2), (1, 1, 0)):
        with pytest.raises(ValueError):
            Sensitivity(*wrong, True)


def test_a_huge_universe_costs_nothing():
    """20 columns of 1,000 values, 12 means, a filter on each column, 48 groups: 10^60 cells."""
    names = tuple(f"c{i}" for i in range(20))
    domain = Domain(names, (1000,) * 20)
    half = np.repeat(np.array([0, 2], np.uint8), 500)
    test = {name: Leaf(Domain((name,), (1000,)), half) for name in names}
    ws = [Weight((Term(Is(test[name], truth)),)) for name in names[:12] for truth in (TRUE, FALSE)]
    keys = tuple(by(name, 1000) for name in names[:5])
    counts = Workload(domain, (Block(And(tuple(test.values())), (COUNT, *ws), keys),))
    started = time.process_time()
    found = sensitivity(counts, ADD, 1)
    assert time.process_time() - started < 0.1
    assert found == Sensitivity(13 * 5, 13 * 5, 1, True)
    bound = sensitivity(counts, REPLACE, 1)
    assert 13 * 5 * 2 >= bound.squared >= 13 * 5 and bound.largest == 1
    assert time.process_time() - started < 1.0
