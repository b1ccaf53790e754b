"""The published tables in one DuckDB file, with a session whose noise vanishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session
from tests.cases.published import NAMES, Published


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DuckDB file of the ten published tables."""
    path = tmp_path_factory.mktemp("published") / "published.duckdb"
    data = Path(__file__).parents[2] / "examples" / "data"
    with duckdb.connect(str(path)) as made:
        for name in NAMES:
            made.execute(f"CREATE TABLE {name} AS FROM read_parquet('{data / name}.parquet')")
    return path


@pytest.fixture(scope="session")
def published(database: Path) -> Iterator[Published]:
    """The published tables, as DuckDB and as dpsql see them."""
    with Published(database) as found:
        yield found


@pytest.fixture(scope="session")
def session(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that can pay for answers without noise; its ledger is a file."""
    with _opened(database, tmp_path_factory.mktemp("ledger") / "published.ledger") as found:
        yield found


@pytest.fixture(scope="session")
def reusing(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The same, of a user who reads earlier answers again, as is the default."""
    path = tmp_path_factory.mktemp("reusing") / "published.ledger"
    with _opened(database, path, reuse=True) as found:
        yield found


def _opened(database: Path, path: Path, *, reuse: bool = False) -> Session:
    with Ledger.open(path) as ledger:
        for name in NAMES:
            ledger.grant("alice", dataset=name, epsilon=1e6)
    schemas = Path(__file__).parents[2] / "schemas"
    return Session(database, schema=schemas, user="alice", ledger=path, settings={"reuse": reuse})
