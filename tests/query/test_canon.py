"""Canonical queries: what is asked decides the key, not how it is written."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.domain import Domain
from dpsql.query import canon
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, TRUE, Leaf
from tests.mechanisms.measured import matrix, workload

SPELLINGS = [
    ["sex = 'f'", "NOT sex = 'm'", "sex IN ('f')", "sex LIKE 'f%'", "sex < 'g'"],
    ["age > 2", "age >= 3", "NOT age <= 2", "age IN (3, 4)", "age * 2 > 5", "age BETWEEN 3 AND 9"],
    ["smoker", "smoker = true", "smoker IS TRUE", "NOT (NOT smoker)", "COALESCE(smoker, false)"],
    ["smoker IS NULL", "NOT smoker IS NOT NULL", "COALESCE(smoker::INT, 7) = 7"],
    ["region = 'n' OR age = 0", "NOT (region <> 'n' AND age <> 0)", "age = 0 OR region IN ('n')"],
]
conditions = st.lists(
    st.integers(0, len(SPELLINGS) - 1).flatmap(
        lambda k: st.tuples(st.just(k), st.sampled_from(SPELLINGS[k]))
    ),
    max_size=3,
)


def keys(sql):
    return [family.key for block in families(workload(sql)) for family in block]


def counted(parts):
    where = " AND ".join(f"({text})" for _, text in parts)
    return "SELECT COUNT(*) FROM town" + (f" WHERE {where}" if where else "")


@settings(max_examples=150, deadline=None)
@given(conditions, conditions)
def test_counts_have_one_key_just_when_they_count_the_same_cells(one, other):
    """The judge is the matrix of both queries over all cells."""
    first, second = (matrix(workload(counted(parts))) for parts in (one, other))
    assert (keys(counted(one)) == keys(counted(other))) == bool((first == second).all())


def both_ways(parts):
    """What is found of a count as a conjunction, and as any other query."""
    asked = workload(counted(parts))
    (block,) = asked.blocks
    ((_, grouping, _, weight),) = canon.parts(block)
    other = canon._any(asked, block, grouping, weight)
    assert other is not None
    return canon._conjunction(block, grouping, weight), other


def test_conditions_on_a_column_each_are_a_conjunction():
    assert both_ways([(0, "sex = 'f'"), (1, "age > 2"), (1, "age < 4")])[0] is not None
    assert both_ways([(0, "sex = 'f' OR age > 2")])[0] is None


@settings(max_examples=150, deadline=None)
@given(conditions)
def test_a_conjunction_is_the_same_however_it_is_found(parts):
    sooner, other = both_ways(parts)
    if sooner is not None:
        assert sooner.key == other.key
        assert (sooner.factor, sooner.shape) == (other.factor, other.shape)
        assert sooner.origin.tolist() == other.origin.tolist()


@settings(max_examples=60, deadline=None)
@given(st.data(), conditions)
def test_the_spelling_does_not_matter(data, parts):
    again = [(k, data.draw(st.sampled_from(SPELLINGS[k]))) for k, _ in reversed(parts)]
    assert keys(counted(parts)) == keys(counted(again))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT sex, COUNT(*) FROM town GROUP BY sex",
         "SELECT COUNT(*), CASE WHEN sex = 'm' THEN 'a' ELSE 'b' END AS k FROM town GROUP BY k"),
        ("SELECT region, sex, COUNT(*) FROM town GROUP BY ALL",
         "SELECT sex, region, COUNT(*) FROM town GROUP BY sex, region"),
        ("SELECT SUM(age) FROM town", "SELECT SUM(5 * age) FROM town"),
        ("SELECT age // 2 AS h, COUNT(*) FROM town GROUP BY h",
         "SELECT CASE WHEN age = 4 THEN 'x' WHEN age > 1 THEN 'y' ELSE 'z' END AS h, COUNT(*) "
         "FROM town GROUP BY h"),
        ("SELECT sex, COUNT(*) FROM town GROUP BY sex",
         "SELECT sex, SUM(1) FROM town WHERE age >= 0 GROUP BY sex"),
    ],
)  # fmt: skip
def test_groups_and_factors_do_not_matter(one, other):
    assert keys(one) == keys(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT SUM(age) FROM town", "SELECT SUM(age + 1) FROM town"),
        ("SELECT sex, COUNT(*) FROM town GROUP BY sex", "SELECT COUNT(*) FROM town"),
        ("SELECT COUNT(smoker) FROM town", "SELECT COUNT(*) FROM town"),
    ],
)
def test_other_questions_have_other_keys(one, other):
    assert keys(one) != keys(other)


def test_a_family_has_the_columns_that_matter_and_no_others():
    sql = "SELECT sex, COUNT(*) FROM town WHERE age >= 0 AND (smoker OR NOT smoker) GROUP BY sex"
    [[family]] = families(workload(sql))
    assert list(family.classes) == ["sex", "smoker"]
    assert family.met == len(family.origin) == 2 and family.factor == 1
    assert sorted(np.unique(family.groups)) == [-1, 0, 1]


def test_long_columns_are_kept_in_few_bytes_and_read_as_they_were():
    """1,000 running counts of 2,000 values: 16 MB at 64 bits."""
    size = 2_000
    domain, total = Domain(("v",), (size,)), (Grouping((), np.zeros(1, np.int64)),)
    truths = [(np.arange(size) <= last).astype(np.uint8) * TRUE for last in range(1_000)]
    counts = [(Weight((Term(Leaf(domain, truth)),)),) for truth in truths]
    asked = Workload(domain, tuple(Block(ALWAYS, own, total) for own in counts))
    tracemalloc.start()
    found = families(asked)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 6e6
    for (family,), truth in zip(found, truths, strict=True):
        assert family is not None and [*family.classes] == ["v"] and len(family.classes) == 1
        classes = family.classes["v"]
        assert classes.dtype == np.int64 and family.shape == (2,)
        np.testing.assert_array_equal(family.weights[classes] == 1, truth == TRUE)
