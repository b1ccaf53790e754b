"""Which tables are fitted together where all of them have too large a junction tree."""

import itertools
import math

import numpy as np
import pytest

from dpsql.domain import Domain
from dpsql.mechanisms.synopses import entropy, junction
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
    taken, left = tractable(domain, tables, most)
    assert sorted(map(id, [*taken, *left])) == sorted(map(id, tables))
    assert bool(left) == (most < 10_000)
    assert cells(domain, taken) <= most
    assert len(taken) == 1 or most > 10  # single columns alone have more
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


@pytest.mark.parametrize("most", [1 << 20, 30_000, 20_000, 6_000, 100])
def test_single_columns_of_many_values_are_left_out(most: int) -> None:
    """The largest of them, where they alone have too many; and the others stay."""
    domain = Domain(tuple("abcd"), (9_000, 12_000, 5_000, 90))
    tables = noise(domain, [("a",), ("b",), ("c",), ("d",), ("c", "d")], 10)
    taken, _ = tractable(domain, tables, most)
    assert cells(domain, taken) <= most
    named = {
        1 << 20: ["a", "b", "c", "cd", "d"], 30_000: ["a", "b", "c", "d"],
        20_000: ["a", "c", "d"], 6_000: ["c", "d"], 100: ["d"],
    }  # fmt: skip
    assert sorted("".join(t.names) for t in taken) == named[most]


def test_single_columns_may_have_more_cells_than_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junction, "CELLS", 1000)
    monkeypatch.setattr(entropy, "CELLS", 1000)
    domain = Domain(tuple("abc"), (700, 600, 300))
    taken, left = tractable(domain, noise(domain, [("a",), ("b",), ("c",)], 11), 1000)
    assert [t.names for t in taken] == [("c",), ("b",)] and [t.names for t in left] == [("a",)]


def test_a_clique_may_have_any_number_of_cells() -> None:
    """More than 2^1024: every two of 121 columns are in a table, as points of a plane on a line."""
    names = tuple(f"c{at}" for at in range(121))
    domain = Domain(names, (512,) * 121)
    tables = noise(domain, [(name,) for name in names], 12)
    lines = [[11 * x + (m * x + b) % 11 for x in range(11)] for m in range(11) for b in range(11)]
    lines += [[*range(11 * x, 11 * x + 11)] for x in range(11)]
    assert len({frozenset(pair) for on in lines for pair in itertools.combinations(on, 2)}) == 7260
    halves = (np.arange(512) % 2,) * 11
    for line in lines:
        own = tuple(names[at] for at in line)
        tables.append(NoisyTable(own, halves, np.zeros((2,) * 11), 1.0))
    taken, left = tractable(domain, tables, 1 << 19)
    assert left and cells(domain, taken) <= 1 << 19
