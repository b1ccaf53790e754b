"""Neighbouring tables are told apart by released values alone, whatever is asked, and no further.

All that an analyst sees of a table and of its neighbour must be equal when the same is released:
questions, workloads, plans, releases, notes, errors, charges. And the noise that had to be moved
for that is what the neighbour could see, so it must lie within the sensitivity that was charged.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from dpsql.accounting.events import Laplace, from_dict
from dpsql.curator import mixed, norms
from dpsql.curator.columns import Moved
from dpsql.curator.sensitivity import Sensitivity
from dpsql.query import linear
from dpsql.query.strategy import Residuals
from dpsql.session import build
from tests.privacy.transcript import ANALYSTS, PAIRS, Outcome, Question, bisecting, both, within


@pytest.fixture(scope="module", params=[(p, a) for p in PAIRS for a in ANALYSTS], ids=str)
def replayed(request, tmp_path_factory):
    """A pair of neighbours, an analyst, what was seen of both tables, and the tapes."""
    pair, analyst = request.param
    return pair, analyst, *both(tmp_path_factory.mktemp("pair"), pair, ANALYSTS[analyst])


def test_neighbours_are_told_apart_by_released_values_alone(replayed):
    """Law 1, T15, A35: the same values lead to the same questions, plans, notes and charges."""
    _, analyst, (one, other), tapes = replayed
    for seen, again in zip(one[0], other[0], strict=True):
        assert seen == again
    assert one[1] == other[1]
    assert len(tapes[0].true) == len(one[1]) >= 5
    assert tapes[0].workloads == tapes[1].workloads
    assert tapes[0].released == tapes[1].released
    assert ("BudgetExceeded" in str(one[0])) == (analyst in ("drilling", "probing"))


def test_no_true_answer_moves_by_more_than_was_charged_for(replayed):
    """Law 3, whatever the analyst's path."""
    pair, _, (one, _), tapes = replayed
    events = [from_dict(charge[4]) for charge in one[1]]
    for event, true, near in zip(events, tapes[0].true, tapes[1].true, strict=True):
        assert within(event, true, near)
    moved = sum(a != b for a, b in zip(tapes[0].true, tapes[1].true, strict=True))
    assert (moved > 0) == (pair != "a row outside the domain")


def test_a_pure_purse_is_told_apart_by_released_values_alone(tmp_path):
    (one, other), tapes = both(tmp_path, "one row more", bisecting, epsilon=4.0, delta=0.0)
    assert one == other
    for charge, true, near in zip(one[1], tapes[0].true, tapes[1].true, strict=True):
        assert isinstance(event := from_dict(charge[4]), Laplace)
        assert within(event, true, near)


REACHING = ("one row more", "a row replaced by one outside", "a unit of three equal rows")


@pytest.mark.parametrize("pair", REACHING)
def test_the_sensitivity_that_is_charged_is_reached(pair, tmp_path):
    """These neighbours are as far apart as can be: any smaller sensitivity would be seen."""

    given = {"rho": 0.01, "backend": "gaussian"}

    def plainly() -> Generator[Question, Outcome, None]:
        yield "SELECT COUNT(*) FROM people", given
        yield "SELECT SUM(age), SUM(hours) FROM people", given
        yield "SELECT race, COUNT(*) FROM people GROUP BY CUBE (race)", given
        if "outside" not in pair:  # where a row has to go to the other end of both means
            yield "SELECT AVG(hours), AVG(rich), COUNT(*) FROM people", given

    (one, _), tapes = both(tmp_path, pair, plainly)
    assert len(one[1]) >= 3
    for charge, true, near in zip(one[1], *(tape.true for tape in tapes), strict=True):
        moved = sum((a - b) ** 2 for a, b in zip(true, near, strict=True))
        assert charge[4]["sensitivity_squared"] == moved


