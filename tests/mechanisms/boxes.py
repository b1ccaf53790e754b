"""Single queries over a domain: boxes, their complements and unions, with weights."""

from __future__ import annotations

import numpy as np

from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, And, Leaf, Predicate

ONE = (Grouping((), np.zeros(1, np.int64)),)


def leaf(domain: Domain, name: str, mask: np.ndarray) -> Leaf:
    return Leaf(domain.project([name]), np.where(mask, 2, 0).astype(np.uint8))


def box(domain: Domain, masks: dict[str, np.ndarray]) -> Predicate:
    return And(tuple(leaf(domain, name, mask) for name, mask in masks.items()))


def single(domain: Domain, predicate: Predicate = ALWAYS, table: Table | None = None) -> Workload:
    """One count, or the sum of a table's weights."""
    return Workload(domain, (Block(predicate, (Weight((Term(predicate, table),)),), ONE),))


def asked(domain: Domain, masks: dict[str, np.ndarray]) -> Workload:
    return single(domain, box(domain, masks))
