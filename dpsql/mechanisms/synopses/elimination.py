"""Sums over a junction tree, clique by clique: a leaf is summed onto what its neighbour shares.

A distribution is the product of the beliefs of its cliques, divided by the masses of what
neighbours share (Koller and Friedman 2009, 10.2.3); other tensors hang on cliques as leaves do.
Next always is the leaf that takes the fewest multiplications.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from dpsql.mechanisms.synopses.contraction import Tensor
from dpsql.mechanisms.synopses.junction import CELLS, Entangled, Floats, Names, Tree, summed
from dpsql.mechanisms.threads import one_thread


class _Edge(NamedTuple):
    """What two neighbours share, and of two cliques the lower one; -1 where one is a tensor."""

    shared: Names
    low: int


_Nodes: TypeAlias = dict[int, Tensor]  # cliques by their places, other tensors by numbers below 0
_Near: TypeAlias = dict[int, dict[int, _Edge]]


def eliminated(
    tree: Tree,
    beliefs: Sequence[Floats],
    mass: Callable[[int], Floats],
    tensors: Sequence[Tensor],
    kept: Names,
) -> Floats:
    """The sum of a distribution times tensors over all axes that are not kept.

    `mass(at)` is the marginal of what a clique shares with its parent. Raises Entangled where no
    clique has all columns of a tensor, or a table on the way has more than CELLS cells.
    """
    nodes, near = _forest(tree, beliefs, tensors, kept)
    sizes = {
        name: n
        for node in nodes.values()
        for name, n in zip(node.names, node.table.shape, strict=True)
    }
    wanted = set(kept)

    def needed(at: int, gone: int) -> set[str]:
        """What a node is to keep once a neighbour is folded into it."""
        return wanted.union(*(each.shared for other, each in near[at].items() if other != gone))

    def work(leaf: int) -> int:
        """How many multiplications it takes to fold a leaf."""
        ((onto, edge),) = near[leaf].items()
        stay = needed(onto, leaf).union(edge.shared).intersection(nodes[onto].names)
        return math.prod(sizes[name] for name in stay | wanted.intersection(nodes[leaf].names))

    with one_thread():
        while leaves := [at for at, some in near.items() if len(some) == 1]:
            leaf = min(leaves, key=work)
            ((onto, edge),) = near.pop(leaf).items()
            by = mass(edge.low) if edge.low >= 0 else None
            given = _given(_onto(nodes.pop(leaf), wanted.union(edge.shared)), edge.shared, by)
            nodes[onto] = _folded(nodes[onto], given, edge.shared, needed(onto, leaf))
            del near[onto][leaf]
        found = Tensor((), np.ones(()))
        for tensor in nodes.values():
            found = _folded(found, _onto(tensor, wanted), (), wanted)
    return found.table.transpose([found.names.index(name) for name in kept])


def _forest(
    tree: Tree, beliefs: Sequence[Floats], tensors: Sequence[Tensor], kept: Names
) -> tuple[_Nodes, _Near]:
    """The cliques that tell of what is asked, and tensors, each beside a clique of its columns."""
    asked = {*kept, *(name for tensor in tensors for name in tensor.names)}
    cliques = tree.within(asked.intersection(tree.sizes))
    nodes = {at: Tensor(tree.cliques[at], beliefs[at]) for at in cliques}
    near: _Near = {at: {} for at in cliques}
    for at in cliques:
        parent = tree.parents[at]
        if parent in near:
            near[at][parent] = near[parent][at] = _Edge(tree.separators[at], at)
    for place, tensor in enumerate(tensors, 1):
        nodes[-place], near[-place] = tensor, {}
        columns = tuple(name for name in tensor.names if name in tree.sizes)
        homes = [at for at in cliques if set(columns).issubset(tree.cliques[at])]
        if columns and not homes:
            raise Entangled(f"{', '.join(columns)} are in no clique together")
        if columns:
            home = min(homes, key=tree.cells.__getitem__)
            near[-place][home] = near[home][-place] = _Edge(columns, -1)
    return nodes, near


def _onto(tensor: Tensor, names: Collection[str]) -> Tensor:
    """The sums over all axes but some."""
    kept = tuple(name for name in tensor.names if name in names)
    return Tensor(kept, summed(tensor.table, tensor.names, kept))


def _given(tensor: Tensor, shared: Names, mass: Floats | None) -> Tensor:
    """A table with the axes that are shared first, divided by their mass; 0 where that is none."""
    names = (*shared, *(name for name in tensor.names if name not in shared))
    table = tensor.table.transpose([tensor.names.index(name) for name in names])
    if mass is not None:
        each = np.where(mass > 0.0, mass, 1.0)
        table = table / each.reshape([*each.shape, *[1] * (table.ndim - each.ndim)])
    return Tensor(names, table)


def _folded(onto: Tensor, leaf: Tensor, shared: Names, needed: Collection[str]) -> Tensor:
    """The sum of a product of two tables over what they share and is not needed further.

    The first axes of `leaf` are those that are shared.
    """
    onto = _onto(onto, {*needed, *shared})
    both = tuple(name for name in shared if name in needed)
    gone = tuple(name for name in shared if name not in needed)
    own = tuple(name for name in onto.names if name not in shared)
    other = leaf.names[len(shared) :]
    first = onto.table.transpose([onto.names.index(name) for name in (*both, *own, *gone)])
    second = leaf.table.transpose([leaf.names.index(name) for name in (*both, *gone, *other)])
    beside, at = len(both), len(both) + len(own)
    shape = (*first.shape[:at], *second.shape[len(shared) :])
    if math.prod(shape) > CELLS:
        raise Entangled(f"a table of {math.prod(shape):,} cells is over {CELLS:,}")
    many, through = math.prod(shape[:beside]), math.prod(first.shape[at:])
    rows = first.reshape(many, math.prod(shape[beside:at]), through)
    found = rows @ second.reshape(many, through, math.prod(shape[at:]))
    return Tensor((*both, *own, *other), found.reshape(shape))
