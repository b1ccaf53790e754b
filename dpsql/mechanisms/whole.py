"""One table of whole numbers from an estimate of real ones, keeping measured sums close.

Atom by atom a value is rounded up or down, whichever leaves the rows that the atom is in nearer to
what the estimate says of them (a greedy choice in a discrepancy problem; Spencer 1977). Whatever
is computed from the one table agrees to the last digit, and the error of each sum is known.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.design import Design

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

GREEDY = 1 << 14  # atoms; more are rounded so that all sums from the first one on are near
_PASSES = 2


def whole(design: Design, table: Floats, precisions: list[float]) -> Ints:
    """The table, rounded."""
    low = np.floor(table)
    rest = table - low
    base: Ints = low.astype(np.int64)
    if not rest.any():
        return base
    if len(table) > GREEDY:
        return np.diff(np.rint(np.cumsum(table)), prepend=0.0).astype(np.int64)
    starts = np.cumsum([0, *(len(f.origin) for f in design.families)])[:-1]
    rows = np.stack(
        [np.where(g >= 0, g + s, -1) for g, s in zip(design.groups, starts, strict=True)], axis=1
    )
    weights = np.stack(design.weights, axis=1).astype(np.float64)
    scale = np.array(precisions)
    heaviest = (weights**2 * scale).sum(axis=1)
    order = np.argsort(-heaviest, kind="stable")
    scale = scale / max(float(scale.max()), 1e-300)
    up = _greedy(
        rows[order].tolist(), weights[order].tolist(), rest[order].tolist(), scale.tolist()
    )
    found = np.zeros(len(table), np.int64)
    found[order] = up
    return base + found


def _greedy(
    rows: list[list[int]], weights: list[list[float]], rest: list[float], scale: list[float]
) -> list[int]:
    """0 or 1 for each atom: whether it is rounded up."""
    off: dict[int, float] = {}  # of each row: what rounding has added so far
    parts = [
        [(row, w, w * s) for row, w, s in zip(line, heavy, scale, strict=True) if row >= 0]
        for line, heavy in zip(rows, weights, strict=True)
    ]
    up = [0] * len(rest)
    for turn in range(_PASSES):
        moved = False
        for atom, (part, over) in enumerate(zip(parts, rest, strict=True)):
            if turn:
                before = up[atom]
                for row, w, _ in part:
                    off[row] -= (before - over) * w
            pull = square = 0.0
            for row, w, ws in part:
                pull += ws * off.get(row, 0.0)
                square += ws * w
            choice = 1 if over > 0.0 and pull + square * (0.5 - over) < 0.0 else 0
            for row, w, _ in part:
                off[row] = off.get(row, 0.0) + (choice - over) * w
            moved = moved or choice != up[atom]
            up[atom] = choice
        if not moved:
            break
    return up
