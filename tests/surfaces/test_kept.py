"""Nothing that dpsql writes takes the place of data, a schema, a ledger, its key, or a script."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import UsageError
from dpsql.surfaces.aim import Aim
from dpsql.surfaces.cli import main
from dpsql.surfaces.kept import writable
from dpsql.surfaces.run import Run
from dpsql.surfaces.shell.room import Room

TABLE = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
s = {type = "category", values = ["x", "y"]}
"""
FILE = TABLE.replace('"t"', '"u"', 1).replace('table = "t"', 'file = "data/2024.csv"')
SQL = "SELECT s, COUNT(*) AS n FROM t GROUP BY s"
NAMES = ["-s", "t.txt", "-s", "far/u.txt", "--ledger", "purse.csv"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database and a CSV file that its second schema reads; nothing is named as it is used to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_USER", "ann")
    Path("far/data").mkdir(parents=True)
    with duckdb.connect("t.db") as made:
        made.execute("CREATE TABLE t AS SELECT 'x' AS s FROM range(500)")
    Path("far/data/2024.csv").write_text("s\nx\ny\n")
    Path("t.txt").write_text(TABLE)
    Path("far/u.txt").write_text(FILE)
    Path("r.sql").write_text(f"{SQL};{SQL.replace('COUNT(*)', 'COUNT(s)')};")
    with dpsql.Ledger.open("purse.csv") as ledger:
        for name in ("t", "u"):
            ledger.grant("ann", dataset=name, epsilon=2)
    os.link("far/data/2024.csv", "twin.csv")
    os.symlink("purse.csv.seal", "seal.csv")
    return tmp_path


KEPT = [
    "t.db", "t.txt", "far/u.txt", "far/data/2024.csv", "twin.csv", "purse.csv", "seal.csv",
    "purse.csv.anchor", "far/data",
]  # fmt: skip


def contents() -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in Path().rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.parametrize(
    "words",
    [
        ["query", "t.db", SQL, *NAMES, "--format", "csv", "-o"],
        ["run", "t.db", "r.sql", *NAMES, "--format", "csv", "-o"],
        ["run", "t.db", "r.sql", *NAMES, "--format", "html", "-o"],
        ["synopsis", "export", "t.db", "main", *NAMES, "--dataset", "t", "-o"],
        ["budget", "report", "t.db", *NAMES, "-o"],
        ["schema", "infer", "t.db", "-o"],
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_no_command_writes_over_what_is_kept(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents()
    for name in KEPT:
        assert main([*words, name]) == 2, name
        told = capsys.readouterr().err
        assert told.startswith("usage error: ") and name in told and "nam" in told, told
    assert contents() == before
    assert sorted(os.listdir("far/data")) == ["2024.csv"]


@pytest.mark.parametrize(
    "words",
    [["run", "t.db", "r.sql"], ["query", "t.db", "-f", "one.sql"]],
    ids=lambda words: words[0],
)
def test_an_answer_takes_not_the_place_of_its_question(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.sql").write_text(SQL)
    Path("out").mkdir()
    asked = words[-1]
    os.link(asked, "out/twin.md")
    os.symlink(asked, "link.md")
    before = contents()
    for name in (asked, f"./{asked}", "out/twin.md", "link.md"):
        assert main([*words, *NAMES, "--format", "markdown", "-o", name]) == 2, name
        assert name.removeprefix("./") in capsys.readouterr().err
    assert contents() == before
    assert main([*words, *NAMES, "-o", "new.md"]) == 0


@pytest.mark.parametrize("command", [".output", ".log"])
def test_the_shell_writes_over_nothing_either(command: str) -> None:
    run = Run()
    run.aim = Aim(Path("t.db"), Path("purse.csv"), (Path("t.txt"), Path("far/u.txt")))
    session = dpsql.connect("t.db", schema=["t.txt"], ledger="purse.csv").session
    room, before = Room(session, run, "csv"), contents()
    for name in KEPT:
        with pytest.raises(UsageError, match="cannot write"):
            room.follow(iter([f"{command} {name}\n"]))
    room.close()
    session.close()
    assert contents() == before


def test_a_page_made_in_python_replaces_pages_only() -> None:
    with dpsql.connect("t.db", schema="t.txt", ledger="purse.csv") as con:
        release = con.execute(SQL).release
    before = contents()
    for name in ("t.db", "far/data/2024.csv", "purse.csv", "t.txt", "seal.csv"):
        with pytest.raises(UsageError, match="cannot write"):
            dpsql.report(release, name)
    assert contents() == before
    for _ in range(2):
        dpsql.report(release, "page.html")


def test_a_history_is_added_to_no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.surfaces.shell.history import kept

    before = contents()
    for name in ("t.db", "far/data/2024.csv", "purse.csv"):
        os.chmod(name, 0o644)
        monkeypatch.setenv("DPSQL_HISTORY", name)
        history, warning = kept("ann", "a")
        history.append_string("SELECT 1;")
        assert "it holds something else" in warning and os.stat(name).st_mode & 0o777 == 0o644
    assert contents() == before


@pytest.mark.parametrize(
    "name",
    [
        "a.duckdb", "A.TOML", "a.ledger", "a.ledger-wal", "a.ledger.key", "a.ledger.seal",
        "a.ledger.anchor", "a.csv",
    ],
)  # fmt: skip
def test_names_of_what_owners_alone_write_are_refused(name: str) -> None:
    """Also where nothing stands as yet: a link may lead there."""
    os.symlink("x.ledger.seal", "a.csv")
    with pytest.raises(UsageError, match=f"cannot write {name}: a database, ledger, key or"):
        writable(Path(name))


def test_any_database_is_known_by_its_first_bytes() -> None:
    with sqlite3.connect("other.txt") as made:
        made.execute("CREATE TABLE t (a)")
    duckdb.connect("another.txt").close()
    for name in ("other.txt", "another.txt"):
        with pytest.raises(UsageError, match="it is a database or a ledger"):
            writable(Path(name))


def test_all_else_may_be_written_over() -> None:
    Path("answer.csv").write_text("s,n\n")
    for aim in (
        None,
        Aim(Path("t.db"), Path("purse.csv"), (Path("t.txt"),)),
        Aim(Path("t.db"), "postgresql://ann@localhost/town", ()),  # and no schema
    ):
        for name in ("answer.csv", "seal", "ledger.txt", "purse.csv.txt", "t", os.devnull):
            writable(Path(name), aim)
