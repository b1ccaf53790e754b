"""The handed statements that must be refused: in words to act on, and without any charge."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.errors import Refused
from dpsql.session import Session
from tests.cases.published import HERE, cases

CASES = cases("reject.csv")
IDS = [case["id"] for case in CASES]
TEXTS = {case["id"]: (case["reason"], case["hint"]) for case in cases("refusals.csv")}


def touched(path: Path) -> list[tuple[str, int, int]]:
    """Every file of a ledger, with its size and the time of its last change."""
    return sorted(
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in path.parent.glob(path.name + "*")
    )


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_it_is_refused_in_reviewed_words_and_charges_nothing(
    case: dict[str, str], session: Session
) -> None:
    dump, files = session.ledger.dump(), touched(session.ledger_place)
    with pytest.raises(Refused) as caught:
        session.answer(case["sql"], epsilon=0.1)
    assert (caught.value.reason, caught.value.hint) == TEXTS[case["id"]]
    assert session.ledger.dump() == dump
    assert touched(session.ledger_place) == files
    assert session.last_charge is None


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_it_has_no_plan_either(case: dict[str, str], session: Session) -> None:
    with pytest.raises(Refused):
        session.answer(f"EXPLAIN {case['sql']}", epsilon=0.1)


def test_every_text_of_a_refusal_belongs_to_a_case() -> None:
    assert set(TEXTS) == set(IDS)
    assert (HERE / "refusals.csv").exists()
