"""`dpsql shell`: statements typed at a prompt or piped in, each ended by a semicolon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.errors import Error, NoGrant, UsageError
from dpsql.surfaces import statements
from dpsql.surfaces.options import (
    chosen,
    database,
    decoded,
    opened,
    purse_options,
    read,
    setting_options,
)
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.session import Session

MODES = ("table", "csv", "json", "markdown")
HELP = """\
Type SQL, ended by a semicolon. Also SET epsilon = 0.1; SHOW TABLES; EXPLAIN SELECT ...;
.schema [DATASET]   columns and their domains
.budget [DATASET]   what was granted, spent and is left
.mode FORMAT        table, csv, json or markdown
.read FILE          answer the statements in a file
.help               this text
.quit               leave (or Ctrl-D)"""


@click.command()
@click.argument("words", nargs=-1, metavar="DB")
@purse_options
@setting_options
@click.option("--format", "form", type=click.Choice(MODES), default="table", show_default=True)
@click.pass_obj
def shell(
    run: Run,
    /,
    words: tuple[str, ...],
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    form: str,
    **settings: Any,
) -> None:
    """Ask SQL at a prompt, or pipe statements in.

    A statement ends with a semicolon; .help lists the shell's own commands. Piped statements stop
    at the first error; at the prompt, Ctrl-C stops a statement and says what it charged. The
    options hold until SET says otherwise; RESET returns to them.

    \b
    dpsql shell adult.duckdb -u alice
    dpsql shell adult.duckdb --format csv < statements.sql
    """
    db, rest = database(words, 0, "DB")
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}: give DB alone")
    with opened(run, db, schemas, user, ledger, chosen(settings)) as session:
        room = Shell(session, run, form)
        if sys.stdin.isatty() and sys.stdout.isatty():
            room.talk(_reader())
        else:
            room.follow(_piped())


class Shell:
    """A session with an output mode and the statement that is being typed."""

    def __init__(self, session: Session, run: Run, form: str) -> None:
        self._session, self._run, self._form = session, run, form
        self._typed = ""

    def follow(self, lines: Iterator[str]) -> None:
        """Answer lines as they come; the first error ends it."""
        for line in lines:
            if not self._take(line):
                return
        left, self._typed = self._typed, ""
        if not statements.blank(left):
            self._answer(left)

    def talk(self, ask: Callable[[str], str]) -> None:
        """Answer a person until they leave; errors are shown and forgotten."""
        from dpsql.surfaces import faults

        self._write(["dpsql: answers are noisy and paid for; .help lists commands, .quit leaves"])
        while True:
            try:
                if not self._take(ask(self._prompt()) + "\n"):
                    return
            except EOFError:
                return
            except BrokenPipeError:
                raise
            except (Exception, KeyboardInterrupt) as error:
                run, self._typed = self._run, ""
                if run.asking or not isinstance(error, KeyboardInterrupt):
                    found = KeyboardInterrupt() if run.interrupted else error
                    as_json = self._form == "json"
                    faults.report(found, as_json=as_json, charged=run.charged())
                run.asking = run.interrupted = False

    def _take(self, line: str) -> bool:
        """Add a line to what was typed and answer what it ends; False to leave."""
        word = line.strip()
        if statements.blank(self._typed):
            if word in (".quit", ".exit", "quit", "exit"):
                return False
            if word.startswith("."):
                self._typed = ""
                self._command(word)
                return True
        done, left = statements.split(self._typed + line)
        self._typed = "" if statements.blank(left) else left
        for sql in done:
            self._answer(sql)
        return True

    def _answer(self, sql: str) -> None:
        from dpsql.surfaces.progress import Progress
        from dpsql.surfaces.query import show

        with self._run.statement():
            with Progress("counting"):
                release = self._session.answer(sql.strip())
            show(release, self._form, None, self._run)

    def _command(self, words: str) -> None:
        name, _, rest = words.partition(" ")
        argument = rest.strip().strip("'\"")
        match name:
            case ".help":
                self._write(HELP.splitlines())
            case ".schema":
                self._schema(argument)
            case ".budget":
                self._budget(argument)
            case ".mode":
                if argument not in MODES:
                    raise UsageError(f"no mode {argument!r}: choose one of {', '.join(MODES)}")
                self._form = argument
            case ".read":
                self._read(argument)
            case _:
                raise UsageError(f"no command {name}: .help lists them")

    def _read(self, file: str) -> None:
        if not file:
            raise UsageError("which file? .read FILE")
        done, left = statements.split(read(Path(file)))
        for sql in done if statements.blank(left) else [*done, left]:
            self._answer(sql)

    def _schema(self, name: str) -> None:
        from dpsql.surfaces import terminal
        from dpsql.surfaces.declared import dataset_lines

        width, drawn = terminal.width(sys.stdout), terminal.draws(sys.stdout)
        for dataset in self._session.datasets.values():
            if name.casefold() in ("", dataset.name.casefold()):
                self._write(dataset_lines(dataset, width=width, drawn=drawn))

    def _budget(self, name: str) -> None:
        from dpsql.surfaces import terminal
        from dpsql.surfaces.purses import purse_lines

        bar, width = terminal.is_terminal(sys.stdout), terminal.width(sys.stdout)
        for dataset in [name] if name else list(self._session.datasets):
            self._write(purse_lines(self._session.budget(dataset), bar=bar, width=width))

    def _prompt(self) -> str:
        """Who asks, of what, and what is left; dots while a statement goes on."""
        from dpsql.surfaces import terminal
        from dpsql.surfaces.figures import figure

        if self._typed:
            return "...> "
        datasets = list(self._session.datasets)
        if len(datasets) != 1:
            return f"{self._session.user} > "
        try:
            purse = self._session.budget(datasets[0])
            left, granted = figure(purse.left.epsilon), figure(purse.granted.epsilon)
            words = f"ε left {left} of {granted}"
        except NoGrant:
            words = "no grant"
        except Error:
            words = "no ledger"
        return terminal.signs(f"{self._session.user}@{datasets[0]}  {words} > ", sys.stdout)

    def _write(self, lines: Any) -> None:
        from dpsql.surfaces.output import write_lines

        write_lines(lines, sys.stdout)


def _piped() -> Iterator[str]:
    """The lines of standard input."""
    for line in sys.stdin.buffer:
        yield decoded(line, "standard input")


def _reader() -> Callable[[str], str]:
    """A prompt with a history of its own, in a file that only the user can read."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    history: History
    try:
        folder = (
            Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dpsql"
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "history"
        file.touch(mode=0o600)
        history = FileHistory(str(file))
    except (OSError, RuntimeError):
        history = InMemoryHistory()
    session: PromptSession[str] = PromptSession(history=history, reserve_space_for_menu=0)
    return session.prompt
