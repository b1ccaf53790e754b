"""A script is one measurement: one price, one charge, all or nothing, free when run again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetExceeded, InternalError, NoGrant, Refused, UsageError
from dpsql.session import Session
from tests.cases.published import cases
from tests.query.same import extra

ROOT = Path(__file__).resolve().parents[3]
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
def session(path: Path, town: Any) -> Iterator[Session]:
    with town.open(path) as opened:
        yield opened


def charges(ledger: Ledger) -> list[Any]:
    return [entry for entry in ledger.log() if entry.kind == "charge"]


# -- one charge --------------------------------------------------------------------------------


def test_a_script_is_one_charge_of_a_tenth_of_the_grant(session: Session, town: Any) -> None:
    plan = session.explain_script(SCRIPT)
    assert not charges(town.ledger)
    releases = session.run(SCRIPT)
    assert len(releases) == len(plan.plans) == 4
    [charge] = charges(town.ledger)
    granted = town.ledger.balance("alice", "town").grant.rho
    assert 0.999 < charge.price.rho / (granted / 10) <= 1
    for release in releases:
        assert release.price is not None and release.price == plan.price
        assert release.charged == plan.charged == session.last_charge
        assert release.left == plan.after
        assert any("together with 3 other statements" in note for note in release.notes)
    assert charge.statement.startswith("script: SELECT sex, COUNT(*)")
    assert "GROUP BY CUBE (smoker, sex)" in charge.statement


def test_the_log_holds_so_much_of_a_long_script(session: Session, town: Any) -> None:
    session.run(";".join(f"SELECT COUNT(*) FROM town WHERE age < {n % 9 + 1}" for n in range(60)))
    [charge] = charges(town.ledger)
    assert len(charge.statement) < 1_100 and charge.statement.endswith("... (60 statements)")


@pytest.mark.parametrize("given", [{"epsilon": 0.5}, {"rho": 0.01}, {"epsilon": 2.0}])
def test_a_price_is_that_of_the_whole_script(session: Session, given: dict[str, float]) -> None:
    [first, *_] = session.run(SCRIPT, **given)
    name, wanted = next(iter(given.items()))
    assert first.price is not None
    assert getattr(first.price, name) == pytest.approx(wanted, rel=1e-3)
    assert getattr(first.price, name) <= wanted


def test_together_costs_less_than_one_by_one_at_the_same_noise(session: Session) -> None:
    disjoint = ";".join(f"SELECT COUNT(*) AS n FROM town WHERE age = {n}" for n in range(10))
    plan = session.explain_script(disjoint, rho=0.01)
    assert plan.price.rho == pytest.approx(sum(one.price.rho for one in plan.plans) / 10)
    plan = session.explain_script(SCRIPT, rho=0.01)
    assert plan.price.rho <= sum(one.price.rho for one in plan.plans)
    for one, release in zip(plan.plans, session.run(SCRIPT, rho=0.01), strict=True):
        assert one.columns == release.columns
        if "n" in one.columns:
            at = one.columns.index("n")
            assert one.stderr[0][at] == pytest.approx(release.stderr[0][at], rel=1e-3)


def test_equal_queries_are_measured_once(session: Session) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    other = "SELECT sex, SUM(1) AS n FROM town WHERE TRUE GROUP BY 1 ORDER BY sex DESC"
    one, both = (session.explain_script(s, rho=0.01) for s in (sql, f"{sql};{other}"))
    assert both.plans[0].stderr == one.plans[0].stderr
    first, second = session.run(f"{sql};{other}", rho=0.01)
    assert sorted(first.rows) == sorted(second.rows)


# -- right answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["adult", "pums_null"])
def test_where_noise_vanishes_the_answers_are_duckdbs(table: str) -> None:
    listed = [case for case in cases("accept.csv") if case["table"] == table]
    assert len(listed) >= 9
    ledger, data = Ledger.memory(), ROOT / f"examples/data/{table}.parquet"
    ledger.grant("alice", dataset=table, epsilon=1e7)
    text = "".join(f"-- # {case['id']}\n{case['sql']};\n" for case in listed)
    schema = ROOT / f"schemas/{table}.toml"
    with Session(data, schema=schema, user="alice", ledger=ledger) as session:
        releases = session.run(text, rho=9e6)
    with duckdb.connect() as judge:
        judge.execute(f"CREATE TABLE {table} AS FROM read_parquet('{data}')")
        for case, release in zip(listed, releases, strict=True):
            truth = judge.execute(case["sql"]).fetchall()
            rows = [tuple(_rounded(value) for value in row) for row in release.rows]
            wanted = [tuple(_rounded(value) for value in row) for row in truth]
            beside = extra(rows, wanted, ordered="ORDER BY" in case["sql"])
            assert beside is not None, (case["id"], rows[:5], wanted[:5])


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value


def test_noise_has_the_size_that_is_said(session: Session) -> None:
    """Chance of a false alarm: below 1e-6. The ten answers about a cell share their noise, so that
    a run tells 120 squares: 4,800 in all, 5.2 stddevs of 0.0205; noise 11 % off shows.
    """
    text = ";".join(
        f"SELECT month, age, COUNT(*) AS n FROM town WHERE region <> 'N' OR age <> {n} GROUP BY ALL"
        for n in range(10)
    )
    truth = []
    with duckdb.connect(str(session.database), read_only=True) as judge:
        for n in range(10):
            found = judge.execute(
                "SELECT month, age, COUNT(*) FROM people"
                f" WHERE region <> 'N' OR age <> {n} GROUP BY ALL"
            ).fetchall()
            truth.append({(month, age): count for month, age, count in found})
    squares = []
    for _ in range(40):
        releases = session.run(text, rho=0.01)
        errors = [
            [(row[2] - true.get(row[:2], 0)) / error[2]
             for row, error in zip(release.rows, release.stderr, strict=True)]
            for true, release in zip(truth, releases, strict=True)
        ]  # fmt: skip
        squares.append(np.square(errors).mean(axis=0))
    assert np.size(squares) == 4_800
    assert abs(np.mean(squares) - 1) < 5.2 * math.sqrt(2 / np.size(squares))


# -- weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [4, 9, 0.25])
def test_a_weight_divides_the_variance(session: Session, weight: float) -> None:
    """Exactly where each statement is measured as it is, about so where a strategy is."""
    text = (
        f"-- weight: {weight}\nSELECT sex, COUNT(*) AS n FROM town GROUP BY sex;"
        "SELECT region, COUNT(*) AS n FROM town GROUP BY region"
    )
    for backend, near in (("gaussian", 0.05), ("auto", 0.4)):
        first, second = session.run(text, rho=0.01, backend=backend)
        one, other = first.stderr[0][1], second.stderr[0][1]
        assert one and other and (other / one) ** 2 == pytest.approx(weight, rel=near)
        assert first.price == second.price and first.price is not None
        assert first.price.rho <= 0.01


def test_a_weight_takes_nothing_from_statements_about_other_people(session: Session) -> None:
    """Whoever is in one is in none of the other: less noise in it costs nothing more."""
    text = (
        "-- weight: 16\nSELECT COUNT(*) AS n FROM town WHERE age < 3;"
        "SELECT COUNT(*) AS n FROM town WHERE age > 5"
    )
    first, second = session.run(text, rho=0.01)
    least = math.sqrt(1 / (2 * 0.01))
    assert first.stderr[0][0] == pytest.approx(least, rel=0.02)
    assert second.stderr[0][0] is not None and second.stderr[0][0] < 1.5 * least  # of 4 times
    assert first.price is not None and first.price.rho <= 0.01


def test_unlike_values_are_measured_on_one_scale(session: Session) -> None:
    [means], [alone] = (
        [p.stderr for p in session.explain_script(text, rho=0.01, backend="gaussian").plans[:1]]
        for text in ("SELECT SUM(age) AS s FROM town; SELECT COUNT(*) FROM town",
                     "SELECT SUM(age) AS s FROM town")
    )  # fmt: skip
    assert means[0][0] and alone[0][0]
    assert means[0][0] / alone[0][0] == pytest.approx(math.sqrt(2), rel=0.05)


# -- settings and parameters -------------------------------------------------------------------


def test_set_holds_for_the_statements_after_it(session: Session) -> None:
    text = """
        SET rho = 0.01; SET intervals = on;
        SELECT COUNT(*) FROM town;
        SET confidence = 0.99;
        SELECT COUNT(*) FROM town;
        SHOW confidence;
        RESET all;
        SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (confidence = 0.5) COUNT(*) FROM town;
        SELECT COUNT(*) FROM town;
    """
    releases = session.run(text)
    first, second, shown, third, fourth = releases
    assert shown.rows == (("confidence", "0.99"),)
    assert [r.confidence for r in (first, second, third, fourth)] == [0.95, 0.99, 0.5, 0.95]
    assert [r.intervals for r in (first, second, third, fourth)] == [True, True, False, False]
    assert all(r.price is not None and 0.0099 < r.price.rho <= 0.01 for r in (first, fourth))
    assert session.settings.rho is None and session.settings.confidence == 0.95
    assert session.run(text, rho=0.02, confidence=0.9)[0].confidence == 0.9
    assert session.last_charge is not None and 0.0198 < session.last_charge.rho <= 0.02


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("SELECT COUNT(*) FROM town;\nSET epsilon = 1;", "2:5", "epsilon in the middle"),
        ("SELECT COUNT(*) FROM town;\nRESET rho;", "2:7", "rho in the middle"),
        ("SELECT COUNT(*) FROM town;\nSET backend = laplace;", "2:5", "backend in the middle"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM town", "1:43",
         "epsilon for a single statement"),
        ("SET confidence = 2;\nSELECT COUNT(*) FROM town", "1:18", "confidence"),
        ("SET wrong = 2", "1:5", "there is no setting"),
        ("SELECT COUNT(*) FROM town;\n SELECT COUNT(*) FROM town WHERE age < $x", "2:40",
         "there is no value for $x"),
        ("SELECT COUNT(*) FROM town WHERE age < ?", "1:39", "a parameter without a name"),
        ("SELECT COUNT(*) FROM town;\nSELECT MIN(age) FROM town;", "2:8", "MIN reveals"),
        ("SELECT COUNT(*) FROM town;\n\nSELECT COUNT(* FROM town;", "3:13", "parenthesis"),
        ("SELECT COUNT(*) FROM town;\nDESCRIBE nowhere", "2:10", "there is no dataset"),
        ("SELECT COUNT(*) FROM town;\nDROP TABLE town", "2:1", "DROP"),
        ("-- weight: 2\nSHOW TABLES", "2:1", "a weight above a statement that is not measured"),
        ("SET accuracy = 9; SELECT COUNT(*) FROM town;\nRESET accuracy;\n"
         "SELECT COUNT(*) FROM town", "3:1", "no accuracy for this statement"),
        ("SET accuracy = 9;\n-- weight: 2\nSELECT COUNT(*) FROM town", "3:1",
         "a weight and an accuracy"),
        ("SELECT COUNT(*) FROM town; SELECT 'a", "1:35", "does not end"),
    ],
)  # fmt: skip
def test_one_refused_statement_refuses_all_and_nothing_is_charged(
    session: Session, town: Any, text: str, place: str, reason: str
) -> None:
    before = town.ledger.dump()
    for call in (session.run, session.explain_script):
        with pytest.raises(Refused) as refused:
            call(text)
        assert str(refused.value).startswith(f"script:{place}: refused: "), str(refused.value)
        assert reason in str(refused.value)
        assert refused.value.to_dict()["line"] == int(place.split(":")[0])
    assert town.ledger.dump() == before and session.last_charge is None


def test_a_usage_error_of_a_statement_says_where(session: Session) -> None:
    text = "SELECT COUNT(*) FROM town;\nSELECT AVG(age) FROM town"
    with pytest.raises(UsageError, match=r"^script:2:1: the interval of .* depends"):
        session.run(text, accuracy=5)
    with pytest.raises(
        UsageError, match="script has no parameter year: leave it out; there is none"
    ):
        session.run(text, {"year": 1})
    with pytest.raises(UsageError, match="have names"):
        session.run(text, [1])
    with pytest.raises(UsageError, match=r"cannot read nowhere\.sql"):
        session.run("nowhere.sql")


def test_parameters_go_where_their_names_stand(session: Session) -> None:
    text = "SELECT COUNT(*) FROM town WHERE age < $a; SELECT COUNT(*) FROM town WHERE sex = $s"
    few, some = session.run(text, {"a": 3, "s": "male"}, rho=40)
    with duckdb.connect(str(session.database), read_only=True) as judge:
        sql = "SELECT COUNT(*) FROM people WHERE age < 3"
        assert few.rows == (judge.execute(sql).fetchone(),)
        sql = "SELECT COUNT(*) FROM people WHERE sex = 'male'"
        assert some.rows == (judge.execute(sql).fetchone(),)


def test_an_accuracy_is_that_of_each_statement_at_the_least_price(session: Session) -> None:
    text = (
        "SET accuracy = 40; SELECT sex, COUNT(*) AS n FROM town GROUP BY sex;"
        "SET accuracy = 20; SELECT region, COUNT(*) AS n FROM town GROUP BY region"
    )
    plan = session.explain_script(text)
    for wanted, release in zip((40, 20), session.run(text), strict=True):
        assert release.price == plan.price
        for low, high in zip(release.low, release.high, strict=True):
            assert low[1] is not None and high[1] is not None
            assert 0.9 * wanted <= (high[1] - low[1]) / 2 <= wanted + 0.5  # whole ends
    assert plan.price.rho < session.explain_script(text, accuracy=20).price.rho


def test_an_accuracy_is_bought_through_a_strategy_where_that_is_cheaper(session: Session) -> None:
    text = ";".join(f"SELECT COUNT(*) AS n FROM town WHERE age <= {n}" for n in range(10))
    alone = session.explain_script(text, accuracy=60, backend="gaussian")
    plan = session.explain_script(text, accuracy=60)
    assert plan.backend == "factorization" and plan.price.rho < 0.5 * alone.price.rho
    releases = session.run(text, accuracy=60)
    for release, foretold in zip(releases, plan.plans, strict=True):
        assert release.price == plan.price and release.stderr == foretold.stderr
        ((low,),), ((high,),) = release.low, release.high
        assert low is not None and high is not None and (high - low) / 2 <= 60.5  # whole ends
    widest = max(release.stderr[0][0] or 0.0 for release in releases)
    assert 1.9 < 60 / widest < 2.1  # not more accurate than was asked


# -- free statements ---------------------------------------------------------------------------


def test_free_statements_are_answered_in_order(session: Session, town: Any) -> None:
    text = (
        "SHOW BUDGET; DESCRIBE town; SELECT 1; EXPLAIN SELECT COUNT(*) FROM town;"
        "SELECT COUNT(*) FROM town; SHOW BUDGET"
    )
    before, columns, probe, plan, count, after = session.run(text)
    assert before.rows[0][2] == 0 and columns.columns[0] == "column_name"
    assert probe.rows == ((1,),) and plan.columns == ("item", "value")
    assert count.left is not None and after.rows[0][2] == pytest.approx(count.left.spent.epsilon)
    assert len(charges(town.ledger)) == 1
    [tables] = session.run("SHOW TABLES")
    assert tables.rows[0][0] == "town" and session.last_charge is None
    with pytest.raises(UsageError, match="no SELECT that is measured"):
        session.explain_script("SHOW TABLES")


def test_two_datasets_are_refused(path: Path, town: Any) -> None:
    twin = path.with_name("twin.toml")
    twin.write_text(path.with_suffix(".toml").read_text().replace('"town"', '"twin"', 1))
    schema = [path.with_suffix(".toml"), twin]
    with Session(path, schema=schema, user="alice", ledger=town.ledger) as session:
        text = "SELECT COUNT(*) FROM town;\nSELECT COUNT(*) FROM twin"
        with pytest.raises(Refused, match=r"two datasets: town \(line 1\) and twin") as refused:
            session.run(text)
    assert str(refused.value).startswith("script:2:17: ")
    assert not charges(town.ledger)


# -- what goes wrong ---------------------------------------------------------------------------


def test_too_dear_a_script_is_not_charged(session: Session, town: Any) -> None:
    before = town.ledger.dump()
    with pytest.raises(BudgetExceeded):
        session.run(SCRIPT, epsilon=1_000)
    assert town.ledger.dump() == before
    with Session(session.database, user="bob", ledger=town.ledger) as bobs:
        with pytest.raises(NoGrant):
            bobs.run(SCRIPT)
        assert bobs.explain_script(SCRIPT, epsilon=1).after is None


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), ValueError("4711")])
def test_what_fails_after_the_charge_says_what_was_charged(
    session: Session, town: Any, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def fails(*given: object, **named: object) -> None:
        raise fault

    monkeypatch.setattr("dpsql.session.scripts.report.build", fails)
    raised: type[BaseException] = KeyboardInterrupt
    if isinstance(fault, ValueError):
        raised = InternalError
    with pytest.raises(raised) as failed:
        session.run(SCRIPT)
    assert len(charges(town.ledger)) == 1 and session.last_charge is not None
    told = [*getattr(failed.value, "__notes__", []), str(failed.value)]
    assert any("charged ε" in text for text in told) and not any("4711" in text for text in told)


def test_a_pure_grant_pays_a_tenth_of_its_epsilon(path: Path, crowd: Callable[..., Any]) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=1, delta=0)
    with Session(path, user="alice", ledger=ledger) as session:
        first, *_ = session.run(SCRIPT)
    assert first.backend == "laplace" and first.price is not None
    assert first.price.epsilon == pytest.approx(0.1, rel=1e-3)


def test_a_script_is_not_asked_of_a_synopsis(session: Session, town: Any) -> None:
    """It was bought, with Laplace noise, under that name."""
    for script, given in (
        (SCRIPT, {"backend": "synopsis"}),
        (f"SET backend = synopsis;{SCRIPT}", {}),
    ):
        for ask in (session.run, session.explain_script):
            with pytest.raises(Refused, match="synopsis of a statement of a script"):
                ask(script, **given)
    assert not charges(town.ledger)
