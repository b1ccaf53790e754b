"""Full tables: groupings that list all combinations of their keys' groups, over the same rows.

Blocks are of one kind where they count the same by other keys, up to a whole multiple: then one
table says what all of them ask of its keys, whatever statements they came from.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.strategies.tables import Ints, Keys
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Grouping, Weight, Workload

Axis: TypeAlias = tuple[Any, Ints]  # a domain, and the group of each of its cells
_Name: TypeAlias = tuple[Any, bytes]  # what tells a key from others
_Along: TypeAlias = tuple[_Name, Axis, Ints, Ints]  # a key, its groups, and which each group has


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Blocks that count `weights`, each so many `times`, by groups of their own."""

    weights: tuple[Weight, ...]
    times: tuple[int, ...]

    @classmethod
    def of(cls, workload: Workload) -> Same | None:
        """All blocks of a workload; None where they do not count the same."""
        found = [_kind(workload, at) for at in range(len(workload.blocks))]
        kinds = [kind for kind in found if kind is not None]
        if len(kinds) < len(found) or len({kind for kind, _ in kinds}) != 1:
            return None
        multiples = [multiple for _, multiple in kinds]
        once = math.gcd(*multiples)
        least = min(range(len(multiples)), key=lambda at: multiples[at])
        weights = []
        for weight in workload.blocks[least].weights:
            factor, left = divmod(weight.factor * once, multiples[least])
            if left:
                return None
            weights.append(dataclasses.replace(weight, factor=factor))
        return cls(tuple(weights), tuple(multiple // once for multiple in multiples))


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """Tables over the keys of some `blocks`, by their numbers.

    `sizes` and `axes` have the groups of each key; of each grouping of each block `places` has the
    keys, ascending, and where in their table its groups are, the last key running fastest.
    """

    blocks: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[Axis, ...]
    places: tuple[tuple[Keys, Ints], ...]

    @property
    def number(self) -> int:
        """How many different tables there are."""
        return len({keys for keys, _ in self.places})

    def grouping(self, keys: Keys) -> Grouping:
        """All combinations of the groups of some keys."""
        shape = [self.sizes[key] for key in keys]
        strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        own = tuple((*self.axes[key], stride) for key, stride in zip(keys, strides, strict=True))
        return Grouping(own, np.arange(math.prod(shape)))


def read(workload: Workload, blocks: Sequence[int]) -> Read:
    """The blocks of these that are full tables, with the same groups of each key in all."""
    number: dict[_Name, int] = {}
    listed: list[Ints] = []  # the codes of each key that are answered
    owned: list[Axis] = []
    kept: list[int] = []
    found: list[tuple[Grouping, dict[int, Ints]]] = []  # the rank of each group along each key
    for at in blocks:
        groupings = workload.blocks[at].groupings
        each = [_along(grouping) for grouping in groupings]
        known = {name: listed[key] for name, key in number.items()}
        if not all(_joined(along, known) for along in each):
            continue
        kept.append(at)
        for grouping, along in zip(groupings, each, strict=True):
            ranks_of = {}
            for name, axis, values, ranks in along or ():
                key = number.setdefault(name, len(number))
                if key == len(listed):
                    listed.append(values)
                    owned.append(axis)
                ranks_of[key] = ranks
            found.append((grouping, ranks_of))
    told = [key for key, values in enumerate(listed) if len(values) > 1]  # others tell nothing
    sizes = tuple(len(listed[key]) for key in told)
    places = []
    for grouping, ranks_of in found:
        keys = tuple(at for at, key in enumerate(told) if key in ranks_of)
        place = np.zeros(grouping.size, np.int64)
        for at in keys:
            place = place * sizes[at] + ranks_of[told[at]]
        places.append((keys, place))
    return Read(tuple(kept), sizes, tuple(owned[key] for key in told), tuple(places))


def kinds(workload: Workload) -> list[list[int]]:
    """Blocks that count the same, of each kind that is grouped by keys; all by their numbers."""
    keyed = [at for at, block in enumerate(workload.blocks) if any(g.keys for g in block.groupings)]
    if sum(len(workload.blocks[at].groupings) for at in keyed) < 2:
        return []
    found: dict[object, list[int]] = {}
    for at in keyed:
        kind = _kind(workload, at)
        if kind is not None:
            found.setdefault(kind[0], []).append(at)
    for at in sorted(set(range(len(workload.blocks))) - set(keyed)):
        kind = _kind(workload, at)
        if kind is not None and kind[0] in found:
            found[kind[0]].append(at)
    return [sorted(places) for places in found.values()]


def _kind(workload: Workload, at: int) -> tuple[object, int] | None:
    """What a block counts, whatever its groups, and how many times; None for too many cells."""
    block = workload.blocks[at]
    listed: tuple[Family | None, ...]
    if len(block.groupings) == 1 and not block.groupings[0].keys and block.groupings[0].size:
        listed = families(workload)[at]
    else:
        every = (Grouping((), np.zeros(1, np.int64)),)
        alone = Workload(workload.domain, (Block(block.where, block.weights, every),))
        (listed,) = families(alone)
    own = [family for family in listed if family is not None]
    if len(own) < len(block.weights):
        return None
    factors = [family.factor for family in own]
    times = math.gcd(*factors)
    parts = zip(own, factors, strict=True)
    return tuple((family.key, factor // times) for family, factor in parts), times


def _along(grouping: Grouping) -> list[_Along] | None:
    """A full table by its keys; None where it is none."""
    found: list[_Along] = []
    size = 1
    strides = [stride for _, _, stride in grouping.keys]
    if any(slow < fast or slow % fast for slow, fast in itertools.pairwise(strides)):
        return None
    for at, (domain, table, stride) in enumerate(grouping.keys):
        codes = grouping.listed // stride
        codes = codes % (strides[at - 1] // stride) if at else codes
        values, ranks = np.unique(codes, return_inverse=True)
        ranked: NDArray[Any] = np.searchsorted(values, table).clip(max=max(len(values) - 1, 0))
        name = domain.names, table.tobytes()
        found.append((name, (domain, ranked.astype(np.int64)), values, ranks.reshape(-1)))
        size *= len(values)
    names = {name for name, *_ in found}
    if not grouping.size or size != grouping.size or len(names) < len(found):
        return None
    return found


def _joined(along: list[_Along] | None, known: dict[_Name, Ints]) -> bool:
    """Whether the keys of a table have the groups that they have elsewhere; then they are known."""
    if along is None:
        return False
    for name, _, values, _ in along:
        if not np.array_equal(known.setdefault(name, values), values):
            return False
    return True
