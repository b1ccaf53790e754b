"""How a synopsis comes by what it knows, and the terms on which it goes on learning.

Its owner states how far off guesses may be, and how seldom one may be further, and gets thresholds,
noise, and the number of questions that the price leaves room for; or these themselves; or nothing
but a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO, GateNoise
from dpsql.accounting.kept.synopses import ONLINE, TABLES
from dpsql.errors import UsageError
from dpsql.mechanisms.synopses import verifier
from dpsql.mechanisms.synopses.steps import STEPS
from dpsql.mechanisms.synopses.verifier import FREE, LEVEL
from dpsql.release import Cost

UPDATES = 10
WARM = 0.15  # of the price of a synopsis that learns is for its first tables, single columns
WARMER = 0.3  # the same, where there are tables of several columns among them
METHODS = ("auto", "marginals", "pmw", "mwem", "smalldb", "holdout")
_MOST_UPDATES = 10_000


@dataclass(frozen=True, slots=True)
class Learning:
    """How a synopsis comes by what it knows, and what is kept for questions that it gets wrong.

    `marginals` spends all on its tables at once. `pmw` keeps most of the price for up to `updates`
    questions, each paid when it is asked, half for a gate and half for the table that is learnt.
    With an `accuracy`, in rows, they are as many as gates leave room for that let pass what is
    further off with probability `beta` at most, in all of a session; with a `threshold`, in rows,
    that is asked about. `step` and `gate` are as `Synopsis` has them. `mwem` spends all at once on
    so many rounds, `smalldb` on one database of `size` rows (`session.rounds`). `holdout` goes on
    as `pmw` does, and learns nothing (`session.holdout`).
    """

    method: str = "auto"
    updates: int | None = None
    accuracy: float | None = None
    step: str = TABLES
    gate: GateNoise = "exponential"
    size: int | None = None
    beta: float | None = None
    threshold: int | None = None

    @property
    def online(self) -> bool:
        return self.method in ONLINE

    @property
    def named(self) -> str:
        """The method that is meant."""
        return "marginals" if self.method == "auto" else self.method

    @property
    def chosen(self) -> bool:
        """Whether what is bought is chosen by what is seen of the data."""
        return self.method in ("mwem", "smalldb")

    @property
    def confidence(self) -> float:
        """Of answers, where all guesses of a session are as near as is said but for `beta`."""
        return LEVEL if self.beta is None else 1.0 - self.beta / FREE

    def check(self, queries: bool, sets: bool) -> None:
        """Raises UsageError, also for `queries` or `sets` that a method has no use for."""
        if self.method not in METHODS:
            raise UsageError(f"method is one of {', '.join(METHODS)}, not {self.method!r}")
        if self.chosen and not queries:
            raise UsageError(f"method {self.method} is for queries: give a script of SELECTs")
        if (queries or sets) and self.method == "holdout":
            raise UsageError("a holdout measures no tables: leave queries, sets and ways out")
        if queries and sets:
            raise UsageError("the queries say which tables there are: give these or those")
        steps, noises = (TABLES, *STEPS), get_args(GateNoise)
        if self.step not in steps:
            raise UsageError(f"step is one of {', '.join(steps)}, not {self.step!r}")
        if self.gate not in noises:
            raise UsageError(f"gate is one of {', '.join(noises)}, not {self.gate!r}")
        if (self.step != TABLES or self.gate != noises[0]) and not self.online:
            raise UsageError("step and gate are of method pmw, which goes on learning")
        if self.step != TABLES and self.method == "holdout":
            raise UsageError("a holdout takes no steps: it learns nothing")
        more = self.updates
        if more is not None and (type(more) is not int or not 1 <= more <= _MOST_UPDATES):
            raise UsageError(f"updates is from 1 to {_MOST_UPDATES:,} questions, not {more!r}")
        if more is not None and self.method not in ("pmw", "mwem", "holdout"):
            raise UsageError("updates are of the methods pmw, mwem and holdout")
        size = self.size
        if size is not None and self.method != "smalldb":
            raise UsageError("size is of method smalldb: the rows of its database")
        if size is not None and (type(size) is not int or size < 1):
            raise UsageError(f"size is a whole number of rows above 0, not {size!r}")
        self._check_gates()

    def _check_gates(self) -> None:
        for name in ("accuracy", "beta", "threshold"):
            if getattr(self, name) is not None and not self.online:
                raise UsageError(f"{name} is of method pmw, which goes on learning")
        if self.updates is not None and self.accuracy is not None:
            raise UsageError("updates and accuracy each say what an update takes: give one")
        if self.threshold is not None and self.accuracy is not None:
            raise UsageError("an accuracy gives the threshold: give one of them")
        if self.beta is not None and self.accuracy is None:
            raise UsageError(
                "beta is how seldom a guess may be off by more than an accuracy: give both"
            )
        if self.accuracy is not None and not 0 < self.accuracy < math.inf:
            raise UsageError(f"accuracy is a number of rows above 0, not {self.accuracy!r}")
        if self.beta is not None and not 1e-9 <= self.beta < FREE:
            raise UsageError(f"beta is at least 1e-9 and below {FREE:g}, not {self.beta!r}")
        least = self.threshold
        if least is not None and (type(least) is not int or not 1 <= least < 1 << 60):
            raise UsageError(f"threshold is a whole number of rows above 0, not {least!r}")

    def split(self, rho: int, unit: int, ways: int, delta: float) -> tuple[int, int, int]:
        """Of a price: what the tables take now, the number of updates, and the price of each.

        `unit` is what a count moves by between neighbours, `ways` the columns of the widest table,
        `delta` the grant's.
        """
        if not self.online:
            return rho, 0, 0
        kept = rho - int((WARM if ways == 1 else WARMER) * rho)
        updates = self.updates or UPDATES
        if self.accuracy is not None:
            updates = self._affordable(rho, kept, unit, self.accuracy, delta)
        if not kept // updates > 1:
            raise UsageError(f"the price is too small for {updates} updates")
        return rho - kept, updates, kept // updates

    def _affordable(self, rho: int, kept: int, unit: int, accuracy: float, delta: float) -> int:
        """How many gates what is `kept` of a price pays for, the last of them as accurate as was
        asked, with tables as dear."""

        def each(number: int) -> int:
            level = self.confidence
            return 2 * verifier.cheapest(unit, accuracy, level, self.gate, number)

        high = min(kept // each(1), _MOST_UPDATES)
        if not high:
            raise UsageError(
                f"a gate that tells guesses {accuracy:g} rows off, and a table as good,"
                f" take {_both(each(1), delta)}, more than the price leaves: {_both(kept, delta)};"
                f" a price of ε {_above(epsilon_of(-(-each(1) * rho // kept), delta)):g} would do"
            )
        low = 1  # later gates have less that may miss, and are dearer
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle * each(middle) <= kept else (low, middle - 1)
        return low

    def promise(self, unit: int, updates: int, rho: int, delta: float) -> tuple[str, ...]:
        """What is said of later guesses when a synopsis is made; `rho` is that of an update,
        `delta` the grant's.

        Raises UsageError where no gate can be bought for it, or where it would let nothing pass.
        """
        if not updates:
            return ()
        told = verifier.verifier(unit, max(rho // 2, 1), self.gate, self.threshold)
        if not told.passes >= 1:
            least = verifier.verifier(unit, max(rho // 2, 1), self.gate).threshold
            raise UsageError(
                f"a threshold of {told.threshold:,} rows is below the noise of a gate at this"
                f" price, which would let no guess pass: {least:,} is for"
                f" {verifier.QUESTIONS:,} guesses in a row; pay more, or for fewer updates"
            )
        beta = 1.0 - self.confidence if self.beta is None else self.beta / FREE
        first, last = told.most(self.confidence), told.nth(updates).most(self.confidence)
        most = f"{first:,} rows at most"
        most += "" if last == first else f" ({last:,} by gate {updates:,} of them)"
        about = min(told.passes, 1e9)
        level, price = f"{100.0 * (1.0 - FREE * beta):.6g} %", _both(rho // 2, delta)
        bought = "1 that is" if updates == 1 else f"{updates:,} that are"
        return (
            f"guesses that the gates of a session let pass are off by {most}, all"
            f" together at {level}; with the rest of the price {bought} far off may be bought, at"
            f" {price} each beside a gate for as much, by who asks",
            f"a gate asks whether a guess is {told.threshold:,} rows off, and lets pass some"
            f" {about:,.0f} in a row that are not off at all",
        )


def _both(rho: int, delta: float) -> Cost:
    """A price in pico of rho, which is shown in both currencies."""
    return Cost(rho / PICO, epsilon_of(rho, delta), delta)


def _above(epsilon: float) -> float:
    """Three figures of a price, rounded up, so that what it is for can be paid."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return math.ceil(epsilon / unit) * unit
