"""Random schemas, tables and statements of the SQL that is answered, for tests against DuckDB.

Every piece of SQL is made twice from one text: as an analyst writes it, and as DuckDB is asked
for the same value. They differ in marks alone: a sum of nothing is 0 here and NULL there, and the
mean of a condition is ours. The expected value never passes through dpsql.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

_SUM, _SUM_END, _MEAN, _MEAN_END, _BELOW, _BELOW_END = (
    "\x01",
    "\x02",
    "\x03",
    "\x04",
    "\x05",
    "\x06",
)
_NAMES = (
    "a", "b", "c", "D", "Age", "été", "two words", 'quo"te', "select", "order", "group", "k0", "a0",
    "v", "i", "row#", "#", "count", "x.y", "null", "Ärger", "ärger",
)  # fmt: skip
_ALIASES = (*_NAMES, "n", "m", "x", "y")
_TEXTS = ("a", "B", "b", "", "10", "2", "x y", "it's", "é", "Z%", "_", "NULL", "true", 'q"', "\\")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def asked(sql: str) -> str:
    """The statement as an analyst writes it."""
    return sql.translate({ord(mark): None for mark in map(chr, range(1, 7))})


def expected(sql: str) -> str:
    """The statement whose answer by DuckDB is the value that we must give."""
    sql = sql.replace(_SUM, "COALESCE(").replace(_SUM_END, ", 0)")
    sql = sql.replace(_BELOW, "NULLIF(").replace(_BELOW_END, ", 0)")
    return sql.replace(_MEAN, "(").replace(_MEAN_END, ")::INTEGER")


@dataclass(frozen=True)
class Table:
    """A declared dataset and rows that lie in its domain."""

    dataset: Dataset
    rows: list[tuple[Any, ...]]
    full: bool  # every cell of the domain is there

    @property
    def fields(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.sql_type}" for c in self.dataset.columns)


def table(rng: Random) -> Table:
    """A random schema of up to five columns, and a few rows of it."""
    names: list[str] = []
    for name in rng.sample(_NAMES, rng.randint(1, 5)):
        if name.casefold() not in {n.casefold() for n in names}:
            names.append(name)
    columns = tuple(_column(rng, name) for name in names)
    name = rng.choice(["t", "T two", "select", 'd"x', "données", columns[0].name])
    dataset = Dataset(name, columns, Neighbours.ADD_REMOVE, Unit(), Source(table="t"))
    cells = 1
    for column in columns:
        cells *= column.cells
    full = cells <= 300 and rng.random() < 0.6
    rows = _all_cells(columns) if full else []
    for _ in range(rng.choice([0, 1, 5, 30])):
        rows.append(tuple(column.point(rng.randrange(column.cells)) for column in columns))
    return Table(dataset, rows, full)


def _all_cells(columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [()]
    for column in columns:
        rows = [(*row, column.point(code)) for row in rows for code in range(column.cells)]
    return rows


def _column(rng: Random, name: str) -> Column:
    nullable = rng.random() < 0.4
    match rng.randrange(8):
        case 0 | 1:
            values = tuple(rng.sample(_TEXTS, rng.randint(2, 5)))
            return Column(name, Kind.CATEGORY, nullable, values=values)
        case 2:
            numbers = tuple(rng.sample([-7, -1, 0, 1, 2, 3, 10, 200], rng.randint(2, 4)))
            return Column(name, Kind.CATEGORY, nullable, values=numbers)
        case 3 | 4:
            low = rng.choice([-3, -1, 0, 1, 20])
            return Column(
                name, Kind.INTEGER, nullable, minimum=low, maximum=low + rng.randint(1, 6)
            )
        case 5:
            low, step = rng.choice(
                [("0", "0.5"), ("-1", "0.25"), ("0.1", "0.1"), ("10", "5"), ("-0.3", "0.2")]
            )
            top = Decimal(low) + rng.randint(1, 5) * Decimal(step)
            return Column(
                name, Kind.NUMBER, nullable, minimum=Decimal(low), maximum=top, step=Decimal(step)
            )
        case 6:
            start = datetime.date(2024, rng.choice([1, 2, 12]), rng.choice([1, 28, 31 - 2]))
            step = rng.choice(["day", "week", "month", "year"])
            days = {"day": 1, "week": 7, "month": 31, "year": 366}[step] * rng.randint(1, 4)
            return Column(
                name, Kind.DATE, nullable, minimum=start,
                maximum=start + datetime.timedelta(days=days), step=step,
            )  # fmt: skip
        case _:
            if rng.random() < 0.3:
                edges = tuple(Decimal(e) for e in ("-10", "0", "2.5", "100")[: rng.randint(3, 4)])
                return Column(name, Kind.NUMBER, nullable, edges=edges)
            return Column(name, Kind.BOOLEAN, nullable)


@dataclass
class Source_:
    """What FROM gives: the text of a column by kind, as the analyst may write it."""

    columns: dict[str, list[tuple[str, Column]]] = field(default_factory=dict)

    def add(self, written: str, column: Column) -> None:
        self.columns.setdefault(kind_of(column), []).append((written, column))


def kind_of(column: Column) -> str:
    if column.edges:
        return "bins"
    if column.kind is Kind.CATEGORY:
        return "number" if isinstance(column.values[0], int) else "text"
    return {
        Kind.INTEGER: "number", Kind.NUMBER: "number", Kind.DATE: "date", Kind.BOOLEAN: "boolean",
    }[column.kind]  # fmt: skip


class Expressions:
    """Random expressions over the columns of one FROM clause."""

    def __init__(self, rng: Random, source: Source_) -> None:
        self.rng, self.source = rng, source

    def pick(self, *makers: Callable[[], str]) -> str:
        return self.rng.choice(makers)()

    def column(self, kind: str) -> tuple[str, Column] | None:
        found = self.source.columns.get(kind)
        return self.rng.choice(found) if found else None

    def of(self, kind: str, depth: int) -> str:
        match kind:
            case "number":
                return self.number(depth)
            case "text":
                return self.text(depth)
            case "date":
                return self.date(depth)
            case _:
                return self.condition(depth)

    # -- conditions ----------------------------------------------------------------------------

    def condition(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            return self.pick(self.flag, self.known, self.membership, self.order)
        d = depth - 1
        match rng.randrange(16):
            case 0 | 1:
                parts = [self.condition(d) for _ in range(rng.randint(2, 3))]
                return "(" + f" {rng.choice(['AND', 'OR'])} ".join(parts) + ")"
            case 2:
                return f"(NOT {self.condition(d)})"
            case 3:
                test = rng.choice(
                    ["TRUE", "FALSE", "NULL", "UNKNOWN", "NOT TRUE", "NOT FALSE", "NOT NULL"]
                )
                return f"({self.condition(d)} IS {test})"
            case 4:
                op = rng.choice(["=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "<", ">="])
                return f"({self.condition(d)} {op} {self.condition(d)})"
            case 5:
                return (
                    f"(CASE WHEN {self.condition(d)} THEN {self.condition(d)} "
                    f"{rng.choice(['', 'ELSE ' + self.condition(d)])} END)"
                )
            case 6:
                return f"COALESCE({self.condition(d)}, {rng.choice(['TRUE', 'FALSE'])})"
            case 7:
                low, high = self.number(d), self.number(d)
                return f"({self.number(d)} {rng.choice(['', 'NOT '])}BETWEEN {low} AND {high})"
            case 8:
                return self.like(d)
            case 9:
                return self.rows()
            case 10:
                kind = rng.choice(["number", "text", "date"])
                return f"({self.of(kind, d)} IS {rng.choice(['', 'NOT '])}NULL)"
            case 11:
                kind = rng.choice(["number", "text", "date"])
                op = rng.choice(["<", ">", "<=", ">=", "IS DISTINCT FROM", "=", "<>"])
                return f"({self.of(kind, 1 + d)} {op} {self.computed(kind, 1 + d)})"
            case 12:
                return f"IF({self.condition(d)}, {self.condition(d)}, {self.condition(d)})"
            case 13:
                return f"({self.number(d)}::BOOLEAN)"
            case _:
                return self.pick(self.flag, self.known, self.membership, self.order)

    def flag(self) -> str:
        found = self.column("boolean")
        return found[0] if found else self.rng.choice(["TRUE", "FALSE", "NULL", "(1 = 1)"])

    def known(self) -> str:
        kind = self.rng.choice(["number", "text", "date", "boolean", "bins"])
        found = self.column(kind)
        if not found:
            return self.flag()
        name, column = found
        if column.edges and self.rng.random() < 0.6:
            op = self.rng.choice(["<", ">="])
            return f"({name} {op} {self.rng.choice(column.edges)})"
        return f"({name} IS {self.rng.choice(['', 'NOT '])}NULL)"

    def membership(self) -> str:
        found = self.column(self.rng.choice(["number", "text", "date"]))
        if not found:
            return self.flag()
        name, column = found
        some = [literal(column, self.rng.randrange(column.size)) for _ in range(3)]
        match self.rng.randrange(5):
            case 0:
                return f"({name} {self.rng.choice(['=', '<>', '==', '!='])} {some[0]})"
            case 1:
                return f"({some[0]} = {name})"
            case 2:
                op = self.rng.choice(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
                return f"({name} {op} {some[0]})"
            case _:
                listed = [*some[: self.rng.randint(1, 3)], *self.rng.choice([[], [], ["NULL"]])]
                return f"({name} {self.rng.choice(['IN', 'NOT IN'])} ({', '.join(listed)}))"

    def order(self) -> str:
        kind = self.rng.choice(["number", "text", "date"])
        found = self.column(kind)
        if not found:
            return self.flag()
        op = self.rng.choice(["<", ">", "<=", ">="])
        sides = [found[0], self.of(kind, 0)]
        if self.rng.random() < 0.3:
            sides.reverse()
        return f"({sides[0]} {op} {sides[1]})"

    def computed(self, kind: str, depth: int) -> str:
        """An operand that is no literal, so that any value may be compared with it."""
        for _ in range(3):
            made = self.of(kind, depth)
            if made[0] in "(ACDGLNRSUWy" and len(made) > 6:
                return made
        return {"number": "abs(-2)", "text": "lower('B')", "date": "last_day(DATE '2024-02-03')"}[
            kind
        ]

    def like(self, depth: int) -> str:
        subject = self.text(depth)
        match self.rng.randrange(7):
            case 0 | 1:
                op = self.rng.choice(["LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"])
                pattern = self.rng.choice(["%", "a%", "%'%", "_", "B_%", "", "%1%", "\\%", "É"])
                return f"({subject} {op} {text(pattern)})"
            case 2:
                op = self.rng.choice(["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"])
                return f"({subject} {op} '%#%%' ESCAPE '#')"
            case 3:
                return f"({subject} ^@ {text(self.rng.choice(_TEXTS))})"
            case 4:
                pattern = text(self.rng.choice(["a|b", "^[0-9]+$", ".", "b.*"]))
                op = self.rng.choice(["SIMILAR TO", "NOT SIMILAR TO", "~", "!~"])
                return f"({subject} {op} {pattern})"
            case 5:
                name = self.rng.choice(["contains", "starts_with", "ends_with", "prefix", "suffix"])
                return f"{name}({subject}, {text(self.rng.choice(_TEXTS))})"
            case _:
                pattern = self.rng.choice(["a", "[A-Z]", "^b", "\\d"])
                options = self.rng.choice(["", ", 'i'"])
                return f"regexp_matches({subject}, {text(pattern)}{options})"

    def rows(self) -> str:
        picked = [self.column(k) for k in ("number", "text", "date", "boolean")]
        known = [p for p in picked if p]
        if len(known) < 2:
            return self.flag()
        some = self.rng.sample(known, 2)
        names = ", ".join(name for name, _ in some)
        rows = [
            "(" + ", ".join(literal(c, self.rng.randrange(c.size)) for _, c in some) + ")"
            for _ in range(2)
        ]
        match self.rng.randrange(3):
            case 0:
                return f"(({names}) = {rows[0]})"
            case _:
                return f"(({names}) {self.rng.choice(['IN', 'NOT IN'])} ({', '.join(rows)}))"

    # -- numbers -------------------------------------------------------------------------------

    def number(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            found = self.column("number")
            if found and rng.random() < 0.7:
                return found[0]
            return rng.choice(["0", "1", "2", "-1", "3", "7", "0.5", "1.25", "-2.5e0", "1e1", "10"])
        d = depth - 1
        match rng.randrange(18):
            case 0 | 1 | 2:
                return f"({self.number(d)} {rng.choice('+-*')} {self.number(d)})"
            case 3:
                divisor = rng.choice(["2", "-3", "10", "0.5", f"NULLIF({self.number(d)}, 0)"])
                return f"({self.number(d)} {rng.choice(['/', '//', '%'])} {divisor})"
            case 4:
                other = rng.choice(["", f" ELSE {self.number(d)}"])
                return f"(CASE WHEN {self.condition(d)} THEN {self.number(d)}{other} END)"
            case 5:
                values = ", ".join(self.number(d) for _ in range(rng.randint(2, 3)))
                return f"{rng.choice(['COALESCE', 'GREATEST', 'LEAST'])}({values})"
            case 6:
                return f"NULLIF({self.number(d)}, {self.number(d)})"
            case 7:
                name = rng.choice(["abs", "sign", "floor", "ceil", "round", "trunc", "-", "+", "@"])
                return f"({name}({self.number(d)}))"
            case 8:
                return f"round({self.number(d)}, {rng.choice(['0', '1', '2', '-1'])})"
            case 9:
                type_ = rng.choice(["INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "FLOAT", "HUGEINT"])
                return f"CAST({self.number(d)} AS {type_})"
            case 10:
                return f"TRY_CAST({self.text(d)} AS {rng.choice(['INT', 'DOUBLE'])})"
            case 11:
                return f"({self.condition(d)})::INT"
            case 12:
                return f"{rng.choice(['length', 'strlen', 'ascii', 'len'])}({self.text(d)})"
            case 13:
                part = rng.choice(
                    ["year", "month", "day", "dayofweek", "quarter", "week", "isodow"]
                )
                return f"{part}({self.date(d)})"
            case 14:
                part = rng.choice(["year", "month", "day", "doy"])
                return self.pick(
                    lambda: f"EXTRACT({part} FROM {self.date(d)})",
                    lambda: f"date_diff('day', {self.date(d)}, {self.date(d)})",
                    lambda: f"({self.date(d)} - {self.date(d)})",
                )
            case 15:
                return f"IF({self.condition(d)}, {self.number(d)}, {self.number(d)})"
            case 16:
                return f"(CASE {self.number(d)} WHEN 1 THEN 10 WHEN {self.number(d)} THEN 20 END)"
            case _:
                return self.number(0)

    # -- texts and dates -----------------------------------------------------------------------

    def text(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            found = self.column("text")
            if found and rng.random() < 0.8:
                return found[0]
            return text(rng.choice(_TEXTS))
        d = depth - 1
        match rng.randrange(10):
            case 0:
                return f"{rng.choice(['lower', 'upper', 'trim', 'reverse'])}({self.text(d)})"
            case 1:
                return f"({self.text(d)} || {self.text(d)})"
            case 2:
                return (
                    f"(CASE WHEN {self.condition(d)} THEN {self.text(d)} ELSE {self.text(d)} END)"
                )
            case 3:
                return f"substring({self.text(d)}, {rng.choice(['1', '2', '0', '-1'])}, 1)"
            case 4:
                return f"COALESCE({self.text(d)}, {self.text(d)})"
            case 5:
                return f"{rng.choice(['left', 'right'])}({self.text(d)}, {rng.choice('012')})"
            case 6:
                found = self.column("number")
                whole = found and found[1].kind is not Kind.NUMBER
                return f"CAST({found[0]} AS VARCHAR)" if found and whole else self.text(d)
            case 7:
                return f"{rng.choice(['monthname', 'dayname'])}({self.date(d)})"
            case 8:
                return f"replace({self.text(d)}, 'a', 'bb')"
            case _:
                return self.text(0)

    def date(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            found = self.column("date")
            if found and rng.random() < 0.8:
                return found[0]
            return rng.choice(["DATE '2024-02-10'", "DATE '2025-01-31'", "'2024-03-01'::DATE"])
        d = depth - 1
        match rng.randrange(7):
            case 0:
                return f"({self.date(d)} {rng.choice('+-')} {rng.choice(['1', '30'])})"
            case 1:
                unit = rng.choice(["1 DAY", "2 MONTH", "1 YEAR"])
                return f"({self.date(d)} {rng.choice('+-')} INTERVAL {unit})::DATE"
            case 2:
                part = rng.choice(["month", "year", "week", "quarter"])
                return f"date_trunc('{part}', {self.date(d)})::DATE"
            case 3:
                return f"(CASE WHEN {self.condition(d)} THEN {self.date(d)} END)"
            case 4:
                return f"last_day({self.date(d)})"
            case 5:
                return f"COALESCE({self.date(d)}, DATE '2024-01-01')"
            case _:
                return self.date(0)


def literal(column: Column, code: int) -> str:
    """A declared value as SQL writes it."""
    return sql_literal(column.point(code))


def sql_literal(value: Any) -> str:
    """A value as SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text(value)
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return repr(value)


