"""Whole releases: withheld ratios and their reasons, winners, clamping, coverage end to end."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace, from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.intervals.law import coverage, stddev
from dpsql.mechanisms.intervals.quantile import half_width, simultaneous
from tests.privacy.house import people, rows

TABLE = rows(400, seed=60)
INSIDE = [r for r in TABLE if r[1] in "FM" and 0 <= r[2] <= 9]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with people(tmp_path_factory.mktemp("build"), TABLE) as found:
        yield found


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """A table of which every row is alike."""
    folder = tmp_path_factory.mktemp("single")
    with people(folder, [(1, "F", 3, 0.0, True)] * 30) as found:
        yield found


def event_of(session, release):
    """The event that the ledger holds of the last release."""
    [*_, entry] = session.ledger.log(user="alice", dataset="people")
    assert release.charged is not None
    return from_dict(entry.event)


# -- ratios --------------------------------------------------------------------------------------


def test_an_average_over_nearly_nobody_is_null_with_its_reason(session):
    """T17, B37, A11: NULL, the whole range as interval, a note; never a wild number."""
    few = "sex = 'F' AND age = 9 AND hours = 4"
    sql = f"SELECT AVG(smoker::INT) AS p, COUNT(*) AS n FROM people WHERE {few}"
    for _ in range(20):
        release = session.answer(sql, rho=1e-5)
        [(share, count)] = release.rows
        assert isinstance(count, int)
        if share is not None:
            assert 0 <= share <= 1  # once in 40 by chance: then it has an interval that says so
            continue
        assert release.stderr[0][0] is None
        assert (release.low[0][0], release.high[0][0]) == (0.0, 1.0)
        assert any("NULL" in note and "denominator" in note for note in release.notes)


def test_shares_of_few_are_null_whoever_writes_the_quotient(session):
    """The same rule for a/b in the analyst's words, and for quotients of quotients."""
    written = [
        "COUNT(smoker) / COUNT(*)",
        "100.0 * COUNT(smoker) / COUNT(*)",
        "SUM(age) / COUNT(*)",
        "(COUNT(smoker) / COUNT(*)) / (COUNT(*) FILTER (WHERE age > 3) / COUNT(*))",
        "ROUND(COUNT(smoker) / COUNT(*), 2)",
        "COUNT(smoker) / NULLIF(COUNT(*), 0)",
    ]
    nulls = 0
    for expression in written:
        sql = f"SELECT {expression} AS x FROM people WHERE age = 9 AND hours = 4 AND sex = 'F'"
        for clamp in (False, True):
            release = session.answer(sql, rho=1e-5, clamp=clamp)
            nulls += release.rows[0][0] is None
            if release.rows[0][0] is None:
                assert release.stderr[0][0] is None and release.notes
            full = session.answer(f"SELECT {expression} AS x FROM people", rho=100.0, clamp=clamp)
            assert full.rows[0][0] is not None and not any("NULL" in n for n in full.notes)
            assert full.low[0][0] <= full.rows[0][0] <= full.high[0][0]
    assert nulls >= 7  # of 12, each NULL with chance 0.97 at least: false alarm 1e-6


def test_coalesce_shows_its_number_instead(session):
    sql = "SELECT COALESCE(AVG(age), -1) AS x FROM people WHERE age = 9 AND hours = 4 AND sex = 'F'"
    seen = {session.answer(sql, rho=1e-6).rows[0][0] for _ in range(10)}
    assert -1.0 in seen and None not in seen


def test_averages_on_filtered_subsets_are_not_biased(session):
    """B27: mean of 300 answers at noise of about 1 %, within 6 standard errors of the truth."""
    for where, keep in [
        ("age < 1", lambda r: r[2] < 1),
        ("age >= 3", lambda r: r[2] >= 3),
        ("sex = 'F'", lambda r: r[1] == "F"),
    ]:
        kept = [r for r in INSIDE if keep(r) and r[4] is not None]
        truth = np.mean([r[4] for r in kept])
        found = []
        for _ in range(300):
            release = session.answer(f"SELECT AVG(smoker::INT) FROM people WHERE {where}", rho=1.0)
            found.append(release.rows[0][0])
        doubt = 6 * np.std(found) / math.sqrt(len(found))
        assert abs(np.mean(found) - truth) <= doubt < 0.01


# -- what is picked by noise ---------------------------------------------------------------------


