"""Answers that follow from earlier releases are free, exact to the last digit, and never bought."""

from __future__ import annotations

import itertools
import math
import sqlite3
import threading

import duckdb
import pytest

from dpsql.accounting.kept.releases import Releases
from dpsql.accounting.ledger import Ledger
from dpsql.errors import LedgerError, UsageError
from tests.rows import fill

CUBE = "SELECT sex, region, age, COUNT(*) AS n FROM town GROUP BY CUBE (sex, region, age)"
KEYS = ("sex", "region", "age")
VALUES = {"sex": ["female", "male"], "region": list("NESW"), "age": list(range(10))}


@pytest.fixture
def session(town, crowd):
    with town.open(town.database("a", crowd(1500, 1))) as found:
        yield found


def spent(session, user="alice"):
    return session.ledger.balance(user, "town").spent_rho


def ask(session, sql, **given):
    return session.answer(sql, reuse=True, **given)


def free(session, sql, **given):
    """The answer to a statement that costs nothing, as EXPLAIN says before."""
    before = spent(session)
    plan = session.explain(sql, reuse=True, **given)
    found = ask(session, sql, **given)
    assert (plan.backend, found.backend, found.reused) == ("reuse", "reuse", True)
    assert plan.price == found.price and found.price.rho == found.charged.rho == 0.0
    assert session.last_charge is None and spent(session) == before
    for expected, error in zip(plan.stderr, found.stderr, strict=True):
        for foreseen, seen in zip(expected, error, strict=True):
            assert foreseen is None or foreseen == pytest.approx(seen)
    return found


def literal(value):
    return f"'{value}'" if isinstance(value, str) else str(value)


# -- a cube and all that is coarser --------------------------------------------------------------


def test_what_is_coarser_than_a_cube_is_free_and_agrees_to_the_last_digit(session):
    """DuckDB adds up the finest groups that were shown; every other answer is that sum."""
    release = ask(session, CUBE, rho=0.05)
    assert not release.reused and release.backend == "factorization"
    with duckdb.connect() as judge:
        judge.execute("CREATE TABLE shown (sex TEXT, region TEXT, age INT, n BIGINT)")
        fill(judge, "shown", release.rows)
        judge.execute(
            "CREATE TABLE town AS SELECT * FROM shown WHERE COLUMNS(* EXCLUDE n) IS NOT NULL"
        )
        judge.execute("ALTER TABLE town RENAME n TO rows_")
        assert judge.execute("SELECT COUNT(*) FROM town").fetchone() == (80,)

        def summed(sql):
            return judge.execute(sql.replace("COUNT(*)", "SUM(rows_)::BIGINT")).fetchall()

        def agree(sql):
            found = free(session, sql, rho=1e-4)
            assert sorted(found.rows, key=str) == sorted(summed(sql), key=str)
            for row, low, high in zip(found.rows, found.low, found.high, strict=True):
                assert low[-1] <= row[-1] <= high[-1]

        assert sorted(release.rows, key=str) == sorted(summed(CUBE), key=str)
        for size in range(1, 4):
            for keys in itertools.combinations(KEYS, size):
                listed = ", ".join(keys)
                agree(f"SELECT {listed}, COUNT(*) AS n FROM town GROUP BY {listed}")
        agree("SELECT COUNT(*) AS n FROM town")
        for keys in itertools.chain(*(itertools.combinations(KEYS, k) for k in (1, 2, 3))):
            for values in itertools.product(*(VALUES[key] for key in keys)):
                where = " AND ".join(
                    f"{k} = {literal(v)}" for k, v in zip(keys, values, strict=True)
                )
                agree(f"SELECT COUNT(*) AS n FROM town WHERE {where}")
        for where in ("age BETWEEN 3 AND 7", "sex = 'male' OR age > 8", "NOT region IN ('N', 'E')"):
            agree(f"SELECT COUNT(*) AS n FROM town WHERE {where}")
            agree(f"SELECT sex, COUNT(*) AS n FROM town WHERE {where} GROUP BY sex")
        agree("SELECT age // 5 AS half, COUNT(*) AS n FROM town GROUP BY ALL")
        agree("SELECT sex, region, COUNT(*) AS n FROM town GROUP BY ROLLUP (sex, region)")


def test_a_cube_answers_better_than_its_own_rows_alone(session):
    """Every marginal of a cube is measured itself and adds up from finer ones."""
    plan = session.explain(CUBE, rho=0.05, reuse=True)
    alone = math.sqrt(8 / (2 * 0.05))  # eight marginals share the price
    errors = [line[-1] for line in plan.stderr]
    assert max(errors) < alone and min(errors) < 0.9 * alone
    found = ask(session, CUBE, rho=0.05)
    assert [line[-1] for line in found.stderr] == pytest.approx(errors, rel=1e-3)


