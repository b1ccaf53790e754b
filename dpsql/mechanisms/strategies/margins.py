"""Groups that others of the same SELECT sum up: answers that agree, of groups measured alike.

Where a strategy mixes the aggregates of each group alone, the noise of every group has the same
covariance C, and none has to do with another's. Least squares over what groups sum up is then the
same for all aggregates, and gives each by itself: with A (groups, atoms) for the groups in common
parts of all groupings, the answers are A (A'A)^-1 A' times those that were measured, and in a group
have the covariance h C with its h <= 1 on that matrix's diagonal (`fit`, for A alone).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.domain import Domain
from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.fit import Fit, Model
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload, alike
from dpsql.query.predicate import ALWAYS

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """The groupings of a SELECT over the common parts of all its groups; `share` (groups,) is h."""

    groupings: tuple[Grouping, ...]
    share: Floats

    def shown(self, variances: Sequence[float], factors: Sequence[int]) -> Floats:
        """The mean squared errors (groups, aggregates) of what is shown of aggregates measured with
        these variances, in whole numbers of their factors."""
        found = []
        for variance, factor in zip(variances, factors, strict=True):
            workload, model = _model(self, variance, factor)
            found.append(model.spreads(workload)[0].shown[:, 0])
        return np.stack(found, axis=1)

    def fitted(
        self, answers: Floats, variances: Sequence[float], factors: Sequence[int]
    ) -> tuple[NDArray[np.generic], Floats]:
        """What is shown and the estimates, of measured answers, all (groups, aggregates)."""
        both = []
        for column, (variance, factor) in enumerate(zip(variances, factors, strict=True)):
            workload, model = _model(self, variance, factor)
            starts = np.cumsum([0, *(g.size for g in self.groupings)])
            own = zip(families(workload)[0], starts[:-1], strict=True)
            values = [answers[start + f.origin, column] for f, start in own if f is not None]
            (found,) = Fit(model, values).answers(workload)
            both.append((found.shown[:, 0], found.centre[:, 0]))
        shown, centre = zip(*both, strict=True)
        return np.stack(shown, axis=1), np.stack(centre, axis=1)


@functools.lru_cache(16)
def margins(listed: tuple[Family | None, ...], width: int) -> Margins | None:
    """Those of a SELECT of so many aggregates, with its families in the order of `parts`; None for
    one grouping, for groups that nothing is known to be in, and where they are too many.
    """
    if len(listed) <= width or None in listed:
        return None
    plain = [_counted(family) for family in listed if family is not None]
    design = Design.of(plain)
    if design is None:
        return None
    found = []
    for at in range(0, len(plain), width):
        own: Ints = np.full(design.atoms, -1)
        for groups, family in zip(design.groups[at : at + width], plain[at:], strict=False):
            own = np.maximum(own, np.append(family.origin, -1)[groups])
        if own.min(initial=0) < 0 or len(np.unique(own)) < len(plain[at].origin):
            return None
        found.append(own)
    codes = np.unique(np.stack(found), axis=1)
    if codes.shape[1] < 2:
        return None
    domain = Domain(("part",), (codes.shape[1],))
    groupings = tuple(
        Grouping(((domain, own, 1),), np.arange(int(own.max()) + 1))
        if own.max() > 0
        else Grouping((), np.zeros(1, np.int64))
        for own in codes
    )
    workload, model = _measured(groupings, 1, 1.0)
    if model is None:
        return None
    return Margins(groupings, model.spreads(workload)[0].variances[:, 0])


@functools.lru_cache(32)
def _model(of: Margins, variance: float, factor: int) -> tuple[Workload, Model]:
    """So many times the counts of all groups, and what is known where they were measured."""
    workload, model = _measured(of.groupings, factor, variance)
    assert model is not None  # as for a variance of 1
    return workload, model


def _measured(
    groupings: tuple[Grouping, ...], factor: int, variance: float
) -> tuple[Workload, Model | None]:
    sizes = [domain.sizes for grouping in groupings for domain, _, _ in grouping.keys]
    block = Block(ALWAYS, (Weight((Term(ALWAYS),), factor),), groupings)
    workload, law = Workload(Domain(("part",), sizes[0]), (block,)), Gaussian(1, Fraction(variance))
    listed = [family for family in families(workload)[0] if family is not None]
    return workload, Model.of([(family, law) for family in listed])


def _counted(family: Family) -> Family:
    """A count of the cells that a family counts in any way."""
    told = family.groups.reshape(family.shape)
    kept: dict[str, Ints] = {}
    for name, merged in family.classes.items():
        found = alike(told.swapaxes(len(kept), 0))
        if found.number == 1:
            told = np.asarray(told.take(0, axis=len(kept)))
            continue
        told = told.take(found.first, axis=len(kept))
        kept[name] = found.of[merged]
    groups = told.reshape(-1)
    return Family.of(kept, groups, (groups >= 0).astype(np.int64), 1, family.origin)