@dataclass(frozen=True)
class Made:
    """A statement with marks, and how its answer compares with DuckDB's."""

    sql: str
    picked: bool  # HAVING or LIMIT: equal only where DuckDB has all groups
    ordered: bool  # a total order was asked for
    groups: str  # a query that counts DuckDB's groups, before HAVING


class Statements:
    """Random statements over one table."""

    def __init__(self, rng: Random, made: Table) -> None:
        self.rng, self.table = rng, made

    def statement(self) -> Made:
        rng = self.rng
        head, source, alias = self.source()
        expressions = Expressions(rng, source)
        keys = [self.key(expressions) for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
        aggregates = [self.aggregate(expressions) for _ in range(rng.choice([1, 1, 2, 3]))]
        items: list[tuple[str, str]] = []
        for key in keys:
            if rng.random() < 0.85:
                items.append((key, self.alias(0.6)))
        items += [(a, self.alias(0.5)) for a in aggregates]
        if rng.random() < 0.25:
            items.append((self.after(aggregates, keys), self.alias(0.5)))
        if rng.random() < 0.1:
            items.append((rng.choice(["1", "'x'", "NULL", "2.5"]), self.alias(0.5)))
        if rng.random() < 0.3:
            rng.shuffle(items)
        where = f" WHERE {expressions.condition(rng.randint(0, 3))}" if rng.random() < 0.5 else ""
        if rng.random() < 0.08 and any(a for _, a in items):
            named = rng.choice([a for _, a in items if a])
            where = f" WHERE {self.written(named)} IS NOT NULL"
        group = self.group(keys, items)
        select = ", ".join(e + (f" AS {self.written(a)}" if a else "") for e, a in items)
        if rng.random() < 0.06:
            other = f" WHERE {expressions.condition(1)}"
            parts = [f"SELECT {select} FROM {alias}{w}{group}" for w in (where, other)]
            base = head + " UNION ALL ".join(parts)
            return Made(base, False, False, f"SELECT count(*) FROM ({base})")
        having = ""
        if rng.random() < 0.2:
            having = f" HAVING {self.having(aggregates, keys, items)}"
        base = f"{head}SELECT {select} FROM {alias}{where}{group}"
        order, total = self.order(items, keys, aggregates)
        limit = ""
        if total and rng.random() < 0.3:
            limit = rng.choice([" LIMIT 2", " LIMIT 3 OFFSET 1", " OFFSET 2", " LIMIT 0"])
        groups = f"SELECT count(*) FROM ({base})"
        return Made(base + having + order + limit, bool(having or limit), total, groups)

    # -- parts ---------------------------------------------------------------------------------

    def written(self, name: str) -> str:
        """A name with quotes, or without them and in any case where that means the same."""
        plain = name.isascii() and name.isalpha() and name.lower() not in _KEYWORDS
        if plain and self.rng.random() < 0.6:
            return self.rng.choice([name, name.upper(), name.lower()])
        return quoted(name)

    def alias(self, share: float) -> str:
        return self.rng.choice(_ALIASES) if self.rng.random() < share else ""

    def source(self) -> tuple[str, Source_, str]:
        """What stands before SELECT, the columns, and what stands in FROM."""
        rng, dataset = self.rng, self.table.dataset
        found = Source_()
        name = quoted(dataset.name)
        form = rng.randrange(10)
        if form < 5:
            alias = rng.choice(["", "", "q", "r s"])
            for column in dataset.columns:
                prefix = rng.choice(["", "", quoted(alias or dataset.name) + "."])
                found.add(prefix + self.written(column.name), column)
            return "", found, name + (f" AS {quoted(alias)}" if alias else "")
        inner = Source_()
        for column in dataset.columns:
            inner.add(self.written(column.name), column)
        where = ""
        if rng.random() < 0.6:
            where = f" WHERE {Expressions(rng, inner).condition(1)}"
        if form < 7:  # renamed by a list of column aliases
            new = rng.sample([n for n in _ALIASES if n.isascii()], len(dataset.columns))
            if len({n.lower() for n in new}) == len(new):
                for alias, column in zip(new, dataset.columns, strict=True):
                    found.add(self.written(alias), column)
                listed = ", ".join(quoted(n) for n in new)
                if rng.random() < 0.5:
                    return "", found, f"(SELECT * FROM {name}{where}) AS q({listed})"
                return f"WITH q({listed}) AS (SELECT * FROM {name}{where}) ", found, "q"
        for column in dataset.columns:
            found.add(quoted(column.name), column)
        listed = ", ".join(quoted(c.name) for c in dataset.columns)
        query = f"SELECT {rng.choice(['*', listed])} FROM {name}{where}"
        if rng.random() < 0.3:
            query = f"SELECT * FROM ({query}) AS inner_one"
        if rng.random() < 0.5:
            return "", found, f"({query})" + rng.choice(["", " AS q"])
        return f"WITH q AS ({query}) ", found, "q"

    def key(self, expressions: Expressions) -> str:
        rng = self.rng
        kind = rng.choice(["number", "text", "date", "boolean", "bins"])
        found = expressions.column(kind)
        if found and rng.random() < 0.6:
            return found[0]
        return expressions.of(rng.choice(["number", "text", "date", "boolean"]), rng.randint(1, 2))

    def aggregate(self, expressions: Expressions) -> str:
        rng = self.rng
        condition, number = expressions.condition, expressions.number
        only = f" FILTER (WHERE {condition(1)})" if rng.random() < 0.25 else ""
        depth = rng.randint(0, 2)
        match rng.randrange(13):
            case 0 | 1 | 2:
                return f"COUNT(*){only}"
            case 3:
                kind = rng.choice(["number", "text", "date", "boolean"])
                return f"COUNT({expressions.of(kind, depth)}){only}"
            case 4:
                return f"{_SUM}COUNT_IF({condition(depth)}){only}{_SUM_END}"
            case 5:
                return f"{_SUM}SUM(CASE WHEN {condition(depth)} THEN 1 ELSE 0 END){only}{_SUM_END}"
            case 6:
                return f"{_SUM}SUM({number(depth)}){only}{_SUM_END}"
            case 7:
                return f"AVG({number(depth)}){only}"
            case 8:
                return f"AVG({_MEAN}{condition(depth)}{_MEAN_END}){only}"
            case 9:
                return f"{_SUM}SUM({condition(depth)}){only}{_SUM_END}"
            case 10:
                name = rng.choice(
                    ["VARIANCE", "STDDEV", "VAR_POP", "STDDEV_POP", "VAR_SAMP", "STDDEV_SAMP"]
                )
                return f"{name}({number(0)}){only}"
            case 11:
                return f"AVG(({condition(depth)})::INT){only}"
            case _:
                return f"COUNT(CASE WHEN {condition(depth)} THEN {number(0)} END){only}"

    def after(self, aggregates: Sequence[str], keys: Sequence[str]) -> str:
        """Arithmetic on released values."""
        rng = self.rng
        one, other = rng.choice(aggregates), rng.choice(aggregates)
        return rng.choice(
            [
                f"{one} + 1", f"2 * {one} - {other}", f"{one} > {other}", f"-{one}",
                f"CASE WHEN {one} > 1 THEN 'many' ELSE 'few' END",
                f"100.0 * {one} / NULLIF(COUNT(*), 0)",
                f"{one} / {_BELOW}{other}{_BELOW_END}",
                f"COUNT(*) % {_BELOW}COUNT(*){_BELOW_END}",
                f"COALESCE({one}, -1)",
                f"CAST({one} AS DOUBLE)",
                *(f"COALESCE({key}, {key})" for key in keys),
                *(f"ROUND({a}, 1)" for a in aggregates if not _is_mean(a)),
            ]
        )  # fmt: skip

    def group(self, keys: Sequence[str], items: Sequence[tuple[str, str]]) -> str:
        rng = self.rng
        if not keys:
            return rng.choice(["", "", "", " GROUP BY ALL", " GROUP BY ()"])
        if rng.random() < 0.12 and all(any(k == e for e, _ in items) for k in keys):
            return " GROUP BY ALL"
        listed = []
        for key in keys:
            places = [i for i, (e, _) in enumerate(items) if e == key]
            named = [a for e, a in items if e == key and a]
            if places and rng.random() < 0.25:
                listed.append(str(places[0] + 1))
            elif named and rng.random() < 0.4:
                listed.append(self.written(named[0]))
            else:
                listed.append(key)
        inner = ", ".join(listed)
        match rng.randrange(9):
            case 0:
                return f" GROUP BY ROLLUP ({inner})"
            case 1:
                return f" GROUP BY CUBE ({inner})"
            case 2:
                sets = ["()", f"({listed[0]})", f"({inner})"] if len(listed) > 1 else ["()", inner]
                return f" GROUP BY GROUPING SETS ({', '.join(sets)})"
            case _:
                return f" GROUP BY {inner}"

    def having(
        self, aggregates: Sequence[str], keys: Sequence[str], items: Sequence[tuple[str, str]]
    ) -> str:
        rng = self.rng
        named = [a for e, a in items if a and e in aggregates]
        tests = [f"{rng.choice(aggregates)} IS NOT NULL", "COUNT(*) > 1", "COUNT(*) % 2 = 0"]
        tests += [f"{self.written(a)} > 1" for a in named if rng.random() < 0.5]
        tests += [f"{key} IS NOT NULL" for key in keys]
        test = rng.choice(tests)
        return rng.choice([test, f"NOT ({test})", f"({test}) OR COUNT(*) = 1"])

    def order(
        self, items: Sequence[tuple[str, str]], keys: Sequence[str], aggregates: Sequence[str]
    ) -> tuple[str, bool]:
        rng = self.rng
        if rng.random() < 0.5:
            return "", False
        if rng.random() < 0.2 and not any(_is_mean(e) for e, _ in items):
            return f" ORDER BY ALL{rng.choice(['', ' DESC', ' NULLS FIRST'])}", True
        listed = []
        for _ in range(rng.randint(0, 2)):
            whole = [a for a in aggregates if not _is_mean(a)]  # means tie but for a last digit
            choices = [*whole, "COUNT(*)", *keys]
            choices += [self.written(a) for e, a in items if a and not _is_mean(e)]
            choices += [f"{key} IS NULL" for key in keys]
            text_ = rng.choice(choices)
            listed.append(text_ + rng.choice(["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]))
        listed += [str(i + 1) for i, (e, _) in enumerate(items) if not _is_mean(e)]
        listed += [str(i + 1) for i, (e, _) in enumerate(items) if _is_mean(e)]
        return " ORDER BY " + ", ".join(listed), True


def _is_mean(sql: str) -> bool:
    return any(word in sql for word in ("AVG", "VAR", "STD", " / "))


_KEYWORDS = {"select", "order", "group", "null", "count"}
