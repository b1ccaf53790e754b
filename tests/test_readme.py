"""The front page is true: its commands run, its SQL is answered or refused, its figures hold."""

from __future__ import annotations

import ast
import fnmatch
import math
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql import errors
from dpsql.accounting.convert import rho_of
from dpsql.mechanisms.transfer import Transcript, transfer
from dpsql.session import Settings
from dpsql.session.settings import show
from tests import pages
from tests.pages import ROOT, Shape, blocks, follow, typed

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


def rows(mark: str) -> list[list[str]]:
    return pages.rows(PAGE, mark)


def examples(mark: str) -> list[str]:
    """The SQL in the second column of a table."""
    return [row[1].strip("`") for row in rows(mark)]


def drawn(lines: list[str]) -> list[str]:
    """The lines with the cells of drawn tables emptied below their heads: rows may change place."""
    found, inside = [], False
    for line in lines:
        inside = line.startswith("├") or (inside and line.startswith("│"))
        found.append(re.sub(r"[^│]+", "", line) if inside and line.startswith("│") else line)
    return found


def test_the_demo_prints_the_blocks_of_the_page(tmp_path: Path, shape: Shape) -> None:
    (shown,) = [block.text for block in blocks(PAGE) if block.mark == "demo"]
    command, _, output = shown.removeprefix("$ ").partition("\n")
    fresh = typed(command, tmp_path)
    ran = [drawn(shape(part)) for part in fresh.strip().split("\n\n")]
    for part in output.strip().split("\n\n"):
        assert drawn(shape(part)) in ran
    assert len(output.strip().split("\n\n")) >= 6


def test_the_page_runs_from_top_to_bottom(tmp_path: Path, shape: Shape) -> None:
    shutil.copy(ROOT / "examples/data/titanic.parquet", tmp_path)
    follow(PAGE, tmp_path, shape)


def test_the_example_in_python_has_five_lines() -> None:
    block, *_ = [block for block in blocks(PAGE) if block.kind == "python"]
    assert len([line for line in block.text.splitlines() if line.strip()]) == 5


# -- the tables of SQL -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    folder = tmp_path_factory.mktemp("adult")
    database = folder / "adult.duckdb"
    with duckdb.connect(str(database)) as made:
        made.execute(
            "CREATE TABLE adult AS FROM read_parquet($1)",
            [str(ROOT / "examples/data/adult.parquet")],
        )
    shutil.copy(ROOT / "schemas/adult.toml", folder)
    ledger = dpsql.Ledger.memory()
    ledger.grant("alice", dataset="adult", epsilon=100)
    with dpsql.connect(database, user="alice", ledger=ledger) as opened:
        yield opened


@pytest.mark.parametrize("sql", examples("answered"))
def test_what_the_page_says_is_answered_is_answered(connection: dpsql.Connection, sql: str) -> None:
    release = connection.execute(sql).release
    assert release.columns
    free = sql.startswith(("EXPLAIN", "DESCRIBE", "SHOW", "SET", "RESET")) or any(
        word in sql for word in ("LIMIT 0", "version()", "information_schema")
    )
    assert (release.price is None) == free


@pytest.mark.parametrize("sql", examples("refused"))
def test_what_the_page_says_is_refused_is_refused(connection: dpsql.Connection, sql: str) -> None:
    spent = connection.budget().spent
    with pytest.raises(dpsql.Refused) as caught:
        connection.execute(sql)
    assert caught.value.reason and caught.value.hint
    assert connection.budget().spent == spent


# -- the figures -------------------------------------------------------------------------------


def test_the_errors_are_those_that_explain_predicts(connection: dpsql.Connection) -> None:
    for epsilon, *said in rows("accuracy"):
        for backend, figure in zip(("gaussian", "laplace"), said, strict=True):
            plan = connection.explain(
                "SELECT COUNT(*) FROM adult", epsilon=float(epsilon), backend=backend
            )
            error = plan.stderr[0][0]
            assert error is not None and math.isclose(error, float(figure), rel_tol=0.005)


def test_the_errors_by_number_of_counts_are_those_of_equal_shares(
    connection: dpsql.Connection,
) -> None:
    whole = connection.explain("SELECT COUNT(*) FROM adult", epsilon=1).price.rho
    for number, figure in rows("shares"):
        share = whole / int(number.split(" ")[0].replace(",", ""))
        error = connection.explain("SELECT COUNT(*) FROM adult", rho=share).stderr[0][0]
        assert error is not None and math.isclose(error, float(figure), rel_tol=0.005)


def test_what_is_compared_is_what_the_benchmarks_measure() -> None:
    named: set[str] = set()
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named.add(node.value)
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "*" for p in node.values]
                named.add("".join(map(str, parts)))
    for name, *_ in rows("compared"):
        assert any(fnmatch.fnmatchcase(name, kind) for kind in named if len(kind) > 15), name


def test_what_a_cap_adds_to_a_share_is_as_said() -> None:
    for epsilon, added in rows("transfer"):
        told = Transcript(4 * rho_of(float(epsilon), 1e-6))
        assert added == f"{transfer(told, 0.05, noise=1e-4).shift:.3f}"


def test_the_settings_and_their_defaults_are_all_there() -> None:
    said = [(name.strip("`"), default) for name, default, _ in rows("settings")]
    assert said == [(field.name, show(field.default)) for field in fields(Settings)]


def test_the_exit_codes_are_all_there() -> None:
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.Error)
    }
    assert {int(code) for code, _ in rows("exit codes")} == raised | {0, 130}


def test_the_files_beside_a_database_are_those_named(tmp_path: Path) -> None:
    named = {name.strip("`") for row in rows("files") for name in row[0].split(", ")}
    table = "covid_tests"
    shutil.copy(ROOT / f"examples/data/{table}.parquet", tmp_path)
    shutil.copy(ROOT / f"schemas/{table}.toml", tmp_path)
    with dpsql.Ledger.open(tmp_path / f"{table}.ledger") as ledger:
        ledger.grant("alice", dataset=table, epsilon=1)
    database = tmp_path / f"{table}.parquet"
    with dpsql.connect(database, user="alice", ledger=tmp_path / f"{table}.ledger") as open_one:
        open_one.execute(f"SELECT COUNT(*) FROM {table}")
        while_open = {path.name for path in tmp_path.iterdir()}
    assert while_open == {
        name.replace("adult", table).replace(".duckdb", ".parquet") for name in named
    }
    for name in (f"{table}.ledger", f"{table}.ledger.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_the_page_names_files_that_are_there() -> None:
    for name in re.findall(r"`((?:examples|schemas)/[\w./]*|[A-Z]{4,}\.md)`", PAGE):
        assert (ROOT / name).exists() or (ROOT / "examples/data" / name).exists(), name
