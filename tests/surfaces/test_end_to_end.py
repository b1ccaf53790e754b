"""The command and the Python interface over a real table, schema and ledger."""

from __future__ import annotations

import csv
import io
import json
import random
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.surfaces.cli import main

SCHEMA = """
dataset = "people"
description = "People of a small town"
unit = "row"

[source]
table = "secret_people"

[columns]
sex = {type = "category", values = ["female", "male"]}
age = {type = "integer", min = 0, max = 110}
smoker = {type = "boolean", nullable = true}
"""
GROUPED = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with people.duckdb and people.toml, where alice has a grant."""
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE secret_people AS SELECT"
            " CASE WHEN i % 3 = 0 THEN 'male' ELSE 'female' END AS sex,"
            " (i % 100)::BIGINT AS age, CASE WHEN i % 5 < 4 THEN i % 2 = 0 END AS smoker"
            " FROM range(3000) t(i)"
        )
    (tmp_path / "people.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DPSQL_USER", "alice")
    with dpsql.Ledger.open(tmp_path / "people.ledger") as ledger:
        ledger.grant("alice", dataset="people", epsilon=2)
    return tmp_path


def dump() -> list[str]:
    with dpsql.Ledger.open("people.ledger", create=False) as ledger:
        return ledger.dump()


def spent() -> int:
    with dpsql.Ledger.open("people.ledger", create=False) as ledger:
        return ledger.balance("alice", "people").spent_rho


def test_an_answer_is_shown_with_its_price(town: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "people.duckdb", GROUPED]) == 0
    out, err = capsys.readouterr()
    assert "│ female │" in out and " ± " in out and err == ""
    assert "price ε 0.171 alone, 1.0 % of the grant · ε left 1.99" in out
    assert spent() > 0


def test_every_format_holds_the_same_shape(town: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", "people.duckdb", GROUPED, "--rho", "1e-2", "--format", "csv", "--intervals"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["sex"] for row in rows] == ["female", "male"]
    for row in rows:
        assert float(row["n_low"]) <= float(row["n"]) <= float(row["n_high"])
    main(["query", "people.duckdb", GROUPED, "--format", "json"])
    release = dpsql.Release.from_dict(json.loads(capsys.readouterr().out))
    assert release.columns == ("sex", "n") and len(release.rows) == 2
    main(["query", "people.duckdb", GROUPED, "-o", "a.parquet"])
    with duckdb.connect() as judge:
        read = judge.execute("FROM read_parquet('a.parquet')")
        assert [column[0] for column in read.description or ()] == ["sex", "n"]
        assert len(read.fetchall()) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["SELECT MIN(age) FROM people"], 1),
        (["SELECT COUNT(*) FROM nowhere"], 1),
        (["SELECT COUNT(*) FROM secret_people"], 1),
        (["SELECT COUNT(* FROM people"], 1),
        (["SELECT 1; SELECT 2"], 1),
        ([GROUPED, "--epsilon", "0"], 2),
        ([GROUPED, "--epsilon", "nan"], 2),
        ([GROUPED, "--epsilon", "1", "--rho", "1"], 2),
        ([GROUPED, "--confidence", "2"], 2),
        ([GROUPED, "-s", "nowhere.toml"], 2),
        ([GROUPED, "-u", "bob"], 4),
        ([GROUPED, "--epsilon", "100"], 4),
        ([GROUPED, "--ledger", "nowhere.ledger"], 4),
    ],
)
def test_what_is_not_answered_costs_nothing(
    town: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    before = dump()
    assert main(["query", "people.duckdb", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == "" and err and "Traceback" not in err
    assert dump() == before
    assert main(["query", "people.duckdb", *arguments, "--format", "json"]) == code
    assert json.loads(capsys.readouterr().err)["charged"] is None
    assert dump() == before


def test_a_missing_or_foreign_database_is_code_3(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", "nowhere.duckdb", GROUPED]) == 3
    (town / "people.duckdb").write_bytes(b"not a database, but long enough to look at" * 100)
    assert main(["query", "people.duckdb", GROUPED]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_explain_is_free_and_needs_no_ledger_write(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dump()
    assert main(["explain", "people.duckdb", GROUPED, "--epsilon", "0.1"]) == 0
    assert "nothing was charged" in capsys.readouterr().out
    assert main(["explain", "people.duckdb", GROUPED, "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["rows"] == [["female", None], ["male", None]] and plan["queries"] == 2
    assert dump() == before


def test_the_shell_keeps_what_set_sets(town: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    text = f"SET intervals = on; SET epsilon = 0.01;\n.mode csv\n{GROUPED};\n.budget\n.schema\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["shell", "people.duckdb"]) == 0
    out = capsys.readouterr().out
    assert "sex,n,n_low,n_high" in out and "default queries left" in out
    assert "dataset people" in out and "secret_people" not in out


def test_an_owner_grants_shows_logs_and_revokes(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["budget", "grant", "people.duckdb", "bob", "--epsilon", "1"]) == 0
    assert "(1, 1e-06)-differentially private" in capsys.readouterr().out
    assert main(["query", "people.duckdb", GROUPED, "-u", "bob"]) == 0
    capsys.readouterr()
    assert main(["budget", "show", "people.duckdb", "--format", "json"]) == 0
    alice, bob = json.loads(capsys.readouterr().out)
    assert alice["default_queries_left"] == 99 and bob["default_queries_left"] == 99
    assert main(["budget", "log", "people.duckdb", "bob", "--format", "json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["kind"] for entry in entries] == ["grant", "charge"]
    assert entries[1]["statement"] == GROUPED
    assert main(["budget", "log", "people.duckdb"]) == 0
    assert GROUPED in capsys.readouterr().out
    assert main(["budget", "revoke", "people.duckdb", "bob"]) == 0
    assert "no more answers" in capsys.readouterr().out
    assert main(["query", "people.duckdb", GROUPED, "-u", "bob"]) == 4
    assert main(["budget", "show", "people.duckdb", "bob"]) == 4
    assert main(["budget", "revoke", "people.duckdb", "carol"]) == 4


@pytest.mark.parametrize(
    "terms",
    [["--epsilon", "0"], ["--epsilon", "inf"], ["--epsilon", "-1"], ["--epsilon", "1", "--delta",
      "1"], ["--epsilon", "1", "--dataset", "nowhere"]],
)  # fmt: skip
def test_terms_that_are_no_budget_are_refused(town: Path, terms: list[str]) -> None:
    before = dump()
    assert main(["budget", "grant", "people.duckdb", "bob", *terms]) == 2
    assert dump() == before


def test_a_grant_needs_the_database_it_is_for(town: Path) -> None:
    assert main(["budget", "grant", "peopel.duckdb", "bob", "--epsilon", "1"]) == 3
    assert not (town / "peopel.ledger").exists()


def test_both_ways_to_read_a_balance_agree(town: Path) -> None:
    from dpsql.session import tell
    from dpsql.surfaces.purses import budget

    with dpsql.Ledger.open("people.ledger") as ledger:
        ledger.grant("pure", dataset="people", epsilon=1, delta=0)
        main(["query", "people.duckdb", GROUPED])
        main(["query", "people.duckdb", GROUPED, "-u", "pure"])
        for balance in ledger.purses():
            shown, told = budget(balance).to_dict(), tell.budget(balance).to_dict()
            for part in ("granted", "spent", "left"):
                assert shown[part] == pytest.approx(told[part], abs=1e-11)


def test_the_python_interface_answers(town: Path) -> None:
    with dpsql.connect("people.duckdb", epsilon=0.1) as connection:
        cursor = connection.execute(GROUPED)
        assert [row[0] for row in cursor.fetchall()] == ["female", "male"]
        assert cursor.release.price is not None
        assert cursor.release.price.epsilon == pytest.approx(0.1, rel=1e-6)
        assert list(cursor.df()["sex"]) == ["female", "male"]
        assert cursor.arrow().column_names == cursor.pl().columns == ["sex", "n"]
        plan = connection.explain("SELECT COUNT(*) FROM people WHERE age < ?", [30])
        assert plan.backend in ("gaussian", "laplace")
        found = connection.execute("SELECT COUNT(*) FROM people WHERE sex = ?", ["male"])
        assert len(found.fetchall()) == 1
        assert connection.budget().spent.rho > 0
        with pytest.raises(dpsql.ProgrammingError, match="refused"):
            connection.execute("SELECT MIN(age) FROM people")


def test_pandas_reads_sql_from_a_connection(town: Path) -> None:
    import pandas

    with dpsql.connect("people.duckdb") as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas would rather have SQLAlchemy
        frame = pandas.read_sql(GROUPED, connection)
    assert list(frame.columns) == ["sex", "n"] and len(frame) == 2


def test_a_database_is_named_or_set(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(dpsql.UsageError, match="no database"):
        dpsql.connect()
    monkeypatch.setenv("DPSQL_DB", "people.duckdb")
    monkeypatch.setenv("DPSQL_SCHEMA", "people.toml")
    with dpsql.connect() as connection:
        assert connection.budget().user == "alice"


def test_an_interrupt_at_any_moment_tells_the_truth(town: Path) -> None:
    code = (
        "import sys, dpsql.surfaces.cli as cli\n"
        "print('ready', file=sys.stderr, flush=True)\n"
        "sys.exit(cli.main())"
    )
    seconds = random.Random(7)
    seen: set[int] = set()
    for _ in range(8):
        before = spent()
        with subprocess.Popen(
            [sys.executable, "-c", code, "query", "people.duckdb", GROUPED, "--no-reuse"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None and child.stderr is not None
            assert child.stderr.readline() == b"ready\n"
            time.sleep(seconds.uniform(0.02, 0.8))
            child.send_signal(signal.SIGINT)
            out, err = child.stdout.read().decode(), child.stderr.read().decode()
            code_seen = child.wait(20)
        seen.add(code_seen)
        paid = spent() > before
        assert code_seen in (0, 130), err
        assert "Traceback" not in err
        if code_seen == 130:
            assert ("charged ε" in err) is paid and ("nothing was charged" in err) is not paid
        else:
            assert paid and "price ε" in out
    assert 130 in seen


def test_an_interrupt_while_all_is_closed_tells_what_was_charged(town: Path) -> None:
    code = (
        "import os, signal, sys, dpsql.surfaces.cli as cli\n"
        "from dpsql.session import Session\n"
        "Session.close = lambda self: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.exit(cli.main())"
    )
    Path("report.sql").write_text(GROUPED)
    for command, asked in (("query", GROUPED), ("run", "report.sql")):
        child = subprocess.run(
            [sys.executable, "-c", code, command, "people.duckdb", asked, "--no-reuse"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 130 and "│ female │" in child.stdout
        assert "interrupted: charged ε" in child.stderr


def test_the_demo_answers_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    room = tmp_path / "a room"
    assert main(["demo", str(room), "-u", "alice"]) == 0
    out = capsys.readouterr().out
    for words in ("gaussian ·", "laplace ·", "± ", "hours_low", "refused: ", "^^^", "ε left",
                  "plan for adult", "default queries left", f"cd '{room}'"):  # fmt: skip
        assert words in out
    assert (
        main(["query", str(room / "adult.duckdb"), "SELECT COUNT(*) FROM adult", "-u", "alice"])
        == 0
    )
    assert main(["demo", str(room)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_the_demo_ships_the_published_schema() -> None:
    from dpsql.schema import load

    root = Path(dpsql.__file__).parent
    shipped = load(root / "surfaces" / "demo_data" / "adult.toml")
    assert shipped == load(root.parent / "schemas" / "adult.toml")


@pytest.mark.parametrize(
    "name", ["town.ledger", "other.key", "town.toml", "b.duckdb", "c.LEDGER-WAL"]
)
def test_no_answer_is_written_over_what_is_kept(
    town: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted((p.name, p.read_bytes()) for p in town.iterdir() if p.is_file())
    assert main(["query", "people.duckdb", GROUPED, "-o", name]) == 2
    assert "give another" in capsys.readouterr().err
    assert sorted((p.name, p.read_bytes()) for p in town.iterdir() if p.is_file()) == before


def test_a_grant_below_what_is_spent_promises_nothing(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", "people.duckdb", GROUPED, "--epsilon", "1"]) == 0
    capsys.readouterr()
    assert main(["budget", "grant", "people.duckdb", "alice", "--epsilon", "0.1"]) == 0
    said = capsys.readouterr().out
    assert "nothing more is answered" in said and "All answers" not in said


@pytest.mark.parametrize("command", ["query", "explain"])
@pytest.mark.parametrize("name", ["small.sql", "my report.sql", "small.txt", "no.sql"])
def test_the_name_of_a_file_is_no_sql_and_it_is_said_what_to_type(
    town: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    command: str, name: str,
) -> None:  # fmt: skip
    if name != "no.sql":
        (town / name).write_text(GROUPED)
    shown = shlex.quote(name)
    dry = " --explain" if command == "explain" else ""
    for words in ([command, "people.duckdb", name], [command, name]):
        if name == "small.txt" and len(words) == 2:
            continue  # which may be a database
        monkeypatch.setenv("DPSQL_DB", "people.duckdb")
        assert main(words) == 2
        _, err = capsys.readouterr()
        assert f"{name!r} is the name of a file" in err
        assert f"dpsql {command} people.duckdb -f {shown}; a script" in err
        assert f"dpsql run{dry} people.duckdb {shown}\n" in err
    assert main([command, "people.duckdb", f"SELECT COUNT(*) FROM {name}"]) == 1
    if name != "no.sql":
        assert main([command, "people.duckdb", "-f", name]) == 0


def test_the_name_of_a_file_is_no_sql_elsewhere(town: Path) -> None:
    with dpsql.connect("people.duckdb") as con, pytest.raises(dpsql.Refused) as found:
        con.execute("report.sql;")
    assert "the name of a file" in str(found.value) and "con.run(FILE)" in str(found.value)
