"""The demo's answers: fresh in every run, within their intervals as often as these say.

Each question of the demo is asked anew many times, at the demo's prices. Intervals of counts cover
exactly as often as the discrete noise stays within them, the others at least at their level: by
binomial tests, of a false alarm below 1e-6 together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from scipy.stats import binom

from dpsql.accounting.events import from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import Grant
from dpsql.mechanisms.intervals.law import coverage
from dpsql.mechanisms.intervals.quantile import half_width
from dpsql.session import Session
from dpsql.surfaces import demo
from dpsql.surfaces.run import Run
from tests.privacy.trial import USER, charges

TIMES, LEVEL, ALARM = 800, 0.95, 1e-7
RHO = Grant.of(USER, "adult", demo.EPSILON, 1e-6, "now").rho / 1e12 / 100  # the default price
COUNTS = (
    ("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", {"rho": RHO}),
    (
        "SELECT COUNT(*) AS n FROM adult WHERE age < 30 AND NOT native_country = 'United-States'",
        {"backend": "laplace", "epsilon": 0.1},
    ),
)
OTHERS = (
    "SELECT education, AVG((income = '>50K')::INT) AS over_50k FROM adult GROUP BY education",
    "SELECT AVG(hours_per_week) AS hours FROM adult WHERE sex = 'Female'",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    room = demo.build(Run(), tmp_path_factory.mktemp("demo") / "room")
    ledger = Ledger.memory()
    ledger.grant(USER, dataset="adult", epsilon=1e6)
    with Session(room / demo.NAME, user=USER, ledger=ledger) as found:
        yield found


def asked(session: Session, sql: str, **settings: Any) -> tuple[int, int, int]:
    """How many intervals hold the truth, of how many, and how many different answers there are."""
    with duckdb.connect(str(session.database), read_only=True) as found:
        truth = {row[:-1]: row[-1] for row in found.execute(sql).fetchall()}
    inside = total = 0
    seen = set()
    for _ in range(TIMES):
        release = session.answer(sql, **settings)
        seen.add(release.rows)
        for row, low, high in zip(release.rows, release.low, release.high, strict=True):
            inside += low[-1] <= truth[row[:-1]] <= high[-1]
            total += 1
    return inside, total, len(seen)


@pytest.mark.parametrize(("sql", "settings"), COUNTS)
def test_intervals_of_the_counts_cover_as_often_as_the_noise_says(sql, settings, session):
    inside, total, different = asked(session, sql, **settings)
    law = from_dict(charges(session.ledger)[-1][4])
    exact = coverage(law, half_width(law, LEVEL))
    assert exact >= LEVEL
    assert binom.ppf(ALARM / 2, total, exact) <= inside <= binom.isf(ALARM / 2, total, exact)
    assert different > TIMES / 10  # the noise is fresh


@pytest.mark.parametrize("sql", OTHERS)
def test_intervals_of_the_means_cover_at_least_as_often_as_they_say(sql, session):
    inside, total, different = asked(session, sql, rho=RHO)
    assert inside >= binom.ppf(ALARM, total, LEVEL)
    assert different > TIMES / 2
