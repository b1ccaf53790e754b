"""Domain: named axes and their sizes; a cell is one code an axis, in row-major order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Domain:
    """Axes with their numbers of codes; the last axis runs fastest."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names):
            raise ValueError("a domain has one size for each of its names, all different")
        if not min(self.sizes, default=1) >= 1:
            raise ValueError("every axis of a domain has a code")

    @property
    def cells(self) -> int:
        """The number of cells; exact, however large."""
        return math.prod(self.sizes)

    def size(self, name: str) -> int:
        return self.sizes[self.names.index(name)]

    def project(self, names: Sequence[str]) -> Domain:
        """The domain of some of the axes, in the order given."""
        return Domain(tuple(names), tuple(self.size(name) for name in names))

    def index(self, codes: Mapping[str, NDArray[np.int64]], count: int) -> NDArray[np.int64]:
        """The flat index of each of `count` cells given by the codes of their axes; to be read."""
        if len(self.names) == 1:
            return codes[self.names[0]]
        found = np.zeros(count, np.int64)
        for name, size in zip(self.names, self.sizes, strict=True):
            found *= size
            found += codes[name]
        return found

    def grid(self) -> dict[str, NDArray[np.int64]]:
        """The codes of all cells, in order; for domains small enough to hold."""
        codes = np.indices(self.sizes, np.int64).reshape(len(self.names), self.cells)
        return dict(zip(self.names, codes, strict=True))
