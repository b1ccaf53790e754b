"""A person at the prompt: the question before a dear statement, Ctrl-C, and what is loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.session import Session
from dpsql.surfaces.run import Run
from dpsql.surfaces.shell.dear import question
from dpsql.surfaces.shell.prompt import finished
from dpsql.surfaces.shell.room import Room

GROUPED = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
Typed = str | type[BaseException]


class Person:
    """Who types lines and answers, one after another; an exception stands for a key."""

    def __init__(self, lines: list[Typed], answers: list[Typed]) -> None:
        self._lines, self._answers = iter(lines), iter(answers)
        self.prompts: list[str] = []
        self.asked: list[str] = []

    def line(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return _typed(next(self._lines, EOFError))

    def question(self, words: str) -> str:
        self.asked.append(words)
        return _typed(next(self._answers))


def _typed(given: Typed) -> str:
    if isinstance(given, str):
        return given
    raise given


@pytest.fixture
def session(town: Path) -> Iterator[Session]:
    with Session(town / "people.duckdb", user="alice") as opened:
        yield opened


@pytest.fixture
def talk(session: Session) -> Callable[..., Person]:
    def talked(*lines: Typed, answers: tuple[Typed, ...] = ()) -> Person:
        person = Person(list(lines), list(answers))
        room = Room(session, Run(session=session, holding=False), "table")
        room.talk(person)
        room.close()
        return person

    return talked


def spent() -> int:
    with dpsql.Ledger.open("people.ledger", create=False) as ledger:
        return ledger.balance("alice", "people").spent_rho


def test_only_a_dear_statement_is_asked_about(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert question(session, GROUPED) == ""
    monkeypatch.setattr(session, "explain", None)  # the default price needs no plan
    assert question(session, GROUPED) == "" == question(session, "SHOW ALL")
    monkeypatch.undo()
    session.answer("SET rho = 0.008")  # 9.07 % of the grant
    assert question(session, GROUPED) == ""
    session.answer("SET rho = 0.0089")  # 10.09 %
    assert "10 % of what is left" in question(session, GROUPED)
    assert question(session, "SELECT MIN(age) FROM people") == ""  # refused, free
    assert question(session, "nonsense") == "" == question(session, "EXPLAIN " + GROUPED)
    session.answer("SET epsilon = 50")
    assert question(session, GROUPED) == ""  # more than all that is left is refused
    session.answer("RESET ALL")
    priced = GROUPED.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", 1)
    assert question(session, priced) != ""


def test_the_default_price_is_dear_once_little_is_left(session: Session) -> None:
    session.answer(GROUPED, epsilon=1.9)
    purse = session.budget("people")
    assert purse.left.rho < 0.1 * purse.granted.rho
    assert "of what is left" in question(session, GROUPED)


def test_what_is_free_again_is_not_asked_about(session: Session) -> None:
    session.answer("SET epsilon = 1")
    session.answer("SET reuse = on")
    assert question(session, GROUPED) != ""
    session.answer(GROUPED)
    assert question(session, GROUPED) == ""


def test_a_pure_grant_is_counted_in_epsilon(town: Path) -> None:
    with dpsql.Ledger.open(town / "people.ledger") as ledger:
        ledger.grant("carol", dataset="people", epsilon=1, delta=0)
    with Session(town / "people.duckdb", user="carol") as session:
        session.answer("SET epsilon = 0.099")
        assert question(session, GROUPED) == ""
        session.answer("SET epsilon = 0.101")
        assert "10 % of what is left" in question(session, GROUPED)


def test_an_interrupted_question_charges_nothing_whatever_was_charged_before(
    talk: Callable[..., Person], capsys: pytest.CaptureFixture[str]
) -> None:
    person = talk(
        GROUPED + ";", "SET epsilon = 1;", GROUPED + ";", answers=(KeyboardInterrupt, EOFError)
    )
    out, err = capsys.readouterr()
    assert len(person.asked) == 1 and out.count("price ε") == 1
    assert err == "interrupted: nothing was charged\n"


def test_no_or_ctrl_d_asks_nothing(
    talk: Callable[..., Person], capsys: pytest.CaptureFixture[str]
) -> None:
    talk("SET epsilon = 1;", GROUPED + ";\n" + GROUPED + ";", answers=("maybe", EOFError))
    assert capsys.readouterr().out.count("not asked: nothing was charged") == 2
    assert spent() == 0


def test_an_error_forgets_what_was_typed_and_nothing_else(
    talk: Callable[..., Person], capsys: pytest.CaptureFixture[str]
) -> None:
    person = talk(
        "SELECT", KeyboardInterrupt, "SHOW rho;", "SELECT MIN(age) FROM people;\nSHOW clamp;",
        ".nothing", "SHOW\nepsilon", ";", ".mode json", "nonsense;", "quit",
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert person.prompts[1] == "...> " and person.prompts[2].startswith("alice@people  ε left")
    assert "rho" in out and "clamp" not in out and "epsilon" in out
    assert "refused: MIN" in err and "no command .nothing" in err and '"exit_code": 1' in err


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT 1; -- more", True),
        ("SELECT ';", False), ("SELECT 1; SELECT", False), (".help", True), ("\\d", True),
        ("quit", True), ("/* ; ", True), ("-- ;", True), ("SELECT /* ; */ 1", False),
        ("SELECT $$;", False), (".explain SELECT 1", True),
    ],
)  # fmt: skip
def test_enter_answers_what_is_finished(text: str, whole: bool) -> None:
    assert finished(text) is whole


@pytest.mark.parametrize(
    "code",
    [
        "import dpsql; dpsql.connect",
        "from dpsql.surfaces.cli import main; main(['shell', '--help'])",
        "from dpsql.surfaces.cli import main; main(['query', 'people.duckdb', 'SHOW rho'])",
        "from dpsql.surfaces.cli import main; main(['shell', 'people.duckdb'])",
    ],
)
def test_only_a_terminal_needs_prompt_toolkit(town: Path, code: str) -> None:
    ask = f"import sys; {code}\nsys.exit('prompt_toolkit' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", ask], input=b"SHOW rho;\n.help\n\\d\n", timeout=120
    )
    assert done.returncode == 0