def test_no_statement_is_bought_twice(session):
    """200 statements asked twice cost once, and say the same the second time, or say it better."""
    report = [
        f"SELECT COUNT(*) AS n FROM town WHERE {a} = {literal(v)} AND month {op} {m}"
        for a in KEYS
        for v in VALUES[a]
        for op in ("=", "<", ">")
        for m in range(2, 8)
    ][:200]
    assert len(set(report)) == 200
    first = [ask(session, sql, rho=1e-4) for sql in report]
    before = spent(session)
    again = [free(session, sql, rho=1e-4) for sql in report[::4]]
    again += [ask(session, sql, rho=1e-4) for sql in report]
    assert spent(session) == before
    for one, other in zip([*first[::4], *first], again, strict=True):
        assert other.stderr[0][0] <= math.hypot(one.stderr[0][0], 0.5)  # what is fitted is rounded


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("COUNT(*) FROM town WHERE age > 4", "COUNT_IF(NOT age <= 4) FROM town"),
        ("COUNT(*) FROM town WHERE age IN (1, 2)", "SUM((age = 1 OR age + 1 = 3)::INT) FROM town"),
        ("COUNT(smoker) FROM town", "COUNT(*) FROM town WHERE smoker IS NOT NULL"),
        ("AVG(age) FROM town WHERE sex = 'male'", "AVG(age) FROM town WHERE sex <> 'female'"),
        ("SUM(age) FROM town WHERE region = 'N'", "SUM(age) FROM town WHERE NOT region > 'N'"
                                                 " AND region LIKE 'N%'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_other_words_for_the_same_question_get_the_same_answer(asked, same, backend, session):
    if backend == "laplace" and "region" in asked:
        same = "SUM(age) FROM town WHERE region IN ('N')"
    first = ask(session, f"SELECT {asked}", rho=0.01, backend=backend)
    again = free(session, f"SELECT {same}", rho=0.01, backend=backend)
    assert (again.rows, again.low, again.high) == (first.rows, first.low, first.high)


# -- what is missing -----------------------------------------------------------------------------


def test_only_the_missing_accuracy_is_bought(session):
    sql = "SELECT month, COUNT(*) AS n FROM town GROUP BY month"
    ask(session, sql, rho=0.01)
    plan = session.explain(sql, rho=0.03, reuse=True)
    found = ask(session, sql, rho=0.03)
    assert plan.backend == found.backend == "gaussian + reuse" and found.reused
    assert (plan.price, plan.charged) == (found.price, found.charged)
    assert found.charged.rho == pytest.approx(0.02, rel=1e-4)
    least = math.sqrt(1 / 0.06)
    assert least * (1 - 1e-4) <= found.stderr[0][1] <= math.hypot(least, 0.5)  # whole numbers
    assert spent(session) == pytest.approx(3e10, rel=1e-4)
    free(session, sql, rho=0.03)


def test_complements_and_parts_of_totals_are_free(session):
    ask(session, "SELECT COUNT(*) AS n FROM town", rho=0.01)
    women = ask(session, "SELECT COUNT(*) AS n FROM town WHERE sex = 'female'", rho=0.01)
    total = free(session, "SELECT COUNT(*) AS n FROM town", rho=0.01)
    men = free(session, "SELECT COUNT(*) AS n FROM town WHERE sex = 'male'", rho=0.004)
    assert men.rows[0][0] + women.rows[0][0] == total.rows[0][0]
    assert men.stderr[0][0] == pytest.approx(math.sqrt(2) * women.stderr[0][0], rel=1e-6)


def test_reuse_off_buys_afresh(session):
    sql = "SELECT COUNT(*) AS n FROM town"
    first = ask(session, sql, rho=0.01)
    other = session.answer(sql, rho=0.01, reuse=False)
    assert not other.reused and other.charged.rho == first.charged.rho
    assert free(session, sql, rho=0.01).rows == first.rows  # the other one was not kept


# -- whose, and of which state -------------------------------------------------------------------


def test_another_user_pays_for_the_same_question(session, town):
    sql = "SELECT COUNT(*) AS n FROM town"
    ask(session, sql, rho=0.01)
    town.ledger.grant("bob", dataset="town", epsilon=100)
    with town.open(session.database, user="bob") as other:
        plan = other.explain(sql, rho=0.01, reuse=True)
        assert plan.backend == "reuse"
        assert ask(other, sql, rho=0.01).charged.rho == pytest.approx(0.01)


@pytest.mark.parametrize("head", ['unit = "row"', 'unit = "row"\nappend_only = true'])
def test_an_answer_about_an_older_state_is_none_about_this_one(town, crowd, head):
    sql = "SELECT COUNT(*) AS n FROM town"
    rows = crowd(50, 1)
    with town.open(town.database("a", rows, head)) as first:
        ask(first, sql, rho=0.01)
    with town.open(town.database("a", [*rows, *crowd(900, 2)], head)) as second:
        found = ask(second, sql, rho=0.01)
        assert not found.reused and found.backend == "gaussian"
        assert found.rows[0][0] > 700


def test_free_answers_read_no_row_and_draw_no_noise(session, monkeypatch):
    from dpsql.curator import noise
    from dpsql.curator.curator import Curator

    ask(session, CUBE, rho=0.05)

    def never(*given, **named):
        raise AssertionError("private data were touched")

    for owner, name in ((Curator, "measure"), (noise, "gaussian"), (noise, "laplace")):
        monkeypatch.setattr(owner, name, never)
    free(session, "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex", rho=1e-3)


# -- kept ----------------------------------------------------------------------------------------


def test_releases_outlive_the_process_that_bought_them(town, crowd, tmp_path):
    path = town.database("a", crowd(500, 1))
    with Ledger.open(tmp_path / "l.ledger") as ledger:
        ledger.grant("alice", dataset="town", epsilon=10)
        with town.open(path, ledger=ledger) as session:
            first = ask(session, CUBE, rho=0.01)
    with Ledger.open(tmp_path / "l.ledger") as ledger, town.open(path, ledger=ledger) as session:
        assert free(session, CUBE, rho=0.01).rows == first.rows


def test_releases_in_postgres_are_used_again(town, crowd, address):
    path = town.database("a", crowd(500, 1))
    with Ledger.open(address) as ledger:
        ledger.grant("alice", dataset="town", epsilon=10)
        with town.open(path, ledger=ledger) as session:
            first = ask(session, CUBE, rho=0.01)
    with Ledger.open(address) as ledger, town.open(path, ledger=ledger) as session:
        assert free(session, CUBE, rho=0.01).rows == first.rows


def test_a_release_that_cannot_be_kept_is_given_all_the_same(session, monkeypatch):
    def full(*given):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(Releases, "keep", full)
    found = ask(session, "SELECT COUNT(*) AS n FROM town", rho=0.01)
    assert found.rows and any("could not keep" in note for note in found.notes)


def test_a_damaged_release_is_bought_again(town, crowd, tmp_path):
    path, sql = town.database("a", crowd(500, 1)), "SELECT COUNT(*) AS n FROM town"
    with Ledger.open(tmp_path / "l.ledger") as ledger:
        ledger.grant("alice", dataset="town", epsilon=10)
        with town.open(path, ledger=ledger) as session:
            ask(session, sql, rho=0.01)
    with sqlite3.connect(tmp_path / "l.ledger") as file:
        file.execute("UPDATE release SET stored = x'00ff'")
    with Ledger.open(tmp_path / "l.ledger") as ledger, town.open(path, ledger=ledger) as session:
        assert ask(session, sql, rho=0.01).charged.rho == pytest.approx(0.01)


def test_threads_share_what_was_bought(session):
    sql = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    ask(session, sql, rho=0.01)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(session, sql, rho=0.01).rows))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


