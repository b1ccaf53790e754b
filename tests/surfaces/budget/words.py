"""Commands about budgets, as words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

SCHEMA = """
dataset = "people"
unit = "row"

[source]
table = "people"

[columns]
sex = {type = "category", values = ["female", "male"]}
"""
SQL = "SELECT COUNT(*) AS n FROM people"
Run = Callable[..., str]


def budget(run: Run, name: str, *words: str, code: int = 0) -> str:
    return run("budget", name, "people.duckdb", *words, code=code)


def ask(run: Run, user: str, *words: str, code: int = 0) -> str:
    return run("query", "people.duckdb", SQL, "-u", user, *words, code=code)


def parsed(text: str) -> Any:
    return json.loads(text)
