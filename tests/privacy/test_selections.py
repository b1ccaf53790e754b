"""Audits of selections: exact chances on neighbouring scores, and what the product really draws.

The chances come by another road: a softmax for the exponential mechanism, an integral over the
largest noise for the noisy maximum.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom, chi2

from dpsql.accounting.events import PICO, Exponential, NoisyMax
from dpsql.curator import select

COUNT, ALARM = 20_000, 5e-7

Scores = Sequence[int]
LAWS = {NoisyMax: select.noisy_max, Exponential: select.exponential}


def softmax(scores: Scores, scale: float) -> list[float]:
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    return [weight / sum(weights) for weight in weights]


def argmax(scores: Scores, scale: float) -> list[float]:
    """P(score_i + Exp(scale) is the largest), the noise being continuous: an integral over it."""
    top = max(scores)

    def chance(i: int) -> float:
        def density(t: float) -> float:  # of score_i + noise at top + t, and all others below
            others = [
                -math.expm1(-(top - score + t) / scale) for j, score in enumerate(scores) if j != i
            ]
            return math.exp(-(top - scores[i] + t) / scale) / scale * math.prod(others)

        return quad(density, 0, 60 * scale, limit=200, epsabs=1e-13)[0]

    return [chance(i) for i in range(len(scores))]


CHANCES = {NoisyMax: argmax, Exponential: softmax}
KINDS = list(LAWS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ([3, 1, 0, 3], Fraction(2)),
        ([10**15, 10**15 - 5, 10**15 - 6], Fraction(10, 3)),
        ([-7], Fraction(1)),
        ([0, -1, -400], Fraction(1, 3)),
        ([0, 6] * 20, Fraction(5)),
        ([0, 6], Fraction(5)),
    ],
    ids=str,
)
def test_an_index_is_drawn_with_its_exact_chance(kind, scores, scale):
    """Pearson's chi-square: false alarm 1e-8. A scale a fifth off is rejected."""

    def fits(drawn: Fraction) -> bool:
        count = COUNT if scores == [0, 6] else COUNT // 4
        found = Counter(LAWS[kind](scores, drawn) for _ in range(count))
        expected = np.array(CHANCES[kind](scores, float(scale))) * found.total()
        seen = np.array([found[i] for i in range(len(scores))], float)
        common = expected >= 50
        groups = [*zip(seen[common], expected[common], strict=True)]
        if expected[~common].sum() > 1:
            groups.append((seen[~common].sum(), expected[~common].sum()))
        elif seen[~common].sum() > 12:
            return False
        statistic = sum((a - b) ** 2 / b for a, b in groups)
        return bool(len(groups) == 1 or chi2.sf(statistic, len(groups) - 1) > 1e-8)

    assert fits(scale)
    if scores == [0, 6]:
        assert not fits(scale * Fraction(4, 5))
        assert not fits(scale * Fraction(5, 4))


def neighbours(monotone: bool, size: int) -> list[tuple[list[int], list[int]]]:
    starts = [[0] * size, [4, 1] + [0] * (size - 2), [-2, 0] + [-9] * (size - 2)]
    moves = [[0, 1], [1, 0]] if monotone else [[0, 1], [1, 0], [-1, 1], [1, -1]]
    return [
        (start, [v + (first if i == 0 else rest) for i, v in enumerate(start)])
        for start, (first, rest) in itertools.product(starts, moves)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(4)])
def test_no_index_betrays_more_than_the_price(kind, monotone, scale):
    """Pure epsilon, and the divergence of every order, on neighbouring scores; it is reached."""
    claim = kind(1, scale, monotone)
    pure, reached = claim.epsilon / PICO, 0.0
    for one, other in neighbours(monotone, 12):
        p, q = (CHANCES[kind](scores, float(scale)) for scores in (one, other))
        losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
        assert max(map(abs, losses)) <= pure * (1 + 1e-6)
        reached = max(reached, *map(abs, losses))
        for (a, b), order in itertools.product([(p, q), (q, p)], [1.01, 2.0, 8.0, 64.0]):
            terms = np.array(
                [order * math.log(x / y) + math.log(y) for x, y in zip(a, b, strict=True)]
            )
            divergence = (terms.max() + np.log(np.exp(terms - terms.max()).sum())) / (order - 1)
            assert divergence <= order * claim.rho / PICO + 1e-7
    assert reached >= 0.7 * pure


def test_the_interval_of_an_exponential_mechanisms_losses_is_as_long_as_its_price_says():
    """Half as long would be wrong; so would the noisy maximum at the price of that interval."""
    for monotone, pure in ((True, 1.0), (False, 2.0)):
        one, other = [0] * 50, [0] * 49 + [1]
        if not monotone:
            one, other = [0] * 49 + [1], [1] * 49 + [0]
        losses = [
            math.log(a / b) for a, b in zip(softmax(one, 1.0), softmax(other, 1.0), strict=True)
        ]
        assert max(losses) - min(losses) == pytest.approx(pure)


@pytest.mark.parametrize("kind", KINDS)
def test_a_selection_of_half_the_noise_is_caught(kind):
    """Clopper-Pearson at 1e-6; by exact chances, it is missed less than once in a million."""
    epsilon, one, other = 2.0, [1, 0, 0], [0, 1, 1]
    for scale, wrong in ((Fraction(1), False), (Fraction(1, 2), True)):
        hits, others = (CHANCES[kind](scores, float(scale))[0] for scores in (one, other))
        drawn = [LAWS[kind](one, scale) for _ in range(COUNT // 2)]
        moved = [LAWS[kind](other, scale) for _ in range(COUNT // 2)]
        assert proven(drawn.count(0), moved.count(0), len(drawn), epsilon) == wrong
        low = binom.ppf(5e-7, len(drawn), hits)
        high = binom.isf(5e-7, len(drawn), others)
        assert proven(int(low), int(high), len(drawn), epsilon) == wrong


def proven(hits: int, others: int, count: int, epsilon: float) -> bool:
    lower = beta.ppf(ALARM, hits, count - hits + 1) if hits else 0.0
    upper = beta.ppf(1 - ALARM, others + 1, count - others)
    return bool(lower > math.exp(epsilon) * upper)
