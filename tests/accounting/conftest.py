"""Ledgers in every book."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Ledger]:
    """A function that opens the same ledger again, except in memory."""
    if request.param == "memory":
        return Ledger.memory
    if request.param == "sqlite":
        return lambda: Ledger.open(tmp_path / "a.ledger")
    address: str = request.getfixturevalue("address")
    return lambda: Ledger.open(address)


@pytest.fixture
def ledger(opener: Callable[[], Ledger]) -> Iterator[Ledger]:
    with opener() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a durable ledger can be made: a path, or an address."""
    if request.param == "sqlite":
        return str(tmp_path / "a.ledger")
    found: str = request.getfixturevalue("address")
    return found


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that interrupt each other after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
