"""Random expressions over the columns of one FROM clause, of every kind that is answered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dpsql.schema import Column, Kind
from tests.query.tables import TEXTS, Source_, literal, text


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
                return f"({subject} ^@ {text(self.rng.choice(TEXTS))})"
            case 4:
                pattern = text(self.rng.choice(["a|b", "^[0-9]+$", ".", "b.*"]))
                op = self.rng.choice(["SIMILAR TO", "NOT SIMILAR TO", "~", "!~"])
                return f"({subject} {op} {pattern})"
            case 5:
                name = self.rng.choice(["contains", "starts_with", "ends_with", "prefix", "suffix"])
                return f"{name}({subject}, {text(self.rng.choice(TEXTS))})"
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
        match rng.randrange(20):
            case 0 | 1 | 2:
                return f"({self.number(d)} {rng.choice('+-*')} {self.number(d)})"
            case 18:
                whole = [f"CAST({self.number(d)} AS INTEGER)" for _ in range(2)]
                return rng.choice(
                    [
                        f"({whole[0]} & {whole[1]})",
                        f"({whole[0]} | {whole[1]})",
                        f"(~{whole[0]})",
                        f"xor({whole[0]}, {whole[1]})",
                        f"gcd({whole[0]}, {whole[1]})",
                        f"({whole[0]} ^ 2)",
                        f"bit_count({whole[0]})",
                        f"power({whole[0]}, 2)",
                    ]
                )
            case 19:
                return rng.choice(
                    [
                        f"ln(GREATEST({self.number(d)}, 1))",
                        f"sqrt(abs({self.number(d)}))",
                        f"position({text(rng.choice(TEXTS[:6]))} IN {self.text(d)})",
                        f"date_part({text(rng.choice(['year', 'dow', 'week']))}, {self.date(d)})",
                        f"datesub('month', {self.date(d)}, {self.date(d)})",
                        f"mod({self.number(d)}, 3)",
                        f"cbrt({self.number(d)})",
                    ]
                )
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
            return text(rng.choice(TEXTS))
        d = depth - 1
        match rng.randrange(11):
            case 9:
                return rng.choice(
                    [
                        f"concat({self.text(d)}, '-', {self.text(d)})",
                        f"concat_ws('/', {self.text(d)}, {self.text(d)})",
                        f"split_part({self.text(d)}, 'x', 1)",
                        f"translate({self.text(d)}, 'ab', 'ba')",
                        f"strftime({self.date(d)}, '%Y-%m')",
                        f"strip_accents({self.text(d)})",
                        f"regexp_extract({self.text(d)}, '[a-z]')",
                        f"ltrim({self.text(d)}, 'a')",
                    ]
                )
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
        match rng.randrange(8):
            case 6:
                return f"({self.date(d)} + INTERVAL ({rng.choice(['1', '-2', '0'])}) WEEK)::DATE"
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
