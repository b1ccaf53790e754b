"""Which tables are fitted together where all of them have too large a junction tree."""

import itertools
import math

import numpy as np
import pytest

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.junction import Entangled, Names
from dpsql.mechanisms.synopses.layout import layout
from dpsql.mechanisms.synopses.noisy import NoisyTable, total, whole
from dpsql.mechanisms.synopses.tractable import tractable

PAIRS = (*itertools.combinations("abcd", 2),)


def noise(domain: Domain, sets: list[Names], seed: int) -> list[NoisyTable]:
    draw = np.random.default_rng(seed)
    return [
        whole(domain, names, draw.normal(size=tuple(map(domain.size, names))), 1.0)
        for names in sets
    ]


def cells(domain: Domain, tables: list[NoisyTable]) -> int:
    return sum(layout(domain, tables, 1 << 60).tree.cells)


@pytest.mark.parametrize("most", [10, 100, 400, 1000, 5000, 10_000])
def test_tables_are_left_out_until_the_tree_is_small_enough(most: int) -> None:
    domain = Domain(tuple("abcd"), (10,) * 4)
    tables = noise(domain, [*PAIRS, *((name,) for name in "abcd")], 4)
    if most == 10:  # single columns alone have more
        with pytest.raises(Entangled):
            tractable(domain, tables, most)
        return
    taken, left = tractable(domain, tables, most)
    assert sorted(map(id, [*taken, *left])) == sorted(map(id, tables))
    assert bool(left) == (most < 10_000)
    assert cells(domain, taken) <= most
    fitted(domain, 1.0, taken, most=most)
    for table in left:
        with pytest.raises(Entangled):
            fitted(domain, 1.0, [*taken, table], most=most)


def people() -> tuple[Domain, dict[str, np.ndarray]]:
    """Four columns of which a and b, and c and d hang together, and the others hardly."""
    domain, draw = Domain(tuple("abcd"), (6, 7, 8, 9)), np.random.default_rng(5)
    a, c = draw.integers(0, 6, 20_000), draw.integers(0, 8, 20_000)
    near = draw.integers(0, 2, (2, 20_000))
    return domain, {"a": a, "b": (a + near[0]) % 7, "c": c, "d": (c + near[1]) % 9}


@pytest.mark.parametrize("centred", [False, True])
def test_what_tells_least_is_left_out(centred: bool) -> None:
    """Independent pairs go, whatever their size; the order of tables makes no difference."""
    domain, codes = people()
    draw = np.random.default_rng(6)
    tables = []
    for names in [("a",), ("b",), ("c",), ("d",), *PAIRS]:
        sizes = tuple(map(domain.size, names))
        at = np.ravel_multi_index(tuple(codes[name] for name in names), sizes)
        rows = np.bincount(at, minlength=math.prod(sizes)).reshape(sizes) + draw.normal(0, 5, sizes)
        if centred and len(names) == 2:
            for axis in range(2):
                rows = rows - rows.mean(axis=axis, keepdims=True)
        classes = tuple(np.arange(n) for n in sizes)
        tables.append(NoisyTable(names, classes, rows, 25.0, centred and len(names) == 2))
    found = []
    for most in (3023, 120):
        taken, left = tractable(domain, tables, most)
        again, _ = tractable(domain, tables[::-1], most)
        assert {t.names for t in again} == {t.names for t in taken}
        assert not {("a", "b"), ("c", "d")} & {t.names for t in left}
        assert cells(domain, taken) <= most
        found.append(len(left))
    assert found[0] < found[1] == 4
    assert total(tables) > 0


def test_wider_tables_go_with_their_pairs() -> None:
    domain = Domain(tuple("abcde"), (20,) * 5)
    sets = [("a", "b", "c"), ("c", "d", "e"), ("a", "e"), ("b", "d"), *((n,) for n in "abcde")]
    tables = noise(domain, sets, 7)
    for most in (20_000, 9_000, 4_000, 500):
        taken, left = tractable(domain, tables, most)
        assert cells(domain, taken) <= most and left
        assert all((name,) in {t.names for t in taken} for name in "abcde")


def test_binary_columns_are_torn_apart_at_last() -> None:
    """A clique of two such columns less is two cliques of as many cells together."""
    names = tuple("abcdefghijkl")
    domain = Domain(names, (2,) * 12)
    tables = noise(domain, [*itertools.combinations(names, 2), *((n,) for n in names)], 8)
    taken, _ = tractable(domain, tables, 300)
    assert 24 <= cells(domain, taken) <= 300


def test_tables_that_tell_no_number_of_rows() -> None:
    domain = Domain(tuple("abc"), (10,) * 3)
    classes = (np.arange(10), np.arange(10))
    tables = [
        NoisyTable(names, classes, np.zeros((10, 10)), 1.0, centred=True)
        for names in itertools.combinations("abc", 2)
    ]
    taken, left = tractable(domain, tables, 250)
    assert len(taken) == 2 and len(left) == 1


def test_many_columns_are_no_trouble() -> None:
    """All pairs of forty columns, a thousand times a thousand times too large."""
    names = tuple(f"c{at}" for at in range(40))
    domain = Domain(names, (5,) * 40)
    tables = noise(domain, [*itertools.combinations(names, 2), *((n,) for n in names)], 9)
    taken, _ = tractable(domain, tables, 1 << 17)
    assert 1 << 12 <= cells(domain, taken) <= 1 << 17
