"""The shell as a person at a terminal has it: each test types at a real pseudo-terminal."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO
from dpsql.release import figure
from dpsql.surfaces.terminal import cells

Sit = Callable[..., Any]
SHELL = ["-W", "error", "-m", "dpsql", "shell", "people.duckdb", "-u", "alice"]
GROUPED = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex;"

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


def spent() -> tuple[int, float]:
    """What alice spent, in pico-rho, and its epsilon."""
    with dpsql.Ledger.open("people.ledger", create=False) as ledger:
        balance = ledger.balance("alice", "people")
    return balance.spent_rho, epsilon_of(balance.spent_rho, balance.grant.delta)


def test_a_declared_value_is_offered_and_taken(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("alice@people  ε left 2.00 of 2.00 >")
    alice.type("SELECT COUNT(*) FROM people WHERE sex = '")
    assert any(row.split()[:2] == ["female", "value"] for row in alice.shows("female", "male"))
    alice.type("\t\t")
    alice.shows("sex = 'male'")
    alice.type("\r")  # takes what is offered, and asks nothing
    alice.type(";\r")
    alice.then(" ± ", "price ε 0.171 alone", "1.99 of 2.00")
    alice.type(".quit\r")
    assert alice.leave() == 0 and alice.screen.coloured
    with dpsql.Ledger.open("people.ledger", create=False) as ledger:
        asked = [entry.statement for entry in ledger.log("alice") if entry.kind == "charge"]
    assert asked == ["SELECT COUNT(*) FROM people WHERE sex = 'male'"]


def test_a_statement_goes_over_lines_until_its_semicolon(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("of 2.00")
    alice.type("SELECT ';' AS a,\r")
    alice.until("...>")
    alice.type("COUNT(*) AS n\r")
    alice.until("...>")
    alice.type("FROM people\r")
    alice.until("...>")
    alice.type(";\r")
    alice.then("│ ;", "price ε 0.171")
    alice.type("SHOW TABLES\x1b\r")  # Alt-Enter ends it in any case
    alice.then("People of a small town", "free")
    alice.type("\x04")
    assert alice.leave() == 0


def test_what_was_typed_is_there_the_next_time_for_its_user_alone(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("of 2.00")
    alice.type("SHOW\r")
    alice.until("...>")
    alice.type("epsilon;\r")
    alice.then("unset")
    alice.type(".quit\r")
    assert alice.leave() == 0
    (file,) = (town / "home/.local/state/dpsql/histories").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.name.startswith("alice-")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    again = sit(SHELL, town)
    again.then("of 2.00")
    again.type("\x1b[A\x1b[A")  # .quit, and before it
    again.shows("SHOW", "epsilon;")
    again.type("\r")
    again.then("unset")
    again.type(".quit\r")
    assert again.leave() == 0
    bob = sit([*SHELL[:-1], "bob"], town)
    bob.until("bob@people  no grant >")
    bob.type("\x1b[A\x1b[A.quit\r")
    assert bob.leave() == 0 and "epsilon" not in bob.written


ENDLESS = """
import sys
from dpsql.curator.engines.duckdb import DuckDBEngine
SQL = "SELECT COUNT(*) FROM range(20000000000000) r(i) WHERE hash(i) = 1"
DuckDBEngine.counts = lambda self, columns: self._source.connection.rows(SQL)
from dpsql.surfaces.cli import main
sys.exit(main())
"""


def test_ctrl_c_stops_a_long_statement_and_says_what_was_charged(town: Path, sit: Sit) -> None:
    """The rows are read for ever, after the charge."""
    alice = sit(["-c", ENDLESS, *SHELL[4:]], town)
    alice.then("of 2.00")
    alice.type(GROUPED + "\r")
    alice.until("counting … ")
    while not spent()[0]:
        alice.until("counting … ")
    alice.type("\x03")
    said = alice.then("for the statement")
    rho, epsilon = spent()
    assert f"interrupted: charged ε {figure(epsilon)} (ρ {figure(rho / PICO)})" in said
    alice.type("SELECT half a thou")
    alice.shows("half a thou")
    alice.type("\x03")  # at the prompt: the line is gone
    alice.then("of 2.00")
    alice.type("SHOW BUDGET;\r")
    alice.then("rho_left", "free: nothing was charged")
    alice.type("\x04")
    assert alice.leave() == 0 and "Traceback" not in alice.written
    assert spent()[0] == rho


def test_ctrl_c_before_the_charge_costs_nothing(town: Path, sit: Sit) -> None:
    """Whether all rows can be read is found first, and here takes for ever."""
    alice = sit([*SHELL, "-s", "slow.toml"], town)
    alice.then("of 2.00")
    alice.type(GROUPED + "\r")
    alice.until("counting … ")
    alice.type("\x03")
    alice.then("interrupted: nothing was charged")
    assert spent()[0] == 0
    alice.type(".quit\r")
    assert alice.leave() == 0


PLANNING = """
import sys
import numpy
import dpsql.session.session as session
def explained(*given):
    while True:
        numpy.linalg.svd(numpy.ones((40, 40)))
