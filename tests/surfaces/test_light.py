"""The core is light: what it need not load it does not, and what is missing names its remedy."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = {
    *("IPython", "sqlalchemy", "pandas", "polars", "pyarrow", "psycopg", "yaml", "prompt_toolkit"),
    *("click", "tomli_w"),
}
DATA = ROOT / "examples" / "data" / "titanic.parquet"
ASK = """
import dpsql
ledger = dpsql.Ledger.memory()
ledger.grant("ann", dataset="titanic", epsilon=1)
with dpsql.connect({data!r}, schema={schema!r}, user="ann", ledger=ledger) as con:
    con.execute("SELECT class, COUNT(*) FROM titanic GROUP BY class").fetchall()
    con.explain("SELECT COUNT(*) FROM titanic")
    con.budget()
"""


def run(code: str) -> str:
    """What the code prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask() -> str:
    schema = ROOT / "schemas" / "titanic.toml"
    return ASK.format(data=str(DATA), schema=str(schema))


def test_importing_takes_less_than_two_fifths_of_a_second() -> None:
    code = (
        "import time; start = time.perf_counter(); import dpsql; dpsql.Error\n"
        "print(time.perf_counter() - start)"
    )
    assert min(float(run(code)) for _ in range(3)) < 0.4


def test_importing_loads_no_extra_and_no_engine() -> None:
    heavy = EXTRAS | {"duckdb", "numpy"}
    code = f"import sys, dpsql; dpsql.Error; print(sorted({heavy!r} & set(sys.modules)))"
    assert run(code) == "[]\n"


def test_asking_loads_no_extra() -> None:
    code = f"{ask()}\nimport sys; print(sorted({EXTRAS!r} & set(sys.modules)))"
    assert run(code) == "[]\n"


def test_showing_in_a_notebook_loads_no_extra() -> None:
    code = (
        "import sys, dpsql; price = dpsql.Cost(0.1, 1.0, 1e-6)\n"
        "dpsql.Budget(price, price, price)._repr_html_()\n"
        f"print(sorted({EXTRAS!r} & set(sys.modules)))"
    )
    assert run(code) == "[]\n"


MISSING = [
    ("pandas", "pandas", "con.execute('SELECT 1').df()"),
    ("polars", "polars", "con.execute('SELECT 1').pl()"),
    ("pyarrow", "polars", "con.execute('SELECT 1').pl()"),
    ("pyarrow", "arrow", "con.execute('SELECT 1').arrow()"),
    ("psycopg", "postgres", "dpsql.Ledger.open('postgresql://ann@localhost/town')"),
    ("IPython", "notebook", "dpsql.load_ipython_extension(None)"),
]


@pytest.mark.parametrize(("module", "extra", "call"), MISSING)
def test_a_missing_extra_says_what_brings_it(module: str, extra: str, call: str) -> None:
    hidden = f"import sys; sys.modules[{module!r}] = None\n"
    body = ask().replace("    con.budget()", f"    con.budget()\n    {call}")
    code = f"{hidden}try:\n" + "\n".join(f"    {line}" for line in body.splitlines())
    said = run(f"{code}\nexcept dpsql.MissingExtra as error:\n    print(error)")
    assert f"pip install 'dpsql[{extra}]'" in said and module.lower() in said.lower()


def test_everything_else_works_without_any_extra() -> None:
    hidden = "import sys\n" + "".join(
        f"sys.modules[{name!r}] = None\n" for name in EXTRAS - {"prompt_toolkit"}
    )
    assert run(hidden + ask()) == ""


def test_extras_are_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {extra for _, extra, _ in MISSING} <= set(extras)
    for module, extra, _ in MISSING:
        package = {"IPython": "ipykernel"}.get(module, module)
        assert any(re.match(rf"{package}\b", wanted) for wanted in extras[extra])
    tested = {re.split(r"[\[>=<]", wanted)[0] for wanted in extras["test"]}
    for extra in set(extras) - {"test"}:
        names = {re.split(r"[\[>=<]", wanted)[0] for wanted in extras[extra]}
        assert names <= tested, f"what {extra} brings is there in the tests"