def test_winners_have_intervals_that_hold_for_all_candidates(session):
    """A33: LIMIT, OFFSET and HAVING run on noisy values; intervals pay for the choice."""
    for tail in ("ORDER BY n DESC LIMIT 2", "ORDER BY n LIMIT 3 OFFSET 1", "HAVING n > 20"):
        release = session.answer(
            f"SELECT age, COUNT(*) AS n FROM people GROUP BY age {tail}", rho=0.05
        )
        law = event_of(session, release)
        widened = half_width(law, simultaneous(0.95, 10))
        assert widened > half_width(law, 0.95)
        for row, low, high in zip(release.rows, release.low, release.high, strict=True):
            assert (low[1], high[1]) == (row[1] - widened, row[1] + widened)
        assert any("picked" in note and "10" in note for note in release.notes)
    plain = session.answer(
        "SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY n", rho=0.05
    )
    half = half_width(event_of(session, plain), 0.95)
    assert all(h[1] - v[1] == half for v, h in zip(plain.rows, plain.high, strict=True))
    assert plain.notes == ()


def test_a_threshold_is_compared_with_the_noisy_value(session):
    """T45: >= at exactly the threshold keeps the row, > drops it."""
    truth = sum(r[1] == "F" for r in INSIDE)
    for op, kept in ((">=", 1), (">", 0), ("=", 1), ("<>", 0)):
        sql = f"SELECT COUNT(*) AS n FROM people WHERE sex = 'F' HAVING COUNT(*) {op} {truth}"
        release = session.answer(sql, rho=5000.0)
        assert len(release.rows) == kept == len(release.low)
        assert release.noisy == (True,)


def test_intervals_of_unions_belong_to_their_rows(session):
    sql = ("SELECT 'all' AS what, COUNT(*) AS n FROM people UNION ALL "
           "SELECT sex, SUM(age) FROM people GROUP BY sex ORDER BY what")  # fmt: skip
    release = session.answer(sql, rho=0.5)
    for row, stderr, low, high in zip(
        release.rows, release.stderr, release.low, release.high, strict=True
    ):
        assert stderr[0] is low[0] is high[0] is None
        assert low[1] <= row[1] <= high[1] and stderr[1] > 0
    spreads = {row[0]: stderr[1] for row, stderr in zip(release.rows, release.stderr, strict=True)}
    assert spreads["F"] == pytest.approx(spreads["M"], rel=1e-9) != spreads["all"]


# -- counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_intervals_cover_as_often_as_the_atoms_say(sigma, backend, session):
    """B10: 1,000 releases of 20 counts; the share is within 6 stddevs of the exact coverage."""
    sql = "SELECT age, sex, COUNT(*) AS n FROM people GROUP BY age, sex"
    rho = 1 / (2 * sigma**2)
    truth = {(a, s): sum(r[2] == a and r[1] == s for r in INSIDE)
             for a in range(10) for s in "FM"}  # fmt: skip
    held = total = 0
    for _ in range(250):
        release = session.answer(sql, rho=rho, backend=backend)
        for row, low, high in zip(release.rows, release.low, release.high, strict=True):
            held += low[2] <= truth[row[0], row[1]] <= high[2]
            total += 1
    law = event_of(session, release)
    exact = coverage(law, half_width(law, 0.95))
    assert total == 5_000 and exact >= 0.95
    assert abs(held - total * exact) <= 6 * math.sqrt(total * exact * (1 - exact)) + 6
    assert release.stderr[0][2] == pytest.approx(stddev(law))


def test_a_single_value_is_noised_like_any_other(single):
    """B11: the count of all rows by another name, sums that are 0 whatever the rows, nobody."""
    for sql in (
        "SELECT COUNT(*) FROM people WHERE hours = 0",
        "SELECT SUM(hours) FROM people WHERE hours = 0",
        "SELECT COUNT(*) FROM people WHERE sex = 'F' AND sex = 'M'",
    ):
        seen = set()
        for _ in range(12):
            release = single.answer(sql, rho=0.005)
            seen.add(release.rows[0][0])
            assert release.stderr[0][0] == pytest.approx(10.0, rel=1e-3)
            assert math.isfinite(release.low[0][0]) and math.isfinite(release.high[0][0])
            assert release.low[0][0] < release.high[0][0]
        assert len(seen) > 3
    [(mean,)] = single.answer("SELECT AVG(hours) FROM people WHERE hours = 0", rho=1.0).rows
    assert mean == 0.0


def test_clamping_says_that_it_biases(session):
    sql = "SELECT age, COUNT(*) AS n FROM people WHERE hours = 4 AND sex = 'M' GROUP BY age"
    for _ in range(10):
        release = session.answer(sql, rho=1e-4, clamp=True)
        assert all(row[1] >= 0 for row in release.rows)
        assert all(low[1] >= 0 for low in release.low)
        assert any("bias" in note for note in release.notes)
        for row, low, high in zip(release.rows, release.low, release.high, strict=True):
            assert low[1] <= row[1] <= high[1]


