"""Arguments and options that commands share, and the session they open."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.errors import UsageError
from dpsql.surfaces.aim import Aim
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.session import Session

    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_FILE = 1_000_000  # bytes of SQL that are read at all
SETTINGS = (
    "epsilon", "rho", "accuracy", "confidence", "backend", "objective", "intervals", "clamp",
    "postprocess", "total", "whole", "target", "strict", "reuse",
)  # fmt: skip


def named(user: str | None) -> str | None:
    """The user that was given. Raises UsageError for an empty name."""
    if user is not None and not user.strip():
        raise UsageError("-u has an empty name: give the user's, or leave -u out for your own")
    return user


schema_option = click.option(
    "-s",
    "--schema",
    "schemas",
    multiple=True,
    envvar="DPSQL_SCHEMA",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Schema file, or a folder of them; may repeat. [default: beside DB]",
)


class LedgerPlace(_Type):
    """A file, or the address of a PostgreSQL server as it stands."""

    name = "ledger"
    file = click.Path(dir_okay=False, path_type=Path)

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        from dpsql.accounting.books.shelf import is_url

        if is_url(value):
            return str(value)
        return self.file.convert(value, parameter, context)


ledger_option = click.option(
    "--ledger",
    envvar="DPSQL_LEDGER",
    type=LedgerPlace(),
    metavar="FILE",
    help="Ledger file, or postgresql://user@host/database. [default: DB with the suffix .ledger]",
)
user_option = click.option(
    "-u",
    "--user",
    envvar="DPSQL_USER",
    callback=lambda context, option, name: named(name),
    metavar="USER",
    help="Who asks, and pays. [default: your login name]",
)


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "markdown", "parquet"]),
    help="[default: by the suffix of -o; without -o table]",
)


def purse_options(command: F) -> F:
    """-s, -u and --ledger."""
    return schema_option(user_option(ledger_option(command)))


class _Accuracy(_Type):
    """A number of rows, or a percentage as text."""

    name = "accuracy"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        from dpsql.session.settings import read

        try:
            found: float | str = read("accuracy", value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return found


def setting_options(command: F) -> F:
    """The settings of a statement."""
    for option in reversed(
        [
            click.option(
                "--epsilon",
                type=float,
                help="Price: the statement alone is (epsilon, delta of the grant)-private.",
            ),
            click.option("--rho", type=float, help="Price in zCDP, instead of epsilon."),
            click.option(
                "--accuracy",
                type=_Accuracy(),
                metavar="ROWS|PERCENT",
                help="Half-width of the widest interval, in rows, or 2% of the least count that "
                "was released before: the least price that gives it.",
            ),
            click.option(
                "--confidence", type=float, help="Level of the intervals. [default: 0.95]"
            ),
            click.option(
                "--backend",
                type=click.Choice(["auto", "gaussian", "laplace", "factorization", "synopsis"]),
                help="How to answer. [default: auto]",
            ),
            click.option(
                "--objective",
                type=click.Choice(["total", "largest"]),
                help="What planning makes least where there are several answers: their total "
                "squared error, or the largest. [default: total]",
            ),
            click.option(
                "--intervals/--no-intervals",
                default=None,
                help="Add columns <name>_low and <name>_high after each noisy value.",
            ),
            click.option(
                "--clamp/--no-clamp",
                default=None,
                help="Cut negative counts to 0; this biases them upwards.",
            ),
            click.option(
                "--postprocess",
                type=click.Choice(["none", "projection"]),
                help="projection shows the answers of the one table that is nearest to the noisy "
                "ones: not negative, and in agreement. [default: none]",
            ),
            click.option(
                "--total",
                type=int,
                metavar="ROWS",
                help="Number of rows of the table, where it is public: projection keeps it, and "
                "target = population counts by it.",
            ),
            click.option(
                "--whole",
                type=click.Choice(["off", "auto", "on"]),
                help="on: what a statement has to buy is the whole table of its columns, from "
                "which later ones follow free; auto: once statements about them have cost as "
                "much. Not for scripts. [default: off]",
            ),
            click.option(
                "--target",
                type=click.Choice(["sample", "population"]),
                help="What intervals are about: the rows, or the population that they were drawn "
                "from. Not for scripts. [default: sample]",
            ),
            click.option(
                "--strict/--no-strict",
                default=None,
                help="--no-strict: with backend = synopsis, guesses that nothing verified are "
                "shown, too, free and without an interval. [default: strict]",
            ),
            click.option(
                "--reuse/--no-reuse",
                default=None,
                help="Answer from what was released before where that is accurate enough, free; "
                "--no-reuse buys afresh. [default: reuse]",
            ),
        ]
    ):
        command = option(command)
    return command


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given."""
    return {name: given[name] for name in SETTINGS if given.get(name) is not None}


