"""The handed statements that must be answered: exactly, where noise vanishes."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest

from dpsql.query.expr import Slot, walk
from dpsql.release import Release
from dpsql.session import Session
from tests.cases.published import Published, cases
from tests.query.same import extra, plain, same

CASES = cases("accept.csv")
IDS = [case["id"] for case in CASES]
MANY = ("covid_tests", "pums_null")  # units of many rows, for which rho = 1000 leaves noise
NOTHING_SUMMED = {"edge_012"}  # SUM over no rows is 0 here, NULL in DuckDB


def handed() -> dict[str, list[dict[str, str | None]]]:
    """The rows of answers.csv, by case."""
    found: dict[str, dict[str, dict[str, str | None]]] = defaultdict(lambda: defaultdict(dict))
    for cell in cases("answers.csv"):
        value = None if cell["is_null"] else cell["value"]
        found[cell["query_id"]][cell["row"]][cell["column"]] = value
    return {query: list(rows.values()) for query, rows in found.items()}


HANDED = handed()


def expected(case: dict[str, str], published: Published) -> list[tuple[Any, ...]]:
    """DuckDB's answer, with 0 for a sum of nothing."""
    rows = published.truth(case["sql"])[2]
    if case["id"] in NOTHING_SUMMED:
        rows = [tuple(0 if value is None else value for value in row) for row in rows]
    return rows


def ordered(case: dict[str, str]) -> bool:
    return "ORDER BY" in case["sql"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_handed_answers_are_those_of_this_duckdb(
    case: dict[str, str], published: Published
) -> None:
    rows = published.truth(case["sql"])[2]
    shown = [tuple(_written(value) for value in row) for row in rows]
    listed = [tuple(_read(value) for value in row.values()) for row in HANDED[case["id"]]]
    assert extra(shown, listed, ordered=ordered(case)) == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_without_noise_the_answer_is_duckdbs(case: dict[str, str], published: Published) -> None:
    names, types, _ = published.truth(case["sql"])
    found = published.answer(case["table"], case["sql"])
    assert list(found.compiled.names) == names
    assert list(found.compiled.types) == types
    beside = extra(found.rows, expected(case, published), ordered=ordered(case))
    assert beside is not None, found.rows[:10]
    items = found.compiled.selects[0].bound.items
    for row in beside:  # groups that only the domain has
        for value, (item, _) in zip(row, items, strict=True):
            measured = any(isinstance(p, Slot) and p.name[0] == "a" for p in walk(item))
            assert not measured or value in (0, None), row


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_price_so_large_that_noise_vanishes_gives_duckdbs_answer(
    case: dict[str, str], published: Published, session: Session
) -> None:
    _is_duckdbs(case, published, session.answer(case["sql"], rho=1000))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_so_does_a_session_that_combines_it_with_earlier_answers(
    case: dict[str, str], published: Published, reusing: Session
) -> None:
    release = reusing.answer(case["sql"], rho=1000)
    _is_duckdbs(case, published, release)
    if case["table"] not in MANY and case["cls"] != "moment":  # a sum has noise left
        for row, errors in zip(release.rows, release.stderr, strict=True):
            counts = zip(row, errors, strict=True)
            assert not any(isinstance(value, int) and error for value, error in counts)


def _is_duckdbs(case: dict[str, str], published: Published, release: Release) -> None:
    names, types, _ = published.truth(case["sql"])
    assert list(release.columns) == names
    assert list(release.types) == types
    rest = list(range(len(release.rows)))
    for row in expected(case, published):
        at = next((i for i in rest if _near(release, i, row)), None)
        assert at is not None, (row, release.rows[:10])
        skipped = [i for i in rest if i < at] if ordered(case) else []
        assert all(_nothing(release, i) for i in skipped), skipped
        rest = [i for i in rest if i > at] if ordered(case) else [i for i in rest if i != at]
    assert all(_nothing(release, i) for i in rest), rest


def _nothing(release: Release, at: int) -> bool:
    """Whether a released row says that nobody is there: 0 within six standard errors, or NULL."""
    row = zip(release.rows[at], release.stderr[at], strict=True)
    return all(value is None or error is None or abs(value) <= 6 * error for value, error in row)


def _near(release: Release, at: int, row: tuple[Any, ...]) -> bool:
    """Whether a released row is a row of DuckDB's: exactly, or within six standard errors."""
    for found, error, true in zip(release.rows[at], release.stderr[at], row, strict=True):
        if same(found, true) or (found is None and _withheld(release)):
            continue
        if error is None or true is None or found is None:
            return False
        exact = error < 0.1 and isinstance(found, int)  # a count whose noise is rounded away
        if exact or not abs(float(found) - float(true)) <= 6 * error:
            return False
    return True


def _withheld(release: Release) -> bool:
    """Whether ratios of too few rows are NULL, which a unit of many rows makes likely."""
    return any("NULL: too few rows" in note for note in release.notes)


def _written(value: Any) -> Any:
    value = plain(value)
    return _read(str(value)) if isinstance(value, bool | str) else value


def _read(value: str | None) -> Any:
    """A cell of answers.csv, as `_written` has it."""
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return value.lower() if value in ("True", "False") else value
    return number if math.isfinite(number) else value
