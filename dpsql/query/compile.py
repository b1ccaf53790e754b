"""A bound statement becomes a workload of linear queries, and how answers are made of them.

Every aggregate is one or more integer weight functions of a cell. A count has weight 1; the mean
of a value in [lo, hi] is measured as two disjoint parts, (value - lo) and (hi - value), whose sum
is (hi - lo) x rows: their joint L2 sensitivity is that of one count in units of (hi - lo). A
variance is measured in the three parts of a quadratic partition of unity. Equal weights of a
statement are measured once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.query.estimators import Count, Estimator, Mean, Spread, Sum
from dpsql.query.expr import Column, Const, Expr, Op, columns, conjuncts
from dpsql.query.grid import Grid
from dpsql.query.groups import Groups, group
from dpsql.query.linear import MAX_WEIGHT, Block, Table, Term, Weight, Workload
from dpsql.query.merge import merged
from dpsql.query.predicate import ALWAYS, TRUE, And, Predicate, mentioned, truth
from dpsql.query.statement import Aggregate, Bound, BoundSelect
from dpsql.query.tree import Branch, Condition, Trees
from dpsql.query.typing import Typer
from dpsql.query.weights import whole


@dataclass(frozen=True, slots=True, eq=False)
class CompiledSelect:
    """One SELECT: its estimators, and the group keys of its rows."""

    bound: BoundSelect
    estimators: tuple[Estimator, ...]
    groups: Groups


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A statement ready to be priced: a workload, and what is made of its answers.

    `names` and `types` are DuckDB's for the statement's columns.
    """

    bound: Bound
    workload: Workload
    selects: tuple[CompiledSelect, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """The factor of every weight, for each SELECT."""
        return tuple([tuple([w.factor for w in block.weights]) for block in self.workload.blocks])

    @property
    def rows(self) -> int:
        return sum(select.groups.size for select in self.selects)


def unit_of(compiled: Compiled) -> tuple[Fraction, str]:
    """What one unit of the workload's answers is: how much of something, and of what.

    Rows, where a row adds at most 1; steps of a sum in the unit of its values; else units that
    have no name, since a mean, a spread or unlike aggregates are measured on a scale of their own.
    """
    weights = [weight for block in compiled.workload.blocks for weight in block.weights]
    if all(weight.largest <= 1 for weight in weights):
        return Fraction(1), "rows"
    listed = [estimator for select in compiled.selects for estimator in select.estimators]
    units = {estimator.unit if isinstance(estimator, Sum) else None for estimator in listed}
    unit = units.pop()
    if not units and unit is not None and all(weight.factor == 1 for weight in weights):
        return unit, "units of the sum"
    return Fraction(1), "scaled units"


def compile_bound(bound: Bound, grid: Grid, params: Sequence[Any] = ()) -> Compiled:
    """The workload of a statement. Raises Refused; reads public values only."""
    try:
        compiler = _Compiler(bound, grid)
        parts = [compiler.select(select) for select in bound.selects]
        names, types = grid.describe(bound, params)  # last: it does not tell the place of a fault
    except RecursionError:
        raise bound.ask.text.too_deep() from None
    selects = [compiled for compiled, _, _, _ in parts]
    blocks = _balanced([(block, scales) for _, block, scales, _ in parts])
    domain = parts[0][3]
    if len(parts) > 1:
        domain = grid.domain(sorted({name for _, _, _, own in parts for name in own.names}))
    workload = Workload(domain, tuple(blocks))
    return Compiled(bound, workload, tuple(selects), tuple(names), tuple(types))


def _balanced(parts: Sequence[tuple[Block, Sequence[int]]]) -> list[Block]:
    """Blocks whose weights all have about the same scale, so that one noise suits all of them.

    Each weight comes with its natural scale: 1 for a count, hi - lo in units for a mean. Where
    they differ, factors bring every one within 3 % of 16 x the largest.
    """
    known = {scale for _, scales in parts for scale in scales}
    if len(known) < 2:
        return [block for block, _ in parts]
    target = max(known) * (16 if max(known) * 16 <= MAX_WEIGHT else 1)
    return [
        dataclasses.replace(
            block,
            weights=tuple(
                dataclasses.replace(weight, factor=max(1, round(Fraction(target, scale))))
                for weight, scale in zip(block.weights, scales, strict=True)
            ),
        )
        for block, scales in parts
    ]


def _mentioned(select: BoundSelect) -> set[str]:
    exprs: list[Expr] = list(select.keys)
    if select.where is not None:
        exprs.append(select.where)
    for aggregate in select.aggregates:
        exprs += [e for e in (aggregate.argument, aggregate.condition) if e is not None]
    return {name for expr in exprs for name in columns(expr)}


@dataclass(frozen=True, slots=True)
class _Part:
    """The values of one branch of an aggregate's argument, on the grid of their columns."""

    conditions: tuple[Condition, ...]
    domain: Domain
    values: NDArray[np.float64]
    known: NDArray[np.bool_]  # not NULL, and possible under the conditions
    source: Expr


class _Compiler:
    """Compiles the SELECTs of one statement; equal weights of a SELECT are kept once."""

    def __init__(self, bound: Bound, grid: Grid) -> None:
        self._grid, self._dataset = grid, bound.dataset
        self._refuse = bound.ask.text.refusal
        self._trees = Trees(grid, Typer(bound.dataset, self._refuse), self._refuse)
        self._trees.check(bound.guards)

    def select(self, select: BoundSelect) -> tuple[CompiledSelect, Block, list[int], Domain]:
        """One SELECT's estimators, linear queries, the scale of each weight, and its columns."""
        tests = conjuncts(select.where) if select.where is not None else ()
        conditions = [a.condition for a in select.aggregates if a.condition is not None]
        arguments = [a.argument for a in select.aggregates if a.argument is not None]
        branches = {a: self._trees.branches(a) for a in arguments}
        tested = [e for found in branches.values() for cs, _ in found for e, _ in cs]
        counted = [
            Op("IS NOT NULL", (value,))
            for a in select.aggregates
            if a.kind == "count" and a.argument is not None
            for _, value in branches[a.argument]
            if not isinstance(value, Const | Column)
        ]
        self._trees.prepare([*tests, *conditions, *tested, *counted])
        kept = [self._trees.predicate(test) for test in tests]
        groups = group(select.keys, select.sets, kept, self._grid, self._refuse)
        weights = _Weights(self._trees, self._grid, self._refuse, kept)
        estimators = tuple(weights.estimator(a, self._dataset.column) for a in select.aggregates)
        where = kept[0] if len(kept) == 1 else And(tuple(kept)) if kept else ALWAYS
        block = Block(where, tuple(weights.listed), groups.groupings)
        domain = self._grid.domain(sorted(_mentioned(select)))
        block, scales, estimators = merged(domain, block, weights.scales, estimators)
        return CompiledSelect(select, estimators, groups), block, scales, domain


class _Weights:
    """The weight functions of one SELECT, each once."""

    def __init__(self, trees: Trees, grid: Grid, refuse: Any, kept: Sequence[Predicate]) -> None:
        self._trees, self._grid, self._refuse, self._kept = trees, grid, refuse, kept
        self.listed: list[Weight] = []
        self.scales: list[int] = []
        self._known: dict[Any, int] = {}

    def estimator(self, aggregate: Aggregate, column: Any) -> Estimator:
        """How one aggregate is made of weights."""
        base: tuple[Condition, ...] = ()
        if aggregate.condition is not None:
            base = ((aggregate.condition, TRUE),)
        argument = aggregate.argument
        if aggregate.kind == "count":
            return Count(self._count(base, argument, column))
        assert argument is not None
        parts = self._parts(base, argument)
        match aggregate.kind:
            case "sum":
                return self._sum(parts, aggregate)
            case "avg":
                return self._mean(parts, aggregate)
            case kind:
                return self._spread(parts, aggregate, kind)

    def _count(self, base: tuple[Condition, ...], argument: Expr | None, column: Any) -> int:
        """The weight of COUNT(argument), where it is not NULL, or of COUNT(*)."""
        if argument is None:
            return self._add([(base, None)], 1)
        branches: list[Branch] = [((), argument)]
        if not isinstance(argument, Column):
            branches = self._trees.branches(argument)
        terms = []
        for conditions, value in branches:
            known: tuple[Condition, ...] = ((Op("IS NOT NULL", (value,)), TRUE),)
            if isinstance(value, Const) or (
                isinstance(value, Column) and not column(value.name).nullable
            ):
                known = ()
            terms.append(((*base, *conditions, *known), None))
        return self._add(terms, 1)

    def _parts(self, base: tuple[Condition, ...], argument: Expr) -> list[_Part]:
        """The branches of an argument with their values where they can occur."""
        found = []
        for conditions, value in self._trees.branches(argument):
            domain, values, null = self._grid.numbers(value, self._refuse)
            known = ~null
            listed = (*base, *conditions)
            tests = [*self._kept, *(self._trees.all_of([c]) for c in listed)]
            codes = None
            for test in tests:
                if mentioned(test) and mentioned(test) <= set(domain.names):
                    codes = codes or domain.grid()
                    known &= truth(test, codes, domain.cells) == TRUE
            found.append(_Part(listed, domain, values, known, value))
        return found

    def _whole(
        self, parts: Sequence[_Part], limit: int, aggregate: Aggregate, *, from_least: bool
    ) -> tuple[Fraction, Fraction, list[NDArray[np.int64]]]:
        """Origin, unit and whole values of the parts; 0 where a value is NULL or cannot occur."""
        known = [p.values[p.known] for p in parts]
        try:
            origin, unit, ints = whole(known, limit, from_least=from_least)
        except OverflowError:
            raise self._refuse(
                "an aggregate of values beyond 2^53",
                aggregate.span,
                "the values divided by a power of 10",
            ) from None
        found = []
        for part, some in zip(parts, ints, strict=True):
            full = np.zeros(part.domain.cells, np.int64)
            full[part.known] = some
            found.append(full)
        return origin, unit, found

    def _sum(self, parts: Sequence[_Part], aggregate: Aggregate) -> Sum:
        _, unit, ints = self._whole(parts, MAX_WEIGHT, aggregate, from_least=False)
        assert aggregate.argument is not None
        type_ = "HUGEINT" if aggregate.boolean else self._grid.sum_type(aggregate.argument)
        return Sum(self._tables(parts, ints, max(1, _largest(ints))), unit, type_)

    def _mean(self, parts: Sequence[_Part], aggregate: Aggregate) -> Mean:
        lo, unit, above = self._whole(parts, MAX_WEIGHT, aggregate, from_least=True)
        steps = _largest(above)
        if not steps:  # the mean of a constant: only whether anybody is there
            rows = self._tables(parts, [p.known.astype(np.int64) for p in parts], 1)
            return Mean(rows, rows, lo, lo)
        below = [np.where(p.known, steps - a, 0) for p, a in zip(parts, above, strict=True)]
        over, under = (self._tables(parts, ints, steps) for ints in (above, below))
        return Mean(over, under, lo, lo + unit * steps)

    def _spread(self, parts: Sequence[_Part], aggregate: Aggregate, kind: str) -> Spread:
        lo, unit, t = self._whole(parts, 1 << 17, aggregate, from_least=True)
        steps = max(1, _largest(t))
        low, middle, high = (
            [np.where(p.known, 4 * (steps - a) ** 2, 0) for p, a in zip(parts, t, strict=True)],
            [15 * a * (steps - a) for a in t],
            [4 * a**2 for a in t],
        )
        first, second, third = (
            self._tables(parts, ints, 4 * steps**2) for ints in (low, middle, high)
        )
        return Spread(first, second, third, lo, lo + unit * steps, steps, kind)

    def _tables(self, parts: Sequence[_Part], ints: Sequence[NDArray[np.int64]], scale: int) -> int:
        return self._add(
            [
                (part.conditions, (part.source, part.domain, values))
                for part, values in zip(parts, ints, strict=True)
            ],
            scale,
        )

    def _add(self, terms: Iterable[tuple[tuple[Condition, ...], Any]], scale: int) -> int:
        """The index of the weight with these terms; terms that are always 0 are left out."""
        listed = []
        key = []
        for conditions, table in terms:
            if table is not None:
                source, domain, values = table
                if not values.any():
                    continue
                if domain.cells == 1 and values[0] == 1:
                    table = None
            distinct = tuple(dict.fromkeys(conditions))
            key.append((frozenset(distinct), None if table is None else (source, values.tobytes())))
            listed.append((distinct, table))
        name = frozenset(key)
        if name not in self._known:
            self._known[name] = len(self.listed)
            self.scales.append(scale)
            self.listed.append(
                Weight(
                    tuple(
                        Term(
                            self._trees.all_of(conditions),
                            None if table is None else Table(table[1], table[2]),
                        )
                        for conditions, table in listed
                    )
                )
            )
        return self._known[name]


def _largest(tables: Sequence[NDArray[np.int64]]) -> int:
    """The largest absolute value of some tables; 0 for none."""
    return max((int(np.abs(table).max(initial=0)) for table in tables), default=0)
