"""`dpsql demo`: the whole story on the records of 32,561 adults."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.errors import Refused, UsageError
from dpsql.surfaces.options import named, opened
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.session import Session

EPSILON = 2.0
NAME = "adult.duckdb"


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "-u",
    "--user",
    envvar="DPSQL_USER",
    callback=lambda context, option, name: named(name),
    metavar="USER",
    help="Who asks. [default: your login name]",
)
@click.pass_obj
def demo(run: Run, /, folder: Path | None, user: str | None) -> None:
    """Answer real questions about real data, and show what each cost.

    Builds FOLDER/adult.duckdb (a temporary folder by default) from the records of the US Census
    of 1994 that ship with dpsql, with its schema beside it, grants you a budget, and asks. The
    folder stays, so that you can go on by hand.

    \b
    dpsql demo
    dpsql demo ~/dpsql-demo
    """
    run.owner = True
    room = build(run, folder)
    database = room / NAME
    from dpsql.accounting.ledger import Ledger
    from dpsql.surfaces.purses import purse_lines

    ledger = database.with_suffix(".ledger")
    with opened(run, database, (), user, ledger, {}) as session:
        who = ["-u", user] if user else []
        _say("32,561 adults of the US Census of 1994 (UCI Adult, CC BY 4.0), asked privately.")
        _say(f"The table, its schema and its ledger are in {room}", "")
        _command("budget", "grant", NAME, session.user, "--epsilon", f"{EPSILON:g}")
        with Ledger.open(ledger) as book:
            book.grant(session.user, dataset="adult", epsilon=EPSILON)
        _say(f"All answers to {session.user} together will be ({EPSILON:g}, 1e-06)-private.", "")
        _ask(session, run, who)
        _command("budget", "show", NAME, session.user)
        _say(*purse_lines(session.budget("adult"), bar=True), "")
    _say(
        "Go on by hand:",
        f"  cd {shlex.quote(str(room))}",
        f"  dpsql schema show {NAME}",
        f"  dpsql shell {shlex.join([NAME, *who])}",
        "  dpsql -h",
    )


def build(run: Run, folder: Path | None) -> Path:
    """A folder with the database and its schema. Raises UsageError if it holds one already."""
    try:
        if folder is None:
            room = Path(tempfile.mkdtemp(prefix="dpsql-demo-"))
        else:
            room = folder.expanduser()
            room.mkdir(parents=True, exist_ok=True)
        for name in (NAME, "adult.toml", "adult.ledger"):
            if (room / name).exists():
                raise UsageError(
                    f"{room / name} is there already: name another folder, or remove it"
                )
        data = resources.files("dpsql.surfaces") / "demo_data"
        for name in ("adult.toml", "NOTICE.txt"):
            (room / name).write_bytes((data / name).read_bytes())
        with resources.as_file(data / "adult.parquet") as records:
            _load(run, room / NAME, records)
    except OSError as error:
        reason = (error.strerror or "output failed").lower()
        raise UsageError(
            f"cannot build the demo in {folder or 'a temporary folder'}: {reason}"
        ) from None
    return room


def _load(run: Run, database: Path, records: Path) -> None:
    with run.importing():
        import duckdb

    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE adult AS FROM read_parquet($1)", [str(records)])


def _ask(session: Session, run: Run, who: list[str]) -> None:
    """The questions of the demo, as the command would print them."""
    _say("How many women and men? Each count is noisy; ± is its 95 % interval.")
    _answer(session, run, who, "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex")
    _say("A share: both of its counts come from one release, at one price.")
    _answer(
        session,
        run,
        who,
        "SELECT education, AVG((income = '>50K')::INT) AS over_50k FROM adult"
        " GROUP BY education ORDER BY over_50k DESC LIMIT 5",
    )
    _say("The mean of a bounded column, the bounds of the interval as columns:")
    _answer(
        session,
        run,
        who,
        "SELECT AVG(hours_per_week) AS hours FROM adult WHERE sex = 'Female'",
        intervals=True,
    )
    _say("The Laplace mechanism, at a price of your own:")
    _answer(
        session,
        run,
        who,
        "SELECT COUNT(*) AS n FROM adult WHERE age < 30 AND NOT native_country = 'United-States'",
        backend="laplace",
        epsilon=0.1,
    )
    _say("What would this cost, and how far off would it be? Asking so is free.")
    run.asking = False
    _explain(session, who, "SELECT race, COUNT(*) AS n FROM adult GROUP BY race", epsilon=0.05)
    _say("What no noise can hide is refused, before anything is read:")
    _answer(session, run, who, "SELECT MIN(age) FROM adult")


def _answer(session: Session, run: Run, who: list[str], sql: str, **settings: Any) -> None:
    from dpsql.surfaces import faults
    from dpsql.surfaces.query import show

    _command("query", NAME, sql, *who, *_options(settings))
    try:
        with run.statement():
            release = session.answer(sql, **settings)
            show(release, "table", None, run)
    except Refused as error:
        _say(faults.refusal(error, None))
    _say("")


def _explain(session: Session, who: list[str], sql: str, **settings: Any) -> None:
    from dpsql.surfaces import terminal
    from dpsql.surfaces.formats import plan_lines

    _command("explain", NAME, sql, *who, *_options(settings))
    plan = session.explain(sql, **settings)
    width, drawn = terminal.width(sys.stdout), terminal.draws(sys.stdout)
    _write(plan_lines(plan, width=width, drawn=drawn))
    _say("")


def _options(settings: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for name, value in settings.items():
        options += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return options


def _command(*words: str) -> None:
    from dpsql.surfaces import terminal

    shown = " ".join(_quoted(word) for word in ("dpsql", *words))
    _write([terminal.paint(f"$ {shown}", "1", sys.stdout)])


def _quoted(word: str) -> str:
    """A word as a shell reads it; SQL in double quotes, where its own quotes can stay."""
    if any(letter.isspace() for letter in word) and not any(sign in word for sign in '"$`\\!'):
        return f'"{word}"'
    return shlex.quote(word)


def _say(*lines: str) -> None:
    _write(lines)


def _write(lines: Iterable[str]) -> None:
    from dpsql.surfaces.output import write_lines

    write_lines(lines, sys.stdout)
