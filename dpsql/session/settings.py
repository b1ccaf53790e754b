"""Settings: the same names in SET, in call arguments, in OPTIONS and on the command line.

Nearest to the statement wins: OPTIONS in its text, then the arguments of the call (the options of
`dpsql query`), then SET, then what the session started with (`connect`, the options of
`dpsql shell`), then the defaults.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.accounting.convert import LARGEST_EPSILON
from dpsql.errors import UsageError
from dpsql.planner import BACKENDS, OBJECTIVES

WHOLE = ("off", "auto", "on")
_PRICES = ("epsilon", "rho", "accuracy")
POSTPROCESSES = ("none", "projection")
TARGETS = ("sample", "population")
EXAMPLES = {
    "epsilon": "0.1",
    "rho": "0.001",
    "accuracy": "50",
    "confidence": "0.99",
    "backend": "laplace",
    "objective": "largest",
    "intervals": "on",
    "clamp": "on",
    "postprocess": "projection",
    "total": "32561",
    "whole": "auto",
    "target": "population",
    "strict": "off",
    "reuse": "off",
}
_MOST_ROWS = 10**15
_ON = {"on": True, "true": True, "1": True, "yes": True}
_OFF = {"off": False, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a statement is answered.

    epsilon     price of a statement: it alone is (epsilon, delta of the grant)-private
    rho         the same in zCDP
    accuracy    largest half-width of an interval, in rows (or units of a sum), or as '2%' of the
                least count released before for the same statement, at the least price;
                at most one of these three
    confidence  level of the intervals, above 0 and below 1
    backend     auto, gaussian, laplace, factorization, or synopsis: from a synopsis of the columns
    objective   which error of several answers planning makes least: total, or the largest
    intervals   adds <name>_low and <name>_high columns to the output
    clamp       shows negative counts as 0, which biases them
    postprocess none, or projection: shows the answers of the one table that is nearest to the
                noisy ones, which biases them
    total       number of rows that SELECT COUNT(*) counts, where it is public: projection keeps it,
                and target = population tells counts from shares by it
    whole       whether a statement that has to be bought measures the whole table of its columns:
                off, on, or auto, once statements about them have cost as much
    target      what intervals are about: the sample (the rows), or the population that the rows
                were drawn from, whatever answers the questions were chosen by
    strict      whether a synopsis shows only what tables tell or a gate verified; off shows other
                guesses, too, without interval, free
    reuse       keeps answers, and answers from kept ones, free, where they are accurate enough
    """

    epsilon: float | None = None
    rho: float | None = None
    accuracy: float | str | None = None
    confidence: float = 0.95
    backend: str = "auto"
    objective: str = "total"
    intervals: bool = False
    clamp: bool = False
    postprocess: str = "none"
    total: int | None = None
    whole: str = "off"
    target: str = "sample"
    strict: bool = True
    reuse: bool = True

    def __post_init__(self) -> None:
        for name, most in (("epsilon", LARGEST_EPSILON), ("rho", 1e9), ("accuracy", 1e15)):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, str):
                value = float(value.rstrip("%"))
            if not (1e-12 <= value <= most and math.isfinite(value)):
                raise UsageError(f"{name} is a number from 1e-12 to {most:g}, not {value!r}")
        given = [name for name in _PRICES if getattr(self, name) is not None]
        if len(given) > 1:
            raise UsageError(
                f"{' and '.join(given)} each decide what a statement costs: give one of them"
            )
        if not 0 < self.confidence <= 1 - 1e-9:
            raise UsageError(
                f"confidence is above 0 and below 1, not {self.confidence!r}: 0.95 is 95 %"
            )
        if self.backend not in BACKENDS:
            raise UsageError(f"backend is one of {', '.join(BACKENDS)}, not {self.backend!r}")
        if self.objective not in OBJECTIVES:
            raise UsageError(f"objective is {' or '.join(OBJECTIVES)}, not {self.objective!r}")
        if self.postprocess not in POSTPROCESSES:
            listed = " or ".join(POSTPROCESSES)
            raise UsageError(f"postprocess is {listed}, not {self.postprocess!r}")
        if self.total is not None and not 1 <= self.total <= _MOST_ROWS:
            raise UsageError(f"total is a whole number from 1 to 1e15, not {self.total!r}")
        if self.whole not in WHOLE:
            raise UsageError(f"whole is off, auto or on, not {self.whole!r}")
        if self.target not in TARGETS:
            raise UsageError(f"target is {' or '.join(TARGETS)}, not {self.target!r}")

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        """These settings with some changed. A price, or an accuracy, replaces any other.

        Raises UsageError for an unknown name or a value that does not fit.
        """
        if not values:
            return self
        changed: dict[str, Any] = {}
        for name, value in values.items():
            changed[name] = read(name, value)
        if any(changed.get(name) is not None for name in _PRICES):
            changed = {**dict.fromkeys(_PRICES), **changed}
        return dataclasses.replace(self, **changed)

    def reset(self, name: str, start: Settings) -> Settings:
        """These settings with one, or all, as they were at the start; a price in either unit."""
        if name == "all":
            return start
        check(name)
        names = _PRICES if name in _PRICES else (name,)
        return dataclasses.replace(self, **{name: getattr(start, name) for name in names})

    def shown(self) -> dict[str, str]:
        """Every setting as text, as SHOW ALL lists them."""
        return {field.name: show(getattr(self, field.name)) for field in dataclasses.fields(self)}


NAMES = tuple(field.name for field in dataclasses.fields(Settings))


def show(value: object) -> str:
    """A setting's value as SET writes it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def check(name: str) -> None:
    """Raise UsageError unless there is a setting of this name."""
    if name in NAMES:
        return
    from difflib import get_close_matches

    near = get_close_matches(name, NAMES, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no setting {name!r}; {hint}the settings are: {', '.join(NAMES)}")


def read(name: str, value: Any) -> Any:
    """The value of a setting from text or a Python value. Raises UsageError."""
    check(name)
    match name:
        case "epsilon" | "rho" | "accuracy":
            if value is None or value == "unset":
                return None
            text = str(value).strip()
            if name == "accuracy" and text.endswith("%"):
                return f"{_number(name, text[:-1]):g}%"
            return _number(name, value)
        case "confidence":
            text = str(value).strip()
            if text.endswith("%"):
                return _number(name, text[:-1]) / 100
            return _number(name, value)
        case "backend" | "objective" | "postprocess" | "target":
            return str(value).strip().lower()
        case "total":
            if value is None or value == "unset":
                return None
            number = _number(name, value)
            if not number.is_integer():
                raise UsageError(f"total is a whole number from 1 to 1e15, not {value!r}")
            return int(number)
        case "whole" if str(value).strip().lower() == "auto":
            return "auto"
        case "whole":
            return "on" if _switch("off, auto or on", name, value) else "off"
        case _:
            return _switch("on or off", name, value)


def _switch(words: str, name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    found = {**_ON, **_OFF}.get(str(value).strip().lower())
    if found is None:
        raise UsageError(f"{name} is {words}, not {value!r}")
    return found


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool):
        raise UsageError(f"{name} is a number, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        also = ", or a percentage as '2%'," if name == "accuracy" else ","
        raise UsageError(f"{name} is a number{also} not {value!r}") from None
