"""Every example runs, and prints what its first lines promise, numbers aside."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.release import PURSE

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(command: list[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, timeout=60, check=False
    )


def promised(example: Path) -> str:
    """The indented block that ends the example's docstring."""
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    return textwrap.dedent(text.rpartition("\n\n")[2])


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(
    example: Path, tmp_path: Path, shape: Callable[[str], list[str]]
) -> None:
    done = run([sys.executable, "-W", "error", str(example)], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert shape(done.stdout) == shape(promised(example))
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_asks_one_question_in_its_first_line(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert "?" in text[:200].splitlines()[0]
    assert len(text.splitlines()) <= 80


def test_the_report_is_answered_statement_by_statement(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/data/adult.parquet", tmp_path)
    shutil.copy(ROOT / "schemas/adult.toml", tmp_path)
    with Ledger.open(tmp_path / "adult.ledger") as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1)
    command = [sys.executable, "-m", "dpsql", "shell", "adult.parquet", "-u", "alice"]
    report = (ROOT / "examples/report.sql").read_text(encoding="utf-8")
    done = run([*command, "--format", "csv"], tmp_path, report)
    assert (done.returncode, done.stderr) == (0, "")
    headers = [
        "name,value",
        "sex,n",
        "age_from,share",
        "workclass,hours",
        ",".join(PURSE),
    ]
    assert [line for line in done.stdout.splitlines() if line in headers] == headers
    with Ledger.open(tmp_path / "adult.ledger") as ledger:
        paid = [entry.statement for entry in ledger.log() if entry.kind == "charge"]
    assert len(paid) == 3
    assert all(statement.lstrip().startswith(("SELECT", "--")) for statement in paid)


def test_the_joint_report_is_one_charge_and_free_again(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/data/adult.parquet", tmp_path)
    shutil.copy(ROOT / "schemas/adult.toml", tmp_path)
    with Ledger.open(tmp_path / "adult.ledger") as ledger:
        ledger.grant("alice", dataset="adult", epsilon=2)
    script = str(ROOT / "examples/together.sql")
    command = [sys.executable, "-W", "error", "-m", "dpsql", "run", "adult.parquet", script]
    for _ in range(2):
        done = run([*command, "-u", "alice", "--param", "younger=40", "-o", "a.md"], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "a.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings[0] == "# Who earns more than 50,000?" and len(headings) == 6
    assert "nothing was charged" in page
    with Ledger.open(tmp_path / "adult.ledger") as ledger:
        [charge] = [entry for entry in ledger.log() if entry.kind == "charge"]
    assert charge.statement.startswith("together.sql: SELECT COUNT(*) AS people FROM adult; ")


def test_the_page_has_a_chart_of_each_kind(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/data/adult.parquet", tmp_path)
    shutil.copy(ROOT / "schemas/adult.toml", tmp_path)
    with Ledger.open(tmp_path / "adult.ledger") as ledger:
        ledger.grant("alice", dataset="adult", epsilon=2)
    script = str(ROOT / "examples/page.sql")
    command = [sys.executable, "-W", "error", "-m", "dpsql", "run", "adult.parquet", script]
    done = run([*command, "-u", "alice", "-o", "page.html"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for kind in ("Bars of people", "Line of over_50k", "Heat map of people"):
        assert f">{kind} by " in page, kind
    assert page.count("<h2") == 9 and len(page) < 200_000
