"""The package as it is installed, and the rules that every file of the project keeps."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 400  # lines of a file
SOURCES = ("dpsql", "tests", "examples", "benchmarks", "docs", "schemas", ".ci")
TOP = (
    *("README.md", "CHANGELOG.md", "DECISIONS.md", "Makefile", "pyproject.toml", ".gitignore"),
    "mkdocs.yml",
)
# What a bare installation holds: dpsql, what it depends on, and what those depend on.
CORE = {"dpsql", "duckdb", "numpy", "click", "prompt_toolkit", "wcwidth", "tomli_w", "opt_einsum"}


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_of_the_project(folder: Path) -> Path:
    """The files that packaging needs, without what building and testing leave behind."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "dpsql", folder / "project" / "dpsql", ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "project")
    return folder / "project"


def test_a_fresh_installation_runs_the_demo_with_nothing_but_the_core(tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path)
    room = tmp_path / "room"
    venv.create(room, symlinks=True)
    python, command = room / "bin" / "python", room / "bin" / "dpsql"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-warn-script-location", project, folder=tmp_path)
    listed = json.loads(run(*pip, "list", "--format", "json", folder=tmp_path))
    names = {package["name"].lower().replace("-", "_") for package in listed}
    assert names - {"pip", "setuptools"} == CORE
    assert run(command, "--version", folder=tmp_path) == f"dpsql {declared_version()}\n"
    asked = "from importlib.metadata import files; print(*files('dpsql'), sep='\\n')"
    files = run(python, "-c", asked, folder=tmp_path).splitlines()
    assert {
        "dpsql/py.typed",
        "dpsql/surfaces/demo_data/NOTICE.txt",
        "dpsql/surfaces/demo_data/adult.parquet",
        "dpsql/surfaces/demo_data/adult.toml",
    } <= set(files)
    inside = {name.split("/")[0] for name in files if not name.startswith("..")}
    assert {name for name in inside if not name.endswith(".dist-info")} == {"dpsql"}
    demo = run(command, "demo", "adult", "-u", "alice", folder=tmp_path)
    assert "All answers to alice together will be (2, 1e-06)-private." in demo


def test_make_demo_runs_again_where_it_ran_before(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    ready = tmp_path / "ready"  # an environment that is set up
    (ready / "bin").mkdir(parents=True)
    (ready / ".core").touch()
    command = ready / "bin" / "dpsql"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dpsql "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "dpsql-demo").mkdir()
    (tmp_path / "dpsql-demo" / "mine.sql").touch()
    seen = {run("make", "demo", f"VENV={ready}", folder=tmp_path) for _ in range(3)}
    assert len(seen) == 3  # the noise is fresh
    assert (tmp_path / "dpsql-demo" / "mine.sql").exists()


def declared_version() -> str:
    import tomllib

    fields = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version: str = fields["project"]["version"]
    return version


def loaded_by(code: str) -> set[str]:
    """Packages outside the standard library that the code loads."""
    ask = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    modules = run(sys.executable, "-c", ask, folder=ROOT).splitlines()[-1].split()
    packages = {name.split(".")[0] for name in modules}
    return packages - set(sys.stdlib_module_names)


def test_importing_dpsql_loads_nothing_else() -> None:
    assert loaded_by("import dpsql") == {"dpsql"}


def test_help_needs_click_alone() -> None:
    code = "from dpsql.surfaces.cli import main; assert main(['--help']) == 0"
    assert loaded_by(code) == {"dpsql", "click"}
    code = "from dpsql.surfaces.cli import main; assert main(['query', '--help']) == 0"
    assert loaded_by(code) == {"dpsql", "click"}


def test_errors_and_releases_need_no_engine() -> None:
    code = "import dpsql; dpsql.Refused, dpsql.Release, dpsql.Budget"
    assert loaded_by(code) == {"dpsql"}


# -- the rules of the project ------------------------------------------------------------------


def texts() -> list[Path]:
    """Every file of text of the project, this one aside."""
    found = [ROOT / name for name in TOP]
    for folder in SOURCES:
        found += [
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file()
            and path.suffix not in (".parquet", ".pyc")
            and ".ledger" not in path.name
        ]
    return [path for path in found if path != Path(__file__).resolve()]


def code() -> list[Path]:
    return [path for path in texts() if path.suffix == ".py"]


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        ("no path of somebody's machine", r"(?<![\w.])/(?:home|root|Users|work|mnt|opt)/\w"),
        ("no address of a package registry", r"pypi\.org|pythonhosted|index-url|/simple\b"),
        ("nothing is left to do", r"\bTODO\b|\bFIXME\b|\bXXX\b"),
        ("no test is passed over", r"mark\.xfail|pytest\.(?:skip|xfail|importorskip)\b"),
        (
            "no test is passed over but for a platform or a browser",
            r"mark\.skip(?!if\(\s*(?:sys\.platform|chromium\.MISSING))",
        ),
    ],
    ids=lambda text: text if " " in text and "|" not in text else "",
)
def test_no_file_breaks(rule: str, pattern: str) -> None:
    broken = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not broken, f"{rule}:\n" + "\n".join(broken)


def test_the_package_prints_in_its_surfaces_only() -> None:
    printing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "dpsql").rglob("*.py")
        if "surfaces" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "input", "breakpoint")
    ]
    assert not printing


def test_every_module_of_ours_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in code()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent


def test_no_file_is_too_long_to_read() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in code()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert not long
