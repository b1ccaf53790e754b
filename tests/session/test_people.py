"""People are charged, not questions: what statements cost one after another."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from dpsql.errors import BudgetExceeded, NoGrant
from dpsql.session import Session

PICO = 10**12
CENT = PICO // 100
Crowd = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def session(town: Any, crowd: Crowd) -> Session:
    return town.open(town.database("a", crowd(50, 1)))


def ask(session: Session, sql: str, rho: float = 0.01, **settings: Any) -> tuple[int, int]:
    """What the statement costs alone, and what the purse paid, in pico."""
    release = session.answer(sql, rho=rho, **settings)
    assert release.price is not None and release.charged is not None
    return round(release.price.rho * PICO), round(release.charged.rho * PICO)


def near(pico: int, wanted: int) -> bool:
    """Prices fall short of what was asked for by what noise of a short fraction leaves."""
    return wanted * (1 - 1e-4) <= pico <= wanted


def test_women_then_men_cost_what_one_costs(session: Session, town: Any) -> None:
    first = ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'female'")
    second = ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'male'")
    third = ask(session, "SELECT COUNT(*) FROM town WHERE sex <> 'male'")
    assert first[0] == second[0] == third[0] and near(first[0], CENT)
    assert (first[1], second[1], third[1]) == (first[0], 0, first[0])
    assert town.spent() == 2 * first[0]


def test_a_report_cell_by_cell_costs_what_it_costs_whole(session: Session, town: Any) -> None:
    for sex, region in itertools.product(("female", "male"), "NESW"):
        ask(session, f"SELECT COUNT(*) FROM town WHERE sex = '{sex}' AND region = '{region}'")
    whole = town.spent()
    ask(session, "SELECT sex, region, COUNT(*) FROM town GROUP BY sex, region")
    assert near(whole, CENT) and town.spent() == 2 * whole


def test_keys_make_no_difference(session: Session, town: Any) -> None:
    """Whether men are counted or counted by region and age, women pay nothing."""
    _, first = ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'female'")
    sql = "SELECT region, age, COUNT(*) FROM town WHERE sex = 'male' GROUP BY region, age"
    assert ask(session, sql)[1] == 0
    assert town.spent() == first


def test_ranges_lists_and_conditions_with_or(session: Session, town: Any) -> None:
    for low, high in ((0, 2), (3, 5), (6, 9)):
        ask(session, f"SELECT COUNT(*) FROM town WHERE age BETWEEN {low} AND {high}")
    assert near(town.spent(), CENT)
    ask(session, "SELECT COUNT(*) FROM town WHERE age IN (0, 4) OR region = 'N' AND age = 7")
    assert near(town.spent(), 2 * CENT)
    ask(session, "SELECT COUNT(*) FROM town WHERE age IN (1, 2, 3, 5, 6, 8, 9)")
    assert near(town.spent(), 2 * CENT)
    ask(session, "SELECT COUNT(*) FROM town WHERE smoker IS NULL AND age = 7 AND region = 'S'")
    ask(session, "SELECT COUNT(*) FROM town WHERE smoker AND age = 7 AND region = 'S'")
    assert near(town.spent(), 2 * CENT)


def test_one_statement_of_disjoint_parts_is_one_question(session: Session, town: Any) -> None:
    """In UNION ALL and in aggregates with FILTER, as in statements one after another."""
    union = " UNION ALL ".join(f"SELECT COUNT(*) FROM town WHERE age = {age}" for age in range(10))
    ask(session, union)
    assert near(town.spent(), CENT)
    ask(session, "SELECT COUNT(*) FILTER (WHERE smoker), COUNT(*) FILTER (WHERE NOT smoker),"
                 " COUNT(*) FILTER (WHERE smoker IS NULL) FROM town")  # fmt: skip
    assert near(town.spent(), 2 * CENT)


def test_sums_cost_people_by_what_they_add(session: Session, town: Any) -> None:
    """A child of age 1 loses an 81st of what somebody of age 9 does."""
    ask(session, "SELECT SUM(age) FROM town")
    before = town.spent()
    alone, charged = ask(session, "SELECT COUNT(*) FROM town WHERE age = 1")
    assert before < town.spent() < before + CENT // 50
    assert charged == town.spent() - before < alone // 50
    assert ask(session, "SELECT COUNT(*) FROM town WHERE age = 9")[1] > CENT * 0.98


def test_what_explain_quotes_is_what_the_ledger_takes(session: Session, town: Any) -> None:
    draw = random.Random(9)
    where = ["sex = 'male'", "age < 4", "age >= 4", "region IN ('N', 'S')", "smoker", "month > 6"]
    for _ in range(40):
        sql = f"SELECT COUNT(*), AVG(age) FROM town WHERE {' AND '.join(draw.sample(where, 2))}"
        settings: dict[str, Any] = {
            "rho": draw.choice([0.001, 0.01]), "backend": draw.choice(["gaussian", "laplace"])
        }  # fmt: skip
        dumped = town.ledger.dump()
        plan = session.explain(sql, **settings)
        assert town.ledger.dump() == dumped
        release = session.answer(sql, **settings)
        assert (plan.price, plan.charged) == (release.price, release.charged)
        assert plan.charged is not None and plan.charged.rho <= plan.price.rho
        named = {c.backend: c.charged for c in plan.candidates}
        assert named[settings["backend"]] == plan.charged


def test_explain_tells_both_prices(session: Session) -> None:
    session.answer("SELECT COUNT(*) FROM town WHERE sex = 'male'", rho=0.01)
    shown = dict(session.answer(
        "EXPLAIN SELECT COUNT(*) FROM town WHERE sex = 'female'", rho=0.01).rows)  # fmt: skip
    assert str(shown["price"]).startswith("epsilon 0.62")
    assert shown["charged after what was asked before"] == "epsilon 0, rho 0"


def test_a_purse_is_empty_for_some_and_not_for_others(town: Any, crowd: Crowd) -> None:
    town.ledger.grant("bob", dataset="town", epsilon=1)
    session = town.open(town.database("a", crowd(50, 1)), user="bob")
    rho = town.ledger.balance("bob", "town").grant.rho / PICO
    session.answer("SELECT COUNT(*) FROM town WHERE sex = 'male'", rho=rho)
    with pytest.raises(BudgetExceeded):
        session.answer("SELECT COUNT(*) FROM town WHERE sex = 'male' AND age = 3", rho=rho / 9)
    session.answer("SELECT COUNT(*) FROM town WHERE sex = 'female'", rho=rho)
    with pytest.raises(BudgetExceeded):
        session.answer("SELECT COUNT(*) FROM town", rho=rho / 1000)


def test_a_pure_purse_pays_by_person_too(town: Any, crowd: Crowd) -> None:
    town.ledger.grant("bob", dataset="town", epsilon=1, delta=0)
    session = town.open(town.database("a", crowd(50, 1)), user="bob")
    for region in "NESW":
        release = session.answer(f"SELECT COUNT(*) FROM town WHERE region = '{region}'", epsilon=1)
        assert release.left is not None and release.left.left.epsilon == pytest.approx(0, abs=1e-6)
    with pytest.raises(BudgetExceeded):
        session.answer("SELECT COUNT(*) FROM town WHERE region = 'N'", epsilon=0.5)


# -- the table changes -----------------------------------------------------------------------------

REPORT = "SELECT region, sex, COUNT(*), AVG(age) FROM town WHERE month = {} GROUP BY region, sex"


def yearly(town: Any, crowd: Crowd, head: str) -> int:
    """What a report on each month's own rows costs, month after month, in a table that grows."""
    rows: list[tuple[object, ...]] = []
    for month in range(1, 13):
        rows += crowd(30, month, month)
        with town.open(town.database("grows", rows, head)) as session:
            session.answer(REPORT.format(month), rho=0.01)
    spent: int = town.spent()
    return spent


