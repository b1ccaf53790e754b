"""A folder with a table of people, and `dpsql budget` in it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.surfaces.cli import main
from tests.surfaces.budget.words import SCHEMA, Run


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with people.duckdb and people.toml, and no ledger."""
    folder = tmp_path / "town"
    folder.mkdir()
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT 'male' AS sex FROM range(3000)")
    (folder / "people.toml").write_text(SCHEMA)
    monkeypatch.chdir(folder)
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_DEBUG", "DPSQL_USER"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def run(town: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command that must end with a code, and gives what it printed."""

    def command(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        found = main(list(words))
        out, err = capsys.readouterr()
        assert found == code, out + err
        assert (err == "") == (code == 0 or words[1] == "verify")
        return out + err

    return command