def database(words: tuple[str, ...], wanted: int, names: str) -> tuple[Path, tuple[str, ...]]:
    """DB and the words after it, at most `wanted`; DB may be left out when DPSQL_DB names it.

    With DPSQL_DB set, as many words as are expected after DB leave DB out, unless the first is a
    file that exists.
    """
    db, rest = _database(words, wanted, names)
    context = click.get_current_context(silent=True)
    if context is not None and isinstance(context.obj, Run):
        given = context.params
        context.obj.aim = Aim(db, given.get("ledger"), given.get("schemas") or ())
    return db, rest


def _database(words: tuple[str, ...], wanted: int, names: str) -> tuple[Path, tuple[str, ...]]:
    default = os.environ.get("DPSQL_DB")
    if default and len(words) <= wanted and not (words and _is_database(words[0])):
        return Path(default), words
    if not words:
        raise UsageError(f"no database: give {names}, or set DPSQL_DB")
    if len(words) > wanted + 1:
        raise UsageError(
            f"unexpected argument {words[wanted + 1]!r}: give {names} (quote text that has spaces)"
        )
    first, rest = words[0], words[1:]
    if not rest and wanted and any(letter.isspace() for letter in first) and not _is_file(first):
        raise UsageError(f"no database: give {names}, or set DPSQL_DB")
    return Path(first), rest


def _is_database(word: str) -> bool:
    """Whether a word names a file that is no text of SQL."""
    return _is_file(word) and not word.lower().endswith(".sql")


def _is_file(word: str) -> bool:
    try:
        return os.path.isfile(word)
    except ValueError:
        return False


@contextmanager
def opened(
    run: Run,
    db: Path,
    schemas: tuple[Path, ...],
    user: str | None,
    ledger: Path | str | None,
    settings: dict[str, Any],
) -> Iterator[Session]:
    """A session, known to the run so that an interruption can say what was charged."""
    with run.importing():
        from dpsql.session import Session

    with Session(
        db, schema=list(schemas) or None, user=user, ledger=ledger, settings=settings
    ) as session:
        run.session = session
        yield session


def statement(words: tuple[str, ...], file: Path | None) -> str:
    """The SQL: an argument, a file, or standard input."""
    if words and file is not None:
        raise UsageError("give the statement as an argument or with -f FILE, not both")
    if words:
        text = words[0]
        _require_sql(text)
    elif file is not None and str(file) != "-":
        text = read(file)
    elif file is None and sys.stdin.isatty():
        raise UsageError("no statement: give it as an argument, with -f FILE, or on standard input")
    else:
        text = decoded(sys.stdin.buffer.read(LONGEST_FILE + 1), "standard input")
    if not text.strip():
        raise UsageError("the statement is empty")
    return text


def _require_sql(text: str) -> None:
    """Raises UsageError for the name of a file, which no statement is."""
    word, exists = text.strip(), _is_file(text)
    bare = not any(letter.isspace() for letter in word)
    if not (exists or word.lower().endswith(".sql")) or not (bare or exists):
        return
    name, shown = click.get_current_context().info_name or "query", shlex.quote(text)
    dry = " --explain" if name == "explain" else ""
    lost = "" if exists else " (there is none of this name)"
    raise UsageError(
        f"{text!r} is the name of a file{lost}, not SQL: a file of one statement is read by"
        f" dpsql {name} DB -f {shown}; a script of several by dpsql run{dry} DB {shown}"
    )


def read(file: Path) -> str:
    """The text of a file of SQL. Raises UsageError."""
    try:
        with open(file, "rb") as opened_file:
            return decoded(opened_file.read(LONGEST_FILE + 1), str(file))
    except OSError as error:
        reason = (error.strerror or "input failed").lower()
        raise UsageError(f"cannot read {file}: {reason}") from None


def decoded(content: bytes, name: str) -> str:
    """UTF-8 text. Raises UsageError."""
    if len(content) > LONGEST_FILE:
        raise UsageError(f"{name} is longer than {LONGEST_FILE:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from None
