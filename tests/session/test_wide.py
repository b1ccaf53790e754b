"""Sums beyond 64 bits keep all their digits; what is rounded stays within what is promised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.query.grid import Grid
from dpsql.schema import loads
from dpsql.session import Session
from dpsql.surfaces import formats
from dpsql.surfaces.dbapi import Connection
from tests.query.exact import answer, counted

TOP, ROWS = (1 << 52) + 1, 5_000
TOTAL = TOP * ROWS  # above 2^64
VALUE = f"CASE WHEN s = 'y' THEN {TOP} ELSE 0 END"
SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
s = {type = "category", values = ["x", "y"]}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("wide")
    with duckdb.connect(str(folder / "t.duckdb")) as made:
        made.execute(f"CREATE TABLE t AS SELECT 'y' AS s FROM range({ROWS})")
        made.execute("INSERT INTO t SELECT 'x' FROM range(10)")
    (folder / "t.toml").write_text(SCHEMA)
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="t", epsilon=1e7)
    with Session(folder / "t.duckdb", user="ann", ledger=ledger) as found:
        yield found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT SUM({VALUE}) AS n FROM t", TOTAL),
        (f"SELECT SUM({VALUE}) AS n FROM t ORDER BY n", TOTAL),
        (f"SELECT SUM(-({VALUE})) AS n FROM t", -TOTAL),
        (f"SELECT SUM({VALUE}) + 1 AS n FROM t", TOTAL + 1),
        (f"SELECT s, SUM({VALUE}) AS n FROM t GROUP BY s ORDER BY n DESC LIMIT 1", TOTAL),
        (f"SELECT s, SUM({VALUE}) AS n FROM t GROUP BY s HAVING n > 5", TOTAL),
    ],
)
def test_a_sum_beyond_64_bits_has_all_its_digits(sql: str, expected: int, session: Session) -> None:
    release = session.answer(sql, rho=1e4)
    [row] = release.rows
    assert release.types[-1] == "HUGEINT"
    assert isinstance(row[-1], int) and row[-1] == expected


def test_every_form_shows_all_its_digits(session: Session) -> None:
    cursor = Connection(session).execute(f"SELECT SUM({VALUE}) AS n FROM t", rho=1e4)
    assert cursor.fetchall() == [(TOTAL,)]
    for form in ("csv", "json", "markdown"):
        assert str(TOTAL) in "\n".join(formats.lines(cursor.release, form))
    assert f"{TOTAL:,}" in "\n".join(formats.lines(cursor.release, "table"))
    assert cursor.release.from_dict(cursor.release.to_dict()) == cursor.release


@pytest.mark.parametrize("top", [131_072, 131_073, 2_000_003])
@pytest.mark.parametrize("narrow", [False, True])
def test_a_deviation_is_rounded_by_no_more_than_is_said(top: int, narrow: bool) -> None:
    """By 1/131,072 of the range at most, also where all values are close to each other."""
    dataset = loads(
        'dataset = "t"\nneighbours = "add-remove"\nunit = "row"\n[source]\ntable = "t"\n'
        f'[columns]\na = {{type = "integer", min = 0, max = {top}}}\n'
    )
    values = np.random.default_rng(8).integers(0, top // 20_000 if narrow else top, 2_000)
    rows = [(int(value),) for value in values]
    for name, deviation in (("STDDEV", values.std(ddof=1)), ("STDDEV_POP", values.std())):
        sql = f"SELECT {name}(a) FROM t"
        [(found,)] = answer(sql, dataset, Grid(dataset), counted(dataset, rows)).rows
        rounded = 0.0 if top <= 131_072 else top / 131_072 * 1.001
        assert found == pytest.approx(deviation, rel=1e-9, abs=rounded)
