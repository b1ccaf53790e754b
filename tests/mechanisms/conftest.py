"""Names of test cases."""

from __future__ import annotations

from typing import Any


def pytest_make_parametrize_id(config: Any, val: object) -> str | None:
    return str(val) if isinstance(val, (list, tuple)) and len(str(val)) < 40 else None
