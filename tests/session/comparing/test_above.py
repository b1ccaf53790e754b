"""FIRST n ABOVE threshold: groups that a gate finds, what is told of them, and what it costs."""

from __future__ import annotations

import itertools
import json
import math
import re

import duckdb
import pytest

from dpsql.accounting.events import AboveThreshold, from_dict
from dpsql.curator.gate import Gate
from dpsql.errors import BudgetExceeded, NoGrant, Refused, SourceError, UsageError
from dpsql.surfaces.cli import main

BY = "SELECT region, sex, COUNT(*) AS n FROM town GROUP BY region, sex"
SURE = {"rho": 1e4}  # noise that is 0 but once in exp(200)


@pytest.fixture
def session(town, crowd):
    town.ledger.grant("alice", dataset="town", epsilon=1e7)
    with town.open(town.database("a", crowd(400, 1))) as found:
        yield found


def spent(session):
    return session.ledger.balance("alice", "town").spent_rho


def counted(session, sql: str) -> list[tuple]:
    """DuckDB's own answer, in the order in which groups are listed."""
    listed = [row[:-1] for row in session.explain(sql, rho=1).rows]
    with duckdb.connect(str(session.database), read_only=True) as found:
        found.execute("CREATE TEMP VIEW town AS SELECT * FROM people")
        known = {row[:-1]: row[-1] for row in found.execute(sql).fetchall()}
    return [(*keys, known.get(keys, 0)) for keys in listed]


# -- which groups are found ------------------------------------------------------------------------


def test_the_first_groups_that_exceed_the_threshold_are_found(session):
    true = counted(session, BY)
    for count, threshold in itertools.product([1, 2, 5, 100], [0, 45, 50, 55, 1000]):
        found = session.answer(f"{BY} FIRST {count} ABOVE {threshold}", **SURE)
        expected = [row[:-1] for row in true if row[-1] > threshold][:count]
        assert [row[:-1] for row in found.rows] == expected
    assert (found.backend, found.columns) == ("sparse", ("region", "sex", "n"))


def test_a_count_that_equals_the_threshold_is_not_above_it(session):
    for *keys, count in counted(session, BY)[:3]:
        where = f"region = '{keys[0]}' AND sex = '{keys[1]}'"
        sql = f"SELECT COUNT(*) AS n FROM town WHERE {where}"
        assert not session.answer(f"{sql} FIRST 1 ABOVE {count}", **SURE).rows
        assert session.answer(f"{sql} FIRST 1 ABOVE {count - 1}", **SURE).rows == ((None,),)


def test_predicates_are_listed_by_union_all(session):
    asked = {"old": "age > 5", "smokers": "smoker", "nobody": "age > 3 AND age < 3", "all": "true"}
    parts = [f"SELECT '{w}' AS what, COUNT(*) AS n FROM town WHERE {p}" for w, p in asked.items()]
    found = session.answer(f"{' UNION ALL '.join(parts)} FIRST 9 ABOVE 100", **SURE)
    assert [row[0] for row in found.rows] == ["old", "smokers", "all"]
    found = session.answer(f"{' UNION ALL '.join(parts)} first 2 above 100;", **SURE)
    assert [row[0] for row in found.rows] == ["old", "smokers"]


def test_subtotals_and_filters_are_counts(session):
    sql = "SELECT region, sex, COUNT(*) AS n FROM town GROUP BY CUBE (region, sex)"
    found = session.answer(f"{sql} FIRST 99 ABOVE 150", **SURE)
    assert found.rows == ((None, "female", None), (None, "male", None), (None, None, None))
    sql = "SELECT region, COUNT(*) FILTER (WHERE smoker) AS n FROM town GROUP BY region"
    true = counted(session, sql)
    found = session.answer(f"{sql} FIRST 99 ABOVE 33", **SURE)
    assert [row[0] for row in found.rows] == [keys for keys, count in true if count > 33]


# -- what is told ----------------------------------------------------------------------------------


def test_no_number_comes_out(session, monkeypatch):
    """Booleans alone leave the curator; the bound depends on what is public."""
    told: list[tuple[bool, ...]] = []
    first = Gate.first
    monkeypatch.setattr(
        Gate, "first", lambda *asked: told.append(first(*asked)) or told[-1]
    )  # fmt: skip
    found = session.answer(f"{BY} FIRST 3 ABOVE 40", rho=0.5)
    assert {type(answer) for answer in told[0]} == {bool}
    assert {row[-1] for row in found.rows} == {None}
    assert len({line[-1] for line in found.low}) == 1
    assert {line[-1] for line in found.high} == {math.inf}
    assert found.noisy == (False, False, True) and not any(map(any, found.stderr))
    assert json.loads(json.dumps(found.to_dict()))["rows"] == [list(row) for row in found.rows]


