"""Laplace releases, of pure grants above all: nothing is bought twice, what is said agrees."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.ledger import Ledger
from dpsql.release import Plan, Release
from dpsql.session import Session

Crowd = Callable[..., list[tuple[object, ...]]]
CUBE = "SELECT sex, region, smoker, COUNT(*) AS n FROM town GROUP BY CUBE (sex, region, smoker)"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
KEYS = ("sex", "region", "smoker")
VALUES: dict[str, list[object]] = {
    "sex": ["female", "male"], "region": ["N", "E", "S", "W"], "smoker": [True, False, None]
}  # fmt: skip


def pure(epsilon: float = 100) -> Ledger:
    ledger = Ledger.memory()
    for user in ("alice", "bob"):
        ledger.grant(user, dataset="town", epsilon=epsilon, delta=0)
    return ledger


@pytest.fixture
def session(town: Any, crowd: Crowd) -> Iterator[Session]:
    with town.open(town.database("a", crowd(900, 1)), ledger=pure()) as found:
        yield found


def spent(session: Session) -> float:
    return session.budget().spent.epsilon


def foretold(session: Session, sql: str, **given: Any) -> Release:
    """The answer to a statement, whose errors and price EXPLAIN said before."""
    before = spent(session)
    plan = session.explain(sql, reuse=True, **given)
    found = session.answer(sql, reuse=True, **given)
    assert (plan.backend, plan.price, plan.charged) == (found.backend, found.price, found.charged)
    assert found.charged.rho == 0 or found.backend.startswith("laplace")
    assert spent(session) == pytest.approx(before + found.charged.epsilon, abs=1e-11)
    for expected, seen in zip(errors(plan), errors(found), strict=True):
        assert expected == pytest.approx(seen)
    for row, low, high in zip(found.rows, found.low, found.high, strict=True):
        for value, bottom, top in zip(row, low, high, strict=True):
            assert bottom is None or (isinstance(value, int) and bottom <= value <= top)
    return found


def free(session: Session, sql: str, **given: Any) -> Release:
    found = foretold(session, sql, **given)
    assert (found.backend, found.charged.epsilon) == ("reuse", 0.0)
    return found


def errors(some: Plan | Release) -> list[float]:
    return [cell for row in some.stderr for cell in row if cell is not None]


def ends(release: Release) -> list[float]:
    rows = (*release.low, *release.high)
    return [value for row in rows for value in row if value is not None]


def where(keys: tuple[str, ...], values: tuple[object, ...]) -> str:
    parts = []
    for key, value in zip(keys, values, strict=True):
        literal = f"'{value}'" if isinstance(value, str) else str(value)
        parts.append(f"{key} IS NULL" if value is None else f"{key} = {literal}")
    return " AND ".join(parts)


# -- a cube and all that is coarser ----------------------------------------------------------------


def test_what_is_coarser_than_a_cube_is_free_and_agrees_to_the_last_digit(session: Session) -> None:
    finest = "SELECT sex, region, smoker, COUNT(*) AS n FROM town GROUP BY sex, region, smoker"
    shown = foretold(session, CUBE, epsilon=1)
    cells = {row[:3]: row[3] for row in free(session, finest, epsilon=0.02).rows}
    assert len(cells) == 24

    def summed(keys: tuple[str, ...], values: tuple[object, ...]) -> int:
        places = [KEYS.index(key) for key in keys]
        return sum(n for c, n in cells.items() if tuple(c[p] for p in places) == values)

    of_cube = sorted(row[3] for row in shown.rows)
    again = []
    for size in range(4):
        for keys in itertools.combinations(KEYS, size):
            listed = ", ".join(keys)
            by = f" GROUP BY {listed}" if keys else ""
            sql = f"SELECT {', '.join([*keys, 'COUNT(*) AS n'])} FROM town{by}"
            found = free(session, sql, epsilon=0.02)
            for row in found.rows:
                assert row[-1] == summed(keys, row[:-1])
                again.append(row[-1])
                if size == 2 and row[0] == "male":
                    sql = f"SELECT COUNT(*) AS n FROM town WHERE {where(keys, row[:-1])}"
                    assert free(session, sql, epsilon=0.02).rows == ((row[-1],),)
    assert sorted(again) == of_cube
    spent_so_far = spent(session)
    assert spent_so_far == pytest.approx(1)


def test_a_cube_is_more_accurate_than_its_own_rows_alone(session: Session) -> None:
    alone = session.explain(CUBE, epsilon=1, reuse=False)
    found = foretold(session, CUBE, epsilon=1)
    for cell, one in zip(errors(found), errors(alone), strict=True):
        assert cell < 0.98 * one
    assert min(errors(found)) < 0.7 * errors(alone)[0]


def test_complements_sums_and_parts_of_totals_are_free(session: Session) -> None:
    total = foretold(session, "SELECT COUNT(*) AS n FROM town", epsilon=0.1)
    men = foretold(session, "SELECT COUNT(*) AS n FROM town WHERE sex = 'male'", epsilon=0.1)
    women = free(session, "SELECT COUNT(*) AS n FROM town WHERE sex = 'female'", epsilon=0.05)
    assert men.rows[0][0] + women.rows[0][0] == total.rows[0][0]
    assert errors(women)[0] == pytest.approx(math.sqrt(2) * errors(men)[0], rel=1e-6)
    foretold(session, "SELECT age, COUNT(*) AS n FROM town GROUP BY age", epsilon=0.4)
    free(
        session, "SELECT COUNT(*) AS n FROM town WHERE age BETWEEN 2 AND 4 OR age = 9", epsilon=0.1
    )


# -- what is missing -------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [1.001, 1.25, 3.0])
def test_only_the_missing_accuracy_is_bought(more: float, session: Session) -> None:
    """1/v adds up, and v is nearly 2 / epsilon^2."""
    sql = "SELECT month, COUNT(*) AS n FROM town GROUP BY month"
    first = foretold(session, sql, epsilon=0.02)
    second = foretold(session, sql, epsilon=0.02 * more)
    assert second.backend == "laplace + reuse"
    assert second.charged.epsilon == pytest.approx(0.02 * math.sqrt(more**2 - 1), rel=2e-3)
    assert errors(second)[0] == pytest.approx(errors(first)[0] / more, rel=1e-3)
    free(session, sql, epsilon=0.02 * more)


def test_a_price_in_accuracy_is_monotone_and_never_above_that_without_reuse(
    session: Session,
) -> None:
    sql = "SELECT age, COUNT(*) AS n FROM town GROUP BY age"
    foretold(session, sql, accuracy=60)
    free(session, sql, accuracy=61)
    prices = []
    for rows in (55, 40, 39, 25, 12, 6, 3):
        fresh = session.explain(sql, accuracy=rows, reuse=False).price.epsilon
        prices.append(session.explain(sql, accuracy=rows, reuse=True).price.epsilon)
        assert prices[-1] <= fresh
    assert prices == sorted(prices)
    whole = session.explain(sql, accuracy=25, reuse=False).price.epsilon
    found = foretold(session, sql, accuracy=25)
    assert found.charged.epsilon < 0.95 * whole
    widths = [(h[1] - low[1]) / 2 for low, h in zip(found.low, found.high, strict=True)]
    assert max(widths) <= 25.5
    free(session, sql, accuracy=25)


def test_reuse_off_buys_afresh(session: Session) -> None:
    sql = "SELECT COUNT(*) AS n FROM town"
    session.answer(sql, epsilon=0.1, reuse=True)
    again = session.answer(sql, epsilon=0.1, reuse=False)
    assert again.backend == "laplace" and again.charged.epsilon == pytest.approx(0.1)


def test_laplace_and_gaussian_releases_are_combined_by_their_variances(
    town: Any, crowd: Crowd
) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    with town.open(town.database("a", crowd(900, 1))) as session:
        session.answer(sql, rho=0.001, backend="gaussian", reuse=True)
        one = session.explain(sql, rho=0.001, backend="gaussian", reuse=False)
        plan = session.explain(sql, rho=0.003, backend="laplace", reuse=True)
        found = session.answer(sql, rho=0.003, backend="laplace", reuse=True)
        whole = session.explain(sql, rho=0.003, backend="laplace", reuse=False)
        assert plan.backend == found.backend == "laplace + reuse"
        assert plan.price == found.price and found.price.rho < whole.price.rho
        rounded = [(error**2 + 1 / 12) ** 0.5 for error in errors(whole)]  # of a fitted value
        assert errors(found) == pytest.approx(rounded, rel=1e-4)
        assert errors(plan) == errors(found) and max(errors(found)) < min(errors(one))
        after = session.answer("SELECT COUNT(*) AS n FROM town", rho=0.0005, reuse=True)
        assert after.backend == "reuse"
        assert after.rows[0][0] == sum(row[1] for row in found.rows)


# -- what is said, and foretold --------------------------------------------------------------------


PREDICATES = ["sex = 'male'", "age > 4", "NOT age > 4", "region IN ('N', 'S')", "smoker"]
COUNTED = ["COUNT(*) AS n", "COUNT(*) AS n, COUNT(smoker) AS k", "COUNT_IF(age > 4) AS n"]


def statement(draw: random.Random) -> str:
    some = f" WHERE {draw.choice(PREDICATES)}" if draw.random() < 0.4 else ""
    keys = ", ".join(draw.sample(["sex", "region", "age // 5"], draw.choice([0, 1, 1, 2])))
    if not keys:
        return f"SELECT {draw.choice(COUNTED)} FROM town{some}"
    by = draw.choice(["({})", "ROLLUP ({})", "CUBE ({})"]).format(keys)
    return f"SELECT {keys}, {draw.choice(COUNTED)} FROM town{some} GROUP BY {by}"


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), delta=st.sampled_from([0, 1e-6]))
def test_whatever_was_asked_before_answers_are_as_foretold_and_said_twice(
    seed: int, delta: float, town_of: Any
) -> None:
    draw = random.Random(seed)
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=1e4, delta=delta)
    with Session(town_of, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        for _ in range(5):
            sql = statement(draw)
            asked: dict[str, Any] = draw.choice(
                [{"epsilon": 0.1}, {"epsilon": 0.7}, {"accuracy": 40}, {"accuracy": 15}]
            )
            backends = ["auto", "laplace"] if delta == 0 else ["laplace", "laplace", "gaussian"]
            asked = {**asked, "backend": draw.choice(backends)}
            plan = session.explain(sql, **asked)
            first, second = session.answer(sql, **asked), session.answer(sql, **asked)
            assert (plan.price, plan.charged) == (first.price, first.charged), sql
            assert errors(plan) == pytest.approx(errors(first), rel=1e-9, abs=1e-9), sql
            assert second.charged.rho == second.charged.epsilon == 0, sql
            for part in ("rows", "stderr", "low", "high"):
                assert getattr(first, part) == getattr(second, part), (part, sql)


@pytest.fixture(scope="module")
def town_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.session.conftest import Town, people

    return Town(tmp_path_factory.mktemp("laplace")).database("a", people(300, 3))


def test_scripts_under_a_pure_grant_are_planned_as_they_are_answered(session: Session) -> None:
    session.answer("SELECT sex, COUNT(*) AS n FROM town GROUP BY sex", epsilon=1, reuse=True)
    script = (
        f"{CUBE};\nSELECT COUNT(*) AS n FROM town;\nSELECT region, COUNT(*) FROM town GROUP BY 1"
    )
    plan = session.explain_script(script, epsilon=2, reuse=True)
    found = session.run(script, epsilon=2, reuse=True)
    for one, other in zip(plan.plans, found, strict=True):
        assert errors(one) == pytest.approx(errors(other))
    total = max(row[3] for row in found[0].rows)
    assert found[1].rows == ((total,),)
    again = session.run(script, epsilon=2, reuse=True)
    assert all(release.charged.epsilon == 0 for release in again)
    assert [release.rows for release in again] == [release.rows for release in found]


def test_a_script_about_nobody_has_a_plan(town: Any, crowd: Crowd) -> None:
    """Groups that no declared value is in have no row to have an error."""
    script = (
        "SELECT region, COUNT(*) AS n FROM town WHERE age > 9 GROUP BY region;\n"
        "SELECT region, COUNT(*) AS n FROM town WHERE age < 7 GROUP BY ROLLUP (region)"
    )
    with town.open(town.database("a", crowd(50, 1))) as session:
        plan = session.explain_script(script, epsilon=0.05, backend="laplace")
        assert len(plan.plans) == 2


# -- intervals -------------------------------------------------------------------------------------


def test_intervals_of_sums_differences_and_ratios_cover(town: Any, crowd: Crowd) -> None:
    """4 P(Bin(70, 0.8) <= 36) = 3e-7; exact laws of the noise are in the tests of `blends`."""
    rows = crowd(600, 7)
    path = town.database("a", rows)
    men = [r for r in rows if r[0] == "male"]
    truths = {
        "SELECT COUNT(*) FROM town": len(rows),
        "SELECT COUNT_IF(sex = 'male') - COUNT_IF(sex = 'female') FROM town":
            2 * len(men) - len(rows),
        "SELECT COUNT(*) FROM town WHERE sex = 'male' AND region IN ('N', 'E', 'S')":
            sum(r[1] in "NES" for r in men),
        "SELECT AVG((sex = 'male')::INT) FROM town WHERE region IN ('N', 'W')":
            sum(r[1] in "NW" for r in men) / sum(r[1] in "NW" for r in rows),
    }  # fmt: skip
    held = dict.fromkeys(truths, 0)
    for _ in range(70):
        with Session(path, user="alice", ledger=pure(), settings={"reuse": True}) as session:
            session.answer(
                "SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)", epsilon=0.3
            )
            session.answer("SELECT region, COUNT(*) FROM town GROUP BY region", epsilon=0.4)
            for sql, truth in truths.items():
                found = session.answer(sql, epsilon=0.05, confidence=0.8)
                assert found.charged.epsilon == 0
                assert found.low[0][0] <= found.rows[0][0] <= found.high[0][0]
                held[sql] += found.low[0][0] <= truth <= found.high[0][0]
    assert min(held.values()) > 36, held
    assert min(held.values()) < 70, "an interval that always covers is none of 80 %"


@pytest.mark.parametrize("before", [0.5, 20.0, 700.0])
@pytest.mark.parametrize("epsilon", [690.0, 709.0, 712.0, 745.0, 750.0, 1e4])
def test_what_was_bought_before_stops_no_answer_without_noise(
    before: float, epsilon: float, town: Any, crowd: Crowd
) -> None:
    """Noise whose variance is too small for a number, or for its inverse, is bought as it is."""
    with town.open(town.database("a", crowd(90, 1)), ledger=pure(1e6)) as session:
        exact = session.answer(BY_SEX, epsilon=epsilon, reuse=False).rows
        session.answer(BY_SEX, epsilon=before, reuse=True)
        assert foretold(session, BY_SEX, epsilon=epsilon).rows == exact
