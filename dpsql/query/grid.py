"""What DuckDB says of an expression on every public cell of the columns that it mentions.

A leaf's columns span a small grid; DuckDB evaluates the expression there, in an empty, locked
database, so an error that it can raise is raised before any private row is read and depends on
the schema alone.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.errors import Refused
from dpsql.query.bind import Bound
from dpsql.query.empty import Empty, EmptyError
from dpsql.query.expr import (
    Call,
    Cast,
    Column,
    Expr,
    Span,
    children,
    columns,
    quote,
    render,
    text_literal,
)
from dpsql.query.functions import SIGNATURES
from dpsql.query.predicate import FALSE, TRUE, UNKNOWN, Leaf
from dpsql.schema import Column as Declared
from dpsql.schema import Dataset, Kind

MAX_CELLS = 10_000_000  # cells of one leaf's grid
_CACHE_BYTES = 256 << 20

Refuse = Callable[[str, Span | None, str], Refused]


class Keys:
    """The values of a group key on its grid: `table[cell]` indexes `values`.

    `source` names a table (i, v) of the index and the value, in the grid's empty database.
    """

    __slots__ = ("domain", "source", "table", "values")

    def __init__(
        self, domain: Domain, table: NDArray[np.int64], values: Sequence[Any], source: str
    ) -> None:
        self.domain, self.table, self.values, self.source = domain, table, list(values), source


class Grid:
    """Evaluates expressions over the columns of one dataset; tables are kept and used again."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._empty = Empty()
        self._kept: OrderedDict[tuple[str, Expr], Any] = OrderedDict()
        self._bytes = 0

    def domain(self, names: Sequence[str]) -> Domain:
        """The domain of some declared columns; NULL is the last code of a nullable one."""
        return Domain(tuple(names), tuple(self._dataset.column(name).cells for name in names))

    @property
    def empty(self) -> Empty:
        """The empty database in which expressions over this dataset are evaluated."""
        return self._empty

    def declare(self) -> None:
        """Make the empty table of the dataset, under its own name, once."""
        table = quote(self._dataset.name)
        listed = ", ".join(f"{quote(c.name)} {c.sql_type}" for c in self._dataset.columns)
        self._empty.make("the dataset", [(f"CREATE TABLE {table} ({listed})", [])])

    def describe(self, bound: Bound, params: Sequence[Any] = ()) -> tuple[list[str], list[str]]:
        """Names and types that DuckDB gives a statement, over an empty table of the dataset.

        Raises Refused when DuckDB would not accept the statement.
        """
        self.declare()
        sql = bound.ask.sql
        for span in sorted(bound.sugar, key=lambda s: -s.start):  # AVG(p) is ours, not DuckDB's
            call = sql[span.start : span.end]
            opening = call.index("(")
            closing = call.rindex(")") if call.endswith(")") else len(call)
            inner = call[opening + 1 : closing]
            sql = f"{sql[: span.start]}{call[:opening]}(({inner})::INTEGER){sql[span.start + closing + 1 :]}"
        try:
            return self._empty.describe(sql, params)
        except EmptyError:
            raise bound.ask.text.refusal(
                "DuckDB does not accept this statement over the declared columns",
                None,
                "the statement in DuckDB's SQL; DESCRIBE shows the columns and their types",
            ) from None

    def sum_type(self, expr: Expr) -> str:
        """DuckDB's type of SUM(expr)."""
        if isinstance(expr, Column) and self._dataset.column(expr.name).sql_type == "BIGINT":
            return "HUGEINT"
        source = self._source(self.domain(columns(expr)))
        _, types = self._empty.describe(f"SELECT sum({render(expr)}) FROM {source} LIMIT 0")
        return types[0]

    # -- truth tables --------------------------------------------------------------------------

    def truths(self, exprs: Sequence[Expr], refuse: Refuse) -> list[Leaf]:
        """The truth table of each condition. Raises Refused where DuckDB would raise an error."""
        missing: dict[tuple[str, ...], list[Expr]] = {}
        for expr in exprs:
            if ("truth", expr) not in self._kept:
                listed = missing.setdefault(columns(expr), [])
                if expr not in listed:
                    listed.append(expr)
        for names, listed in missing.items():
            domain = self._checked(names, listed[0], refuse)
            selected = [
                f"(CASE {render(e)} WHEN TRUE THEN {TRUE} WHEN FALSE THEN {FALSE} "
                f"ELSE {UNKNOWN} END)::UTINYINT"
                for e in listed
            ]
            tables = self._evaluate(domain, selected, listed, refuse)
            for expr, table in zip(listed, tables, strict=True):
                leaf = Leaf(domain, table.astype(np.uint8, copy=False))
                self._keep(("truth", expr), leaf, leaf.table.nbytes)
        return [self._found(("truth", expr)) for expr in exprs]

    # -- numbers -------------------------------------------------------------------------------

    def numbers(
        self, expr: Expr, refuse: Refuse
    ) -> tuple[Domain, NDArray[np.float64], NDArray[np.bool_]]:
        """The value of a numeric expression on its grid, and where it is NULL."""
        key = ("number", expr)
        if key not in self._kept:
            domain = self._checked(columns(expr), expr, refuse)
            text = render(expr)
            selected = [f"COALESCE({text}::DOUBLE, 0)", f"({text} IS NULL)"]
            values, null = self._evaluate(domain, selected, [expr], refuse)
            values, null = values.astype(np.float64), null.astype(bool)
            if not np.isfinite(values).all():
                raise refuse(
                    "an aggregate of an expression that is infinite or NaN for a declared value",
                    getattr(expr, "span", None),
                    "a condition in CASE that leaves those values out",
                )
            self._keep(key, (domain, values, null), values.nbytes + null.nbytes)
        found: tuple[Domain, NDArray[np.float64], NDArray[np.bool_]] = self._found(key)
        return found

    # -- group keys ----------------------------------------------------------------------------

    def keys(self, expr: Expr, refuse: Refuse) -> Keys:
        """The distinct values of a group key, as DuckDB tells them apart, and each cell's own."""
        if isinstance(expr, Column):
            declared = self._dataset.column(expr.name)
            values = [*declared.points(), *([None] if declared.nullable else [])]
            table = np.arange(declared.cells, dtype=np.int64)
            return Keys(self.domain([expr.name]), table, values, self._table(declared))
        key = ("key", expr)
        if key not in self._kept:
            domain = self._checked(columns(expr), expr, refuse)
            text = render(expr)
            rank = f"(dense_rank() OVER (ORDER BY {text} ASC NULLS LAST) - 1)::BIGINT"
            (table,) = self._evaluate(domain, [rank], [expr], refuse)
            made = "key_" + hashlib.sha256(text.encode()).hexdigest()[:24]
            distinct = f"SELECT DISTINCT {text} AS v FROM {self._source(domain)}"
            numbered = f"SELECT row_number() OVER (ORDER BY v ASC NULLS LAST) - 1 AS i, v FROM ({distinct})"
            self._empty.make(made, [(f"CREATE TABLE {made} AS {numbered} ORDER BY i", [])])
            values = [row[0] for row in self._empty.rows(f"SELECT v FROM {made} ORDER BY i")]
            self._keep(key, Keys(domain, table.astype(np.int64), values, made), table.nbytes)
        found: Keys = self._found(key)
        return found

    # -- evaluation ----------------------------------------------------------------------------

    def _checked(self, names: Sequence[str], expr: Expr, refuse: Refuse) -> Domain:
        domain = self.domain(names)
        if domain.cells > MAX_CELLS:
            raise refuse(
                f"one condition spans {domain.cells:,} combinations of {', '.join(names)}; "
                f"at most {MAX_CELLS:,} are evaluated",
                getattr(expr, "span", None),
                "conditions on fewer columns each, joined by AND and OR",
            )
        return domain

    def _evaluate(
        self, domain: Domain, selected: Sequence[str], exprs: Sequence[Expr], refuse: Refuse
    ) -> list[NDArray[Any]]:
        """Each selected expression on every cell, in the order of cells."""
        listed = ", ".join(f"{sql} AS c{index}" for index, sql in enumerate(selected))
        try:
            found, _ = self._empty.arrays(
                f"SELECT {_cell(domain)}, {listed} FROM {self._source(domain)}"
            )
        except EmptyError:
            raise self._explain(exprs, refuse) from None
        cells, *tables = found
        placed = []
        for table in tables:
            ordered = np.empty_like(table)
            ordered[cells] = table
            placed.append(ordered)
        return placed

    def _source(self, domain: Domain) -> str:
        """SQL of a grid's cells: the cell's index, and one column for each name."""
        tables = [self._table(self._dataset.column(name)) for name in domain.names]
        index = "0::BIGINT"
        for position, size in enumerate(domain.sizes):
            index = f"({index} * {size} + g{position}.i)"
        values = "".join(f", g{p}.v AS {quote(n)}" for p, n in enumerate(domain.names))
        joined = ", ".join(f"{table} AS g{p}" for p, table in enumerate(tables))
        source = f" FROM {joined}" if tables else ""
        return f"(SELECT {index} AS {_cell(domain)}{values}{source})"

    def _table(self, column: Declared) -> str:
        """The name of the table of a column's points, made at first use."""
        described = f"{column.kind.value}|{column.nullable}|{_points_sql(column)}"
        name = "grid_" + hashlib.sha256(described.encode()).hexdigest()[:24]
        null = f" UNION ALL SELECT {column.size}::BIGINT, NULL" if column.nullable else ""
        self._empty.make(
            name,
            [
                (
                    f"CREATE TABLE {name} AS SELECT i, v::{column.sql_type} AS v FROM "
                    f"({_points_sql(column)}{null}) ORDER BY i",
                    [],
                )
            ],
        )
        return name

    def _explain(self, exprs: Sequence[Expr], refuse: Refuse) -> Refused:
        """The refusal for an expression that fails on the grid: the smallest part that does."""
        for expr in exprs:
            for part in _inner_first(expr):
                if isinstance(part, Column) or not self._fails(part):
                    continue
                span = getattr(part, "span", None) or getattr(expr, "span", None)
                lenient = "TRY_CAST" if isinstance(part, Cast) else "TRY"
                what = "this cast" if isinstance(part, Cast) else "this expression"
                if isinstance(part, Call) and part.name in SIGNATURES:
                    what = f"{part.name}()" if part.name[0].isalpha() else f"this {part.name}"
                return refuse(
                    f"{what} is an error for some declared value{self._example(part)}",
                    span,
                    f"{lenient}(...), which is NULL there, or a CASE that leaves it out",
                )
        return refuse(
            "DuckDB cannot evaluate this expression on the declared values",
            getattr(exprs[0], "span", None),
            "a comparison of declared columns with literals",
        )

    def _fails(self, part: Expr) -> bool:
        try:
            source = self._source(self.domain(columns(part)))
            self._empty.rows(f"SELECT count({render(part)}) FROM {source}")
        except (EmptyError, AssertionError):
            return True
        return False

    def _example(self, part: Expr) -> str:
        """The first declared values for which `part` fails, in words."""
        names = columns(part)
        if not names or any(isinstance(arg, Call) and arg.name == "row" for arg in children(part)):
            return ""
        inner = " AND ".join(f"{render(c)} IS NOT NULL" for c in children(part)) or "TRUE"
        listed = ", ".join(quote(name) for name in names)
        try:
            found = self._empty.rows(
                f"SELECT {listed} FROM {self._source(self.domain(names))} "
                f"WHERE TRY({render(part)}) IS NULL AND {inner} LIMIT 1"
            )
        except EmptyError:
            return ""
        if not found:
            return ""
        return ": " + ", ".join(f"{n} = {v!r}" for n, v in zip(names, found[0], strict=True))

    # -- what is kept --------------------------------------------------------------------------

    def _keep(self, key: tuple[str, Expr], value: Any, size: int) -> None:
        self._kept[key] = value
        self._bytes += size
        while self._bytes > _CACHE_BYTES and len(self._kept) > 64:
            _, old = self._kept.popitem(last=False)
            self._bytes -= _size(old)

    def _found(self, key: tuple[str, Expr]) -> Any:
        self._kept.move_to_end(key)
        return self._kept[key]


