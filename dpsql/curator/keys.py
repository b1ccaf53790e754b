"""The secret key that ranks the rows of a privacy unit: made once, kept beside the ledger."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

from dpsql.errors import SourceError

SIZE: Final = 32


def unit_key(path: Path) -> bytes:
    """The 32 bytes of the key in `path`, which is made when there is none.

    Any number of processes may ask at once: all get the same key, and nobody sees half of one.
    Raises SourceError when the file cannot be made or read, may be read by others, or is no key.
    """
    try:
        if not path.exists():
            _make(path)
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(SIZE + 1)
    except OSError:
        found = "cannot be made or read: check the permissions of its folder"
        raise SourceError(f"the key file {path.name} {found}") from None
    if mode & 0o077:
        found = "may be read by others; it is a secret of the data's owner: chmod 600"
        raise SourceError(f"the key file {path.name} {found}")
    if len(key) != SIZE:
        found = "is not a key of 32 bytes; restore it, or move it away to start a new snapshot"
        raise SourceError(f"the key file {path.name} {found}")
    return key


def key_name(key: bytes) -> str:
    """A public name of a key, from which the key cannot be found."""
    return hashlib.sha256(b"dpsql unit key\0" + key).hexdigest()[:16]


def _make(path: Path) -> None:
    """Write a key beside its place, then link it there, unless another process was first."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        try:
            os.fchmod(handle, 0o600)  # whatever the umask
            os.write(handle, os.urandom(SIZE))
            os.fsync(handle)
        finally:
            os.close(handle)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
