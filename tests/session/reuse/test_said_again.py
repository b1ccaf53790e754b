"""What was bought at a price is said again at it, free: a CUBE answers all that is coarser."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.reuse.bought import _same
from dpsql.mechanisms.reuse.prints import Index, prints
from dpsql.query.canon import Family, families
from dpsql.release import Release
from dpsql.session import Session
from dpsql.session.reuse.wanted import AGAIN
from dpsql.session.scripts import planned

KEYS = ("sex", "region", "smoker")
VALUES: dict[str, tuple[object, ...]] = {
    "sex": ("female", "male"), "region": tuple("NESW"), "smoker": (True, False, None)
}  # fmt: skip
Told = dict[tuple[object, ...], tuple[object, ...]]


def open_(path: Path, ledger: Any, **settings: Any) -> Session:
    return Session(path, user="alice", ledger=ledger, settings={"reuse": True, **settings})


@pytest.fixture
def session(path: Path, town: Any) -> Iterator[Session]:
    with open_(path, town.ledger) as opened:
        yield opened


def cube(counted: str, keys: tuple[str, ...] = KEYS, more: str = "") -> str:
    listed = ", ".join(keys)
    return f"SELECT {listed}, {counted}{more} FROM town GROUP BY CUBE ({listed})"


def told(release: Release, keys: tuple[str, ...]) -> Told:
    """What was said of each group, by which keys it has and their values."""
    found, width = {}, len(keys)
    for row, errors, low, high in zip(
        release.rows, release.stderr, release.low, release.high, strict=True
    ):
        (*values, away) = row[: width + 1]
        name = tuple(
            (key, value)
            for at, (key, value) in enumerate(zip(keys, values, strict=True))
            if not int(str(away)) >> (width - 1 - at) & 1
        )
        found[name] = tuple(
            (row[at], errors[at], low[at], high[at]) for at in range(width + 1, len(row))
        )
    return found


def coarser(keys: tuple[str, ...], counted: str) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Every GROUP BY of some keys, and every filter on single groups of some of these: the
    statement, what it groups by, and what is fixed."""
    for size in range(len(keys) + 1):
        for some in itertools.combinations(keys, size):
            for fixed in itertools.chain.from_iterable(
                itertools.combinations(some, count) for count in range(size + 1)
            ):
                by = [key for key in some if key not in fixed]
                for values in itertools.product(*(VALUES[key] for key in fixed)):
                    parts = [
                        f"{key} IS NULL" if value is None else f"{key} = {value!r}"
                        for key, value in zip(fixed, values, strict=True)
                    ]
                    where = f" WHERE {' AND '.join(parts)}" if parts else ""
                    group = f" GROUP BY {', '.join(by)}" if by else ""
                    sql = f"SELECT {', '.join([*by, counted])} FROM town{where}{group}"
                    yield sql, tuple(by), tuple(zip(fixed, values, strict=True))


def check(session: Session, said: Told, keys: tuple[str, ...], counted: str, **price: Any) -> int:
    """That all that is coarser is free, as foretold, and says what was said; how many rows that
    is."""
    rows = 0
    for sql, by, fixed in coarser(keys, counted):
        plan, found = session.explain(sql, **price), session.answer(sql, **price)
        assert plan.charged is not None and found.charged is not None
        assert (plan.backend, found.backend) == ("reuse", "reuse"), sql
        assert plan.charged.rho == found.charged.rho == found.price.rho == 0.0, sql
        for row, errors, low, high in zip(
            found.rows, found.stderr, found.low, found.high, strict=True
        ):
            group = {**dict(zip(by, row, strict=False)), **dict(fixed)}
            name = tuple((key, group[key]) for key in keys if key in group)
            for at, (value, error, bottom, top) in enumerate(said[name], len(by)):
                assert row[at] == value, (sql, name)
                assert errors[at] == pytest.approx(error, rel=5e-3), (sql, name)
                assert (low[at], high[at]) == pytest.approx((bottom, top), rel=1e-9), (sql, name)
                rows += 1
    return rows


COUNTED = ["COUNT(*) AS n", "AVG(age) AS a", "STDDEV(age) AS d, SUM(age) AS s"]


@pytest.mark.parametrize("counted", COUNTED)
def test_all_that_is_coarser_than_a_cube_is_free_and_says_what_it_said(
    session: Session, counted: str
) -> None:
    """At the default price, which would buy each of them less error by itself."""
    keys = KEYS if counted == COUNTED[0] else KEYS[1:]
    bought = session.answer(cube(f"GROUPING_ID({', '.join(keys)}) AS away, {counted}", keys))
    assert bought.charged is not None and bought.charged.rho > 0
    assert check(session, told(bought, keys), keys, counted) > 40
    again = session.explain(f"SELECT {counted} FROM town")
    alone = session.explain(f"SELECT {counted} FROM town", reuse=False)
    assert AGAIN in again.notes and AGAIN not in alone.notes, "it could not fail"


