"""All small databases of a given size over a small grid, and how far each is from the truth.

For SmallDB (Blum, Ligett, Roth 2008). A database of m rows is a multiset of cells. With q(D) of n
rows and q(y) of the m rows of y, its score is minus the largest over the queries of

    |m q(D) - n q(y)|,

whole numbers: m times by how many rows the answer n q(y) / m is off. *Sensitivity.* Where a row
comes, in cell x, the term moves by m q(x) - q(y), and where one moves from x to x' by
m (q(x) - q(x')). Queries are 0 or 1 in each cell, which is looked at, and q(y) is from 0 to m, so
either is m at most; r rows of a unit move it by r m. A largest of such terms moves no further.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.query.linear import Workload

MOST = 1 << 20  # databases that are looked at
WORK = 1 << 28  # of them, times their rows and the queries
CELLS = 1 << 13  # of the grid

Ints = NDArray[np.int64]


def databases(cells: int, size: int) -> int:
    """How many multisets of `size` cells there are; exact."""
    return math.comb(cells + size - 1, size)


def database(cells: int, size: int, place: int) -> list[int]:
    """The cells of one database, ascending, by its place among all (`multisets`)."""
    found, least = [], 0
    for left in range(size, 0, -1):
        while True:  # so many begin with this cell
            many = databases(cells - least, left - 1)
            if place < many:
                break
            place, least = place - many, least + 1
        found.append(least)
    return found


def multisets(cells: int, size: int) -> Ints:
    """All databases, one a row, in the order of their cells."""
    many = databases(cells, size)
    every = itertools.combinations_with_replacement(range(cells), size)
    flat = np.fromiter(itertools.chain.from_iterable(every), np.int64, many * size)
    return flat.reshape(many, size)


def matrix(listed: Workload, domain: Domain) -> Ints:
    """The value of each query in each cell. Raises UsageError for a query that is not 0 or 1.

    Columns that are mentioned and not in the domain are to make no difference.
    """
    codes = {name: np.zeros(domain.cells, np.int64) for name in listed.domain.names}
    codes |= domain.grid()
    found = listed.columns(codes, domain.cells)
    if not np.isin(found, (0, 1)).all():
        raise UsageError("a small database answers counts, of rows that count once or not at all")
    return found


def fits(cells: int, size: int, queries: int) -> bool:
    """Whether every database is looked at."""
    many = databases(cells, size)
    return many <= MOST and many * size * queries <= WORK


def require(cells: int, size: int, queries: int) -> None:
    """Raise UsageError where there are too many databases to look at each."""
    if size < 1 or cells > CELLS:
        raise UsageError(
            f"a small database is of a row or more, over at most {CELLS:,} cells, and not {size:,}"
            f" over {cells:,}: name fewer columns, in fewer queries"
        )
    if not fits(cells, size, queries):
        many, most = databases(cells, size), min(MOST, WORK // (size * queries))
        raise UsageError(
            f"there are {many:,} databases of {size} rows over {cells:,} cells, and for {queries:,}"
            f" queries at most {most:,} are looked at: fewer rows (--size), or fewer columns"
        )


def distances(queries: Ints, table: Ints, size: int) -> Ints:
    """The largest |m q(D) - n q(y)| over queries (queries, cells), of every database y of `size`.

    `table` has the rows of each cell.
    """
    every = multisets(len(table), size).T
    rows = int(table.sum())
    found = np.zeros(every.shape[1], np.int64)
    for query in np.unique(queries, axis=0):
        own = query[every[0]]
        for at in every[1:]:
            own = own + query[at]
        np.maximum(found, np.abs(size * int(query @ table) - rows * own), out=found)
    return found
