"""What every engine must do, whatever it reads: a new engine joins ENGINES."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.curator.engines import DuckDBEngine, Engine
from dpsql.curator.sealed import Sealed, unseal
from dpsql.errors import SourceError
from dpsql.schema import Column, Dataset, Kind

COLUMNS = (
    Column("sex", Kind.CATEGORY, values=("male", "female")),
    Column("grade", Kind.CATEGORY, values=(3, 1, 7), nullable=True),
    Column("age", Kind.INTEGER, minimum=0, maximum=9, source="Age In Years"),
    Column("pay", Kind.NUMBER, True, minimum=Decimal(0), maximum=Decimal(2), step=Decimal("0.5")),
    Column("day", Kind.DATE, minimum=date(2025, 1, 1), maximum=date(2025, 1, 20), step="week"),
    Column("smoker", Kind.BOOLEAN, nullable=True),
)
FIELDS = (
    'sex VARCHAR, grade INTEGER, "Age In Years" BIGINT, pay DOUBLE, day DATE, smoker BOOLEAN, '
    "other VARCHAR"
)
Row = tuple[Any, ...]
Make = Callable[[Path, str], Path]


def rows(count: int) -> list[Row]:
    """Rows of which some lie outside each domain, and some are NULL."""
    draw = random.Random(count)
    return [
        (
            draw.choice(["male", "female", "female", "FEMALE", None]),
            draw.choice([3, 1, 7, 8, None]),
            draw.choice([0, 1, 2, 9, 9, 9, 10, -1, None]),
            draw.choice([0.0, 0.49, 0.5, 1.7, 2.0, 2.1, float("nan"), None]),
            draw.choice([date(2025, 1, d) for d in (1, 7, 8, 20, 21)] + [None]),
            draw.choice([True, False, None]),
            draw.choice(["x", None]),
        )
        for _ in range(count)
    ]


def reference(table: list[Row], *names: str) -> Counter[Row]:
    """The cells by plain Python, from the rules in words."""
    found: Counter[Row] = Counter()
    for sex, grade, age, pay, day, smoker, _ in table:
        if sex not in ("male", "female") or age is None or not 0 <= age <= 9:
            continue
        if day is None or day > date(2025, 1, 20):
            continue
        codes = {
            "sex": ("male", "female").index(sex),
            "grade": (3, 1, 7).index(grade) if grade in (3, 1, 7) else 3,
            "age": age,
            "pay": int(pay * 2) if pay is not None and 0 <= pay <= 2 else 5,
            "day": (day - date(2025, 1, 1)).days // 7,
            "smoker": 2 if smoker is None else int(smoker),
        }
        found[tuple(codes[name] for name in names)] += 1
    return found


def _duckdb(database: Path, dataset: Dataset) -> DuckDBEngine:
    return DuckDBEngine(database, dataset, unit_key=None)


def _table(made: Path, name: str) -> Path:
    return made


def _copied(suffix: str, options: str) -> Make:
    def copy(made: Path, name: str) -> Path:
        path = made.with_name(name + suffix)
        with duckdb.connect(str(made), read_only=True) as source:
            quoted = str(path).replace("'", "''")
            source.execute(f"COPY t TO '{quoted}' ({options})")
        return path

    return copy


ENGINES: dict[str, tuple[Callable[[Path, Dataset], Engine], Make, dict[str, str]]] = {
    "duckdb table": (_duckdb, _table, {"table": "t"}),
    "duckdb query": (_duckdb, _table, {"query": "SELECT * FROM t; -- all of it"}),
    "parquet": (_duckdb, _copied(".parquet", "FORMAT parquet"), {"table": "ignored"}),
    "csv": (_duckdb, _copied(".csv", "FORMAT csv, HEADER"), {"table": "ignored"}),
    "csv.gz": (_duckdb, _copied(".csv.gz", "FORMAT csv, HEADER"), {"table": "ignored"}),
    "tsv": (_duckdb, _copied(".tsv", "FORMAT csv, HEADER, DELIMITER '\t'"), {"table": "ignored"}),
    "parquet query": (
        _duckdb,
        _copied(".parquet", "FORMAT parquet"),
        {"query": "FROM d WHERE true"},
    ),
}


@pytest.fixture(params=ENGINES)
def opened(request: Any, bench: Any) -> Callable[[list[Row]], Engine]:
    """An engine over a table of these rows."""
    start, make, source = ENGINES[request.param]
    running: list[Engine] = []

    def over(table: list[Row]) -> Engine:
        path = make(bench.table(FIELDS, table), "it's a [näme] *")
        running.append(start(path, bench.dataset(*COLUMNS, **source)))
        return running[-1]

    request.addfinalizer(lambda: [engine.close() for engine in running])
    return over


NAMES = ("sex", "grade", "age", "pay", "day", "smoker")


def test_cells_are_those_of_plain_python(opened: Any, cells_of: Any) -> None:
    table = rows(500)
    engine = opened(table)
    for names in (("age",), ("sex",), ("grade", "pay"), ("smoker", "day", "sex"), (), NAMES):
        for _ in range(3):  # scanned, then stored, then stored
            assert cells_of(engine, *names) == reference(table, *names)


def test_an_empty_table_has_one_cell_of_no_columns_and_none_of_others(
    opened: Any, cells_of: Any
) -> None:
    engine = opened([])
    for _ in range(3):
        assert cells_of(engine) == Counter({(): 0})
        assert cells_of(engine, "age", "sex") == Counter()


def test_counts_are_sealed(opened: Any) -> None:
    assert isinstance(opened(rows(5)).counts(("sex",)), Sealed)


def test_columns_are_found_in_any_case_and_named_as_declared(opened: Any) -> None:
    found = unseal(opened(rows(50)).counts(("AGE", "Sex", "age")))
    assert list(found.codes) == ["age", "sex"]


def test_a_column_that_is_not_declared_is_never_read(opened: Any) -> None:
    for name in ("other", "Age In Years", "c0", "1"):
        with pytest.raises(KeyError):
            opened(rows(5)).counts((name,))


def test_a_closed_engine_says_so(opened: Any) -> None:
    engine = opened(rows(5))
    engine.close()
    engine.close()
    with pytest.raises(SourceError, match="closed"):
        engine.counts(())


def test_the_order_of_the_rows_changes_nothing(opened: Any, cells_of: Any) -> None:
    table = rows(300)
    shuffled = random.Random(1).sample(table, len(table))
    assert cells_of(opened(table), *NAMES) == cells_of(opened(shuffled), *NAMES)


def test_one_row_moves_one_count_by_one(opened: Any, cells_of: Any) -> None:
    table = rows(60)
    row = ("male", None, 3, None, date(2025, 1, 2), True, "x")
    with_it, without = (cells_of(opened(t), *NAMES) for t in ([*table, row], table))
    with_it.subtract(without)
    assert sum(abs(change) for change in with_it.values()) == 1
