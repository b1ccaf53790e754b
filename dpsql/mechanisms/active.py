"""Least squares with weights p >= 0 on given points, by active sets.

Without a total: |sum_j p_j c_j - y| is made least (Lawson and Hanson, "Solving Least Squares
Problems", 1974, chapter 23). With sum p = n: of the hull of the points n c_j - y the one nearest to
0 is found (Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11, 1976).
Both keep a set of points on which the fit is free, add the one that brings it nearest, and leave
those whose weight would turn negative. The fit lies on independent points, so these are few.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_FLAT = 1e-10  # of a point's square, what must be left of it outside the span of the others
_SMALL = 1e-13  # of |y|^2, by how much a step must bring the fit nearer
_STILL = 1e-9  # of |y|, how near a single point may bring it and is left out


class Active:
    """The fit to a target `y`, over the points that have entered and are in use."""

    def __init__(self, target: Floats, total: int | None) -> None:
        self._target, self._total = target, total
        self._size = float(target @ target)
        self.points = np.zeros((len(target), 0))
        self._shares = np.zeros(0)  # p, or p / n

    @property
    def rows(self) -> Floats:
        """The weights p > 0 of the points."""
        return self._shares if self._total is None else self._shares * self._total

    def rest(self) -> Floats:
        """y - sum_j p_j c_j."""
        found: Floats = self._target - self.points @ self.rows
        return found

    def gains(self) -> Floats:
        """What a row more of each point brings: -df/dp."""
        found: Floats = self.points.T @ self.rest()
        return found

    def enter(self, points: Floats) -> NDArray[np.int64]:
        """Fit over the points in use and new ones; which of all these are in use then, in order."""
        steps = _Steps(
            np.concatenate([self.points, points], axis=1), self._target, self._total, self._shares
        )
        steps.run(_SMALL * self._size, _STILL * self._size**0.5)
        kept = np.array(steps.used, np.int64)
        order = np.argsort(kept)
        self.points = steps.all[:, kept[order]]
        self._shares = steps.shares[order]
        found: NDArray[np.int64] = kept[order]
        return found


class _Steps:
    """Steps of either algorithm over `all` points; `used` are free, with these `shares`."""

    def __init__(self, all_: Floats, target: Floats, total: int | None, shares: Floats) -> None:
        self.all, self._target, self._total = all_, target, total
        self.used, self.shares = list(range(len(shares))), shares
        self._vectors = all_
        if total is not None:  # a last coordinate that all share makes the hull's points a cone's
            same = np.full((1, all_.shape[1]), (float(target @ target) + 1.0) ** 0.5)
            self._vectors = np.vstack([total * all_ - target[:, None], same])
        self._squares = (self._vectors**2).sum(axis=0)
        used = self._vectors[:, self.used]
        self._inverse = np.linalg.inv(used.T @ used)  # of the products of the used vectors

    def run(self, small: float, still: float) -> None:
        """Step until no point brings the fit nearer."""
        if not self.used and self._total is not None:
            self._start(int(np.argmin(self._squares)))
        barred = self._squares <= 0
        value = self._value()
        while True:
            with np.errstate(all="ignore"):
                gains = self._gains() / np.sqrt(self._squares)
            gains[barred] = -np.inf
            gains[self.used] = -np.inf
            best = int(np.argmax(gains))
            if not gains[best] > still:
                return
            before = self._inverse, list(self.used), self.shares
            if not self._add(best):
                barred[best] = True
                continue
            self._settle()
            now = self._value()
            if not now < value - small:  # rounding errors alone: without this they go round
                self._inverse, self.used, self.shares = before
                barred[best] = True
            else:
                value = now

    def _start(self, at: int) -> None:
        self.used, self.shares = [at], np.ones(1)
        self._inverse = np.array([[1.0 / self._squares[at]]])

    def _rest(self) -> Floats:
        fit = self.all[:, self.used] @ self.shares
        found: Floats = self._target - (fit if self._total is None else self._total * fit)
        return found

    def _value(self) -> float:
        rest = self._rest()
        return float(rest @ rest)

    def _gains(self) -> Floats:
        """How fast each vector brings the fit nearer."""
        rest = self._rest()
        found: Floats = self._vectors[: len(rest)].T @ rest
        return found if self._total is None else found + float(rest @ rest)

    def _add(self, at: int) -> bool:
        """Let a vector be used, without a share as yet; False where others span it."""
        vector = self._vectors[:, at]
        inner = self._inverse @ (self._vectors[:, self.used].T @ vector)
        left = self._squares[at] - inner @ (self._vectors[:, self.used].T @ vector)
        if not left > _FLAT * self._squares[at]:
            return False
        size = len(self.used)
        made = np.empty((size + 1, size + 1))  # the inverse of a bordered matrix
        made[:size, :size] = self._inverse + np.outer(inner, inner) / left
        made[:size, size] = made[size, :size] = -inner / left
        made[size, size] = 1.0 / left
        self._inverse = made
        self.used.append(at)
        self.shares = np.append(self.shares, 0.0)
        return True

    def _settle(self) -> None:
        """The free fit, or the nearest to it with shares >= 0; those that reach 0 are left."""
        while self.used:
            free = self._free()
            short = np.flatnonzero(free <= 0)
            if not len(short):
                self.shares = free
                return
            part = self.shares[short] / np.maximum(self.shares[short] - free[short], 1e-300)
            step = float(part.min())
            self.shares = np.maximum(self.shares + step * (free - self.shares), 0.0)
            for place in short[part <= step][::-1].tolist():
                self._leave(place)

    def _free(self) -> Floats:
        """The fit on the used vectors, of any sign."""
        if self._total is not None:  # the hull's: inverse 1 / (1' inverse 1)
            lines: Floats = self._inverse.sum(axis=1)
            return lines / float(lines.sum())
        used = self._vectors[:, self.used]
        found: Floats = self._inverse @ (used.T @ self._target)
        return found + self._inverse @ (used.T @ (self._target - used @ found))

    def _leave(self, place: int) -> None:
        column = self._inverse[:, place]
        rest = self._inverse - np.outer(column, column) / column[place]
        others = np.arange(len(column)) != place
        self._inverse = rest[np.ix_(others, others)]
        self.shares = self.shares[others]
        self.used.pop(place)
