"""A town whose people are asked about, in files that can be made to grow."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session
from tests.rows import fill

Row = tuple[object, ...]
SCHEMA = """
dataset = "town"
{head}
[source]
table = "people"

[columns]
sex = {{type = "category", values = ["female", "male"]}}
region = {{type = "category", values = ["N", "E", "S", "W"]}}
age = {{type = "integer", min = 0, max = 9}}
month = {{type = "integer", min = 1, max = 12}}
smoker = {{type = "boolean", nullable = true}}
"""


def people(count: int, seed: int, month: int | None = None) -> list[Row]:
    draw = random.Random(seed)
    return [
        (
            draw.choice(["female", "male"]),
            draw.choice("NESW"),
            draw.randrange(10),
            draw.randint(1, 12) if month is None else month,
            draw.choice([True, False, None]),
        )
        for _ in range(count)
    ]


class Town:
    """Databases of the same table in one folder, and one ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger.memory()

    def database(self, name: str, rows: Iterable[Row], head: str = 'unit = "row"') -> Path:
        path = self.folder / f"{name}.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as made:
            made.execute(
                "CREATE TABLE people (sex TEXT, region TEXT, age INT, month INT, smoker BOOLEAN)"
            )
            fill(made, "people", rows)
        path.with_suffix(".toml").write_text(SCHEMA.format(head=head))
        return path

    def open(self, path: Path, user: str = "alice", ledger: Ledger | None = None) -> Session:
        return Session(path, user=user, ledger=ledger or self.ledger)

    def spent(self, user: str = "alice") -> int:
        return self.ledger.balance(user, "town").spent_rho


@pytest.fixture
def town(tmp_path: Path) -> Town:
    made = Town(tmp_path)
    made.ledger.grant("alice", dataset="town", epsilon=100)
    return made


@pytest.fixture
def crowd() -> Callable[..., list[Row]]:
    return people


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    places = {"memory": None, "sqlite": str(tmp_path / "a.ledger")}
    if request.param == "postgres":
        places["postgres"] = request.getfixturevalue("address")
    place = places[request.param]
    with Ledger.memory() if place is None else Ledger.open(place) as opened:
        for user in ("alice", "bob", "carol"):
            opened.grant(user, dataset="town", epsilon=100)
        yield opened


@pytest.fixture
def path(town: Town, crowd: Callable[..., list[Row]]) -> Path:
    found: Path = town.database("a", crowd(400, 1))
    return found
