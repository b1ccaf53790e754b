"""Three-valued logic on cells: as SQL has it, judged by truth tables written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.domain import Domain
from dpsql.query.predicate import (
    ALWAYS,
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Is,
    Leaf,
    Not,
    Or,
    Predicate,
    leaves,
    mentioned,
    truth,
)

VALUES = {FALSE: False, UNKNOWN: None, TRUE: True}
DOMAIN = Domain(("a", "b"), (3, 3))
A = Leaf(Domain(("a",), (3,)), np.array([FALSE, UNKNOWN, TRUE], np.uint8))
B = Leaf(Domain(("b",), (3,)), np.array([FALSE, UNKNOWN, TRUE], np.uint8))


def sql_and(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def judged(predicate: Predicate, cell: dict[str, int]) -> bool | None:
    """The truth of a predicate on one cell, as SQL's text says it."""
    match predicate:
        case Leaf(domain=domain, table=table):
            at = tuple(cell[name] for name in domain.names)
            flat = np.ravel_multi_index(at, domain.sizes) if at else 0
            return VALUES[int(table[flat])]
        case And(parts=parts):
            return sql_and([judged(part, cell) for part in parts])
        case Or(parts=parts):
            found = [judged(part, cell) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part=part):
            inner = judged(part, cell)
            return None if inner is None else not inner
        case Is(part=part, truth=wanted):
            return judged(part, cell) is VALUES[wanted]


def predicates() -> st.SearchStrategy[Predicate]:
    return st.recursive(
        st.sampled_from([A, B, ALWAYS]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
            st.tuples(inner, st.sampled_from([FALSE, UNKNOWN, TRUE])).map(lambda p: Is(*p)),
        ),
        max_leaves=8,
    )


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(predicates())
def test_the_truth_of_a_tree_is_sqls_on_every_cell(predicate: Predicate) -> None:
    cells = list(product(range(3), range(3)))
    codes = {"a": np.array([a for a, _ in cells]), "b": np.array([b for _, b in cells])}
    found = truth(predicate, codes, len(cells))
    for (a, b), value in zip(cells, found.tolist(), strict=True):
        assert VALUES[value] is judged(predicate, {"a": a, "b": b})


def test_the_excluded_middle_is_not_everything() -> None:
    codes = {"a": np.arange(3)}
    assert truth(Or((A, Not(A))), codes, 3).tolist() == [TRUE, UNKNOWN, TRUE]
    assert truth(And((A, Not(A))), codes, 3).tolist() == [FALSE, UNKNOWN, FALSE]


def test_no_part_is_changed_by_looking_at_it() -> None:
    codes = {"a": np.arange(3)}
    before = A.table.copy()
    truth(Not(And((A, Not(A), Is(A, UNKNOWN)))), codes, 3)
    assert (A.table == before).all()


def test_leaves_and_columns_are_those_of_the_tree() -> None:
    tree = Or((And((A, Not(B))), Is(A, TRUE)))
    assert list(leaves(tree)) == [A, B, A]
    assert mentioned(tree) == {"a", "b"}
    assert mentioned(ALWAYS) == frozenset()


def test_a_leaf_has_one_truth_a_cell() -> None:
    with pytest.raises(ValueError, match="one entry for each cell"):
        Leaf(DOMAIN, np.zeros(8, np.uint8))
