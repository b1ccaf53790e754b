"""Writes the pages of reference: what the code itself says of SQL, commands, settings and Python.

Run it with: python -m docs.generate. A test fails when a page is older than the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from docs.made.commands import commands
from docs.made.python import python
from docs.made.schema import schema
from docs.made.settings import settings
from docs.made.sql import sql

HERE = Path(__file__).resolve().parent
HEAD = "<!-- Made by docs/generate.py: change what it reads, then run `make docs`. -->\n"
PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/sql.md": sql,
    "reference/commands.md": commands,
    "reference/settings.md": settings,
    "reference/schema.md": schema,
    "reference/python.md": python,
}


def page(name: str) -> str:
    """The text of a page of reference."""
    return "\n".join([HEAD, *PAGES[name]()]).rstrip("\n") + "\n"


if __name__ == "__main__":
    for each in PAGES:
        (HERE / each).write_text(page(each), encoding="utf-8")
