"""Footprint: what one release costs each person, cell by cell. People are charged, not questions.

Most releases do not touch most people: a count of women costs men nothing. A footprint keeps, for
every cell x of the declared domain, the loss L_j(x) that release j causes to somebody in x; a purse
pays max_x sum_j L_j(x), which is never more, and often far less, than the sum of the worst of each.

**Why this is safe (add-remove, one row a person).** Fix two neighbouring tables, D and D with one
more row, in cell x. Release j adds independent noise to W_j h; between the two tables the answers
move by the column W_j e_x and by nothing else, so given the transcript so far the release is
rho_j-zCDP *for this pair*, with

    rho_j = L_j(x) = sum over answers a of f_j(|w_ja(x)|),

f_j(d) = d^2 / (2 variance) for Gaussian noise and the divergence f(d) of `events` for Laplace
noise. The analyst chose release j from the transcript, so L_j(x) is a function of the transcript
and of x: it does not depend on the rest of D. Hence, for this pair, the product of filter.py,

    M_j = prod_{i <= j} (dP_i/dQ_i)^a exp(-a(a-1) L_i(x)),

is a supermartingale under Q, and if sum_j L_j(x) <= rho on every path then E_Q[(dP/dQ)^a] <=
exp(a(a-1) rho) for every a > 1, in both directions. A purse keeps max_x sum_j L_j(x) <= rho, so
this holds for every pair at once, and the transcript is rho-zCDP. Which statements are refused
depends on the footprints and the grant, both public. (The filter of Feldman, Zrnic 2021,
arXiv:2008.11193, and Whitehouse et al. 2023, arXiv:2203.05481, applied to each pair of neighbours;
for statements about disjoint people it is parallel composition, within a statement or across
years.)

**Units of up to r rows.** Let the person's rows lie in x_1..x_s, s <= r. f_j is convex and f_j(0) =
0, for Laplace noise after joining its values at integers by lines, so by Jensen's inequality

    f_j(|sum_i w(x_i)|) <= f_j(sum_i |w(x_i)|) <= (1/r) sum_i f_j(r |w(x_i)|),

and with L_j(x) = sum_a f_j(r |w_ja(x)|) the person's loss is at most the mean over i of L(x_i), so
at most max_x L(x). For Gaussian noise this is Cauchy-Schwarz, and L_j(x) = r^2 ||W_j e_x||^2 / (2
var).

**Replace-one.** Neighbours have a row in x or in y, y possibly outside the domain (`nothing`). One
answer moves by |w(x) - w(y)|. Where w is not negative that is at most the larger of the two, so
f(|w(x) - w(y)|) <= f(w(x)) + f(w(y)); otherwise, f being convex, f(|w(x)| + |w(y)|) <= f(2|w(x)|)/2
+ f(2|w(y)|)/2. With S_j(x) the sum of f(w) or f(2|w|)/2 over the answers, release j costs the pair
at most S_j(x) + S_j(y), also when y is nothing, and at most its price P_j for the worst pair. So
all releases cost every pair at most 2 max_x sum_j S_j(x), and at most sum_j P_j: the less of the
two. A release with P_j <= 2 min_x S_j(x) is better kept as a constant P_j whatever else is asked.

**Pure grants.** Here the loss is E_j(x) = r ||W_j e_x||_1 / b_j. On every transcript log dP/dQ =
sum_j log dP_j/dQ_j <= sum_j sum_i ||W_j e_{x_i}||_1 / b_j <= max_x sum_j E_j(x): basic composition,
pair by pair, without an expectation. Replace-one: |w(x) - w(y)| <= |w(x)| + |w(y)|, so E_j without
doubling takes the place of S_j.

**Several snapshots.** L belongs to one immutable state of the data. Where rows change, the person
may be in x before and in y after, and loses L(x) + L'(y) <= max L + max L'; where rows are only
ever added and a row is what is protected, x stays, and there is one L for all time.

Everything is in whole pico, rounded up cell by cell. A footprint never changes its meaning.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsql.accounting.purse import LIMIT, Price, whole

VERSION = 1
MOST_ENTRIES = 1 << 16  # of one factor's table
PLAIN = 400  # characters of text that are kept as they are

_encode = json.JSONEncoder(separators=(",", ":")).encode


class OtherVersion(ValueError):
    """It was written by another version of dpsql, and is not read by this one."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The codes of a column in classes: run i begins at code `starts[i]` and is `classes[i]`.

    The first run begins at 0, the last one does not end; the classes are 0, 1, ... without a gap.
    """

    name: str
    starts: tuple[int, ...]
    classes: tuple[int, ...]

    def __post_init__(self) -> None:
        codes = (*self.starts, *self.classes)
        if type(self.name) is not str or set(map(type, codes)) != {int} or min(codes) < 0:
            raise ValueError(f"not the classes of a column: {self.name!r}")
        ascending = all(a < b for a, b in zip(self.starts, self.starts[1:], strict=False))
        if not (self.starts and self.starts[0] == 0 and ascending):
            raise ValueError(f"the runs of {self.name!r} do not begin at 0 and ascend")
        if len(self.classes) != len(self.starts) or len(set(self.classes)) != self.size:
            raise ValueError(f"the classes of {self.name!r} have gaps")

    @property
    def size(self) -> int:
        """The number of classes."""
        return max(self.classes) + 1

    def at(self, code: int) -> int:
        """The class of a code."""
        return self.classes[bisect.bisect_right(self.starts, code) - 1]


@dataclass(frozen=True, slots=True)
class Factor:
    """A loss in pico for each combination of classes of its axes, the last running fastest."""

    axes: tuple[Axis, ...]
    table: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.axes or len({axis.name for axis in self.axes}) != len(self.axes):
            raise ValueError("a factor has one or more columns, each once")
        if not len(self.table) == math.prod(self.shape) <= MOST_ENTRIES:
            raise ValueError(f"a factor has a loss for each of at most {MOST_ENTRIES:,} classes")
        if set(map(type, self.table)) != {int} or min(self.table) < 0 or max(self.table) > LIMIT:
            raise ValueError("a loss is a whole number of pico")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([axis.size for axis in self.axes])

    @property
    def largest(self) -> int:
        return max(self.table)

    def best(self, cell: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """The code of each axis, those of `cell` given, where the loss is largest; that loss."""
        fixed = [axis.at(cell[axis.name]) if axis.name in cell else None for axis in self.axes]
        shape = self.shape
        ranges = [
            range(size) if one is None else (one,) for size, one in zip(shape, fixed, strict=True)
        ]
        most, chosen = -1, tuple(one or 0 for one in fixed)
        for classes in itertools.product(*ranges):
            index = 0
            for size, one in zip(shape, classes, strict=True):
                index = index * size + one
            if self.table[index] > most:
                most, chosen = self.table[index], classes
        found = {
            axis.name: cell.get(axis.name, axis.starts[axis.classes.index(one)])
            for axis, one in zip(self.axes, chosen, strict=True)
        }
        return found, most

    def to_list(self) -> list[Any]:
        return [[[a.name, list(a.starts), list(a.classes)] for a in self.axes], list(self.table)]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Factor:
        axes, table = fields
        return cls(tuple(Axis(n, tuple(s), tuple(c)) for n, s, c in axes), tuple(table))


@dataclass(frozen=True, slots=True)
class Loss:
    """What everybody pays, and what is paid on top by cell, in one currency.

    `most` bounds what the factors together cost anybody. With `pairs` (replace-one) the factors
    are S_j, and `most` is the price of the worst pair.
    """

    constant: int
    factors: tuple[Factor, ...] = ()
    most: int = 0
    pairs: bool = False

    def __post_init__(self) -> None:
        if not (whole(self.constant) and whole(self.most) and type(self.pairs) is bool):
            raise ValueError(f"not a loss: {self.constant!r}, at most {self.most!r}")
        if not self.constant + self.most <= LIMIT:
            raise ValueError("a loss is at most what a purse can hold")

    @property
    def largest(self) -> int:
        """A bound on what anybody pays."""
        return self.constant + self.most

    def to_list(self) -> list[Any]:
        return [self.constant, [f.to_list() for f in self.factors], self.most, self.pairs]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Loss:
        constant, factors, most, pairs = fields
        return cls(constant, tuple(map(Factor.from_list, factors)), most, pairs)


@dataclass(frozen=True)
class Footprint:
    """What a release costs each person, in rho and, where it has one, in pure epsilon."""

    rho: Loss
    epsilon: Loss | None

    @classmethod
    def constant(cls, price: Price) -> Footprint:
        """The footprint of a release that costs everybody `price`."""
        epsilon = price.epsilon
        most = None if epsilon is None else Loss(min(epsilon, LIMIT))
        return cls(Loss(min(price.rho, LIMIT)), most)  # no purse holds more

    @functools.cached_property
    def text(self) -> str:
        """The footprint as a ledger keeps it; compressed where that is shorter."""
        fields = {
            "version": VERSION,
            "rho": self.rho.to_list(),
            "epsilon": None if self.epsilon is None else self.epsilon.to_list(),
        }
        text = _encode(fields)
        if len(text) <= PLAIN:
            return text
        import base64

        from dpsql.accounting.kept.pack import compressed

        return base64.b64encode(compressed(text.encode(), 3)).decode()

    @classmethod
    def from_text(cls, text: str) -> Footprint:
        """The footprint of a `text`. Raises ValueError for anything else, or OtherVersion."""
        if not text.startswith("{"):
            import base64
            import zlib

            try:
                text = zlib.decompress(base64.b64decode(text, validate=True)).decode()
            except zlib.error:
                raise ValueError("not a footprint") from None
        fields: Mapping[str, Any] = json.loads(text)
        try:
            if fields["version"] != VERSION:
                raise OtherVersion(f"a footprint of version {fields['version']}, not {VERSION}")
            epsilon = fields["epsilon"]
            return cls(
                Loss.from_list(fields["rho"]), None if epsilon is None else Loss.from_list(epsilon)
            )
        except (KeyError, TypeError):
            raise ValueError("not a footprint") from None
