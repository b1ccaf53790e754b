"""A reusable holdout: training rows answer while they agree with the private table, which is asked
and paid where they do not."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.errors import Refused, UsageError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.session import Session
from dpsql.session.asked import named
from tests.session.conftest import SCHEMA

COLUMNS = ["sex", "region", "age", "smoker"]
ASKED: dict[str, Any] = {"backend": "synopsis"}
NEAR = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"
FAR = "SELECT COUNT(*) AS n FROM town WHERE smoker AND age < 5"
ROWS, SOME = 19_200, 3_600  # of the private table, and of the public one: whole rounds of 120


def schemas(path: Path, more: str = "") -> list[Path]:
    """Of the private table, and of the public one beside it in the same database."""
    public = path.with_name("train.toml")
    text = SCHEMA.format(head='unit = "row"\npublic = true')
    public.write_text(text.replace('"town"', '"train"').replace('"people"', '"training"') + more)
    return [path.with_suffix(".toml"), public]


@pytest.fixture
def path(town: Any) -> Path:
    """Both alike but for smokers: none of the training rows is one who is young."""
    made: Path = town.database("a", [])
    for table, count, young in (("people", ROWS, "i % 2 = 0"), ("training", SOME, "false")):
        with duckdb.connect(str(made)) as database:
            if table == "training":
                database.execute("CREATE TABLE training AS FROM people LIMIT 0")
            database.execute(
                f"INSERT INTO {table} SELECT CASE WHEN i % 3 = 0 THEN 'male' ELSE 'female' END,"
                " 'NESW'[1 + i // 3 % 4], i // 12 % 10, 1 + i % 12,"
                f" CASE WHEN i // 12 % 10 < 5 THEN {young} ELSE i % 7 = 0 END"
                f" FROM range({count}) r(i)"
            )
    return made


@pytest.fixture
def session(town: Any, path: Path) -> Iterator[Session]:
    with Session(
        path, schema=schemas(path), user="alice", ledger=town.ledger, settings={"reuse": True}
    ) as found:
        yield found


def made(session: Session, **given: Any) -> Any:
    given = {"rho": 1.0, "updates": 4, "training": "train", **given}
    return session.synopses.create("held", COLUMNS, method="holdout", **given)


def spent(session: Session) -> int:
    return session.ledger.balance(session.user, "town").spent_rho


def test_the_private_dataset_is_meant_and_of_two_one_is_named(session: Session) -> None:
    assert session.synopses.listed() == session.synopses.listed("town")
    assert session.budget() == session.budget("town")
    both = dict(session.datasets)
    assert named(both, None).name == "town"
    both["train"] = dataclasses.replace(both["train"], public=False)
    with pytest.raises(UsageError, match=r"--dataset, or dataset=\): one of town, train"):
        named(both, None)


def test_it_costs_the_number_of_rows_as_was_foretold(session: Session) -> None:
    before = session.ledger.dump()
    foretold = made(session, explain=True)
    assert session.ledger.dump() == before and session.synopses.listed("town") == []
    found = made(session)
    assert found.rows == foretold.rows and found.charged == foretold.charged
    assert found.rows[0][:3] == ("sex, region, age, smoker", "train", SOME)
    assert spent(session) == round(found.charged.rho * 1e12) == pytest.approx(0.15e12, rel=1e-5)
    (entry,) = [e for e in session.ledger.log("alice") if e.kind == "charge"]
    assert entry.statement == (
        "CREATE SYNOPSIS held ON town (sex, region, age, smoker) BY HOLDOUT AGAINST train"
    )


def test_all_training_rows_count_whatever_the_unit_of_their_table(town: Any, path: Path) -> None:
    """It is public: there is nobody to bound."""
    listed = schemas(path)
    text = listed[1].read_text()
    listed[1].write_text(text.replace('unit = "row"', 'unit = {column = "sex", max_rows = 1}'))
    with Session(path, schema=listed, user="alice", ledger=town.ledger) as session:
        assert made(session).rows[0][2] == SOME


def test_while_the_training_rows_agree_they_answer_free(session: Session) -> None:
    made(session)
    paid = spent(session)
    plan = session.explain(NEAR, **ASKED)
    first = session.answer(NEAR, **ASKED)
    assert first.charged == plan.charged and spent(session) > paid, "a gate"
    assert abs(first.rows[0][0] - ROWS / 12) < 100
    assert first.low[0][0] <= ROWS / 12 <= first.high[0][0]
    paid = spent(session)
    for sql in (
        NEAR,
        "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex",
        "SELECT AVG((sex = 'male')::INT) AS share FROM town WHERE age < 3",
    ):
        found = session.answer(sql, **ASKED)
        assert found.backend == "synopsis" and found.charged is not None
        assert found.charged.rho == 0 and spent(session) == paid
    assert found.rows[0][0] == pytest.approx(1 / 3, abs=0.01)
    assert found.low[0][0] <= 1 / 3 <= found.high[0][0]


def test_where_they_mislead_the_private_table_answers_and_is_paid(session: Session) -> None:
    made(session)
    paid = spent(session)
    plan = session.explain(FAR, **ASKED)
    assert any("buys its answer" in note for note in plan.notes)
    found = session.answer(FAR, **ASKED)
    assert abs(found.rows[0][0] - ROWS / 4) < 60, "and not the 0 of the training rows"
    assert any("training rows were far off" in note for note in found.notes)
    (synopsis,) = session.synopses.listed("town")
    assert found.charged is not None and synopsis.updates == 3
    assert spent(session) - paid == round(found.charged.rho * 1e12) <= synopsis.rho + 1
    paid = spent(session)
    again = session.answer(FAR, **ASKED)
    assert (again.rows, again.low) == (found.rows, found.low) and spent(session) == paid
    part = FAR + " AND sex = 'male'"  # nothing was learnt of it: this is far off, too
    assert abs(session.answer(part, **ASKED).rows[0][0] - ROWS / 12) < 60
    assert session.synopses.listed("town")[0].updates == 2


@pytest.mark.parametrize("durable", [False, True])
def test_the_training_rows_outlast_what_was_bought(
    path: Path, town: Any, durable: bool, tmp_path: Path
) -> None:
    """In another process, once an answer was bought, and the public table is gone."""
    ledger: Any = town.ledger
    if durable:
        ledger = tmp_path / "held.ledger"
        with dpsql.Ledger.open(ledger) as made_first:
            made_first.grant("alice", dataset="town", epsilon=100)
    given: dict[str, Any] = {"user": "alice", "ledger": ledger, "settings": {"reuse": True}}
    with Session(path, schema=schemas(path), **given) as first:
        made(first)
        first.answer(FAR, **ASKED)
        near = first.answer(NEAR, **ASKED)
    with Session(path, schema=[path.with_suffix(".toml")], **given) as other:
        assert other.answer(NEAR, **ASKED).rows == near.rows


def test_an_analyst_who_fits_the_training_rows_is_not_fooled(town: Any) -> None:
    """What is chosen for being frequent in training rows of pure chance (Dwork et al. 2015)."""
    draw = random.Random(5)
    path = town.database("b", [])
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE training AS FROM people LIMIT 0")
        for table, count in (("people", ROWS), ("training", 300)):
            rows = [
                (draw.choice(["female", "male"]), draw.choice("NESW"), draw.randrange(10), 1, None)
                for _ in range(count)
            ]
            listed = ", ".join(str((*row[:4], True)) for row in rows)
            database.execute(f"INSERT INTO {table} VALUES {listed}")
        found = database.execute(
            "SELECT sex, region, age FROM training GROUP BY ALL ORDER BY count(*) DESC, 1, 2, 3"
        ).fetchall()[:8]
        where = " OR ".join(f"(sex = '{s}' AND region = '{r}' AND age = {a})" for s, r, a in found)
        sql = f"SELECT COUNT(*) AS n FROM town WHERE {where}"
        (true,) = database.execute(sql.replace("town", "people")).fetchone() or (0,)
        (fitted,) = database.execute(sql.replace("town", "training")).fetchone() or (0,)
    assert fitted / 300 * ROWS > true + 400, "the training rows mislead"
    with Session(
        path, schema=schemas(path), user="alice", ledger=town.ledger, settings={"reuse": True}
    ) as session:
        made(session)
        answer = session.answer(sql, confidence=1 - 1e-7, **ASKED)
        assert answer.low[0][0] <= true <= answer.high[0][0]
        assert abs(answer.rows[0][0] - true) < 60


def test_others_and_other_processes_ask_the_same_training_rows(
    session: Session, town: Any, path: Path
) -> None:
    made(session)
    first = session.answer(NEAR, **ASKED)
    town.ledger.grant("bob", dataset="town", epsilon=100)
    with duckdb.connect(str(path.with_name("other.duckdb"))) as elsewhere:
        elsewhere.execute("CREATE TABLE unrelated (i INT)")
    for user in ("alice", "bob"):
        with Session(
            path, schema=schemas(path), user=user, ledger=town.ledger, settings={"reuse": True}
        ) as other:
            plan = other.explain(NEAR, **ASKED)
            found = other.answer(NEAR, **ASKED)
            assert found.rows == first.rows and found.charged == plan.charged


def test_replaced_rows_are_held_out_too(town: Any, path: Path) -> None:
    head = 'unit = "row"\nneighbours = "replace-one"'
    path.with_suffix(".toml").write_text(SCHEMA.format(head=head))
    with Session(
        path, schema=schemas(path), user="alice", ledger=town.ledger, settings={"reuse": True}
    ) as session:
        made(session)
        assert abs(session.answer(NEAR, **ASKED).rows[0][0] - ROWS / 12) < 100
        assert abs(session.answer(FAR, **ASKED).rows[0][0] - ROWS / 4) < 60


def test_a_public_table_is_not_asked_itself(session: Session) -> None:
    for ask in (session.answer, session.explain):
        with pytest.raises(Refused, match="train is public") as told:
            ask("SELECT COUNT(*) FROM train WHERE age < 3")
        assert "DuckDB itself" in told.value.hint
    with pytest.raises(Refused, match="train is public"):
        session.run("SELECT COUNT(*) FROM town; SELECT COUNT(*) FROM train", rho=0.1)
    assert spent(session) == 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"training": None}, "method holdout, and no other, has a training dataset"),
        ({"training": "town"}, "town is not declared public"),
        ({"training": "nobody"}, "there is no dataset 'nobody'"),
        ({"step": "projection"}, "a holdout takes no steps"),
        ({"ways": 2}, "a holdout measures no tables"),
        ({"sets": [["sex", "age"]]}, "a holdout measures no tables"),
    ],
)
def test_what_is_no_holdout_is_refused(
    session: Session, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        made(session, **given)
    assert spent(session) == 0


def test_no_other_method_has_training_rows(session: Session) -> None:
    with pytest.raises(UsageError, match="and no other"):
        session.synopses.create("held", COLUMNS, dataset="town", method="pmw", training="train")


def test_columns_must_be_declared_alike(town: Any, path: Path) -> None:
    listed = schemas(path)
    listed[1].write_text(listed[1].read_text().replace("max = 9", "max = 10"))
    wrong = pytest.raises(UsageError, match="train does not declare age as town does")
    with Session(path, schema=listed, user="alice", ledger=town.ledger) as session, wrong:
        made(session)


def test_there_are_no_rows_to_export(session: Session) -> None:
    made(session)
    with pytest.raises(UsageError, match="no rows but those of its public training table"):
        session.synopses.export("held", 10, dataset="town")


def test_where_the_number_of_rows_is_damaged_nothing_is_said(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(session)
    monkeypatch.setattr(Archive, "stored", lambda *_: None)
    with pytest.raises(UsageError, match="what was measured for synopsis held is lost"):
        session.answer(NEAR, **ASKED)