# -- by accuracy ---------------------------------------------------------------------------------


def half(release):
    return max(
        (h - l) / 2
        for low, high in zip(release.low, release.high, strict=True)
        for l, h in zip(low, high, strict=True)  # noqa: E741
        if l is not None
    )


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_the_price_of_an_accuracy_is_monotone_and_as_quoted(backend, session):
    sql = "SELECT age, COUNT(*) AS n FROM town GROUP BY age"
    prices = []
    for rows in (80, 50, 49.5, 30, 12, 11, 3):
        plan = session.explain(sql, accuracy=rows, backend=backend, reuse=False)
        found = session.answer(sql, accuracy=rows, backend=backend, reuse=False)
        assert (plan.price, plan.charged) == (found.price, found.charged)
        assert rows - 1 < half(found) <= rows
        prices.append(found.price.rho)
    assert prices == sorted(prices)


def test_an_accuracy_with_earlier_releases_costs_the_difference(session):
    sql = "SELECT age, COUNT(*) AS n FROM town GROUP BY age"
    ask(session, sql, accuracy=40)
    free(session, sql, accuracy=40)
    free(session, "SELECT COUNT(*) AS n FROM town WHERE age = 3", accuracy=43)
    whole = session.explain(sql, accuracy=20, reuse=False).price.rho
    plan = session.explain(sql, accuracy=20, reuse=True)
    found = ask(session, sql, accuracy=20)
    assert (plan.price, plan.charged) == (found.price, found.charged)
    assert half(found) <= 20.5 and found.charged.rho < 0.92 * whole
    free(session, sql, accuracy=20.01)
    for keys in ("age, sex", "age"):
        cube = f"SELECT {keys}, COUNT(*) AS n FROM town GROUP BY CUBE ({keys})"
        prices = [session.explain(cube, accuracy=a, reuse=True).price.rho for a in (9, 11, 14, 15)]
        assert prices == sorted(prices, reverse=True)


