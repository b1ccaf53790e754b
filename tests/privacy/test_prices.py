"""Rows, prices and refusals follow the schema, the statement and the ledger; never the data."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import minimize_scalar

from dpsql.accounting.events import PICO, from_dict
from dpsql.errors import BudgetExceeded, Refused, SourceError
from dpsql.session import Session
from tests.cases.published import cases
from tests.privacy.trial import USER, charges, purse, rows, table

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "data"

SHAPES = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*), SUM(hours) FROM people WHERE race = 'Other' AND age = 88",
    "SELECT COUNT(*) FROM people WHERE age > 90",
    "SELECT race, COUNT(*), SUM(age) FROM people GROUP BY race",
    "SELECT age, race, COUNT(*) FROM people WHERE age > 70 GROUP BY age, race ORDER BY age, race",
    "SELECT rich, race, COUNT(*) FROM people GROUP BY CUBE (rich, race)",
    "SELECT COUNT(*) FROM people WHERE rich UNION ALL SELECT COUNT(*) FROM people WHERE age < 3",
]


def test_an_empty_table_is_answered_like_a_full_one(tmp_path):
    """T15, A12, B26: the same rows, keys, errors, types, prices and notes; nothing is NULL."""
    shapes = []
    for count in (0, 1, 60):
        with Session(table(tmp_path / str(count), rows(count)), user=USER, ledger=purse()) as found:
            shape = []
            for sql, backend in itertools.product(SHAPES, ["gaussian", "laplace"]):
                release = found.answer(sql, rho=0.01, backend=backend)
                told = release.to_dict()
                for field in ("rows", "low", "high"):
                    told.pop(field)
                keys = [
                    [value for value, noisy in zip(row, release.noisy, strict=True) if not noisy]
                    for row in release.rows
                ]
                noisy = [
                    type(value)
                    for row in release.rows
                    for value, is_noisy in zip(row, release.noisy, strict=True)
                    if is_noisy
                ]
                assert set(noisy) == {int}
                shape.append((told, keys, noisy))
            shapes.append((shape, charges(found.ledger)))
    assert shapes[0] == shapes[1] == shapes[2]


def test_whether_a_purse_is_empty_depends_on_prices_alone(tmp_path):
    """A35: asked until it is refused, and on; the same statement is refused, in the same words."""
    asked = random.Random(11)
    drawn = [(asked.choice(SHAPES), asked.choice([0.01, 0.02, 0.05])) for _ in range(60)]
    told = []
    for count in (0, 1, 60):
        path = table(tmp_path / str(count), rows(count))
        with Session(path, user=USER, ledger=purse(epsilon=6)) as session:
            outcome = []
            for sql, rho in drawn:
                try:
                    outcome.append(session.answer(sql, rho=rho).left)
                except BudgetExceeded as error:
                    outcome.append(str(error))
        told.append(outcome)
    assert told[0] == told[1] == told[2]
    assert 5 < sum(isinstance(one, str) for one in told[0]) < 55


CSV = """
dataset = "people"
neighbours = "add-remove"
unit = "row"
[source]
query = "SELECT age, 2025 - TRY_CAST(born AS INTEGER) AS years FROM people WHERE age <> 3"
[columns]
age = {type = "integer", min = 0, max = 90}
years = {type = "integer", min = 0, max = 120}
"""


@pytest.mark.parametrize("row", ["", "x,1990", "1.5,1990", "7,nobody knows", '"', "7,1990,8,9"])
def test_no_row_of_a_csv_file_decides_whether_a_query_over_it_is_answered(row, tmp_path):
    """Types are declared or text, never found by reading rows that nobody has paid for."""
    path = tmp_path / "people.csv"
    path.write_text("age,born\n" + "7,1990\n3,1980\n" * 20 + row + "\n")
    path.with_suffix(".toml").write_text(CSV)
    with Session(path, user=USER, ledger=purse()) as session:
        ((count,),) = session.answer("SELECT COUNT(*) FROM people WHERE years > 30", rho=1e4).rows
        assert count == 20 + (row == "7,1990,8,9")


def test_a_query_over_text_that_needs_a_cast_is_told_so(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,born\n7,1990\n")
    wrong = CSV.replace("TRY_CAST(born AS INTEGER)", "born")
    path.with_suffix(".toml").write_text(wrong)
    ledger = purse()
    with Session(path, user=USER, ledger=ledger) as session:
        with pytest.raises(SourceError, match=r"text unless .* write TRY_CAST"):
            session.answer("SELECT COUNT(*) FROM people", rho=1.0)
        assert session.last_charge is None and charges(ledger) == []


@pytest.fixture(scope="module")
def titanic():
    ledger = purse(name="titanic")
    path, schema = EXAMPLES / "titanic.parquet", ROOT / "schemas" / "titanic.toml"
    with Session(path, schema=schema, user=USER, ledger=ledger) as session:
        yield session


def handed(name: str) -> str:
    return next(case["sql"] for case in cases("accept.csv") if case["id"] == name)


def test_noise_does_not_depend_on_where(titanic):
    """B44: titanic_001 counts everybody, titanic_019 nobody."""
    errors = [titanic.answer(handed(name), rho=0.01).stderr for name in ("titanic_001", NOBODY)]
    assert errors[0] == errors[1]
    one, other = charges(titanic.ledger)[-2:]
    assert one[4] == other[4]


NOBODY = "titanic_019"


def test_an_average_is_one_joint_release(titanic):
    """B02: titanic_007 is charged once, and costs what one count with its noise costs."""
    before = len(charges(titanic.ledger))
    average = titanic.answer(handed("titanic_007"), rho=0.01)
    assert len(charges(titanic.ledger)) == before + 1
    count = titanic.answer("SELECT COUNT(*) FROM titanic", rho=0.01)
    assert average.charged == count.charged
    assert charges(titanic.ledger)[-2][4] == charges(titanic.ledger)[-1][4]
    assert average.left.left.rho - count.left.left.rho == pytest.approx(0.01, rel=1e-5)


# -- prices -------------------------------------------------------------------------------------


@pytest.fixture
def session(tmp_path):
    with Session(table(tmp_path, rows(24)), user=USER, ledger=purse()) as found:
        yield found


def spent_by(session: Session, *asked: Any, **settings: Any) -> int:
    """The rho (pico) that some statements cost together."""
    before = session.ledger.balance(USER, "people").spent_rho
    for sql in asked:
        session.answer(sql, **settings)
    return session.ledger.balance(USER, "people").spent_rho - before


def closed_form(rho: float, delta: float) -> float:
    """epsilon of rho-zCDP: the least over a > 1 of Canonne, Kamath and Steinke's bound."""

    def bound(log: float) -> float:
        a = 1 + math.exp(log)
        return a * rho + (math.log(1 / delta) + (a - 1) * math.log1p(-1 / a) - math.log(a)) / (
            a - 1
        )

    return float(minimize_scalar(bound, bounds=(-10, 12), options={"xatol": 1e-10}).fun)


