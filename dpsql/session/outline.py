"""The shape of an answer before anything is measured: which outputs are keys, which noisy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.accounting.events import Gaussian
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.query.compile import Compiled
from dpsql.query.expr import Const, Slot, walk
from dpsql.query.finish import planned
from dpsql.query.grid import Grid
from dpsql.schema.sqltypes import numeric
from dpsql.session.chart import Shape

_ANY = Gaussian(1, Fraction(1))  # whether an output has an interval does not depend on the law


def outline(compiled: Compiled, grid: Grid) -> Shape:
    """The columns of an answer, and the keys of all rows that it may have; public values only.

    An output that is made of noisy values and is no number, such as a label, is neither key nor
    measure.
    """
    keys, measures = _columns(compiled)
    limit = compiled.bound.limit
    return Shape(
        compiled.names,
        keys,
        measures,
        tuple(tuple(row[at] for at in keys) for row in planned(compiled, grid).rows),
        totals=_totals(compiled),
        most=int(limit.text) if isinstance(limit, Const) else None,
    )


def plain(compiled: Compiled) -> bool:
    """Whether every output is a key or a number with an interval, and no row a total of others."""
    keys, measures = _columns(compiled)
    return len(keys) + len(measures) == len(compiled.names) and not _totals(compiled)


def _columns(compiled: Compiled) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The outputs that are keys, and those that are numbers with an interval."""
    noisy: set[int] = set()
    measures: set[int] = set()
    for block, select, factors in zip(
        compiled.workload.blocks, compiled.selects, compiled.factors, strict=True
    ):
        zeros = np.zeros((1, len(block.weights)), np.int64)
        answers = Answers(zeros, _ANY, select.estimators, factors, False)
        for at, (expr, _) in enumerate(select.bound.items):
            if not any(isinstance(part, Slot) and part.name[0] == "a" for part in walk(expr)):
                continue
            noisy.add(at)
            found = answers.of(expr)
            if found is not None and found.gradient and numeric(compiled.types[at]):
                measures.add(at)
    keys = tuple(at for at in range(len(compiled.names)) if at not in noisy)
    return keys, tuple(sorted(measures))


def _totals(compiled: Compiled) -> bool:
    """Whether some rows are totals of others, as in a CUBE."""
    return any(len(select.groups.sets) > 1 for select in compiled.selects)
