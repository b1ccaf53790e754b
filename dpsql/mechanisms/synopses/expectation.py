"""Expectations of linear queries under a factored distribution.

E_p[q] of a query that is a product over disjoint columns is the contraction of the tree's tables
with one tensor for each part of the query. A predicate splits at its ANDs into parts that share no
column; a part is evaluated on the classes of its own columns, never on the whole product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.contraction import Tensor
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Entangled, Floats
from dpsql.query.linear import Block, TableOf, Term, Weight, Workload, classes, product
from dpsql.query.predicate import TRUE, And, Leaf, Predicate, Truth, leaves, mentioned, truth

Ints = NDArray[np.int64]

_ONE = np.zeros(1, np.int64)  # the id of the one group there is
_JOINT = 1 << 16  # cells of a joint distribution that is formed, and kept, for a query
_SPREAD = 1 << 12  # the same where several cliques are to be joined for it


# -- parts of a query ------------------------------------------------------------------------------


class Part(NamedTuple):
    """What a query multiplies on some columns: a condition, weights, or the groups of a key."""

    domain: Domain
    condition: Predicate | None = None
    weights: NDArray[Any] | None = None
    groups: tuple[Ints, int] | None = None  # code of each cell, stride

    def tables(self) -> list[TableOf]:
        if self.condition is not None:
            return [(leaf.domain, leaf.table) for leaf in leaves(self.condition)]
        table = self.weights if self.weights is not None else cast(Ints, self.groups)[0]
        return [(self.domain, table)]


class Split(NamedTuple):
    """A part of a query on the atoms of touched columns; the last axis is of groups `ids`."""

    tensor: Tensor
    ids: Ints


def _conditions(domain: Domain, predicate: Predicate) -> list[Part]:
    """A predicate as parts that all must be TRUE."""
    match predicate:
        case And(parts=parts):
            return [one for part in parts for one in _conditions(domain, part)]
        case Leaf(domain=Domain(names=()), table=table) if table[0] == TRUE:
            return []
        case Leaf(domain=own):
            return [Part(own, condition=predicate)]
        case _:
            names = [name for name in domain.names if name in mentioned(predicate)]
            return [Part(domain.project(names), condition=predicate)]


def _connected(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts together that share columns."""
    found: list[tuple[set[str], list[Part]]] = []
    for part in parts:
        names, own = set(part.domain.names), [part]
        rest = []
        for other, listed in found:
            if names & other or not (names or other):
                names |= other
                own = listed + own
            else:
                rest.append((other, listed))
        found = [*rest, (names, own)]
    return [own for _, own in found]


def _split(state: Factored, all_of: Domain, parts: Sequence[Part]) -> Split:
    """Connected parts on atoms: the mean over each atom of their product."""
    match parts:
        case [Part(domain=Domain(names=(name,)), condition=Leaf(table=truths))]:
            return _of_column(state, name, truths)
    names = tuple(n for n in all_of.names if any(n in p.domain.names for p in parts))
    domain = all_of.project(names)
    tables = [table for part in parts for table in part.tables()]
    for name in names:
        if name in state.atoms:
            tables.append((domain.project([name]), state.atoms[name]))
    told = classes(domain, tables)
    if math.prod(each.number for each in told.values()) > state.most:
        raise Entangled(f"a condition on {', '.join(names)} has more than {state.most:,} cells")
    codes, count = product({name: each.first for name, each in told.items()})
    values = np.ones(count)
    ids = np.zeros(count, np.int64)
    for part in parts:
        if part.condition is not None:
            values *= truth(part.condition, codes, count) == TRUE
        elif part.weights is not None:
            values *= part.weights[part.domain.index(codes, count)]
        elif part.groups is not None:
            of, stride = part.groups
            ids += of[part.domain.index(codes, count)] * stride
    listed, place = np.unique(ids, return_inverse=True)
    if count * len(listed) > state.most:
        raise Entangled(f"groups on {', '.join(names)} have more than {state.most:,} cells")
    spread = np.zeros((count, len(listed)))
    spread[np.arange(count), place.reshape(-1)] = values
    table = spread.reshape(*(each.number for each in told.values()), len(listed))
    kept = []
    for axis, (name, each) in reversed(list(enumerate(told.items()))):
        sizes = np.bincount(each.of, minlength=each.number)
        if name in state.atoms:
            atom = state.atoms[name][each.first]
            table = _summed(table, axis, atom, sizes / state.counts[name][atom])
            kept.append(name)
        else:
            table = np.tensordot(sizes / len(each.of), table, axes=(0, axis))
    return Split(Tensor(tuple(reversed(kept)), table), listed)


def _of_column(state: Factored, name: str, truths: Truth) -> Split:
    """A condition on one column: the part of each atom's codes for which it is TRUE."""
    holds = truths == TRUE
    if name not in state.atoms:
        return Split(Tensor((), np.array([np.count_nonzero(holds) / len(holds)])), _ONE)
    found = np.bincount(state.atoms[name], holds) / state.counts[name]
    return Split(Tensor((name,), found[:, None]), _ONE)


def _summed(table: Floats, axis: int, atom: Ints, share: Floats) -> Floats:
    """A table's entries along an axis times a share each, summed by atom; every atom is met."""
    atoms = int(atom.max()) + 1
    if atoms * len(atom) <= _JOINT:  # fastest where it is small
        matrix = np.zeros((atoms, len(atom)))
        matrix[atom, np.arange(len(atom))] = share
        return np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    rows = np.moveaxis(table, axis, 0)
    found = np.zeros((atoms, *rows.shape[1:]))
    np.add.at(found, atom, rows * share.reshape(-1, *[1] * (rows.ndim - 1)))
    return np.moveaxis(found, 0, axis)