def test_under_a_pure_grant_too(path: Path) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=50, delta=0)
    counted, keys = "COUNT(*) AS n", KEYS[:2]
    with open_(path, ledger) as session:
        said = told(
            session.answer(cube(f"GROUPING_ID(sex, region) AS away, {counted}", keys)), keys
        )
        assert check(session, said, keys, counted) > 20
        dearer = session.answer("SELECT COUNT(*) AS n FROM town", epsilon=0.6)
        assert dearer.charged is not None and 0.0 < dearer.charged.epsilon < 0.6
        # beside what the CUBE says of it; 0.6 was paid now, and 0.9 was not
        assert spent(session, "SELECT COUNT(*) AS n FROM town", epsilon=0.6) == 0.0
        assert spent(session, "SELECT COUNT(*) AS n FROM town", epsilon=0.9) > 0.0


def spent(session: Session, sql: str, **asked: Any) -> float:
    """What a statement takes, as EXPLAIN tells before."""
    plan = session.explain(sql, **asked)
    found = session.answer(sql, **asked)
    assert plan.charged is not None and plan.charged == found.charged
    return found.charged.epsilon


def test_sums_of_groups_agree_and_a_higher_price_or_an_accuracy_buys(session: Session) -> None:
    said = {row[:3]: row[3] for row in session.answer(cube("COUNT(*) AS n"), rho=0.01).rows}
    free = "SELECT COUNT(*) AS n FROM town WHERE region IN ('N', 'E')"
    # a sum of groups was not asked: it goes by what it errs
    north = session.answer(free, rho=0.001)
    assert north.charged is not None and north.charged.rho == 0.0
    assert north.rows[0][0] == said[None, "N", None] + said[None, "E", None]
    by_sex = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    plan = session.explain(by_sex, rho=0.01)
    assert AGAIN in plan.notes and plan.stderr[0][1] is not None
    narrow = session.explain(by_sex, accuracy=1.9 * plan.stderr[0][1] / 2)
    assert narrow.charged is not None and narrow.charged.rho > 0.0
    dearer = session.answer(by_sex, rho=0.0101)
    assert dearer.charged is not None and 0.0 < dearer.charged.rho < 0.0101
    assert spent(session, by_sex, rho=0.0101) == spent(session, by_sex, rho=0.01) == 0.0
    afresh = session.answer(by_sex, rho=0.01, reuse=False)
    assert afresh.charged is not None and afresh.charged.rho > 0.009


def test_what_was_bought_twice_counts_as_both(session: Session) -> None:
    """A CUBE that is topped up, or bought in two statements."""
    for rho in (0.01, 0.02):
        bought = session.answer(cube("COUNT(*) AS n"), rho=rho)
        assert bought.charged is not None and bought.charged.rho == pytest.approx(rho, rel=1e-3)
    for some, rho, free in (("sex", 0.03, True), ("region", 0.031, False), ("smoker", 0.03, True)):
        by = f"SELECT {some}, COUNT(*) AS n FROM town GROUP BY {some}"
        assert (spent(session, by, rho=rho) == 0.0) == free


def test_statements_of_a_script_are_free_later_in_other_words_and_another_process(
    path: Path, tmp_path: Path
) -> None:
    """And cells that were asked one by one are free as one GROUP BY, which costs what one does."""
    place = tmp_path / "a.ledger"
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="town", epsilon=3)
    script = f"""{cube("COUNT(*) AS n", KEYS[:2])};
        SELECT month, AVG(age) AS a FROM town GROUP BY month"""
    with open_(path, place) as session:
        bought = session.run(script, rho=0.01)
        first = dict(zip(*zip(*bought[1].rows, strict=True), strict=True))
    with open_(path, place) as session:
        assert spent(session, "SELECT AVG(age) AS x FROM town WHERE 6 = month", rho=0.01) == 0.0
        mean = session.answer("SELECT AVG(age) AS x, month AS m FROM town GROUP BY 2", rho=0.01)
        assert {m: x for x, m in mean.rows} == first and mean.reused
        words = "SELECT SUM(1) FROM town WHERE NOT (sex <> 'male' OR region <> 'N')"
        found = session.answer(words, rho=0.01)
        assert found.rows[0][0] == {row[:2]: row[2] for row in bought[0].rows}["male", "N"]
        assert found.charged is not None and found.charged.rho == 0.0
        # a part of the script, as a script at its price
        plan = session.explain_script(script.split(";")[0], rho=0.01)
        assert plan.charged is not None and plan.charged.rho == 0.0
        assert AGAIN in plan.plans[0].notes
        for k in (0, 1):
            session.answer(f"SELECT COUNT(*) FROM town WHERE age // 5 = {k}", rho=0.002)
        by_age = "SELECT age // 5 AS k, COUNT(*) AS n FROM town GROUP BY k"
        assert spent(session, by_age, rho=0.002) == 0.0


