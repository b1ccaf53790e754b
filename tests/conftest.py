"""What several rooms' tests share: the shape of printed output, and a PostgreSQL server."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def masked(text: str) -> list[str]:
    """The lines of a text with every number as `#`, rules and runs of spaces cut short."""
    found = []
    for line in text.strip().splitlines():
        line = _NUMBER.sub("#", line)
        line = re.sub(r"─+", "─", re.sub(r"[█░]+", "█", line))
        found.append(re.sub(r" +", " ", line).rstrip())
    return found


@pytest.fixture(autouse=True)
def _ctrl_c_arrives() -> None:
    """A shell starts a background job with Ctrl-C ignored, and a test's children inherit that."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _afresh() -> None:
    """Sessions buy afresh unless `reuse` is given: laws of noise and price need many answers."""
    from dpsql.session.settings import Settings

    first, defaults = Settings.__init__, Settings.__init__.__defaults__
    assert defaults is not None and defaults[-1] is True, "reuse is the last setting, and on"
    first.__defaults__ = (*defaults[:-1], False)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Strategies are looked for afresh, and none is left in the cache of whoever runs the tests."""
    os.environ["DPSQL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def shape() -> Callable[[str], list[str]]:
    """Text to the lines that stay when numbers change."""
    return masked


def _servers() -> ModuleType:
    """The module beside this one, which no path leads to."""
    spec = importlib.util.spec_from_file_location("servers", Path(__file__).with_name("servers.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server; `fresh()` gives the address of an empty schema in it."""
    with _servers().running() as server:
        yield server


@pytest.fixture
def address(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where no ledger is yet; its key and its anchor come to lie in the test's own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found: str = postgres.fresh()
    return found
