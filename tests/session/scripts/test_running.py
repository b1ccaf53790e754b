"""Scripts of running counts over more values than an optimum is found for: kept, free, extended."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.strategies import levels, plans
from dpsql.session import Session

SIZE = 24
SCHEMA = """
dataset = "visits"
unit = "row"
[source]
table = "visits"
[columns]
day = { type = "integer", min = 0, max = 23 }
"""


def script(first: int, last: int, more: str = "") -> str:
    listed = [f"COUNT_IF(day <= {n}) AS le_{n}" for n in range(first, last)]
    halves = [listed[: len(listed) // 2], listed[len(listed) // 2 :]]
    return ";\n".join(f"{more}SELECT {', '.join(half)} FROM visits" for half in halves)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE visits AS SELECT (i * i) % 24 AS day FROM range(5000) AS t(i)")
    path.with_suffix(".toml").write_text(SCHEMA)
    return path


@pytest.fixture
def session(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(plans, "MANY", 6)
    monkeypatch.setattr(levels, "MANY", 6)
    monkeypatch.setattr(levels, "CELLS", 8)
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="visits", epsilon=100)
    with Session(database, user="alice", ledger=ledger, settings={"reuse": True}) as opened:
        yield opened


def rows(releases: Any) -> list[Any]:
    return [release.rows for release in releases]


def test_they_are_charged_as_foretold_and_free_again(session: Session, database: Path) -> None:
    text = script(0, SIZE)
    plan = session.explain_script(text, rho=0.01)
    found = session.run(text, rho=0.01)
    assert plan.backend == "factorization" and found[0].backend == "factorization"
    assert found[0].price == plan.price and found[0].charged == plan.charged
    assert [p.stderr for p in plan.plans] == [release.stderr for release in found]
    errors = {c.backend: c.rmse for c in plan.candidates}
    assert errors["factorization"] < 0.55 * errors["gaussian"]
    again = session.run(text, rho=0.01)
    assert again[0].charged is not None and again[0].charged.rho == 0 and rows(again) == rows(found)
    one = session.answer("SELECT COUNT(*) FROM visits WHERE day BETWEEN 5 AND 11", rho=0.0001)
    assert one.charged is not None and one.charged.rho == 0  # ranges follow
    listed = [n for release in found for n in release.rows[0]]
    assert one.rows[0][0] == listed[11] - listed[4]
    with duckdb.connect(str(database), read_only=True) as judge:
        true = [
            judge.execute(f"SELECT COUNT(*) FROM visits WHERE day <= {n}").fetchall()[0][0]
            for n in range(SIZE)
        ]
    stderr = [s for release in found for s in release.stderr[0]]
    off = [
        abs(n - right) / (s or math.inf) for n, right, s in zip(listed, true, stderr, strict=True)
    ]
    assert max(off) < 7 and 0.1 < math.sqrt(sum(o * o for o in off) / SIZE) < 3  # 1e-6


@pytest.mark.parametrize("reuse", [True, False])
def test_one_statement_is_told_as_it_is_answered(session: Session, reuse: bool) -> None:
    sql = script(0, 12).replace(";\nSELECT", ",").replace(" FROM visits,", ",")
    for given in ({"rho": 0.01}, {"accuracy": 5}):
        told, found = (ask(sql, reuse=reuse, **given) for ask in (session.explain, session.answer))
        assert told.backend == found.backend != "reuse"
        assert (told.price, told.charged) == (found.price, found.charged)
        assert told.stderr == found.stderr


def test_a_script_that_grew_pays_for_what_is_new(session: Session) -> None:
    whole = session.explain_script(script(0, SIZE), rho=0.01)
    session.run(script(0, 15), rho=0.01)
    grown = session.explain_script(script(0, 15) + ";" + script(15, SIZE), rho=0.01)
    assert grown.charged is not None and whole.charged is not None
    assert 0 < grown.charged.rho <= whole.charged.rho


DIFFERENCES = "SELECT " + ", ".join(
    f"COUNT_IF(day <= {n}) - COUNT_IF(day <= {n // 2}) AS d_{n}" for n in range(8, 20)
)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("few", "half", "many", "other"),
    [
        (script(0, 3).split(";\n")[1], 90, script(3, SIZE).split(";\n")[1], 15),
        (script(0, 3).split(";\n")[1], 8, script(3, SIZE).split(";\n")[1], 200),
        (f"{DIFFERENCES} FROM visits", 3, script(0, SIZE).split(";\n")[0], 40),
        (f"{DIFFERENCES} FROM visits", 60, script(0, SIZE).split(";\n")[0], 6),
    ],
)
def test_each_statement_is_as_narrow_as_is_asked_of_it(
    session: Session, few: str, half: float, many: str, other: float, first: bool
) -> None:
    """Whichever comes first, and at the least price: one of them is no narrower."""
    asked = [(few, half), (many, other)][:: 1 if first else -1]
    text = ";\n".join(f"SET accuracy = {width}; {sql}" for sql, width in asked)
    plain = session.explain_script(text, backend="gaussian")
    told, found = session.explain_script(text), session.run(text)
    assert told.backend == found[0].backend == "factorization"
    assert told.price == found[0].price and told.price.rho < plain.price.rho
    parts = []
    for release, (_, width) in zip(found, asked, strict=True):
        ends = zip(release.low[0], release.high[0], strict=True)
        own = max(high - low for low, high in ends if low is not None and high is not None) / 2
        assert own <= width + 0.5  # whole ends
        parts.append(own / width)
    assert max(parts) > 0.9


def test_weights_count(session: Session) -> None:
    weighted = script(0, 12, "-- weight: 9\n") + ";" + script(12, SIZE)
    plan = session.explain_script(weighted, rho=0.01, reuse=False)
    even = session.explain_script(script(0, 12) + ";" + script(12, SIZE), rho=0.01, reuse=False)
    assert (plan.plans[0].stderr[0][3] or 0) < 0.95 * (even.plans[0].stderr[0][3] or 0)
