"""Released answers as a ledger keeps them: canonical queries, noise, and noisy values.

Enough to use an answer again without its statement: for each family of linear queries the classes
of the columns that it depends on, its weights and groups (`query.canon`), and the noisy values of
the groups. No text of an analyst and nothing of the data but what was released. The meaning of
codes is the dataset's, whose digest is part of the snapshot under which a release is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event, Gaussian, Laplace
from dpsql.accounting.mixes import Mix
from dpsql.accounting.pack import pack, unpack
from dpsql.accounting.purse import whole
from dpsql.query.canon import Family, families, parts
from dpsql.query.linear import Workload, starts

VERSION = 1
MIXED, CELLS = 2, 3  # of releases that were measured through a strategy, on answers or on cells
_SAFE = 1 << 62

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Families of queries with noise of one `law`, and the noisy value of each of their groups.

    `rests` are the charges whose releases the answer rested on as well, when it was given. Of what
    was measured through a strategy the values are estimates as they were shown, and `mixes` has
    what was measured.
    """

    families: tuple[Family, ...]
    law: Event
    values: tuple[Ints, ...]
    rests: tuple[int, ...] = ()
    mixes: tuple[Mix, ...] = ()

    def __post_init__(self) -> None:
        for family, values in zip(self.families, self.values, strict=True):
            if values.shape != (len(family.origin),):
                raise ValueError("a family has one value for each of its groups")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns on which some query depends."""
        return tuple(sorted({name for family in self.families for name in family.classes}))

    @classmethod
    def of(cls, workload: Workload, law: Event, answers: Sequence[NDArray[Any]]) -> Stored | None:
        """What was measured; None for queries of too many cells or values beyond 64 bits."""
        kept, values = [], []
        for block, found, noisy in zip(workload.blocks, families(workload), answers, strict=True):
            for (start, _, column, _), family in zip(parts(block), found, strict=True):
                if family is None:
                    return None
                picked = noisy[start + family.origin, column]
                if picked.dtype == object and max(map(abs, picked.tolist()), default=0) >= _SAFE:
                    return None
                kept.append(family)
                values.append(picked.astype(np.int64))
        return cls(tuple(kept), law, tuple(values))

    @classmethod
    def mixed(
        cls,
        measured: Sequence[tuple[Workload, Ints, NDArray[Any], Ints | None]],
        law: Gaussian,
        answers: Sequence[Sequence[NDArray[Any]]],
    ) -> Stored | None:
        """What was measured through a strategy, by part: what is answered, the matrix, the values,
        the cells (`Mix`), and what was shown of each block; None for what cannot be kept.
        """
        kept: list[Family] = []
        values: list[Ints] = []
        mixes = []
        for (workload, matrix, noisy, cells), shown in zip(measured, answers, strict=True):
            alone = cls.of(workload, law, shown)
            if alone is None:
                return None
            try:
                mixes.append(Mix.of(workload, len(kept), matrix, noisy, cells))
            except ValueError:
                return None
            kept += alone.families
            values += alone.values
        return cls(tuple(kept), law, tuple(values), (), tuple(mixes))

    def to_bytes(self) -> bytes:
        """The release as a ledger keeps it."""
        listed = [
            [
                [[name, _runs(merged)] for name, merged in family.classes.items()],
                family.groups,
                family.weights,
                family.factor,
                family.origin,
                values,
            ]
            for family, values in zip(self.families, self.values, strict=True)
        ]
        noise, rests = _noise(self.law), list(self.rests)
        tree: dict[str, Any] = {
            "version": VERSION, "noise": noise, "families": listed, "rests": rests
        }  # fmt: skip
        if self.mixes:
            version = MIXED if all(mix.cells is None for mix in self.mixes) else CELLS
            tree |= {"version": version, "mixes": [mix.to_list() for mix in self.mixes]}
        return pack(tree)

    @classmethod
    def from_bytes(cls, data: bytes) -> Stored:
        """The release that `to_bytes` wrote. Raises ValueError for anything else."""
        tree = unpack(data)
        try:
            if tree["version"] not in (VERSION, MIXED, CELLS):
                raise ValueError(f"not a release of version {VERSION} to {CELLS}")
            kept, values = [], []
            for columns, groups, weights, factor, origin, noisy in tree["families"]:
                classes = {name: _codes(runs) for name, runs in columns}
                kept.append(Family.of(classes, groups, weights, factor, origin))
                values.append(noisy)
            rests = tuple(tree["rests"])
            if not all(map(whole, rests)):
                raise ValueError("not the charges that a release rests on")
            mixes = tuple(map(Mix.from_list, tree.get("mixes", ())))
            return cls(tuple(kept), _law(tree["noise"]), tuple(values), rests, mixes)
        except (KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError):
            raise ValueError("not a release") from None


def _noise(law: Event) -> list[Any]:
    """The noise of an event, without what it paid for."""
    match law:
        case Gaussian(variance=variance):
            return ["gaussian", str(variance)]
        case Laplace(scale=scale):
            return ["laplace", str(scale)]


def _law(tree: Sequence[str]) -> Event:
    match tree:
        case ["gaussian", text]:
            return Gaussian(1, Fraction(text))
        case ["laplace", text]:
            return Laplace(1, 1, Fraction(text))
        case _:
            raise ValueError("not a law of noise")


def _runs(merged: Ints) -> list[Any]:
    """The classes of a column's codes as runs: where each begins, its class, and the size."""
    begins = starts(merged)
    return [begins, merged[begins], len(merged)]


def _codes(runs: Sequence[Any]) -> Ints:
    begins, classes, size = runs
    lengths = np.diff(np.append(begins, size))
    found: Ints = np.repeat(classes, lengths)
    return found
