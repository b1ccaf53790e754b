"""Released values as data frames, Arrow tables and Parquet, through a private empty DuckDB.

Released values alone pass through here: the database is in memory and holds nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dpsql.errors import MissingExtra
from dpsql.surfaces.figures import plain
from dpsql.surfaces.sheet import Sheet, distinct

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

ROWS_AT_ONCE = 10_000
_TYPE = re.compile(r"[A-Z][A-Z0-9 ]*(\(\d+, ?\d+\))?( WITH TIME ZONE)?")


def df(page: Sheet) -> pandas.DataFrame:
    """The rows as a pandas data frame. Raises MissingExtra without pandas."""
    _need("pandas", "pandas", page)
    with _loaded(page) as database:
        frame: pandas.DataFrame = database.sql("FROM page").df()
    return frame


def arrow(page: Sheet) -> pyarrow.Table:
    """The rows as an Arrow table. Raises MissingExtra without pyarrow."""
    _need("pyarrow", "arrow", page)
    with _loaded(page) as database:
        frame: pyarrow.Table = database.sql("FROM page").to_arrow_table()
    return frame


def pl(page: Sheet) -> polars.DataFrame:
    """The rows as a polars data frame. Raises MissingExtra without polars."""
    _need("polars", "polars", page)
    _need("pyarrow", "polars", page)
    with _loaded(page) as database:
        frame: polars.DataFrame = database.sql("FROM page").pl()
    return frame


def parquet(page: Sheet, path: Path) -> None:
    """Write the rows as a Parquet file. Raises OSError when the file cannot be written."""
    try:
        with _loaded(page, files=True) as database:
            database.execute("COPY page TO $1 (FORMAT parquet, COMPRESSION zstd)", [str(path)])
    except duckdb.IOException:
        raise OSError(None, "the file cannot be written") from None


def database(page: Sheet, path: Path, name: str) -> None:
    """Write the rows as a table of a new DuckDB file. Raises OSError when it cannot be written."""
    table = '"' + name.replace('"', '""') + '"'
    try:
        path.unlink(missing_ok=True)  # DuckDB takes no empty file
        with _loaded(page, files=True) as made:
            made.execute("ATTACH '" + str(path).replace("'", "''") + "' AS made")
            made.execute(f"CREATE TABLE made.{table} AS FROM page")
            made.execute("DETACH made")
    except duckdb.IOException:
        raise OSError(None, "the file cannot be written") from None


def _loaded(page: Sheet, *, files: bool = False) -> duckdb.DuckDBPyConnection:
    """A fresh database in memory with the rows in a table `page`, repeated names numbered."""
    options: dict[str, str | bool | int | float | list[str]] = {
        "python_enable_replacements": "false",
        "enable_external_access": "true" if files else "false",
    }
    database = duckdb.connect(":memory:", config=options)
    types = [_known(kind) for kind in page.types]
    names = ['"' + name.replace('"', '""') + '"' for name in distinct(page.columns)]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    database.execute(f"CREATE TABLE page ({columns})")
    # Text is the one form that every value has on both sides; JSON carries it fast.
    fields = ", ".join(
        f"unnest(from_json(${index}, '[\"VARCHAR\"]'))::{kind}"
        for index, kind in enumerate(types, 1)
    )
    for first in range(0, len(page.rows), ROWS_AT_ONCE):
        rows = page.rows[first : first + ROWS_AT_ONCE]
        columns_of = [
            json.dumps([plain(value) for value in column]) for column in zip(*rows, strict=True)
        ]
        database.execute(f"INSERT INTO page SELECT {fields}", columns_of)
    return database


def _known(kind: str) -> str:
    """The type if it has the form of one, else text."""
    if kind in ('"NULL"', "NULL"):
        return "INTEGER"
    return kind if _TYPE.fullmatch(kind) else "VARCHAR"


def _need(package: str, extra: str, page: Sheet) -> None:
    """Raise MissingExtra without the package: with the rows, which were paid for already."""
    if importlib.util.find_spec(package) is None:
        fault = MissingExtra(
            f"this needs {package}: pip install 'dpsql[{extra}]'; the answer is not lost: "
            "fetchall() of the cursor reads it, and `rows` of this error has it"
        )
        fault.rows = page.rows
        raise fault
