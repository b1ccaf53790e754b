"""Stores the codes of all rows of a dataset in a table in memory, with bounded units."""

from __future__ import annotations

from typing import Final

import numpy as np

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Connection
from dpsql.curator.engines.layout import UNIT, Layout, code
from dpsql.curator.engines.unit import kept
from dpsql.curator.sealed import Sealed, unseal

STORED: Final = quote.name("temp", "main", "__dpsql_stored")
"""The table of codes."""

_ALL: Final = quote.name("temp", "main", "__dpsql_all")
_OVER: Final = quote.name("temp", "main", "__dpsql_over")
_BATCH: Final = 250_000  # rows of large units that are ranked at once


def store(connection: Connection, layout: Layout, relation: str) -> None:
    """Store the rows of `relation` that lie in the domain. Not for a dataset of bounded units."""
    _table(connection, STORED, f"SELECT {_narrow(layout)} FROM ({layout.rows(relation)})")


def store_bounded(
    connection: Connection, layout: Layout, relation: str, key: bytes, max_rows: int
) -> None:
    """Store the rows that lie in the domain, and of each unit at most `max_rows` of those.

    A row without the id of a unit is a unit of its own.
    """
    fields = _narrow(layout)
    _table(connection, _ALL, f"SELECT {UNIT}, {fields} FROM ({layout.rows(relation)})")
    over = f"SELECT {UNIT}, count(*) AS n FROM {_ALL} WHERE {UNIT} IS NOT NULL GROUP BY {UNIT}"
    _table(connection, _OVER, f"{over} HAVING n > {max_rows}")
    few = f"SELECT {fields} FROM {_ALL} ANTI JOIN {_OVER} USING ({UNIT})"
    _table(connection, STORED, few)
    [(rows,)] = connection.rows(f"SELECT coalesce(sum(n), 0) FROM {_OVER}")
    batches = int(rows) // _BATCH + 1 if rows else 0
    for batch in range(batches):  # hash() only parts the work; no result depends on it
        _bound(connection, layout, key, max_rows, f"hash({UNIT}) % {batches} = {batch}")
    connection.execute(f"DROP TABLE {_ALL}")
    connection.execute(f"DROP TABLE {_OVER}")


def _bound(connection: Connection, layout: Layout, key: bytes, max_rows: int, where: str) -> None:
    """Store what is kept of the units that are over the bound, for one batch of them."""
    names = [code(number) for number in range(len(layout.encodings))]
    lines = connection.arrays(
        f"SELECT {UNIT}, {', '.join(names)}, count(*) AS n FROM {_ALL} SEMI JOIN {_OVER} "
        f"USING ({UNIT}) WHERE {where} GROUP BY ALL ORDER BY {UNIT}"
    )
    arrays = unseal(lines)
    codes = np.column_stack([arrays[name] for name in names])
    chosen = kept(key, max_rows, Sealed(arrays[UNIT]), Sealed(codes), Sealed(arrays["n"]))
    rows = {name: arrays[name][unseal(chosen)] for name in names}
    connection.insert(STORED, Sealed(rows))


def _table(connection: Connection, name: str, select: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")


def _narrow(layout: Layout) -> str:
    return ", ".join(
        f"CAST({code(number)} AS {encoding.width}) AS {code(number)}"
        for number, encoding in enumerate(layout.encodings)
    )
