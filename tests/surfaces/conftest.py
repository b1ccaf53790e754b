"""Releases made by hand, for surfaces that only show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsql.release import Budget, Cost, Release

GRANT = Budget(
    Cost(0.08, 2.0, 1e-6), Cost(0.0008, 0.171, 1e-6), Cost(0.0792, 1.95, 1e-6), "alice", "adult"
)


def released(
    columns: tuple[str, ...] = ("sex", "n"),
    types: tuple[str, ...] = ("VARCHAR", "BIGINT"),
    rows: tuple[tuple[Any, ...], ...] = (("Female", 10771), ("Male", 21790)),
    half: tuple[float | None, ...] = (None, 47.0),
    **fields: Any,
) -> Release:
    """A release whose column i has the half-width `half[i]` in every row, None for a key."""

    def shifted(sign: int) -> tuple[tuple[float | None, ...], ...]:
        return tuple(
            tuple(
                None if h is None or value is None else float(value) + sign * h
                for value, h in zip(row, half, strict=True)
            )
            for row in rows
        )

    stderr = tuple(tuple(None if h is None else h / 2 for h in half) for _ in rows)
    standard: dict[str, Any] = {
        "confidence": 0.95,
        "backend": "gaussian",
        "price": Cost(0.0008, 0.171, 1e-6),
        "charged": Cost(0.0008, 0.171, 1e-6),
        "left": GRANT,
        "dataset": "adult",
    }
    standard |= fields
    return Release(
        columns=columns,
        types=types,
        rows=rows,
        stderr=stderr,
        low=standard.pop("low", shifted(-1)),
        high=standard.pop("high", shifted(1)),
        noisy=tuple(h is not None for h in half),
        **standard,
    )


@pytest.fixture
def release() -> Callable[..., Release]:
    return released
