"""Synthetic rows beside those of private-pgm (`mbi`), of the same marginals at the same price."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from benchmarks.figures import Figure, Note
from benchmarks.marginals import Codes, alike, counts, residual
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.junction import Names
from dpsql.mechanisms.synopses.noisy import total
from dpsql.mechanisms.synopses.synthetic import rows

RUNS = 3


def beside(
    domain: Domain, codes: Codes, sets: Sequence[Names], rho: float
) -> Iterator[Figure | Note]:
    """The mean part of the rows that marginals of one, two and three columns have elsewhere."""
    ours, spent = [], 0.0
    for _ in range(RUNS):
        start = time.process_time()
        tables = residual(domain, codes, sets, rho)
        fit = fitted(domain, total(tables), tables)
        made = rows(fit.state, round(fit.state.total))
        spent = time.process_time() - start
        ours.append(errors(domain, codes, made))
    theirs = _theirs(domain, codes, sets, rho)
    if theirs is None:
        yield Note("private-pgm not measured: pip install mbi")
    for at, what in enumerate(("1-way", "2-way", "3-way")):
        error = fmean(run[at] for run in ours)
        other = fmean(run[at] for run in theirs) if theirs else None
        name = f"{what} marginals of synthetic rows, part of rows elsewhere"
        yield Figure(name, error, "", other, "private-pgm", None if other is None else 1.1 * other)
    yield Figure("measuring, fitting and making them, CPU", spent, "s")


def errors(domain: Domain, codes: Codes, made: Codes) -> list[float]:
    """Half the L1 distance of shares, averaged over all marginals of one, two, three columns."""
    found = []
    for width in (1, 2, 3):
        each = []
        for names in itertools.combinations(domain.names, width):
            one, two = (counts(domain, some, names) for some in (codes, made))
            each.append(float(np.abs(one / one.sum() - two / two.sum()).sum()) / 2)
        found.append(fmean(each))
    return found


def _theirs(
    domain: Domain, codes: Codes, sets: Sequence[Names], rho: float
) -> list[list[float]] | None:
    """Equal noise on each marginal and mirror descent, as its examples have it; rows by whichever
    of its ways is nearer."""
    try:
        import mbi
    except ImportError:
        return None
    found = []
    for _ in range(RUNS):
        measured = [
            mbi.LinearMeasurement(table.values.reshape(-1), table.names, table.variance**0.5)
            for table in alike(domain, codes, sets, rho)
        ]
        theirs = mbi.Domain(domain.names, domain.sizes)
        if hasattr(mbi.estimation, "mirror_descent"):  # before 2.0
            model = mbi.estimation.mirror_descent(theirs, measured)
        else:
            model = mbi.estimation.MirrorDescent().estimate(theirs, measured)
        ways = []
        for way in ("round", "sample"):  # rounded rows go astray on pairs that were not measured
            made = model.synthetic_data(method=way).to_dict()
            ways.append(errors(domain, codes, {n: np.asarray(made[n], np.int64) for n in made}))
        found.append(list(map(min, *ways)))
    return found
