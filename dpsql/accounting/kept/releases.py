"""Releases kept in the ledger's book, beside the charges that paid for them.

They are named by who asked, the dataset and the snapshot of its rows, so a release never answers
for another state of the data. Whatever is damaged, was changed or moved by somebody without the
ledger's key, or cannot be read counts as not kept: an answer is then bought again, and nothing is
lost but budget.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING

from dpsql.accounting.book import Book, Name, Page
from dpsql.accounting.purse import NOTHING, Price
from dpsql.accounting.seals.seal import Seal
from dpsql.accounting.seals.vouch import opened, sealed

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from dpsql.accounting.kept.stored import Stored
    from dpsql.accounting.kept.told import Told

_GATES = "gates of "  # before the snapshot: no measurement is looked for there
_ANSWERS = "answers of "


class Releases:
    """What was released, to be used again."""

    def __init__(self, book: Book, seal: Seal) -> None:
        self._book, self._seal = book, seal
        self._kept: Counter[str] = Counter()  # by this process, of each user
        self._version: object = None  # of the book, when a user's own were looked for last
        self._paid: dict[tuple[str, int], int] = {}
        self._prices: dict[int, Price] = {}

    def state(self, name: Name, mine: int, *, others: bool) -> object:
        """Another value than before if releases may have been kept meanwhile; None for maybe.

        Those of the user, of whose `mine` were kept by whoever asks, or of `others`, which are
        told as of the last look at a user's own: whoever asks looks at those first.
        """
        if not others:
            self._version = self._book.version()
        if self._version is None:
            return None
        own = self._kept[name[0]]
        return self._version, self._kept.total() - own if others else own - mine

    def keep(self, name: Name, seq: int, stored: Stored) -> None:
        """Keep what charge `seq` released. Raises LedgerError."""
        self._kept[name[0]] += 1
        columns = json.dumps(list(stored.columns))
        data = sealed(self._seal, (*name[1:], seq), name[0], stored.to_bytes())
        self._book.note(lambda page: page.put_release(name, seq, columns, data))

    def listed(
        self, name: Name, after: int, known: Container[int], *, others: bool
    ) -> Sequence[tuple[int, frozenset[str]]]:
        """The charges with a greater `seq`, but the `known`, whose releases are kept; columns.

        Those of the user, or of all `others`.
        """
        found = []
        for seq, columns in self._book.read(
            lambda page: page.others(name, after) if others else page.releases(name, after)
        ):
            if seq in known:
                continue
            try:
                found.append((seq, frozenset(map(str, json.loads(columns)))))
            except (TypeError, ValueError):
                continue
        return found

    def read(self, name: Name, seqs: Sequence[int], *, others: bool) -> list[Stored | None]:
        """What each of some charges released; None where that is lost.

        To the user, or to any of all `others`.
        """
        kept = self._book.read(lambda page: page.stored(name, seqs))
        return [self._opened(name, seq, kept.get(seq), others) for seq in seqs]

    def _opened(self, name: Name, seq: int, data: bytes | None, others: bool) -> Stored | None:
        found = opened(self._seal, (*name[1:], seq), data)
        if found is None or not (others or found[0] == name[0]):
            return None
        from dpsql.accounting.kept.stored import Stored

        try:
            return Stored.from_bytes(found[1])
        except ValueError:
            return None

    def tell(self, name: Name, seq: int, told: Told) -> None:
        """Keep what the gate that charge `seq` paid for said. Raises LedgerError."""
        self._note(_about(_GATES, name, told.question), seq, told.question, told.to_bytes())

    def told(self, name: Name, question: str) -> Iterator[Told]:
        """What gates said of a question, the newest first."""
        from dpsql.accounting.kept.told import Told

        for data in self._noted(_GATES, name, question):
            try:
                yield Told.from_bytes(data)
            except ValueError:  # damaged: it counts as not kept
                continue

    def say(self, name: Name, question: str, used: Sequence[int]) -> None:
        """Keep from which releases a question was answered, free. Raises LedgerError."""
        data = json.dumps([question, *used]).encode()
        place = int.from_bytes(hashlib.sha256(data).digest()[:8]) >> 1
        self._note(_about(_ANSWERS, name, question), place, question, data)

    def said(self, name: Name, question: str) -> list[tuple[int, ...]]:
        """From which releases a question was answered before, those of the newest first."""
        found = {tuple(json.loads(data)[1:]) for data in self._noted(_ANSWERS, name, question)}
        return sorted(found, key=lambda used: (max(used), used), reverse=True)

    def _note(self, there: Name, place: int, question: str, data: bytes) -> None:
        kept = sealed(self._seal, (*there[1:], place), there[0], data)
        asked = json.dumps([question])
        self._book.note(lambda page: page.put_release(there, place, asked, kept))

    def _noted(self, kind: str, name: Name, question: str) -> list[bytes]:
        """What is kept of a question, where it is written in place of columns; the newest first.

        An older release wrote all questions to one place.
        """
        user, dataset, snapshot = name
        asked = json.dumps([question])
        places = (_about(kind, name, question), (user, dataset, kind + snapshot))

        def found(page: Page) -> list[tuple[int, Name, bytes]]:
            listed = []
            for there in places:
                seqs = [seq for seq, columns in page.releases(there, 0) if columns == asked]
                listed += [(seq, there, data) for seq, data in page.stored(there, seqs).items()]
            return sorted(listed, reverse=True)

        kept = self._book.read(found)
        known = [opened(self._seal, (*there[1:], seq), data) for seq, there, data in kept]
        return [told[1] for told in known if told is not None and told[0] == user]

    def paid(self, seqs: Sequence[int], purse: str) -> dict[int, int]:
        """What each of some charges took from a purse, in pico of rho.

        Nothing where another purse paid, whose release was read since.
        """

        def question(page: Page) -> None:
            for seq in missing:
                found = page.entries(seq - 1, 1, None, None)
                payments = found[0].payments if found and found[0].seq == seq else ()
                taken = sum(payment.charged.rho for payment in payments if payment.purse == purse)
                self._paid[purse, seq] = taken

        missing = [seq for seq in seqs if (purse, seq) not in self._paid]
        if missing:
            self._book.read(question)
        return {seq: self._paid[purse, seq] for seq in seqs}

    def prices(self, seqs: Sequence[int]) -> list[Price]:
        """The prices of the releases of some charges; nothing for what the log does not tell."""

        def question(page: Page) -> None:
            for seq in missing:
                found = page.entries(seq - 1, 1, None, None)
                if found and found[0].seq == seq and found[0].price is not None:
                    self._prices[seq] = found[0].price

        missing = [seq for seq in seqs if seq not in self._prices]
        if missing:
            self._book.read(question)
        return [self._prices.get(seq, NOTHING) for seq in seqs]

    def statement(self, seq: int) -> str:
        """The statement that charge `seq` paid for; "" where that is not known."""
        found = self._book.read(lambda page: page.entries(seq - 1, 1, None, None))
        return found[0].statement if found and found[0].seq == seq else ""


def _about(kind: str, name: Name, question: str) -> Name:
    """The place of what is kept of a question, by which it is found."""
    user, dataset, snapshot = name
    return user, dataset, f"{kind}{snapshot}: {question}"
