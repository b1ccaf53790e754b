"""What is kept of a unit depends on that unit's own rows and on the key, and on nothing else."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.curator.engines.unit import pads
from dpsql.curator.sealed import unseal
from dpsql.errors import SourceError
from dpsql.schema import Column, Kind, Unit

UNITS = 500
BOUND = 3
Line = tuple[int | None, int | None, str | None]

WHO = Column("who", Kind.INTEGER, True, minimum=0, maximum=UNITS - 1, source="id")
AGE = Column("age", Kind.INTEGER, minimum=0, maximum=4)
SEX = Column("sex", Kind.CATEGORY, True, values=("m", "f"))


def people(seed: int = 3) -> list[Line]:
    """Rows of 500 people, many of whom have equal rows and some more than the bound."""
    draw = random.Random(seed)
    lines: list[Line] = []
    for person in range(UNITS):
        for _ in range(draw.choice([1, 1, 2, 3, 3, 3, 4, 5, 9, 20])):
            age = draw.choice([0, 1, 1, 2, 3, 4, 4, 4, 5, None])
            lines.append((person, age, draw.choice(["m", "f", "f", "x", None])))
    return lines + [(None, 1, "f")] * 7


@pytest.fixture
def database(bench: Any) -> Path:
    path: Path = bench.table("id INTEGER, age INTEGER, sex VARCHAR", people())
    return path


def declared(bench: Any, **source: str) -> Any:
    return bench.dataset(WHO, AGE, SEX, unit=Unit("id", BOUND), **source)


def reference(lines: list[Line], key: bytes, bound: int) -> Counter[tuple[int, ...]]:
    """The rule in words: rank a unit's rows by a keyed hash, and keep the first."""
    kept: Counter[tuple[int, ...]] = Counter()
    ranked: dict[int, list[tuple[bytes, tuple[int, ...]]]] = {}
    earlier: Counter[tuple[int, ...]] = Counter()
    for who, age, sex in lines:
        if age is None or not 0 <= age <= 4:
            continue
        codes = (UNITS if who is None else who, age, {"m": 0, "f": 1}.get(sex or "", 2))
        if who is None:
            kept[codes] += 1
            continue
        numbers = (earlier[codes], *codes)
        earlier[codes] += 1
        message = b"".join(n.to_bytes(8, "big") for n in numbers)
        digest = hmac.new(key, message + str(who).encode(), hashlib.sha256).digest()
        ranked.setdefault(who, []).append((digest, codes))
    for rows in ranked.values():
        kept.update(codes for _, codes in sorted(rows)[:bound])
    return kept


def test_removing_a_unit_leaves_what_is_kept_of_everybody_else(
    bench: Any, database: Path, cells_of: Any
) -> None:
    names = ("who", "age", "sex")
    engine = bench.open(database, declared(bench))
    whole = cells_of(engine, *names)
    source = engine._source
    for person in range(0, UNITS, 4):  # of 1 to 20 rows; a fault of one person in 20 is seen
        rest = f"(FROM {source.relation} WHERE id IS DISTINCT FROM {person})"
        engine._source, engine._stored = replace(source, relation=rest), False
        own = Counter({cell: n for cell, n in whole.items() if cell[0] == person})
        assert whole - own == cells_of(engine, *names)
        assert sum(own.values()) <= BOUND
    engine.close()


def test_what_is_kept_is_the_rule_in_words(bench: Any, database: Path, key: bytes) -> None:
    found = bench.count(database, declared(bench), "who", "age", "sex")
    assert found == reference(people(), key, BOUND)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_rows_changes_nothing(bench: Any, database: Path, seed: int) -> None:
    lines = people()
    random.Random(seed).shuffle(lines)
    shuffled = bench.table("id INTEGER, age INTEGER, sex VARCHAR", lines)
    names = ("who", "age", "sex")
    found = bench.count(shuffled, declared(bench), *names)
    assert found == bench.count(database, declared(bench), *names)