def test_a_year_of_reports_on_new_rows_costs_one(town: Any, crowd: Crowd) -> None:
    assert near(yearly(town, crowd, 'unit = "row"\nappend_only = true'), CENT)


def test_where_rows_may_change_every_report_adds(town: Any, crowd: Crowd) -> None:
    assert near(yearly(town, crowd, 'unit = "row"'), 12 * CENT)


def test_another_table_is_another_snapshot(town: Any, crowd: Crowd) -> None:
    sql = "SELECT COUNT(*) FROM town WHERE sex = '{}'"
    for name in ("a", "b"):
        with town.open(town.database(name, crowd(20, 3))) as session:
            ask(session, sql.format("female"))
            ask(session, sql.format("male"))
    assert near(town.spent(), 2 * CENT)


def test_a_schema_that_changes_is_another_snapshot_even_of_rows_that_stay(
    town: Any, crowd: Crowd
) -> None:
    head = 'unit = "row"\nappend_only = true'
    path = town.database("a", crowd(20, 3), head)
    with town.open(path) as session:
        ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'female'")
    schema = path.with_suffix(".toml")
    schema.write_text(schema.read_text().replace('"female", "male"', '"male", "female"'))
    with town.open(path) as session:
        ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'male'")
    assert near(town.spent(), 2 * CENT)


