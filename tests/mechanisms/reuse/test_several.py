"""What tables of rounds tell: of each query the best of them, by dense sums and by repetition."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.noises import Joint
from dpsql.mechanisms.reuse.several import Several, at_best
from dpsql.mechanisms.synopses.purchase import counted
from dpsql.query.linear import Workload
from tests.mechanisms.measured import CELLS, CODES, DOMAIN, workload

SINGLES = [(name,) for name in DOMAIN.names]  # age, region, sex, smoker: 5, 3, 2, 3 values
CHOSEN = [("age", "sex"), ("age", "region", "sex")]
FIRST, LATER, VARIANCE = 8, 4, Fraction(400)
ROWS = np.random.default_rng(3).integers(0, 50, CELLS)


def released(draw: np.random.Generator | None = None) -> Stored:
    """The single columns with noise of 20/8 rows, the chosen tables with 20/4."""
    parts = [counted(DOMAIN, SINGLES, FIRST)]
    parts += [counted(DOMAIN.project(names), [names], LATER) for names in CHOSEN]
    families, values = [], []
    for part in parts:
        noisy = part.matvec(CODES, ROWS)
        if draw is not None:
            noisy = [b + np.rint(draw.normal(0, 20, b.shape)).astype(np.int64) for b in noisy]
        found = Stored.of(part, Gaussian(1, VARIANCE), noisy)
        assert found is not None
        families += found.families
        values += found.values
    law = Gaussian(1, VARIANCE)
    return Stored(tuple(families), law, tuple(values), picked=(3, 1))


@pytest.mark.parametrize(
    ("sql", "variances"),
    [
        ("SELECT COUNT(*) FROM town WHERE age = 2", [6.25]),  # by the single column
        ("SELECT COUNT(*) FROM town", [12.5]),  # by the two sexes
        ("SELECT sex, COUNT(*) FROM town GROUP BY sex", [6.25] * 2),
        ("SELECT COUNT(*) FROM town WHERE age < 3 AND sex = 'f'", [75.0]),  # three cells of two
        ("SELECT COUNT(*) FROM town WHERE age = 1 AND sex = 'f' AND region = 'n'", [25.0]),
        ("SELECT sex, region, COUNT(*) FROM town GROUP BY ALL", [125.0] * 6),  # five cells each
        ("SELECT COUNT(*) FROM town WHERE age = 1 OR sex = 'f'", [150.0]),  # six cells of ten
        ("SELECT COUNT(*) FROM town WHERE smoker", [6.25]),
    ],
)
def test_the_table_of_least_variance_answers(sql, variances):
    found = Several(released())
    asked = workload(sql)
    (spread,) = found.spreads(asked)
    assert spread.known.all()
    assert spread.variances.reshape(-1).tolist() == pytest.approx(variances)
    (answers,) = found.answers(asked)
    (true,) = asked.matvec(CODES, ROWS)
    assert answers.shown.tolist() == true.tolist()
    assert answers.centre == pytest.approx(true)


@pytest.mark.parametrize("order", list(itertools.permutations(("age", "region", "sex"))))
def test_a_table_answers_in_whatever_order_its_columns_stand(order):
    """A schema declares columns in its own order, in which tables are measured."""
    part = counted(DOMAIN.project(order), [order], LATER)
    found = Stored.of(part, Gaussian(1, VARIANCE), part.matvec(CODES, ROWS))
    assert found is not None
    told = Several(Stored(found.families, found.law, found.values, picked=(0,)))
    for keys in itertools.permutations(order):
        asked = workload(f"SELECT {', '.join(keys)}, COUNT(*) FROM town GROUP BY ALL")
        few = workload(f"SELECT {keys[0]}, COUNT(*) FROM town WHERE age < 3 GROUP BY 1")
        for each in (asked, few):
            (answers,), (true,) = told.answers(each), each.matvec(CODES, ROWS)
            assert answers.shown.tolist() == true.tolist()


def test_of_no_groups_there_is_nothing_to_know() -> None:
    asked = workload("SELECT age, COUNT(*) FROM town WHERE age = 1 AND age = 2 GROUP BY age")
    (spread,) = Several(released()).spreads(asked)
    assert asked.size == 0 and spread.covariance.shape == (0, 1, 1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM town WHERE smoker AND sex = 'f'",
        "SELECT COUNT(*) FROM town WHERE smoker OR region = 'n'",
    ],
)
def test_what_follows_from_no_table_is_not_known(sql):
    (spread,) = Several(released()).spreads(workload(sql))
    assert not spread.known.any() and spread.worst() == math.inf


def test_answers_of_one_table_have_their_covariance_and_those_of_two_have_none():
    found = Several(released())
    asked = workload(
        "SELECT COUNT(*) FILTER (WHERE age < 3 AND sex = 'f'), COUNT(*) FILTER (WHERE age > 1 AND"
        " sex = 'f'), COUNT(*) FILTER (WHERE smoker) FROM town"
    )
    (spread,) = found.spreads(asked)
    assert spread.covariance[0] == pytest.approx(np.array([[75, 25, 0], [25, 75, 0], [0, 0, 6.25]]))


def test_intervals_cover_as_often_as_they_say():
    """600 releases, 12 answers each: a false alarm in 10^6 for each bound, both ways; noise 10 %
    off would be seen."""
    draw, asked = (
        np.random.default_rng(8),
        workload("SELECT sex, age, COUNT(*) FROM town GROUP BY ALL"),
    )
    (true,) = asked.matvec(CODES, ROWS)
    hits = shown = count = 0
    for _ in range(600):
        (found,) = Several(released(draw)).answers(asked)
        half = Joint(found).half({0: Fraction(1)}, 0.95)
        away = np.abs(found.centre[:, 0] - true[:, 0])
        hits, count = hits + int((away <= half).sum()), count + len(away)
        shown += float(((found.shown[:, 0] - true[:, 0]) ** 2).sum())
    assert binom.ppf(1e-6, count, 0.95) <= hits <= binom.isf(1e-6, count, 0.95)
    assert shown / count == pytest.approx(25 + 1 / 12, rel=0.1)  # five standard errors


def test_what_the_best_table_would_say_is_known_before_it_is_read():
    asked: Workload = workload("SELECT COUNT(*) FROM town WHERE age < 3 AND sex = 'f'")
    noises = at_best(asked, released(), len(SINGLES))
    assert noises is not None and noises[0].worst == pytest.approx(75)
    other = workload("SELECT COUNT(*) FROM town WHERE smoker AND sex = 'f'")  # that was not chosen
    told = at_best(other, released(), len(SINGLES))
    assert told is not None and told[0].worst == pytest.approx(25)
    single = at_best(workload("SELECT COUNT(*) FROM town WHERE age < 3"), released(), len(SINGLES))
    assert single is not None and single[0].worst == pytest.approx(3 * 6.25)
