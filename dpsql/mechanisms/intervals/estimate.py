"""From noisy answers to the values of aggregates, one a group; nothing here sees the data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.noises import Noise
from dpsql.mechanisms.intervals.rounded import nearest
from dpsql.mechanisms.intervals.uncertain import Uncertain
from dpsql.query.compile import CompiledSelect
from dpsql.query.estimators import Count, Mean, Spread, Sum
from dpsql.query.expr import Slot
from dpsql.query.finish import Values

_SAFE = 1 << 62
_WIDEST = 1 << 126  # half of what HUGEINT holds


def estimate(
    select: CompiledSelect,
    noisy: NDArray[np.int64],
    noise: Law | Noise,
    factors: tuple[int, ...],
    confidence: float,
    *,
    clamp: bool,
    shown: NDArray[np.int64] | None = None,
) -> list[Values]:
    """The released values of each aggregate. A mean whose noisy denominator may be 0 is NULL.

    They are made of `shown` where that is given, what was made of the noisy answers; which of them
    are NULL is told by the noisy ones, or by what is shown having no rows.
    """
    if shown is None:
        shown = noisy

    def known(of: NDArray[np.int64], slot: str) -> Uncertain:
        value = Answers(of, noise, select.estimators, factors, clamp).of(Slot(slot))
        assert value is not None
        return value

    found = []
    for index, estimator in enumerate(select.estimators):
        match estimator:
            case Count(weight=weight):
                counts = nearest(shown[:, weight], factors[weight]).astype(np.int64)
                found.append(Values("BIGINT", np.maximum(counts, 0) if clamp else counts))
            case Sum(weight=weight, unit=unit, type=type_):
                if estimator.exact:
                    found.append(_sum(nearest(shown[:, weight], factors[weight]), unit, type_))
                else:
                    found.append(Values("DOUBLE", known(shown, f"a{index}").value))
            case Mean() | Spread():
                doubtful = known(noisy, f"a{index}").doubtful
                value = known(shown, f"a{index}")
                assert doubtful is not None
                null = doubtful(confidence) | ~np.isfinite(value.value)
                low, high = value.clip
                found.append(Values("DOUBLE", np.clip(np.nan_to_num(value.value), low, high), null))
    return found


def _sum(whole: NDArray[Any], unit: Fraction, type_: str) -> Values:
    """`unit` times whole numbers in DuckDB's type: integers stay whole, decimals exact."""
    scale = 0 if type_ == "HUGEINT" else int(type_.rstrip(")").split(",")[1])
    times = unit * 10**scale
    largest = int(np.abs(whole).max(initial=0)) * times.numerator + times.denominator
    exact = whole.astype(np.int64 if largest < _SAFE else object)
    units = (exact * times.numerator + times.denominator // 2) // times.denominator
    if type_ != "HUGEINT":
        return Values(type_, np.array([_decimal(v, scale) for v in units.tolist()], object))
    if largest < _SAFE:
        return Values("HUGEINT", units)
    if largest < _WIDEST:  # as text, which DuckDB reads with all digits
        return Values("HUGEINT", np.array([str(v) for v in units.tolist()], object))
    return Values("DOUBLE", units.astype(np.float64))


def _decimal(units: int, scale: int) -> str:
    """units / 10^scale, with all its digits."""
    if not scale:
        return str(units)
    before, after = divmod(abs(units), 10**scale)
    return f"{'-' if units < 0 else ''}{before}.{after:0{scale}d}"
