"""Secret keys in files: 32 random bytes, made by whoever comes first, read by the owner alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from os import PathLike
from typing import Final

from dpsql.errors import Error

SIZE: Final = 32


def secret(path: str | PathLike[str], *, fail: Callable[[str], Error], remedy: str) -> bytes:
    """The key in the file `path`, which is made when there is none.

    Any number of processes may ask at once: all get the same key, and nobody sees half of one.
    Raises what `fail` makes of a message when the file cannot be made or read, may be read by
    others, or is no key; `remedy` is what an owner does about the last.
    """
    name = os.path.basename(os.fspath(path))
    try:
        if not os.path.exists(path):
            publish(path, os.urandom(SIZE))
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(SIZE + 1)
    except OSError:
        found = "cannot be made or read: check the permissions of its folder"
        raise fail(f"the key file {name} {found}") from None
    if mode & 0o077:
        found = "may be read by others; it is a secret of the data's owner: chmod 600"
        raise fail(f"the key file {name} {found}")
    if len(key) != SIZE:
        raise fail(f"the key file {name} is not a key of {SIZE} bytes; {remedy}")
    return key


def publish(path: str | PathLike[str], content: bytes) -> None:
    """Write a file of mode 0600, whole and down to the disk, unless there is one already.

    It is written beside its place, then linked there: whoever is first wins.
    """
    folder, name = os.path.split(os.path.abspath(path))
    draft = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        try:
            os.fchmod(handle, 0o600)  # whatever the umask
            os.write(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        settle(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def settle(draft: str, path: str | PathLike[str]) -> None:
    """Give a finished draft its name for good, unless the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not os.path.lexists(path):
            os.rename(draft, path)
    with contextlib.suppress(OSError):  # where folders cannot be opened, they need no fsync
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
