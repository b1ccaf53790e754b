"""A dashboard's day: subsets of the values of four columns, asked about in Zipf order.

Of 3 x 3 x 15 x 255 = 34,425 sets of values each is one count. Bought one by one the distinct ones
cost some 30,000 times one of them; with whole = on all are as accurate for what the table takes.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session

SIZES = {"positive": 2, "sex": 2, "age": 4, "place": 8}
RHO = 1e-4
ASKED = 400  # of all; the rest follows from the same table


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "day.duckdb"
    columns = ", ".join(f"hash(i, '{name}') % {size} AS {name}" for name, size in SIZES.items())
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE TABLE day AS SELECT {columns} FROM range(50000) t(i)")
    fields = "\n".join(
        f'{name} = {{type = "integer", min = 0, max = {size - 1}}}' for name, size in SIZES.items()
    )
    path.with_suffix(".toml").write_text(
        f'dataset = "day"\nunit = "row"\n[source]\ntable = "day"\n[columns]\n{fields}\n'
    )
    return path


def questions(draw: random.Random) -> list[str]:
    """Zipf: the k-th of all, in a random order, is asked with a weight of 1 / k."""
    subsets = {
        name: [s for r in range(1, n + 1) for s in itertools.combinations(range(n), r)]
        for name, n in SIZES.items()
    }
    many = [len(found) for found in subsets.values()]
    total = many[0] * many[1] * many[2] * many[3]
    assert total == 34_425
    order = draw.sample(range(total), total)
    picked = draw.choices(order, [1 / k for k in range(1, total + 1)], k=ASKED)
    found = []
    for number in picked:
        parts = []
        for name, listed in subsets.items():
            number, at = divmod(number, len(listed))
            parts.append(f"{name} IN ({', '.join(map(str, listed[at]))})")
        found.append(f"SELECT COUNT(*) FROM day WHERE {' AND '.join(parts)}")
    return found


def test_a_dashboard_costs_what_its_table_takes(day: Path) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="day", epsilon=100)
    settings = {"rho": RHO, "whole": "on", "reuse": True}
    asked = questions(random.Random(7))
    with Session(day, user="alice", ledger=ledger, settings=settings) as session:
        alone = session.explain(asked[0], whole="off", reuse=False).stderr[0][0]
        assert alone is not None
        for sql in asked:
            error = session.answer(sql).stderr[0][0]
            assert error is not None and error <= alone * 1.005
        spent = ledger.balance("alice", "day").spent_rho / 1e12
        assert spent <= 170 * RHO
        assert len(set(asked)) > 1.2 * 170  # one by one they would cost more
