"""A script that is run again is free, here and in another process; one that grew pays for that."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.curator.curator import Curator
from dpsql.session import Session

SCRIPT = """
-- # By sex
SELECT sex, COUNT(*) AS n FROM town GROUP BY sex;
-- # All of them
SELECT COUNT(*) AS n FROM town;
-- # Ages
SELECT region, AVG(age) AS age, COUNT(*) AS n FROM town GROUP BY region ORDER BY region;
SELECT smoker, sex, COUNT(*) AS n FROM town WHERE month > 6 GROUP BY CUBE (smoker, sex);
"""


@pytest.fixture
def again(path: Path, town: Any) -> Iterator[Session]:
    """A session that uses again what was released."""
    with Session(path, user="alice", ledger=town.ledger, settings={"reuse": True}) as opened:
        yield opened


def charges(ledger: Ledger) -> list[Any]:
    return [entry for entry in ledger.log() if entry.kind == "charge"]


def test_a_script_that_is_run_again_is_free(again: Session, town: Any) -> None:
    first = again.run(SCRIPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curator, "measure", None)  # nothing private is read
        plan, second = again.explain_script(SCRIPT), again.run(SCRIPT)
    assert [r.rows for r in first] == [r.rows for r in second]
    assert [r.stderr for r in first] == [r.stderr for r in second]
    assert all(r.reused and r.charged is not None and r.charged.rho == 0 for r in second)
    assert plan.backend == "reuse" and plan.price.rho == 0 and len(plan.plans) == 4
    assert len(charges(town.ledger)) == 1 and again.last_charge is None
    [alone] = again.run("SELECT COUNT(*) FROM town WHERE sex = 'male'", rho=0.001)
    assert alone.reused and alone.rows[0][0] == dict(first[0].rows)["male"]


def test_only_what_does_not_follow_is_bought(again: Session, town: Any) -> None:
    again.run(SCRIPT, rho=0.05)
    longer = SCRIPT + "SELECT month, COUNT(*) AS n FROM town GROUP BY month;"
    plan = again.explain_script(longer, rho=0.05)
    *old, new = again.run(longer, rho=0.05)
    assert all(release.reused for release in old) and new.charged == again.last_charge
    assert new.price == plan.price and plan.price.rho < 0.05 / 2
    assert [one.backend for one in plan.plans] == ["reuse"] * 4 + ["gaussian + reuse"]
    assert [one.backend for one in plan.plans] == [one.backend for one in (*old, new)]
    assert all(r.reused for r in again.run(longer, rho=0.05)) and len(charges(town.ledger)) == 2


def test_reuse_off_for_one_statement_buys_it_afresh(again: Session, town: Any) -> None:
    sql = "SELECT COUNT(*) FROM town; SET reuse = off; SELECT sex, COUNT(*) FROM town GROUP BY 1"
    again.run(sql)
    one, other = again.run(sql)
    assert one.reused and not other.reused and len(charges(town.ledger)) == 2


def test_another_process_finds_what_was_kept(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="town", epsilon=2)
    script = tmp_path / "r.sql"
    script.write_text(SCRIPT)
    code = (
        "import sys, dpsql\n"
        "con = dpsql.connect(sys.argv[1], ledger=sys.argv[2], user='alice')\n"
        "found = con.run(sys.argv[3])\n"
        "print([r.rows for r in found])\n"
        "print([r.reused for r in found])\n"
        "assert con.explain_script(sys.argv[3]).price.rho == 0\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(path), str(place), str(script)]
    outs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]
    assert outs[0][0] == outs[1][0]
    assert outs[0][1] == str([False] * 4) and outs[1][1] == str([True] * 4)
    with Ledger.open(place) as ledger:
        [charge] = charges(ledger)
        assert charge.statement.startswith("r.sql: SELECT sex")


GROWN = [
    "SELECT COUNT_IF(smoker) AS a, COUNT(*) AS b FROM town;",
    "SELECT sex, COUNT(*) AS n, COUNT_IF(age > 5) AS old FROM town GROUP BY ROLLUP (sex);",
    "-- weight: 9\nSELECT region, COUNT(*) AS n, AVG(age) AS a FROM town GROUP BY ROLLUP (region);",
]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_script_that_grew_is_free_when_it_is_run_again(again: Session, first: int) -> None:
    """What is bought for the rest is as fine as what will be asked of it."""
    again.run(GROWN[first], rho=0.002)
    grown = "".join([GROWN[first], *(text for at, text in enumerate(GROWN) if at != first)])
    again.run(grown, rho=0.002)
    before = again.budget().spent.rho
    for release in again.run(grown, rho=0.002):
        assert release.backend == "reuse" and release.charged is not None
        assert release.charged.rho == 0
    assert again.budget().spent.rho == before


def test_one_wide_sum_does_not_take_the_strategy_from_the_rest(again: Session) -> None:
    counts = ";".join(f"SELECT COUNT(*) AS n FROM town WHERE age < {n}" for n in range(1, 10))
    wide = "; SELECT SUM(age * 100000) AS s FROM town"
    alone = again.explain_script(counts, rho=0.01, backend="auto")
    plan = again.explain_script(counts + wide, rho=0.01, backend="auto")
    assert alone.backend == plan.backend == "factorization"


def test_a_script_of_many_counts_of_one_column_is_planned_on_its_cells(
    again: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is free when it is run again, what follows from it too."""
    running = ";".join(f"SELECT COUNT(*) AS n FROM town WHERE age <= {n}" for n in range(10))
    apart = again.explain_script(running, rho=0.01)
    monkeypatch.setattr("dpsql.mechanisms.strategies.clusters.QUERIES", 5)
    monkeypatch.setattr("dpsql.mechanisms.strategies.plans._PLANS", OrderedDict())
    plan, first = again.explain_script(running, rho=0.01), again.run(running, rho=0.01)
    assert plan.backend == "factorization" and plan.price == apart.price
    assert plan.candidates[0].ratio is not None and plan.candidates[0].ratio < 1.001
    assert [p.stderr for p in plan.plans] == [r.stderr for r in first]
    second = again.run(running, rho=0.01)
    assert [r.rows for r in second] == [r.rows for r in first] and second[0].charged.rho == 0
    part = again.answer("SELECT COUNT(*) AS n FROM town WHERE age BETWEEN 3 AND 6", rho=0.001)
    assert part.reused and part.charged is not None and part.charged.rho == 0
    assert part.rows[0][0] == first[6].rows[0][0] - first[2].rows[0][0]


