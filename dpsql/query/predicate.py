"""Predicates: trees of leaves in three-valued logic; a leaf is a truth table over its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain

FALSE, UNKNOWN, TRUE = 0, 1, 2  # in this order AND is the minimum, OR the maximum, NOT 2 - x

Truth: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A condition given by its truth on each cell of `domain` (flat, FALSE, UNKNOWN or TRUE)."""

    domain: Domain
    table: Truth

    def __post_init__(self) -> None:
        if self.table.shape != (self.domain.cells,):
            raise ValueError("a truth table has one entry for each cell of its domain")


@dataclass(frozen=True, slots=True, eq=False)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Or:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    part: Predicate


@dataclass(frozen=True, slots=True, eq=False)
class Is:
    """Whether `part` has just this truth; never UNKNOWN itself."""

    part: Predicate
    truth: int


Predicate: TypeAlias = Leaf | And | Or | Not | Is

ALWAYS = Leaf(Domain((), ()), np.array([TRUE], np.uint8))


def truth(predicate: Predicate, codes: Codes, count: int) -> Truth:
    """The truth of a predicate on each of `count` cells."""
    match predicate:
        case Leaf(domain=domain, table=table):
            found: Truth = table[domain.index(codes, count)]
            return found
        case And(parts=(first, *others)):
            found = truth(first, codes, count)  # an array of its own
            for part in others:
                np.minimum(found, truth(part, codes, count), out=found)
            return found
        case Or(parts=(first, *others)):
            found = truth(first, codes, count)
            for part in others:
                np.maximum(found, truth(part, codes, count), out=found)
            return found
        case And() | Or():
            return np.full(count, TRUE if isinstance(predicate, And) else FALSE, np.uint8)
        case Not(part=part):
            found = truth(part, codes, count)
            np.subtract(np.uint8(TRUE), found, out=found)
            return found
        case Is(part=part, truth=wanted):
            found = truth(part, codes, count)
            holds: Truth = np.where(found == wanted, np.uint8(TRUE), np.uint8(FALSE))
            return holds


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """The leaves of a predicate, left to right."""
    match predicate:
        case Leaf():
            yield predicate
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from leaves(part)
        case Not(part=part) | Is(part=part):
            yield from leaves(part)


def mentioned(predicate: Predicate) -> frozenset[str]:
    """The columns that a predicate mentions."""
    return frozenset(name for leaf in leaves(predicate) for name in leaf.domain.names)
