"""Who types: at a terminal with all comforts, or at one that can do nothing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from dpsql.surfaces import statements
from dpsql.surfaces.shell import dots

if TYPE_CHECKING:
    from dpsql.session import Session


class Reader(Protocol):
    """Somebody who types. Both raise EOFError when they leave, KeyboardInterrupt at Ctrl-C."""

    def line(self, prompt: str) -> str:
        """What is typed next: whole statements, a command, or a line of one."""

    def question(self, words: str) -> str:
        """The answer to a question."""


class Plain:
    """On a terminal that can do nothing: its own line editing, a line at a time."""

    def line(self, prompt: str) -> str:
        """A line."""
        return self._typed(prompt)

    def question(self, words: str) -> str:
        """The answer to a question."""
        return self._typed(words)

    def _typed(self, words: str) -> str:
        try:
            return input(words)
        except (EOFError, KeyboardInterrupt):  # what follows begins a line
            sys.stdout.write("\n")
            raise


def reader(session: Session) -> tuple[Reader, str]:
    """Who types at this terminal, and a warning if what they type is not kept."""
    if os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        return Plain(), ""
    from dpsql.surfaces.shell.toolkit import rich

    return rich(session)


def finished(text: str) -> bool:
    """Whether what is typed can be answered: a command, or nothing after the last semicolon."""
    if statements.blank(text) or dots.is_dot(text.lstrip()):
        return True
    if text.strip().rstrip("; ") in dots.BARE:
        return True
    return statements.blank(statements.split(text)[1])
