"""SQLAlchemy 2: Core, inspection, reflection, pandas and polars, against DuckDB's own answers."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

import dpsql
from dpsql.errors import Refused

registry.register("dpsql", "dpsql.surfaces.dialect", "Dialect")  # also where nothing is installed
SCHEMA = """
dataset = "town"
description = "who lives there"
neighbours = "add-remove"
unit = "row"
[source]
table = "town"
[columns]
sex = {type = "category", values = ["f", "m"], description = "as declared"}
age = {type = "integer", min = 0, max = 9}
born = {type = "date", min = 2020-01-01, max = 2020-01-05}
size = {type = "number", min = 0, max = 2, step = 0.5}
tall = {type = "boolean", nullable = true}
"""
EXACT = {"dpsql": {"rho": 1000.0}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dialect")
    with duckdb.connect(str(folder / "town.duckdb")) as made:
        made.execute(
            "CREATE TABLE town AS SELECT CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,"
            " i * 7 % 10 AS age, DATE '2020-01-01' + (i % 5)::INT AS born, i % 5 / 2 AS size,"
            " CASE WHEN i % 4 > 0 THEN i % 4 = 1 END AS tall FROM range(500) r(i)"
        )
    (folder / "town.toml").write_text(SCHEMA)
    with dpsql.Ledger.open(folder / "town.ledger") as ledger:
        ledger.grant("ann", dataset="town", epsilon=1e6)
    return folder / "town.duckdb"


@pytest.fixture
def engine(place: Path) -> Iterator[sa.Engine]:
    found = sa.create_engine(f"dpsql:///{place}?user=ann")
    yield found
    found.dispose()


@pytest.fixture
def town(engine: sa.Engine) -> sa.Table:
    return sa.Table("town", sa.MetaData(), autoload_with=engine)


def test_a_table_is_reflected_from_the_schema(engine: sa.Engine, town: sa.Table) -> None:
    seen = sa.inspect(engine)
    assert seen.get_schema_names() == ["main"] and seen.default_schema_name == "main"
    assert seen.get_table_names() == seen.get_table_names("main") == ["town"]
    assert seen.get_table_names("other") == seen.get_view_names() == []
    assert seen.has_table("town") and not seen.has_table("people")
    assert seen.get_table_comment("town") == {"text": "who lives there"}
    assert seen.get_pk_constraint("town")["constrained_columns"] == []
    assert seen.get_foreign_keys("town") == seen.get_indexes("town") == []
    assert seen.get_unique_constraints("town") == seen.get_check_constraints("town") == []
    kinds = {c.name: (type(c.type), c.nullable) for c in town.columns}
    assert kinds == {
        "sex": (sa.VARCHAR, False), "age": (sa.BIGINT, False), "born": (sa.DATE, False),
        "size": (sa.DOUBLE, False), "tall": (sa.BOOLEAN, True),
    }  # fmt: skip
    assert town.c.sex.comment == "as declared"
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("people", sa.MetaData(), autoload_with=engine)


def statements(town: sa.Table) -> list[sa.Select[Any]]:
    """Core's ways to say what is answered."""
    count, c = sa.func.count(), town.c
    return [
        sa.select(count).select_from(town),
        sa.select(c.sex, count.label("n")).group_by(c.sex).order_by(sa.desc("n")),
        sa.select(c.age, count).where(c.age.in_([1, 2, 3])).group_by(c.age).order_by(c.age),
        sa.select(count.filter(c.tall.is_(None)), count.filter(c.tall.is_(True))),
        sa.select(sa.func.sum(c.age)),
        sa.select(sa.func.avg(sa.case((c.age > 4, 1), else_=0)).label("old")).where(c.sex == "m"),
        sa.select(c.sex, count).group_by(c.sex).having(count > 200),
        sa.select(c.age, count).group_by(c.age).order_by(c.age).limit(3).offset(2),
        sa.select(c.age, count).group_by(c.age).order_by(c.age).offset(8),
        sa.select(count).where(c.born > datetime.date(2020, 1, 2), c.size >= 1.5),
        sa.select(count).where(sa.or_(c.sex.ilike("F%"), ~c.age.between(2, 8))),
        sa.select(count).where(c.sex.not_ilike("F%"), c.sex.regexp_match("m")),
        sa.select(count).where(c.tall.is_distinct_from(True)),
        sa.select(count).where(c.tall.is_not_distinct_from(None)),
        sa.select((c.age // 2).label("k"), count).group_by("k").order_by("k"),
        sa.select(count).where(c.age / 2 > 1.25, sa.cast(c.age, sa.Float) < 7.5),
        sa.select(count).where(sa.cast(c.age, sa.String) == "4"),
        sa.union_all(
            sa.select(sa.literal_column("'young'").label("who"), count).where(c.age < 3),
            sa.select(sa.literal_column("'old'"), count).where(c.age >= 3),
        ),
        sa.select(sa.func.count()).select_from(sa.select(town).where(c.age > 4).subquery()),
    ]  # fmt: skip


@pytest.mark.parametrize("at", range(19))
def test_core_says_what_duckdb_is_asked(
    engine: sa.Engine, town: sa.Table, place: Path, at: int
) -> None:
    query = statements(town)[at]
    sql = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
    with engine.connect() as con:
        found = con.execute(query, execution_options=EXACT)
        release = found.context.release
        rows = [tuple(row) for row in found]
    with duckdb.connect(str(place), read_only=True) as judge:
        assert rows == judge.execute(sql).fetchall()
    assert release.price.rho == pytest.approx(1000, rel=1e-3)


def test_the_release_stays_when_all_rows_are_read(engine: sa.Engine, town: sa.Table) -> None:
    query = sa.select(sa.func.count()).select_from(town)
    with engine.connect() as con:
        found = con.execute(query, execution_options=EXACT)
        assert found.all() == [(500,)]
    assert found.context.release.rows == ((500,),)


def test_every_statement_of_core_is_tried(town: sa.Table) -> None:
    assert len(statements(town)) == 19


def test_settings_stand_in_the_url_or_with_the_execution(place: Path) -> None:
    url = f"dpsql:///{place}?user=ann&epsilon=0.25&reuse=off"
    engine = sa.create_engine(url)
    query = sa.text("SELECT COUNT(*) AS n FROM town WHERE age < :most")
    with engine.connect() as con:
        found = con.execute(query, {"most": 3})
        assert found.context.release.price.epsilon == pytest.approx(0.25, rel=1e-3)
        found = con.execute(query, {"most": 3}, execution_options={"dpsql": {"epsilon": 0.5}})
        assert found.context.release.price.epsilon == pytest.approx(0.5, rel=1e-3)
        assert found.keys() == sa.engine.result.RMKeyView(found._metadata)  # named as asked
        with pytest.raises(sa.exc.InterfaceError, match="no setting 'colour'"):
            con.execute(query, {"most": 3}, execution_options={"dpsql": {"colour": 1}})
        with pytest.raises(sa.exc.ArgumentError, match="a dict of settings"):
            con.execute(query, {"most": 3}, execution_options={"dpsql": 0.5})
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("dpsql://host/town.duckdb", "opens a file"),
        ("dpsql:///town.duckdb?user=ann&user=bob", "user is given twice"),
    ],
)
def test_a_wrong_url_is_named(url: str, reason: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match=reason):
        sa.create_engine(url).connect()


