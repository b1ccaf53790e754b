"""Analysts who choose each question after the last answer, on a table and on its neighbour.

A session on a table is recorded: its noise comes from a seeded source, and what left the wall is
kept. Then the same analyst asks a neighbouring table, where the noise is whatever makes the same
values come out again (record and replay, arXiv:2602.17454). All that is then seen must be equal:
questions, workloads, plans, releases, notes, errors, charges. And the noise that had to be moved is
what the neighbour could see, so it must lie within the sensitivity that was charged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.accounting.events import Event, Gaussian, Laplace, from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.curator import noise
from dpsql.curator.curator import Curator
from dpsql.errors import Error
from dpsql.query.linear import Workload
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

        def seen(workload: Workload, *args: Any) -> Any:
            found = matvec(workload, *args)
            self.workloads.append(plain(workload))
            self.true.append([int(v) for block in found for v in block.ravel()])
            return found

        def out(curator: Curator, *args: Any) -> Any:
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


ANALYSTS: dict[str, Analyst] = {
    "drilling": drilling,
    "bisecting": bisecting,
    "probing": probing,
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


@pytest.fixture(scope="module", params=[(p, a) for p in PAIRS for a in ANALYSTS], ids=str)
def replayed(request, tmp_path_factory):
    """A pair of neighbours, an analyst, what was seen of both tables, and the tapes."""
    pair, analyst = request.param
    return pair, analyst, *both(tmp_path_factory.mktemp("pair"), pair, ANALYSTS[analyst])


def test_neighbours_are_told_apart_by_released_values_alone(replayed):
    """Law 1, T15, A35: the same values lead to the same questions, plans, notes and charges."""
    _, analyst, (one, other), tapes = replayed
    for seen, again in zip(one[0], other[0], strict=True):
        assert seen == again
    assert one[1] == other[1]
    assert len(tapes[0].true) == len(one[1]) >= 5
    assert tapes[0].workloads == tapes[1].workloads
    assert tapes[0].released == tapes[1].released
    assert ("BudgetExceeded" in str(one[0])) == (analyst != "bisecting")


def test_no_true_answer_moves_by_more_than_was_charged_for(replayed):
    """Law 3, whatever the analyst's path."""
    pair, _, (one, _), tapes = replayed
    events = [from_dict(charge[4]) for charge in one[1]]
    for event, true, near in zip(events, tapes[0].true, tapes[1].true, strict=True):
        assert within(event, true, near)
    moved = sum(a != b for a, b in zip(tapes[0].true, tapes[1].true, strict=True))
    assert (moved > 0) == (pair != "a row outside the domain")


def test_a_pure_purse_is_told_apart_by_released_values_alone(tmp_path):
    (one, other), tapes = both(tmp_path, "one row more", bisecting, epsilon=4.0, delta=0.0)
    assert one == other
    for charge, true, near in zip(one[1], tapes[0].true, tapes[1].true, strict=True):
        assert isinstance(event := from_dict(charge[4]), Laplace)
        assert within(event, true, near)


REACHING = ("one row more", "a row replaced by one outside", "a unit of three equal rows")


@pytest.mark.parametrize("pair", REACHING)
def test_the_sensitivity_that_is_charged_is_reached(pair, tmp_path):
    """These neighbours are as far apart as can be: any smaller sensitivity would be seen."""

    def plainly() -> Generator[Question, Outcome, None]:
        yield "SELECT COUNT(*) FROM people", {"rho": 0.01}
        yield "SELECT SUM(age), SUM(hours) FROM people", {"rho": 0.01}
        yield "SELECT race, COUNT(*) FROM people GROUP BY CUBE (race)", {"rho": 0.01}
        if "outside" not in pair:  # where a row has to go to the other end of both means
            yield "SELECT AVG(hours), AVG(rich), COUNT(*) FROM people", {"rho": 0.01}

    (one, _), tapes = both(tmp_path, pair, plainly)
    assert len(one[1]) >= 3
    for charge, true, near in zip(one[1], *(tape.true for tape in tapes), strict=True):
        moved = sum((a - b) ** 2 for a, b in zip(true, near, strict=True))
        assert charge[4]["sensitivity_squared"] == moved
