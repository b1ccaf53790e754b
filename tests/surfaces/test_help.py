"""Help is documentation good enough to start from, and needs click alone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from dpsql.surfaces.cli import main


def test_help_needs_click_alone() -> None:
    code = (
        "import sys; from dpsql.surfaces.cli import main; code = main(['--help'])\n"
        "heavy = {'duckdb', 'numpy', 'prompt_toolkit', 'dpsql.session', 'dpsql.schema'}\n"
        "assert code == 0 and not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    for name in ("demo", "query", "explain", "run", "schema", "budget", "shell", "Exit codes"):
        assert name in shown
    assert "serve" not in shown  # of a later version


COMMANDS = [
    "demo", "query", "explain", "run", "shell", "schema", "schema show", "schema infer",
    "schema check", "schema json-schema", "budget", "budget grant", "budget revoke",
    "budget show", "budget log", "budget cap", "budget group", "budget verify", "budget report",
    "synopsis", "synopsis create", "synopsis show", "synopsis export", "synopsis drop",
]  # fmt: skip


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_every_command_has_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-h", "--help"):
        assert main([*words.split(), option]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("Usage: dpsql")
        assert words in ("schema json-schema",) or "dpsql " in shown.split("\n", 1)[1]


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dpsql {version('dpsql')}\n"


def _examples(text: str) -> Iterator[list[str]]:
    """The commands that a help text shows, as the shell would pass them."""
    for line in text.splitlines():
        found = re.search(r"(?:^|\| )\s*dpsql (.*)", line.strip())
        if found and not line.startswith("Usage"):
            yield shlex.split(re.split(r"\s{3,}|\s[<>]\s", found.group(1))[0])


def test_every_example_of_the_help_is_a_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples: list[list[str]] = []
    for words in ("", *COMMANDS):
        assert main([*words.split(), "-h"]) == 0
        examples += _examples(capsys.readouterr().out)
    assert len(examples) >= 20
    ran: list[str | None] = []
    monkeypatch.setattr(click.Command, "invoke", lambda self, context: ran.append(self.name))
    for example in examples:
        assert main(example) == 0, example
    assert {"query", "grant", "infer", "check", "demo"} <= set(ran)
