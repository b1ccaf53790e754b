"""What a statement asks, over declared columns: what comes out of `bind.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpsql.query.expr import Expr, Span
from dpsql.query.guards import Guard
from dpsql.query.parse import Ask
from dpsql.query.syntax import Order
from dpsql.schema import Dataset


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: `kind` is count, sum, avg, var_pop, ...; NULL arguments are left out."""

    kind: str
    argument: Expr | None
    condition: Expr | None
    boolean: bool = False  # the argument is a condition
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """One SELECT over declared columns.

    In `items` and `having`, Slot("k0") is group key 0, Slot("a0") aggregate 0, and Slot("g0") the
    number that GROUPING gives for the keys listed in `groupings[0]`.
    """

    where: Expr | None
    keys: tuple[Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    aggregates: tuple[Aggregate, ...]
    groupings: tuple[tuple[int, ...], ...]
    items: tuple[tuple[Expr, str], ...]
    having: Expr | None


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement to answer: its SELECTs (several for UNION ALL) and what follows the noise.

    In `order`, Slot("c0") is output 0, and Star stands for all outputs. The SQL of `ask` is one
    that DuckDB takes: AVG of a condition, which is ours, is written with a cast.
    """

    dataset: Dataset
    selects: tuple[BoundSelect, ...]
    order: tuple[Order, ...]
    limit: Expr | None
    offset: Expr | None
    guards: tuple[Guard, ...]
    ask: Ask


@dataclass(frozen=True, slots=True)
class Probe:
    """A query that tells only the schema: no FROM, LIMIT 0, or a condition that is never true.

    `of` is "view" for a query over a view of the catalogue, "session" for one about the session.
    """

    dataset: Dataset | None
    empty: bool
    ask: Ask
    of: str = ""
