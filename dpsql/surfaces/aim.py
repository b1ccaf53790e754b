"""What the options named, so that commands which an error advises can be typed as they stand."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.session import Session

_COMMAND = r"dpsql (?:(?:budget|synopsis) [a-z]+|query|explain|run(?: --explain)?)"
_SECRET = re.compile(r"(//[^:/@]*):[^@/]*@")  # a password in an address


@dataclass(frozen=True, slots=True)
class Aim:
    """The database, ledger and schema that a command was given; None and () where it was not."""

    db: Path
    ledger: Path | str | None
    schemas: tuple[Path, ...]

    @staticmethod
    def of(session: Session) -> Aim:
        """What a session was opened with; its schema is not known, nor asked for here."""
        place, usual = session.ledger_place, session.database.with_suffix(".ledger")
        return Aim(session.database, None if place == usual else place, ())

    def words(self, text: str) -> str:
        """A text whose commands say DB, with what that is, and its ledger."""
        db = shlex.quote(str(self.db))
        return re.sub(
            rf"({_COMMAND}) (?:DB|{re.escape(db)})(?!\S)([^\n;()]*)",
            lambda found: f"{found[1]} {db}{self._rest(found[2])}",
            text,
        )

    def _rest(self, rest: str) -> str:
        """What follows the database in a command, with the options that it needs."""
        rest, more = rest.replace(" --ledger postgresql://...", ""), ""
        if self.ledger is not None and "--ledger" not in rest:
            place = _SECRET.sub(r"\1@", str(self.ledger))
            more += f" --ledger {shlex.quote(place)}"
        if self.schemas and "--dataset" not in rest:
            more += "".join(f" -s {shlex.quote(str(schema))}" for schema in self.schemas)
        return more + rest
