"""The projection mechanism: the answers that a histogram can give, nearest to noisy ones.

Nikolov, Talwar, Zhang, "The Geometry of Differential Privacy: the Sparse and Approximate Cases"
(STOC 2013): of noisy answers y with standard errors d, the point W p with p >= 0 over the distinct
columns of W, and sum p = n where n is public, that minimises f(p) = |D (W p - y)|^2 / 2, D = 1 / d.
The set of these points is convex and holds the true answers, so in that norm the projection errs no
more than y does, whatever the noise was; for n rows the mean square error of an answer is
O(n d sqrt(ln columns)), however many answers there are.

Found by Frank-Wolfe in its fully corrective form (`nearest`): each round looks at every column,
those that bring W p nearer enter, and p over all that have entered is fitted anew (`active`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.active import Active
from dpsql.query.distinct import Distinct, distinct
from dpsql.query.linear import Workload

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

QUERIES = 1 << 10
COLUMNS = 1 << 21
WORK = 1 << 29  # columns times queries
GAP = 1e-3  # of f, for each answer
_ENTER = 256  # columns a round at most
_ROUNDS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A histogram on few columns of W: `rows` > 0 of each of `columns`, whole numbers, (k, some).

    `gap` bounds f(p) - f(optimum), the optimum of all histograms with as many rows as are public,
    or else of all with at most twice as many as this one. Since f is 1-strongly convex in D W p,
    the answers are within sqrt(2 gap / k) standard errors of the nearest ones, root mean square.
    """

    columns: Ints
    rows: Floats
    gap: float


def listed(workload: Workload) -> Distinct:
    """The distinct columns of W. Raises UsageError where they are more than are looked at."""
    if workload.size > QUERIES:
        raise UsageError(
            f"postprocess = projection explains at most {QUERIES:,} counts and sums by one table; "
            f"here are {workload.size:,}: ask for fewer groups at once, or SET postprocess = none"
        )
    most = min(COLUMNS, WORK // max(workload.size, 1))
    found = distinct(workload, most)
    if found is None:
        raise UsageError(
            f"postprocess = projection looks at {most:,} ways to count a row at most, and these "
            "conditions tell more apart: mention fewer columns or fewer different limits at once, "
            "or SET postprocess = none"
        )
    return found


def nearest(columns: Distinct, noisy: Floats, stderr: Floats, total: int | None = None) -> Sparse:
    """The histogram whose answers are nearest to noisy ones, (k,), with these standard errors.

    An answer whose standard error is 0 has no say: nobody counts in it.
    """
    known = stderr > 0
    digits = [float(f"{error:.12g}") for error in stderr]  # a last bit must not turn a tie
    scale = np.where(known, 1.0 / np.where(known, digits, 1.0), 0.0)
    target = noisy * scale
    squares = columns.products(scale**2, squared=True)
    if total is not None:  # of the points n D w - D y, the nearest to 0 is looked for
        away = total * squares - 2.0 * columns.products(target * scale) + target @ target / total
        squares = np.maximum(away, 0.0)
    sizes = np.sqrt(np.where(squares > 0, squares, np.inf))
    active = Active(target, total)
    picked = np.zeros(0, np.int64)
    gap, rounds = math.inf, 0
    while True:
        gains = columns.products(active.rest() * scale)
        own = float(active.rows @ active.gains())
        most = total if total is not None else 2.0 * float(active.rows.sum())
        gap = max(most * float(gains.max(initial=0.0 if total is None else -np.inf)) - own, 0.0)
        if len(picked) and (gap <= GAP * len(noisy) or rounds == _ROUNDS):
            break
        rounds += 1
        level = 0.0 if total is None else own / total
        entering = _best_of_runs((gains - level) / sizes)
        if total is not None and not len(picked):
            entering = np.array([int(np.argmax(gains))])
        if not len(entering):
            break
        chosen = np.concatenate([picked, entering])
        kept = active.enter(columns.columns(entering) * scale[:, None])
        if np.array_equal(chosen[kept], picked):
            break  # as near as floats tell
        picked = chosen[kept]
    return Sparse(columns.columns(picked).astype(np.int64), active.rows, gap)


def _best_of_runs(gains: Floats) -> Ints:
    """The best column of each of so many runs of columns, where it is better than none.

    Neighbours are much alike, so the best of all would say the same thing many times.
    """
    runs = min(_ENTER, len(gains))
    length = -(-len(gains) // max(runs, 1))
    padded = np.full(runs * length, -np.inf)
    padded[: len(gains)] = gains
    best = padded.reshape(runs, length).argmax(axis=1) + np.arange(runs) * length
    found: Ints = best[padded[best] > 0]
    return found