@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_equal_questions_add_up_to_the_closed_form(count, session):
    """B04, A21: the total and its epsilon, worked out elsewhere; none is given for free."""
    sql = "SELECT COUNT(*) FROM people WHERE age > 40"
    for _ in range(count):
        release = session.answer(sql, rho=0.002)
    event = from_dict(charges(session.ledger)[0][4])
    each = math.ceil(PICO * event.sensitivity_squared / (2 * event.variance))
    assert 0.002 * PICO * (1 - 1e-5) < each <= 0.002 * PICO
    assert session.ledger.balance(USER, "people").spent_rho == count * each
    spent = release.left.spent
    assert spent.rho == count * each / PICO
    assert spent.epsilon == pytest.approx(closed_form(spent.rho, 1e-6), rel=1e-9)
    assert spent.epsilon <= spent.rho + 2 * math.sqrt(spent.rho * math.log(1e6))


def test_equal_expressions_share_one_release(session):
    """T03: a hundred times COUNT(*) is one count, at its price and with its noise, once."""
    names = ", ".join(f"COUNT(*) AS c{i}" for i in range(100))
    plan = session.explain(f"SELECT {names} FROM people", rho=0.01)
    assert plan.queries == 1
    ((*counts,),) = session.answer(f"SELECT {names} FROM people", rho=0.01).rows
    assert len(counts) == 100 and len(set(counts)) == 1
    session.answer("SELECT COUNT(*) FROM people", rho=0.01)
    many, one = charges(session.ledger)
    assert many[4] == one[4]


def test_one_count_in_several_spellings_is_measured_once(session):
    """T03: what is equal on every row is one query, whatever it is called."""
    spellings = "COUNT(*), COUNT(1), COUNT(race), SUM(1)"
    assert session.explain(f"SELECT {spellings} FROM people", rho=0.01).queries == 1
    ((*counts,),) = session.answer(f"SELECT {spellings} FROM people", rho=0.01).rows
    assert len(set(counts)) == 1


