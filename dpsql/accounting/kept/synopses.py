"""What synopses there are: of which columns, who bought them, and what was measured for them.

A synopsis is public, as a declaration is: its columns, its terms and the numbers of the charges
whose releases it is made from. What was released stands with those, and whoever reads it pays for
the footprint; the distribution that it is fitted to can be found again at any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from dpsql.accounting.book import Book, Page
from dpsql.accounting.events import GateNoise
from dpsql.accounting.seals.fields import packed
from dpsql.errors import LedgerError, UsageError

VERSION = 1
HOLDOUT = "holdout"  # the method of a synopsis that guesses by a public table
ONLINE = ("pmw", HOLDOUT)  # those that buy more when guesses are far off
TABLES = "tables"  # the step of a synopsis that learns whole tables
_READ = 64
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True)
class Synopsis:
    """A synopsis of a dataset's snapshot.

    `sets` are the sets of columns whose tables were measured, `charges` the entries of the log that
    paid for them, the oldest first, the newest of them what was learnt since. `user` bought it, and
    `users` may ask it (None: everybody with a grant). `updates` is how many more times a question
    that it gets wrong may teach it, at `rho` (in pico) each. Beside `sets`, so many more tables as
    there were `rounds` were chosen by what was seen of the data: which they are stands with the
    release alone, for whoever paid for it. `step` is how a question teaches it, by the whole table
    of its columns or by a step of the textbook's; `gate` is the noise of its gates, `threshold`
    what they are asked about where it was stated.
    """

    name: str
    dataset: str
    snapshot: str
    user: str
    at: str
    method: str
    columns: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    charges: tuple[int, ...]
    users: tuple[str, ...] | None = None
    updates: int = 0
    rho: int = 0
    rounds: int = 0
    step: str = TABLES
    gate: GateNoise = "exponential"
    threshold: int | None = None

    def __post_init__(self) -> None:
        texts = (self.name, self.dataset, self.snapshot, self.user, self.at, self.method, self.step)
        words = (*texts, *self.columns, *(self.users or ()), *(c for s in self.sets for c in s))
        numbers = (*self.charges, self.updates, self.rho, self.rounds, self.threshold or 0)
        if self.gate not in get_args(GateNoise):
            raise ValueError("not a synopsis: no noise of a gate")
        if any(type(word) is not str for word in words):
            raise ValueError("not a synopsis: no text")
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("not a synopsis: no whole number")

    @functools.cached_property
    def linked(self) -> tuple[frozenset[str], ...]:
        """The columns that its tables link, directly or through others: those of each group."""
        groups: list[frozenset[str]] = []
        for names in map(frozenset, self.sets):
            met = [group for group in groups if group & names]
            groups = [group for group in groups if group not in met] + [names.union(*met)]
        return tuple(groups)

    def may_ask(self, user: str) -> bool:
        """Whether the one who bought it lets `user` ask it."""
        return self.users is None or user == self.user or user in self.users

    def taught(self, charge: int, columns: tuple[str, ...] | None) -> Synopsis:
        """With one more table, that of a question which it got wrong; None: that question alone."""
        sets = self.sets if columns is None or columns in self.sets else (*self.sets, columns)
        return dataclasses.replace(
            self, sets=sets, charges=(*self.charges, charge), updates=max(self.updates - 1, 0)
        )

    def to_text(self) -> str:
        """As a ledger keeps it."""
        return packed({"version": VERSION, **dataclasses.asdict(self)})

    @classmethod
    @functools.lru_cache(_READ)  # the same few are looked for by every question
    def from_text(cls, text: str) -> Synopsis:
        """What `to_text` wrote. Raises ValueError for anything else."""
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields.pop("version") != VERSION:
                raise ValueError("a synopsis of another version")
            for name in ("columns", "charges"):
                fields[name] = tuple(fields[name])
            fields["sets"] = tuple(tuple(columns) for columns in fields["sets"])
            fields["users"] = None if fields["users"] is None else tuple(fields["users"])
            return cls(**fields)
        except (KeyError, TypeError, AttributeError):
            raise ValueError("not a synopsis") from None


class Synopses:
    """The synopses of a ledger."""

    def __init__(self, book: Book, write: Callable[[Callable[[Page], None]], None]) -> None:
        self._book, self._write = book, write

    def listed(self, dataset: str) -> list[Synopsis]:
        """Those of a dataset, by name. Raises LedgerError for what cannot be read."""
        found = self._book.read(lambda page: page.synopses(dataset))
        return [self._read(dataset, text) for text in found]

    def get(self, dataset: str, name: str) -> Synopsis:
        """The synopsis of a name. Raises UsageError where there is none."""
        listed = self.listed(dataset)
        for synopsis in listed:
            if synopsis.name == name:
                return synopsis
        names = ", ".join(synopsis.name for synopsis in listed)
        known = f"; there are: {names}" if names else "; make one: dpsql synopsis create"
        raise UsageError(f"{dataset} has no synopsis {name!r}{known}")

    def fit(self, synopsis: Synopsis) -> bytes | None:
        """What was fitted to a synopsis, if that is kept."""
        return self._book.read(lambda page: page.fit(synopsis.dataset, synopsis.name))

    def keep_fit(self, synopsis: Synopsis, fit: bytes) -> None:
        """Keep what was fitted to a synopsis, unless it is another one by now."""

        def change(page: Page) -> None:
            if synopsis in _readable(page, synopsis.dataset):
                page.put_fit(synopsis.dataset, synopsis.name, fit)

        self._book.note(change)

    def drop(self, dataset: str, name: str) -> None:
        """Forget a synopsis; what was paid stays paid, and what was released stays kept.

        Raises UsageError where there is none.
        """
        self.get(dataset, name)
        self._write(lambda page: page.put_synopsis(dataset, name, None))

    def _read(self, dataset: str, text: str) -> Synopsis:
        try:
            found = Synopsis.from_text(text)
        except ValueError:
            raise LedgerError(
                f"{self._book.name}: a synopsis of {dataset} cannot be read: it is damaged, or was"
                " written by a newer dpsql"
            ) from None
        return found


def check_name(name: str) -> None:
    """Raises UsageError for what is no name of a synopsis."""
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is no name of a synopsis: letters, digits and _, and no digit first"
        )


def made(page: Page, synopsis: Synopsis, fit: bytes | None = None) -> None:
    """Put down a new synopsis, in the transaction that pays for it, with what it guesses by, where
    that is public. Raises UsageError.

    A name can be used again once the data have changed: the older synopsis says nothing of these.
    """
    for known in _readable(page, synopsis.dataset):
        if known.name == synopsis.name and known.snapshot == synopsis.snapshot:
            own = known.user == synopsis.user
            drop = f", or drop it first: dpsql synopsis drop DB {synopsis.name}" if own else ""
            raise UsageError(
                f"{synopsis.dataset} has a synopsis {synopsis.name} already, which"
                f" {known.user} bought: choose another name{drop}"
            )
    page.put_synopsis(synopsis.dataset, synopsis.name, synopsis.to_text())
    if fit is not None:
        page.put_fit(synopsis.dataset, synopsis.name, fit)


class Stale(UsageError):
    """A synopsis was taught, or dropped, since it was looked at; nothing was charged."""


def learnt(page: Page, before: Synopsis, charge: int, columns: tuple[str, ...] | None) -> None:
    """Put down what a charge taught a synopsis, in its transaction.

    Raises Stale where the synopsis is not as it was `before`: what is bought may be known by now.
    """
    if before not in _readable(page, before.dataset):
        raise Stale(f"synopsis {before.name} was changed meanwhile: ask again")
    after = before.taught(charge, columns)
    # a public table stays as it is; what was fitted is fitted anew
    fit = page.fit(before.dataset, before.name) if before.method == HOLDOUT else None
    page.put_synopsis(before.dataset, before.name, after.to_text())
    if fit is not None:
        page.put_fit(before.dataset, before.name, fit)


def _readable(page: Page, dataset: str) -> Iterator[Synopsis]:
    for text in page.synopses(dataset):
        with contextlib.suppress(ValueError):  # `listed` tells of it
            yield Synopsis.from_text(text)
