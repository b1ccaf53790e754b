"""What functions of one argument, and casts, do to a value that is not known exactly."""

from __future__ import annotations

import math
import re

import numpy as np

from dpsql.mechanisms.intervals import uncertain as of
from dpsql.mechanisms.intervals.uncertain import Map, Uncertain

_INTEGERS = re.compile("U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_DECIMAL = re.compile(r"DECIMAL\(\d+, ?(\d+)\)")

# Functions that keep order, with their slope; None for roundings.
MONOTONE: dict[str, tuple[Map, Map | None]] = {
    "floor": (np.floor, None),
    "ceil": (np.ceil, None),
    "ceiling": (np.ceil, None),
    "sqrt": (lambda x: np.sqrt(np.maximum(x, 0.0)), lambda x: 0.5 / np.sqrt(x)),
    "cbrt": (np.cbrt, lambda x: 1.0 / (3.0 * np.cbrt(x) ** 2)),
    "exp": (np.exp, np.exp),
    "ln": (lambda x: np.log(np.maximum(x, 0.0)), lambda x: 1.0 / x),
    "log": (lambda x: np.log10(np.maximum(x, 0.0)), lambda x: 1.0 / (x * math.log(10))),
    "log10": (lambda x: np.log10(np.maximum(x, 0.0)), lambda x: 1.0 / (x * math.log(10))),
    "log2": (lambda x: np.log2(np.maximum(x, 0.0)), lambda x: 1.0 / (x * math.log(2))),
    "degrees": (np.degrees, lambda x: np.full_like(x, 180 / math.pi)),
    "radians": (np.radians, lambda x: np.full_like(x, math.pi / 180)),
}


def cast(found: Uncertain | None, type_: str) -> Uncertain | None:
    """A cast to a type of numbers: to a float as it is, to others rounded."""
    if found is None or type_ in ("DOUBLE", "FLOAT"):
        return found
    if _INTEGERS.fullmatch(type_):
        return of.rounded(found, 0)
    decimal = _DECIMAL.fullmatch(type_)
    return of.rounded(found, int(decimal[1])) if decimal else None