def _cell(domain: Domain) -> str:
    """The name of the column of a cell's index: longer than every declared name."""
    return quote("#" * (1 + max((len(name) for name in domain.names), default=0)))


def _size(kept: Any) -> int:
    match kept:
        case Leaf(table=table):
            return int(table.nbytes)
        case Keys():
            return int(kept.table.nbytes)
        case (_, values, null):
            return int(values.nbytes + null.nbytes)
        case _:
            raise AssertionError("only tables are kept")


def _inner_first(expr: Expr) -> list[Expr]:
    found: list[Expr] = []
    for child in children(expr):
        found.extend(_inner_first(child))
    found.append(expr)
    return found


def _points_sql(column: Declared) -> str:
    """SQL of the declared points of a column: columns i (code) and v (value)."""
    if column.kind is Kind.INTEGER:
        return f"SELECT i, {column.minimum} + i AS v FROM range({column.size}) AS r(i)"
    shown = [f"({code},{_literal(column, value)})" for code, value in enumerate(column.points())]
    return f"SELECT * FROM (VALUES {','.join(shown)}) AS t(i, v)"


def _literal(column: Declared, value: Any) -> str:
    match column.kind:
        case Kind.CATEGORY:
            return text_literal(value) if isinstance(value, str) else str(value)
        case Kind.DATE:
            return f"DATE '{value.isoformat()}'"
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case _:
            return f"'{value!r}'::DOUBLE"
