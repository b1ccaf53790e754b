"""Who has not paid for what others bought sees the same whatever came out of it.

A synopsis is bought twice on one table, with noise and choices as unlike as can be. Another user,
who pays nothing, then looks at all that is free: lists, plans of statements and scripts by any
backend, refusals, and what is left. All of it must be equal, or a purse would tell more than it
paid for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.curator import noise, select
from dpsql.errors import Error
from dpsql.mechanisms.reuse.kept import Kept
from dpsql.session import Session
from tests.privacy.trial import NAME, USER, rows, table

FEW = "SELECT race, rich, COUNT(*) FROM people GROUP BY ALL"
QUERIES = f"""{FEW};
SELECT COUNT(*) FROM people WHERE hours < 30 AND rich;
SELECT COUNT(*) FROM people WHERE hours < 30 AND race = 'Asian';
"""
MADE: dict[str, dict[str, Any]] = {
    "marginals": {"columns": ["race", "rich", "hours"]},
    "pmw": {"columns": ["race", "rich", "hours"], "method": "pmw", "ways": 1},
    "mwem": {"queries": QUERIES, "method": "mwem", "updates": 1},
    "smalldb": {"queries": FEW, "method": "smalldb", "size": 3},
}
ASKED = [
    FEW,
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE hours < 30 AND rich",
    "SELECT AVG(rich::INT) FROM people WHERE race = 'Asian' AND hours < 30",
]
WAYS: list[dict[str, Any]] = [
    {},
    {"rho": 0.6},  # more than the cap has left: only what was bought can be read
    {"backend": "synopsis"},
    {"backend": "synopsis", "strict": False},
    {"backend": "synopsis", "accuracy": 20.0},
    {"accuracy": 5.0, "whole": "on"},
]


def free(path: Path, made: dict[str, Any], sign: int) -> list[Any]:
    """What bob sees for nothing of what alice bought, whose noise and choices follow a sign."""
    ledger = Ledger.memory()
    for user in (USER, "bob"):
        ledger.grant(user, dataset=NAME, epsilon=20.0, cap=9)
    reuse = {"reuse": True}
    with pytest.MonkeyPatch.context() as patch:
        for law in ("gaussian", "laplace"):
            patch.setattr(noise, law, lambda scale, size: np.full(size, sign * 9, np.int64))
        patch.setattr(select, "exponential", lambda scores, scale: min(sign, 0) % len(scores))
        with Session(path, user=USER, ledger=ledger, settings=reuse) as alice:
            alice.synopses.create("main", rho=1.0, **made)
    with Session(path, user="bob", ledger=ledger, settings=reuse) as bob:
        seen: list[Any] = [row[:9] for row in bob.synopses.shown().rows]  # without the time
        told = bob.answer("SHOW SYNOPSIS main").rows
        seen += [row for row in told if row[1] != "bought by"]  # which has the time
        for sql in ASKED:
            seen += [attempt(bob.explain, sql, **way) for way in WAYS]
        seen.append(attempt(bob.explain_script, QUERIES))
        assert bob.last_charge is None and ledger.balance("bob", NAME).spent_rho == 0
        return [*seen, bob.budget().to_dict()]


def attempt(ask: Any, *given: Any, **named: Any) -> Any:
    try:
        return ask(*given, **named).to_dict()
    except Error as error:
        return str(error)


@pytest.fixture(scope="module")
def path(tmp_path_factory: Any) -> Path:
    return table(tmp_path_factory.mktemp("unpaid"), rows(60))


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_what_came_out_is_nothing_to_who_has_not_paid(made: dict[str, Any], path: Path) -> None:
    one, other = free(path, made, 1), free(path, made, -1)
    assert one == other


def test_choices_that_are_looked_at_before_they_are_paid_are_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test of the test: as if which tables were chosen in rounds were no secret."""
    monkeypatch.setattr(Kept, "fits", lambda kept, seq: kept.read(seq) is not None)
    one, other = free(path, MADE["mwem"], 1), free(path, MADE["mwem"], -1)
    assert one != other