# -- answers ---------------------------------------------------------------------------------------


def answers(state: Factored, workload: Workload) -> list[Floats]:
    """What the distribution answers to each block, (groups, weights) in rows.

    Columns that are mentioned and that it is not of are to make no difference, as in `age >= 0`:
    they are taken to be uniform. Raises Entangled where a table on the way is too large.
    """
    domain = state.domain
    others = [name for name in workload.domain.names if name not in domain.names]
    if others:
        sizes = workload.domain.project(others).sizes
        domain = Domain(domain.names + tuple(others), domain.sizes + sizes)
    return [_block(state, domain, block) for block in workload.blocks]


def _block(state: Factored, domain: Domain, block: Block) -> Floats:
    where = _conditions(domain, block.where)
    found = []
    for grouping in block.groupings:
        keys = [
            Part(key, groups=(of.astype(np.int64), stride)) for key, of, stride in grouping.keys
        ]
        values = np.zeros((grouping.size, len(block.weights)))
        for column, weight in enumerate(block.weights):
            for term in weight.terms:
                parts = [*where, *_of_term(domain, term), *keys]
                ids, each = _means(state, domain, parts)
                if not keys:
                    values[:, column] += each * weight.factor  # of the one group there is
                    continue
                at = np.searchsorted(ids, grouping.listed)
                at[at == len(ids)] = 0
                inside = ids[at] == grouping.listed
                values[inside, column] += each[at[inside]] * weight.factor
        found.append(values * state.total)
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros((0, len(block.weights)))


def _of_term(domain: Domain, term: Term) -> list[Part]:
    parts = _conditions(domain, term.predicate)
    if term.table is not None:
        parts.append(Part(term.table.domain, weights=term.table.values))
    return parts


def _means(state: Factored, domain: Domain, parts: Sequence[Part]) -> tuple[Ints, Floats]:
    """The mean of a product of parts in each group, and the groups' ids, ascending."""
    splits = [_split(state, domain, some) for some in _connected(parts)]
    touched = {name for tensor, _ in splits for name in tensor.names}
    names = tuple(name for name in state.touched if name in touched)
    splits.sort(key=lambda split: max(map(names.index, split.tensor.names), default=-1))
    splits.reverse()
    ids = _ONE
    for _, listed in splits:
        if listed is not _ONE:
            ids = (ids[:, None] + listed).reshape(-1)
        if len(ids) > state.most:
            raise Entangled(f"the groups are more than {state.most:,}")
    most = _JOINT if state.tree.home(names) is not None else _SPREAD
    if math.prod(state.tree.shape(names)) <= most:
        means = _summed_up(Tensor(names, state.joint(names)), splits)
    else:
        means = _contracted(state, splits)
    if ids is _ONE:
        return ids, means
    order = np.argsort(ids, kind="stable")
    return ids[order], means[order]


def _summed_up(joint: Tensor, splits: Sequence[Split]) -> Floats:
    """The mean in each combination of groups: a joint distribution times tensors, one by one, for
    no two of them share a column; that of the last axis first."""
    names, table = list(joint.names), joint.table
    for tensor, listed in splits:
        if len(listed) == 1 and names and tensor.names == (names[-1],):
            names.pop()
            table = table @ tensor.table[:, 0]  # tensordot takes five times as long
        else:
            axes = [names.index(name) for name in tensor.names]
            names = [name for name in names if name not in tensor.names]
            table = np.tensordot(table, tensor.table, axes=(axes, range(len(axes))))
            names.append("")  # the groups
    return np.asarray(table).reshape(-1)


def _contracted(state: Factored, splits: Sequence[Split]) -> Floats:
    """The same of a joint distribution that is too large to be formed."""
    tensors: list[Tensor] = []
    kept: list[str] = []
    for at, (tensor, listed) in enumerate(splits):
        if len(listed) > 1:
            axis = f"group {at}\0"  # the name of no column
            kept.append(axis)
            tensors.append(Tensor((*tensor.names, axis), tensor.table))
        else:
            tensors.append(Tensor(tensor.names, tensor.table[..., 0]))
    return state.sums(tensors, tuple(kept)).reshape(-1)


# -- a query as a table ----------------------------------------------------------------------------


def indicator(domain: Domain, query: Workload, most: int) -> tuple[dict[str, Ints], Floats]:
    """A single query as classes of codes of its columns, and its value on each combination.

    Raises ValueError for a workload of several queries, Entangled for a table over `most` cells.
    """
    if query.size != 1 or any(g.keys for b in query.blocks for g in b.groupings):
        raise ValueError("a single query without groups is learnt")
    ((where, (weight,)),) = ((block.where, block.weights) for block in query.blocks if block.groups)
    names = [n for n in domain.names if n in _mentioned(where, weight)]
    tables = [t for p in _conditions(domain, where) for t in p.tables()]
    tables += [t for term in weight.terms for p in _of_term(domain, term) for t in p.tables()]
    told = classes(domain.project(names), [t for t in tables if t[0].names])
    if math.prod(each.number for each in told.values()) > most:
        raise Entangled(f"a query on {', '.join(names)} has more than {most:,} cells")
    codes, count = product({name: each.first for name, each in told.items()})
    values = query.rmatvec(codes, count, [np.ones((b.groups, 1), np.int64) for b in query.blocks])
    shape = [each.number for each in told.values()]
    found = {name: each.of for name, each in told.items()}
    return found, values.astype(np.float64).reshape(shape)


def _mentioned(where: Predicate, weight: Weight) -> set[str]:
    names = set(mentioned(where))
    for term in weight.terms:
        names |= mentioned(term.predicate)
        if term.table is not None:
            names |= set(term.table.domain.names)
    return names
