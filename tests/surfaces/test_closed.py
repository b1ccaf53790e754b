"""Standard streams that the process was started without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import dpsql

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
"""
SQL = "SELECT COUNT(*) AS n FROM t"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a FROM range(100)")
    (tmp_path / "t.toml").write_text(SCHEMA)
    with dpsql.Ledger.open(tmp_path / "t.ledger") as ledger:
        ledger.grant("ann", dataset="t", epsilon=1000)
    return tmp_path


def without(streams: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, started by a shell that closes some streams."""
    code = "import sys; from dpsql.surfaces.cli import main; sys.exit(main())"
    command = [sys.executable, "-W", "error", "-c", code, *words]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *command],
        cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip


def dump(folder: Path) -> object:
    with dpsql.Ledger.open(folder / "t.ledger") as ledger:
        return ledger.dump()


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["query", "t.duckdb", SQL, "-u", "ann"],
        ["query", "t.duckdb", "-o", SQL, "-u", "ann"],
        ["explain", "t.duckdb", SQL, "-u", "ann"],
        ["shell", "t.duckdb", "-u", "ann"],
        ["schema", "show", "t.duckdb"],
        ["schema", "check", "t.duckdb"],
        ["budget", "show", "t.duckdb"],
        ["budget", "grant", "t.duckdb", "bob", "--epsilon", "1"],
        ["demo", "made", "-u", "ann"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_cannot_be_printed_is_not_begun(words: list[str], folder: Path) -> None:
    before = dump(folder)
    done = without(">&-", folder, *words)
    assert done.returncode == 2 and done.stderr.startswith(("usage error: ", "Usage: "))
    assert "internal" not in done.stderr and done.stdout == ""
    assert dump(folder) == before and not (folder / "made").exists()


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-", "2>&-", "<&-"])
def test_an_answer_for_a_file_needs_no_stream(streams: str, folder: Path) -> None:
    done = without(streams, folder, "query", "t.duckdb", SQL, "-u", "ann", "-o", "n.csv")
    assert done.returncode == 0 and done.stderr == ""
    assert (folder / "n.csv").read_text().startswith("n\n")


def test_an_answer_that_its_file_does_not_take_goes_to_standard_error(folder: Path) -> None:
    words = ("query", "t.duckdb", SQL, "-u", "ann", "-o", "/dev/full", "--format", "csv")
    done = without(">&-", folder, *words)
    assert done.returncode == 2 and "the answer follows" in done.stderr
    assert "\nn\n" in done.stderr


@pytest.mark.parametrize("words", [["query", "t.duckdb"], ["explain", "t.duckdb"]])
def test_a_closed_input_holds_no_statement(words: list[str], folder: Path) -> None:
    done = without("<&-", folder, *words, "-u", "ann")
    assert (done.returncode, done.stderr) == (2, "usage error: the statement is empty\n")


def test_a_code_holds_where_nobody_can_read_why(folder: Path) -> None:
    assert without("2>&-", folder, "query", "t.duckdb", "SELECT MIN(a) FROM t").returncode == 1
    assert without(">&- 2>&-", folder, "query", "t.duckdb", SQL, "-u", "ann").returncode == 2
