"""What can be wrong with the domain of a column, one function a kind, all faults at once.

The values have the right types; None stands for one that is missing or was refused already.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise

from dpsql.schema.faults import Fault, name_of, writable
from dpsql.schema.grids import DecimalGrid, date_size
from dpsql.schema.kinds import BIGINT, DATE_STEPS, MAX_POINTS


def category_faults(values: Sequence[object], nullable: bool) -> Iterator[Fault]:
    """Faults of the list of values of a category."""
    path = ("values",)
    if not values:
        yield Fault(path, "the list of values is empty", "list all values that the column has")
        return
    first = str if isinstance(values[0], str) else int
    odd = [v for v in values if not isinstance(v, first) or isinstance(v, bool)]
    if odd:
        found = f"values must be all text or all integers; {odd[0]!s} is {name_of(odd[0])}"
        if odd[0] is not values[0]:
            found += f" beside {values[0]!r}"
        yield Fault(path, found, _better_kind(values))
        return
    seen: dict[object, int] = {}
    for value in values:
        seen[value] = seen.get(value, 0) + 1
    for value, times in seen.items():
        if times > 1:
            yield Fault(path, f"{value!r} is listed {times} times", "list every value once")
        if isinstance(value, str) and not writable(value):
            yield Fault(path, f"{value!r} has a character that SQL cannot hold", "leave it out")
        if isinstance(value, int) and not BIGINT[0] <= value <= BIGINT[1]:
            yield Fault(path, f"{value} is outside BIGINT", "leave it out, or list text")
    yield from _size_faults(len(seen), path, nullable, "group values by a query source")


def integer_faults(minimum: int | None, maximum: int | None, nullable: bool) -> Iterator[Fault]:
    """Faults of the bounds of an integer column."""
    outside = False
    for key, bound in (("min", minimum), ("max", maximum)):
        if bound is not None and not BIGINT[0] <= bound <= BIGINT[1]:
            outside = True
            yield Fault((key,), f"{bound} is outside BIGINT", "choose a bound within 64 bits")
    if minimum is None or maximum is None or outside:
        return
    if minimum > maximum:
        yield _upside_down(minimum, maximum)
    else:
        fix = "narrow min and max, or declare a number with a step"
        yield from _size_faults(maximum - minimum + 1, ("max",), nullable, fix)


def number_faults(
    minimum: Decimal | None, maximum: Decimal | None, step: Decimal | None, nullable: bool
) -> Iterator[Fault]:
    """Faults of a decimal grid."""
    faults: list[Fault] = []
    for key, value in (("min", minimum), ("max", maximum), ("step", step)):
        if value is not None:
            faults.extend(_double_faults(value, (key,)))
    if step is not None and step.is_finite() and not step > 0:
        fix = "a step is a positive number, such as 1 or 0.5"
        faults.append(Fault(("step",), f"step {step} is not above 0", fix))
    yield from faults
    if faults or minimum is None or maximum is None:
        return
    if minimum > maximum:
        yield _upside_down(minimum, maximum)
    elif step is not None:
        yield from _grid_faults(minimum, maximum, step, nullable)


def _grid_faults(
    minimum: Decimal, maximum: Decimal, step: Decimal, nullable: bool
) -> Iterator[Fault]:
    size = DecimalGrid.of(minimum, step).size(maximum)
    largest = max(abs(minimum), abs(maximum))
    finest = math.ulp(float(largest))
    if size > MAX_POINTS:
        yield from _size_faults(size, ("step",), nullable, "a larger step")
    elif size > 1 and step < Decimal(finest):
        found = f"step {step} is finer than a DOUBLE can tell near {largest}"
        yield Fault(("step",), found, f"a step of {finest!r} or more")
    elif size == 1 and minimum < maximum:
        found = f"step {step} is larger than the whole range from {minimum} to {maximum}"
        yield from _size_faults(size, ("step",), nullable, "a smaller step", found)
    else:
        yield from _size_faults(size, ("max",), nullable, "a max further from min")


def edges_faults(edges: Sequence[Decimal], nullable: bool) -> Iterator[Fault]:
    """Faults of the edges of bins."""
    path = ("edges",)
    faults = [fault for edge in edges for fault in _double_faults(edge, path)]
    yield from faults
    if len(edges) < 2:
        found = f"{len(edges) or 'no'} edge{'s' * (len(edges) != 1)} cannot bound a bin"
        yield Fault(path, found, "list three edges or more, which bound two bins or more")
    elif not faults:
        for low, high in pairwise(edges):
            if not float(low) < float(high):
                found = f"edge {high} does not lie above {low}, the one before it"
                yield Fault(path, found, "list the edges in ascending order, each once")
        fix = "list three edges or more" if len(edges) == 2 else "list fewer edges"
        yield from _size_faults(len(edges) - 1, path, nullable, fix)


def date_faults(
    minimum: date | None, maximum: date | None, step: str | None, nullable: bool
) -> Iterator[Fault]:
    """Faults of a grid of dates."""
    if step is not None and step not in DATE_STEPS:
        fix = f"one of {', '.join(DATE_STEPS)}"
        yield Fault(("step",), f"a date has no step {step!r}", fix)
    if minimum is None or maximum is None:
        return
    if minimum > maximum:
        yield _upside_down(minimum, maximum)
    elif step in DATE_STEPS:
        size = date_size(minimum, maximum, step)
        yield from _size_faults(size, ("max",), nullable, "a later max, or a smaller step")


def _size_faults(
    size: int,
    path: tuple[str, ...],
    nullable: bool,
    fix: str,
    found: str = "a universe of one value says nothing",
) -> Iterator[Fault]:
    if size > MAX_POINTS:
        yield Fault(path, f"{size:,} points are more than the limit of {MAX_POINTS:,}", fix)
    elif size + nullable < 2:
        fix = "list more values" if path == ("values",) else fix
        yield Fault(path, found, f"{fix}; or leave the column out")


def _upside_down(minimum: object, maximum: object) -> Fault:
    return Fault(("min",), f"min {minimum} is above max {maximum}", "swap them, or correct one")


def _double_faults(value: Decimal, path: tuple[str, ...]) -> Iterator[Fault]:
    if not value.is_finite():
        yield Fault(path, f"{value} is not a finite number", "write a plain decimal number")
    elif value and (value.adjusted() > 308 or abs(value) > Decimal(sys.float_info.max)):
        yield Fault(path, f"{value:.3e} is beyond what a DOUBLE can hold", "a smaller number")
    elif value and (value.adjusted() < -300 or len(value.as_tuple().digits) > 400):
        yield Fault(path, f"{value:.3e} has more digits than a DOUBLE can tell", "round it")


def _better_kind(values: Sequence[object]) -> str:
    """What to declare for values that are neither all text nor all integers."""
    if all(isinstance(value, bool) for value in values):
        return 'type = "boolean" needs no values'
    if all(isinstance(value, date) for value in values):
        return 'type = "date" with min and max'
    if all(isinstance(value, int | float | Decimal) for value in values):
        return 'type = "number" with min, max and step, or with edges'
    return "put every value in quotes, or none"
