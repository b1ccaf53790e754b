"""The shell's own commands, piped in: what they print, where, and the exit code."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dpsql
from dpsql.errors import UsageError
from dpsql.surfaces.cli import main
from dpsql.surfaces.shell import dots

Pipe = Callable[..., tuple[int, str, str]]
GROUPED = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex;"
README = Path(__file__).resolve().parents[3] / "README.md"


@pytest.fixture
def pipe(town: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pipe:
    """Pipe lines into a shell; gives the exit code and what was printed, and said beside it."""

    def piped(text: str, *options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(["shell", "people.duckdb", *options])
        return (code, *capsys.readouterr())

    return piped


def charges() -> list[str]:
    with dpsql.Ledger.open("people.ledger", create=False) as ledger:
        return [entry.statement for entry in ledger.log("alice") if entry.kind == "charge"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (".scema", "did you mean .schema?"), (".bugdet x", "did you mean .budget?"),
        ("\\timin", "did you mean \\timing?"), ("\\z", "no command \\z; .help lists them"),
        (".mode pdf", "choose one of table, csv, json, markdown"), (".timer maybe", "on or off"),
        (".schema nowhere", "there is no dataset 'nowhere': people"), (".chart", "no answer"),
        (".explain", "which statement?"), (".read", "which file?"),
        (".read nowhere.sql", "cannot read nowhere.sql"),
        (".output people.ledger", "cannot write people.ledger"),
        (".log people.toml", "cannot write"),
        (".output no/such/folder", "cannot write"), (".settings epsilom", "did you mean epsilon?"),
        (".help .nothing", "no command .nothing"), (".budget nowhere", "no dataset 'nowhere'"),
    ],
)  # fmt: skip
def test_a_wrong_command_ends_a_pipe_with_words_that_help(
    pipe: Pipe, line: str, words: str
) -> None:
    code, out, err = pipe(f"{line}\nSHOW epsilon;\n")
    assert code == 2 and words in err and "epsilon │ unset" not in out and charges() == []


def test_psql_s_names_do_the_same(pipe: Pipe) -> None:
    pairs = ((".help", "\\?"), (".schema", "\\d"), (".schema people", "\\d people;"))
    for ours, theirs in pairs:
        assert pipe(ours + "\n") == pipe(theirs + "\n") != (0, "", "")
    for leave in (".quit", "\\q", ".exit", "quit", "exit", "quit;", ".quit;"):
        assert pipe(f"{leave}\nSHOW epsilon;\n") == (0, "", "")


def test_settings_are_listed_with_what_changed(pipe: Pipe) -> None:
    code, out, _ = pipe("SET epsilon = 0.5;\n.timer on\n.settings\n.settings clamp\n")
    assert code == 0 and re.search(r"│ epsilon +│ 0.5 +│ at first unset │", out)
    assert ".timer on\n" in out and out.count("clamp") == 2


def test_answers_go_to_a_file_and_come_back(pipe: Pipe, town: Path) -> None:
    text = f".mode csv\n.output 'a b.csv'\n{GROUPED}\n{GROUPED}\n.output\n.mode table\nSHOW rho;\n"
    code, out, _ = pipe(text, "--epsilon", "0.01")
    assert code == 0 and "female," not in out and "│ rho" in out
    lines = (town / "a b.csv").read_text().splitlines()
    assert lines[0] == lines[3] == "sex,n" and len(lines) == 6


def test_a_paid_answer_that_a_file_does_not_take_is_shown(pipe: Pipe) -> None:
    code, out, err = pipe(f".output /dev/full\n{GROUPED}\nSHOW rho;\n")
    assert code == 2 and "│ female │" in out and "│ rho" in out
    assert "cannot write /dev/full" in err and len(charges()) == 1


def test_the_log_is_a_script_that_can_be_read_again(pipe: Pipe, town: Path) -> None:
    code, _, _ = pipe(f".log all.sql\n{GROUPED}\n.budget\n.log off\nSHOW rho;\n", "--reuse")
    kept = (town / "all.sql").read_text()
    assert code == 0 and GROUPED in kept and "-- │ female │" in kept and "rho" not in kept
    assert "-- alice on people" in kept and len(charges()) == 1
    code, out, _ = pipe(".read all.sql\n", "--reuse")
    assert code == 0 and "released before" in out and len(charges()) == 1


def test_log_alone_lists_what_its_user_paid_for(pipe: Pipe) -> None:
    with dpsql.Ledger.open("people.ledger") as ledger:
        ledger.grant("bob", dataset="people", epsilon=1)
    assert pipe(".log\n")[1] == "nothing was charged yet\n"
    assert pipe("SELECT COUNT(*) FROM people WHERE age = 7;\n", "-u", "bob")[0] == 0
    code, out, _ = pipe(f"{GROUPED}\n.log\n")
    assert code == 0 and "│ ρ 0.000" in out and "GROUP BY sex" in out and "gaussian σ" in out
    assert "age = 7" not in out


def test_read_files_may_hold_commands_and_read_others_but_not_themselves(
    pipe: Pipe, town: Path
) -> None:
    (town / "b.sql").write_text(".mode csv\nSHOW\nepsilon;")
    (town / "a.sql").write_text("\\i b.sql\nSHOW rho")
    assert pipe(".read a.sql\nSHOW clamp;\n")[1] == (
        "name,value\nepsilon,unset\nname,value\nrho,unset\nname,value\nclamp,off\n"
    )
    (town / "c.sql").write_text(".quit\nSHOW rho;")
    assert pipe(".read c.sql\nSHOW clamp;\n") == (0, "", "")
    (town / "d.sql").write_text(".read d.sql")
    code, _, err = pipe(".read d.sql\n")
    assert code == 2 and "at most 10 files" in err


def test_the_timer_speaks_beside_the_answer(pipe: Pipe) -> None:
    code, out, err = pipe(f".mode csv\n\\timing on\n{GROUPED}\n")
    assert code == 0 and re.fullmatch(r"\d+\.\d{3} s\n", err) and out.startswith("sex,n\n")


def test_explain_takes_the_last_statement(pipe: Pipe) -> None:
    text = f"{GROUPED}\nSET rho = 1;\n.explain\n.explain SELECT COUNT(*) FROM people;\n.chart n\n"
    code, out, _ = pipe(text)
    assert code == 0 and out.count("nothing was charged\n") == 3 and len(charges()) == 1
    assert "2 linear queries" in out and "1 linear query" in out and "n · 95 % intervals" in out


def test_a_dear_statement_that_is_piped_in_is_not_asked_about(pipe: Pipe) -> None:
    code, out, _ = pipe(GROUPED, "--epsilon", "1.5")
    assert code == 0 and "y/N" not in out and len(charges()) == 1


def test_help_fits_narrow_terminals() -> None:
    assert max(map(len, dots.help_lines())) <= 100
    for width in (40, 80):
        lines = dots.help_lines(width=width)
        assert max(map(len, lines)) <= width
        assert all(any(dot.name in line for line in lines) for dot in dots.DOTS)
    assert dots.help_lines("timer") == [".timer on|off   say how long a statement took"
                                        " (also \\timing)"]  # fmt: skip
    with pytest.raises(UsageError):
        dots.help_lines("nothing")


def test_the_page_lists_every_command() -> None:
    page = README.read_text(encoding="utf-8")
    found = re.search(r"<!-- dots -->\n((?:\|.*\n)+)", page)
    assert found
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]
    listed = {re.findall(r"`([^` ]+)", row[0])[0]: row for row in rows[2:]}
    assert list(listed) == [dot.name for dot in dots.DOTS]
    for dot in dots.DOTS:
        assert all(f"`{alias}`" in listed[dot.name][1] for alias in dot.aliases), dot


def test_budget_tells_of_datasets_without_a_grant(pipe: Pipe, town: Path) -> None:
    other = (town / "people.toml").read_text().replace('dataset = "people"', 'dataset = "other"')
    (town / "other.toml").write_text(other)
    code, out, err = pipe(".budget\n", "-s", "people.toml", "-s", "other.toml")
    assert (code, err) == (0, "")
    assert out.startswith("alice on people\n") and out.endswith("alice has no grant on other\n")
    code, _, err = pipe(".budget other\n", "-s", "people.toml", "-s", "other.toml")
    assert code == 4 and "alice has no grant on other" in err


@pytest.mark.parametrize("command", [".output", ".log"])
@pytest.mark.parametrize("name", ["people.ledger.seal", "mine.txt.anchor", "mine.txt"])
def test_answers_never_go_to_a_file_of_the_ledger(
    pipe: Pipe, town: Path, command: str, name: str
) -> None:
    """Whatever it is called: emptied, it would never be opened again."""
    with dpsql.Ledger.open(town / "mine.txt") as ledger:
        ledger.grant("alice", dataset="people", epsilon=2)
    before = (town / name).read_bytes()
    code, _, err = pipe(f"{command} {name}\n", "--ledger", "mine.txt")
    assert code == 2 and f"cannot write {name}" in err
    assert (town / name).read_bytes() == before


def test_the_mode_is_that_of_errors_as_well(pipe: Pipe) -> None:
    code, _, err = pipe(".mode json\nSELECT MIN(age) FROM people;\n")
    assert code == 1 and json.loads(err)["error"] == "refused"
    code, _, err = pipe(".mode table\nSELECT MIN(age) FROM people;\n", "--format", "json")
    assert code == 1 and err.startswith("refused: MIN")
