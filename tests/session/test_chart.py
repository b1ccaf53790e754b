"""`-- chart:` is checked before anything is charged: what does not suit is refused in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import Refused
from dpsql.session import Session
from dpsql.session.chart import AUTO, NONE, Chart
from dpsql.session.scripts.script import Script

SCHEMA = """
dataset = "t"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 99}
s = {type = "category", values = ["x", "y", "z"]}
b = {type = "boolean"}
d = {type = "date", min = 2025-01-01, max = 2025-12-31, step = "week"}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("t")
    with duckdb.connect(str(folder / "t.duckdb")) as made:
        made.execute(
            "CREATE TABLE t AS SELECT i % 100 AS a, 'x' AS s, i % 2 = 0 AS b,"
            " DATE '2025-01-01' + (i % 300)::INT AS d FROM range(500) r(i)"
        )
    (folder / "t.toml").write_text(SCHEMA)
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="t", epsilon=1000)
    with Session(folder / "t.duckdb", user="ann", ledger=ledger) as opened:
        yield opened


@pytest.mark.parametrize(
    ("chart", "sql", "keys", "measures"),
    [
        ("bar", "SELECT s, COUNT(*) AS n FROM t GROUP BY s", (0,), (1,)),
        ("Bar", "SELECT AVG(a), s, COUNT(*) FROM t GROUP BY s", (1,), (0, 2)),
        ("bar", "SELECT a, COUNT(*) AS n FROM t GROUP BY a ORDER BY n DESC LIMIT 5", (0,), (1,)),
        ("bar", "SELECT COUNT_IF(b) AS b, COUNT(*) AS n FROM t", (), (0, 1)),
        ("bar", "SELECT 'p' AS w, COUNT(*) FROM t WHERE b UNION ALL"
         " SELECT 'q', COUNT(*) FROM t WHERE a < 9", (0,), (1,)),
        ("bar", "SELECT s, COUNT(*) AS n, CASE WHEN COUNT(*) > 9 THEN 'many' END AS w FROM t"
         " GROUP BY s", (0,), (1,)),
        ("line", "SELECT a, COUNT(*) FROM t GROUP BY a", (0,), (1,)),
        ("line", "SELECT d, COUNT(*) FROM t GROUP BY d", (0,), (1,)),
        ("line", "SELECT s, a // 10 AS ten, COUNT(*) FROM t GROUP BY ALL", (0, 1), (2,)),
        ("heat", "SELECT s, b, COUNT(*) FROM t GROUP BY ALL", (0, 1), (2,)),
    ],
)  # fmt: skip
def test_a_chart_that_suits_is_kept(
    session: Session, chart: str, sql: str, keys: tuple[int, ...], measures: tuple[int, ...]
) -> None:
    [section] = session.report(f"-- chart: {chart}\n{sql}", rho=0.1).sections
    assert section.chart == Chart(chart.lower(), keys, measures)


@pytest.mark.parametrize(
    ("sql", "chart"),
    [
        ("-- chart: none\nSELECT s, COUNT(*) FROM t GROUP BY s", NONE),
        ("SELECT s, COUNT(*) FROM t GROUP BY s\n", AUTO),
        ("SELECT s, COUNT(*) FROM t GROUP BY CUBE (s)", NONE),
        ("SELECT s, COUNT(*) AS n, CASE WHEN COUNT(*) > 9 THEN 'x' END FROM t GROUP BY s", NONE),
        ("-- chart: none\nSHOW BUDGET", NONE),
    ],
)
def test_without_one_it_goes_by_the_shape(session: Session, sql: str, chart: str) -> None:
    assert session.report(sql, rho=0.1).sections[0].chart == chart


