"""Distributions that go on learning: the optimum by another road, what is kept, what it takes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.synopses import ascent, calibration, growth
from dpsql.mechanisms.synopses.calibration import Calibration
from dpsql.mechanisms.synopses.growth import Growth, from_bytes, grown, rooted, to_bytes
from dpsql.mechanisms.synopses.layout import layout
from dpsql.mechanisms.synopses.noisy import NoisyTable
from dpsql.mechanisms.synopses.purchase import counted
from dpsql.query.linear import numbered
from tests.mechanisms.synopses.test_entropy import DOMAIN, margin, mixed, primal

SETS = ([("a",), ("b",), ("c",)], [("a", "b")], [("b", "c")], [("a", "b", "c")])


def bought(seed: int, stddev: int = 12, tied: bool = False) -> list[Stored]:
    """Releases of noisy tables of random rows, in which columns hang together, or follow from the
    first of them."""
    draw, found = np.random.default_rng(seed), []
    rows = draw.integers(0, 60, DOMAIN.sizes) + 80 * (draw.random(DOMAIN.sizes) < 0.2)
    if tied:
        rows = np.zeros(DOMAIN.sizes, np.int64)
        for at in range(3):
            rows[at, at, at % 2] = 10_000
    for sets in SETS:
        values = []
        for names in sets:
            gone = tuple(at for at, name in enumerate(DOMAIN.names) if name not in names)
            table = rows.sum(axis=gone)
            noise = np.rint(stddev * draw.normal(size=table.size)).astype(np.int64)
            values.append((table.reshape(-1) + noise).reshape(-1, 1))
        law = Gaussian(len(sets), Fraction(stddev**2))
        stored = Stored.of(counted(DOMAIN, sets), law, [np.concatenate(values)])
        assert stored is not None
        found.append(stored)
    return found


def learnt(releases: list[Stored]) -> Growth:
    found = rooted(DOMAIN, releases[0])
    for stored in releases[1:]:
        found = grown(found, stored)
    return found


def optimum(guess: np.ndarray, tau: float, tables: list[NoisyTable], n: float) -> float:
    """The least value over all tables of n rows, by another solver."""

    def value(logits: np.ndarray) -> float:
        rows = np.exp(logits - logits.max())
        return float(primal(n * (rows / rows.sum()).reshape(DOMAIN.sizes), guess, tau, tables))

    start = np.log(guess.reshape(-1))
    return float(minimize(value, start, method="BFGS", options={"gtol": 1e-7}).fun)


@pytest.mark.parametrize("kind", ["whole", "mixed", "tied"])
def test_with_steps_enough_it_is_the_optimum(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole tables; of a centred one, one of classes, and a single count; and where most cells
    are empty, and potentials so large that there chances are none."""
    monkeypatch.setattr(growth, "STEPS", 2000)
    monkeypatch.setattr(growth, "WORK", 1 << 40)
    monkeypatch.setattr(ascent, "GAP", 1e-10)
    monkeypatch.setattr(growth, "FAR", 0.0)
    releases = bought(5, tied=kind == "tied")
    if kind == "mixed":
        some = iter(mixed(np.random.default_rng(6)))
        known = growth.tables

        def tables(domain: object, stored: Stored) -> list[NoisyTable]:
            return known(DOMAIN, stored) if stored is releases[0] else [next(some)]

        monkeypatch.setattr(growth, "tables", tables)
        releases.append(releases[-1])
    found = learnt(releases)
    guess = found.base.dense() * found.state.total / found.base.total
    listed = list(found.potentials)
    assert len(listed) == 2 + len(releases)
    largest = max(float(np.ptp(theta)) for theta in found.potentials.values())
    assert (largest > 745) == (kind == "tied")
    told = primal(found.state.dense(), guess, found.tau, listed)
    least = optimum(guess, found.tau, listed, found.state.total)
    gap = found.state.away**2 * sum(table.values.size for table in listed) / 2
    assert least * (1 - 1e-5) <= told <= least * (1 + 1e-5) + gap
    assert gap < 1e-6 or kind == "tied"  # which comes near, and then goes slowly


def test_what_is_learnt_is_told_within_its_noise() -> None:
    found = learnt(bought(7))
    away = []
    for table in list(found.potentials)[3:]:
        off = margin(table, found.state.dense()) - table.values
        away.append(float((off**2).mean()) / table.variance)
    assert max(away) < 2.0 and found.state.away == 0.0


