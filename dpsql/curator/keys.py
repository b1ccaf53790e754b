"""The secret key that ranks the rows of a privacy unit: made once, kept beside the ledger."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dpsql.accounting.seals.secret import secret
from dpsql.errors import SourceError


def unit_key(path: Path) -> bytes:
    """The 32 bytes of the key in `path`, which is made when there is none.

    Any number of processes may ask at once: all get the same key, and nobody sees half of one.
    Raises SourceError when the file cannot be made or read, may be read by others, or is no key.
    """
    remedy = "restore it, or move it away to start a new snapshot"
    return secret(path, fail=SourceError, remedy=remedy)


def key_name(key: bytes) -> str:
    """A public name of a key, from which the key cannot be found."""
    return hashlib.sha256(b"dpsql unit key\0" + key).hexdigest()[:16]