def bounds(release) -> tuple[int, int]:
    """The two bounds in the first note."""
    words = release.notes[0].replace(",", "").split()
    return int(words[words.index("has") + 1]), int(words[-3])


def test_both_bounds_hold_for_all_groups_together_as_often_as_they_say(session):
    """At 80 % more than 50 of 120 gates miss once in 5e7 at most. The bounds are not idle."""
    true = counted(session, BY)
    threshold = sorted(count for *_, count in true)[4]
    missed, rights = 0, 0
    for _ in range(120):
        found = session.answer(
            f"{BY} FIRST 3 ABOVE {threshold}", rho=0.02, confidence=0.8, reuse=False
        )
        least, most = bounds(found)
        rows = [row[:-1] for row in found.rows]
        asked = true[: len(true) - later(found)]
        above = [count for *keys, count in asked if tuple(keys) in rows]
        below = [count for *keys, count in asked if tuple(keys) not in rows]
        missed += min(above, default=least) < least or max(below, default=0) > most
        rights += rows == [row[:-1] for row in true if row[-1] > threshold][:3]
        assert {line[-1] for line in found.low} <= {float(least)}
        assert least < threshold < most < threshold + 200
    assert missed <= 50
    assert rights < 120  # there is noise: false alarm below 1e-9


def later(release) -> int:
    """How many groups were not asked, from the notes."""
    words = [note.split() for note in release.notes if note.endswith("not asked")]
    return int(words[0][0]) if words else 0


def test_what_was_not_asked_is_said(session):
    found = session.answer(f"{BY} FIRST 1 ABOVE 0", **SURE)
    assert "7 groups after the last one found were not asked" in found.notes
    found = session.answer(f"{BY} FIRST 8 ABOVE 1000", **SURE)
    assert found.rows == () and "all groups were asked" in found.notes


# -- what it costs ---------------------------------------------------------------------------------


PRICES = [{"rho": 1e-3}, {"epsilon": 0.3}, {}]


@pytest.mark.parametrize("backend", ["auto", "laplace"])
def test_explain_foretells_price_bounds_and_backend(session, backend):
    for number, price in enumerate(PRICES):
        given = {"backend": backend, "reuse": True, **price}
        foretold(session, f"{BY} FIRST 3 ABOVE {45 + number}", given)


def foretold(session, sql, given):
    before, backend = spent(session), given["backend"]
    plan = session.explain(sql, **given)
    assert spent(session) == before
    found = session.answer(sql, **given)
    assert (plan.backend, plan.price, plan.charged) == ("sparse", found.price, found.charged)
    assert plan.notes[0] == found.notes[0]
    assert plan.columns == found.columns and len(plan.rows) == plan.queries == 8
    assert plan.sensitivity == 1.0 and plan.sensitivity_exact
    [*_, entry] = session.ledger.log()
    event = from_dict(entry.event)
    assert isinstance(event, AboveThreshold)
    assert (event.sensitivity, event.positives, event.runs, event.monotone) == (1, 1, 3, True)
    assert event.noise == ("laplace" if backend == "laplace" else "exponential")
    assert spent(session) - before == entry.price.rho == event.rho
    assert entry.statement == sql
    shown = dict(session.answer(f"EXPLAIN {sql}", **given).rows)
    assert shown["backend"] == "reuse"


def test_people_who_are_in_no_group_pay_nothing(session):
    sql = "SELECT region, COUNT(*) AS n FROM town WHERE sex = '{}' GROUP BY region FIRST 2 ABOVE 45"
    one = session.answer(sql.format("male"), rho=1e-3)
    plan = session.explain(sql.format("female"), rho=1e-3)
    other = session.answer(sql.format("female"), rho=1e-3)
    assert one.charged == one.price
    assert plan.charged == other.charged and other.charged.rho == 0 < other.price.rho