@pytest.mark.parametrize("again", [False, True])
def test_a_state_is_a_function_of_its_releases(again: bool) -> None:
    """Grown in one process, made anew in another, or read and then gone on with; also where the
    tree stays as it was, and sums go on from those that are known."""
    releases = bought(8)
    releases += bought(9)[1:] if again else []
    whole = learnt(releases)
    for stop in range(2, len(releases)):
        numbers, some = tuple(range(stop)), releases[:stop]
        part = learnt(some)
        read = from_bytes(DOMAIN, to_bytes(part, numbers), numbers, some)
        assert to_bytes(read, numbers) == to_bytes(part, numbers)
        on = read
        for stored in releases[stop:]:
            on = grown(on, stored)
        for one, other in ((read.state, part.state), (on.state, whole.state)):
            assert one.total == other.total and one.away == pytest.approx(other.away, rel=1e-6)
            assert one.factors.keys() == other.factors.keys()
            near = np.abs(one.dense() - other.dense()).max()
            assert near <= 1e-9 * one.total
    anew = replace(whole.state)  # nothing is known of its sums
    assert anew.tree.cliques == whole.state.tree.cliques
    for known, summed in zip(whole.state.beliefs, anew.beliefs, strict=True):
        assert known is not summed and np.abs(known - summed).max() <= 1e-12


def test_sums_go_on_from_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that leaves the tree as it was is learnt without a sum over all factors, and the
    state before stays as it was."""
    releases = bought(10)
    before = learnt(releases)
    whole = [belief.copy() for belief in before.state.beliefs]
    sums: list[object] = []
    monkeypatch.setattr(calibration, "multiplied", lambda *given: sums.append(given))
    after = grown(before, bought(11)[3])
    assert not sums and len(after.potentials) == len(before.potentials) + 1
    assert after.state.beliefs[0] is not before.state.beliefs[0]
    assert np.abs(after.state.beliefs[0] - whole[0]).max() > 1e-6
    for now, then in zip(before.state.beliefs, whole, strict=True):
        assert np.array_equal(now, then)


def test_a_layout_that_goes_on_is_that_of_all_tables() -> None:
    """Also where classes of codes are told apart that were one."""
    draw = np.random.default_rng(14)
    for _ in range(20):
        listed: list[NoisyTable] = []
        going = None
        for _ in range(8):
            names = tuple(n for n in DOMAIN.names if draw.random() < 0.5) or DOMAIN.names[:1]
            classes = tuple(numbered(draw.integers(0, 3, DOMAIN.size(n))).of for n in names)
            values = np.zeros([int(of.max()) + 1 for of in classes])
            listed.append(NoisyTable(names, classes, values, 1.0))
            anew = layout(DOMAIN, listed, 1 << 20)
            going = layout(DOMAIN, listed, 1 << 20, going)
            assert going.homes == anew.homes and going.tree.cliques == anew.tree.cliques
            assert list(going.atoms) == list(anew.atoms)
            for name, of in anew.atoms.items():
                assert np.array_equal(going.atoms[name], of)
                told = [t.classes[t.names.index(name)] for t in listed if name in t.names]
                assert int(of.max()) + 1 == len(
                    set(zip(*map(np.ndarray.tolist, told), strict=True))
                )
            for table, places in anew.places.items():
                for one, other in zip(going.places[table], places, strict=True):
                    assert (one is None) == (other is None) and np.array_equal(one, other)


def test_a_fit_to_other_charges_is_not_read() -> None:
    releases = bought(9)
    data = to_bytes(learnt(releases[:2]), (1, 2))
    with pytest.raises(ValueError, match="another fit"):
        from_bytes(DOMAIN, data, (1, 3), releases[:2])
    with pytest.raises(ValueError, match="other releases"):
        from_bytes(DOMAIN, data, (1, 2), [*releases[1:2], releases[0]])
    with pytest.raises(ValueError):
        from_bytes(DOMAIN, data[:-1], (1, 2), releases[:2])


def test_an_update_goes_through_a_bounded_number_of_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However far off it is: once for each table that is new, and then as work is left."""
    releases, calls = bought(10, stddev=1), [0]
    renewed = Calibration.renewed

    def counting(self: Calibration) -> dict[int, np.ndarray]:
        calls[0] += 1
        return renewed(self)

    monkeypatch.setattr(Calibration, "renewed", counting)
    found = learnt(releases[:3])
    each = DOMAIN.cells + growth.TABLE * (len(found.potentials) + 1)
    for work, most in ((1 << 19, growth.STEPS), (5 * each, 5), (0, 1)):
        monkeypatch.setattr(growth, "WORK", work)
        calls[0] = 0
        after = grown(found, releases[3])
        assert calls[0] <= most + 1
        assert (after.state.away > 0) == (work == 0)


def test_what_entangles_too_much_answers_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    releases = bought(11)
    first = sum(rooted(DOMAIN, releases[0]).base.tree.cells)
    monkeypatch.setattr(growth, "CELLS", 20 - first)
    found = learnt(releases)
    assert first < sum(found.state.tree.cells) <= 20
    names = {table.names for table in found.potentials}
    assert names == {("a",), ("b",), ("c",), ("a", "b"), ("b", "c")}
    assert len(found.every) == 6


def test_no_rows_are_no_rows() -> None:
    releases = bought(12)
    none = [
        Stored(each.families, each.law, tuple(np.full_like(own, -5) for own in each.values))
        for each in releases
    ]
    found = learnt(none)
    assert found.state.total == 0.0
    read = from_bytes(DOMAIN, to_bytes(found, (1,)), (1,), none)
    assert read.state.total == 0.0
