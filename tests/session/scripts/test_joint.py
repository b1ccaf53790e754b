"""What is measured for several statements says what each of them asks, and equal queries once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpsql.accounting.events import PICO
from dpsql.accounting.kept.stored import Stored
from dpsql.errors import UsageError
from dpsql.planner import Asked, Terms
from dpsql.query.canon import _family, families, parts
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.session import Session
from dpsql.session.asked import statement
from dpsql.session.scripts.joint import Joint, joint, of_some, scaled

TERMS = Terms(1e-6, PICO, PICO)
SQL = [
    "SELECT COUNT(*) FROM town",
    "SELECT sex, COUNT(*), AVG(age) FROM town GROUP BY sex",
    "SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)",
    "SELECT sex, SUM(1), SUM(age), COUNT_IF(smoker) FROM town GROUP BY GROUPING SETS ((sex), ())",
    "SELECT region, sex, COUNT(*) FROM town GROUP BY ROLLUP (region, sex)",
    "SELECT COUNT(*), VARIANCE(month), SUM(age * month) FROM town WHERE NOT smoker",
    "SELECT COUNT(*) FROM town WHERE sex = 'male' UNION ALL SELECT AVG(age) FROM town",
    "SELECT region, sex, COUNT(*) FROM town GROUP BY GROUPING SETS ((region), (sex))",
    "SELECT COUNT_IF(age > 100), SUM(CASE WHEN age < 0 THEN month END) FROM town",
]


COUNTS = ";".join(f"SELECT COUNT(*) FROM town WHERE age > {n} OR month < {n}" for n in range(2, 10))
NOBODY = [
    "SELECT COUNT(*) FROM town WHERE age < 2 AND age > 7",
    "SELECT month, region, COUNT(*) FROM town WHERE FALSE GROUP BY month, region",
    "SELECT sex, COUNT_IF(age > 100), SUM(month) FROM town WHERE age < 2 AND age > 7 GROUP BY sex",
    "SELECT sex, COUNT_IF(FALSE), SUM(CASE WHEN age < 0 THEN month END) FROM town GROUP BY sex",
    "SELECT sex, region, COUNT(*) FROM town WHERE age < 2 AND age > 7 GROUP BY CUBE (sex, region)",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    from tests.session.conftest import Town, people

    town = Town(tmp_path_factory.mktemp("town"))
    town.ledger.grant("alice", dataset="town", epsilon=100)
    with town.open(town.database("a", people(50, 1))) as opened:
        yield opened


def compiled(session: Session, sql: str) -> Compiled:
    asked: Any = statement(sql)
    found = session._compile(asked, None)[1]
    assert found is not None
    return found


def together(
    session: Session, listed: list[str], weights: list[float], backend: str = "gaussian"
) -> Joint:
    made = scaled([compiled(session, sql) for sql in listed], weights)
    asked = Asked(rho=0.01, backend=backend)
    return joint([each.workload for each in made], session.datasets["town"], asked, TERMS)


def cells(workload: Workload, seed: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    sizes = zip(workload.domain.names, workload.domain.sizes, strict=True)
    codes = {name: draw.integers(0, size, 200) for name, size in sizes}
    return codes, draw.integers(1, 9, 200)


@pytest.mark.parametrize("backend", ["gaussian", "auto"])
@pytest.mark.parametrize("seed", range(12))
def test_each_statement_finds_its_answers_in_what_was_measured(
    session: Session, seed: int, backend: str
) -> None:
    draw = np.random.default_rng(seed)
    listed = [SQL[at] for at in draw.permutation(len(SQL))[: 2 + seed % 8]]
    weights = [1.0] * len(listed) if seed % 2 else draw.choice([1.0, 2.0, 9.0], len(listed))
    whole = together(session, listed, list(weights), backend)
    for found in (whole, of_some(whole, range(1, len(listed)), session.datasets["town"], TERMS)):
        codes, counts = cells(found.workload, seed)
        measured: list[Any] = found.workload.matvec(codes, counts)
        if found.choice.plan is not None:
            parts_ = found.choice.plan.strategy.parts
            measured = [part.matvec(codes, counts) for part in parts_]
        for workload, said in zip(found.asked, found.answers(measured), strict=True):
            own = {name: codes[name] for name in workload.domain.names}
            true = workload.matvec(own, counts)
            for block, answers in zip(true, said.answers, strict=True):
                np.testing.assert_array_equal(block, answers)
        names = [
            (family.key, family.factor)
            for block in families(found.workload)
            for family in block
            if family is not None
        ]
        assert len(names) == len(set(names)), "equal queries of one scale are measured once"


def test_families_that_are_remembered_are_those_that_would_be_found(session: Session) -> None:
    whole = together(session, SQL, [1.0, 3.0, 2.0, 1.0, 5.0, 1.0, 2.0, 1.0, 1.0])
    for workload in (*whole.asked, whole.workload):
        for block, known in zip(workload.blocks, families(workload), strict=True):
            for (_, grouping, _, weight), family in zip(parts(block), known, strict=True):
                found = _family(workload, block, grouping, weight)
                assert found is not None and family is not None
                assert (found.key, found.factor) == (family.key, family.factor)
                np.testing.assert_array_equal(found.weights, family.weights)
                np.testing.assert_array_equal(found.origin, family.origin)


def test_statements_of_counts_alone_keep_their_factors(session: Session) -> None:
    listed = [compiled(session, SQL[at]) for at in (0, 2, 4)]
    assert scaled(listed, [2.0, 2.0, 2.0]) == listed


def test_weights_that_no_factors_tell_apart_are_refused(session: Session) -> None:
    listed = [compiled(session, SQL[0]), compiled(session, SQL[1])]
    with pytest.raises(UsageError, match="too far apart"):
        scaled(listed, [1.0, 1e24])


@pytest.mark.parametrize("sql", NOBODY)
def test_what_counts_nobody_takes_nothing_from_the_others(
    session: Session, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if too many to be mixed with them, which left all to plain noise; it is answered by 0."""
    monkeypatch.setattr("dpsql.mechanisms.strategies.clusters.QUERIES", 4)
    before, after = (session.explain_script(s, rho=0.01) for s in (COUNTS, f"{COUNTS};{sql}"))
    assert before.backend == after.backend == "factorization"
    for one, other in zip(before.plans, after.plans, strict=False):
        assert one.stderr[0][0] == pytest.approx(other.stderr[0][0], rel=1e-3)
    *_, release = session.run(f"{COUNTS};{sql}", rho=0.01)
    keys = sum(name in ("sex", "region", "month") for name in release.columns)
    assert all(value in (0, None) for row in release.rows for value in row[keys:])
    ends = [str(end) for row in (*release.low, *release.high) for end in row]
    assert "-0.0" not in ends


def test_a_release_is_not_read_through_for_each_statement(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a script takes as the square of its statements."""
    calls, of_tables = [0], Stored.of_tables

    def counted(stored: Stored) -> Any:
        calls[0] += 1
        return of_tables(stored)

    monkeypatch.setattr(Stored, "of_tables", counted)
    found = []
    for many in (4, 8):
        calls[0] = 0
        told = session.explain_script(";".join(COUNTS.split(";")[:many]), rho=0.02)
        assert told.backend == "factorization"
        found.append(calls[0])
    assert found[0] == found[1]
