"""Scripts of running counts by category through products: priced, told, kept, free again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.strategies import formulas, plans, products
from dpsql.session import Session

DAYS, KINDS = 30, "abcd"
SCHEMA = """
dataset = "visits"
unit = "row"
[source]
table = "visits"
[columns]
day = { type = "integer", min = 0, max = 29 }
kind = { type = "category", values = ["a", "b", "c", "d"] }
"""
SCRIPT = ";\n".join(
    [
        f"SELECT kind, COUNT(*) AS n FROM visits WHERE day <= {day} GROUP BY kind"
        for day in range(DAYS)
    ]
    + ["SELECT COUNT(*) FROM visits WHERE day BETWEEN 5 AND 11", "SELECT COUNT(*) FROM visits"]
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE visits AS "
            "SELECT (i * i) % 30 AS day, 'abcd'[1 + i % 4] AS kind FROM range(5000) AS t(i)"
        )
    path.with_suffix(".toml").write_text(SCHEMA)
    return path


@pytest.fixture(params=[False, True], ids=["optimum", "formulas"])
def session(
    database: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Session]:
    monkeypatch.setattr(plans, "MANY", 20)
    monkeypatch.setattr(products, "FEW", 8)
    monkeypatch.setattr(products, "OPTIMAL", 8)
    if request.param:
        monkeypatch.setattr(formulas, "FIRST", 8)
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="visits", epsilon=100)
    with Session(database, user="alice", ledger=ledger, settings={"reuse": True}) as opened:
        yield opened


def test_they_err_less_are_told_and_free_again(session: Session, database: Path) -> None:
    plan = session.explain_script(SCRIPT, rho=0.01)
    found = session.run(SCRIPT, rho=0.01)
    assert plan.backend == found[0].backend == "factorization"
    assert found[0].price == plan.price and found[0].charged == plan.charged
    assert [p.stderr for p in plan.plans] == [release.stderr for release in found]
    best, plain, _ = plan.candidates
    assert best.rmse < 0.65 * plain.rmse and best.ratio is not None and best.ratio < 1.5
    assert best.strategies[0][1] == pytest.approx(best.rmse)
    assert best.compared.startswith(f"{best.strategies[0][0]}: error ")
    assert [error for _, error in best.strategies] == sorted(error for _, error in best.strategies)
    spent = session.ledger.balance("alice", "visits").spent_rho
    again = session.run(SCRIPT, rho=0.01)
    assert [list(r.rows) for r in again] == [list(r.rows) for r in found]
    one = session.answer("SELECT COUNT(*) FROM visits WHERE day = 7 AND kind = 'b'", rho=0.0001)
    assert one.charged is not None and one.charged.rho == 0  # cells of the table follow
    assert session.ledger.balance("alice", "visits").spent_rho == spent
    apart = found[7].rows[1][1] - found[6].rows[1][1]
    assert one.rows[0][0] == apart  # to the last digit
    each = [row[1] for row in found[-3].rows]
    assert sum(each) == found[-1].rows[0][0]
    off: list[float] = []
    with duckdb.connect(str(database), read_only=True) as judge:
        for statement, release in zip(SCRIPT.split(";\n"), found, strict=True):
            true = {row[:-1]: row[-1] for row in judge.execute(statement).fetchall()}
            for row, errors in zip(release.rows, release.stderr, strict=True):
                off.append((row[-1] - true.get(tuple(row[:-1]), 0)) / (errors[-1] or math.inf))
    assert len(off) == 4 * DAYS + 2
    # 122 standard normals, not independent: each below 6, and not all small
    assert max(map(abs, off)) < 6 and math.sqrt(sum(x * x for x in off) / len(off)) > 0.2


def test_by_accuracy_every_interval_is_as_narrow_as_asked(session: Session) -> None:
    found: Any = session.run("SET accuracy = 40;\n" + SCRIPT)
    assert found[0].backend == "factorization"
    errors = [e for release in found for row in release.stderr for e in row if e is not None]
    assert 1.9 * max(errors) <= 40 < 2.3 * max(errors)
