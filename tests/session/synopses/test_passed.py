"""What passed a gate is said again, and what a far guess of a large table teaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.session import Session
from dpsql.session.synopses import taught
from tests.session.synopses.test_synopsis import COLUMNS, FAR, filled, opened, spent, within


@pytest.fixture
def uneven(town: Any) -> Iterator[Session]:
    """Sex follows from region: a distribution of single columns is far off."""
    with opened(town, filled(town, "b", "i % 4 < 2", "i % 4")) as found:
        yield found


def test_guesses_that_passed_are_foretold_as_they_are_said_again(uneven: Session) -> None:
    """Within the same interval, though their gate is closed since, and all updates are spent."""
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=1)
    near = ["SELECT COUNT(*) AS n FROM town WHERE region = 'N' AND smoker", "SELECT COUNT(*) AS n"
            " FROM town WHERE age = 3 AND smoker", "SELECT COUNT(*) AS n FROM town WHERE age = 3"
            " AND smoker AND region IN ('E', 'S')"]  # fmt: skip
    first = {sql: uneven.answer(sql, backend="synopsis") for sql in near}
    for far in (FAR, None):
        for sql in near[::-1]:
            plan = uneven.explain(sql, backend="synopsis")
            again = uneven.answer(sql.replace(" AND ", "  AND "), backend="synopsis")
            assert again.charged == plan.charged and again.charged.rho == 0, plan.notes
            assert (again.rows, again.low, again.high) == (
                first[sql].rows, first[sql].low, first[sql].high,
            )  # fmt: skip
            assert plan.stderr == again.stderr
            assert any("passed a gate" in note for note in plan.notes)
        if far is not None:
            assert "has learnt it" in str(uneven.answer(far, backend="synopsis").notes)
    assert not uneven._learned.gates and not uneven.synopses.listed()[0].updates
    fresh = uneven.explain(near[0].replace("'N'", "'E'"), backend="synopsis")
    assert "no updates left" in fresh.notes[0] and fresh.charged.rho > 0


def test_auto_says_what_passed_where_it_is_as_near_as_what_would_be_bought(
    town: Any, uneven: Session
) -> None:
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=1)
    sql = "SELECT COUNT(*) AS n FROM town WHERE region = 'N' AND smoker"
    unasked = uneven.explain(sql, rho=1e-5)
    assert unasked.backend == "gaussian"  # no gate is bought for it
    first, paid = uneven.answer(sql, backend="synopsis"), spent(uneven)
    wide: tuple[dict[str, Any], ...] = ({"rho": 1e-5}, {"accuracy": 5_000})
    for given in wide:
        plan, told = uneven.explain(sql, **given), uneven.answer(sql, **given)
        assert plan.backend == told.backend == "synopsis"
        assert plan.charged == told.charged and told.charged.rho == 0
        assert (told.rows, told.low, told.high) == (first.rows, first.low, first.high)
        assert plan.stderr == told.stderr and any("passed a gate" in n for n in plan.notes)
    assert spent(uneven) == paid
    for given in ({"reuse": False, **wide[0]}, {"postprocess": "projection", **wide[0]}):
        assert uneven.explain(sql, **given).backend == "gaussian"
    with opened(town, uneven.database) as other:  # which has seen nothing pass
        assert other.explain(sql, **wide[0]).backend == "gaussian"
    for given in ({"rho": 1.0}, {"accuracy": 3}):
        assert uneven.explain(sql, **given).backend == "gaussian"
    assert uneven.answer(sql, rho=1.0).backend == "gaussian"
    assert uneven.answer(sql, **wide[0]).backend == "reuse"  # what was bought is nearer


@pytest.mark.parametrize(
    "sql",
    [
        FAR,
        "SELECT COUNT(*) AS n FROM town WHERE (sex = 'male') = (region IN ('N', 'E'))",
        "SELECT sex, COUNT(*) AS n FROM town WHERE region = 'N' GROUP BY sex",
    ],
)
def test_where_the_table_is_too_large_what_the_question_tells_apart_is_learnt(
    uneven: Session, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """As of columns of very many values: at the price of the question alone."""
    monkeypatch.setattr(taught, "CELLS", 4)  # sex by region has 8
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4)
    paid = spent(uneven)
    plan = uneven.explain(sql, backend="synopsis")
    assert any("buys a table of 4 cells, which tell of region, sex" in note for note in plan.notes)
    answer = uneven.answer(sql, backend="synopsis")
    (synopsis,) = uneven.synopses.listed()
    assert synopsis.updates == 3 and len(synopsis.charges) == 2 and within(answer)
    items = [item for *_, item in uneven.synopses.described("main").rows]
    assert "sex, region: 4 cells, which a question told apart" in items
    assert "has learnt it" in str(answer.notes) and spent(uneven) - paid <= synopsis.rho + 1
    truth = {"male": 5_000, "female": 0, "n": 20_000 if "=" in sql and "(sex" in sql else 5_000}
    for row in answer.rows:
        assert abs(row[-1] - truth[row[0] if len(row) > 1 else "n"]) < 100
    paid = spent(uneven)
    assert uneven.answer(sql, backend="synopsis").charged.rho == 0
    guess = uneven.answer(FAR + " AND age = 3", backend="synopsis", strict=False).rows[0][0]
    assert abs(guess - 500) < 100 or "(sex" in sql  # by the distribution, which has learnt it
    assert spent(uneven) == paid
