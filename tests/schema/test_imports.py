"""Reading a schema loads no engine and no array library."""

from __future__ import annotations

import subprocess
import sys

import dpsql.schema

HEAVY = ("duckdb", "numpy", "yaml", "click", "sqlglot", "difflib", "dpsql.schema.importers")


def test_the_schema_is_light_to_import() -> None:
    code = f"import sys, dpsql.schema; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in dpsql.schema.__all__:
        assert getattr(dpsql.schema, name) is not None
    assert callable(dpsql.schema.draft)
    assert not hasattr(dpsql.schema, "nothing")