def test_pure_grants_pay_in_epsilon(town, crowd):
    town.ledger.grant("alice", dataset="town", epsilon=1.0, delta=0.0)
    with town.open(town.database("a", crowd(400, 1))) as session:
        found = session.answer(f"{BY} FIRST 2 ABOVE 45", epsilon=0.25)
        assert found.price.epsilon == pytest.approx(0.25, abs=1e-5)
        [*_, entry] = session.ledger.log()
        assert (entry.event["positives"], entry.event["runs"]) == (2, 1)
        left = session.ledger.balance("alice", "town").left_epsilon
        assert left == pytest.approx(0.75e12, abs=1e7) and left >= 0.75e12
        with pytest.raises(BudgetExceeded):
            session.answer(f"{BY} FIRST 2 ABOVE 45", epsilon=0.8)


@pytest.mark.parametrize(
    ("head", "sensitivity", "monotone"),
    [
        ('unit = "row"\nneighbours = "replace-one"', 1, False),
        ('unit = {column = "pid", max_rows = 3}', 3, True),
    ],
)
def test_neighbours_and_units_set_the_gate(town, tmp_path, head, sensitivity, monotone):
    town.ledger.grant("alice", dataset="town", epsilon=1e7)
    path = tmp_path / "b.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE people AS SELECT range AS pid, 'N' AS region FROM range(60)")
    path.with_suffix(".toml").write_text(
        f'dataset = "town"\n{head}\n[source]\ntable = "people"\n[columns]\n'
        'region = {type = "category", values = ["N", "E"]}\n'
    )
    with town.open(path) as session:
        sql = "SELECT region, COUNT(*) AS n FROM town GROUP BY region FIRST 1 ABOVE 30"
        assert session.answer(sql, **SURE).rows == (("N", None),)
        [*_, entry] = session.ledger.log()
        event = from_dict(entry.event)
        assert (event.sensitivity, event.monotone) == (sensitivity, monotone)
        assert spent(session) == event.rho


def test_counts_that_cost_as_much_and_tell_more_are_told_of(session):
    plan = session.explain(f"{BY} FIRST 3 ABOVE 45", rho=1e-3)
    assert [c.backend for c in plan.candidates] == ["sparse", "gaussian"]
    assert any("the counts themselves" in note for note in plan.notes)
    many = " UNION ALL ".join(
        f"SELECT {a} AS a, {m} AS m, COUNT(*) AS n FROM town WHERE age >= {a} AND month >= {m}"
        for a, m in itertools.product(range(1), range(1, 13))
    )
    plan = session.explain(f"{many} FIRST 1 ABOVE 45", rho=1e-3, backend="auto")
    assert len(plan.candidates) == 2


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_how_near_these_counts_all_are_is_told_of_their_own_noise(town, crowd, backend):
    """A normal quantile would say five rows of Laplace noise where seven are needed."""
    delta = 0.0 if backend == "laplace" else 1e-6
    town.ledger.grant("alice", dataset="town", epsilon=100, delta=delta)
    groups = 10 * 12
    by = "SELECT age, month, COUNT(*) AS n FROM town GROUP BY age, month FIRST 1 ABOVE 45"
    with town.open(town.database("a", crowd(400, 1))) as session:
        plan = session.explain(by, epsilon=1.0)
        counted = session.explain(by.partition(" FIRST")[0], epsilon=1.0)
    (half,) = [int(found[1]) for n in plan.notes if (found := re.search(r"± (\d+) for all", n))]
    assert [c.backend for c in plan.candidates] == ["sparse", counted.backend]
    assert counted.backend == backend
    spread = plan.candidates[1].rmse
    if backend == "laplace":  # P(|z| > h) of discrete Laplace noise
        b = next(b for b in (k / 1000 for k in range(1, 9999)) if laplace_rms(b) >= spread)
        missed = 2 * math.exp(-(half + 1) / b) / (1 + math.exp(-1 / b))
    else:
        missed = math.erfc((half + 0.5) / spread / math.sqrt(2))
    assert 0.95 <= (1 - missed) ** groups < 0.995


def laplace_rms(b: float) -> float:
    q = math.exp(-1 / b)
    return math.sqrt(2 * q) / (1 - q)


# -- refused ---------------------------------------------------------------------------------------

GROUPED = "FROM town GROUP BY region"


