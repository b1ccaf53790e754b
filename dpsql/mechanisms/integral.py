"""A sparse histogram in whole numbers, whose answers stay close to those of real ones.

Each entry is rounded, then one is raised or lowered, or one raised and another lowered, while that
brings the answers nearer: a local search for the closest lattice point in the norm of the noise.
Whatever is computed from the one histogram agrees to the last digit.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_WORK = 1 << 28  # pairs of entries that are looked at
_WORTH = 1e-9  # of the largest square of a column: what a move must gain


def integral(scaled: Floats, rows: Floats, total: int | None = None) -> Ints:
    """Whole numbers >= 0 near `rows`, (some,), of sum `total` where it is given.

    `scaled` are the columns, (k, some), each answer in units of its standard error.
    """
    near = np.rint(rows)
    found = np.maximum(near, 0.0)
    products = scaled.T @ scaled
    squares = np.diagonal(products).copy()
    slope = products @ (found - rows)
    while total is not None and (over := int(found.sum()) - total):
        sign = -1.0 if over > 0 else 1.0
        cost = sign * slope + squares / 2.0
        cost[(found < 1) & (sign < 0)] = np.inf
        at = int(np.argmin(cost))
        found[at] += sign
        slope += sign * products[at]
    worth = _WORTH * float(squares.max(initial=0.0))
    apart = (squares[:, None] + squares) / 2.0 - products
    for _ in range(min(4 * len(found), _WORK // max(len(found) ** 2, 1))):
        lower = np.where(found >= 1, squares / 2.0 - slope, np.inf)
        pairs = slope[:, None] + np.where(found >= 1, -slope, np.inf) + apart
        up, down = divmod(int(np.argmin(pairs)), len(found))
        best = float(pairs[up, down])
        moves = [(up, 1.0), (down, -1.0)]
        if total is None:
            raised = slope + squares / 2.0
            for cost, sign in ((raised, 1.0), (lower, -1.0)):
                at = int(np.argmin(cost))
                if cost[at] < best:
                    best, moves = float(cost[at]), [(at, sign)]
        if not best < -worth:
            break
        for at, sign in moves:
            found[at] += sign
            slope += sign * products[at]
    whole: Ints = found.astype(np.int64)
    return whole
