"""A bound from above on the maximum of a sum of factors, however many columns they touch.

Each factor is cut into boxes, w_j where every one of its columns is in some set and 0 elsewhere. If
the loss w_j of a box is shared out among its columns, w_j = sum_c s_jc, then in every cell x

    sum_j w_j [x in box j] <= sum_c load_c(x_c),  load_c(v) = sum of s_jc over boxes that hold v,

since a box that holds x passes each of its shares on to the column's own value. So the maximum is
at most sum_c max_v load_c(v), for any shares: it is a linear programme's dual, whose optimum is
mostly near the truth. A new box first gives its loss to the column where its values matter least;
then a few steps of Frank and Wolfe's method on the smoothed bound (log-sum-exp a column) move some
of every share to the column with the least derivative. They touch the quality of the bound, never
its truth: shares are whole numbers that always add up to w_j.

Let `high` bound the maximum before a factor F came. After it, a cell that F leaves alone still has
at most `high`, a cell in a box of F at most `high` + w, and at most the sum of the largest loads of
values in that box. So the new bound is the larger of `high` and, over the boxes of F, the smaller
of these two; F raises nothing when it only concerns people who have lost less than others.

A cell whose own loss equals the bound shows that it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprints.footprint import Axis, Factor
from dpsql.accounting.footprints.pieces import MOST, Piece, Slim
from dpsql.accounting.footprints.runs import Ints, Runs
from dpsql.accounting.purse import LIMIT

SMOOTH = 0.003  # the temperature, as a part of the bound
HALVINGS = 7  # the least step moves 2^-7 of every share
BOXES = 2048  # that are remembered; then the shares of the older half are final
MEMBERS = 1 << 16  # values in sets of boxes that are remembered

Floats = NDArray[np.float64]


@dataclass(slots=True)
class _Boxes:
    """Boxes by their entries, one a column: `share` of the box's weight, and member values.

    The entries of box j are first[j] .. first[j + 1] - 1. Member i says that the set of entry
    `entry[i]` holds the value `atom[i]`. Atoms number the values of all columns.
    """

    weight: Ints
    first: Ints
    share: Ints
    entry: Ints
    atom: Ints


class Shares:
    """Losses shared out among single columns; `high` bounds their largest sum."""

    def __init__(self) -> None:
        self.runs: dict[str, Runs] = {}
        self.atoms: dict[str, Ints] = {}  # the atom of each class of a column
        self.column = np.zeros(0, np.int64)  # of each atom, in the order of `runs`
        self.fixed = np.zeros(0, np.int64)  # loads that are not shares of a remembered box
        none = np.zeros(0, np.int64)
        self.boxes = _Boxes(none, none, none, none, none)
        self.whole = True  # whether all boxes are remembered as they came
        self.total = 0
        self.high = 0
        self._load = np.zeros(0, np.int64)

    def copy(self) -> Shares:
        other = Shares()
        other.__dict__.update(self.__dict__)
        other.runs, other.atoms = dict(self.runs), dict(self.atoms)
        return other

    def to_tree(self) -> dict[str, Any]:
        boxes = self.boxes
        return {
            "columns": [
                [name, runs.starts, runs.classes, self.atoms[name]]
                for name, runs in self.runs.items()
            ],
            "column": self.column,
            "fixed": self.fixed,
            "boxes": [boxes.weight, boxes.first, boxes.share, boxes.entry, boxes.atom],
            "whole": self.whole,
            "total": self.total,
            "high": self.high,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Shares:
        found = cls()
        for name, starts, classes, atoms in tree["columns"]:
            found.runs[name] = Runs(starts, classes, len(atoms))
            found.atoms[name] = atoms
        found.column, found.fixed = tree["column"], tree["fixed"]
        found.boxes = _Boxes(*tree["boxes"])
        found.whole, found.total, found.high = tree["whole"], tree["total"], tree["high"]
        found._sum()
        return found

    def holds(self, factor: Factor) -> bool:
        """Whether the factor may be added, since no sum can leave 64 bits."""
        return self.total + MOST * factor.largest <= LIMIT

    def add(self, factor: Factor, steps: int) -> None:
        """Add a factor; if it raises the bound, improve the shares in up to `steps` steps."""
        slim = Slim.of(factor)
        kept = [k for k, size in enumerate(slim.table.shape) if size > 1] or [0]
        axes = [factor.axes[k] for k in kept]
        classes = [self._refine(axis) for axis in axes]
        names = [axis.name for axis in axes]
        before = self.high
        self.whole = self.whole and slim.exact
        if len(kept) == 1:
            values = np.broadcast_to(slim.table.ravel(), axes[0].size)
            boxes = [self._single(names[0], values[classes[0]])]
        else:
            pieces = [Piece(tuple(p.masks[k] for k in kept), p.weight) for p in slim.pieces]
            boxes = self._several(names, classes, pieces)
        for left in range(steps, -1, -1):
            raised = [self._raised(before, held, weights) for held, weights in boxes]
            self.high = min(max(before, *raised, 0), self._bound())
            if self.high <= before or not left or not self._step():
                break
        if len(self.boxes.weight) > BOXES or len(self.boxes.atom) > MEMBERS:
            self._forget()

    @property
    def exact(self) -> bool:
        """Whether some cell is known whose loss is `high`."""
        return self.whole and self._loss(self._worst()) >= self.high

    # -- structure -----------------------------------------------------------------------------

    def _refine(self, axis: Axis) -> Ints:
        """Tell the classes of an axis apart in its column; of each class here, the class there."""
        name = axis.name
        known = self.runs.get(name)
        if known is None:
            runs = Runs.of(axis)
            self.atoms[name] = len(self.column) + np.arange(runs.size)
            self.runs[name] = runs
            self._grow(np.full(runs.size, len(self.runs) - 1), np.zeros(runs.size, np.int64))
            return np.arange(runs.size)
        met, here, there = known.meet(axis)
        if met is known:
            return there
        again = np.zeros(len(here), bool)
        again[np.setdiff1d(np.arange(len(here)), np.unique(here, return_index=True)[1])] = True
        parents = self.atoms[name][here]
        children = len(self.column) + np.arange(np.count_nonzero(again))
        atoms = parents.copy()
        atoms[again] = children
        self._grow(self.column[parents[again]], self.fixed[parents[again]])
        self._load[children] = self._load[parents[again]]
        boxes = self.boxes
        order = np.argsort(boxes.atom, kind="stable")
        low = np.searchsorted(boxes.atom[order], parents[again], "left")
        high = np.searchsorted(boxes.atom[order], parents[again], "right")
        spread = np.repeat(np.arange(len(children)), high - low)
        rank = np.arange(len(spread)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        copied = boxes.entry[order[low[spread] + rank]]
        self.boxes = _Boxes(
            boxes.weight,
            boxes.first,
            boxes.share,
            np.concatenate([boxes.entry, copied]),
            np.concatenate([boxes.atom, children[spread]]),
        )
        self.runs[name], self.atoms[name] = met, atoms
        return there

    def _grow(self, column: Ints, fixed: Ints) -> None:
        self.column = np.concatenate([self.column, column])
        self.fixed = np.concatenate([self.fixed, fixed])
        self._load = np.concatenate([self._load, fixed])

    def _single(self, name: str, values: Ints) -> tuple[dict[str, Ints], Ints]:
        """Add a loss for each value of one column; a share needs no remembering there."""
        atoms = self.atoms[name]
        self.fixed, self._load = self.fixed.copy(), self._load.copy()
        self.fixed[atoms] += values
        self._load[atoms] += values
        self.total += int(values.max())
        lost = np.flatnonzero(values)
        return {name: atoms[lost]}, values[lost]

    def _several(
        self, names: list[str], classes: list[Ints], listed: list[Piece]
    ) -> list[tuple[dict[str, Ints], Ints]]:
        """Remember boxes, each with its weight on the column where its values matter least."""
        slopes = self._slopes(self._load.astype(np.float64))
        self._load = self._load.copy()
        boxes = self.boxes
        weight, first = [boxes.weight], [boxes.first]
        share, entry, atom = [boxes.share], [boxes.entry], [boxes.atom]
        size, found = len(boxes.share), []
        for piece in listed:
            held = {
                name: self.atoms[name][mask[there]]
                for name, there, mask in zip(names, classes, piece.masks, strict=True)
                if mask is not None
            }
            sets = list(held.values())
            costs = [float(slopes[atoms].sum()) for atoms in sets]
            own = costs.index(min(costs))
            self._load[sets[own]] += piece.weight
            self.total += piece.weight
            weights = np.array([piece.weight])
            weight.append(weights)
            first.append(np.array([size]))
            share.append(np.where(np.arange(len(sets)) == own, piece.weight, 0))
            entry.append(np.repeat(size + np.arange(len(sets)), [len(atoms) for atoms in sets]))
            atom += sets
            size += len(sets)
            found.append((held, weights))
        joined = (np.concatenate(arrays) for arrays in (weight, first, share, entry, atom))
        self.boxes = _Boxes(*joined)
        return found

    def _forget(self) -> None:
        """Make the shares of the older half of the boxes final."""
        boxes, half = self.boxes, len(self.boxes.weight) // 2
        cut = int(boxes.first[half])
        old = boxes.entry < cut
        self.fixed = self.fixed.copy()
        np.add.at(self.fixed, boxes.atom[old], boxes.share[boxes.entry[old]])
        self.boxes = _Boxes(
            boxes.weight[half:],
            boxes.first[half:] - cut,
            boxes.share[cut:],
            boxes.entry[~old] - cut,
            boxes.atom[~old],
        )
        self.whole = False

    # -- bounds --------------------------------------------------------------------------------

    def _tops(self) -> Ints:
        """The largest load in each column."""
        tops = np.zeros(len(self.runs), np.int64)
        np.maximum.at(tops, self.column, self._load)
        return tops

    def _bound(self) -> int:
        return sum(self._tops().tolist())

    def _raised(self, before: int, held: dict[str, Ints], weights: Ints) -> int:
        """A bound for the cells of a new box, which had at most `before`.

        Of one column, the weights may be one a value.
        """
        tops = dict(zip(self.runs, self._tops().tolist(), strict=True))
        loads = [self._load[atoms] for atoms in held.values()]
        rest = sum(top for name, top in tops.items() if name not in held)
        if len(loads) > 1:
            loads = [np.array([sum(int(load.max()) for load in loads)])]
        found = np.minimum(before + weights, rest + loads[0])
        return int(found.max(initial=0))

    def _worst(self) -> Ints:
        """In each column the atom with the largest load."""
        order = np.lexsort((self._load, self.column))
        return order[np.flatnonzero(np.diff(self.column[order], append=-1))]

    def _loss(self, cell: Ints) -> int:
        """The loss of a cell, given by one atom a column, when all boxes are remembered."""
        boxes = self.boxes
        chosen = np.zeros(len(self.column), bool)
        chosen[cell] = True
        loss = sum(self.fixed[cell].tolist())
        if len(boxes.weight):
            met = np.bincount(boxes.entry[chosen[boxes.atom]], minlength=len(boxes.share))
            loss += sum(boxes.weight[np.minimum.reduceat(met, boxes.first) > 0].tolist())
        return int(loss)

    # -- better shares -------------------------------------------------------------------------

    def _soft(self, load: Floats) -> tuple[Floats, Floats]:
        """For each column, the smoothed maximum of the load, and its derivatives by atom."""
        heat = max(SMOOTH * float(self.high), 1.0)
        count = len(self.runs)
        tops = np.full(count, -np.inf)
        np.maximum.at(tops, self.column, load)
        raised = np.exp((load - tops[self.column]) / heat)
        sums = np.bincount(self.column, weights=raised, minlength=count)
        return tops + heat * np.log(sums), raised / sums[self.column]

    def _slopes(self, load: Floats) -> Floats:
        return self._soft(load)[1]

    def _step(self) -> bool:
        """Move a part of every share to the box's best column. False where that does not help."""
        boxes = self.boxes
        if not len(boxes.weight):
            return False
        load = self._load.astype(np.float64)
        soft, slopes = self._soft(load)
        costs = np.bincount(boxes.entry, weights=slopes[boxes.atom], minlength=len(boxes.share))
        sizes = np.diff(boxes.first, append=len(boxes.share))
        box = np.repeat(np.arange(len(sizes)), sizes)
        least = np.flatnonzero(costs <= np.minimum.reduceat(costs, boxes.first)[box])
        best = least[np.unique(box[least], return_index=True)[1]]
        whole = np.zeros(len(boxes.share))
        whole[best] = boxes.weight
        aim = self.fixed + np.bincount(boxes.atom, weights=whole[boxes.entry], minlength=len(load))
        values = [
            float(self._soft(load + (aim - load) / (1 << halving))[0].sum())
            for halving in range(1, HALVINGS + 1)
        ]
        halving = 1 + int(np.argmin(values))
        if not values[halving - 1] < float(soft.sum()):
            return False
        moved = boxes.share >> halving
        share = boxes.share - moved
        share[best] += np.add.reduceat(moved, boxes.first)
        self.boxes = _Boxes(boxes.weight, boxes.first, share, boxes.entry, boxes.atom)
        self._sum()
        return True

    def _sum(self) -> None:
        """The loads of all values, from the shares."""
        self._load = self.fixed.copy()
        np.add.at(self._load, self.boxes.atom, self.boxes.share[self.boxes.entry])
