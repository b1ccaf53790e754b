"""A row that cannot be read is found before any charge, by every question alike, or by none."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.owner import check
from dpsql.errors import SourceError
from dpsql.schema import load
from dpsql.session import Session
from dpsql.surfaces.cli import main
from tests.privacy.trial import USER, purse, rows, table

BAD = 2_345  # the row that cannot be read: of race White and age 40
MARK = b"ZQ_XJKVB"
QUESTIONS = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE rich",
    "SELECT COUNT(*) FROM people WHERE race = 'White' AND age = 40",
    "SELECT COUNT(*) FROM people WHERE age <> 40",
    "SELECT COUNT(*) FROM people WHERE age > 80",
    "SELECT race, AVG(hours) FROM people GROUP BY race",
]
UNITS = ['"row"', '{column = "pid", max_rows = 3}']


def spoilt(value: str, where: str, column: str, text: str) -> str:
    """A SELECT of all people in which `value` stands for one column of the row that `where` is."""
    return f"SELECT * REPLACE (CASE WHEN {where} THEN {value} ELSE {column} END AS {column}) {text}"


def parquet(folder: Path, column: str, source: str, unit: str) -> Path:
    """A Parquet file of many row groups in which one text of `column` is not UTF-8."""
    made = table(folder, [], unit=unit, source=source, then=[filled()])
    path = folder / "people.parquet"
    whole = spoilt(f"'{MARK.decode()}'", f"rowid = {BAD}", column, "FROM people ORDER BY rowid")
    with duckdb.connect(str(made)) as connection:
        connection.execute(f"COPY ({whole}) TO '{path}' (ROW_GROUP_SIZE 2048)")
    written = path.read_bytes()
    assert MARK in written
    path.write_bytes(written.replace(MARK, b"Z\xff\xfe\xc0\xafKVB"))
    made.unlink()
    return path


def filled() -> str:
    """A statement that adds 6,000 rows, one of which is to be spoilt."""
    found: list[tuple[object, ...]] = [*rows(6_000)]
    found[BAD] = ("n1", "White", 40, True, 7)
    return f"INSERT INTO people VALUES {', '.join(map(str, found))}".replace("None", "NULL")


def in_database(source: str, fault: str, column: str) -> Callable[[Path, str], Path]:
    """A view or a query in which one column of one row is an error."""
    select = spoilt(fault, f"rowid = {BAD}", column, "FROM people")

    def made(folder: Path, unit: str) -> Path:
        if source == "view":
            view, named = f"CREATE VIEW seen AS {select}", 'table = "seen"'
        else:
            view, named = "SELECT 1", f'query = "{select}"'
        return table(folder, [], unit=unit, source=named, then=[filled(), view])

    return made


def generated(folder: Path, unit: str) -> Path:
    """A table with a generated column, which an UPDATE has left to fail on one row."""
    fields = "pid VARCHAR, race VARCHAR, age INTEGER, rich BOOLEAN, share INTEGER"
    then = [
        filled(),
        f"CREATE TABLE computed ({fields}, hours INTEGER GENERATED ALWAYS AS (40 // share))",
        "INSERT INTO computed BY NAME SELECT pid, race, age, rich, 1 AS share FROM people",
        f"UPDATE computed SET share = 0 WHERE rowid = {BAD}",
    ]
    return table(folder, [], unit=unit, source='table = "computed"', then=then)


SOURCES: dict[str, Callable[[Path, str], Path]] = {
    "generated column": generated,
    "parquet": lambda folder, unit: parquet(folder, "race", 'table = "people"', unit),
    "query over parquet": lambda folder, unit: parquet(
        folder, "race", 'query = "FROM people"', unit
    ),
    "view, cast": in_database("view", "CAST(race AS INTEGER)", "hours"),
    "view, error": in_database("view", "error('encrypt no space left ' || race)::INTEGER", "age"),
    "query, text": in_database("query", "chr(-CAST(age AS INTEGER))", "race"),
    "query, overflow": in_database("query", "CAST(age * 1000000000 AS INTEGER)", "hours"),
    "query, date": in_database("query", "CAST(race AS DATE) = today()", "rich"),
}


@pytest.mark.parametrize("unit", UNITS, ids=["rows", "units"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_question_is_refused_in_the_same_words_and_nothing_is_charged(
    source: str, unit: str, tmp_path: Path
) -> None:
    path, ledger = SOURCES[source](tmp_path, unit), purse()
    dump = ledger.dump()
    told = set()
    for question in QUESTIONS:
        with Session(path, user=USER, ledger=ledger) as session:
            for _ in range(2):
                with pytest.raises(SourceError) as caught:
                    session.answer(question, rho=1e-3)
                assert session.last_charge is None and ledger.dump() == dump
                assert caught.value.__cause__ is None and caught.value.__context__ is None
                told.add(str(caught.value))
            assert session.explain(question).price.rho > 0
    assert told == {
        f"{path.name} has rows that cannot be read, so nothing is answered from it: "
        "the owner of the data finds the column by dpsql schema check"
    }


ENTRIES: dict[str, Callable[[Session], object]] = {
    "script": lambda session: session.run(f"{QUESTIONS[0]}; {QUESTIONS[3]}"),
    "gate": lambda session: session.answer(f"{QUESTIONS[5].replace('AVG(hours)', 'COUNT(*)')}"
                                           " FIRST 1 ABOVE 9"),
    "tables": lambda session: session.synopses.create("a", ["race", "rich"]),
    "pmw": lambda session: session.synopses.create("b", ["race", "age"], method="pmw"),
    "mwem": lambda session: session.synopses.create(
        "c", queries="SELECT race, rich, COUNT(*) FROM people GROUP BY ALL", method="mwem"),
    "smalldb": lambda session: session.synopses.create(
        "d", queries="SELECT race, COUNT(*) FROM people GROUP BY ALL", method="smalldb", size=2),
    "whole": lambda session: session.answer(QUESTIONS[1], whole="on"),
    "population": lambda session: session.answer(
        QUESTIONS[0], target="population", total=100_000_000, epsilon=1e-4),
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_so_it_is_by_every_way_to_ask(entry: str, tmp_path: Path) -> None:
    path = generated(tmp_path, '"row"')
    ledger = purse(epsilon=0.1 if entry == "population" else 10.0)
    dump = ledger.dump()
    with Session(path, user=USER, ledger=ledger, settings={"reuse": True}) as session:
        with pytest.raises(SourceError, match="has rows that cannot be read, so nothing"):
            ENTRIES[entry](session)
        assert session.last_charge is None and ledger.dump() == dump


@pytest.mark.parametrize("source", SOURCES)
def test_the_owner_is_told_which_column_it_is(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = SOURCES[source](tmp_path, '"row"')
    spoiled = {
        "view, error": "age", "query, date": "rich", "view, cast": "hours",
        "query, overflow": "hours", "generated column": "hours",
    }.get(source, "race")  # fmt: skip
    (problem,) = check(path, load(path.with_suffix(".toml"))).problems
    assert problem.startswith(f"column {spoiled} cannot be read in every row: ")
    assert main(["schema", "check", str(path)]) == 2
    out = capsys.readouterr().out
    assert problem in out and "White" not in out and "ZQ" not in out


def test_the_owner_is_told_of_a_unit_that_cannot_be_read(tmp_path: Path) -> None:
    path = parquet(tmp_path, "pid", 'table = "people"', UNITS[1])
    (problem,) = check(path, load(path.with_suffix(".toml"))).problems
    assert problem.startswith("the unit column pid cannot be read in every row")


def test_rows_that_fail_together_are_told_of_too(tmp_path: Path) -> None:
    query = "SELECT * FROM people WHERE CAST(pid[2:] AS INTEGER) >= 0"
    listed: list[tuple[object, ...]] = [*rows(10), ("none", "White", 40, True, 7)]
    path = table(tmp_path, listed, source=f'query = "{query}"')
    problems = check(path, load(path.with_suffix(".toml"))).problems
    assert problems and all("cannot be read" in problem for problem in problems)


def test_a_column_that_is_not_declared_is_not_read(tmp_path: Path) -> None:
    path = parquet(tmp_path, "pid", 'table = "people"', '"row"')
    with Session(path, user=USER, ledger=purse()) as session:
        assert len(session.answer(QUESTIONS[-1], rho=1e-3).rows) == 4
    report = check(path, load(path.with_suffix(".toml")))
    assert report.problems == () and report.rows == 6_000


def test_a_row_outside_the_domain_is_read_like_any_other(tmp_path: Path) -> None:
    spoil = "error(race)::INTEGER"
    path = in_database("query", spoil, "hours")(tmp_path, '"row"')
    with duckdb.connect(str(path)) as made:
        made.execute(f"UPDATE people SET age = 999 WHERE rowid = {BAD}")
    with (
        Session(path, user=USER, ledger=purse()) as session,
        pytest.raises(SourceError, match="rows that cannot be read"),
    ):
        session.answer(QUESTIONS[0], rho=1e-3)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_no_byte_of_a_csv_file_makes_a_question_fail(ending: str, tmp_path: Path) -> None:
    """Lines of noise are left out or lie outside; the whole lines around them are counted."""
    made = table(tmp_path, [])
    path, mark = tmp_path / f"people{ending}", "\t" if ending == ".tsv" else ","
    head = mark.join(("pid", "race", "age", "rich", "hours")) + "\n"
    good = mark.join(("n1", "White", "40", "true", "7")) + "\n"
    dataset = load(made.with_suffix(".toml"))
    draw = random.Random(7)
    pieces = [b"\xff", b"\xc0\xaf", b"\0", b'"', b'""', b",", b"\t", b"\n", b"\r", b"\r\n", b"x",
              b"White", b"\xf0\x9f", b"9" * 50, b"'", b"\\", b"#", b"\xef\xbb\xbf",
              b"y" * 5_000]  # fmt: skip
    for _ in range(60):
        noise = b"".join(draw.choices(pieces, k=draw.randrange(1, 30)))
        path.write_bytes(head.encode() + good.encode() * 50 + noise + b"\n" + good.encode() * 50)
        engine = DuckDBEngine(path, dataset)
        engine.ready()
        engine.counts(("race", "age"))
        engine.close()
        assert check(path, dataset).problems == ()
