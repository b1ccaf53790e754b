"""Random schemas, tables and statements of the SQL that is answered, for tests against DuckDB.

Every piece of SQL is made twice from one text: as an analyst writes it, and as DuckDB is asked
for the same value. They differ in marks alone: a sum of nothing is 0 here and NULL there, and the
mean of a condition is ours. The expected value never passes through dpsql.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.query.expressions import Expressions
from tests.query.tables import ALIASES, Source_, Table, quoted

_SUM, _SUM_END, _MEAN, _MEAN_END, _BELOW, _BELOW_END = (
    "\x01",
    "\x02",
    "\x03",
    "\x04",
    "\x05",
    "\x06",
)


def asked(sql: str) -> str:
    """The statement as an analyst writes it."""
    return sql.translate({ord(mark): None for mark in map(chr, range(1, 7))})


def expected(sql: str) -> str:
    """The statement whose answer by DuckDB is the value that we must give."""
    sql = sql.replace(_SUM, "COALESCE(").replace(_SUM_END, ", 0)")
    sql = sql.replace(_BELOW, "NULLIF(").replace(_BELOW_END, ", 0)")
    return sql.replace(_MEAN, "(").replace(_MEAN_END, ")::INTEGER")


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
        if rng.random() < 0.1 and any(a for _, a in items):
            named = self.written(rng.choice([a for _, a in items if a]))
            items.append((f"({named} IS NULL)", self.alias(0.3)))
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
        return self.rng.choice(ALIASES) if self.rng.random() < share else ""

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
            new = rng.sample([n for n in ALIASES if n.isascii()], len(dataset.columns))
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
