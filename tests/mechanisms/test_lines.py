"""Where queries change along lines: found at the ends of runs, as by looking at every code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.mechanisms.lines import _stay, changes
from dpsql.query.canon import families
from tests.mechanisms.measured import workload

STATEMENTS = [
    "SELECT COUNT(*) FROM town WHERE age = 2",
    "SELECT COUNT(*) FROM town WHERE age > 1 AND sex = 'f' OR age = 0 AND smoker",
    "SELECT SUM(age) FROM town WHERE region <> 'e' AND NOT (age = 3 AND smoker IS NULL)",
    "SELECT age // 2 AS half, region, COUNT(*) FROM town WHERE sex = 'm' GROUP BY half, region",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_query_changes_where_a_group_or_a_weight_does(sql):
    (family,) = families(workload(sql))[0]
    assert family is not None
    seen = False
    for name, own in family.classes.items():
        found = changes(family, name)
        for line in range(len(found)):
            cells = np.zeros(len(own), np.int64)
            for other, of in zip(family.classes, family.shape, strict=True):
                classes = family.classes[other]
                if other == name:
                    here = own
                else:
                    here = classes[_stay(other, len(classes), len(found))[line]]
                cells = cells * of + here
            both = list(
                zip(family.groups[cells].tolist(), family.weights[cells].tolist(), strict=True)
            )
            expected = [a != b for a, b in itertools.pairwise(both)]
            assert found[line].tolist() == expected
        seen |= bool(found.any())
    assert seen
