"""A small town whose people are asked about, and a person at a terminal."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql import schema
from dpsql.surfaces.shell.completion import Vocabulary

SCHEMA = """
dataset = "people"
description = "People of a small town"
unit = "row"

[source]
{source}

[columns]
sex = {{type = "category", values = ["female", "male"]}}
age = {{type = "integer", min = 0, max = 110}}
street = {{type = "category", values = ["Rue de l'Église", "Main Street", "main"]}}
"home-town" = {{type = "category", values = ["here", "there"], source = "town"}}
smoker = {{type = "boolean", nullable = true}}
income = {{type = "number", edges = [0, 10000, 25000.5]}}
day = {{type = "date", min = 2025-01-01, max = 2025-01-14, step = "week"}}
grade = {{type = "category", values = [3, 1, 2]}}
"""
ROWS = """
CREATE TABLE secret_people AS SELECT
    CASE WHEN i % 3 = 0 THEN 'male' ELSE 'female' END AS sex, (i % 100)::BIGINT AS age,
    'main' AS street, 'here' AS town, CASE WHEN i % 5 < 4 THEN i % 2 = 0 END AS smoker,
    10.0 AS income, DATE '2025-01-02' AS day, 1 + i % 3 AS grade
FROM range(3000) t(i)
"""


@pytest.fixture(scope="session")
def known() -> Vocabulary:
    """What the shell knows of the town."""
    people = schema.loads(SCHEMA.format(source='table = "secret_people"'))
    return Vocabulary({people.name: people})


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with people.duckdb and people.toml, where alice has a grant; slow.toml counts for
    hours."""
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute(ROWS)
    (tmp_path / "people.toml").write_text(SCHEMA.format(source='table = "secret_people"'))
    slow = "SELECT p.* FROM secret_people p, range(2000000000) r(i) WHERE hash(p.age * i) = 1"
    (tmp_path / "slow.toml").write_text(SCHEMA.format(source=f'query = "{slow}"'))
    monkeypatch.chdir(tmp_path)
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_DEBUG", "DPSQL_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DPSQL_USER", "alice")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with dpsql.Ledger.open(tmp_path / "people.ledger") as ledger:
        ledger.grant("alice", dataset="people", epsilon=2)
    return tmp_path


@pytest.fixture
def sit() -> Iterator[Callable[..., Any]]:
    """Sit a person down at a terminal, where a command of Python's runs."""
    spec = importlib.util.spec_from_file_location("screens", Path(__file__).with_name("screens.py"))
    assert spec is not None and spec.loader is not None
    screens = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screens)
    found = []

    def seated(*arguments: Any, **options: Any) -> Any:
        found.append(screens.Typist(*arguments, **options))
        return found[-1]

    yield seated
    for typist in found:
        if typist.code is None:  # the test failed before it left
            os.kill(typist.child, signal.SIGKILL)
            typist.leave()
