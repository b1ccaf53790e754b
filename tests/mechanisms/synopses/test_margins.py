"""Margins that are handed on: the sum of the functions stays, and the adjoint is one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.ascent import centred
from dpsql.mechanisms.synopses.margins import Margins
from dpsql.mechanisms.synopses.noisy import NoisyTable, whole

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))


def tables(sets: list[str]) -> list[NoisyTable]:
    found = []
    for names in sets:
        values = np.zeros([DOMAIN.size(name) for name in names])
        found.append(replace(whole(DOMAIN, tuple(names), values, 1.0), centred=True))
    return found


def summed(listed: list[NoisyTable], given: list[np.ndarray]) -> np.ndarray:
    """The sum of functions over all cells."""
    found = np.zeros(DOMAIN.sizes)
    for table, own in zip(listed, given, strict=True):
        found += own.reshape([DOMAIN.size(n) if n in table.names else 1 for n in DOMAIN.names])
    return found


def drawn(listed: list[NoisyTable], draw: np.random.Generator) -> list[np.ndarray]:
    return [draw.normal(size=table.values.shape) for table in listed]


def test_the_sum_of_functions_stays_but_for_a_constant() -> None:
    listed = tables(["a", "abc", "ab", "c", "bc", "ac", "b"])
    given = drawn(listed, np.random.default_rng(1))
    before = summed(listed, given)
    Margins(listed).handed(given)
    after = summed(listed, given)
    assert np.ptp(after - before) < 1e-12
    for own in given:
        assert np.abs(own - centred(own)).max() < 1e-12


def test_a_margin_without_a_table_is_dropped() -> None:
    """Also where the table of these columns has other classes."""
    coarse = replace(
        tables(["a"])[0], classes=(np.array([0, 1, 1]),), values=np.zeros(2), centred=True
    )
    listed = [*tables(["ab", "b"]), coarse]
    given = drawn(listed, np.random.default_rng(2))
    pair, other = given[0].copy(), given[2].copy()
    Margins(listed).handed(given)
    assert np.abs(given[0] - centred(pair)).max() < 1e-12
    assert np.abs(given[2] - centred(other)).max() < 1e-12


def test_tables_that_are_not_centred_keep_their_margins() -> None:
    pair, single = tables(["ab", "a"])
    listed = [replace(pair, centred=False), single]
    given = drawn(listed, np.random.default_rng(3))
    before = given[0].copy()
    Margins(listed).handed(given)
    assert np.array_equal(given[0], before)


def test_the_adjoint_is_that_of_handing_on() -> None:
    listed = [*tables(["a", "abc", "ab", "bc", "b"]), replace(tables(["ac"])[0], centred=False)]
    draw, margins = np.random.default_rng(4), Margins(listed)
    one, two = drawn(listed, draw), drawn(listed, draw)
    there, back = [own.copy() for own in one], [own.copy() for own in two]
    margins.handed(there)
    margins.adjoint(back)
    products = [
        sum(float(np.vdot(a, b)) for a, b in zip(x, y, strict=True))
        for x, y in ((there, two), (one, back))
    ]
    assert abs(products[0] - products[1]) < 1e-12