@pytest.mark.parametrize("pair", [pair for pair in REACHING if "replaced" not in pair])
def test_what_is_charged_for_a_strategy_is_nearly_reached(pair, tmp_path):
    """A strategy treats all rows nearly alike, so that these are nearly the farthest apart."""

    def planned() -> Generator[Question, Outcome, None]:
        yield "SELECT race, COUNT(*) FROM people GROUP BY CUBE (race)", {"rho": 0.01}
        yield "SELECT COUNT(*), COUNT_IF(age > 40), COUNT_IF(age > 60) FROM people", {"rho": 0.01}
        yield "SELECT race, hours, COUNT(*) FROM people GROUP BY CUBE (race, hours)", {"rho": 0.01}

    (one, _), tapes = both(tmp_path, pair, planned)
    assert len(one[1]) == 3
    for charge, true, near in zip(one[1], *(tape.true for tape in tapes), strict=True):
        moved = sum((a - b) ** 2 for a, b in zip(true, near, strict=True))
        assert 0.8 * charge[4]["sensitivity_squared"] <= moved <= charge[4]["sensitivity_squared"]


# -- tests of the tests: what is broken on purpose is seen ---------------------------------------


def seen(folder, pair):
    """Whether a list of questions tells the same of two tables, and how many answers move by more
    than was charged for."""
    (one, other), tapes = both(folder, pair, ANALYSTS["listing"])
    events = [from_dict(charge[4]) for charge in one[1]]
    moved = zip(events, tapes[0].true, tapes[1].true, strict=True)
    return one == other, sum(not within(*answers) for answers in moved)


def test_nothing_is_seen_when_nothing_is_broken(tmp_path):
    assert seen(tmp_path, "one row more") == (True, 0)


def test_a_strategy_whose_matrix_is_forgotten_is_seen(tmp_path, monkeypatch):
    """As if A W e_x were a quarter as long as it is."""
    found = mixed.reach

    def forgotten(strategy, dataset):
        moved = found(strategy, dataset)
        return moved._replace(squared=moved.squared >> 4, parts=tuple(n >> 4 for n in moved.parts))

    monkeypatch.setattr(mixed, "reach", forgotten)
    same, over = seen(tmp_path, "one row more")
    assert same and over > 0


def test_residual_tables_whose_scale_is_forgotten_are_seen(tmp_path, monkeypatch):
    """As if a row were counted in one of the tables alone."""
    found = Residuals.scale.fget
    monkeypatch.setattr(Residuals, "scale", property(lambda part: found(part) // len(part.sets)))
    same, over = seen(tmp_path, "one row more")
    assert same and over >= 2


def test_a_sensitivity_from_a_constant_is_seen(tmp_path, monkeypatch):
    """Law: sensitivity is computed. As if every statement were one count."""
    monkeypatch.setattr("dpsql.curator.sensitivity.one_cell", lambda workload: Moved(1, 1, 1))
    same, over = seen(tmp_path, "one row more")
    assert same and over >= 5


def test_rows_of_a_unit_that_are_not_multiplied_are_seen(tmp_path, monkeypatch):
    found = norms.one_cell

    def forgetful(workload, neighbours, max_rows):
        one = found(workload)
        return Sensitivity(one.squared, one.absolute, one.largest, one.exact)

    monkeypatch.setattr("dpsql.curator.quote.sensitivity", forgetful)
    same, over = seen(tmp_path, "a unit of three equal rows")
    assert same and over >= 5


def test_groups_taken_from_the_data_are_seen(tmp_path, monkeypatch):
    """A12: a group is left out when nobody is in it."""
    matvec = linear.Workload.matvec

    def present(workload, codes, counts):
        return [block[block.any(axis=1)] for block in matvec(workload, codes, counts)]

    monkeypatch.setattr(linear.Workload, "matvec", present)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        same, _ = seen(tmp_path, "a first row")
        assert same


def test_true_values_that_leak_are_seen(tmp_path, monkeypatch):
    """Law: nothing true leaves. A note tells whether the count is even."""
    made, leak, matvec = build.Release, [""], linear.Workload.matvec

    def leaking(*args, **named):
        return made(*args, **{**named, "notes": (*named["notes"], leak[-1])})

    def looked(workload, codes, counts):
        leak.append(str(int(counts.sum()) % 2))
        return matvec(workload, codes, counts)

    monkeypatch.setattr(linear.Workload, "matvec", looked)
    monkeypatch.setattr(build, "Release", leaking)
    same, _ = seen(tmp_path, "one row more")
    assert not same
