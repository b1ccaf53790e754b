"""What a ledger's log adds up to: by user, mechanism and dataset, over time and lately.

What a charge took is by how much it raised what all users of its dataset together have spent, the
cap, so that the parts of a dataset add up to all of it. How fast a purse empties is told by its own
rise.
"""

from __future__ import annotations

import datetime
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from dpsql.accounting.purse import EVERYBODY, Entry, Payment, Price

RECENT = 25  # statements that are listed
DAYS = 30  # that tell how fast a purse empties
_HOUR = len("2026-12-31T23")  # of the points of a curve in the same hour the last one is kept

_MECHANISMS = {
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "above_threshold": "gate (sparse vector)",
    "noisy_max": "choice (noisy max)",
    "exponential": "choice (exponential mechanism)",
    "rounds": "rounds of choices and Gaussian noise",
}


@dataclass(slots=True)
class Took:
    """How many charges, what they took in pico, and when the last one was."""

    charges: int = 0
    rho: int = 0
    epsilon: int = 0
    last: str = ""

    def add(self, price: Price, at: str) -> None:
        self.charges += 1
        self.rho += price.rho
        self.epsilon += price.epsilon or 0
        self.last = max(self.last, at)

    def pico(self, pure: bool) -> int:
        """In the currency of a grant: epsilon where it is pure, else rho."""
        return self.epsilon if pure else self.rho


@dataclass(slots=True)
class Lately:
    """What a purse paid since a day, and when it first paid at all."""

    first: str = ""
    took: Took = field(default_factory=Took)


@dataclass(slots=True)
class Tally:
    """Keys are a dataset and a user, a mechanism, or the holder of a purse."""

    users: defaultdict[tuple[str, str], Took] = field(default_factory=lambda: defaultdict(Took))
    mechanisms: defaultdict[tuple[str, str], Took] = field(
        default_factory=lambda: defaultdict(Took)
    )
    datasets: defaultdict[str, Took] = field(default_factory=lambda: defaultdict(Took))
    purses: defaultdict[tuple[str, str], Lately] = field(
        default_factory=lambda: defaultdict(Lately)
    )
    curves: defaultdict[str, list[tuple[str, Price]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    recent: deque[Entry] = field(default_factory=lambda: deque(maxlen=RECENT))
    latest: str = ""

    @classmethod
    def of(cls, entries: Iterable[Entry], now: str) -> Tally:
        """The sums over a log; what was paid in the last DAYS days before `now` is lately."""
        since = (moment(now) - datetime.timedelta(days=DAYS)).isoformat(timespec="milliseconds")
        found = cls(latest=now)
        for entry in entries:
            found.latest = max(found.latest, entry.at)
            if entry.kind == "charge":
                found._add(entry, since)
        return found

    def _add(self, entry: Entry, since: str) -> None:
        dataset = entry.dataset
        shared = _shared(entry)
        took = shared.charged
        for sums in (
            self.users[dataset, entry.user],
            self.mechanisms[dataset, mechanism(entry)],
            self.datasets[dataset],
        ):
            sums.add(took, entry.at)
        self.recent.append(entry)
        curve = self.curves[dataset]
        if curve and curve[-1][0][:_HOUR] == entry.at[:_HOUR]:
            curve.pop()
        curve.append((entry.at, shared.after))
        for payment in entry.payments or (Payment(entry.user, entry.before, entry.after),):
            lately = self.purses[dataset, payment.purse]
            lately.first = lately.first or entry.at
            if entry.at > since:
                lately.took.add(payment.charged, entry.at)

    def rate(self, dataset: str, holder: str, pure: bool) -> float:
        """What a purse pays a day of late, in pico: over DAYS days, or since it first paid.

        Over a week at least, for its first day says nothing of a purse's month.
        """
        lately = self.purses.get((dataset, holder))
        if lately is None:
            return 0.0
        past = (moment(self.latest) - moment(lately.first)).total_seconds() / 86_400
        return lately.took.pico(pure) / min(max(past, 7.0), float(DAYS))


def took(entry: Entry) -> Price:
    """What a charge took of the cap."""
    return _shared(entry).charged


def _shared(entry: Entry) -> Payment:
    """The payment of the purse of all users, or the first one of logs that have none."""
    for payment in entry.payments:
        if payment.purse == EVERYBODY:
            return payment
    return Payment(entry.user, entry.before, entry.after)


def mechanism(entry: Entry) -> str:
    """How an answer was made, in words."""
    if entry.note:
        return "read from earlier releases"
    name = "" if entry.event is None else str(entry.event.get("event", ""))
    return _MECHANISMS.get(name, name.replace("_", " ") or "not told")


def moment(at: str) -> datetime.datetime:
    """A time of the ledger."""
    return datetime.datetime.fromisoformat(at)