# -- whose presence is hidden ----------------------------------------------------------------------


def test_under_replace_one_disjoint_people_cost_two(town: Any, crowd: Crowd) -> None:
    """Who is replaced leaves one group and joins another: two of the questions, never more."""
    head = 'unit = "row"\nneighbours = "replace-one"'
    session = town.open(town.database("a", crowd(50, 1), head))
    for age in range(10):
        ask(session, f"SELECT COUNT(*) FROM town WHERE age = {age}")
        assert near(town.spent(), min(age + 1, 2) * CENT)
    ask(session, "SELECT COUNT(*) FROM town")
    assert near(town.spent(), 3 * CENT)


def test_units_of_several_rows_lose_with_all_of_them(town: Any, crowd: Crowd) -> None:
    """r rows cost r^2 in one group as in several: Cauchy-Schwarz is reached by equal rows."""
    head = 'unit = {column = "region", max_rows = 3}'
    path = town.database("a", crowd(50, 1), head)
    schema = path.with_suffix(".toml")
    schema.write_text(schema.read_text().replace("region = ", "quarter = ").replace(
        '["N", "E", "S", "W"]', '["N", "E", "S", "W"], source = "region"'))  # fmt: skip
    session = town.open(path)
    one = ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'male'")
    other = ask(session, "SELECT COUNT(*) FROM town WHERE sex = 'female'")
    assert one[0] == other[0] and near(one[0], CENT)
    assert (one[1], other[1]) == (one[0], 0)


def test_a_grant_that_is_replaced_between_answers_is_the_one_that_prices_the_next(
    town: Any, crowd: Crowd
) -> None:
    with town.open(town.database("a", crowd(30, 1))) as session:
        sql = "SELECT COUNT(*) FROM town"
        first = session.answer(sql)
        town.ledger.grant("alice", dataset="town", epsilon=150, delta=1e-9)
        town.ledger.cap("town", epsilon=200)
        second = session.answer(sql)
        assert second.price == session.explain(sql).price != first.price
        assert (first.price.delta, second.price.delta) == (1e-6, 1e-9)
        town.ledger.revoke("alice", dataset="town")
        with pytest.raises(NoGrant):
            session.answer(sql)
        assert session.last_charge is None


@pytest.mark.parametrize("source", ['query = "SELECT * FROM people"', 'table = "seen"'])
def test_rows_that_may_be_others_each_time_share_no_snapshot(
    town: Any, crowd: Crowd, source: str
) -> None:
    """A view of now() or random() may show one person to two sessions in two places."""
    path = town.database("v", crowd(50, 1))
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE VIEW seen AS SELECT * FROM people")
    schema = path.with_suffix(".toml")
    schema.write_text(schema.read_text().replace('table = "people"', source))
    charged = []
    for sex in ("male", "female"):
        with town.open(path) as session:
            sql = f"SELECT COUNT(*) FROM town WHERE sex = '{sex}'"
            charged.append(ask(session, sql))
            other = "male" if sex == "female" else "female"
            again = sql.replace(f"'{sex}'", f"'{other}'")
            plan = session.explain(again, rho=0.01)
            assert ask(session, again)[1] == round(plan.charged.rho * PICO) == 0
    assert charged == [(CENT, CENT)] * 2
