"""Residual plans of statements: no bias, the noise that is claimed, and tables that agree."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.curator.mixed import reach
from dpsql.mechanisms.reuse import coarser
from dpsql.mechanisms.reuse.coarser import Coarser
from dpsql.mechanisms.strategies.axes import Identity
from dpsql.mechanisms.strategies.marginals import Marginals, marginals
from dpsql.mechanisms.strategies.residual import plan
from dpsql.mechanisms.strategies.tables import Rebuilt
from dpsql.query.grid import Grid
from dpsql.query.linear import Workload
from dpsql.schema import loads
from tests.curator.brute import ADD
from tests.curator.test_footprint import dataset
from tests.mechanisms.measured import CELLS, CODES, matrix, workload
from tests.query.exact import compiled

LAW = Gaussian(1, Fraction(1 << 32))
COUNTS = np.arange(CELLS) * 7 % 23
CUBE = "SELECT sex, region, age, COUNT(*) FROM town GROUP BY CUBE (sex, region, age)"
STATEMENTS = [
    CUBE,
    "SELECT region, age, COUNT(*) FROM town WHERE smoker GROUP BY ROLLUP (region, age)",
    "SELECT sex, region, age, AVG(smoker), COUNT(*) FROM town"
    " GROUP BY GROUPING SETS ((region, sex), (age), (age, sex))",
    "SELECT age // 2, region, SUM(age), COUNT(*) FROM town WHERE sex = 'm' AND age > 0"
    " GROUP BY CUBE (1, region)",
]


def planned(asked: Workload) -> Marginals:
    found = marginals(asked)
    assert found is not None
    return found


def drawn(made: Marginals, rng: np.random.Generator) -> np.ndarray:
    """The noisy values of the plan, on COUNTS."""
    bare = made.part.matvec(CODES, COUNTS)
    noise = rng.normal(0, math.sqrt(LAW.variance), bare.shape)
    return bare + np.rint(noise).astype(np.int64)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_without_noise_every_answer_is_right(sql):
    asked = workload(sql)
    made = planned(asked)
    (true,) = asked.matvec(CODES, COUNTS)
    answered = made.answered([made.part.matvec(CODES, COUNTS)], LAW)
    assert (answered.answers[0] == true).all()
    np.testing.assert_allclose(answered.noises[0].centre(None), true, atol=1e-6)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_noise_is_as_large_as_is_said(sql):
    """2,000 draws: each covariance within 20 % of the variances, a false alarm below 1e-9; the mean
    of all variances within 2 %, of which noise 5 % off would be none."""
    asked, rng = workload(sql), np.random.default_rng(11)
    made = planned(asked)
    (true,), (spread,) = asked.matvec(CODES, COUNTS), made.spreads(LAW)
    total = np.zeros(spread.covariance.shape)
    for _ in range(2000):
        off = made.answered([drawn(made, rng)], LAW).noises[0].centre(None) - true
        total += off[:, :, None] * off[:, None, :]
    size = np.sqrt(spread.variances[:, :, None] * spread.variances[:, None, :])
    assert (abs(total / 2000 - spread.covariance) < 0.2 * size).all()
    ratios = np.einsum("gii->gi", total) / 2000 / spread.variances
    assert abs(ratios.mean() - 1) < 0.02


SIZES = (74, 9, 16, 7, 15, 6, 5, 2)  # of columns of adult


def test_all_pairs_of_eight_columns_are_within_a_hundredth_of_the_closed_form():
    """On the integers that are measured, at their own price; and better than table by table."""
    names = "abcdefgh"
    columns = [
        f'{n} = {{type = "integer", min = 0, max = {s - 1}}}'
        for n, s in zip(names, SIZES, strict=True)
    ]
    schema = loads(
        "\n".join(
            ['dataset = "town"', 'unit = "row"', "[source]", 'table = "t"', "[columns]", *columns]
        )
    )
    pairs = list(itertools.combinations(range(8), 2))
    sets = ", ".join(f"({names[a]}, {names[b]})" for a, b in pairs)
    sql = f"SELECT {', '.join(names)}, COUNT(*) FROM town GROUP BY GROUPING SETS ({sets})"
    found = compiled(sql, schema, Grid(schema))
    made = planned(found.workload)
    squared = reach(made.strategy, schema).squared
    (spread,) = made.spreads(Gaussian(squared, Fraction(squared)))  # rho = 1/2
    ideal = plan([Identity(size) for size in SIZES], pairs)
    start, own = 0, []
    for (a, b), each in zip(pairs, ideal.average(0.5), strict=True):
        stop = start + SIZES[a] * SIZES[b]
        block = spread.variances[start:stop]
        assert block.min() == pytest.approx(block.max()) == pytest.approx(each, rel=0.03)
        assert block.max() < 28.0  # one by one
        own.append(block.mean())
        start = stop
    assert math.sqrt(np.mean(own)) == pytest.approx(
        math.sqrt(np.mean(ideal.average(0.5))), rel=0.001
    )
    assert math.sqrt(np.mean(own)) < 0.9 * math.sqrt(28)
    assert made.ratio == pytest.approx(math.sqrt(np.mean(own) / np.mean(ideal.average(0.5))))
    even = marginals(found.workload, largest=True)
    assert even is not None and even.ratio is not None and 1.0 <= even.ratio < 1.01
    squared = reach(even.strategy, schema).squared
    (other,) = even.spreads(Gaussian(squared, Fraction(squared)))
    assert other.worst() < 0.98 * spread.worst()


@pytest.mark.parametrize("sql", STATEMENTS[:2])
def test_counts_realise_the_closed_form(sql):
    """At their own price, within a thousandth of the optimum of all unbiased plans."""
    made = planned(workload(sql))
    squared = reach(made.strategy, dataset(ADD)).squared
    (spread,) = made.spreads(Gaussian(squared, Fraction(squared)))
    ideal = plan([Identity(n) for n in made.part.sizes], [keys for keys, _ in made.places])
    start, means = 0, []
    for _, at in made.places:
        means.append(spread.variances[start : start + len(at)].mean())
        start += len(at)
    assert np.mean(means) == pytest.approx(float(np.mean(ideal.average(0.5))), rel=1e-3)


def test_whole_tables_agree_and_are_near():
    """Margins are the other tables to the last digit, whatever the noise."""
    made = planned(workload(CUBE))
    rebuilt = Rebuilt(made._tabled(drawn(made, np.random.default_rng(3))))
    tables = {keys: rebuilt.whole(keys)[..., 0] for keys in made.part.sets}
    for keys, table in tables.items():
        for axis, key in enumerate(keys):
            rest = tuple(k for k in keys if k != key)
            assert (table.sum(axis=axis) == tables[rest]).all()
        off = table - rebuilt.cells(keys)[..., 0]
        assert abs(off).max() <= 2 ** len(keys) / 2
        if keys:
            np.testing.assert_allclose(rebuilt.cells(keys).sum(axis=0), rebuilt.cells(keys[1:]))


ASKED = [
    "SELECT COUNT(*) FROM town",
    "SELECT region, COUNT(*) FROM town GROUP BY region",
    "SELECT region, COUNT(*) FROM town WHERE sex = 'm' GROUP BY region",
    "SELECT age // 2, sex, COUNT(*) FROM town WHERE region <> 'n' GROUP BY ALL",
    "SELECT COUNT(*) FROM town WHERE sex = 'm' OR age > 2",
    "SELECT region, COUNT(*), COUNT_IF(age > 2), SUM(age) FROM town GROUP BY region",
    "SELECT sex, COUNT(*), COUNT_IF(region = 'n') FROM town WHERE age < 4 GROUP BY ROLLUP (sex)",
]


def judged(made: Marginals, asked: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the values mix, and the covariance of what is asked, by dense least squares."""
    rows = []
    for cell in range(CELLS):
        codes = {name: array[cell : cell + 1] for name, array in CODES.items()}
        rows.append(made.part.matvec(codes, np.ones(1, np.int64)).reshape(-1))
    seen = np.array(rows, np.float64).T
    inverse = np.linalg.pinv(seen.T @ seen, rcond=1e-12, hermitian=True)
    queries = matrix(asked)
    return queries @ inverse @ seen.T, queries @ inverse @ queries.T * float(LAW.variance)