REFUSED = [
    (f"SELECT region, AVG(age) {GROUPED} FIRST 3 ABOVE 5", "AVG(age)", "AVG, which is no count"),
    (f"SELECT region, SUM(age) {GROUPED} FIRST 3 ABOVE 5", "SUM(age)", "SUM, which is no count"),
    (f"SELECT region, COUNT(*), COUNT(smoker) {GROUPED} FIRST 3 ABOVE 5", "COUNT(smoker)",
     "several counts"),
    (f"SELECT region, COUNT(*) + 1 {GROUPED} FIRST 3 ABOVE 5", "FIRST 3 ABOVE 5", "expression of"),
    (f"SELECT region, COUNT(*) {GROUPED} ORDER BY 2 FIRST 3 ABOVE 5", "ORDER", "ORDER BY"),
    (f"SELECT region, COUNT(*) {GROUPED} LIMIT 2 FIRST 3 ABOVE 5", "LIMIT", "LIMIT"),
    (f"SELECT region, COUNT(*) {GROUPED} HAVING COUNT(*) > 3 FIRST 3 ABOVE 5", "HAVING", "HAVING"),
    ("SELECT 1 FIRST 3 ABOVE 5", "FIRST 3 ABOVE 5", "only the schema"),
]  # fmt: skip


def test_what_is_no_list_of_counts_is_refused_at_its_place(session):
    before = spent(session)
    for (sql, marked, reason), asked in itertools.product(
        REFUSED, (session.answer, session.explain)
    ):
        with pytest.raises(Refused, match=reason) as caught:
            asked(sql, rho=1.0)
        assert sql[caught.value.start : caught.value.end].startswith(marked[:5])
        assert caught.value.hint
    assert spent(session) == before


def test_settings_that_a_gate_cannot_have_are_refused(session):
    sql = f"{BY} FIRST 3 ABOVE 45"
    with pytest.raises(UsageError, match="a price and no accuracy"):
        session.answer(sql, accuracy=10)
    for backend in ("gaussian", "factorization"):
        with pytest.raises(UsageError, match="answered by a gate"):
            session.answer(sql, backend=backend)
    with pytest.raises(Refused, match="ABOVE 45 in a script: it is bought alone"):
        session.run(f"SELECT COUNT(*) FROM town; {sql}")
    with pytest.raises(Refused, match="delta is the grant's"):
        options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 0.5)"
        session.answer(sql.replace("SELECT", options, 1))


def test_options_are_cut_as_well(session):
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.125)"
    sql = f"{BY} FIRST 3 ABOVE 45".replace("SELECT", options, 1)
    assert session.answer(sql).price.rho == pytest.approx(0.125, rel=1e-4)


def test_without_a_grant_a_price_is_explained(town, crowd):
    with town.open(town.database("a", crowd(100, 1)), "nobody") as session:
        plan = session.explain(f"{BY} FIRST 2 ABOVE 30", epsilon=0.5)
        assert (plan.backend, plan.charged, plan.left) == ("sparse", None, None)
        with pytest.raises(NoGrant):
            session.explain(f"{BY} FIRST 2 ABOVE 30")
        with pytest.raises(NoGrant):
            session.answer(f"{BY} FIRST 2 ABOVE 30", epsilon=0.5)


def test_a_failure_says_what_was_charged_and_releases_nothing(session, monkeypatch):
    def gone(*asked):
        raise SourceError("the file is gone")

    monkeypatch.setattr(Gate, "first", gone)
    with pytest.raises(SourceError, match="charged ε") as caught:
        session.answer(f"{BY} FIRST 3 ABOVE 45", rho=1e-3)
    assert session.last_charge.rho == pytest.approx(1e-3, rel=1e-4)
    assert caught.value.__context__ is None


def test_the_command_line_finds_groups_too(town, crowd, capsys):
    path = town.database("a", crowd(400, 1))
    sql = f"{BY} FIRST 2 ABOVE 10"
    assert main(["budget", "grant", str(path), "ann", "--epsilon", "10"]) == 0
    assert main(["explain", str(path), sql, "-u", "ann", "--epsilon", "1"]) == 0
    out = capsys.readouterr().out
    assert "plan for town: sparse" in out and "rows or more" in out
    assert main(["query", str(path), sql, "-u", "ann", "--epsilon", "1", "--intervals"]) == 0
    out = capsys.readouterr().out
    assert "sparse · 95 % intervals" in out and "n_low" in out and "infinity" in out
    assert main(["budget", "log", str(path)]) == 0
    assert ", sparse b " in capsys.readouterr().out
