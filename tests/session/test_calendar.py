"""Years, months and days of one statement agree, and later questions use whichever serve best."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.release import Release
from dpsql.session import Session

DAYS = 731
SCHEMA = """
dataset = "visits"
unit = "row"
[source]
table = "visits"
[columns]
d = { type = "date", min = 2022-01-01, max = 2024-01-01 }
sex = { type = "category", values = ["f", "m"] }
"""
BY_DAY = (
    "SELECT year(d) AS y, month(d) AS m, d, COUNT(*) AS n FROM visits GROUP BY ROLLUP (y, m, d)"
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE visits AS SELECT (DATE '2022-01-01' + (i * i % 731)::INT)::DATE AS d,"
            " CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex FROM range(9000) AS t(i)"
        )
    path.with_suffix(".toml").write_text(SCHEMA)
    return path


@pytest.fixture
def session(database: Path) -> Iterator[Session]:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="visits", epsilon=100)
    with Session(database, user="alice", ledger=ledger, settings={"reuse": True}) as opened:
        yield opened


def test_years_months_and_days_agree_and_err_as_is_said(session: Session, database: Path) -> None:
    """756 answers of 731 independent noises: 5 standard deviations of the mean of their squares,
    a false alarm below 1e-6, and noise a fifth off is seen."""
    told, found = session.explain(BY_DAY, rho=0.01), session.answer(BY_DAY, rho=0.01)
    assert told.stderr == found.stderr and told.charged == found.charged
    days = [row for row in found.rows if row[2] is not None]
    months = {row[:2]: row[3] for row in found.rows if row[1] is not None and row[2] is None}
    years = {row[0]: row[3] for row in found.rows if row[0] is not None and row[1] is None}
    (every,) = (row[3] for row in found.rows if row[0] is None)
    assert len(days) == DAYS and len(months) == 25 and len(years) == 3
    for (year, month), n in months.items():
        assert n == sum(row[3] for row in days if row[:2] == (year, month))
    for year, n in years.items():
        assert n == sum(n for (own, _), n in months.items() if own == year)
    assert every == sum(years.values())
    plain = math.sqrt(4 / (2 * 0.01))  # a row is counted four times
    assert all(line[3] is not None and line[3] < 0.99 * plain for line in found.stderr)
    with duckdb.connect(str(database), read_only=True) as judge:
        true = {row[:-1]: row[-1] for row in judge.execute(BY_DAY).fetchall()}
    squares = [
        ((row[3] - true.get(row[:-1], 0)) / (line[3] or math.inf)) ** 2
        for row, line in zip(found.rows, found.stderr, strict=True)
    ]
    assert abs(np.mean(squares) - 1) < 5 * math.sqrt(2 / DAYS)


def test_a_span_is_free_and_made_of_its_years_months_and_days(session: Session) -> None:
    bought = session.answer(BY_DAY, rho=0.01)
    sql = "SELECT COUNT(*) AS n FROM visits WHERE d BETWEEN '2022-02-01' AND '2023-03-02'"
    found = session.answer(sql, rho=0.0001)
    assert found.charged is not None and found.charged.rho == 0
    [[n]] = found.rows
    first, last = datetime.date(2022, 2, 1), datetime.date(2023, 3, 2)
    assert n == sum(row[3] for row in bought.rows if row[2] and first <= row[2] <= last)
    [[stderr]] = found.stderr
    assert stderr is not None and stderr < math.sqrt(16) * math.sqrt(4 / 0.02)  # not of 395 days


def test_they_agree_in_a_script_beside_other_questions(session: Session) -> None:
    """Which cross them, and are said as they were measured; and again when it is run again."""
    text = f"{BY_DAY}; SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    settings = {"rho": 0.01, "backend": "gaussian"}
    told, found = session.explain_script(text, **settings), session.run(text, **settings)
    assert [plan.stderr for plan in told.plans] == [release.stderr for release in found]
    totals: dict[int, int] = {}  # by how many keys are NULL
    for *keys, n in found[0].rows:
        totals[keys.count(None)] = totals.get(keys.count(None), 0) + n
    assert len(totals) == 4 and len(set(totals.values())) == 1
    again = session.run(text, **settings)
    assert again[0].charged is not None and again[0].charged.rho == 0
    assert [release.rows for release in again] == [release.rows for release in found]


SEVERAL = BY_DAY.replace(
    "COUNT(*) AS n", "COUNT(*) AS n, COUNT_IF(sex = 'f') AS f, SUM(day(d)) AS s"
)
MIXED = SEVERAL.replace(" GROUP BY", " WHERE d < '2022-08-01' GROUP BY")


@pytest.mark.parametrize("reuse", [True, False])
def test_several_aggregates_agree_and_are_said_again(session: Session, reuse: bool) -> None:
    """They cross each other, and are mixed group by group."""
    settings = {"rho": 0.01, "reuse": reuse}
    told, found = session.explain(SEVERAL, **settings), session.answer(SEVERAL, **settings)
    assert told.backend == found.backend == "factorization" and told.stderr == found.stderr
    require_agreement(found)
    if reuse:
        again = session.answer(SEVERAL, **settings)
        assert again.charged is not None and again.charged.rho == 0
        assert again.rows == found.rows and again.stderr == found.stderr


@pytest.mark.parametrize("reuse", [True, False])
def test_they_agree_in_a_script_that_is_planned_on_cells(session: Session, reuse: bool) -> None:
    text = f"{MIXED}; SELECT sex, AVG(day(d)) AS a FROM visits GROUP BY sex"
    settings = {"rho": 0.01, "reuse": reuse}
    told, found = session.explain_script(text, **settings), session.run(text, **settings)
    assert told.backend == "factorization" and told.plans[0].stderr == found[0].stderr
    require_agreement(found[0])
    if reuse:
        again = session.run(text, **settings)
        assert again[0].charged is not None and again[0].charged.rho == 0
        assert again[0].rows == found[0].rows and again[0].stderr == found[0].stderr


def require_agreement(found: Release) -> None:
    """That days, months and years have the same totals."""
    totals = np.zeros((4, 3), np.int64)
    for *keys, n, f, s in found.rows:
        totals[keys.count(None)] += np.array([n, f, s], np.int64)
    assert (totals == totals[0]).all() and totals.all()