@pytest.mark.parametrize("way", ["by products", "densely"])
@pytest.mark.parametrize("sql", ASKED)
def test_what_follows_is_what_least_squares_says(sql, way, monkeypatch):
    if way == "densely":
        monkeypatch.setattr(coarser._Kind, "_product", lambda *given: None)
    made, asked = planned(workload(CUBE)), workload(sql)
    values = drawn(made, np.random.default_rng(8))
    stored = made.stored([values], LAW, [])
    assert stored is not None
    found = Coarser(Stored.from_bytes(stored.to_bytes()))
    (spread,), (fitted,) = found.spreads(asked), found.answers(asked)
    undone, covariance = judged(made, asked)
    assert spread.known.all()
    width = spread.known.shape[1]
    for group in range(len(spread.known)):
        own = slice(group * width, (group + 1) * width)
        np.testing.assert_allclose(spread.covariance[group], covariance[own, own], rtol=1e-6)
    centre = (undone @ values.reshape(-1)).reshape(-1, width)
    np.testing.assert_allclose(fitted.centre, centre, rtol=1e-6, atol=1e-3)
    assert abs(fitted.shown - fitted.centre).max() <= 4 * 30  # eight corners of a table of SUM(age)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_is_kept_says_the_same(sql):
    asked = workload(sql)
    made = planned(asked)
    values = [drawn(made, np.random.default_rng(2))]
    first = made.answered(values, LAW)
    stored = made.stored(values, LAW, first.answers)
    assert stored is not None
    again = Coarser(Stored.from_bytes(stored.to_bytes()))
    (fitted,), (spread,) = again.answers(asked), made.spreads(LAW)
    assert (fitted.shown == first.answers[0]).all()
    np.testing.assert_allclose(fitted.centre, first.noises[0].centre(None))
    np.testing.assert_allclose(fitted.spread.covariance, spread.covariance, rtol=1e-9)
    assert fitted.spread.known.all() and fitted.spread.least == spread.least


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT smoker, COUNT(*) FROM town GROUP BY smoker",
        "SELECT COUNT(*) FROM town WHERE smoker OR sex = 'm'",
        "SELECT SUM(age * smoker::INT) FROM town",
        "SELECT sex, COUNT_IF(smoker) FROM town GROUP BY sex",
    ],
)
def test_what_does_not_follow_is_not_known(sql):
    made, asked = planned(workload(CUBE)), workload(sql)
    stored = made.unmeasured(LAW)
    assert stored is not None
    (spread,) = Coarser(stored).spreads(asked)
    assert not spread.known.any()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT age, COUNT(*) FROM town GROUP BY age",
        "SELECT age, age // 2, COUNT(*) FROM town GROUP BY GROUPING SETS ((1, 2), (1))",
        "SELECT age, sex, COUNT(*) FROM town WHERE age > 2 OR sex = 'm' GROUP BY CUBE (age, sex)",
        "SELECT COUNT(*) FROM town GROUP BY sex UNION ALL SELECT COUNT(*) FROM town WHERE smoker"
        " GROUP BY age",
    ],
)
def test_what_are_no_full_tables_has_no_residual_plan(sql):
    assert marginals(workload(sql)) is None
