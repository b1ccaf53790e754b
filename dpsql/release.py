"""What may be shown: released values with their intervals, price, and what is left."""

from __future__ import annotations

import datetime
import decimal
import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpsql.errors import UsageError

Value: TypeAlias = (
    "bool | int | float | decimal.Decimal | str | datetime.date | datetime.datetime"
    " | datetime.time | datetime.timedelta | None"
)
Row: TypeAlias = "tuple[Value, ...]"

PURSE = (  # the columns of SHOW BUDGET
    *("dataset", "granted", "spent", "left", "delta", "rho_granted", "rho_left", "rho_spent"),
    *("default_queries_left", "purse"),
)
EACH = ("epsilon_each", "rho_each")  # what an update of a synopsis costs, in lists of ours
SYNOPSES = (  # those of SHOW SYNOPSES
    *("dataset", "name", "columns", "tables", "method", "updates_left", *EACH),
    *("bought_by", "at", "asked_by", "current"),
)
DEFAULT_SHARE = 100  # a statement without a price costs the grant divided by this
STRATEGIES = 6  # by formula, that are told of a candidate


class Shown:
    """What print shows, and IPython asks for when a value stands at the end of a cell.

    A surface draws it, above this room: the package, which knows where all names live, finds it
    once somebody looks.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        drawn: str = importlib.import_module("dpsql").html(self)
        return drawn

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def __str__(self) -> str:
        words: str = importlib.import_module("dpsql").text(self)
        return words


@dataclass(frozen=True, slots=True)
class Cost:
    """A privacy cost: `rho` in zCDP, and the `epsilon` that it gives at `delta`.

    A pure cost (delta = 0) has its epsilon as a sum of pure epsilons; `rho` is then a bound on
    the same release in zCDP.
    """

    rho: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.rho >= 0 and self.epsilon >= 0 and 0 <= self.delta < 1):
            raise ValueError(f"not a cost: {self!r}")

    def __str__(self) -> str:
        return f"ε {figure(self.epsilon)} (ρ {figure(self.rho)})"

    def to_dict(self) -> dict[str, float]:
        return {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_dict(cls, fields: Mapping[str, float]) -> Cost:
        return cls(fields["rho"], fields["epsilon"], fields["delta"])


@dataclass(frozen=True, slots=True)
class Budget(Shown):
    """A purse: what was granted, spent and left, each as a Cost at the grant's delta."""

    granted: Cost
    spent: Cost
    left: Cost
    user: str = ""
    dataset: str = ""

    @property
    def default_queries_left(self) -> int:
        """How many statements at the default price, 1 % of the grant, can still be paid."""
        granted, left = self.granted, self.left
        whole, rest = granted.rho, left.rho
        if not granted.delta:
            whole, rest = granted.epsilon, left.epsilon
        return math.floor(rest / whole * DEFAULT_SHARE + 1e-9) if whole else 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "user": self.user,
            "dataset": self.dataset,
            "granted": self.granted.to_dict(),
            "spent": self.spent.to_dict(),
            "left": self.left.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Budget:
        return cls(
            Cost.from_dict(fields["granted"]),
            Cost.from_dict(fields["spent"]),
            Cost.from_dict(fields["left"]),
            fields["user"],
            fields["dataset"],
        )