def test_a_mixed_script_names_the_backends_of_its_releases(session: Session) -> None:
    by_sex = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
    later = """SELECT region, COUNT(*) AS n FROM town GROUP BY region;
        SELECT month, COUNT(*) AS n FROM town GROUP BY month;
        SELECT COUNT(*) AS n FROM town WHERE age = 3 AND smoker"""
    backends = set[str]()
    for script, rho in ((by_sex, 0.02), (f"{later};{by_sex}", 0.01), (f"{by_sex};{later}", 0.04)):
        plan = session.explain_script(script, rho=rho)
        found = session.run(script, rho=rho)
        assert [one.backend for one in plan.plans] == [one.backend for one in found]
        backends.update(one.backend for one in found)
        for one, release in zip(plan.plans, found, strict=True):
            combined = any("combined with" in note for note in one.notes)
            assert combined == any("combined with" in note for note in release.notes)
    assert backends >= {"gaussian", "reuse", "factorization + reuse"}, "it could not fail"


def test_equal_queries_are_found_and_others_are_not(session: Session) -> None:
    """In a family of whatever other groups; by brute force over all cells of the columns."""

    def family(sql: str) -> Family:
        from dpsql.session.asked import statement

        _, compiled = session._compile(statement(sql), None)
        assert compiled is not None
        found = families(compiled.workload)[0][0]
        assert found is not None
        return found

    asked = family("SELECT region, SUM(age) FROM town WHERE sex = 'male' GROUP BY region")
    for sql, expected in {
        "SELECT sex, region, SUM(age) FROM town GROUP BY sex, region": 4,
        "SELECT sex, region, SUM(2 * age) FROM town WHERE region < 'S' GROUP BY ALL": 2,
        "SELECT sex, region, SUM(-3 * age) FROM town GROUP BY ALL": 4,
        "SELECT region, SUM(CASE WHEN sex = 'male' THEN age ELSE -age END) FROM town GROUP BY 1": 0,
        "SELECT region, SUM(age) FROM town GROUP BY region": 0,
        "SELECT sex, region, COUNT(*) FROM town GROUP BY sex, region": 0,
        "SELECT sex, region, SUM(age + 1) FROM town GROUP BY sex, region": 0,
        "SELECT sex, region, smoker, SUM(age) FROM town GROUP BY ALL": 0,
        "SELECT CASE WHEN sex = 'male' THEN region ELSE 'x' END AS k, SUM(age) FROM town"
        " GROUP BY k": 4,
    }.items():  # fmt: skip
        own = family(sql)
        assert int(_same(own, asked).sum()) == expected, sql
        index = Index()
        index.add(1, [own])
        assert index.find(prints(asked)) == ([(1, 0)] if expected == 4 else []), sql


def test_what_is_left_of_a_script_is_finer_than_it_has_to_be_by_more_than_floats_round(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that just does would be sold again where the same sum, added otherwise, is larger."""
    tried = list[tuple[float, float]]()
    as_fine = planned._as_fine

    def seen(rest: Any, bought: Any, *terms: Any) -> Any:
        finer = as_fine(rest, bought, *terms)
        tried.append(
            tuple(
                max(one.over(noises) for one, noises in zip(bought, made.noises, strict=True))
                for made in (rest, finer or rest)
            )
        )
        return finer

    monkeypatch.setattr(planned, "_as_fine", seen)
    script = [
        "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex",
        "SELECT SUM(age) AS s FROM town",
        "SELECT AVG(age) AS a, COUNT_IF(age < 5) AS n FROM town WHERE smoker",
    ]
    session.answer(script[2], rho=0.025)
    found = session.run(";\n".join(script), rho=0.01, objective="largest")
    assert [release.reused for release in found] == [False, False, True], "it could not fail"
    ((first, then),) = tried
    assert first > 1.0, "it could not fail"
    assert 1.0 - 1e-5 < then < 1.0 - 1e-8
    again = session.run(";\n".join(script), rho=0.01, objective="largest")
    assert all(release.charged is not None and release.charged.rho == 0 for release in again)
    assert [release.rows for release in again] == [release.rows for release in found]
