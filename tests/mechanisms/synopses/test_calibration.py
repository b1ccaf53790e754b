"""Sums over junction trees that go on with each factor, beside those made anew and brute force."""

import math

import numpy as np
import pytest

from dpsql.mechanisms.synopses import calibration
from dpsql.mechanisms.synopses.calibration import Calibration, multiplied, swept
from dpsql.mechanisms.synopses.junction import Floats, Names, Tree, aligned, summed, tree, without

SIZES = dict(zip("abcdefgh", (3, 4, 2, 5, 3, 2, 4, 3), strict=True))
SCOPES = tuple(map(tuple, ["abc", "bcd", "de", "df", "gh", "ab", "d", "h", "b"]))
TREE = tree(SIZES, SCOPES)


def dense(factors: dict[Names, Floats], found: Tree) -> tuple[Floats, float]:
    """The product over all columns, and the logarithm of its sum."""
    logs = np.zeros(found.shape(found.sizes))
    for names, table in factors.items():
        logs = logs + aligned(table, names, tuple(found.sizes))
    top = float(logs.max())
    chances = np.exp(logs - top)
    return chances / chances.sum(), top + math.log(chances.sum())


def check(found: Calibration) -> None:
    """All that it knows, by brute force."""
    own, names = found.tree, tuple(found.tree.sizes)
    whole, mass = dense(found.factors, own)
    logs = multiplied(found.tree, found.factors, range(len(found.tree.cliques)))
    assert swept(found.tree, [*logs.values()])[1] == pytest.approx(mass, rel=1e-12, abs=1e-12)
    for at, clique in enumerate(own.cliques):
        assert np.abs(found.beliefs[at] - summed(whole, names, clique)).max() <= 1e-12
        if own.parents[at] >= 0:
            shared = summed(whole, names, own.separators[at])
            assert np.abs(found.shared[at] - shared).max() <= 1e-12


@pytest.mark.parametrize("far", [0.0, 3.0, 1000.0])
def test_a_calibration_that_goes_on_is_that_of_the_product(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two trees that hang together and on a single one; far factors are summed anew, and only
    these."""
    draw = np.random.default_rng(32)
    sums = [0]
    anew = Calibration._sum

    def counting(self: Calibration, roots: set[int]) -> None:
        sums[0] += 1
        anew(self, roots)

    monkeypatch.setattr(Calibration, "_sum", counting)
    going = Calibration(TREE, {names: draw.normal(size=TREE.shape(names)) for names in SCOPES})
    check(going)
    assert set(going.renewed()) == set(range(len(TREE.cliques)))
    for names in [*SCOPES, *map(tuple, draw.permutation(np.array(SCOPES, dtype=object)))]:
        table = draw.normal(size=TREE.shape(names))
        table.flat[0] = -far  # no chance that could be told, and then again one
        for each in (table, -table):
            going.multiply(names, each)
            check(going)
            home = TREE.home(names)
            assert home is not None
            same = [at for at, root in enumerate(TREE.roots) if root == TREE.roots[home]]
            assert going.renewed() == same
    assert (sums[0] > 1) == (far == 1000.0)


@pytest.mark.parametrize("seed", range(40))
def test_a_calibration_goes_on_on_any_tree(seed: int) -> None:
    """Also where columns have one value, so that a clique is what it shares; the one before stays
    as it was at each step."""
    draw = np.random.default_rng(seed)
    names = tuple("abcdef")[: draw.integers(2, 7)]
    drawn = [tuple(n for n in names if draw.random() < 0.45) or names[:1] for _ in range(6)]
    used = [name for name in names if any(name in scope for scope in drawn)]
    small = tree({name: int(draw.choice([1, 1, 2, 4])) for name in used}, drawn)
    going = Calibration(small, {})
    for _ in range(8):
        before, going = going, going.copied()
        for _ in range(3):
            scope = drawn[draw.integers(6)]
            going.multiply(scope, draw.normal(size=small.shape(scope)))
            check(going)
        check(before)


def test_many_small_rises_are_summed_anew_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is nothing beside the others comes back by steps that are each small."""
    going = Calibration(TREE, {("d",): np.array([0.0, -2000.0, 0.0, 0.0, 0.0])})
    assert going.beliefs[TREE.home(("d",)) or 0].sum(axis=-1).min() >= 0.0
    step = np.array([0.0, 150.0, 0.0, 0.0, 0.0])
    for _ in range(14):
        going.multiply(("d",), step)
        check(going)
    assert going.beliefs[TREE.home(("d",)) or 0].max() > 0.1
    for _ in range(14):
        going.multiply(("d",), -step)
        check(going)


def test_a_copy_goes_its_own_way() -> None:
    draw = np.random.default_rng(33)
    first = Calibration(TREE, {names: draw.normal(size=TREE.shape(names)) for names in SCOPES})
    before = [belief.copy() for belief in first.beliefs]
    other = first.copied()
    for names in SCOPES:
        other.multiply(names, draw.normal(size=TREE.shape(names)))
    check(first)
    check(other)
    for one, old in zip(first.beliefs, before, strict=True):
        assert np.array_equal(one, old)
    assert set(other.copied().renewed()) == set(range(len(TREE.cliques)))


def test_a_cell_that_no_factor_allows_has_no_chance() -> None:
    with np.errstate(divide="ignore"):
        never = np.log(np.array([0.0, 1.0, 1.0, 1.0, 1.0]))
    found = Calibration(TREE, {("d",): never})
    check(found)
    with pytest.raises(ValueError, match="more than 0"):
        Calibration(TREE, {("d",): np.full(5, -np.inf)})


def test_sums_along_axes_are_numpys() -> None:
    draw = np.random.default_rng(34)
    for _ in range(400):
        shape = tuple(draw.choice([1, 2, 3, 5, 12, 70], draw.integers(0, 5)).tolist())
        if math.prod(shape) > 100_000:
            continue
        table = draw.normal(size=shape)
        gone = tuple(axis for axis in range(len(shape)) if draw.random() < 0.5)
        found = without(table, gone)
        assert found.shape == table.sum(axis=gone).shape
        assert np.abs(found - table.sum(axis=gone)).max() <= 1e-10
        assert found.size == table.size or not np.shares_memory(found, table)


def test_faint_messages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what hangs below tells of one value e^900 times as much as of another."""
    steep = np.linspace(0.0, -900.0, 5)[:, None] * np.array([1.0, 1.0])
    factors = {("d", "f"): steep, ("d", "e"): np.linspace(0.0, 880.0, 5)[:, None] * np.ones((1, 3))}
    check(Calibration(TREE, factors))
    monkeypatch.setattr(calibration, "_FAINT", -1.0)  # as if nothing was lost
    with np.errstate(invalid="ignore"), pytest.raises((AssertionError, ValueError)):
        check(Calibration(TREE, factors))
