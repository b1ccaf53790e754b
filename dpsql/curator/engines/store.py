"""Stores the codes of all rows of a dataset in a table in memory, with bounded units."""

from __future__ import annotations

from typing import Final

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Connection
from dpsql.curator.engines.layout import UNIT, Layout, code
from dpsql.curator.engines.unit import kept, pads

STORED: Final = quote.name("temp", "main", "__dpsql_stored")
"""The table of codes."""

_ALL: Final = quote.name("temp", "main", "__dpsql_all")
_OVER: Final = quote.name("temp", "main", "__dpsql_over")


def store(connection: Connection, layout: Layout, relation: str) -> None:
    """Store the rows of `relation` that lie in the domain. Not for a dataset of bounded units.

    All rows are read alike, whichever lie in the domain, so that one that cannot be read is found.
    """
    _table(connection, STORED, f"SELECT {_narrow(layout)} FROM ({layout.codes(relation)})")
    connection.execute(f"DELETE FROM {STORED} WHERE {layout.outside}")


def store_bounded(
    connection: Connection, layout: Layout, relation: str, key: bytes, max_rows: int
) -> None:
    """Store the rows that lie in the domain, and of each unit at most `max_rows` of those.

    A row without the id of a unit is a unit of its own. All rows are read alike.
    """
    fields = _narrow(layout)
    _table(connection, _ALL, f"SELECT {UNIT}, {fields} FROM ({layout.codes(relation)})")
    connection.execute(f"DELETE FROM {_ALL} WHERE {layout.outside}")
    over = f"SELECT {UNIT} FROM {_ALL} WHERE {UNIT} IS NOT NULL GROUP BY {UNIT}"
    _table(connection, _OVER, f"{over} HAVING count(*) > {max_rows}")
    codes = [code(number) for number in range(len(layout.encodings))]
    listed = ", ".join(codes)
    _table(connection, STORED, f"SELECT {listed} FROM {_ALL} ANTI JOIN {_OVER} USING ({UNIT})")
    rows = f"(SELECT {UNIT}, {listed} FROM {_ALL} SEMI JOIN {_OVER} USING ({UNIT}))"
    connection.execute(f"INSERT INTO {STORED} {kept(codes, rows, max_rows)}", pads(key))
    connection.execute(f"DROP TABLE {_ALL}")
    connection.execute(f"DROP TABLE {_OVER}")


def _table(connection: Connection, name: str, select: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")


def _narrow(layout: Layout) -> str:
    return ", ".join(
        f"CAST({code(number)} AS {encoding.width}) AS {code(number)}"
        for number, encoding in enumerate(layout.encodings)
    )
