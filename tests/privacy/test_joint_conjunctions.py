"""A thousand questions about few people each cost a small part of their prices together."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.accounting.events import PICO
from dpsql.accounting.ledger import Ledger
from dpsql.curator.footprint import footprint
from dpsql.curator.quote import GaussianNoise, quote
from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, And, Leaf
from dpsql.schema import Dataset, load

ROOT = Path(__file__).parents[2]
COLUMNS = (
    *("workclass", "education_num", "marital_status", "occupation", "race", "sex", "income"),
)
COUNT = 1000
Conjunction = tuple[tuple[int, int], ...]  # pairs of a column and a code


@pytest.fixture(scope="module")
def adult() -> Dataset:
    return load(ROOT / "schemas" / "adult.toml")


@pytest.fixture(scope="module")
def conjunctions(adult: Dataset) -> list[Conjunction]:
    """Different 3-way conjunctions, half of them of a random row's values."""
    draw = random.Random(20261128)
    listed = ", ".join(COLUMNS)
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT {listed} FROM '{source()}' ORDER BY ALL").fetchall()
    declared = [adult.column(name) for name in COLUMNS]
    found: dict[Conjunction, None] = {}
    while len(found) < COUNT:
        chosen = sorted(draw.sample(range(len(COLUMNS)), 3))
        if len(found) % 2:
            row = draw.choice(rows)
            codes = [
                declared[c].size if row[c] is None else declared[c].code(row[c]) for c in chosen
            ]
        else:
            codes = [draw.randrange(declared[c].cells) for c in chosen]
        found[tuple((c, int(code or 0)) for c, code in zip(chosen, codes, strict=True))] = None
    return list(found)


def source() -> Path:
    (path,) = (ROOT / "dpsql" / "surfaces" / "demo_data").glob("adult*.parquet")
    return path


def workload(adult: Dataset, conjunction: Conjunction) -> Workload:
    """COUNT(*) WHERE column = value AND column = value AND column = value."""
    tests, sizes = [], []
    for column, code in conjunction:
        size = adult.column(COLUMNS[column]).cells
        table = np.full(size, FALSE, np.uint8)
        table[code] = TRUE
        tests.append(Leaf(Domain((COLUMNS[column],), (size,)), table))
        sizes.append(size)
    domain = Domain(tuple(COLUMNS[column] for column, _ in conjunction), tuple(sizes))
    total = Grouping((), np.zeros(1, np.int64))
    return Workload(domain, (Block(And(tuple(tests)), (Weight((Term(ALWAYS),)),), (total,)),))


def test_a_thousand_conjunctions_cost_six_hundredths_of_their_prices(
    adult: Dataset, conjunctions: list[Conjunction]
) -> None:
    noise = GaussianNoise(Fraction(PICO, 2_000_000))
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="adult", epsilon=10)
    alone = 0
    for conjunction in conjunctions:
        asked = workload(adult, conjunction)
        receipt = ledger.charge(
            "alice",
            "adult",
            quote(asked, adult, noise),
            statement="",
            footprint=footprint(asked, adult, noise),
            snapshot="1994",
        )
        assert receipt.rise.exact
        alone += receipt.price.rho
    spent = ledger.balance("alice", "adult").spent_rho
    assert alone == COUNT * receipt.price.rho
    assert spent <= 0.06 * alone
    shape = [adult.column(name).cells for name in COLUMNS]
    losses = np.zeros(shape, np.int64)  # every cell of the seven columns
    for conjunction in conjunctions:
        place: list[slice | int] = [slice(None)] * len(shape)
        for column, code in conjunction:
            place[column] = code
        losses[tuple(place)] += receipt.price.rho
    assert spent == losses.max()
