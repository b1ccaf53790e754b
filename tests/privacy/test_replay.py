"""Record and replay on neighbouring tables (arXiv:2602.17454).

The same statements are run on a table and on its neighbour, with the values released on the first
played back on the second. Everything that an analyst sees must then be equal, byte for byte, since
nothing but released values may carry the data; and no true answer may have moved by more than the
sensitivity that was paid for.
"""

from __future__ import annotations

import pytest

from dpsql.curator import norms
from dpsql.curator.columns import Moved
from dpsql.curator.sensitivity import Sensitivity
from dpsql.query import linear
from dpsql.session import build
from tests.privacy.house import Tape, charges, moves, one_key, people, rows, taped, told

STATEMENTS = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE age > 3 AND sex = 'F'",
    "SELECT COUNT(*) FROM people WHERE age = 7 AND smoker AND sex = 'M' AND hours = 4",
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
    "SELECT age, smoker, COUNT(*), COUNT(smoker) FROM people GROUP BY ALL",
    "SELECT sex, smoker, COUNT(*) FROM people GROUP BY CUBE(sex, smoker)",
    "SELECT sex, AVG(smoker::INT), AVG(age), COUNT(*) FROM people GROUP BY ROLLUP(sex)",
    "SELECT SUM(hours), SUM(age), AVG(hours), SUM(age - 5) FROM people WHERE sex <> 'M'",
    "SELECT STDDEV(age), VARIANCE(hours), VAR_POP(age * 2) FROM people",
    "SELECT AVG(age) FROM people WHERE age = 9 AND sex = 'F'",
    "SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING n > 3 ORDER BY n DESC LIMIT 4",
    "SELECT sex, COUNT(*) * 100.0 / COUNT(*) FILTER (WHERE age > 2) FROM people GROUP BY sex",
    "SELECT COUNT(*) - COUNT(smoker), ABS(COUNT(*) - 20), SQRT(COUNT(*)) FROM people",
    "SELECT COUNT(*) FROM people WHERE age < 4 UNION ALL SELECT SUM(age) FROM people",
    "SELECT COUNT(*) >= 20, CASE WHEN COUNT(*) > 10 THEN 'many' ELSE 'few' END FROM people",
    "SELECT COUNT(*) FROM people WHERE age = 55",
    "SELECT MIN(age) FROM people",
    "SELECT age FROM people",
    "SELECT COUNT(*) FROM people WHERE 10 // (age - 3) > 0",
    "SELECT COUNT(*) FROM people WHERE sex = 'X'",
    "SHOW BUDGET",
    "DESCRIBE people",
    "SELECT * FROM people LIMIT 0",
]
SETTINGS = [
    {},
    {"rho": 0.3, "clamp": True},
    {"epsilon": 0.7, "backend": "laplace", "intervals": True, "confidence": 0.9},
]

TABLE = rows(40, seed=50)
ONE = (3, "F", 7, 2.5, True)
OTHER = (3, "M", 2, 4.0, None)
OUTSIDE = (3, "X", 2, 4.0, None)
UNIT = [(5000, "F", 7, 2.5, True), (5000, "F", 7, 2.5, True), (5000, "M", 1, 0.0, None),
        (5000, "F", 7, 2.5, True), (5000, "F", 0, 4.0, False)]  # fmt: skip

PAIRS = {
    "a row more": ([*TABLE, ONE], TABLE, {}),
    "the only row": ([ONE], [], {}),
    "a row outside the domain": ([*TABLE, OUTSIDE], TABLE, {}),
    "a row for another": (
        [*TABLE, ONE], [*TABLE, OTHER], {"neighbours": "replace-one"},
    ),
    "a row for one outside": (
        [*TABLE, ONE], [*TABLE, OUTSIDE], {"neighbours": "replace-one"},
    ),
    "a unit of five rows, of which two count": (
        [*TABLE, *UNIT], TABLE, {"unit": '{column = "pid", max_rows = 2}'},
    ),
    "a unit of three equal rows": (
        [*TABLE, *UNIT[:2], UNIT[3]], TABLE, {"unit": '{column = "pid", max_rows = 3}'},
    ),
}  # fmt: skip


