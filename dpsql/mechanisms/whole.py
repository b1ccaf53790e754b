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
_CLUSTER, _MOVES = 128, 12  # atoms that are moved in pairs, and how often


def whole(design: Design, table: Floats, precisions: list[float]) -> Ints:
    """The table, rounded."""
    low = np.floor(table)
    rest = table - low
    base: Ints = low.astype(np.int64)
    if not rest.any():
        return base
    if len(table) > GREEDY:
        return np.diff(np.rint(np.cumsum(table)), prepend=0.0).astype(np.int64)
    starts = np.cumsum([0, *(f.met for f in design.families)])[:-1]
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
    return _mended(design, base + found, table, precisions)


def _mended(design: Design, found: Ints, table: Floats, precisions: list[float]) -> Ints:
    """The same, atoms of the same rows moved in pairs while that brings the rows' sums nearer.

    Where weights differ, as in a sum of values, one up and one down moves a sum by a little.
    """
    alike = np.unique(np.stack(design.groups, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    heavy = np.stack(design.weights, axis=1).astype(np.float64)
    if (heavy == np.where(heavy != 0, heavy.max(axis=0), 0)).all():
        return found
    scale = np.array(precisions)
    scale = scale / scale.max()
    off = []  # of each row of each family
    for family, groups, weights in zip(design.families, design.groups, design.weights, strict=True):
        inside = groups >= 0
        each = (weights * (found - table))[inside]
        off.append(np.bincount(groups[inside], each, family.met))
    for cluster in range(int(alike.max()) + 1):
        atoms = np.flatnonzero(alike == cluster)[:_CLUSTER]
        rows = [(k, int(g[atoms[0]])) for k, g in enumerate(design.groups) if g[atoms[0]] >= 0]
        kinds = np.array([k for k, _ in rows])
        own, worth = heavy[atoms][:, kinds], scale[kinds]
        apart = own[:, None, :] - own[None, :, :]
        square = (worth * apart**2).sum(axis=2)
        for _ in range(_MOVES):
            rest = np.array([off[k][row] for k, row in rows])
            change = 2.0 * (apart @ (worth * rest)) + square
            best = int(np.argmin(change))
            up, down = divmod(best, len(atoms))
            if not change[up, down] < -1e-9 * max(float(square.max()), 1e-300):
                break
            found[atoms[up]] += 1
            found[atoms[down]] -= 1
            for place, (k, row) in enumerate(rows):
                off[k][row] += apart[up, down, place]
    return found


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