session.explained = explained
from dpsql.surfaces.cli import main
sys.exit(main())
"""


def test_ctrl_c_stops_a_plan_at_once(town: Path, sit: Sit) -> None:
    """The one that the question before a dear statement needs."""
    alice = sit(["-c", PLANNING, *SHELL[4:]], town)
    alice.then("of 2.00")
    alice.type("SET epsilon = 1;" + GROUPED + "\r")
    alice.until("planning … ")
    pressed = time.monotonic()
    alice.type("\x03")
    alice.then("interrupted: nothing was charged")
    assert time.monotonic() - pressed < 5
    alice.type(".quit\r")
    assert alice.leave() == 0 and spent()[0] == 0


def test_a_dear_statement_is_asked_about_first(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("of 2.00")
    alice.type("SET epsilon = 1;\r")
    alice.then("free")
    alice.type(GROUPED + "\r")
    said = alice.until("[y/N]")
    assert re.search(r"this would take \d\d % of what is left", said.replace("\r\n", " "))
    for no in ("\r", "n\r", "\x04"):
        alice.type(no)
        alice.then("not asked: nothing was charged")
        alice.type(GROUPED + "\r")
        alice.until("[y/N]")
    alice.type("\x03")
    alice.then("interrupted: nothing was charged")
    assert spent()[0] == 0
    alice.type(GROUPED + "\r")
    alice.until("[y/N]")
    alice.type("y\r")
    alice.then("price ε 1.00 alone")
    first, _ = spent()
    assert first > 0
    alice.type(".ask off\r")
    alice.then("of 2.00")
    alice.type("SET reuse = off;\r")
    alice.then("free")
    alice.type(GROUPED + "\r")
    assert "[y/N]" not in alice.then("price ε 1.00 alone")
    alice.type(".quit\r")
    assert alice.leave() == 0 and spent()[0] > first


def test_a_chart_has_a_bar_for_each_row(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("of 2.00")
    alice.type(".chart\r")
    alice.then("there is no answer to draw yet")
    alice.type("SET epsilon = 0.15;\r" + GROUPED + "\r")
    alice.then("price ε 0.150")
    alice.type(".chart\r")
    alice.then("n · 95 % intervals")
    bars = [row for row in alice.screen.rows if "█" in row]
    assert [bar.split()[0] for bar in bars] == ["female", "male"]
    assert bars[0].count("█") > 1.5 * bars[1].count("█")  # 2,000 and 1,000
    assert all(re.search(r"█├?─*┼─*┤? .* ± \d+$", bar) for bar in bars), bars
    alice.type(".quit\r")
    assert alice.leave() == 0


def test_a_long_answer_goes_through_the_pager(town: Path, sit: Sit) -> None:
    (town / "page.sh").write_text("#!/bin/sh\nwc -l | sed 's/^ */lines paged: /'\n")
    os.chmod(town / "page.sh", 0o755)
    alice = sit(SHELL, town, PAGER=str(town / "page.sh"))
    alice.then("of 2.00")
    alice.type("SELECT age, COUNT(*) AS n FROM people GROUP BY age;\r")
    alice.then("lines paged: 116", "price ε 0.171", "1.99 of 2.00")  # 111 rows, 5 lines about them
    alice.type(GROUPED + "\r")
    assert "paged" not in alice.then("price ε 0.171")
    alice.type(".pager off\r")
    alice.then("of 2.00")
    alice.type("SELECT age, COUNT(*) AS n FROM people GROUP BY age;\r")
    assert "paged" not in alice.then("│ 110 │", "· free ·")
    alice.type(".quit\r")
    assert alice.leave() == 0


def test_leaving_the_pager_at_once_loses_nothing(town: Path, sit: Sit) -> None:
    """Ctrl-C while it runs is the pager's, and not the shell's."""
    (town / "page.sh").write_text("#!/bin/sh\ntrap 'echo caught; exit' INT\necho up\nread x <&2\n")
    os.chmod(town / "page.sh", 0o755)
    alice = sit(SHELL, town, PAGER=str(town / "page.sh"))
    alice.then("of 2.00")
    alice.type("SELECT age, COUNT(*) AS n FROM people GROUP BY age;\r")
    alice.until("up\r\n")
    alice.type("\x03")
    alice.then("caught", "price ε 0.171", "1.99 of 2.00")
    alice.type(".quit\r")
    assert alice.leave() == 0 and "interrupted" not in alice.written


def test_forty_columns_without_colour(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town, columns=40, NO_COLOR="1")
    alice.then("alice@people  ε left 2.00 of 2.00")
    for typed, words in (
        (GROUPED, "ε left 1.99"),
        (".chart", "95 % intervals"),
        (".help", "psql"),
        (".schema", "possible records"),
        (".budget", "default queries left"),
        ("SHOW TABLES;", "free"),
    ):
        alice.type(typed + "\r")
        alice.then(words)
    alice.type(".quit\r")
    assert alice.leave() == 0
    printed = re.sub(r"\x1b\[[0-9;?]*[@-~]", "", alice.written)
    lines = [line for line in re.split(r"[\r\n]+", printed) if set(line) & set("│┌└█─")]
    assert lines and [line for line in lines if cells(line) > 40] == []
    assert not alice.screen.coloured


@pytest.mark.parametrize(
    ("environment", "left", "error"),
    [
        ({"TERM": "dumb"}, "ε left 2.00 of 2.00 > ", " ± "),
        ({"PYTHONIOENCODING": "ascii"}, "eps left 2.00 of 2.00 >", " +/- "),
        ({"TERM": "dumb", "PYTHONIOENCODING": "latin-1"}, "eps left 2.00 of 2.00 > ", " +/- "),
    ],
)
def test_terminals_that_can_do_less(
    town: Path, sit: Sit, environment: dict[str, str], left: str, error: str
) -> None:
    alice = sit(SHELL, town, **environment)
    alice.then(left)
    alice.type("SELECT COUNT(*) AS n\r")
    alice.until("...>")
    alice.type("FROM people;\r")
    alice.then(error)
    alice.type("SELECT half")
    alice.interrupt("of 2.00")
    alice.type("SET epsilon = 1; SELECT COUNT(*) FROM people WHERE age = 1;\r")
    alice.until("[y/N]")
    alice.type("n\r")
    alice.then("not asked")
    alice.type(".chart\r")
    alice.then("95 % intervals")
    alice.type("\x04")
    assert alice.leave() == 0
    plain = environment.get("PYTHONIOENCODING")
    assert not plain or alice.written.isascii()
    assert environment.get("TERM") != "dumb" or "\x1b" not in alice.written


def test_a_history_that_cannot_be_kept_is_said_once(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town, DPSQL_HISTORY="/proc/nowhere/history")
    alice.then("what you type is not kept")
    alice.type("SHOW epsilon;\r")
    alice.then("unset")
    alice.type(".nothing\r")
    alice.then("no command .nothing")
    alice.type(".quit\r")
    assert alice.leave() == 0 and alice.written.count("is not kept") == 1


def test_statements_that_are_pasted_are_answered_in_turn(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("of 2.00")
    alice.type("\x1b[200~SHOW epsilon;\n.mode csv\nSHOW rho;\x1b[201~\r")
    alice.then("│ epsilon │", "rho,unset")
    alice.type(".quit\r")
    assert alice.leave() == 0


JOBS = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen([sys.executable, *sys.argv[1:]], process_group=0)
while True:
    os.tcsetpgrp(0, job.pid)
    os.kill(job.pid, signal.SIGCONT)
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    os.tcsetpgrp(0, os.getpgrp())
    if os.WSTOPSIG(status) == signal.SIGTSTP:
        print("suspended", flush=True)
        input()
"""


