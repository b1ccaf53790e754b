"""What DuckDB says of an expression on every public cell of the columns that it mentions.

A leaf's columns span a small grid; DuckDB evaluates the expression there, in an empty, locked
database, so an error that it can raise is raised before any private row is read and depends on
the schema alone.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.query.declared import Refuse, sql
from dpsql.query.describe import Describer, Outputs, Params
from dpsql.query.empty import SCHEMA, Empty, EmptyError, taken
from dpsql.query.expr import Column, Const, Expr, columns, quote, render, walk, written
from dpsql.query.failure import explain
from dpsql.query.integers import compared
from dpsql.query.points import points
from dpsql.query.predicate import TRUE, UNKNOWN, Leaf
from dpsql.query.statement import Bound
from dpsql.schema import Column as Declared
from dpsql.schema import Dataset

MAX_CELLS = 10_000_000  # cells of one leaf's grid
_CACHE_BYTES = 256 << 20
_SMALL = 4_096  # cells of a grid that is evaluated in one query with others
_TOGETHER = 64  # expressions in one query
_LONG_TEXT = 256  # characters of literals for which half as many cells are evaluated

Values: TypeAlias = "tuple[Domain, NDArray[np.float64], NDArray[np.bool_]]"


class Keys:
    """The values of a group key on its grid: `table[cell]` indexes `values`.

    `source` names a table (i, v) of the index and the value, in the grid's empty database.
    """

    __slots__ = ("__weakref__", "domain", "source", "table", "values")

    def __init__(
        self, domain: Domain, table: NDArray[np.int64], values: Sequence[Any], source: str
    ) -> None:
        self.domain, self.table, self.values, self.source = domain, table, list(values), source


class Grid:
    """Evaluates expressions over the columns of one dataset; threads may share it.

    Tables that were found are kept, in bounded memory, and used again.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._empty = taken()
        self._describer = Describer(dataset, self._empty)
        self._kept: OrderedDict[tuple[str, Expr], Any] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def domain(self, names: Sequence[str]) -> Domain:
        """The domain of some declared columns; NULL is the last code of a nullable one."""
        return Domain(tuple(names), tuple(self._dataset.column(name).cells for name in names))

    @property
    def empty(self) -> Empty:
        """The empty database in which expressions over this dataset are evaluated."""
        return self._empty

    def declare(self) -> None:
        """Make the empty table of the dataset, under its own name, once."""
        self._describer.declare()

    def describe(self, bound: Bound, params: Params = ()) -> Outputs:
        """Names and types that DuckDB gives a statement, over an empty table of the dataset.

        Raises Refused when DuckDB would not accept the statement.
        """
        return self._describer.outputs(bound.ask, params)

    def sum_type(self, expr: Expr) -> str:
        """DuckDB's type of SUM(expr)."""
        if isinstance(expr, Column) and self._dataset.column(expr.name).sql_type == "BIGINT":
            return "HUGEINT"
        source = self._source(self.domain(columns(expr)))
        return self._empty.describe(f"SELECT sum({render(expr)}) FROM {source} LIMIT 0")[1][0]

    # -- truth tables --------------------------------------------------------------------------

    def truths(self, exprs: Sequence[Expr], refuse: Refuse) -> list[Leaf]:
        """The truth table of each condition. Raises Refused where DuckDB would raise an error."""
        known = [self._found(("truth", expr)) for expr in exprs]
        if all(leaf is not None for leaf in known):
            return known
        found: dict[Expr, Leaf] = {}
        small: list[Expr] = []
        large: dict[tuple[str, ...], list[Expr]] = {}
        for expr, kept in dict(zip(exprs, known, strict=True)).items():
            if kept is not None:
                found[expr] = kept
                continue
            names = columns(expr)
            domain = self._checked(names, expr, refuse)
            table = compared(expr, self._dataset.column(names[0])) if len(names) == 1 else None
            if table is not None:
                found[expr] = leaf = Leaf(domain, table)
                self._keep(("truth", expr), leaf, table.nbytes)
            elif domain.cells <= _SMALL:
                small.append(expr)
            else:
                large.setdefault(names, []).append(expr)
        for start in range(0, len(small), _TOGETHER):
            some = small[start : start + _TOGETHER]
            found.update(zip(some, self._together(some, refuse), strict=True))
        for names, listed in large.items():
            domain = self.domain(names)
            selected = [f"({render(expr)})::BOOLEAN" for expr in listed]
            for expr, column in zip(
                listed, self._evaluate(domain, selected, listed, refuse), strict=True
            ):
                found[expr] = Leaf(domain, _truth(column))
        for expr in (*small, *(e for listed in large.values() for e in listed)):
            self._keep(("truth", expr), found[expr], found[expr].table.nbytes)
        return [found[expr] for expr in exprs]

    def _together(self, exprs: Sequence[Expr], refuse: Refuse) -> list[Leaf]:
        """The truth tables of conditions on small grids, by one query."""
        domains = [self.domain(columns(expr)) for expr in exprs]
        parts = [
            f"SELECT {index}, {_cell(domain)}, ({render(expr)})::BOOLEAN "
            f"FROM {self._source(domain)}"
            for index, (domain, expr) in enumerate(zip(domains, exprs, strict=True))
        ]
        try:
            which, cells, truths = self._empty.arrays(" UNION ALL ".join(parts))
        except EmptyError:
            raise explain(exprs, self._fails, self._example, refuse) from None
        tables = _truth(truths)
        starts = np.cumsum([0, *(domain.cells for domain in domains)])
        placed = np.empty(starts[-1], np.uint8)
        placed[starts[np.asarray(which)] + np.asarray(cells)] = tables
        return [
            Leaf(domain, placed[start : start + domain.cells])
            for domain, start in zip(domains, starts, strict=False)
        ]

    # -- numbers -------------------------------------------------------------------------------

    def numbers(self, expr: Expr, refuse: Refuse) -> Values:
        """The value of a numeric expression on its grid, and where it is NULL."""
        key = ("number", expr)
        found: Values | None = self._found(key)
        if found is None:
            domain = self._checked(columns(expr), expr, refuse)
            (column,) = self._evaluate(domain, [f"({render(expr)})::DOUBLE"], [expr], refuse)
            null = np.ma.getmaskarray(column)
            values = np.where(null, 0.0, np.ma.getdata(column))
            if not np.isfinite(values).all():
                raise refuse(
                    "an aggregate of an expression that is infinite or NaN for a declared value",
                    expr.span,
                    "a condition in CASE that leaves those values out",
                )
            found = domain, values, null
            self._keep(key, found, values.nbytes + null.nbytes)
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
        found: Keys | None = self._found(key)
        if found is None:
            domain = self._checked(columns(expr), expr, refuse)
            text, source = render(expr), self._source(self.domain(columns(expr)))
            rank = f"(dense_rank() OVER (ORDER BY {text} ASC NULLS LAST) - 1)::BIGINT"
            (table,) = self._evaluate(domain, [rank], [expr], refuse)
            made = f"{SCHEMA}.key_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
            distinct = f"SELECT DISTINCT {text} AS v FROM {source}"
            index = "row_number() OVER (ORDER BY v ASC NULLS LAST) - 1"
            with self._empty.made(made, f"SELECT {index} AS i, v FROM ({distinct}) ORDER BY i"):
                values = [row[0] for row in self._empty.rows(f"SELECT v FROM {made} ORDER BY i")]
                found = Keys(domain, np.asarray(table, np.int64), values, made)
                self._empty.hold(found, made)
            self._keep(key, found, found.table.nbytes + 100 * len(values))
        return found

    # -- evaluation ----------------------------------------------------------------------------

    def _checked(self, names: Sequence[str], expr: Expr, refuse: Refuse) -> Domain:
        domain = self.domain(names)
        texts = sum(len(p.text) for p in walk(expr) if isinstance(p, Const) and p.kind == "text")
        most = MAX_CELLS // (1 + texts // _LONG_TEXT)
        if domain.cells > most:
            raise refuse(
                f"one expression spans {domain.cells:,} combinations of "
                f"{', '.join(map(written, names))}; at most {most:,} are evaluated",
                expr.span,
                "conditions on fewer columns each, joined by AND and OR; SUM(a) - SUM(b) "
                "instead of SUM(a - b)",
            )
        return domain

    def _evaluate(
        self, domain: Domain, selected: Sequence[str], exprs: Sequence[Expr], refuse: Refuse
    ) -> list[NDArray[Any]]:
        """Some SQL of expressions on every cell, in the order of cells."""
        listed = ", ".join(f"{sql} AS c{index}" for index, sql in enumerate(selected))
        query = f"SELECT {_cell(domain)}, {listed} FROM {self._source(domain)}"
        try:
            cells, *tables = self._empty.arrays(query)
        except EmptyError:
            raise explain(exprs, self._fails, self._example, refuse) from None
        placed: list[NDArray[Any]] = []
        for table in tables:
            ordered = np.ma.empty_like(table)
            ordered[np.asarray(cells)] = table
            placed.append(ordered)
        return placed

    def _source(self, domain: Domain) -> str:
        """SQL of a grid's cells: the cell's index, and one column for each name."""
        tables = [self._table(self._dataset.column(name)) for name in domain.names]
        index = "" if tables else "0::BIGINT"
        for position, size in enumerate(domain.sizes):
            index = f"({index} * {size} + g{position}.i)" if index else f"g{position}.i"
        values = "".join(f", g{p}.v AS {quote(n)}" for p, n in enumerate(domain.names))
        joined = ", ".join(f"{table} AS g{p}" for p, table in enumerate(tables))
        source = f" FROM {joined}" if tables else ""
        return f"(SELECT {index} AS {_cell(domain)}{values}{source})"

    def _table(self, column: Declared) -> str:
        """The name of the table of a column's points, made at first use."""
        name = f"{SCHEMA}.{quote(column.name)}"
        if not self._empty.has(name):
            self._empty.make(name, *points(column))
        return name

    def _fails(self, part: Expr) -> bool:
        """Whether DuckDB raises an error for an expression somewhere on its grid."""
        try:
            source = self._source(self.domain(columns(part)))
            self._empty.arrays(f"SELECT {render(part)} FROM {source}")
        except (EmptyError, AssertionError):
            return True
        return False

    def _example(self, failing: str, names: Sequence[str]) -> tuple[Any, ...] | None:
        """The first declared values of some columns for which a condition, as SQL, holds."""
        listed = ", ".join(quote(name) for name in names)
        source = self._source(self.domain(names))
        try:
            found = self._empty.rows(f"SELECT {listed} FROM {source} WHERE {failing} LIMIT 1")
        except EmptyError:
            return None
        return found[0] if found else None

    def example(self, domain: Domain, cell: int) -> str:
        """The values of one cell, in words for the end of a sentence."""
        codes = np.unravel_index(cell, domain.sizes) if domain.sizes else ()
        listed = [
            f"{written(name)} = {sql(self._dataset.column(name).point(int(code)))}"
            for name, code in zip(domain.names, codes, strict=True)
        ]
        return ": " + ", ".join(listed) if listed else ""

    # -- what is kept --------------------------------------------------------------------------

    def _keep(self, key: tuple[str, Expr], value: Any, size: int) -> None:
        with self._lock:
            self._kept[key] = value, size
            self._bytes += size
            while self._bytes > _CACHE_BYTES and len(self._kept) > 1:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._bytes -= dropped

    def _found(self, key: tuple[str, Expr]) -> Any:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if self._bytes > _CACHE_BYTES // 2:  # else nothing is dropped soon, whatever its turn
                self._kept.move_to_end(key)
            return found[0]


def _truth(column: NDArray[Any]) -> NDArray[np.uint8]:
    """FALSE, UNKNOWN and TRUE of a column of booleans with NULLs."""
    found = np.ma.getdata(column).astype(np.uint8) * np.uint8(TRUE)
    found[np.ma.getmaskarray(column)] = UNKNOWN
    return found


def _cell(domain: Domain) -> str:
    """The name of the column of a cell's index: longer than every declared name."""
    return quote("#" * (1 + max((len(name) for name in domain.names), default=0)))
