"""Analysts who choose each question after the last answer, on a table and on its neighbour.

A session on a table is recorded: its noise comes from a seeded source, and what left the wall is
kept. Then the same analyst asks a neighbouring table, where the noise is whatever makes the same
values come out again (record and replay, arXiv:2602.17454).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.accounting.events import Event, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.curator import noise
from dpsql.curator.curator import Curator
from dpsql.errors import Error
from dpsql.query.linear import Workload
from dpsql.query.strategy import Mixed, Residuals
from dpsql.release import Release
from dpsql.session import Session
from tests.privacy.trial import NAME, USER, Row, charges, rows, table

Question = tuple[str, dict[str, Any]]
Outcome = Release | Error
Analyst = Callable[[], Generator[Question, Outcome, None]]


class Tape:
    """A source of noise that records what is released, or has the same released again."""

    def __init__(self, played: Tape | None = None) -> None:
        self._played = played
        self._rng = np.random.default_rng(20261)
        self.workloads: list[Any] = []
        self.true: list[list[int]] = []
        self.released: list[list[int]] = []

    def insert(self, patch: pytest.MonkeyPatch) -> None:
        """Have the wall read what is true from here on, and draw its noise from here."""
        matvec, noisy = Workload.matvec, Curator._noisy
        inner: list[Workload] = []  # whose answers are about to be mixed

        def told(measured: Any, values: list[Any]) -> None:
            self.workloads[-1].append(plain(measured))
            self.true[-1] += [int(v) for block in values for v in block.ravel()]

        def seen(workload: Workload, *args: Any) -> Any:
            found = matvec(workload, *args)
            if not (inner and inner[-1] is workload):
                told(workload, found)
            return found

        def seen_through(kind: type[Mixed | Residuals]) -> Callable[..., Any]:
            strategy = kind.matvec

            def seen_mixed(part: Any, *args: Any) -> Any:
                inner.append(part.workload)
                found = strategy(part, *args)
                inner.pop()
                told(part, [found])
                return found

            return seen_mixed

        def out(curator: Curator, *args: Any) -> Any:
            self.workloads.append([])
            self.true.append([])
            found = noisy(curator, *args)
            self.released.append([int(v) for block in found for v in block.ravel()])
            return found

        def drawn(law: Any, size: int) -> np.ndarray:
            true = np.array(self.true[-1], np.int64)
            assert true.size == size
            if self._played is not None:
                return np.array(self._played.released[len(self.true) - 1], np.int64) - true
            width = int(law) + 1 if law < 1 << 20 else 1 << 10
            return self._rng.integers(-width, width, size, endpoint=True)

        patch.setattr(Workload, "matvec", seen)
        for kind in (Mixed, Residuals):
            patch.setattr(kind, "matvec", seen_through(kind))
        patch.setattr(Curator, "_noisy", out)
        for name in ("gaussian", "laplace"):
            patch.setattr(noise, name, drawn)


def plain(value: Any) -> Any:
    """A workload as plain values, arrays to the last byte."""
    match value:
        case np.ndarray():
            return (str(value.dtype), value.shape, value.tobytes())
        case tuple() | list():
            return tuple(plain(item) for item in value)
        case _ if dataclasses.is_dataclass(value):
            fields = [(f.name, plain(getattr(value, f.name))) for f in dataclasses.fields(value)]
            return (type(value).__name__, *fields)
        case _:
            return repr(value)


def asked(path: Path, analyst: Analyst, tape: Tape, **terms: Any) -> tuple[list[Any], list[Any]]:
    """All that an analyst sees of a table, in order; and what is in the ledger afterwards."""
    told: list[Any] = []
    ledger_path = path.with_suffix(".ledger")
    with Ledger.open(ledger_path) as ledger:
        ledger.grant(USER, dataset=NAME, **{"epsilon": 8.0, **terms})
    key = ledger_path.with_name(ledger_path.name + ".key")
    key.write_bytes(bytes(range(32)))  # units are kept alike on both
    key.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch, Session(path, user=USER, ledger=ledger_path) as s:
        tape.insert(patch)
        questions = analyst()
        outcome: Outcome | None = None
        while True:
            try:
                sql, settings = questions.send(outcome) if outcome else next(questions)
            except StopIteration:
                break
            told.append((sql, settings, attempt(s.explain, sql, settings)[1]))
            outcome, shown = attempt(s.answer, sql, settings)
            told.append((shown, s.last_charge, dataclasses.asdict(s.settings)))
        told.append(s.budget().to_dict())
        return told, charges(s.ledger)


def attempt(ask: Callable[..., Any], sql: str, settings: dict[str, Any]) -> tuple[Any, Any]:
    """The outcome of a question, and all of it as plain values."""
    try:
        found = ask(sql, **settings)
        return found, found.to_dict()
    except Error as error:
        return error, (type(error).__name__, error.exit_code, str(error), error.to_dict())


# -- analysts ------------------------------------------------------------------------------------


def drilling() -> Generator[Question, Outcome, None]:
    """Goes where most people seem to be, deeper and deeper, until the purse is empty."""
    found = yield "SELECT race, COUNT(*) FROM people GROUP BY race", {"rho": 0.05}
    keys = ("race", "rich", "age // 10", "hours // 20", "age", "hours")
    where: list[str] = []
    for step in range(40):
        if not isinstance(found, Release):
            break
        best = max(found.rows, key=lambda row: (row[-1], str(row)))
        key, value = keys[step % len(keys)], best[0]
        shown = "NULL" if value is None else repr(value)
        where = [*where[-3:], f"{key} IS NOT DISTINCT FROM {shown}"]
        following = keys[(step + 1) % len(keys)]
        rho = 0.1 if best[-1] > 0 else 0.3
        found = yield (
            f"SELECT {following} AS k, COUNT(*) AS n FROM people WHERE {' AND '.join(where)} "
            "GROUP BY k",
            {"rho": rho, "backend": "laplace" if best[-1] % 2 else "gaussian"},
        )


def bisecting() -> Generator[Question, Outcome, None]:
    """Looks for the median age by noisy counts, then for the rows around it."""
    low, high = 17, 90
    while low < high:
        middle = (low + high) // 2
        found = yield (
            f"SELECT COUNT(*) FILTER (WHERE age <= {middle}), COUNT(*) FROM people",
            {"epsilon": 0.4, "clamp": low % 2 == 0, "confidence": 0.9},
        )
        assert isinstance(found, Release)
        below, whole = found.rows[0]
        low, high = (low, middle) if 2 * below >= whole else (middle + 1, high)
    yield (
        f"SELECT race, AVG(rich), SUM(hours), STDDEV(age) FROM people WHERE age = {low} "
        "GROUP BY ROLLUP (race) HAVING COUNT(*) > 2 ORDER BY COUNT(*) DESC LIMIT 3",
        {"rho": 0.5, "intervals": True},
    )


def probing() -> Generator[Question, Outcome, None]:
    """Tries whatever might tell: errors, empty groups, settings, plans, what is left."""
    found = yield "SHOW BUDGET", {}
    for sql in (
        "SELECT COUNT(*) FROM people WHERE race = 'Other' AND age = 90",
        "SELECT AVG(hours) FROM people WHERE age = 89",
        "SELECT 1 / COUNT(*), COUNT(*)::TINYINT, SQRT(COUNT(*)), LN(COUNT(rich)) FROM people",
        "SELECT COUNT(*) FROM people WHERE 1 // (age - 40) > 0",
        "SELECT COUNT(*) FROM people WHERE CAST(race AS INT) = 1",
        "SELECT age FROM people",
        "SELECT age, rich, race, COUNT(*) FROM people GROUP BY CUBE (age, rich, race)",
        "SELECT hours, AVG(age) FROM people WHERE rich GROUP BY ALL ORDER BY 2 DESC LIMIT 5",
        "SELECT COUNT(*) AS n, n * 2, CASE WHEN n > 30 THEN 'many' END FROM people",
        "SELECT SUM(age) FROM people UNION ALL SELECT COUNT(*) FROM people WHERE rich IS NULL",
        "SELECT VARIANCE(hours), AVG(CASE WHEN rich THEN hours END) FROM people",
        "EXPLAIN SELECT race, COUNT(*) FROM people GROUP BY race",
        "DESCRIBE people",
        "SELECT * FROM people LIMIT 0",
        "SET rho = 0.01",
        "SELECT race, COUNT(*) FROM people GROUP BY race HAVING COUNT(*) < 8",
        "SET epsilon = 1000",
        "SELECT COUNT(*) FROM people",
        "RESET ALL",
        "SHOW BUDGET",
    ):
        sure = isinstance(found, Release) and found.rows and isinstance(found.rows[0][0], int)
        free = sql.split()[0] in ("EXPLAIN", "DESCRIBE", "SET", "RESET", "SHOW")
        last = found.rows[0][0] if sure else 0
        found = yield sql, {} if free else {"confidence": 0.8 + (last % 10) / 100}


LISTED = [
    "SELECT COUNT(*) FROM people WHERE age > 30 AND race = 'White'",
    "SELECT COUNT(*) FROM people WHERE age = 90 AND rich AND race = 'White' AND hours = 99",
    "SELECT age // 10, rich, COUNT(*), COUNT(rich) FROM people GROUP BY ALL",
    "SELECT race, rich, COUNT(*) FROM people GROUP BY CUBE(race, rich)",
    "SELECT race, AVG(rich::INT), AVG(age), COUNT(*) FROM people GROUP BY ROLLUP(race)",
    "SELECT race, rich, hours // 20, COUNT(*) FROM people GROUP BY CUBE(race, rich, hours // 20)",
    "SELECT race, hours // 20, age // 10, AVG(rich::INT), COUNT(*) FROM people WHERE age < 60 "
    "GROUP BY GROUPING SETS ((race, 2), (race, 3), (2, 3))",
    "SELECT SUM(hours), SUM(age), AVG(hours), SUM(age - 50) FROM people WHERE race <> 'Asian'",
    "SELECT STDDEV(age), VARIANCE(hours), VAR_POP(age * 2) FROM people",
    "SELECT race, COUNT(*) * 100.0 / COUNT(*) FILTER (WHERE age > 20) FROM people GROUP BY race",
    "SELECT COUNT(*) - COUNT(rich), ABS(COUNT(*) - 20), SQRT(COUNT(*)) FROM people",
    "SELECT COUNT(*) FROM people WHERE age < 40 UNION ALL SELECT SUM(age) FROM people",
    "SELECT COUNT(*) >= 20, CASE WHEN COUNT(*) > 10 THEN 'many' ELSE 'few' END FROM people",
    "SELECT COUNT(*) FROM people WHERE age = 95",
    "SELECT MIN(age) FROM people",
    "SELECT COUNT(*) FROM people WHERE race = 'X'",
    "SELECT column_name FROM information_schema.columns",
    "SELECT COUNT(*), SUM(1), COUNT(*) FILTER (WHERE TRUE) FROM people",
]


def listing() -> Generator[Question, Outcome, None]:
    """Asks a list, each question in three ways, whatever comes back."""
    for sql in LISTED:
        yield sql, {}
        yield sql, {"rho": 0.01, "clamp": True}
        yield sql, {"epsilon": 0.05, "backend": "laplace", "intervals": True, "confidence": 0.9}


ANALYSTS: dict[str, Analyst] = {
    "drilling": drilling,
    "bisecting": bisecting,
    "probing": probing,
    "listing": listing,
}

# -- neighbours ----------------------------------------------------------------------------------

TABLE = rows(40)
NEW: Row = ("new", "White", 90, True, 99)  # the largest sums and squares
OTHER: Row = ("new", "Asian", 17, None, 0)
OUTSIDE: Row = ("new", "Green", 90, True, 99)
MANY: list[Row] = [NEW, NEW, OTHER, NEW, ("new", "Black", 50, False, 50), OUTSIDE, OTHER, NEW]

ROW: dict[str, str] = {}
REPLACE = {"neighbours": "replace-one"}
UNIT = {"unit": '{column = "pid", max_rows = 3}'}

PAIRS: dict[str, tuple[list[Row], list[Row], dict[str, str]]] = {
    "one row more": (TABLE, [*TABLE, NEW], ROW),
    "one row less": (TABLE[1:], TABLE, ROW),
    "a first row": ([], [NEW], ROW),
    "a row outside the domain": (TABLE, [*TABLE, OUTSIDE], ROW),
    "a row replaced": ([*TABLE, NEW], [*TABLE, OTHER], REPLACE),
    "a row replaced by one outside": ([*TABLE, NEW], [*TABLE, OUTSIDE], REPLACE),
    "a unit of one row": (TABLE, [*TABLE, NEW], UNIT),
    "a unit of three equal rows": (TABLE, [NEW, *TABLE, NEW, NEW], UNIT),
    "a unit of eight rows": (TABLE, [*MANY[:4], *TABLE, *MANY[4:]], UNIT),
    "a unit among others of its size": (
        [*TABLE, *((f"n{i % 3}", *row[1:]) for i, row in enumerate(TABLE))],
        [*TABLE, *MANY, *((f"n{i % 3}", *row[1:]) for i, row in enumerate(TABLE))],
        UNIT,
    ),
}


def both(folder: Path, pair: str, analyst: Analyst, **terms: Any) -> tuple[list[Any], list[Tape]]:
    """What is seen of a table, and of its neighbour when the same is released."""
    first, second, declared = PAIRS[pair]
    tapes = [Tape()]
    tapes.append(Tape(tapes[0]))
    found = [
        asked(table(folder / str(side), listed, **declared), analyst, tape, **terms)
        for side, (listed, tape) in enumerate(zip((first, second), tapes, strict=True))
    ]
    return found, tapes


def within(event: Event, one: list[int], other: list[int]) -> bool:
    """Whether answers are no farther apart than was charged for; in Python's integers."""
    moved = [abs(a - b) for a, b in zip(one, other, strict=True)]
    match event:
        case Gaussian(sensitivity_squared=squared):
            return sum(d * d for d in moved) <= squared
        case Laplace(sensitivity=absolute, largest=largest):
            return sum(moved) <= absolute and max(moved) <= largest
