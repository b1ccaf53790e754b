"""`dpsql budget`: grant, revoke, show, log; files beside this one have the rest."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import click

from dpsql.accounting.payers import absent
from dpsql.errors import NoGrant
from dpsql.surfaces.budget_options import common, dataset_of, done, ledger_of, named
from dpsql.surfaces.budget_report import budget_report
from dpsql.surfaces.budget_shared import cap, group
from dpsql.surfaces.budget_verify import verify
from dpsql.surfaces.number import NUMBER
from dpsql.surfaces.options import database
from dpsql.surfaces.run import Run


@click.group()
def budget() -> None:
    """Grant, revoke and show what each user may spend.

    A purse belongs to a user (or a group of users) and a dataset; its ledger stands beside the
    database, or in PostgreSQL. What all users of a dataset spend together is capped, too: ten
    users of epsilon 1 who put their answers together would hold epsilon 3.5 without a cap. By
    default it is the largest single grant.

    \b
    dpsql budget grant adult.duckdb alice --epsilon 2 --until 2026-12-31
    dpsql budget cap adult.duckdb --epsilon 5
    dpsql budget group adult.duckdb team bob carol
    dpsql budget show adult.duckdb
    dpsql budget log adult.duckdb alice
    dpsql budget report adult.duckdb -o budget.html
    dpsql budget verify adult.duckdb
    dpsql budget revoke adult.duckdb alice
    """


@budget.command()
@click.argument("words", nargs=-1, metavar="DB USER")
@click.option("--epsilon", type=NUMBER, required=True, help="How much, in epsilon.")
@click.option(
    "--delta", type=NUMBER, default=1e-6, show_default=True, help="0 makes a pure grant (Laplace)."
)
@click.option(
    "--until",
    metavar="DATE",
    help="Last day of the grant, in UTC, as 2026-12-31. [default: no end]",
)
@click.option(
    "--cap",
    type=NUMBER,
    metavar="EPSILON",
    help="What all users of the dataset together may spend, at the same delta."
    " [default: the largest single grant]",
)
@common
@click.pass_obj
def grant(
    run: Run,
    /,
    words: tuple[str, ...],
    epsilon: float,
    delta: float,
    until: str | None,
    cap: float | None,
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
    form: str,
) -> None:
    """Let USER spend up to epsilon at delta, over all questions together.

    Granting again replaces the terms; what is spent stays spent. USER may be a group, whose
    members share the purse (`dpsql budget group`).

    All users of the dataset together spend at most its cap, which is the largest single grant
    unless you set it: ten users of epsilon 1 who put their answers together would hold epsilon
    3.5 without a cap, and hold 1 with it. So one grant to each of several users shares one
    budget among them, until --cap (or `dpsql budget cap`) allows more.

    \b
    dpsql budget grant adult.duckdb alice --epsilon 2
    dpsql budget grant adult.duckdb bob --epsilon 2 --until 2026-12-31 --cap 5
    """
    run.owner = True
    db, user = named(words)
    from dpsql.schema.files import require

    require(db)
    name = dataset_of(db, schemas, dataset)
    with ledger_of(db, ledger, create=True) as book:
        granted = book.grant(user, dataset=name, epsilon=epsilon, delta=delta, until=until, cap=cap)
        everybody = book.purses()
        found = [b for b in everybody if (b.grant.user, b.grant.dataset) == (user, name)]
        shared = next(balance for balance in book.caps() if balance.grant.dataset == name)
    from dpsql.surfaces.purses import budget as of
    from dpsql.surfaces.purses import (
        cap_words,
        holds,
        lifted_words,
        terms,
        until_words,
    )

    (balance,) = found
    purse = of(balance)
    spent = f", of which {terms(purse.spent)} is spent" if balance.spent_rho else ""
    done(
        form,
        {"granted": purse.to_dict(), "until": granted.until or None, "cap": of(shared).to_dict()},
        f"granted {user} {terms(purse.granted)} on {name}{until_words(granted)}{spent}",
        f"All answers that {user} pays for are together ({epsilon:g}, {delta:g})-differentially"
        " private; "
        f"{purse.default_queries_left:,} default queries are left."
        if holds(balance)
        else f"More was answered to {user} before than this allows: nothing more is answered, and "
        "what was answered stays as private as the earlier terms made it.",
        f"All users of {name} together: {cap_words(shared)}.",
        *lifted_words(everybody, shared),
    )


@budget.command()
@click.argument("words", nargs=-1, metavar="DB USER")
@common
@click.pass_obj
def revoke(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
    form: str,
) -> None:
    """End the grant of USER, and its membership in groups.

    \b
    dpsql budget revoke adult.duckdb alice
    """
    run.owner = True
    db, user = named(words)
    name = dataset_of(db, schemas, dataset)
    with ledger_of(db, ledger) as book:
        book.revoke(user, dataset=name)
    done(
        form,
        {"revoked": {"user": user, "dataset": name}},
        f"revoked the grant of {user} on {name}",
        f"{user} gets no more answers from {name}; what was spent stays in the log, "
        "and counts if you grant again.",
    )


@budget.command()
@click.argument("words", nargs=-1, metavar="DB [USER]")
@common
@click.pass_obj
def show(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
    form: str,
) -> None:
    """Show what was granted, spent and is left, and the cap of all users together.

    What is left counts what the cap and the groups of the user leave, too.

    \b
    dpsql budget show adult.duckdb          every user and group, and the cap
    dpsql budget show adult.duckdb alice    one user
    """
    del run, schemas
    from dpsql.surfaces import purses, terminal
    from dpsql.surfaces.output import write_lines

    db, rest = database(words, 1, "DB [USER]")
    user = rest[0] if rest else None
    with ledger_of(db, ledger) as book:
        everyone = book.purses() if user is None else book.paying(user)
        found = [b for b in everyone if dataset in (None, b.grant.dataset)]
        names = {balance.grant.dataset for balance in found}
        caps = [balance for balance in book.caps() if balance.grant.dataset in names]
        groups = book.groups()
    if user is not None and not found:
        raise absent(user, dataset)
    if form == "json":
        listed = [
            purses.fields(b, groups.get((b.grant.user, b.grant.dataset), ()), caps) for b in found
        ]
        write_lines([json.dumps(listed, indent=2)], sys.stdout)
        return
    bar, width = terminal.is_terminal(sys.stdout), terminal.width(sys.stdout)
    lines: list[str] = []
    for balance in found:
        members = groups.pop((balance.grant.user, balance.grant.dataset), ())
        lines += purses.balance_lines(balance, members, bar=bar, width=width)
    for (name, on), members in groups.items():
        if on in names and (user is None or user in members):
            lines += purses.idle_lines(name, on, members)
    for balance in caps:
        lines += purses.cap_lines(balance, bar=bar, width=width)
    nobody = f"nobody has a grant; one is given by: dpsql budget grant {shlex.quote(str(db))} USER"
    write_lines(lines or [f"{nobody} --epsilon E"], sys.stdout)


@budget.command()
@click.argument("words", nargs=-1, metavar="DB [USER]")
@common
@click.pass_obj
def log(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
    form: str,
) -> None:
    """List all that happened, oldest first: who, when, what it cost, and what was spent then.

    Grants, caps, groups and charges, with the mechanism and its noise; `dpsql budget verify` tells
    whether anybody changed the log. With USER, a user or a group, what concerns them alone.

    \b
    dpsql budget log adult.duckdb alice --format json
    """
    del schemas
    run.owner = True
    from dpsql.surfaces import audit, terminal
    from dpsql.surfaces.output import write_lines
    from dpsql.surfaces.table import table

    db, rest = database(words, 1, "DB [USER]")
    with ledger_of(db, ledger) as book:
        entries = list(book.log(rest[0] if rest else None, dataset))
    if rest and not entries:
        on = f" on {dataset}" if dataset else ""
        raise NoGrant(f"{rest[0]} never had a grant{on}, and has no entry in the log")
    if form == "json":
        write_lines(audit.json_lines(entries), sys.stdout)
        return
    names = ("#", "when (UTC)", "user", "dataset", "what", "spent (ρ)", "statement")
    rows = [audit.row(entry) for entry in entries]
    width, drawn = terminal.width(sys.stdout), terminal.draws(sys.stdout)
    right = (True, False, False, False, False, False, False)
    whole = (True, True, True, True, True, True, False)  # a statement may be cut
    write_lines(table(names, rows, right, width=width, drawn=drawn, whole=whole), sys.stdout)


for command in (cap, group, verify, budget_report):
    budget.add_command(command)
