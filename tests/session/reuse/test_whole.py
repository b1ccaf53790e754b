"""Ski rental: a statement that has to be bought may measure the whole table of its columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom, chi2

from dpsql.accounting.kept.releases import Releases
from dpsql.accounting.ledger import Ledger
from dpsql.curator.curator import Curator
from dpsql.errors import LedgerError
from dpsql.release import Release
from dpsql.session import Session
from dpsql.session.reuse import whole as ski

Row = tuple[object, ...]
NOTE = "measures the whole table of"
ASKED = [
    "SELECT COUNT(*) AS n FROM town WHERE age > 4 AND sex = 'male'",
    "SELECT sex, COUNT(*) AS n FROM town WHERE age < 3 GROUP BY sex",
    "SELECT SUM(age) AS s, AVG(age) AS a, COUNT(*) AS n FROM town WHERE sex = 'male'",
    f"SELECT {', '.join(f'COUNT_IF(age <= {k}) AS n{k}' for k in range(9))} FROM town",
    "SELECT sex, age, COUNT(*) AS n FROM town GROUP BY CUBE (sex, age)",
    "SELECT sex, COUNT(*) AS n, MAX(sex) AS m FROM town WHERE smoker GROUP BY sex HAVING n > 9",
]
SETTINGS: list[dict[str, Any]] = [{"rho": 0.01}, {"epsilon": 0.3}, {}]


@pytest.fixture
def session(path: Path, ledger: Ledger) -> Iterator[Session]:
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as opened:
        yield opened


def free(release: Release) -> bool:
    assert release.charged is not None
    return release.reused and release.charged.rho == 0


def bought_whole(release: Release) -> bool:
    return any(NOTE in note for note in release.notes)


@pytest.mark.parametrize("sql", [sql for sql in ASKED if "MAX" not in sql])
@pytest.mark.parametrize("price", [*SETTINGS, {"accuracy": 40}])
def test_explain_foretells_it_and_what_follows_is_free(
    path: Path, sql: str, price: dict[str, Any]
) -> None:
    if "AVG" in sql and "accuracy" in price:
        sql = sql.replace("AVG(age) AS a, ", "")
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=100)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        plan = session.explain(sql, whole="on", **price)
        off = session.explain(sql, **price)
        found = session.answer(sql, whole="on", **price)
        assert bought_whole(found) and plan.notes[-1] == found.notes[-1]
        assert (plan.price, plan.charged) == (found.price, found.charged)
        assert plan.backend == found.backend == "gaussian"
        foretold = [(a, b) for a, b in zip(plan.stderr, found.stderr, strict=True)]
        for expected, shown in foretold:
            for one, other in zip(expected, shown, strict=True):
                assert one is None or one == other
        assert session.last_charge == found.charged
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Curator, "measure", None)  # nothing private is read
            again = session.answer(sql, **price)
            assert free(again) and again.rows == found.rows and again.stderr == found.stderr
            if "accuracy" not in price:
                # no answer, nor a sum of answers, is noisier than its price would have made it
                for expected, promised in zip(plan.stderr, off.stderr, strict=True):
                    for one, other in zip(expected, promised, strict=True):
                        assert one is None or other is None or one <= other * (1 + 1e-6)
            for other in ("age = 3 AND sex = 'female'", "sex = 'male'", "age <> 5"):
                if other.startswith("age <> 5") or "sex" in sql:
                    narrower = f"SELECT COUNT(*) FROM town WHERE {other}"
                    assert free(session.answer(narrower, rho=1e-5))


def test_an_accuracy_is_kept(path: Path) -> None:
    for sql, half in [(ASKED[0], 20.0), (ASKED[1], 7.0), (ASKED[3], 30.0)]:
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="town", epsilon=1000)
        with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
            found = session.answer(sql, whole="on", accuracy=half)
            assert bought_whole(found)
            widths = [
                (high - low) / 2
                for lows, highs in zip(found.low, found.high, strict=True)
                for low, high in zip(lows, highs, strict=True)
                if low is not None and high is not None
            ]
            assert half - 1.01 < max(widths) <= half  # ends are whole numbers


def test_the_noise_and_its_intervals_are_those_of_sums_of_cells(
    town: Any, crowd: Callable[..., list[Row]]
) -> None:
    """9,600 sums of three cells with independent noise.

    Each bound fails by chance below 5e-7; noise that is 10 % off fails the first one surely (its
    mean square is then 0.81 or 1.21).
    """
    rows = crowd(400, 7)
    path = town.database("many", rows)
    truth: dict[tuple[object, ...], int] = {}
    for row in rows:
        truth[row[:4]] = truth.get(row[:4], 0) + 1
    squares, inside, count = 0.0, 0, 0
    for _ in range(10):
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="town", epsilon=1000)
        with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
            by = "SELECT sex, region, age, month, COUNT(*) AS n FROM town GROUP BY ALL"
            first = by.replace("GROUP", "WHERE smoker GROUP")
            bought = session.answer(first, whole="on", rho=0.003)
            assert bought_whole(bought)
            found = session.answer(by, rho=0.0009, confidence=0.8)
            assert free(found)
            for row, error, low, high in zip(
                found.rows, found.stderr, found.low, found.high, strict=True
            ):
                true = truth.get(row[:4], 0)
                squares += ((row[4] - true) / error[4]) ** 2
                inside += low[4] <= true <= high[4]
                count += 1
    assert count == 9600
    assert chi2.isf(1 - 5e-7, count) < squares < chi2.isf(5e-7, count)
    assert inside >= binom.ppf(5e-7, count, 0.8)


def conjunction(draw: random.Random) -> tuple[str, int]:
    """A random count, and the number of cells of (age, region, sex) that it counts."""
    low = draw.randrange(8)
    high = min(low + draw.randrange(4), 9)
    sexes = draw.choice([["male"], ["female"], ["male", "female"]])
    regions = draw.sample("NESW", draw.randint(1, 2))
    listed = [", ".join(f"'{value}'" for value in some) for some in (sexes, regions)]
    return (
        f"SELECT COUNT(*) AS n FROM town WHERE age BETWEEN {low} AND {high} "
        f"AND sex IN ({listed[0]}) AND region IN ({listed[1]})",
        (high - low + 1) * len(sexes) * len(regions),
    )


def all_of(path: Path, asked: list[str], whole: str, rho: float) -> tuple[float, list[Release]]:
    """What a new purse pays for statements, each as EXPLAIN foretold, and their answers."""
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=1000)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        answers = []
        for sql in asked:
            plan = session.explain(sql, rho=rho, whole=whole)
            found = session.answer(sql, rho=rho, whole=whole)
            assert (plan.charged, plan.price) == (found.charged, found.price)
            answers.append(found)
        return session.budget().spent.rho, answers


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [6, 40])
def test_auto_pays_at_most_twice_the_better_of_one_by_one_and_whole(
    path: Path, seed: int, count: int
) -> None:
    """The table that serves all of them has the variance of one count, by its cells."""
    rho = 0.001
    draw = random.Random(seed)
    asked, cells = zip(*(conjunction(draw) for _ in range(count)), strict=True)
    auto, _ = all_of(path, list(asked), "auto", rho)
    alone, _ = all_of(path, list(asked), "off", rho)
    assert auto <= 2 * min(alone, rho * max(cells)) * (1 + 1e-4)


def test_auto_rents_until_the_rents_have_come_to_the_table(path: Path) -> None:
    """Counts of six cells, of which all have one: each costs its whole price, the table six.

    One by one they cost more than that and the rents together.
    """
    rho, draw = 0.001, random.Random(5)
    asked = []
    for _ in range(25):
        cells = [(sex, age) for sex in ("male", "female") for age in range(10)]
        some = [cells[0], *draw.sample(cells[1:], 5)]
        tests = " OR ".join(f"age = {age} AND sex = '{sex}'" for sex, age in some)
        asked.append(f"SELECT COUNT(*) AS n FROM town WHERE {tests}")
    spent, answers = all_of(path, asked, "auto", rho)
    at = [bought_whole(found) for found in answers]
    bought = at.index(True)
    before = [found.charged.rho for found in answers[:bought] if found.charged is not None]
    table = answers[bought].charged
    assert bought in (5, 6) and all(rent == pytest.approx(rho, rel=1e-4) for rent in before)
    assert table is not None and table.rho == pytest.approx(6 * rho, rel=1e-4)
    assert sum(before) + rho >= table.rho > sum(before)
    assert all(free(found) for found in answers[bought + 1 :])
    assert spent <= 2 * table.rho
    assert all_of(path, asked, "off", rho)[0] > 1.4 * spent


def test_a_finer_question_buys_only_what_the_table_lacks(session: Session) -> None:
    """Precisions add: a table for four times the accuracy costs three times as much on top.

    Or a little more, where rounding of what is combined takes a step of 1/64 less noise.
    """
    sql = ASKED[0]
    first = session.answer(sql, rho=0.01, whole="on")
    second = session.answer(sql, rho=0.04, whole="on")
    assert first.charged is not None and second.charged is not None
    most = 4 * 64 / 63 - 1
    assert 3 * (1 - 1e-4) <= second.charged.rho / first.charged.rho <= most * (1 + 1e-4)
    half = first.stderr[0][0] / 2  # but for the rounding of what was combined
    assert half * (1 - 1e-4) <= second.stderr[0][0] <= half * 1.02
    assert second.backend == "gaussian + reuse"
    assert free(session.answer(sql, rho=0.04))


def test_another_process_reads_the_same_table(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "own.ledger"
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="town", epsilon=100)
    with Session(path, user="alice", ledger=place) as session:
        for sql in ASKED[:3]:
            session.answer(sql, rho=0.01, whole="on", reuse=True)
        asked = [session.answer(sql, rho=0.01, reuse=True) for sql in ASKED[:3]]
    with Session(path, user="alice", ledger=place) as session:
        for sql, found in zip(ASKED, asked, strict=False):
            again = session.answer(sql, rho=0.01, whole="on", reuse=True)
            assert free(again) and again.rows == found.rows
        plan = session.explain("SELECT age, COUNT(*) FROM town GROUP BY age", rho=1e-4, reuse=True)
        assert plan.backend == "reuse"


def test_a_large_table_answers_groups_beside_releases_it_cannot_be_fitted_to(
    session: Session,
) -> None:
    for age in (2, 5):  # nearer to the question than the table, and they do not tell it
        rule = f"age > {age} AND month > {age} OR region = 'N'"
        session.answer(f"SELECT COUNT(*) FROM town WHERE {rule}", rho=0.5)
    by = "SELECT sex, region, age, month, COUNT(*) FROM town WHERE smoker GROUP BY ALL"
    assert bought_whole(session.answer(by, rho=0.01, whole="on"))
    found = session.answer("SELECT region, age, month, COUNT(*) FROM town GROUP BY ALL", rho=0.001)
    assert free(found)


def test_a_statement_that_is_its_table_or_about_no_column_is_bought_as_it_is(
    session: Session,
) -> None:
    for sql in (
        "SELECT COUNT(*) FROM town",
        "SELECT sex, age, COUNT(*) AS n FROM town GROUP BY sex, age",
    ):
        plan = session.explain(sql, rho=0.01)
        found = session.answer(sql, rho=0.01, whole="on")
        assert found.charged == plan.charged and not bought_whole(found)


def test_where_it_is_not_measured_a_note_says_why_and_the_statement_is_bought_by_itself(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = ASKED[0]
    refused: list[tuple[dict[str, Any], str]] = [
        ({"reuse": False}, "whole = on needs reuse = on"),
        ({"backend": "laplace"}, "whole = on needs Gaussian noise"),
        ({"epsilon": 80}, "whole = on would take more than is left"),
    ]
    for more, words in refused:
        expected = session.explain(sql, **more)
        assert not expected.notes
        plan = session.explain(sql, whole="on", **more)
        assert (plan.price, plan.charged) == (expected.price, expected.charged)
        assert len(plan.notes) == 1 and plan.notes[0].startswith(words)
        assert not session.explain(sql, whole="auto", **more).notes
    monkeypatch.setattr(ski, "CELLS", 19)
    found = session.answer(sql, whole="on")
    (note,) = found.notes
    assert note == (
        "whole = on measures tables of at most 19 cells, and that of age, sex has 20: bought by "
        "itself"
    )


def test_a_pure_grant_buys_by_itself(path: Path) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=10, delta=0)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        found = session.answer(ASKED[0], whole="on")
        assert found.backend == "laplace" and "needs Gaussian noise" in found.notes[0]


def test_a_table_that_cannot_be_kept_answers_all_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise LedgerError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Releases, "keep", failing)
        found = session.answer(ASKED[1], rho=0.01, whole="on")
    assert bought_whole(found) and any("could not keep" in note for note in found.notes)
    assert found.charged == session.last_charge
    assert free(session.answer(ASKED[1], rho=0.01)), "this process has it"


def test_a_table_answers_where_earlier_releases_cannot_be_read_any_more(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.mechanisms.reuse.archive import Archive

    def failing(*_: object) -> None:
        raise LedgerError("gone")

    measure = Curator.measure

    def measured(*given: Any) -> Any:
        done = measure(*given)
        monkeypatch.setattr(Archive, "known", failing)
        return done

    monkeypatch.setattr(Curator, "measure", measured)
    found = session.answer(ASKED[1], rho=0.01, whole="on")
    assert bought_whole(found) and len(found.rows) == 2


def test_what_another_user_bought_is_read_before_a_table_is_measured(
    path: Path, ledger: Ledger, session: Session
) -> None:
    sql = ASKED[0]
    with Session(path, user="bob", ledger=ledger, settings={"reuse": True}) as other:
        other.answer(sql, rho=0.01)
    found = session.answer(sql, rho=0.01, whole="on")
    assert found.reused and not bought_whole(found)


def test_the_log_names_the_noise_of_the_table(session: Session, ledger: Ledger) -> None:
    session.answer(ASKED[0], rho=0.01, whole="on")
    entry = list(ledger.log("alice"))[-1]
    assert entry.statement == ASKED[0] and entry.event is not None
    assert entry.event["event"] == "gaussian" and entry.event["variance"] == "10"  # 50 by 5 cells


def test_units_of_many_rows_pay_for_the_table_what_their_rows_move(
    town: Any, crowd: Callable[..., list[Row]]
) -> None:
    head = 'unit = {column = "id", max_rows = 3}'
    path = town.database("units", crowd(90, 3), 'unit = "row"')
    import duckdb

    with duckdb.connect(str(path)) as made:
        made.execute("ALTER TABLE people ADD COLUMN id INT")
        made.execute("UPDATE people SET id = rowid // 3")
    schema = path.with_suffix(".toml")
    schema.write_text(schema.read_text().replace('unit = "row"', head))
    with Session(path, user="alice", ledger=town.ledger, settings={"reuse": True}) as session:
        plan = session.explain(ASKED[0], rho=0.01, whole="on")
        found = session.answer(ASKED[0], rho=0.01, whole="on")
        assert plan.charged == found.charged and bought_whole(found)
        assert found.stderr[0][0] == pytest.approx((9 / (2 * 0.01)) ** 0.5, rel=1e-3)
        assert found.price is not None and found.price.rho == pytest.approx(0.05, rel=1e-3)
        assert session.answer(ASKED[0], rho=0.01).rows == found.rows
