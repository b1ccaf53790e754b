"""What a synopsis learnt: releases as noisy tables, and the distribution that is fitted to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.chosen import Chosen
from dpsql.accounting.kept.stored import Stored
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.factors import Factored, of_dense
from dpsql.mechanisms.synopses.junction import CELLS
from dpsql.mechanisms.synopses.noisy import NoisyTable, residuals, total
from dpsql.mechanisms.synopses.tractable import tractable
from dpsql.query.canon import Family


def tables(domain: Domain, stored: Stored) -> list[NoisyTable]:
    """The tables of a release, over columns of the domain; none where it cannot be fitted.

    Those are residual tables of one count a group, and queries of Gaussian noise that count the
    rows of a combination of classes each.
    """
    if not isinstance(stored.law, Gaussian):
        return []
    variance = float(stored.law.variance)
    if stored.more:
        return []
    if stored.tabled is not None:
        names = {}
        (own,) = stored.of_tables()
        for keys, family in zip(stored.tabled.sets, own, strict=True):
            if len(keys) == 1:
                (names[keys[0]],) = family.classes
        listed = [names[key] for key in range(len(stored.tabled.sizes))]
        return residuals(domain, stored.tabled, listed, variance)
    if stored.mixes or stored.grids:
        return []
    found = []
    for family, values in zip(stored.families, stored.values, strict=True):
        table = of_family(domain, family, values.astype(np.float64) / family.factor, variance)
        if table is not None:
            found.append(table)
    return found


def of_family(
    domain: Domain, family: Family, values: NDArray[np.float64], variance: float
) -> NoisyTable | None:
    """A family as a table; None where a group is more than one combination, or not of counts."""
    seen = family.groups >= 0
    if not (family.weights[seen] == 1).all() or family.met != int(seen.sum()):
        return None
    told = np.where(seen, values[np.where(seen, family.groups, 0)], 0.0).reshape(family.shape)
    own = variance / family.factor**2
    where = None if seen.all() else seen.reshape(family.shape)
    axes = {name: axis for axis, name in enumerate(family.classes)}
    names = tuple(name for name in domain.names if name in axes)
    turned = [axes[name] for name in names]
    return NoisyTable(
        names,
        tuple(family.classes[name] for name in names),
        told.transpose(turned),
        own,
        seen=None if where is None else where.transpose(turned),
    )


def learnt(domain: Domain, releases: Sequence[Stored]) -> Factored:
    """The distribution fitted to some releases.

    Tables that would entangle too many columns are left out: they answer by themselves. Raises
    ValueError where no release tells the number of rows.
    """
    for stored in releases:
        if stored.chosen is not None:  # a small database is a distribution already
            return chosen(domain, stored.chosen)
    listed = [table for stored in releases for table in tables(domain, stored)]
    return fitted_to(domain, listed, fittable(domain, listed))


def fitted_to(domain: Domain, listed: Sequence[NoisyTable], kept: Sequence[NoisyTable]) -> Factored:
    """The fit to those tables that are `kept`, of as many rows as all tell."""
    found = fitted(domain, total(listed), kept)
    return found.state if found.ended else dataclasses.replace(found.state, away=found.away)


def fittable(domain: Domain, listed: Sequence[NoisyTable], most: int = CELLS) -> list[NoisyTable]:
    """Those of some tables that are fitted, on a junction tree of `most` cells at most."""
    return tractable(domain, [table for table in listed if table.names], most)[0]


def chosen(domain: Domain, found: Chosen) -> Factored:
    """A small database as a distribution of the table's rows."""
    codes = {name: found.codes[:, at] for at, name in enumerate(found.names)}
    cells = domain.index(codes, len(found.codes))
    rows = np.bincount(cells, minlength=domain.cells).astype(np.float64)
    return of_dense(domain, (rows * max(found.total, 0) / rows.sum()).reshape(domain.sizes))
