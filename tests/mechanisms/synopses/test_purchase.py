"""Warm starts: what is bought, its errors before and after, and the model made of it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.kept.tabled import Tabled
from dpsql.curator.noise import gaussian
from dpsql.domain import Domain
from dpsql.mechanisms.strategies.marginals import marginals
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.noisy import linear, residuals, total
from dpsql.mechanisms.synopses.purchase import bought, foreseen, workload

DOMAIN = Domain(("a", "b", "c", "d"), (6, 5, 4, 2))


def test_all_columns_are_bought_and_each_set_once():
    found = bought(DOMAIN, [("c", "a"), ("a", "c"), ("d",), ("b", "d", "a")])
    assert found == (("a",), ("b",), ("c",), ("d",), ("a", "c"), ("a", "b", "d"))
    for wrong in ((), ("a", "a"), ("a", "e")):
        with pytest.raises(ValueError, match="no set of columns"):
            bought(DOMAIN, [wrong])


def test_one_set_of_all_columns_by_hand():
    """A column alone: its table is measured at all of rho, each count with variance 1 / (2 rho)."""
    (found,) = foreseen(Domain(("x",), (50,)), [], 0.5)
    assert (found.names, found.cells) == (("x",), 50)
    assert found.stderr == pytest.approx(1.0, rel=0.02)
    for rho in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="finite rho"):
            foreseen(DOMAIN, [], rho)


def test_errors_are_as_foreseen_and_the_fit_errs_less():
    """Measured 40 times with the discrete noise of a price of 0.02, from the workload alone.

    The root mean square over more than 2,000 cells of each set is within 10 % of what was foreseen
    (false alarm below 1e-6: five standard deviations of fewer than 500 independent cells).
    """
    rho, runs = 0.02, 40
    draw = np.random.default_rng(8)
    truth = draw.poisson(60 * draw.gamma(0.1, size=DOMAIN.sizes))
    codes = {name: each[truth.reshape(-1) > 0] for name, each in DOMAIN.grid().items()}
    counts = truth.reshape(-1)[truth.reshape(-1) > 0]
    triples = list(itertools.combinations(DOMAIN.names, 3))
    planned = marginals(workload(DOMAIN, triples))
    assert planned is not None
    part = planned.part
    values = part.matvec(codes, counts)
    variance = Fraction(part.scale) / Fraction(2 * rho)
    errors = {names: [] for names in triples}
    modelled = []
    for _ in range(runs):
        noisy = values + gaussian(variance, values.size).reshape(values.shape)
        kept = Tabled.of(part, noisy)
        tables = residuals(DOMAIN, kept, DOMAIN.names, float(variance))
        fit = fitted(DOMAIN, total(tables), tables)
        for names in triples:
            (gone,) = (at for at, name in enumerate(DOMAIN.names) if name not in names)
            margin = truth.sum(axis=gone)
            errors[names].append(linear(tables, names) - margin)
            modelled.append(fit.state.marginal(names) - margin)
    stated = {each.names: each.stderr for each in foreseen(DOMAIN, triples, rho)}
    for names, found in errors.items():
        assert math.sqrt(np.mean(np.square(found))) == pytest.approx(stated[names], rel=0.1)
    flat = [np.concatenate([e.reshape(-1) for e in some])
            for some in (modelled, itertools.chain(*errors.values()))]  # fmt: skip
    assert np.abs(flat[0]).mean() < 0.8 * np.abs(flat[1]).mean()
