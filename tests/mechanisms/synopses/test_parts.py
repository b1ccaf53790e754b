"""Tables that are taken apart tell what they told together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.ascent import centred
from dpsql.mechanisms.synopses.noisy import NoisyTable, single, whole
from dpsql.mechanisms.synopses.parts import MOST, Parts
from tests.mechanisms.synopses.test_entropy import DOMAIN, margin

TOTAL, TAU = 500.0, 0.02


def tables(draw: np.random.Generator) -> list[NoisyTable]:
    """Tables that overlap, one of them centred, one of other classes, and a single cell."""
    found = []
    for names, variance in ((("a", "b"), 4.0), (("b", "c"), 9.0), (("b",), 2.0), (("a", "b"), 3.0)):
        values = draw.normal(50, 20, size=[DOMAIN.size(name) for name in names])
        found.append(whole(DOMAIN, names, values, variance))
    found[-1] = replace(found[-1], values=centred(found[-1].values), centred=True)
    found.append(NoisyTable(("b",), (np.array([0, 1, 1, 0]),), np.array([300.0, 210.0]), 16.0))
    classes = {"a": np.array([0, 1, 0]), "c": np.array([0, 1])}
    indicator = np.zeros((2, 2))
    indicator[1, 1] = 1
    return [*found, single(DOMAIN, classes, indicator, 90.0, 4.0)]


def loss(listed: list[NoisyTable], rows: np.ndarray) -> float:
    return sum(float(((margin(t, rows) - t.values) ** 2).sum()) / t.variance for t in listed)


def function(potentials: dict[NoisyTable, np.ndarray]) -> np.ndarray:
    """The sum of potentials over all cells."""
    found = np.zeros(DOMAIN.sizes)
    for table, theta in potentials.items():
        own, shape = theta, [1] * 3
        for axis, classes in enumerate(table.classes):
            own = np.take(own, classes, axis=axis)
            at = DOMAIN.names.index(table.names[axis])
            shape[at] = DOMAIN.sizes[at]
        found += own.reshape(shape)
    return found


def test_parts_tell_of_the_rows_what_the_tables_told() -> None:
    """The losses of both differ by a constant, for all distributions of as many rows."""
    draw = np.random.default_rng(1)
    listed = tables(draw)
    parts = Parts(listed)
    off = [
        loss(listed, rows) - loss(parts.tables, rows)
        for rows in (TOTAL * draw.dirichlet(np.ones(24)).reshape(DOMAIN.sizes) for _ in range(5))
    ]
    assert off == pytest.approx([off[0]] * 5)
    assert len({(t.names, t.classes[0].tobytes()) for t in parts.tables}) == len(parts.tables)


def test_potentials_taken_apart_are_the_same_function_but_for_a_constant() -> None:
    draw = np.random.default_rng(2)
    listed = tables(draw)
    theta = {table: draw.normal(size=table.values.shape) for table in listed}
    theta[listed[3]] = centred(theta[listed[3]])
    off = function(Parts(listed).apart(theta)) - function(theta)
    assert np.ptp(off) < 1e-12


def test_potentials_put_together_are_the_same_function_but_for_a_constant() -> None:
    draw = np.random.default_rng(3)
    parts = Parts(tables(draw))
    theta = {table: draw.normal(size=table.values.shape) for table in parts.tables}
    theta = {t: centred(own) if t.centred else own for t, own in theta.items()}
    found = parts.together(theta, TOTAL, TAU)
    assert np.ptp(function(found) - function(theta)) < 1e-9
    assert all(own.flags.c_contiguous for own in found.values())  # as what is read again


def test_potentials_put_together_are_as_near_to_the_best() -> None:
    """sum v g^2 / 2, the gap, is that of the parts, for g = (y - n m) / v - tau theta."""
    draw = np.random.default_rng(4)
    listed = tables(draw)
    parts = Parts(listed)
    theta = {table: draw.normal(size=table.values.shape) for table in parts.tables}
    theta = {t: centred(own) if t.centred else own for t, own in theta.items()}
    theta = {t: own if t.seen is None else own * t.seen for t, own in theta.items()}
    rows = TOTAL * draw.dirichlet(np.ones(24)).reshape(DOMAIN.sizes)

    def gap(potentials: dict[NoisyTable, np.ndarray]) -> float:
        found = 0.0
        for table, own in potentials.items():
            left = (table.values - margin(table, rows)) / table.variance - TAU * own
            found += table.variance * float((left**2).sum()) / 2
        return found

    assert gap(parts.together(theta, TOTAL, TAU)) == pytest.approx(gap(theta))


def test_tables_of_many_columns_stay_as_they_are() -> None:
    names = tuple("abcdefgh"[: MOST + 1])
    domain = Domain(names, (2,) * len(names))
    table = whole(domain, names, np.ones(domain.sizes), 1.0)
    assert Parts([table]).tables == [table]
