"""The layers and the wall: import-linter decides, and sees what is broken on purpose."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINTER = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of pyproject.toml on the package of a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", LINTER, "--no-cache"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_imports_point_down_and_the_wall_holds():
    found = linted(ROOT)
    assert found.returncode == 0, found.stdout
    assert "0 broken" in found.stdout


BREACHES = [
    ("domain.py", "import dpsql.schema", "imports point down only"),
    ("accounting/filter.py", "import dpsql.curator.quote", "imports point down only"),
    ("curator/norms.py", "import dpsql.query.bind", "No analyst text behind the wall"),
    ("session/build.py", "import dpsql.curator.sealed", "True counts are opened"),
    ("planner.py", "import dpsql.curator.engines.duckdb", "Engines are reached"),
    ("curator/curator.py", "import duckdb", "DuckDB is touched in few places"),
]


@pytest.mark.parametrize(("module", "line", "contract"), BREACHES)
def test_a_breach_is_seen(module, line, contract, tmp_path):
    shutil.copytree(ROOT / "dpsql", tmp_path / "dpsql", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    broken = tmp_path / "dpsql" / module
    broken.write_text(broken.read_text() + f"\n\ndef _breach():\n    {line}\n")
    found = linted(tmp_path)
    assert found.returncode != 0
    [line] = [line for line in found.stdout.splitlines() if contract in line and "BROKEN" in line]
    assert line
