"""The best covariance of the noise on k answers over a huge universe, by column generation.

The matrix mechanism seen from the answers (Edmonds, Nikolov, Ullman 2020; the dual ellipsoid of
Nikolov, Talwar, Zhang 2013): noise N(0, S) on W h has sensitivity max_x (w_x' S^-1 w_x)^1/2 over
the columns w_x of W, so

    minimise tr S subject to w_x' S^-1 w_x <= 1 for every column w_x.

With weights v on columns, S = (W V W')^1/2 and w_x' S^-1 w_x = d_x / v_x of `spectrum.py`; a bound
on the least tr S over some columns is one over all. Few columns bind, so the problem is solved on
some, and columns that violate it are added. Columns that one look at the universe gave are a pool
that is tried first. S is scaled by the bound over *every* column that the universe gives.

Weights w on queries scale the rows of W by w^1/2. For the least largest variance the weights are
the dual's, and multiplied by a power of the variances as in `largest.py`.

What is released is an integer strategy whose sensitivity is computed anew (`curator/mixed.py`):
nothing private rests on this file.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.ascent import ascend
from dpsql.mechanisms.strategies.spectrum import EPS, Floats, floored, of_columns
from dpsql.mechanisms.strategies.universe import Universe, lengths, triangle

_ABSENT = 1e-14  # of the largest eigenvalue: lent to directions that no known column has
_CHEAP = 60  # steps before Newton's, or
_SHORT = 10  # where columns are
_FEW = 800  # at most, which Newton's take
_UNUSED, _FINER = 0.06, 4  # a column's weight, relative to the mean, below which it is dropped:
# that, or so many times the gap
_NEW = 0.2  # the weight of a new column, relative to the mean, in the first round; then half of it
_FAINT = 0.01  # again and again down to this: one that is dropped does not come back as it was
_ADDED = 10  # columns that are added at a time, for each query
_ROUNDS = 400


@dataclass(frozen=True, slots=True)
class NoiseCovariance:
    """Noise on k answers; errors are for max_x w_x' S^-1 w_x = 1.

    `matrix` is S (k, k), `root` is T (rank, k) with T'T the inverse of S on the span of the
    columns: T W h has sensitivity 1. `rmse` is the root of the mean variance, by weights if there
    are any, or of the largest; no covariance has less than `lower`. `certificate` is the bound on
    w' S^-1 w over every column by which S has been scaled. `columns` bind, or nearly.
    """

    matrix: Floats
    root: Floats
    lower: float
    rmse: float
    certificate: float
    columns: int
    rounds: int

    def __post_init__(self) -> None:
        if not bool(np.isfinite(self.matrix).all() and np.isfinite(self.root).all()):
            raise ValueError("a covariance is finite")
        if not 0 < self.lower <= self.rmse * (1 + 1e-9):
            raise ValueError("an error is above 0 and not below its bound")
        if not self.certificate > 0:
            raise ValueError("a certificate is above 0")

    @property
    def gap(self) -> float:
        """How far the error may be above the least possible, relative."""
        return max(0.0, self.rmse / self.lower - 1)


def noise_covariance(
    universe: Universe,
    queries: int,
    *,
    weights: NDArray[np.generic] | None = None,
    largest: bool = False,
    gap: float = 5e-3,
    seconds: float = math.inf,
) -> NoiseCovariance:
    """The covariance of least mean variance, or least `largest` variance, of so many answers.

    `weights` (queries,) are above 0 and make the mean a weighted one. It stops within a relative
    gap of the error, or at the first certificate after `seconds`.
    """
    if largest and weights is not None:
        raise UsageError("a largest error has no weights on queries")
    if not gap > 0:
        raise UsageError("a gap is above 0")
    shares = np.ones(queries) if weights is None else np.asarray(weights, np.float64)
    if shares.shape != (queries,) or not bool((shares > 0).all() and np.isfinite(shares).all()):
        raise UsageError("every query has a finite weight, above 0")
    shares = shares / shares.sum()
    until = time.monotonic() + seconds
    pool = universe(np.eye(queries)).columns
    active = _Active(pool, np.ones(pool.shape[1]))
    lower, best, close, new = 0.0, None, 0.05, _FAINT if largest else _NEW
    for rounds in range(1, _ROUNDS + 1):
        root = np.sqrt(shares)[:, None]
        active, bound = _settled(active, root, max(min(close, 0.1), gap / 2), until)
        lower = max(lower, bound)
        noise, precision = _covariance(root * active.columns, active.weights)
        precision = precision * root * root.T
        late = time.monotonic() >= until
        norms = _norms(precision, pool)
        if float(norms.max()) > 1 + max(gap, close) and rounds > 1 and not late:
            active = active.joined(pool, norms, _ADDED * queries, new)
            new = max(new / 2, _FAINT)
            continue
        seen = universe(precision)
        variances = np.diagonal(noise) / shares * seen.bound
        error = math.sqrt(float(variances.max() if largest else shares @ variances))
        if best is None or error < best[0]:
            best = error, noise * seen.bound, root, seen.bound
        close = error / math.sqrt(lower) - 1
        if close <= gap or late:
            break
        pool = seen.columns
        active = active.joined(pool, _norms(precision, pool), _ADDED * queries, new)
        new = max(new / 2, _FAINT)
        if largest:
            shares = shares * variances / float(shares @ variances)
            shares = np.maximum(shares, 1e-9 / queries)
            shares = shares / shares.sum()
    if best is None:
        raise UsageError("no covariance has been certified in time; more time or a wider gap does")
    error, noise, root, bound = best
    return NoiseCovariance(
        noise / (root * root.T),
        _root(noise, root, active.columns),
        math.sqrt(lower),
        max(error, math.sqrt(lower)),
        bound,
        active.columns.shape[1],
        rounds,
    )


@dataclass(frozen=True, slots=True)
class _Active:
    """Columns (queries, some) that may bind, and their weights."""

    columns: Floats
    weights: Floats

    def joined(self, columns: Floats, norms: Floats, most: int, new: float) -> _Active:
        """With columns whose norms are above 1, evenly from the largest down, one at the least, of
        `new` times the mean weight."""
        known = {column.tobytes() for column in _rows(self.columns)}
        order = np.argsort(-norms, kind="stable")
        above = max(1, int((norms > 1).sum()))
        picked, kept = order[: above : max(1, above // most)], []
        for at, column in zip(picked, _rows(columns[:, picked]), strict=True):
            key = column.tobytes()
            if key not in known:
                known.add(key)
                kept.append(at)
        weight = new * float(self.weights.mean()) if len(self.weights) else 1.0
        return _Active(
            np.hstack([self.columns, columns[:, kept]]),
            np.concatenate([self.weights, np.full(len(kept), weight)]),
        )


def _rows(columns: Floats) -> NDArray[np.int64]:
    """Whole numbers (queries, columns) as rows (columns, queries)."""
    return np.ascontiguousarray(columns.T, np.int64)


def _settled(active: _Active, root: Floats, gap: float, until: float) -> tuple[_Active, float]:
    """The best weights on some columns within a gap, without columns of no weight, and the dual.

    First cheap steps v <- v (d / v)^p. The power grows as long as the dual does: where it falls,
    the step is taken back. Then Newton's on the columns that are left, unless they are too many.
    """
    inner = root * active.columns
    picked, weights, lower, power = np.arange(inner.shape[1]), active.weights, 0.0, 2.0
    kept, best, excess = picked, weights, np.zeros(0)
    for step in range(_CHEAP):
        if step >= _SHORT and len(kept) <= _FEW:
            break
        tried = _looked(inner[:, picked], weights)
        if tried.lower >= lower * (1 - 1e-9) or not step:
            kept, best, excess = picked, tried.weights, tried.excess
            power = min(power * 1.2, 40.0)
        else:
            power = max(1.0, power / 3)
        lower = max(lower, tried.lower)
        if float(excess.max()) <= 1 + gap or time.monotonic() >= until:
            return _Active(active.columns[:, kept], best), lower
        weights = floored(best * np.clip(excess**power, 1e-3, 1e3))
        keep = (weights > min(_UNUSED, _FINER * gap) * weights.mean()) | (excess > 1)
        picked, weights = kept[keep], weights[keep]
    if len(kept) > _FEW:
        return _Active(active.columns[:, kept], best), lower
    inner = np.ascontiguousarray(inner[:, kept])
    found = ascend(lambda v: of_columns(inner, v), best, gap=gap / 2, until=until, most=20)
    return _Active(active.columns[:, kept], found.last.weights), max(lower, found.lower)


class _Look(NamedTuple):
    """What a cheap step needs of a spectrum: its weights, excess and lower bound."""

    weights: Floats
    excess: Floats
    lower: float


def _looked(columns: Floats, weights: Floats) -> _Look:
    """What `of_columns` finds, but d / v = w' (W V W')^-1/2 w in single precision: it tells which
    way to go, and what is bounded rests on the rest."""
    half = columns * np.sqrt(weights)
    values, vectors = np.linalg.eigh(half @ half.T)
    keep = values > 4 * len(values) * EPS * values[-1]
    roots = np.sqrt(values[keep])
    total, times = float(roots.sum()), float(roots.sum() / weights.sum())
    single = triangle((vectors[:, keep] / np.sqrt(roots)).T)
    excess = lengths(single, columns.astype(np.float32)).astype(np.float64)
    return _Look(weights * times**2, excess / times, total**2 / float(weights.sum()))


def _norms(precision: Floats, columns: Floats) -> Floats:
    """w' P w of columns w."""
    found: Floats = np.einsum("ij,ij->j", precision @ columns, columns)
    return found


def _covariance(columns: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """S = (W V W')^1/2 and S^-1, where directions without a column have next to no noise."""
    half = columns * np.sqrt(weights)
    values, vectors = np.linalg.eigh(half @ half.T)
    roots = np.sqrt(np.maximum(values, _ABSENT * values[-1]))
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T


def _root(noise: Floats, root: Floats, columns: Floats) -> Floats:
    """T: the symmetric root of S^-1, or its rows on the span of the columns where that is less.

    S is `noise` on weighted queries, what lies off the span left out: weights would enlarge that.
    """
    least = max(columns.shape) * float(np.finfo(np.float64).eps)
    rank = int(np.linalg.matrix_rank(np.linalg.qr(columns.T, mode="r"), rtol=least))
    values, vectors = np.linalg.eigh(noise)
    inner = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
    values, vectors = np.linalg.eigh(inner / (root * root.T))
    some = vectors[:, -rank:].T / np.sqrt(values[-rank:])[:, None]
    return np.asarray(some if rank < len(values) else vectors @ some, np.float64)