def test_what_is_refused_is_a_programming_error_with_its_hint(
    engine: sa.Engine, town: sa.Table
) -> None:
    with engine.connect() as con:
        for query in (sa.select(town.c.age), sa.insert(town).values(age=3), sa.delete(town)):
            with pytest.raises(sa.exc.ProgrammingError, match="nothing was charged") as caught:
                con.execute(query)
            assert isinstance(caught.value.orig, Refused) and caught.value.orig.hint
    with pytest.raises(sa.exc.ProgrammingError, match="CREATE"):
        sa.Table("more", sa.MetaData(), sa.Column("a", sa.Integer)).create(engine)


def test_no_grant_is_an_operational_error(place: Path) -> None:
    engine = sa.create_engine(f"dpsql://bob@/{place}")
    with engine.connect() as con, pytest.raises(sa.exc.OperationalError, match="bob has no grant"):
        con.execute(sa.text("SELECT COUNT(*) FROM town"))
    engine.dispose()


def test_commit_and_rollback_change_no_charge(engine: sa.Engine) -> None:
    query = sa.text("SELECT COUNT(*) FROM town")
    with engine.connect() as con:
        before = con.connection.dbapi_connection.budget("town").spent.rho
        with con.begin() as work:
            con.execute(query, execution_options={"dpsql": {"rho": 0.5, "reuse": False}})
            work.rollback()
        spent = con.connection.dbapi_connection.budget("town").spent.rho
        assert spent > before
        with con.begin():
            pass
        assert con.connection.dbapi_connection.budget("town").spent.rho == spent


def test_frames_are_read_through_an_engine(engine: sa.Engine, town: sa.Table, place: Path) -> None:
    query = sa.select(town.c.age, sa.func.count().label("n")).group_by(town.c.age).order_by("age")
    sql = "SELECT age, COUNT(*) AS n FROM town GROUP BY age ORDER BY age"
    with duckdb.connect(str(place), read_only=True) as judge:
        true = judge.execute(sql).fetchall()
    con = engine.connect().execution_options(**EXACT)
    for found in (pd.read_sql(query, con), pd.read_sql(sa.text(sql), con)):
        assert list(found.columns) == ["age", "n"]
        assert list(found.itertuples(index=False, name=None)) == true
    assert pl.read_database(query, con).rows() == true
    con.close()


def test_threads_have_connections_of_their_own(engine: sa.Engine) -> None:
    failures: list[BaseException] = []

    def ask(age: int) -> None:
        try:
            with engine.connect() as con:
                found = con.execute(
                    sa.text("SELECT COUNT(*) FROM town WHERE age = :age"),
                    {"age": age},
                    execution_options=EXACT,
                )
                assert found.scalar() == 50
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(age,)) for age in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
