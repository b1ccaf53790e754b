"""What people read: one way to write a price, units that are true, options that are clear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import UsageError
from dpsql.surfaces.cli import main
from dpsql.surfaces.formats import SUFFIXES

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 90}
w = {type = "number", min = 0, max = 10, step = 0.5}
s = {type = "category", values = ["x", "y"]}
"""
SQL = "SELECT s, COUNT(*) AS n FROM t GROUP BY s"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a, 2.5 AS w, 'x' AS s FROM range(50)")
    (tmp_path / "t.toml").write_text(SCHEMA)
    with dpsql.Ledger.open(tmp_path / "t.ledger") as ledger:
        ledger.grant("ann", dataset="t", epsilon=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_USER", "ann")
    yield tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    out, err = capsys.readouterr()
    return out + err


# -- the name of an output file ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.parq", "x.csv.gz", "x.html", ".csv"])
def test_a_file_whose_name_tells_no_format_is_refused_before_anything_is_charged(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, "query", "t.duckdb", SQL, "-o", name, code=2)
    assert all(suffix in told for suffix in SUFFIXES) and "--format" in told
    assert not (place / name).exists()
    with dpsql.connect("t.duckdb") as con:
        assert con.budget().spent.rho == 0


def test_a_format_that_is_said_goes_with_any_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "query", "t.duckdb", SQL, "-o", "x.out", "--format", "csv")
    assert (place / "x.out").read_text().startswith("s,n\n")
    said(capsys, "query", "t.duckdb", SQL, "-o", "x.txt")
    assert "±" in (place / "x.txt").read_text()


# -- the name of a user -----------------------------------------------------------------------


@pytest.mark.parametrize("user", ["", "  "])
@pytest.mark.parametrize(
    "words",
    [["query", "t.duckdb", SQL], ["explain", "t.duckdb", SQL], ["shell", "t.duckdb"], ["demo"]],
)
def test_an_empty_user_is_refused(
    user: str, words: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "empty" in said(capsys, *words, "-u", user, code=2)


def test_an_empty_user_is_refused_in_python_and_an_empty_variable_is_none(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="the user is empty"):
        dpsql.connect("t.duckdb", user="")
    monkeypatch.setenv("DPSQL_USER", "")
    monkeypatch.setattr("getpass.getuser", lambda: "login")
    with dpsql.connect("t.duckdb") as con:
        assert con.session.user == "login"


# -- figures ----------------------------------------------------------------------------------


def test_a_price_is_written_in_one_way_everywhere(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["t.duckdb", SQL, "--epsilon", "0.1"]
    shown = [
        said(capsys, "explain", *asked),
        said(capsys, "query", "t.duckdb", f"EXPLAIN {SQL}", "--epsilon", "0.1"),
        said(capsys, "query", *asked),
    ]
    for text in shown:
        assert re.search(r"(?:ε|epsilon) 0\.100\b", text), text
        assert not re.search(r"0\.1000|(?:ε|epsilon) 0\.1\b", text), text
    assert "price" in shown[0]


def test_show_budget_reads_as_budget_show(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "query", "t.duckdb", SQL, "--epsilon", "0.1")
    shown = said(capsys, "budget", "show", "t.duckdb", "ann")
    told = said(capsys, "query", "t.duckdb", "SHOW BUDGET")
    for name in ("granted", "spent", "left"):
        figure = re.findall(rf"{name} +ε ([0-9.,]+) ", shown)[0]
        assert f" {figure} " in told, (name, told)
    assert not re.search(r"[1-9]\d{3}", told.replace("1e-06", "")), "three figures are enough"
    with dpsql.connect("t.duckdb") as con:
        [row] = con.execute("SHOW BUDGET").fetchall()
        assert row[3] == con.budget().left.epsilon, "scripts get all digits"
        assert row[7] == con.budget().spent.rho


# -- units ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregates", "unit", "sensitivity"),
    [
        ("COUNT(*)", "rows", 1), ("COUNT(*), SUM(1)", "rows", 1), ("AVG(s = 'x')", "rows", 1),
        ("COUNT(*), COUNT_IF(a > 3)", "rows", 2**0.5), ("SUM((a > 3)::INT)", "rows", 1),
        ("SUM(a)", "units of the sum", 90), ("SUM(w)", "units of the sum", 10),
        ("SUM(a) / 2", "units of the sum", 90), ("AVG(a)", "scaled units", None),
        ("SUM(a), COUNT(*)", "scaled units", None), ("SUM(a), SUM(w)", "scaled units", None),
        ("VARIANCE(a)", "scaled units", None),
    ],
)  # fmt: skip
def test_explain_says_the_unit_of_the_sensitivity(
    aggregates: str,
    unit: str,
    sensitivity: float | None,
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sql = f"SELECT {aggregates} FROM t"
    with dpsql.connect("t.duckdb") as con:
        plan = con.explain(sql)
        assert plan.unit == plan.to_dict()["unit"] == unit
        assert sensitivity is None or plan.sensitivity == pytest.approx(sensitivity)
        [told] = [row[1] for row in con.execute(f"EXPLAIN {sql}") if row[0] == "L2 sensitivity"]
        assert unit in str(told)
    shown = said(capsys, "explain", "t.duckdb", sql)
    assert re.search(rf"sensitivity [\d.,]+ {unit} ", shown)
    assert ("error (rows)" in shown) == (unit == "rows")


# -- what was charged -------------------------------------------------------------------------


def test_a_fault_after_the_charge_says_once_what_was_charged(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **named: object) -> None:
        raise ValueError(secret)

    secret = "4711 Petulengro"
    monkeypatch.setattr("dpsql.session.build.finish", fails)
    told = said(capsys, "query", "t.duckdb", SQL, "--epsilon", "0.1", code=70)
    assert told.count("charged") == 1 and "charged ε 0.100 (ρ " in told
    assert "internal error: the answer could not be made (ValueError)" in told
    assert "Petulengro" not in told
    asked = ["query", "t.duckdb", SQL, "--epsilon", "0.1", "--format", "json"]
    fields = json.loads(said(capsys, *asked, code=70))
    assert fields["charged"]["epsilon"] == pytest.approx(0.1, rel=1e-3)
    monkeypatch.setenv("DPSQL_DEBUG", "1")
    told = said(capsys, "query", "t.duckdb", SQL, "--epsilon", "0.1", code=70)
    assert "Petulengro" not in told and "session.py" in told