def test_intervals_do_not_depend_on_the_unit_or_the_relation(tmp_path):
    """T43, A34: more noise, wider intervals, the same meaning."""
    spreads = {}
    for name, declared in {
        "row": {},
        "unit": {"unit": '{column = "pid", max_rows = 3}'},
        "replace": {"neighbours": "replace-one"},
    }.items():
        with people(tmp_path, TABLE, **declared) as found:
            release = found.answer("SELECT sex, COUNT(*) FROM people GROUP BY sex", rho=0.01)
            law = event_of(found, release)
            assert isinstance(law, Gaussian)
            spreads[name] = law.variance
            assert release.stderr[0][1] == pytest.approx(math.sqrt(law.variance))
    assert spreads["unit"] == pytest.approx(9 * spreads["row"], rel=1e-6)
    assert spreads["replace"] == pytest.approx(2 * spreads["row"], rel=1e-6)


# -- prices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [
    {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": math.inf},
    {"rho": 0.0}, {"rho": -1e-9}, {"rho": math.nan}, {"rho": math.inf}, {"rho": 1e-400},
    {"epsilon": 0.1, "rho": 0.1}, {"confidence": 1.0}, {"confidence": 0.0},
    {"confidence": math.nan}, {"epsilon": "much"}, {"epsilon": True},
])  # fmt: skip
def test_what_is_no_price_is_refused_and_nothing_is_charged(price, session):
    """A31: no noise-free answer for an infinite, no crash for a negative or NaN price."""
    before = session.ledger.balance("alice", "people").spent_rho
    with pytest.raises(Exception, match=r"epsilon|rho|confidence|price"):
        session.answer("SELECT COUNT(*) FROM people", **price)
    assert session.ledger.balance("alice", "people").spent_rho == before


@pytest.mark.parametrize("rho", [1e-12, 1e-9, 1e-3, 1000.0, 100_000.0])
def test_prices_from_tiny_to_huge_are_answered(rho, session):
    for backend in ("gaussian", "laplace"):
        release = session.answer("SELECT COUNT(*) AS n FROM people", rho=rho, backend=backend)
        truth = len(INSIDE)
        assert release.price.rho <= rho and release.charged.rho <= rho
        assert abs(release.rows[0][0] - truth) <= 60 / math.sqrt(2 * rho) + 1e-9
        if rho >= 1000:
            assert release.rows[0][0] == truth == release.low[0][0] == release.high[0][0]


def test_repeating_and_averaging_buys_what_it_pays_for(session):
    """A21: n charged answers, averaged, are as wide as one at n times the price."""
    count, rho = 400, 0.001
    before = session.ledger.balance("alice", "people").spent_rho
    found = [
        session.answer("SELECT COUNT(*) FROM people", rho=rho).rows[0][0] for _ in range(count)
    ]
    spent = session.ledger.balance("alice", "people").spent_rho - before
    assert spent == pytest.approx(count * rho * 1e12, rel=1e-6)
    joint = math.sqrt(1 / (2 * count * rho))
    assert abs(np.mean(found) - len(INSIDE)) <= 6 * joint
    share = np.var(found) / (1 / (2 * rho))
    assert abs(share - 1) <= 6 * math.sqrt(2 / count)


def test_a_pure_grant_composes_by_addition(tmp_path):
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="people", epsilon=1.0, delta=0.0)
    with people(tmp_path, TABLE, ledger=ledger) as found:
        first = found.answer("SELECT COUNT(*) FROM people", epsilon=0.25)
        assert first.backend == "laplace" and first.price.delta == 0
        assert first.price.epsilon == first.charged.epsilon == pytest.approx(0.25)
        second = found.answer("SELECT sex, COUNT(*) FROM people GROUP BY sex")
        assert second.price.epsilon == pytest.approx(0.01)
        assert second.left.left.epsilon == pytest.approx(0.74)
        law = event_of(found, second)
        assert isinstance(law, Laplace) and law.scale == Fraction(100)


def test_what_is_shown_lies_in_its_interval(session):
    """Also where a strategy's estimates are known more closely than they are shown."""
    sql = "SELECT sex, SUM(age) / COUNT(*) AS a, COUNT(*) AS n, COUNT_IF(age > 4) AS o FROM people"
    for _ in range(40):
        release = session.answer(f"{sql} GROUP BY ROLLUP (sex)", rho=100.0, backend="factorization")
        assert release.backend == "factorization"
        for row, low, high in zip(release.rows, release.low, release.high, strict=True):
            for at in (1, 2, 3):
                assert low[at] <= row[at] <= high[at]


def test_a_variance_that_noise_made_negative_has_a_note(session):
    few = "SELECT STDDEV_POP(age) AS s FROM people WHERE age = 3"
    found = [session.answer(few, rho=0.05) for _ in range(60)]
    noted = [any("negative" in note for note in release.notes) for release in found]
    assert noted == [release.rows[0][0] == 0 for release in found]
    assert any(noted)  # each with chance 1/3 at least: false alarm below 1e-10
