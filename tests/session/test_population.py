"""`target = population`: intervals that hold for questions chosen by the answers, or a refusal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.accounting.events import PICO, Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.errors import NoGrant, Refused, UsageError
from dpsql.mechanisms.intervals.noises import Alike
from dpsql.mechanisms.transfer import Transcript, transfer
from dpsql.query.parse import Ask
from dpsql.session import Session
from dpsql.session.asked import statement
from dpsql.session.population import Population, population

ROWS, CELLS = 40_000, 1_000
COUNT = "SELECT COUNT(*) FROM t"
SHARE = "SELECT AVG(cell < 500) AS share FROM t"
POPULATION: dict[str, Any] = {"target": "population"}
SCHEMA = """
dataset = "t"
{head}
[source]
table = "t"
[columns]
cell = {{type = "integer", min = 0, max = 999}}
"""


def drawn(folder: Path, rows: int = ROWS, head: str = 'unit = "row"', seed: int = 5) -> Path:
    """A table of rows that were drawn uniformly: of any half of the cells the true share is 0.5."""
    path = folder / "t.duckdb"
    cells = np.random.default_rng(seed).integers(0, CELLS, rows)
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE t AS SELECT cell::INT AS cell FROM (SELECT unnest($1) AS cell)",
                     [cells.tolist()])  # fmt: skip
    path.with_suffix(".toml").write_text(SCHEMA.format(head=head))
    return path


def opened(path: Path, epsilon: float = 0.1, delta: float = 1e-6) -> Session:
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="t", epsilon=epsilon, delta=delta)
    return Session(path, user="ann", ledger=ledger)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(drawn(tmp_path)) as made:
        yield made


def spent(session: Session) -> int:
    return session.ledger.balance("ann", "t").spent_rho


def half(release: Any) -> float:
    return float(release.high[0][-1] - release.low[0][-1]) / 2


def test_an_analyst_who_overfits_stays_within_the_bound_and_not_within_the_noise(
    tmp_path: Path,
) -> None:
    """Of the 500 cells with the largest noisy counts the rows say too much.

    A cell holds 40 rows, give or take sqrt(40); its count has noise s = 18. The chosen half holds
    0.5 + 0.5 sqrt(2/pi) / sqrt(40 + s^2) = 0.521 of the rows, +- 0.0025 by sampling and +- 0.001
    by noise, and 0.5 of the population. The naive interval is +- 0.002 and reaches 0.5 with a
    chance below 1e-11; the other one, +- 0.37, misses it with less.
    """
    with opened(drawn(tmp_path), epsilon=0.25) as session:
        rho = session.ledger.balance("ann", "t").grant.rho / PICO
        groups = session.answer("SELECT cell, COUNT(*) AS n FROM t GROUP BY cell", rho=0.8 * rho)
        chosen = sorted(groups.rows, key=lambda row: -row[1])[: CELLS // 2]
        listed = ", ".join(str(cell) for cell, _ in chosen)
        sql = f"SELECT AVG(cell IN ({listed})) AS share FROM t"
        naive = session.answer(sql, rho=0.08 * rho, reuse=False)
        wide = session.answer(sql, rho=0.08 * rho, total=ROWS, **POPULATION)
    assert naive.low[0][0] > 0.5
    assert wide.low[0][0] < 0.5 < wide.high[0][0]
    assert half(wide) < 0.4


def test_the_interval_is_that_of_the_theorem_at_the_cap(session: Session) -> None:
    release = session.answer(SHARE, total=ROWS, **POPULATION)
    cap = session.ledger.caps()[0].grant
    sample = session.answer(SHARE, reuse=False)
    least = transfer(Transcript(4 * cap.rho), 0.05, 0.0).shift
    assert least < half(release) < 1.1 * (least + 3 * half(sample))


def test_the_cap_decides_and_not_the_purse(session: Session) -> None:
    narrow = half(session.answer(SHARE, total=ROWS, **POPULATION))
    session.ledger.grant("bob", dataset="t", epsilon=0.3)
    assert half(session.answer(SHARE, total=ROWS, **POPULATION)) > 2 * narrow


def test_replaced_rows_are_two_steps_apart_where_rows_are_added_and_removed(
    session: Session, tmp_path: Path
) -> None:
    wide = half(session.answer(SHARE, total=ROWS, rho=1e-4, **POPULATION))
    folder = tmp_path / "replaced"
    folder.mkdir()
    path = drawn(folder, head='unit = "row"\nneighbours = "replace-one"')
    with opened(path) as replaced:
        narrow = half(replaced.answer(SHARE, total=ROWS, rho=1e-4, **POPULATION))
    assert 1.7 < wide / narrow < 2.3


def test_pure_grants_have_their_own_bound(tmp_path: Path) -> None:
    with opened(drawn(tmp_path), epsilon=0.02, delta=0.0) as session:
        release = session.answer(SHARE, total=ROWS, epsilon=0.01, **POPULATION)
    assert math.expm1(0.04) < half(release) < math.expm1(0.04) + 0.05


def test_the_number_of_rows_is_said_or_comes_from_a_release_at_a_part_of_the_level(
    session: Session,
) -> None:
    for ask in (session.answer, session.explain):
        before = spent(session)
        with pytest.raises(UsageError, match="needs the number of rows"):
            ask(SHARE, **POPULATION)
        assert spent(session) == before
    session.answer(COUNT, reuse=True)
    told = session.answer(COUNT, **POPULATION)
    said = session.answer(COUNT, total=ROWS, **POPULATION)
    assert told.high[0][0] - said.high[0][0] > 0 or half(told) > half(said)
    [note] = [n for n in told.notes if "population" in n]
    high = float(session.answer(COUNT, confidence=1 - 0.05 * 0.1, reuse=True).high[0][0])
    assert f"at most {high:,.0f} rows" in note


def test_counts_are_of_as_many_rows_of_the_population(session: Session) -> None:
    release = session.answer(
        "SELECT COUNT_IF(cell < 500) AS n, COUNT(*) FILTER (WHERE cell >= 500) AS m FROM t",
        total=ROWS,
        **POPULATION,
    )
    for low, high in zip(release.low[0], release.high[0], strict=True):
        assert low is not None and high is not None
        assert 0 <= low < ROWS / 2 < high <= ROWS
        assert 0.1 * ROWS < (high - low) / 2 < 0.25 * ROWS


def test_a_mean_of_values_reaches_further_by_their_range(session: Session) -> None:
    share = half(session.answer(SHARE, total=ROWS, **POPULATION))
    mean = half(session.answer("SELECT AVG(cell) AS m FROM t", total=ROWS, **POPULATION))
    assert mean / 999 == pytest.approx(share, rel=0.3)  # the noise of both is of their own


def test_answers_are_bought_afresh(session: Session) -> None:
    session.answer(SHARE, reuse=True)
    assert session.answer(SHARE, reuse=True).reused
    before = spent(session)
    for _ in range(2):
        release = session.answer(SHARE, total=ROWS, reuse=True, **POPULATION)
        assert not release.reused
        assert spent(session) > before
        before = spent(session)


def test_explain_says_what_the_answer_says(session: Session) -> None:
    for sql in (
        SHARE,
        "SELECT cell < 500 AS c, COUNT(*) AS n FROM t GROUP BY c ORDER BY n LIMIT 1",
    ):
        plan = session.explain(sql, total=ROWS, **POPULATION)
        release = session.answer(sql, total=ROWS, **POPULATION)
        [note] = [n for n in plan.notes if "population" in n]
        assert note in release.notes


def test_a_bound_of_all_says_nothing_and_is_refused(tmp_path: Path) -> None:
    with opened(drawn(tmp_path), epsilon=1.0) as session:
        for ask in (session.answer, session.explain):
            with pytest.raises(UsageError, match=r"± 2 \(2 by .* says nothing"):
                ask(SHARE, total=ROWS, **POPULATION)
        assert spent(session) == 0


def test_too_few_rows_for_the_noise_are_refused(session: Session) -> None:
    with pytest.raises(UsageError, match="among 100 rows"):
        session.answer(SHARE, total=100, **POPULATION)
    assert spent(session) == 0


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT SUM(cell) FROM t", "SUM, which is no share"),
        ("SELECT STDDEV(cell) FROM t", "which is no share"),
        ("SELECT 100 * AVG(cell < 5) FROM t", "an expression of aggregates"),
        ("SELECT COUNT_IF(cell < 5) / COUNT(*) FROM t", "an expression of aggregates"),
        ("SELECT cell, COUNT(*) FROM t GROUP BY cell HAVING SUM(cell) > 5", "SUM"),
        ("SELECT cell, COUNT(*) FROM t GROUP BY cell FIRST 1 ABOVE 50", "FIRST ... ABOVE"),
    ],
)
def test_what_is_no_share_is_refused_by_name(sql: str, why: str, session: Session) -> None:
    for ask in (session.answer, session.explain):
        with pytest.raises(Refused, match="target = population of") as caught:
            ask(sql, total=ROWS, **POPULATION)
        assert why in caught.value.reason
    assert spent(session) == 0


@pytest.mark.parametrize(
    "given",
    [
        {"accuracy": 50},
        {"backend": "synopsis"},
        {"postprocess": "projection"},
        {"whole": "on"},
        {"clamp": True},
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_are_refused(
    given: dict[str, Any], session: Session
) -> None:
    for ask in (session.answer, session.explain):
        with pytest.raises(UsageError, match=f"{next(iter(given))}.* do not go together"):
            ask(SHARE, total=ROWS, **given, **POPULATION)
    assert spent(session) == 0


def test_scripts_are_refused(session: Session) -> None:
    for script in (f"{SHARE};", f"SET target = 'population'; {SHARE};"):
        with pytest.raises(Refused, match="of a statement of a script"):
            session.run(script, total=ROWS, **({} if "SET" in script else POPULATION))
    assert spent(session) == 0


def test_rows_of_one_person_are_not_independent(tmp_path: Path) -> None:
    path = drawn(tmp_path, rows=100, head='unit = {column = "id", max_rows = 2}')
    with duckdb.connect(str(path)) as made:
        made.execute("ALTER TABLE t ADD COLUMN id INT DEFAULT 1")
    with opened(path) as session, pytest.raises(UsageError, match="drawn independently"):
        session.answer(SHARE, total=100, **POPULATION)


def test_without_a_grant_there_is_no_answer(tmp_path: Path) -> None:
    with Session(drawn(tmp_path, rows=10), user="ann", ledger=Ledger.memory()) as session:
        for ask in (session.answer, session.explain):
            with pytest.raises(NoGrant):
                ask(SHARE, total=10, epsilon=0.1, **POPULATION)


def asked(session: Session, **given: Any) -> Population:
    """What SHARE is to say about the population."""
    ask = statement(SHARE)
    assert isinstance(ask, Ask)
    _, compiled = session._compile(ask, None)
    assert compiled is not None
    settings = session.settings.with_values({**given, **POPULATION})
    found = population(session, ask, compiled, settings)
    assert found is not None
    return found


def test_number_of_rows_and_theorem_share_what_may_fail(session: Session) -> None:
    session.answer(COUNT, reuse=True)
    noise = Alike(Gaussian(1, Fraction(400)))
    for given, part in (({}, 0.9), ({"total": ROWS}, 1.0)):
        drawn = asked(session, **given)
        [select] = drawn.compiled.selects
        found, rows, _ = drawn._transfer(0, select.estimators[0], noise, 0.95)
        assert 0.999 * part * 0.05 < found.missed <= part * 0.05
        assert rows == drawn.rows(1 - 0.1 * 0.05)


def test_a_number_of_rows_of_other_data_says_nothing(session: Session) -> None:
    session.answer(COUNT, reuse=True)
    known = asked(session)
    assert known.state is not None
    assert known.of(known.state).rows(0.9) < 2 * ROWS
    assert known.of("another").rows(0.9) == math.inf
