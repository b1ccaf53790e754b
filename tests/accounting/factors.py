"""Factors over a few small columns, and what they add up to by brute force over every cell."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from dpsql.accounting.footprints.footprint import Axis, Factor

SIZES = {"a": 4, "b": 3, "c": 4, "d": 2, "e": 2}
NAMES = st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=3, unique=True)
LOSSES = st.sampled_from([0, 0, 0, 1, 5, 5, 7]) | st.integers(0, 10**9)


@functools.cache
@st.composite
def axes(draw: st.DrawFn, name: str) -> Axis:
    classes = draw(st.lists(st.integers(0, 3), min_size=SIZES[name], max_size=SIZES[name]))
    names = {old: new for new, old in enumerate(dict.fromkeys(classes))}
    runs = [(at, names[c]) for at, c in enumerate(classes) if at == 0 or classes[at - 1] != c]
    return Axis(name, tuple(at for at, _ in runs), tuple(c for _, c in runs))


@st.composite
def factors(draw: st.DrawFn) -> Factor:
    listed = tuple(draw(axes(name)) for name in draw(NAMES))
    size = 1
    for axis in listed:
        size *= axis.size
    return Factor(listed, tuple(draw(st.lists(LOSSES, min_size=size, max_size=size))))


def at(factor: Factor, cell: Mapping[str, int]) -> int:
    """The loss of a factor in a cell."""
    index = 0
    for axis in factor.axes:
        run = max(i for i, start in enumerate(axis.starts) if start <= cell[axis.name])
        index = index * axis.size + axis.classes[run]
    return factor.table[index]


def cells() -> Iterable[dict[str, int]]:
    for codes in itertools.product(*map(range, SIZES.values())):
        yield dict(zip(SIZES, codes, strict=True))


@functools.lru_cache(1000)
def everywhere(factor: Factor) -> tuple[int, ...]:
    """The losses of a factor in all cells."""
    return tuple(at(factor, cell) for cell in cells())


def brute(listed: Sequence[Factor]) -> int:
    return max(map(sum, zip(*map(everywhere, listed), strict=True)))
