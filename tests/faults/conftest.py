"""The database that the tests of sources break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.sources import made


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return made(tmp_path)
