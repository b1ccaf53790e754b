"""Synopses of many columns, and of large ones: what is measured, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import UsageError
from dpsql.session import Session
from dpsql.session.synopses import held

FLAGS = [f"f{at}" for at in range(60)]
BIG = ["f0", "x", "y"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """60 flags, and two columns of 300 values."""
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as made:
        flags = ", ".join(f"i % {at + 2} = 0 AS {name}" for at, name in enumerate(FLAGS))
        made.execute(
            f"CREATE TABLE wide AS SELECT {flags}, i % 300 AS x, i % 299 AS y FROM range(5000) t(i)"
        )
    columns = "\n".join(f'{name} = {{type = "boolean"}}' for name in FLAGS)
    own = "\n".join(f'{name} = {{type = "integer", min = 0, max = 299}}' for name in ("x", "y"))
    path.with_suffix(".toml").write_text(
        'dataset = "wide"\nneighbours = "add-remove"\nunit = "row"\n'
        f'[source]\ntable = "wide"\n[columns]\n{columns}\n{own}\n'
    )
    with Ledger.memory() as ledger:
        ledger.grant("alice", dataset="wide", epsilon=10)
        with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as found:
            yield found


def test_what_learns_starts_with_single_columns_where_pairs_are_too_many(session: Session) -> None:
    made = session.synopses.create("main", FLAGS, method="pmw", rho=0.1)
    assert [row[:2] for row in made.rows] == [(name, 2) for name in FLAGS]
    assert made.backend == "pmw" and "with the rest of the price 10 that are" in made.notes[0]
    sql = "SELECT COUNT(*) FROM wide WHERE f0 AND f1"
    assert session.answer(sql, backend="synopsis").backend == "synopsis"


def test_what_learns_nothing_says_what_to_do_where_pairs_are_too_many(session: Session) -> None:
    before = session.ledger.dump()
    with pytest.raises(UsageError, match=r"1,830 tables, and at most 1,023 .* single columns"):
        session.synopses.create("main", FLAGS, rho=0.1)
    assert session.ledger.dump() == before
    assert len(session.synopses.create("main", FLAGS, ways=1, rho=0.1).rows) == 60


def test_tables_that_are_too_large_are_said_to_be_left_out(session: Session) -> None:
    made = session.synopses.create("main", BIG, rho=0.1, explain=True)
    assert [row[0] for row in made.rows] == ["f0", "x", "y", "f0, x", "f0, y"]
    assert made.notes[0] == "not measured, for over 65,536 cells each: the tables of x, y"
    (note, *_) = session.synopses.create("main", BIG, ways=3, rho=0.1, explain=True).notes
    assert note.endswith("the tables of x, y; f0, x, y")
    named = session.synopses.create("main", BIG, sets=[["f0", "x"]], rho=0.1, explain=True)
    assert not any("not measured" in note for note in named.notes)


def test_what_learns_can_start_with_the_tables_of_a_script(session: Session) -> None:
    made = session.synopses.create(
        "main", queries="SELECT COUNT(*) FROM wide WHERE f0 AND f1 AND x < 9", method="pmw", rho=1.0
    )
    assert made.rows[-1][:2] == ("f0, f1, x", 1200) and session.synopses.listed()[0].updates == 10
    with pytest.raises(UsageError, match="leave queries, sets and ways out"):
        session.synopses.create("other", queries="SELECT COUNT(*) FROM wide", method="holdout")


def test_who_has_a_name_that_is_taken_is_said(session: Session) -> None:
    session.synopses.create("main", BIG, rho=0.1)
    with pytest.raises(UsageError, match=r"which alice bought: .*, or drop it first"):
        session.synopses.create("main", BIG, rho=0.1)


def test_what_learns_may_have_columns_of_more_values_than_a_fit_that_grows(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 302 values: all columns are fitted, and it goes on learning."""
    monkeypatch.setattr(held, "FIRST", 200)
    session.synopses.create("main", ["f0", "x"], ways=1, method="pmw", rho=5.0)
    asked = {"backend": "synopsis", "strict": False}
    (row,) = session.answer("SELECT COUNT(*) FROM wide WHERE f0 AND x < 150", **asked).rows
    assert abs(row[0] - 1250) < 100
    sql = "SELECT COUNT(*) FROM wide WHERE f0 AND x IN (0, 2, 4, 6)"
    release = session.answer(sql, backend="synopsis")
    assert release.backend == "synopsis" and len(session.synopses.export("main", 50).rows) == 50
