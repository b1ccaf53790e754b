"""What a ledger keeps beside its log, under its key: whose it is, and that it is unchanged.

Kept releases stand outside the chain of entries. Each bears HMAC-SHA256 over its place and content,
so that no edit of the file gives a user another's answers, or other answers to anybody.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence

from dpsql.accounting.seals.seal import Seal

MARK = b"dpsql\x01"
_MAC = 32


def sealed(seal: Seal, place: Sequence[object], owner: str, data: bytes) -> bytes:
    """The data with its owner and its mac, as it is kept at a place."""
    name = owner.encode()
    return b"".join((MARK, _mac(seal, place, owner, data), len(name).to_bytes(4), name, data))


def opened(seal: Seal, place: Sequence[object], kept: bytes | None) -> tuple[str, bytes] | None:
    """The owner and the data; None where they are not those that were kept at this place.

    What an earlier version kept has no mac, and is not believed either.
    """
    if kept is None or not kept.startswith(MARK):
        return None
    rest = kept[len(MARK) :]
    mac, size, rest = rest[:_MAC], int.from_bytes(rest[_MAC : _MAC + 4]), rest[_MAC + 4 :]
    try:
        owner = rest[:size].decode()
    except UnicodeDecodeError:
        return None
    data = rest[size:]
    if not hmac.compare_digest(mac, _mac(seal, place, owner, data)):
        return None
    return owner, data


def _mac(seal: Seal, place: Sequence[object], owner: str, data: bytes) -> bytes:
    what = json.dumps([*place, owner, hashlib.sha256(data).hexdigest()])
    return bytes.fromhex(seal.mac(f"kept {what}"))