@pytest.mark.parametrize(
    ("chart", "sql", "words"),
    [
        ("bar", "SELECT COUNT(*) FROM t", "no column says which bar is which"),
        ("bar", "SELECT COUNT(*) FROM t GROUP BY s", "no column says which bar is which"),
        ("bar", "SELECT a, COUNT(*) FROM t GROUP BY a", "100 bars; at most 40 are drawn"),
        ("bar", "SELECT s, b, COUNT(*) FROM t GROUP BY ALL", "bars have one key, not 2: s, b"),
        ("bar", "SELECT s FROM t GROUP BY s, b HAVING COUNT(*) > 1", ""),
        ("bar", "SELECT s, COUNT(*) FROM t GROUP BY s, b", "several rows have the same s"),
        ("bar", "SELECT s, COUNT(*) FROM t GROUP BY ROLLUP (s)", "totals and their parts"),
        ("bar", "SELECT s, COUNT(*) > 5 AS many FROM t GROUP BY s", "there is no noisy number"),
        ("bar", "SELECT s, COUNT(*), SUM(a), AVG(a), COUNT_IF(b), AVG(b) FROM t GROUP BY s",
         "5 columns of noisy numbers; at most 4"),
        ("line", "SELECT s, COUNT(*) FROM t GROUP BY s", "s is no number or date"),
        ("line", "SELECT COUNT(*) FROM t", "a line has an ordered key"),
        ("line", "SELECT s, b, COUNT(*) FROM t GROUP BY ALL", "lines have one ordered key"),
        ("line", "SELECT a, d, COUNT(*) FROM t GROUP BY ALL", "at most 5"),
        ("heat", "SELECT s, COUNT(*) FROM t GROUP BY s", "a heat map has two keys"),
        ("heat", "SELECT a, d, COUNT(*) FROM t GROUP BY ALL", "a heat map of 100 by 53 cells"),
        ("bar", "SHOW BUDGET", "a chart above a statement that is not measured"),
    ],
)  # fmt: skip
def test_a_chart_that_does_not_suit_costs_nothing(
    session: Session, chart: str, sql: str, words: str
) -> None:
    before = session.budget().spent
    text = f"SELECT COUNT(*) FROM t;\n\n-- chart: {chart}\n{sql}"
    for ask in (session.report, session.explain_script):
        with pytest.raises(Refused) as caught:
            ask(Script.of(text, "r.sql"), rho=0.1)
        if words:
            assert words in caught.value.reason and caught.value.hint
            assert str(caught.value.place) == "r.sql:4:1"
    assert session.budget().spent == before


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        ("bars", "there is no chart 'bars': did you mean bar?"),
        ("pie", "there is no chart 'pie'"),
        ("bar, stacked", "there is no chart 'bar, stacked'"),
        ("", "there is no chart ''"),
    ],
)
def test_another_chart_is_refused_by_name(chart: str, words: str) -> None:
    with pytest.raises(Refused) as caught:
        Script.of(f"SELECT 1;\n-- chart: {chart}\nSELECT 2", "r.sql")
    assert words in caught.value.reason and "bar, line, heat or none" in caught.value.hint
    assert str(caught.value.place) == "r.sql:2:4"


def test_what_an_answer_would_cost_by_itself_is_what_its_plan_says(session: Session) -> None:
    text = (
        "SELECT s, COUNT(*) AS n FROM t GROUP BY s; SELECT COUNT(*) FROM t;"
        " SELECT AVG(a) FROM t WHERE b; SHOW BUDGET"
    )
    plan = session.explain_script(text, rho=0.1)
    *sections, free = session.report(text, rho=0.1).sections
    assert [section.alone for section in sections] == [each.price for each in plan.plans]
    assert free.alone is None
    again = session.report(text, rho=0.1, reuse=True)
    reused = session.report(text, rho=0.1, reuse=True)
    assert all(section.alone is None for section in reused.sections)
    assert [s.alone for s in again.sections[:3]] == [each.price for each in plan.plans]


def test_a_path_is_read_as_before(session: Session, tmp_path: Path) -> None:
    (tmp_path / "r.sql").write_text("-- chart: pie\nSELECT COUNT(*) FROM t")
    with pytest.raises(Refused, match="no chart 'pie'"):
        session.report(tmp_path / "r.sql")
