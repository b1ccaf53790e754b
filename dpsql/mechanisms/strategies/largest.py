"""The strategy whose largest error over the queries is least: gamma_2 of the workload.

Haagerup's factorization norm: over weights u on queries and v on cells that sum to 1 each,

    gamma_2(W) = max || U^1/2 W V^1/2 ||_*   (Lee, Shraibman, Spalek 2008)

and any such u, v give a bound from below. With G = W' U W, the X of `spectrum.py` at v has
variances q_i = w_i X^-1 w_i', and the largest of q times that of diag X is a bound from above on
the square. At the optimum u q is in proportion to u, and d to v: u is multiplied by a power of q,
v takes three quarters of a Newton step. The power is 3, which takes a third of the steps that 1
does; where the dual falls, the step is taken back and tried with half of it, damped more: of more
cells than queries many have next to no curvature, and a step would be as long as it may be.
"""

from __future__ import annotations

import math
import time

import numpy as np

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.ascent import by_largest
from dpsql.mechanisms.strategies.optimum import Optimum, atoms, checked, spread
from dpsql.mechanisms.strategies.rows import Rows
from dpsql.mechanisms.strategies.spectrum import Floats, Spectrum, of_gram

_POWER = 3.0
_DAMPING, _MOST = 1e-3, 10.0
_FRESH = 4  # steps that share a curvature, which costs more than they
_LEAST = 1e-12  # a weight on a query, relative to the mean


def smallest_largest(
    rows: Rows, *, gap: float = 5e-3, seconds: float = math.inf, most: int = 400
) -> Optimum:
    """The strategy of least largest error over the queries, within a relative gap.

    It stops after the first step past `seconds`, or `most` eigendecompositions.
    """
    if not gap >= 0:
        raise UsageError("a gap is not below 0")
    until = time.monotonic() + seconds
    queries = np.full(rows.count, 1 / rows.count)
    cells, column = atoms(checked(rows.gram(queries)))
    square = np.ix_(cells, cells)
    weights = np.full(len(cells), 1 / len(cells))
    lower, upper, power, kept = 0.0, math.inf, _POWER, None
    matrix, curvature, damping = np.zeros((1, rows.cells)), None, _DAMPING
    for iterations in range(1, most + 1):
        spectrum = of_gram(np.ascontiguousarray(rows.gram(queries)[square]), weights)
        dual = math.sqrt(spectrum.lower)  # the nuclear norm, as v sums to 1 before it is scaled
        variances, value, divisors = _largest(rows, cells, spectrum)
        if value < upper:
            upper, matrix = value, _matrix(spectrum, divisors)
        if dual >= lower * (1 - 1e-9) or kept is None:
            kept, power = (queries, spectrum, variances), _POWER
            damping = max(damping / 4, _DAMPING)
        else:
            power = max(power / 2, 0.25)
            damping = min(damping * 8, _MOST)
        lower = max(lower, dual)
        if upper / lower - 1 <= gap or time.monotonic() >= until:
            break
        before, spectrum, variances = kept
        queries = before * (variances / float(before @ variances)) ** power
        queries = np.maximum(queries / queries.sum(), _LEAST / rows.count)
        queries /= queries.sum()
        if curvature is None or iterations % _FRESH == 0:
            curvature = spectrum.curvature()
        weights = spectrum.stepped(curvature, damping, power / 4)
        weights /= weights.sum()
    return Optimum(spread(matrix, column), lower, max(upper, lower), iterations)


def _largest(
    rows: Rows, cells: np.ndarray[tuple[int], np.dtype[np.int64]], spectrum: Spectrum
) -> tuple[Floats, float, Floats]:
    """Each query's variance at X, and the largest error where X is scaled the better of two ways.

    Columns scaled to norm 1 each keep the row space only where X has full rank.
    """
    root = np.sqrt(spectrum.weights)
    inverse = (spectrum.vectors / spectrum.roots) @ spectrum.vectors.T * root[:, None] * root
    whole = np.zeros((rows.cells, rows.cells))
    square = np.ix_(cells, cells)
    whole[square] = inverse
    variances = np.maximum(rows.variances(whole), 0)
    divisors = by_largest(spectrum)[1]
    value = math.sqrt(float(variances.max())) * float(divisors[0])
    if len(spectrum.roots) == len(cells):
        norms = np.sqrt(spectrum.excess)
        whole[square] = inverse * norms[:, None] * norms
        other = math.sqrt(float(rows.variances(whole).max()))
        if other < value:
            return variances, other, norms
    return variances, value, divisors


def _matrix(spectrum: Spectrum, divisors: Floats) -> Floats:
    """M (rank, atoms) with columns of norm at most 1."""
    found: Floats = (
        np.sqrt(spectrum.roots)[:, None]
        * spectrum.vectors.T
        / (np.sqrt(spectrum.weights) * divisors)
    )
    return found / max(1.0, math.sqrt(float((found**2).sum(0).max())))