@dataclass(frozen=True, slots=True)
class Release(Shown):
    """The answer to one statement.

    `columns` and `types` (DuckDB's names of types) have one entry a column; `rows` holds the
    values; `stderr`, `low` and `high` have the shape of `rows`, with None where a cell is a group
    key or has no error. Intervals hold at level `confidence`. `price` is what the statement costs
    alone, `charged` what it took from the purse; both are None for a free statement. `noisy` says
    which columns hold noisy values, and `intervals` that their ends were asked for as columns.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[Row, ...]
    stderr: tuple[tuple[float | None, ...], ...]
    low: tuple[tuple[float | None, ...], ...]
    high: tuple[tuple[float | None, ...], ...]
    confidence: float
    backend: str
    price: Cost | None
    charged: Cost | None
    left: Budget | None
    reused: bool = False
    notes: tuple[str, ...] = ()
    dataset: str = ""
    noisy: tuple[bool, ...] = ()
    intervals: bool = False

    def __post_init__(self) -> None:
        width = len(self.columns)
        if len(self.noisy) not in (0, width):
            raise ValueError("a release says of each column whether it is noisy, or of none")
        if len(self.types) != width or not {*map(len, self.rows)} <= {width}:
            raise ValueError("every row of a release has one value a column")
        for grid in (self.stderr, self.low, self.high):
            if len(grid) != len(self.rows) or not {*map(len, grid)} <= {width}:
                raise ValueError("errors and intervals have the shape of the rows")

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold; `from_dict` reads them back."""
        return {
            "dataset": self.dataset,
            "columns": list(self.columns),
            "types": list(self.types),
            "rows": [[_plain(value) for value in row] for row in self.rows],
            "stderr": [[_plain(value) for value in row] for row in self.stderr],
            "low": [[_plain(value) for value in row] for row in self.low],
            "high": [[_plain(value) for value in row] for row in self.high],
            "confidence": self.confidence,
            "backend": self.backend,
            "price": self.price and self.price.to_dict(),
            "charged": self.charged and self.charged.to_dict(),
            "left": self.left and self.left.to_dict(),
            "reused": self.reused,
            "notes": list(self.notes),
            "noisy": list(self.noisy),
            "intervals": self.intervals,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Release:
        """The release that `to_dict` wrote. Raises UsageError for anything else."""
        try:
            return cls._read(fields)
        except KeyError as missing:
            raise UsageError(f"this is no release: it has no {missing}") from None
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise UsageError(f"this is no release: {error}") from None

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> Release:
        types = tuple(fields["types"])
        return cls(
            columns=tuple(fields["columns"]),
            types=types,
            rows=tuple(
                tuple(_value(item, kind) for item, kind in zip(row, types, strict=True))
                for row in fields["rows"]
            ),
            stderr=_floats(fields["stderr"]),
            low=_floats(fields["low"]),
            high=_floats(fields["high"]),
            confidence=fields["confidence"],
            backend=fields["backend"],
            price=Cost.from_dict(fields["price"]) if fields["price"] else None,
            charged=Cost.from_dict(fields["charged"]) if fields["charged"] else None,
            left=Budget.from_dict(fields["left"]) if fields["left"] else None,
            reused=fields["reused"],
            notes=tuple(fields["notes"]),
            dataset=fields["dataset"],
            noisy=tuple(fields.get("noisy", ())),
            intervals=fields.get("intervals", False),
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to answer a plan: its price, and the root of the mean squared error.

    The error of a linear query is in units of the most that one row adds to it: rows, for counts.
    It is infinite for a guess that nothing verified.
    `charged` is what the purse would pay, where there is a purse. `ratio` is how many times the
    error that was planned for is a bound from below on that of all strategies, where it is known.
    `strategies` are those by formula that were compared, by name with the error of each.
    """

    backend: str
    price: Cost
    rmse: float
    charged: Cost | None = None
    ratio: float | None = None
    strategies: tuple[tuple[str, float], ...] = ()

    @property
    def compared(self) -> str:
        """The strategies that err least, in words."""
        more = len(self.strategies) - STRATEGIES
        told = [f"{name}: error {figure(error)}" for name, error in self.strategies[:STRATEGIES]]
        return "; ".join([*told, *([f"{more} more"] if more > 0 else [])])

    def to_dict(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "price": self.price.to_dict(),
            "charged": self.charged and self.charged.to_dict(),
            "rmse": self.rmse if math.isfinite(self.rmse) else None,
            "ratio": self.ratio,
            "strategies": [list(each) for each in self.strategies],
        }


@dataclass(frozen=True, slots=True)
class Plan(Shown):
    """What a statement would do, found without private data and free of charge.

    `rows` has the group keys filled in and None for the values; `stderr` the predicted standard
    errors. `sensitivity` is the L2 sensitivity, exact or (`sensitivity_exact` False) a bound from
    above, in `unit`: rows where every row counts as 0 or 1, else steps of what is summed, or units
    that put unlike aggregates on one scale. `cells` is the number of cells of the domain of the
    columns mentioned, `queries` the number of linear queries. `price` is what the statement costs
    alone, `charged` what it would take from the purse after all that was asked before, if there is
    a purse. `left` is the purse now, `after` what it would be then, where that is known.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[Row, ...]
    stderr: tuple[tuple[float | None, ...], ...]
    backend: str
    price: Cost
    candidates: tuple[Candidate, ...]
    sensitivity: float
    sensitivity_exact: bool
    cells: int
    queries: int
    left: Budget | None
    notes: tuple[str, ...] = ()
    dataset: str = ""
    unit: str = "rows"
    charged: Cost | None = None
    after: Budget | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "dataset": self.dataset,
            "columns": list(self.columns),
            "types": list(self.types),
            "rows": [[_plain(value) for value in row] for row in self.rows],
            "stderr": [[_plain(value) for value in row] for row in self.stderr],
            "backend": self.backend,
            "price": self.price.to_dict(),
            "charged": self.charged and self.charged.to_dict(),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "sensitivity": self.sensitivity,
            "unit": self.unit,
            "sensitivity_exact": self.sensitivity_exact,
            "cells": self.cells,
            "queries": self.queries,
            "left": self.left and self.left.to_dict(),
            "after": self.after and self.after.to_dict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ScriptPlan(Shown):
    """What a script would do, whose statements are measured together; free of charge.

    `plans` has one for each SELECT, in order: its `price` is what it would cost alone with the
    noise that it gets here, while `price` and `charged` are those of all of them together, which
    is less than their sum. `left` is the purse now, `after` what it will be; both are None where
    there is no purse. `candidates` could answer the whole script at the price asked for it.
    `titles` names each SELECT, by its text where it has no title.
    """

    plans: tuple[Plan, ...]
    titles: tuple[str, ...]
    backend: str
    price: Cost
    charged: Cost | None
    left: Budget | None
    after: Budget | None
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "backend": self.backend,
            "price": self.price.to_dict(),
            "charged": self.charged and self.charged.to_dict(),
            "left": self.left and self.left.to_dict(),
            "after": self.after and self.after.to_dict(),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "notes": list(self.notes),
            "plans": [
                {"title": title, **plan.to_dict()}
                for title, plan in zip(self.titles, self.plans, strict=True)
            ],
        }


def figure(number: float) -> str:
    """A cost to three figures."""
    if not math.isfinite(number):
        return "infinite" if number == math.inf else str(number)
    if number == 0:
        return "0"
    if not 1e-4 <= abs(number) < 1e15:
        return f"{number:.2e}"
    exponent = int(f"{number:.2e}".partition("e")[2])  # of what is shown: 0.09999 is 0.100
    return f"{number:,.{max(2 - exponent, 0)}f}"


def charged_words(charged: Cost | None) -> str:
    """What a statement took from the purse, in words."""
    return "nothing was charged" if charged is None else f"charged {charged} for the statement"


def _floats(grid: Iterable[Iterable[Any]]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(None if item is None else float(item) for item in line) for line in grid)


def _plain(value: Value) -> Any:
    """A value as JSON has it: dates and decimals as text, infinities and NaN as text."""
    match value:
        case float() if not math.isfinite(value):
            return repr(value)
        case None | bool() | int() | float() | str():
            return value
        case decimal.Decimal():
            return str(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()


def _value(item: Any, kind: str) -> Value:
    """The value of DuckDB type `kind` that `_plain` wrote as `item`."""
    if item is None:
        return None
    base = kind.split("(")[0]
    if base == "DATE":
        return datetime.date.fromisoformat(item)
    if base.startswith("TIMESTAMP"):
        return datetime.datetime.fromisoformat(item)
    if base == "TIME":
        return datetime.time.fromisoformat(item)
    if base == "INTERVAL":
        return datetime.timedelta(seconds=item)
    if base == "DECIMAL":
        return decimal.Decimal(item)
    if base in ("DOUBLE", "FLOAT"):
        return float(item)
    value: Value = item
    return value
