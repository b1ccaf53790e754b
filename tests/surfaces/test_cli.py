"""The command line: exit codes, streams, and what is said when things go wrong.

The session is scripted here, so that each thing can go wrong on purpose.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from dpsql.errors import BudgetExceeded, InternalError, Refused, SourceError
from dpsql.release import Cost, Release
from dpsql.surfaces.cli import main

Make = Callable[..., Release]
PAID = Cost(0.0008, 0.171, 1e-6)
SQL = "SELECT MIN(age) FROM adult"


class Scripted:
    """What the session of the run does next; class attributes, since the command makes it."""

    answers: list[Release | BaseException]
    made: list[dict[str, Any]]
    asked: list[str]
    given: list[dict[str, Any]]
    charges: Cost | None

    def __init__(self, database: Path, **options: Any) -> None:
        self.made.append({"database": database, **options})
        self.last_charge: Cost | None = None
        self.datasets: dict[str, Any] = {}
        self.user = options["user"] or "alice"

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def answer(self, sql: str, **settings: Any) -> Release:
        self.asked.append(sql)
        self.given.append(settings)
        self.last_charge = self.charges
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Scripted]]:
    class Session(Scripted):
        answers, made, asked, given, charges = [], [], [], [], None

    module = ModuleType("dpsql.session")
    module.Session = Session
    monkeypatch.setitem(sys.modules, "dpsql.session", module)
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_USER", "DPSQL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    yield Session


def test_an_answer_is_printed_and_the_code_is_0(
    script: type[Scripted], release: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    script.answers += [release()]
    assert main(["query", "a.duckdb", SQL, "-u", "bob", "--epsilon", "0.1"]) == 0
    out, err = capsys.readouterr()
    assert "10,771 ± 47" in out and "ε left 1.95" in out and err == ""
    assert script.asked == [SQL]
    assert (script.made[0]["settings"], script.given) == ({}, [{"epsilon": 0.1}])
    assert script.made[0]["user"] == "bob"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Refused("no MIN", sql=SQL, start=7, end=15), 1, "refused: no MIN"),
        (SourceError("the file is locked"), 3, "source error: the file is locked"),
        (BudgetExceeded("too dear"), 4, "budget error: too dear"),
        (InternalError("x"), 70, "internal error: x"),
        (ZeroDivisionError("secret"), 70, "internal error: ZeroDivisionError"),
        (RecursionError(), 70, "internal error: RecursionError"),
        (KeyboardInterrupt(), 130, "interrupted: nothing was charged"),
    ],
)
def test_an_error_goes_to_standard_error_with_its_code(
    script: type[Scripted],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    script.answers += [error, error]
    assert main(["query", "a.duckdb", SQL]) == code
    out, err = capsys.readouterr()
    assert out == "" and words in err and "Traceback" not in err and "secret" not in err
    assert main(["query", "a.duckdb", SQL, "--format", "json"]) == code
    out, err = capsys.readouterr()
    fields = json.loads(err)
    assert out == "" and fields["exit_code"] == code and fields["charged"] is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("secret")])
def test_what_was_charged_is_said(
    script: type[Scripted], capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    script.answers += [error, error]
    script.charges = PAID
    main(["query", "a.duckdb", SQL])
    assert "charged ε 0.171 (ρ 0.000800)" in capsys.readouterr().err
    main(["query", "a.duckdb", SQL, "--format=json"])
    assert json.loads(capsys.readouterr().err)["charged"] == PAID.to_dict()


def test_a_trace_is_shown_only_on_demand_and_without_messages(
    script: type[Scripted], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_DEBUG", "1")
    script.answers += [RuntimeError("secret")]
    assert main(["query", "a.duckdb", SQL]) == 70
    err = capsys.readouterr().err
    assert "cli.py" in err and "RuntimeError" in err and "secret" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["query"],
        ["query", "SELECT 1"],
        ["query", "a.duckdb", SQL, "more"],
        ["query", "a.duckdb", SQL, "-f", "x.sql"],
        ["query", "a.duckdb", "-f", "missing.sql"],
        ["query", "a.duckdb", "  "],
        ["query", "a.duckdb", SQL, "--epsilon", "much"],
        ["query", "a.duckdb", SQL, "--backend", "pmw"],
        ["query", "a.duckdb", SQL, "-o", "missing/a.csv"],
        ["query", "a.duckdb", SQL, "--accuracy", "fine"],
        ["shell", "a.duckdb", "b"],
        ["nothing"],
        ["budget", "grant", "a.duckdb", "alice"],
    ],
)
def test_a_wrong_command_line_is_code_2_and_asks_nothing(
    script: type[Scripted], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err
    assert script.asked == []
    assert main([*arguments, "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"] == "usage"


def test_parquet_needs_a_file(script: type[Scripted], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "a.duckdb", SQL, "--format", "parquet"]) == 2
    assert "add -o FILE" in capsys.readouterr().err and script.asked == []


def test_the_environment_gives_defaults(
    script: type[Scripted], release: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schemas = os.pathsep.join(["one.toml", "two.toml"])
    for name, value in (
        ("DPSQL_DB", "env.duckdb"),
        ("DPSQL_USER", "carol"),
        ("DPSQL_SCHEMA", schemas),
        ("DPSQL_LEDGER", "env.ledger"),
    ):
        monkeypatch.setenv(name, value)
    other = tmp_path / "other.duckdb"
    other.touch()
    script.answers += [release(), release()]
    assert main(["query", SQL]) == 0
    assert main(["query", str(other), SQL]) == 0
    first, second = script.made
    assert first["database"] == Path("env.duckdb") and second["database"] == other
    assert first["user"] == "carol" and first["ledger"] == Path("env.ledger")
    assert first["schema"] == [Path("one.toml"), Path("two.toml")]
    assert script.asked == [SQL, SQL]


def test_a_statement_comes_from_a_file_or_standard_input(
    script: type[Scripted], release: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "q.sql"
    file.write_bytes(b"\xef\xbb\xbfSELECT '\xc3\xa9'")
    script.answers += [release() for _ in range(3)]
    assert main(["query", "a.duckdb", "-f", str(file)]) == 0
    for extra in ([], ["-f", "-"]):
        piped = io.TextIOWrapper(io.BytesIO(b"SELECT 'x'"))
        monkeypatch.setattr(sys, "stdin", piped)
        assert main(["query", "a.duckdb", *extra]) == 0
    assert script.asked == ["SELECT 'é'", "SELECT 'x'", "SELECT 'x'"]
    file.write_bytes(b"\xff")
    assert main(["query", "a.duckdb", "-f", str(file)]) == 2


def test_an_output_file_has_the_format_of_its_suffix(
    script: type[Scripted], release: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for suffix in ("csv", "json", "md", "parquet", "txt"):
        script.answers += [release()]
        assert main(["query", "a.duckdb", SQL, "-o", str(tmp_path / f"a.{suffix}")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "a.csv").read_text().startswith("sex,n\nFemale,10771\n")
    assert Release.from_dict(json.loads((tmp_path / "a.json").read_text())) == release()
    assert (tmp_path / "a.md").read_text().startswith("| sex | n |")
    assert "┌" in (tmp_path / "a.txt").read_text("utf-8")
    with duckdb.connect() as judge:
        rows = judge.execute("FROM read_parquet($1)", [str(tmp_path / "a.parquet")]).fetchall()
    assert rows == [("Female", 10771), ("Male", 21790)]
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "a.json", "a.md", "a.parquet", "a.txt"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_paid_answer_is_printed_when_its_file_cannot_be_written(
    script: type[Scripted], release: Make, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    script.answers += [release()]
    assert main(["query", "a.duckdb", SQL, "-o", "/dev/full", "--format", form]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("sex,n\nFemale,10771\n")
    assert "cannot write /dev/full" in err and "the answer follows" in err


def test_a_refused_statement_leaves_no_file(script: type[Scripted], tmp_path: Path) -> None:
    script.answers += [Refused("no")]
    assert main(["query", "a.duckdb", SQL, "-o", str(tmp_path / "a.csv")]) == 1
    assert os.listdir(tmp_path) == []


def test_piped_statements_are_answered_in_turn_until_one_fails(
    script: type[Scripted],
    release: Make,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script.answers += [release(), release(), Refused("no"), release()]
    text = b".mode csv\nSELECT ';'; SELECT\n 2; SELECT 3; SELECT 4\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["shell", "a.duckdb"]) == 1
    assert script.asked == ["SELECT ';'", "SELECT\n 2", "SELECT 3"]
    assert capsys.readouterr().out.count("sex,n\nFemale,10771\n") == 2


def test_the_last_piped_statement_needs_no_semicolon(
    script: type[Scripted], release: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers += [release(), release()]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 1;\n-- x\nSELECT 2")))
    assert main(["shell", "a.duckdb"]) == 0
    assert script.asked == ["SELECT 1", "SELECT 2"]


def test_the_shell_has_its_own_commands(
    script: type[Scripted],
    release: Make,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1; SELECT 2")
    script.answers += [release(), release()]
    text = f".help\n.read {tmp_path / 'q.sql'}\n.quit\nSELECT 3;\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["shell", "a.duckdb"]) == 0
    assert script.asked == ["SELECT 1", "SELECT 2"]
    assert ".schema [DATASET]" in capsys.readouterr().out
    for wrong in (b".mode pdf\n", b".read\n", b".read missing.sql\n", b".nothing\n"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(wrong)))
        assert main(["shell", "a.duckdb"]) == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_any_encoding_takes_the_answer(
    script: type[Scripted], release: Make, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    script.answers += [release(rows=(("日本", 5000),), notes=("a note",))]
    assert main(["query", "a.duckdb", SQL]) == 0
    shown = raw.getvalue().decode(encoding)
    if encoding == "utf-8":
        assert "│ 日本 │ 5,000 ± 47 │" in shown
    else:
        assert "5,000 +/- 47" in shown and "eps left 1.95" in shown and "+---" in shown


@pytest.mark.parametrize(("typed", "meant"), [("qurey", "query"), ("shel", "shell"), ("x", "")])
def test_a_command_that_there_is_not_is_near_another(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 2
    said = capsys.readouterr().err
    assert f"No such command '{typed}'." in said
    assert (f"Did you mean '{meant}'?" in said) is bool(meant)
