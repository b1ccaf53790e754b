"""Contrasts of one group key: integer matrices Q with Q 1 = 0 that see all of it but the total.

With C = I - 11'/n, Q'Q is a multiple of C, so that all groups are moved alike: +-1 rows of a
Hadamard matrix (Sylvester 1867) give n C with n - 1 rows; Q = n I - 11' gives n^2 C and is never
formed. Either is optimal for residual plans (Xiao et al. 2023, arXiv:2305.08175).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = TypeVar("Numbers", Ints, Floats)

_HADAMARD = 16  # groups, at most


@dataclass(frozen=True, slots=True)
class Contrast:
    """Q of a key with `size` groups, two or more."""

    size: int

    def __post_init__(self) -> None:
        if not self.size >= 2:
            raise ValueError("a key of one group has nothing beyond the total")

    @property
    def short(self) -> bool:
        """Whether it has the rows of a Hadamard matrix."""
        return self.size <= _HADAMARD and not self.size & (self.size - 1)

    @property
    def rows(self) -> int:
        return self.size - 1 if self.short else self.size

    @property
    def multiple(self) -> int:
        """Q'Q = multiple x C."""
        return self.size if self.short else self.size**2

    @property
    def reach(self) -> int:
        """The largest sum of the sizes of a row's entries."""
        return self.size if self.short else 2 * (self.size - 1)

    @property
    def norm(self) -> int:
        """|Q e_x|^2, the same for all groups: multiple x (1 - 1/n)."""
        return self.multiple // self.size * (self.size - 1)

    @property
    def inner(self) -> int:
        """<Q e_x, Q e_y>, the same for all pairs of groups: -multiple/n."""
        return -(self.multiple // self.size)

    def measured(self, counts: Ints, axis: int) -> Ints:
        """Q applied along an axis."""
        if not self.short:
            found: Ints = self.size * counts - counts.sum(axis=axis, keepdims=True)
            return found
        signs = _signs(self.size).astype(counts.dtype)
        return np.moveaxis(np.tensordot(signs, counts, axes=(1, axis)), 0, axis)

    def undone(self, seen: Floats, axis: int) -> Floats:
        """Q^+ = Q' / multiple applied along an axis."""
        if not self.short:
            found: Floats = (seen - seen.mean(axis=axis, keepdims=True)) / self.size
            return found
        signs = _signs(self.size) / self.multiple
        return np.moveaxis(np.tensordot(signs, seen, axes=(0, axis)), 0, axis)


@functools.lru_cache(8)
def _signs(size: int) -> Ints:
    signs = np.ones((1, 1), np.int64)
    while len(signs) < size:
        signs = np.block([[signs, signs], [signs, -signs]])
    return signs[1:]
