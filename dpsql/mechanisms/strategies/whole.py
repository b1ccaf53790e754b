"""One table of whole numbers from an estimate of real ones, keeping measured sums close.

Atom by atom a value is rounded up or down, whichever leaves the rows that the atom is in nearer to
what the estimate says of them (a greedy choice in a discrepancy problem; Spencer 1977). Whatever
is computed from the one table agrees to the last digit, and the error of each sum is known.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.reuse.design import Design

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

GREEDY = 1 << 14  # atoms; more are rounded so that all sums from the first one on are near
_PASSES = 2
_CLUSTER, _MOVES = 128, 12  # atoms that are moved in pairs, and how often


def whole(design: Design, table: Floats, precisions: list[float]) -> Ints:
    """The table, rounded; or several, along the last axis."""
    low = np.floor(table)
    rest = table - low
    base: Ints = low.astype(np.int64)
    if not rest.any():
        return base
    if table.shape[-1] > GREEDY:
        return np.diff(np.rint(np.cumsum(table, axis=-1)), prepend=0.0, axis=-1).astype(np.int64)
    starts = np.cumsum([0, *(f.met for f in design.families)])[:-1]
    rows = np.stack(
        [np.where(g >= 0, g + s, -1) for g, s in zip(design.groups, starts, strict=True)], axis=1
    )
    weights = np.stack(design.weights, axis=1).astype(np.float64)
    scale = np.array(precisions)
    heaviest = (weights**2 * scale).sum(axis=1)
    order = np.argsort(-heaviest, kind="stable")
    scale = scale / max(float(scale.max()), 1e-300)
    found = np.zeros(table.shape, np.int64)
    if table.ndim == 1:
        found[order] = _greedy(
            rows[order].tolist(), weights[order].tolist(), rest[order].tolist(), scale.tolist()
        )
        found += base
        one: Ints = _mended(design, found[None], table[None], precisions)[0]
        return one
    found[:, order] = _several(rows[order], weights[order], rest[:, order], scale)
    found += base
    return _mended(design, found, table, precisions)


def alike(design: Design) -> bool:
    """Whether the atoms of a row count the same in it: then none are moved in pairs."""
    heavy = np.stack(design.weights, axis=1)
    return bool((heavy == np.where(heavy != 0, heavy.max(axis=0), 0)).all())


def _mended(design: Design, found: Ints, tables: Floats, precisions: list[float]) -> Ints:
    """The same (tables, atoms), atoms of the same rows moved in pairs while that brings the rows'
    sums nearer.

    Where weights differ, as in a sum of values, one up and one down moves a sum by a little.
    """
    if alike(design):
        return found
    groups = np.stack(design.groups, axis=1)
    clusters = np.unique(groups, axis=0, return_inverse=True)[1].reshape(-1)
    heavy = np.stack(design.weights, axis=1).astype(np.float64)
    scale = np.array(precisions)
    scale = scale / scale.max()
    off = []  # of each row of each family
    for at, family in enumerate(design.families):
        inside = groups[:, at] >= 0
        each = (heavy[:, at] * (found - tables))[:, inside]
        off.append(np.stack([np.bincount(groups[inside, at], e, family.met) for e in each]))
    all_ = np.arange(len(found))
    for cluster in range(int(clusters.max()) + 1):
        atoms = np.flatnonzero(clusters == cluster)[:_CLUSTER]
        kinds = np.flatnonzero(groups[atoms[0]] >= 0)
        rows = groups[atoms[0]][kinds]
        own, worth = heavy[atoms][:, kinds], scale[kinds]
        apart = own[:, None, :] - own[None, :, :]
        square = (worth * apart**2).sum(axis=2)
        least = -1e-9 * max(float(square.max()), 1e-300)
        rest = np.stack([off[k][:, row] for k, row in zip(kinds, rows, strict=True)], axis=1)
        moved = all_
        for _ in range(_MOVES):
            change = 2.0 * np.einsum("udk,tk->tud", apart, worth * rest[moved]) + square
            best = change.reshape(len(moved), -1).argmin(axis=1)
            up, down = np.divmod(best, len(atoms))
            better = change[np.arange(len(moved)), up, down] < least
            moved, up, down = moved[better], up[better], down[better]
            if not len(moved):
                break
            found[moved, atoms[up]] += 1
            found[moved, atoms[down]] -= 1
            rest[moved] += apart[up, down]
        for place, (k, row) in enumerate(zip(kinds, rows, strict=True)):
            off[k][:, row] = rest[:, place]
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


def _several(rows: Ints, weights: Floats, rest: Floats, scale: Floats) -> Ints:
    """The same for several tables (tables, atoms)."""
    off = np.zeros((int(rows.max()) + 1, len(rest)))
    up = np.zeros(rest.shape[::-1])
    parts = []
    for line, heavy in zip(rows, weights, strict=True):
        inside = line >= 0
        own = heavy[inside]
        parts.append((line[inside], own, own * scale[inside]))
    for turn in range(_PASSES):
        for atom, ((row, w, ws), over) in enumerate(zip(parts, rest.T, strict=True)):
            before = off[row]
            if turn:
                before -= np.multiply.outer(w, up[atom] - over)
            pull = ws @ before + float(ws @ w) * (0.5 - over)
            up[atom] = (over > 0.0) & (pull < 0.0)
            off[row] = before + np.multiply.outer(w, up[atom] - over)
    return up.T.astype(np.int64)