def test_a_hundred_aggregates_are_charged_jointly(session):
    """T03, A32: once, by the most of them that one row can meet (age 90 is in 72 of these)."""
    names = ", ".join(f"COUNT(*) FILTER (WHERE age > {i})" for i in range(18, 90))
    others = ", ".join(f"COUNT(*) FILTER (WHERE hours = {i})" for i in range(28))
    session.answer(f"SELECT {names}, {others} FROM people", rho=0.01, backend="gaussian")
    ((_, _, _, _, event, price, *_),) = charges(session.ledger)
    assert event["sensitivity_squared"] == 72 + 1
    assert price.rho == math.ceil(PICO * 73 / (2 * from_dict(event).variance))


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_a_set_of_questions_costs_the_same_in_any_order(backend, session):
    """T63: as columns of one statement, and as statements of their own."""
    parts = ["COUNT(*)", "AVG(rich)", "SUM(hours)", "COUNT(*) FILTER (WHERE age > 40)"]
    orders = [parts, parts[::-1], [parts[i] for i in (2, 0, 3, 1)]]
    together = [f"SELECT {', '.join(order)} FROM people" for order in orders]
    assert len({spent_by(session, sql, rho=0.01, backend=backend) for sql in together}) == 1
    errors = [
        dict(zip(order, session.answer(sql, rho=0.01, backend=backend).stderr[0], strict=True))
        for order, sql in zip(orders, together, strict=True)
    ]
    for part in (parts[0], parts[2], parts[3]):
        assert len({found[part] for found in errors}) == 1
    apart = [[f"SELECT {part} FROM people" for part in order] for order in orders]
    assert len({spent_by(session, *asked, rho=0.01, backend=backend) for asked in apart}) == 1


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
@pytest.mark.parametrize("unit", ["rho", "epsilon"])
def test_less_noise_costs_more(backend, unit, session):
    """B32, T63: the error falls and the charge rises with what is offered, and never beyond it."""
    sql = "SELECT COUNT(*), SUM(hours) FROM people"
    before = (0.0, math.inf)
    for offered in (1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0):
        release = session.answer(sql, backend=backend, **{unit: offered})
        cost, error = getattr(release.charged, unit), release.stderr[0][0]
        assert cost <= offered * (1 + 1e-12)
        assert cost > before[0] and error < before[1]
        before = (cost, error)


def test_the_same_count_has_the_same_noise_however_it_is_written(session):
    """T05: COUNT(*), COUNT(1), a sum of ones, and every group of a histogram."""
    texts = [
        "SELECT COUNT(*) FROM people",
        "SELECT COUNT(1) FROM people",
        "SELECT SUM(1) FROM people",
        "SELECT SUM(CASE WHEN rich THEN 1 ELSE 0 END) FROM people",
        "SELECT COUNT_IF(rich) FROM people",
        "SELECT race, COUNT(*) FROM people GROUP BY race",
        "SELECT age, race, COUNT(*) FROM people GROUP BY age, race",
    ]
    found = [session.answer(sql, rho=0.01) for sql in texts]
    assert len({row[-1] for release in found for row in release.stderr}) == 1
    assert len({str(charge[4]) for charge in charges(session.ledger)}) == 1


def test_parts_of_a_whole_are_all_charged(session):
    """A22: a count and its complement are about different people, the total about all again."""
    asked = ["SELECT COUNT(*) FROM people WHERE rich", "SELECT COUNT(*) FROM people WHERE NOT rich",
             "SELECT COUNT(*) FROM people"]  # fmt: skip
    one = spent_by(session, asked[0], rho=0.01)
    assert spent_by(session, *asked, rho=0.01) == 2 * one


AGES = "SELECT age, COUNT(*) FROM people GROUP BY age"


def test_replacing_a_row_moves_a_histogram_in_two_places(tmp_path):
    """T43: at one price the variance of a histogram is exactly twice, that of a count the same."""
    paid = {}
    for neighbours in ("add-remove", "replace-one"):
        path = table(tmp_path / neighbours, rows(24), neighbours=neighbours)
        with Session(path, user=USER, ledger=purse()) as session:
            for sql in ("SELECT COUNT(*) FROM people", AGES):
                session.answer(sql, rho=0.5)
            paid[neighbours] = [from_dict(charge[4]) for charge in charges(session.ledger)]
    (count, histogram), (count_2, histogram_2) = paid.values()
    assert count == count_2
    assert histogram_2.variance == 2 * histogram.variance
    assert histogram_2.sensitivity_squared == 2 * histogram.sensitivity_squared


def test_a_refusal_costs_nothing_whatever_else_was_asked(session):
    sql = "SELECT MIN(age) FROM people"
    session.answer(SHAPES[0], rho=0.01)
    dump = session.ledger.dump()
    with pytest.raises(Refused) as caught:
        session.answer(sql, rho=0.01)
    assert "nothing was charged" in str(caught.value)
    assert session.last_charge is None and session.ledger.dump() == dump