def test_a_file_of_another_format_keeps_the_same_rows(bench: Any, database: Path) -> None:
    parquet, csv = bench.folder / "x.parquet", bench.folder / "x.csv"
    with duckdb.connect(str(database), read_only=True) as source:
        source.execute(f"COPY (FROM t ORDER BY sex, age) TO '{parquet}'")
        source.execute(f"COPY (FROM t ORDER BY age DESC) TO '{csv}'")
    names = ("who", "age", "sex")
    found = bench.count(parquet, declared(bench), *names)
    assert found == bench.count(database, declared(bench), *names)
    with pytest.raises(SourceError, match="is read as text"):  # a CSV has no integer ids
        bench.open(csv, declared(bench))


def test_rows_outside_the_domain_do_not_use_up_the_bound(bench: Any) -> None:
    lines = [(1, 99, "m")] * 50 + [(1, None, "m")] * 50 + [(1, 2, "m")] * 2
    path = bench.table("id INTEGER, age INTEGER, sex VARCHAR", lines)
    assert bench.count(path, declared(bench), "age") == Counter({(2,): 2})


def test_rows_without_a_unit_are_units_of_their_own(bench: Any) -> None:
    lines = [(None, 2, "m")] * 50 + [(1, 2, "m")] * 50
    path = bench.table("id INTEGER, age INTEGER, sex VARCHAR", lines)
    assert bench.count(path, declared(bench), "age") == Counter({(2,): 50 + BOUND})


def test_all_counts_are_over_the_same_kept_rows(bench: Any, database: Path, cells_of: Any) -> None:
    engine = bench.open(database, declared(bench))
    whole = cells_of(engine, "who", "age", "sex")
    for place, name in enumerate(("who", "age", "sex")):
        sums: Counter[tuple[int, ...]] = Counter()
        for cell, n in whole.items():
            sums[(cell[place],)] += n
        assert cells_of(engine, name) == sums
    assert cells_of(engine) == Counter({(): sum(whole.values())})
    engine.close()


def test_another_key_keeps_other_rows_and_as_many(bench: Any, database: Path) -> None:
    one, other = (bench.open(database, declared(bench), key=key) for key in (b"a" * 32, b"b" * 32))
    totals = [int(unseal(engine.counts(())).counts[0]) for engine in (one, other)]
    ages = [unseal(engine.counts(("who", "age", "sex"))).counts.tolist() for engine in (one, other)]
    assert totals[0] == totals[1] and sorted(ages[0]) != sorted(ages[1])
    assert one.snapshot() != other.snapshot()
    one.close()
    other.close()


def test_a_key_is_of_one_block() -> None:
    for key in (b"", b"k" * 65):
        with pytest.raises(ValueError, match="64 bytes"):
            pads(key)


IDS = {
    "BIGINT": "i",
    "VARCHAR": "'p' || i",
    "VARCHAR COLLATE NOCASE": "CASE i WHEN 0 THEN 'a' WHEN 1 THEN 'A' ELSE 'b' || i END",
    "UUID": "CAST('00000000-0000-0000-0000-00000000000' || i AS UUID)",
    "DATE": "DATE '2025-01-01' + CAST(i AS INTEGER)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2025-01-01 00:00:00+00' + to_hours(CAST(i AS INT))",
    "DOUBLE": "i / 7",
    "BLOB": "CAST('x' || i AS BLOB)",
    "HUGEINT": "i + 170141183460469231731687303715884105720",
    "STRUCT(a INTEGER, b VARCHAR)": "{'a': i, 'b': 'x'}",
}


@pytest.mark.parametrize("sql_type", IDS)
def test_the_id_of_a_unit_may_have_any_type(bench: Any, sql_type: str) -> None:
    path = bench.build(
        f"CREATE TABLE t (id {sql_type}, age INTEGER)",
        f"INSERT INTO t SELECT {IDS[sql_type]}, 2 FROM range(6) r(i), range(i + 1)",
    )
    found = bench.count(path, bench.dataset(AGE, unit=Unit("id", 2)))
    assert found == Counter({(2,): 1 + 5 * 2})


def test_the_unit_may_be_named_as_it_is_declared(bench: Any, database: Path) -> None:
    names = ("who", "age", "sex")
    by_name = bench.dataset(WHO, AGE, SEX, unit=Unit("Who", BOUND))
    assert bench.count(database, by_name, *names) == bench.count(database, declared(bench), *names)
