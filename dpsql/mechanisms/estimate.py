"""From noisy answers to the values of aggregates, one a group; nothing here sees the data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event
from dpsql.mechanisms.uncertain import Answers
from dpsql.query.compile import CompiledSelect, Count, Mean, Spread, Sum
from dpsql.query.expr import Slot
from dpsql.query.finish import Values


def estimate(
    select: CompiledSelect,
    noisy: NDArray[np.int64],
    law: Event,
    factors: tuple[int, ...],
    confidence: float,
    *,
    clamp: bool,
) -> list[Values]:
    """The released values of each aggregate. A mean whose noisy denominator may be 0 is NULL."""
    answers = Answers(noisy, law, select.estimators, factors, clamp)
    found = []
    for index, estimator in enumerate(select.estimators):
        match estimator:
            case Count(weight=weight):
                counts = noisy[:, weight]
                if factors[weight] != 1:
                    counts = np.array([_nearest(v, factors[weight]) for v in counts.tolist()])
                counts = counts.astype(np.int64)
                found.append(Values("BIGINT", np.maximum(counts, 0) if clamp else counts))
            case Sum(weight=weight, unit=unit, type=type_):
                found.append(_sum(noisy[:, weight], unit, factors[weight], type_))
            case Mean() | Spread():
                value = answers.of(Slot(f"a{index}"))
                assert value is not None and value.doubtful is not None
                doubtful = value.doubtful(confidence)
                low, high = value.clip
                shown = np.clip(np.nan_to_num(value.value), low, high)
                found.append(Values("DOUBLE", shown, doubtful))
    return found


def _nearest(noisy: int, factor: int) -> int:
    """noisy / factor, rounded to the nearest whole number, exactly."""
    return (2 * noisy + factor) // (2 * factor)


def _sum(noisy: NDArray[np.int64], unit: Fraction, factor: int, type_: str) -> Values:
    """A sum in DuckDB's type: integers stay whole, decimals exact."""
    if type_ == "DOUBLE" or not (type_ == "HUGEINT" or type_.startswith("DECIMAL")):
        return Values("DOUBLE", noisy.astype(np.float64) / factor * float(unit))
    whole = [_nearest(value, factor) * unit.numerator for value in noisy.tolist()]
    if type_ == "HUGEINT":
        exact = [value // unit.denominator for value in whole]
        if all(abs(value) < 1 << 62 for value in exact):
            return Values("HUGEINT", np.array(exact, np.int64))
        return Values("DOUBLE", np.array(exact, np.float64))
    scale = int(type_.rstrip(")").split(",")[1])
    return Values(type_, np.array([_decimal(v, unit.denominator, scale) for v in whole], object))


def _decimal(numerator: int, denominator: int, scale: int) -> str:
    """numerator / denominator with `scale` digits after the point, rounded to the nearest."""
    units = round(Fraction(numerator * 10**scale, denominator))
    digits = str(abs(units)).rjust(scale + 1, "0")
    sign = "-" if units < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"
