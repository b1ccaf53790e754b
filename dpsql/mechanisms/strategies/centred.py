"""The best strategy for what an axis asks beyond its total: min tr(G X^+) max diag X, X 1 = 0.

G = C W'W C is the Gram matrix of the centred workload and X = Q'Q that of the strategy. With
R = (V^1/2 G V^1/2)^1/2 and X = V^-1/2 R V^-1/2, for any positive v the least value lies between
(tr R)^2 / sum v and tr R max(diag R / v); the optimum is where v = diag R (Denisov et al. 2022,
arXiv:2202.08312, sec. 3). G 1 = 0 gives X 1 = 0 for every v. The steps here are twice as long as
v <- diag R, which halves their number; the best X met is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from dpsql.mechanisms.strategies.axes import (
    Along,
    Floats,
    Identity,
    centred,
    centred_gram,
    means,
    quadratic,
)

Optimum: TypeAlias = Callable[[Floats], Floats]

_GAP = 1e-4  # of the least value
_STEPS = 200
_LEAST = 1e-9  # of the mean of v
_TOTAL = 1e-6  # of the largest diagonal entry
_RANK = 4e-15  # of the largest eigenvalue and for each value of the axis: less is nothing


def optimum(gram: Floats) -> Floats:
    """X of the best strategy for a Gram matrix, within 1e-4; its largest diagonal entry is 1.

    Shape (size, size). Raises ValueError for a Gram matrix that is zero.
    """
    kept = rank(gram)
    if not kept:
        raise ValueError("nothing is asked beyond the total")
    v = np.ones(len(gram))
    best, low, found = np.inf, 0.0, gram
    for _ in range(_STEPS):
        half = np.sqrt(v)
        values, vectors = (a[..., -kept:] for a in np.linalg.eigh(half[:, None] * gram * half))
        roots = np.sqrt(np.clip(values, 0.0, None))
        diagonal = (vectors * vectors) @ roots
        trace = float(roots.sum())
        low = max(low, trace**2 / float(v.sum()))
        high = trace * float((diagonal / v).max())
        if high < best:
            best = high
            found = ((vectors * roots) @ vectors.T) / half[:, None] / half
        if best <= low * (1 + _GAP):
            break
        v = diagonal**2 / v
        v = np.maximum(v / v.mean(), _LEAST)
    found = centred((found + found.T) / 2)
    scaled: Floats = found / np.diag(found).max()
    return scaled


def rank(gram: Floats) -> int:
    """The rank of a Gram matrix of centred whole weights."""
    values = np.linalg.eigvalsh(gram)
    return int((values > _RANK * len(gram) * max(values[-1], 1.0)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """An axis's answers by what they need: the total, and the rest.

    `mean` is (W 1/n)^2 and `rest` the variance of W C x from the best strategy at sensitivity 1
    and noise of variance 1; (answers,) both. Their sums are `u` and `g` of mechanisms' residual
    plans: identity 1/n and (n-1)^2/n, prefix (n+1)(2n+1)/(6n) and gamma_F^2(W C).
    """

    mean: Floats
    rest: Floats

    @property
    def u(self) -> float:
        return float(self.mean.sum())

    @property
    def g(self) -> float:
        return float(self.rest.sum())


@lru_cache(maxsize=256)
def split(along: Along, best: Optimum = optimum) -> Split:
    """The split of one axis; found once for each workload."""
    mean = means(along) ** 2
    if isinstance(along, Identity):
        return Split(mean, np.full(along.size, ((along.size - 1) / along.size) ** 2))
    if not rank(centred_gram(along)):
        return Split(mean, np.zeros(along.answers))
    values, vectors = spectrum(along, best)
    inner: Floats = (vectors / values) @ vectors.T
    return Split(mean, np.maximum(quadratic(along, inner), 0.0))


@lru_cache(maxsize=64)
def spectrum(along: Along, best: Optimum) -> tuple[Floats, Floats]:
    """Eigenvalues of the best X, ascending, and their eigenvectors, (size, rank); none is nothing.

    Raises ValueError where X sees the total.
    """
    gram = centred_gram(along)
    found = best(gram)
    if not np.abs(found.sum(axis=0)).max() <= _TOTAL:
        raise ValueError("a strategy for what is left without the total sees the total")
    values, vectors = np.linalg.eigh(found / np.diag(found).max())
    kept = rank(gram)
    return values[-kept:], vectors[:, -kept:]