@pytest.fixture(params=PAIRS, scope="module")
def neighbours(request, tmp_path_factory):
    """Two tapes of the same statements on neighbours, what was told, what was charged."""
    first, second, declared = PAIRS[request.param]
    folder = tmp_path_factory.mktemp("neighbours")
    tapes, found = (Tape(), Tape()), []
    for table, tape in zip((first, second), tapes, strict=True):
        tape.noisy = tapes[0].noisy
        with pytest.MonkeyPatch.context() as patch:
            one_key(patch)
            taped(patch, tape)
            with people(folder, table, **declared) as session:
                seen = [told(session, STATEMENTS, **settings) for settings in SETTINGS]
                found.append((seen, charges(session.ledger)))
    return tapes, found


def test_the_same_released_values_tell_the_same(neighbours):
    """Rows, intervals, notes, plans, prices, refusals and the ledger (A13, A35, T15)."""
    (one, other), [first, second] = neighbours
    assert one.asked == other.asked
    assert first == second
    assert len(one.true) > 30


def test_no_true_answer_moves_by_more_than_was_paid_for(neighbours):
    tapes, [(_, ledger), _] = neighbours
    apart = moves(*tapes)
    assert len(apart) == len(ledger)
    for (squared, absolute, largest), (_, _, statement, event, *_) in zip(
        apart, ledger, strict=True
    ):
        match event["event"]:
            case "gaussian":
                assert squared <= event["sensitivity_squared"], statement
            case "laplace":
                assert absolute <= event["sensitivity"], statement
                assert largest <= event["largest"], statement


# -- tests of the tests: what is broken on purpose is seen ---------------------------------------


def replayed(folder, first, second, **declared):
    """What is told, and how far answers move and may move, on two tables."""
    tapes, seen, events = (Tape(), Tape()), [], []
    for table, tape in zip((first, second), tapes, strict=True):
        tape.noisy = tapes[0].noisy
        with pytest.MonkeyPatch.context() as patch, people(folder, table, **declared) as session:
            taped(patch, tape)
            seen.append(told(session, STATEMENTS))
            events = [event for _, _, _, event, *_ in charges(session.ledger)]
    allowed = [event["sensitivity_squared"] for event in events]
    over = [a for (a, _, _), most in zip(moves(*tapes), allowed, strict=True) if a > most]
    return seen[0] == seen[1], len(over)


def test_a_sensitivity_from_a_constant_is_seen(tmp_path, monkeypatch):
    """Law: sensitivity is computed. As if every statement were one count."""
    monkeypatch.setattr("dpsql.curator.sensitivity.one_cell", lambda workload: Moved(1, 1, 1))
    same, over = replayed(tmp_path, [*TABLE, ONE], TABLE)
    assert same and over >= 5


def test_rows_of_a_unit_that_are_not_multiplied_are_seen(tmp_path, monkeypatch):
    found = norms.one_cell

    def forgetful(workload, neighbours, max_rows):
        one = found(workload)
        return Sensitivity(one.squared, one.absolute, one.largest, one.exact)

    monkeypatch.setattr("dpsql.curator.quote.sensitivity", forgetful)
    one_key(monkeypatch)
    unit = '{column = "pid", max_rows = 3}'
    same, over = replayed(tmp_path, [*TABLE, *UNIT[:2], UNIT[3]], TABLE, unit=unit)
    assert same and over >= 5


def test_groups_taken_from_the_data_are_seen(tmp_path, monkeypatch):
    """A12: a group is left out when nobody is in it."""
    matvec = linear.Workload.matvec

    def present(workload, codes, counts):
        return [block[block.any(axis=1)] for block in matvec(workload, codes, counts)]

    monkeypatch.setattr(linear.Workload, "matvec", present)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        same, _ = replayed(tmp_path, [ONE], [])
        assert same


def test_true_values_that_leak_are_seen(tmp_path, monkeypatch):
    """Law: nothing true leaves. A note tells whether the count is even."""
    made, leak, matvec = build.Release, [""], linear.Workload.matvec

    def leaking(*args, **named):
        return made(*args, **{**named, "notes": (*named["notes"], leak[-1])})

    def seen(workload, codes, counts):
        leak.append(str(int(counts.sum()) % 2))
        return matvec(workload, codes, counts)

    monkeypatch.setattr(linear.Workload, "matvec", seen)
    monkeypatch.setattr(build, "Release", leaking)
    same, _ = replayed(tmp_path, [*TABLE, ONE], TABLE)
    assert not same
