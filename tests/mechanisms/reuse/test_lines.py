"""Where queries change along lines: found at the ends of runs, as by looking at every code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.mechanisms.reuse.lines import changes, interacts, stay
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
                    here = classes[stay(other, len(classes), len(found))[line]]
                cells = cells * of + here
            both = list(
                zip(family.groups[cells].tolist(), family.weights[cells].tolist(), strict=True)
            )
            expected = [a != b for a, b in itertools.pairwise(both)]
            assert found[line].tolist() == expected
        seen |= bool(found.any())
    assert seen


LONE = [
    "SELECT COUNT(*) FROM town WHERE age = 2 AND sex = 'f' AND smoker",
    "SELECT COUNT(*) FROM town WHERE age > 2 OR region = 'n'",
    "SELECT SUM(CASE WHEN sex = 'f' THEN age ELSE 2 * age END) FROM town",
    "SELECT SUM((sex = 'f')::INT + (region = 'e')::INT + (age = 1)::INT) FROM town",
    "SELECT SUM(age * (region = 'e')::INT + (sex = 'f')::INT * (region = 'n')::INT) FROM town",
    "SELECT COUNT(*) FROM town WHERE (sex = 'f') = (smoker IS NULL)",
    "SELECT SUM(age) FROM town WHERE region <> 'e'",
]


@pytest.mark.parametrize("sql", LONE)
def test_a_query_links_its_columns_unless_it_is_a_sum_over_fewer(sql):
    ((family,),) = families(workload(sql))
    assert family is not None
    table = family.weights.reshape(family.shape)
    cells = np.indices(family.shape).reshape(table.ndim, -1)
    tables = []  # the indicators of all cells of each set of all columns but one
    for gone in range(table.ndim):
        kept = np.delete(cells, gone, 0)
        at = np.unique(kept, axis=1, return_inverse=True)[1].reshape(-1)
        tables.append(np.eye(int(at.max()) + 1)[at])
    fewer = np.hstack(tables) if tables else np.zeros((table.size, 1))
    left = family.weights - fewer @ np.linalg.lstsq(fewer, family.weights, rcond=None)[0]
    assert interacts(family) is bool(np.abs(left).max() > 1e-6)
