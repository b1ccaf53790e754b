"""The largest column of W: how far answers move when one row comes or goes.

Cells that no query tells apart are merged first (atoms). A block's tests and weights fall into
components that share no columns: their largest sums add, each found by visiting the component's
atoms. Several blocks are visited together. Where the atoms are too many they are searched, by
branch and bound. Where that ends early, weights of the same columns are visited alone, and what is
still too large is bounded by its largest weights: sums of largest sums are bounds from above,
marked as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.columns import SLICE, Family, Moved, most, slices, weight_names
from dpsql.domain import Domain
from dpsql.query.linear import Block, TableOf, Weight, Workload, atoms, combinations
from dpsql.query.predicate import TRUE, And, Leaf, Predicate, mentioned

_VISITED = 1 << 22  # atoms that are visited one by one
_WORK = 1 << 25  # atoms times weights and tests
_LONE = 1 << 27  # and of a single column, where a search visits all atoms as well
_HELD = 1 << 23  # sizes of weights that are held at a time
_PLAIN = 1 << 24  # values of a single column that are visited as they are


def one_cell(workload: Workload) -> Moved:
    """The largest norms of a column of W: what one row that comes or goes can move."""
    families = [family(block) for block in workload.blocks]
    if sum(f.times * f.squares for f in families) <= 1:
        return Moved(1, 1, 1)
    if len(families) > 1:
        found = _visited(families, workload.domain)
        if found is not None:
            return found
    parts = [_block(f, workload.domain) for f in families]
    if len(parts) == 1:
        return parts[0]
    bound = Moved(
        sum(part.squared for part in parts),
        sum(part.absolute for part in parts),
        max(part.largest for part in parts),
        False,
    )
    known = bound.largest if all(part.exact for part in parts) else None
    return _searched(families, workload.domain, bound, known)


def _searched(
    families: Sequence[Family], domain: Domain, bound: Moved, largest: int | None = None
) -> Moved:
    """The largest sums where a search finds them, else the lesser of its bound and of another."""
    from dpsql.curator.search import search  # for few workloads

    found = search(families, domain, largest)
    if found is None:
        return bound
    return Moved(
        min(found.squared, bound.squared),
        min(found.absolute, bound.absolute),
        min(found.largest, bound.largest),
        found.exact,
    )


def family(block: Block) -> Family:
    """A block's weights, under the conjuncts of its condition."""
    where = block.where
    tests = where.parts if isinstance(where, And) else (where,)
    return Family(tests, block.weights, len(block.groupings))


def _visited(families: Sequence[Family], domain: Domain) -> Moved | None:
    """The largest sums over all atoms of some families, or None where these are too many."""
    mentioned_ = {name for f in families for name in f.names}
    names = [name for name in domain.names if name in mentioned_]
    tables = [table for f in families for table in f.tables]
    representatives = _representatives(domain.project(names), tables)
    cells, each = (
        combinations(representatives),
        sum(len(f.weights) + len(f.tests) for f in families),
    )
    if cells > _VISITED and not _alone(names, cells):
        return None
    if cells * each > (_LONE if len(names) == 1 else _WORK):
        return None
    listed = slices(representatives, max(1, min(SLICE, _HELD // max(each, 1))))
    found = [most(families, codes, count) for codes, count in listed]
    return Moved(
        max(some.squared for some in found),
        max(some.absolute for some in found),
        max(some.largest for some in found),
    )


def _representatives(domain: Domain, tables: Sequence[TableOf]) -> Mapping[str, NDArray[np.int64]]:
    """Codes whose combinations show all columns of W; all codes where sorting takes longer."""
    if _alone(domain.names, domain.cells):
        return {n: np.arange(s) for n, s in zip(domain.names, domain.sizes, strict=True)}
    return atoms(domain, tables)


def _alone(names: Sequence[str], cells: int) -> bool:
    """Whether cells are those of a single column, which are soon visited a slice at a time."""
    return len(names) == 1 and cells <= _PLAIN


def _block(whole: Family, domain: Domain) -> Moved:
    """The largest sums of one block: those of its components together."""
    squared = absolute = largest = 0
    exact = True
    for part in _components(whole):
        found = _visited([part], domain) if part.weights else Moved(0, 0, 0)
        found = found or _bounded(part, domain)
        if not found.largest:  # where no row meets the tests nothing else counts either
            met = _satisfiable(part.tests, domain)
            if met is False:
                return found
            exact = exact and met is True
        exact = exact and found.exact
        squared += found.squared
        absolute += found.absolute
        largest = max(largest, found.largest)
    return Moved(squared, absolute, largest, exact)


def _bounded(part: Family, domain: Domain) -> Moved:
    """The largest sums of a component whose atoms are too many to visit, or bounds on them."""
    alike = [_alike(some, domain) for some in _apart(part)]
    bound = Moved(
        sum(some.squared for some in alike),
        sum(some.absolute for some in alike),
        max(some.largest for some in alike),
        False,
    )
    return _searched([part], domain, bound)


def _components(whole: Family) -> list[Family]:
    """A block's tests and weights, those that share columns together."""
    found: list[tuple[set[str], Family]] = []
    entries = [(set(mentioned(t)), Family((t,), (), whole.times)) for t in whole.tests]
    entries += [(weight_names(w), Family((), (w,), whole.times)) for w in whole.weights]
    for names, entry in entries:
        joined = [part for part in found if part[0] & names]
        found = [part for part in found if not part[0] & names]
        parts = [*(part for _, part in joined), entry]
        found.append(
            (
                names.union(*(part[0] for part in joined)),
                Family(
                    tuple(t for part in parts for t in part.tests),
                    tuple(w for part in parts for w in part.weights),
                    whole.times,
                ),
            )
        )
    return [part for _, part in found]


def _satisfiable(tests: Sequence[Predicate], domain: Domain) -> bool | None:
    """Whether some cell meets all tests; None where that is too much work."""
    match tests:
        case [Leaf(table=table)]:
            return bool((table == TRUE).any())
    alone = Family(tuple(tests), (), 1)
    names = [name for name in domain.names if name in alone.names]
    representatives = atoms(domain.project(names), alone.tables)
    if combinations(representatives) > _VISITED:
        return None
    return any(alone.holds(codes, count).any() for codes, count in slices(representatives))


def _apart(whole: Family) -> list[Family]:
    """The weights of a component by the columns that they mention, with the tests on just these."""
    alike: dict[frozenset[str], list[Weight]] = {}
    for weight in whole.weights:
        alike.setdefault(frozenset(weight_names(weight)), []).append(weight)
    return [
        Family(tuple(t for t in whole.tests if mentioned(t) <= names), tuple(weights), whole.times)
        for names, weights in alike.items()
    ]


def _alike(part: Family, domain: Domain) -> Moved:
    """A bound on the sums of weights of the same columns."""
    found = _visited([part], domain)
    if found is not None:
        return Moved(found.squared, found.absolute, found.largest, False)
    sizes = [weight.largest for weight in part.weights]
    return Moved(part.times * part.squares, part.times * sum(sizes), max(sizes), False)
