"""The keyed chain over the log, and the keyed sum over the purses.

Each entry n bears mac_n = HMAC-SHA256(key, mac_{n-1} | entry n), and mac_0 = HMAC(key, name of the
ledger): without the key nobody can change, add, take out or move an entry, or bring one from
another ledger. Truncation at the end is left to the anchor.

An entry also bears the state of all purses after it: the sum modulo 2^256 of HMAC(key, purse) over
them, a multiset hash (Clarke et al. 2003, MSet-Add-Hash) that one change updates by subtracting the
old purse and adding the new. So one look at all purses, when a ledger is opened, finds a raised
grant, a lowered sum, or a purse that was taken out or put back as it once was.

Where an owner takes a ledger as it stands, or an older format is read for the first time, an entry
of the kind "accept" starts the chain anew: it bears the state of every purse and a digest of all
entries before it, so that those can be changed no more either.

What is hashed is JSON of the fields that are not empty (`fields`), so that a field added later
leaves the links of older entries as they are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

from dpsql.accounting.book import Tip
from dpsql.accounting.purse import Entry, Purse
from dpsql.accounting.seals.fields import entry_fields, packed, purse_fields

SUMS = 1 << 256
KEPT = 64  # purses whose weights are remembered


class Seal:
    """The key of one ledger, and what is made with it."""

    def __init__(self, key: bytes, ledger: str) -> None:
        self._key = key
        self._weights: dict[tuple[str, str], tuple[Purse, int]] = {}  # of purses put lately
        self.ledger = ledger
        self.origin = self.mac(f"ledger {ledger}")
        self.key_name = hashlib.sha256(b"dpsql ledger key\0" + key).hexdigest()[:16]

    def mac(self, text: str) -> str:
        """HMAC-SHA256 of the text, in hexadecimal."""
        return hmac.digest(self._key, text.encode(), "sha256").hex()

    def link(self, before: Entry | Tip | None, entry: Entry) -> str:
        """The mac of an entry that follows `before`."""
        return self._link(before, entry.kind, entry_fields(entry))

    def _link(self, before: Entry | Tip | None, kind: str, fields: dict[str, Any]) -> str:
        anew = before is None or kind == "accept"
        previous = self.origin if anew or before is None else before.mac
        return self.mac(f"entry {previous} {packed(fields)}")

    def linked(self, before: Tip | None, entry: Entry, seen: str, state: str) -> Entry:
        """The entry with the latest time, the state of the purses, and its mac."""
        fields = entry_fields(entry) | {"seen": seen, "state": state}
        mac = self._link(before, entry.kind, fields)
        return dataclasses.replace(entry, seen=seen, state=state, mac=mac)

    def restarts(self, entry: Entry) -> bool:
        """Whether the chain starts anew with this entry, which vouches for all before it."""
        return entry.kind == "accept" and self.link(None, entry) == entry.mac

    def broken(self, before: Entry | None, entries: Iterable[Entry]) -> list[str]:
        """What is wrong with the links of entries that follow `before`, in words.

        What stands before an entry "accept" is that one's to vouch for, not the links'.
        """
        found: list[str] = []
        for entry in entries:
            due = 1 if before is None else before.seq + 1
            if self.restarts(entry):
                found.clear()
            elif entry.seq != due:
                gap = (
                    f"entry {due} is"
                    if entry.seq == due + 1
                    else f"entries {due} to {entry.seq - 1} are"
                )
                found.append(f"{gap} missing")
            elif self.link(before, entry) != entry.mac:
                found.append(f"entry {entry.seq} was changed or forged")
            before = entry
        return found

    def weight(self, purse: Purse | None) -> int:
        """What a purse adds to the state; nothing, where there is none."""
        if purse is None:
            return 0
        name = (purse.user, purse.dataset)
        known = self._weights.get(name)
        if known is not None and known[0] == purse:
            return known[1]
        found = int(self.mac(f"purse {packed(purse_fields(purse))}"), 16)
        if len(self._weights) >= KEPT:
            self._weights.clear()
        self._weights[name] = (purse, found)
        return found

    def state(self, purses: Iterable[Purse]) -> str:
        """The state of all purses, from scratch."""
        return shown(sum(map(self.weight, purses)))


class Digest:
    """SHA-256 of the log so far: what an entry "accept" bears of all that stands before it."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, entry: Entry) -> None:
        self._sum.update(f"{packed(entry_fields(entry))} {entry.mac}\n".encode())

    def shown(self) -> str:
        return self._sum.hexdigest()


def shown(state: int) -> str:
    """A state as entries bear it."""
    return f"{state % SUMS:064x}"
