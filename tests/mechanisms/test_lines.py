"""What is found out without a fit to follow from nothing does follow from nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.fit import Model
from dpsql.mechanisms.kept import Kept
from dpsql.query.canon import families
from tests.mechanisms.measured import measured, workload

PARTS = [
    *(f"age {op} {n}" for op in ("<", ">=", "=") for n in (1, 2, 3)),
    *(f"sex = '{s}'" for s in "fm"),
    *(f"region = '{r}'" for r in "ne"),
]
conditions = st.lists(st.sampled_from(PARTS), min_size=1, max_size=2, unique=True).map(" AND ".join)
counts = conditions.map(lambda where: f"SELECT COUNT(*) FROM town WHERE {where}")
groups = st.sampled_from(
    ["SELECT sex, COUNT(*) FROM town GROUP BY sex", "SELECT COUNT(*) FROM town"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(counts, groups), min_size=1, max_size=6), counts)
def test_what_may_not_follow_is_not_determined(seen, asked):
    kept, listed = Kept(Ledger.memory().releases, ("alice", "town", "")), []
    for seq, sql in enumerate(seen, 1):
        found = workload(sql)
        zeros = [np.zeros((b.groups, len(b.weights)), np.int64) for b in found.blocks]
        stored = Stored.of(found, Gaussian(1, Fraction(9)), zeros)
        assert stored is not None
        kept.add(seq, stored)
        listed += measured(found, 9)
    question = workload(asked)
    ((family,),) = families(question)
    model = Model.of(listed)
    if family is None or model is None or kept.may_follow(family):
        return
    assert not any(spread.known.any() for spread in model.spreads(question))
