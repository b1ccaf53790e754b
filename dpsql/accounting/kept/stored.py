"""Released answers as a ledger keeps them: canonical queries, noise, and noisy values.

Enough to use an answer again without its statement: for each family of linear queries the classes
of the columns that it depends on, its weights and groups (`query.canon`), and the noisy values of
the groups. No text of an analyst and nothing of the data but what was released. The meaning of
codes is the dataset's, whose digest is part of the snapshot under which a release is kept.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.accounting.kept.chosen import Chosen
from dpsql.accounting.kept.gridded import Gridded
from dpsql.accounting.kept.mixes import Mix
from dpsql.accounting.kept.pack import pack, unpack
from dpsql.accounting.kept.tabled import Tabled
from dpsql.accounting.purse import whole
from dpsql.query.canon import Family, families, parts
from dpsql.query.linear import Workload, starts
from dpsql.query.strategy import Residuals

VERSION = 1
MIXED, CELLS = 2, 3  # of releases that were measured through a strategy, on answers or on cells
TABLED = 4  # and of those that were measured in residual tables
CHOSEN = 5  # and of those that were measured in rounds
SMALL = 6  # and of a small database that was chosen
BESIDE = 7  # and of residual tables beside a strategy
KINDS = 8  # and of residual tables that count different things
GRIDS = 9  # and of tables that matrices were applied to along their axes
_SAFE = 1 << 62

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stored:
    """Families of queries with noise of one `law`, and the noisy value of each of their groups.

    `rests` are the charges whose releases the answer rested on as well, when it was given; its own
    alone where it rested on no other. Of what
    was measured through a strategy the values are estimates as they were shown, and `mixes` and
    `tabled` have what was measured, and `more` tables that count something else; the last families
    are those of `tabled` and `more`, table by table. Of what was measured in rounds, each decided
    on by those before, `picked` has the places of the queries that were chosen, among those that
    were listed; it answers alone. So does what is known of the table beside a small database that
    was `chosen`.
    """

    families: tuple[Family, ...]
    law: Law
    values: tuple[Ints, ...]
    rests: tuple[int, ...] = ()
    mixes: tuple[Mix, ...] = ()
    tabled: Tabled | None = None
    picked: tuple[int, ...] | None = None
    chosen: Chosen | None = None
    more: tuple[Tabled, ...] = ()
    grids: tuple[Gridded, ...] = ()

    def __post_init__(self) -> None:
        for family, values in zip(self.families, self.values, strict=True):
            if values.shape != (len(family.origin),):
                raise ValueError("a family has one value for each of its groups")
        if self.tabled is not None:
            sizes = [math.prod(s) for kept in self.kinds for s in kept.shapes for _ in kept.matrix]
            own = self.values[-len(sizes) :]
            if sizes != [len(v) for v in own] or not (self.mixes or len(own) == len(self.values)):
                raise ValueError("a table has a family for each of its weights")

    @property
    def apart(self) -> bool:
        """Whether its tables answer by a closed form where it is not fitted with other releases."""
        return self.tabled is not None or self.picked is not None or bool(self.grids)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns on which some query depends."""
        return tuple(sorted({name for family in self.families for name in family.classes}))

    @property
    def strategy(self) -> tuple[object, ...]:
        """What tells its strategy from others for the same queries."""
        found: list[object] = []
        for mix in self.mixes:
            cells = None if mix.cells is None else (mix.cells.shape, mix.cells.tobytes())
            found += [mix.first, mix.matrix.tobytes(), cells, *(at.tobytes() for at in mix.places)]
        if self.tabled is not None:
            found += [self.tabled.sets, self.tabled.factors, self.tabled.matrix.tobytes()]
        for grid in self.grids:
            listed = [part for axis in grid.axes for part in axis.to_list()]
            bare = [
                part.tobytes() if isinstance(part, np.ndarray) else str(part) for part in listed
            ]
            found.append((grid.factor, *bare))
        return tuple(found)

    @classmethod
    def of(cls, workload: Workload, law: Law, answers: Sequence[NDArray[Any]]) -> Stored | None:
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

    @classmethod
    def residuals(
        cls, part: Residuals, noisy: NDArray[Any], law: Gaussian, tables: NDArray[Any]
    ) -> Stored | None:
        """What was measured in residual tables, and the whole numbers of all tables, (groups,
        weights); None for what cannot be kept.
        """
        alone = cls.of(part.workload, law, [tables])
        if alone is None:
            return None
        try:
            return dataclasses.replace(alone, tabled=Tabled.of(part, noisy))
        except ValueError:
            return None

    def beside(self, tabled: Stored) -> Stored:
        """What was measured through a strategy or in residual tables, and beside it in others."""
        return dataclasses.replace(
            self,
            families=self.families + tabled.families,
            values=self.values + tabled.values,
            tabled=self.tabled or tabled.tabled,
            more=self.more + (() if self.tabled is None else tabled.kinds),
        )

    @property
    def kinds(self) -> tuple[Tabled, ...]:
        """All residual tables, those that count the same together."""
        return () if self.tabled is None else (self.tabled, *self.more)

    def of_tables(self) -> tuple[tuple[Family, ...], ...]:
        """The families of each kind of residual tables, table by table."""
        sizes = [len(kept.sets) * len(kept.matrix) for kept in self.kinds]
        start, found = len(self.families) - sum(sizes), []
        for size in sizes:
            found.append(self.families[start : start + size])
            start += size
        return tuple(found)

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
        if self.tabled is not None:
            version = BESIDE if self.mixes else TABLED
            tree |= {"version": version, "tabled": self.tabled.to_list()}
        if self.more:
            tree |= {"version": KINDS, "more": [kept.to_list() for kept in self.more]}
        if self.picked is not None:
            tree |= {"version": CHOSEN, "picked": list(self.picked)}
        if self.grids:
            tree |= {"version": GRIDS, "grids": [grid.to_list() for grid in self.grids]}
        if self.chosen is not None:
            tree |= {"version": SMALL, "chosen": self.chosen.to_list()}
        return pack(tree)

    @classmethod
    def from_bytes(cls, data: bytes) -> Stored:
        """The release that `to_bytes` wrote. Raises ValueError for anything else."""
        tree = unpack(data)
        try:
            if tree["version"] not in range(VERSION, GRIDS + 1):
                raise ValueError(f"not a release of version {VERSION} to {GRIDS}")
            kept, values = [], []
            for columns, groups, weights, factor, origin, noisy in tree["families"]:
                classes = {name: _codes(runs) for name, runs in columns}
                kept.append(Family.of(classes, groups, weights, factor, origin))
                values.append(noisy)
            rests = tuple(tree["rests"])
            picked = tuple(tree["picked"]) if "picked" in tree else None
            if not all(map(whole, (*rests, *(picked or ())))):
                raise ValueError("not the charges that a release rests on")
            mixes = tuple(map(Mix.from_list, tree.get("mixes", ())))
            tabled = Tabled.from_list(tree["tabled"]) if "tabled" in tree else None
            law = _law(tree["noise"])
            chosen = Chosen.from_list(tree["chosen"]) if "chosen" in tree else None
            more = tuple(map(Tabled.from_list, tree.get("more", ())))
            grids = tuple(map(Gridded.from_list, tree.get("grids", ())))
            return cls(
                tuple(kept), law, tuple(values), rests, mixes, tabled, picked, chosen, more, grids
            )
        except (KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError):
            raise ValueError("not a release") from None


def _noise(law: Law) -> list[Any]:
    """The noise of an event, without what it paid for."""
    match law:
        case Gaussian(variance=variance):
            return ["gaussian", str(variance)]
        case Laplace(scale=scale):
            return ["laplace", str(scale)]


def _law(tree: Sequence[str]) -> Law:
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
