"""A script costs once: run again at once, and after others were bought, and in another session."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.release import Release
from dpsql.session import Session
from tests.cases.published import cases

PER = 8  # statements in a script, of which half are those of the script before
SCHEMAS = Path(__file__).parents[2] / "schemas"


def told(releases: list[Release]) -> list[object]:
    return [(release.rows, release.stderr) for release in releases]


def free(releases: list[Release]) -> bool:
    return all(each.charged is not None and each.charged.rho == 0.0 for each in releases)


@pytest.mark.parametrize(
    ("name", "rho", "scripts"),
    [
        ("adult", 2.0, 3),  # the parts of a strategy, and a count of nobody
        ("adult", 50.0, 3),
        ("yrbss", 2.0, 3),  # what is rounded in more places when more is known
        ("titanic", 50.0, 6),
        ("cps", 50.0, 5),  # a strategy errs less than a repeat, but for its rounding
    ],
)
def test_scripts_that_overlap_are_free_when_they_are_run_again(
    database: Path, name: str, rho: float, scripts: int
) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset=name, epsilon=1e7)
    listed = [case["sql"] for case in cases("accept.csv") if case["table"] == name]

    def opened() -> Session:
        schema = SCHEMAS / f"{name}.toml"
        return Session(
            database, schema=schema, user="alice", ledger=ledger, settings={"reuse": True}
        )

    texts = [
        ";\n".join((listed[start:] + listed[:start])[:PER])
        for start in range(0, scripts * PER // 2, PER // 2)
    ]
    bought = 0
    with opened() as session:
        for text in texts:
            first = session.run(text, rho=rho)
            bought += not free(first)
            plan, second = session.explain_script(text, rho=rho), session.run(text, rho=rho)
            assert free(second) and plan.price.rho == 0.0, text
            assert told(second) == told(first)
        assert bought > 1, "it could not fail"
        last = [session.run(text, rho=rho) for text in texts]
        assert all(map(free, last))
    with opened() as other:
        for text, before in zip(texts, last, strict=True):
            again = other.run(text, rho=rho)
            assert free(again) and told(again) == told(before)
