"""What nothing that dpsql writes may take the place of: data, schemas, ledgers, keys, scripts."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dpsql.errors import SchemaError, UsageError
from dpsql.surfaces.aim import Aim

# what names of files end with that only an owner's command may write
_NAMES = (
    ".duckdb", ".wal", ".ledger", "-wal", "-shm", ".key", ".seal", ".anchor", ".toml",
)  # fmt: skip
_BESIDE = ("", "-wal", "-shm", ".key", ".seal", ".anchor")  # of a ledger of any name
_MAGIC = {8: b"DUCK", 0: b"SQLite format 3\0"}  # of databases and ledgers, and where it stands


def writable(output: Path, aim: Aim | None = None, script: Path | None = None) -> None:
    """Raise UsageError for a file that must stay as it is, or a folder with one in it.

    That is what `aim` names and what its schemas name, under any name it has; the file of the SQL
    that is answered; what is named as only owners' files are; and any database or ledger, told by
    how it begins.
    """
    try:
        real = os.path.realpath(output)
    except ValueError:
        raise UsageError("cannot write there: it is no name of a file") from None
    if real.lower().endswith(_NAMES) or output.name.lower().endswith(_NAMES):
        raise UsageError(
            f"cannot write {output}: a database, ledger, key or schema has such a name; "
            "give another, e.g. answer.csv"
        )
    what = _database(real)
    for path, kept in _kept(aim, script):
        if real == path or _same(real, path):
            what = f"it is {kept}"
        elif path.startswith(os.path.join(real, "")):
            what = f"the folder holds {kept}"
    if what:
        raise UsageError(f"cannot write {output}: {what}; give another name, e.g. answer.csv")


def _kept(aim: Aim | None, script: Path | None) -> Iterator[tuple[str, str]]:
    """Real paths, and what stands there."""
    from dpsql.schema import load
    from dpsql.schema.files import declarations

    if script is not None and script.is_file():  # a terminal is read and written
        yield os.path.realpath(script), "the SQL that is asked"
    if aim is None:
        return
    yield os.path.realpath(aim.db), "the data"
    ledger = aim.ledger or aim.db.with_suffix(".ledger")
    if isinstance(ledger, Path):
        for ending in _BESIDE:
            yield os.path.realpath(ledger) + ending, "the ledger, or a part of it"
    schemas: list[Path] = []
    with contextlib.suppress(UsageError):  # there is none, which whoever needs one will say
        schemas = declarations(aim.db, aim.schemas)
    for schema in schemas:
        yield os.path.realpath(schema), "a schema"
        with contextlib.suppress(SchemaError):  # a broken one: nobody can ask of its source
            dataset = load(schema)
            if dataset.source.file is not None:
                folder = dataset.folder or aim.db.parent
                yield os.path.realpath(folder / dataset.source.file), "the data"


def _database(real: str) -> str:
    """Why a file that is there must stay, as its first bytes tell; nothing where it need not."""
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            return ""
        with open(real, "rb") as file:
            begun = file.read(16)
    except FileNotFoundError:
        return ""
    except OSError as error:  # it could be replaced all the same, where the folder lets us
        return f"it cannot be read ({(error.strerror or 'no reason given').lower()})"
    found = any(begun[at:].startswith(sign) for at, sign in _MAGIC.items())
    return "it is a database or a ledger" if found else ""


def _same(one: str, other: str) -> bool:
    """Whether two names are of one file, as hard links are."""
    with contextlib.suppress(OSError):  # one of them is not there
        return os.path.samefile(one, other)
    return False