def test_a_script_has_one_plan_in_whatever_order_its_statements_stand(
    again: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clusters of few questions are made of neighbours: put in another order, it is free."""
    monkeypatch.setattr("dpsql.mechanisms.strategies.clusters.QUERIES", 5)
    monkeypatch.setattr("dpsql.mechanisms.strategies.plans._PLANS", OrderedDict())
    asked = [
        *(f"SELECT COUNT(*) AS n FROM town WHERE age <= {at} AND month > {at}" for at in range(8)),
        *(f"SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND age > {at}" for at in range(6)),
        "SELECT region, COUNT(*) AS n FROM town WHERE smoker GROUP BY region",
        "SELECT sex, AVG(age) AS a, COUNT(*) AS n FROM town GROUP BY sex",
        "SELECT region, COUNT(*) AS n FROM town GROUP BY ROLLUP (region)",
    ]
    other = asked[1::2] + asked[::-2]
    one, two = (again.explain_script(";".join(texts), rho=0.02).plans for texts in (asked, other))
    assert one[0].backend == "factorization"
    for sql, plan in zip(other, two, strict=True):
        assert plan.stderr == one[asked.index(sql)].stderr
    first = again.run(";".join(asked), rho=0.02)
    for sql, release in zip(other, again.run(";".join(other), rho=0.02), strict=True):
        assert release.rows == first[asked.index(sql)].rows
        assert release.charged is not None and release.charged.rho == 0
    assert len(list(again.ledger.log())) == 2, "a grant and one charge"
