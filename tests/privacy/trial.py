"""A small private table in a file of its own, sessions over it, and spies on what they do.

The spies stand outside of the code that they watch: around DuckDB's connections behind the wall,
around SQLite's, around the ledger's charge and around the samplers.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.curator import noise
from dpsql.curator.engines import connection as private
from dpsql.session import Session
from tests.rows import fill

USER, NAME = "alice", "people"

Row = tuple[str, str, int, bool | None, int]

FIELDS = "pid VARCHAR, race VARCHAR, age INTEGER, rich BOOLEAN, hours INTEGER"

SCHEMA = """
dataset = "people"
neighbours = "{neighbours}"
unit = {unit}

[source]
{source}

[columns]
race = {{type = "category", values = ["Black", "White", "Asian", "Other"]}}
age = {{type = "integer", min = 17, max = 90}}
rich = {{type = "boolean", nullable = true}}
hours = {{type = "integer", min = 0, max = 99}}
"""


def rows(count: int) -> list[Row]:
    """Made rows; nobody is of race Other, and nobody is above 76."""
    return [
        (
            f"n{i % 17}",
            ("Black", "White", "Asian")[i * i % 3],
            17 + i * 7 % 60,
            (True, False, None)[i * 5 % 3],
            i * 11 % 100,
        )
        for i in range(count)
    ]


def table(
    folder: Path,
    listed: Iterable[Sequence[object]],
    *,
    neighbours: str = "add-remove",
    unit: str = '"row"',
    source: str = 'table = "people"',
    then: Sequence[str] = (),
) -> Path:
    """A database of these rows with its schema beside it; `then` runs in it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE TABLE people ({FIELDS})")
        fill(made, "people", listed)
        for statement in then:
            made.execute(statement)
    declared = SCHEMA.format(neighbours=neighbours, unit=unit, source=source)
    path.with_suffix(".toml").write_text(declared)
    return path


def purse(epsilon: float = 1e6, delta: float = 1e-6, name: str = NAME) -> Ledger:
    """A ledger in memory with a grant."""
    ledger = Ledger.memory()
    ledger.grant(USER, dataset=name, epsilon=epsilon, delta=delta)
    return ledger


def charges(ledger: Ledger) -> list[Any]:
    """What the log says of charges, but for the time."""
    return [
        (e.seq, e.user, e.dataset, e.statement, e.event, e.price, e.before, e.after)
        for e in ledger.log()
        if e.kind == "charge"
    ]


def spent(path: Path) -> int:
    """What all charges took together, in pico of rho, that a stranger finds in a ledger's file."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as found:
        (total,) = found.execute(
            "SELECT coalesce(max(after_rho), 0) FROM entry WHERE kind = 'charge'"
        ).fetchone()
    found.close()
    return int(total)


# -- spies -------------------------------------------------------------------------------------


@dataclass
class Watch:
    """What happened, in order: (what, more) with `what` one of charge, sql, rows, noise.

    `fail` is called with the text of each statement on the private connection before it runs.
    """

    happened: list[tuple[str, Any]] = field(default_factory=list)
    opened: int = 0
    fail: Callable[[str], None] = lambda sql: None

    def kinds(self, *wanted: str) -> list[str]:
        """What happened, runs of the same cut short."""
        found: list[str] = []
        for kind, _ in self.happened:
            if kind in wanted and found[-1:] != [kind]:
                found.append(kind)
        return found

    def texts(self) -> list[str]:
        """Every statement that the private connection was given."""
        return [text for kind, text in self.happened if kind == "sql"]


class _Connection:
    """A DuckDB connection that notes what it is given, and who fetches arrays from it."""

    def __init__(self, inner: duckdb.DuckDBPyConnection, watch: Watch) -> None:
        self._inner, self._watch = inner, watch

    def execute(self, sql: str, *more: Any) -> _Connection:
        self._watch.happened.append(("sql", sql))
        self._watch.fail(sql)
        self._inner.execute(sql, *more)
        return self

    def fetchnumpy(self) -> Any:
        self._watch.happened.append(("rows", None))
        return self._inner.fetchnumpy()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _DuckDB:
    """The module, with `connect` watched."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def connect(self, *args: Any, **named: Any) -> _Connection:
        self._watch.opened += 1
        return _Connection(duckdb.connect(*args, **named), self._watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(duckdb, name)


def watch(patch: pytest.MonkeyPatch) -> Watch:
    """Watch everything behind the wall from now on."""
    found = Watch()
    patch.setattr(private, "duckdb", _DuckDB(found))
    laws = ("gaussian", "laplace", "exponential")
    charge, draw = Ledger.charge, {name: getattr(noise, name) for name in laws}

    def charged(ledger: Ledger, *args: Any, **named: Any) -> Any:
        receipt = charge(ledger, *args, **named)
        found.happened.append(("charge", receipt.charged))
        return receipt

    def drawn(name: str) -> Callable[..., Any]:
        def sampler(parameter: Any, size: int, **named: Any) -> Any:
            found.happened.append(("noise", size))
            return draw[name](parameter, size, **named)

        return sampler

    patch.setattr(Ledger, "charge", charged)
    for name in draw:
        patch.setattr(noise, name, drawn(name))
    return found


def traced(patch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that SQLite runs from now on."""
    found: list[str] = []
    connect = sqlite3.connect

    def watched(*args: Any, **named: Any) -> sqlite3.Connection:
        made = connect(*args, **named)
        made.set_trace_callback(found.append)
        return made

    patch.setattr(sqlite3, "connect", watched)
    return found


def seen(session: Session, sql: str, **settings: Any) -> str:
    """All that a statement shows: its release or error, and what was charged, as text."""
    shown: Mapping[str, Any]
    try:
        shown = session.answer(sql, **settings).to_dict()
    except Exception as error:
        fields = getattr(error, "to_dict", dict)()
        shown = {"type": type(error).__name__, "text": str(error), **fields}
    cost = session.last_charge
    return json.dumps([shown, cost and cost.to_dict()], sort_keys=True)


def run(program: str, *args: str | Path) -> list[Any]:
    """The JSON lines that a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *map(str, args)],
        capture_output=True, text=True, timeout=60, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]