def test_a_percentage_is_of_what_was_released(session):
    sql = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    with pytest.raises(UsageError, match="no earlier release tells the counts"):
        ask(session, sql, accuracy="2%")
    first = ask(session, sql, accuracy=100)
    found = ask(session, sql, accuracy="2%")
    least = min(row[1] for row in first.rows)
    assert half(found) <= 0.02 * least + 0.5
    with pytest.raises(UsageError, match="depends on the answer"):
        ask(session, "SELECT AVG(age) FROM town", accuracy=1)
    with pytest.raises(UsageError, match="each decide what a statement costs"):
        ask(session, sql, accuracy=1, rho=1)


# -- intervals -----------------------------------------------------------------------------------


def test_intervals_of_combined_answers_cover(town, crowd):
    """80 answers from three releases each; a true 95 % is below 63 of them once in 1e7.

    Two a trial, about other people, whose noises are independent. Exact laws of such sums are in
    the tests of `directions`.
    """
    rows = crowd(300, 7)
    path = town.database("a", rows)
    asked = {
        "sex = 'female' AND age > 4": sum(r[0] == "female" and r[2] > 4 for r in rows),
        "sex = 'male' AND age <= 4": sum(r[0] == "male" and r[2] <= 4 for r in rows),
    }
    hit = 0
    for _ in range(40):
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="town", epsilon=1000)
        with town.open(path, ledger=ledger) as session:
            ask(session, "SELECT sex, age, COUNT(*) AS n FROM town GROUP BY ALL", rho=0.02)
            ask(session, "SELECT age > 4 AS old, COUNT(*) AS n FROM town GROUP BY ALL", rho=0.05)
            for where, truth in asked.items():
                found = ask(session, f"SELECT COUNT(*) AS n FROM town WHERE {where}", rho=0.01)
                hit += found.low[0][0] <= truth <= found.high[0][0]
    assert hit >= 63


@pytest.mark.parametrize("reuse", [False, True])
def test_groups_in_another_order_are_not_mistaken_for_each_other(session, reuse):
    """Their queries are the same, but not in the same order: a plan is for one order alone."""
    names = {"N": "z", "E": "c", "S": "a", "W": "b"}
    label = "CASE region " + " ".join(f"WHEN '{n}' THEN '{v}'" for n, v in names.items()) + " END"
    counts = "COUNT_IF(age < 2) AS a, COUNT_IF(age < 4) AS b, COUNT_IF(age < 6) AS c"
    given = {"rho": 2.0, "reuse": reuse, "backend": "factorization"}
    one = session.answer(f"SELECT region AS g, {counts} FROM town GROUP BY g", **given)
    other = session.answer(f"SELECT {label} AS g, {counts} FROM town GROUP BY g", **given)
    assert one.backend == "factorization"
    wanted = {names.get(row[0], row[0]): row[1:] for row in one.rows}
    assert len(wanted) == len(other.rows)
    for row in other.rows:
        assert all(abs(a - b) <= 9 for a, b in zip(row[1:], wanted[row[0]], strict=True))


@pytest.mark.parametrize("rho", [0.01, 0.1])
def test_explain_foretells_what_a_strategy_is_combined_with(session, rho):
    """Backend, error, price and charge of a statement that shares queries with earlier releases."""
    ask(session, "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex", rho=0.05)
    counts = "COUNT(*) AS n, COUNT_IF(sex = 'male') AS m, COUNT_IF(age > 5) AS old"
    sql = f"SELECT {counts}, COUNT_IF(age > 7) AS older FROM town"
    plan = session.explain(sql, rho=rho, reuse=True)
    found = ask(session, sql, rho=rho)
    assert plan.backend == found.backend == "factorization + reuse"
    assert (plan.price, plan.charged) == (found.price, found.charged)
    assert plan.stderr[0] == pytest.approx(found.stderr[0], rel=1e-3)


@pytest.mark.parametrize("turn", range(6))
def test_two_counts_say_the_same_when_they_are_asked_again(session, turn):
    """Beside a linked release, whose table of whole numbers would round elsewhere."""
    ask(session, "SELECT region, COUNT(*) AS n FROM town GROUP BY region", rho=0.001)
    sql = f"SELECT COUNT_IF(smoker) AS a, COUNT(*) AS b FROM town WHERE age > {turn}"
    first, second = ask(session, sql, rho=0.05), ask(session, sql, rho=0.05)
    assert second.rows == first.rows and second.charged.rho == 0