def test_ctrl_z_suspends_and_what_was_typed_is_there_again(town: Path, sit: Sit) -> None:
    alice = sit(["-c", JOBS, *SHELL], town)
    alice.then("of 2.00")
    alice.type("SHOW eps")
    alice.shows("SHOW eps")
    alice.type("\x1a")
    alice.until("suspended")
    alice.type("\r")
    alice.until("SHOW eps")
    alice.type("ilon;\r")
    alice.then("unset")
    alice.type(".quit\r")
    assert alice.leave() == 0


def test_help_and_quit_need_no_dot(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town)
    alice.then("of 2.00")
    alice.type("help\r")
    alice.then("columns and their domains")
    alice.type("quit\r")
    assert alice.leave() == 0


def test_on_a_dumb_terminal_what_follows_ctrl_c_begins_a_line(town: Path, sit: Sit) -> None:
    alice = sit(SHELL, town, TERM="dumb")
    alice.then("of 2.00")
    alice.type("SELECT\r")
    alice.until("...> ")
    alice.interrupt("of 2.00 > ")
    assert any(row.startswith("alice@people") for row in alice.screen.rows[1:])
    assert not any("^Calice" in row for row in alice.screen.rows)
    alice.type("\x04")
    assert alice.leave() == 0 and alice.written.endswith("\n")
