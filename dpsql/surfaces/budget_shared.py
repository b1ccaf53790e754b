"""`dpsql budget cap` and `dpsql budget group`: what users spend together."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dpsql.errors import UsageError
from dpsql.surfaces.aim import Aim
from dpsql.surfaces.budget_options import common, dataset_of, done, ledger_of
from dpsql.surfaces.number import NUMBER
from dpsql.surfaces.options import database
from dpsql.surfaces.run import Run


@click.command()
@click.argument("words", nargs=-1, metavar="DB")
@click.option("--epsilon", type=NUMBER, help="How much, in epsilon.")
@click.option("--delta", type=NUMBER, help="[default: the largest delta of the grants, else 1e-6]")
@click.option("--auto", is_flag=True, help="Follow the largest single grant, as at first.")
@common
@click.pass_obj
def cap(
    run: Run,
    /,
    words: tuple[str, ...],
    epsilon: float | None,
    delta: float | None,
    auto: bool,
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
    form: str,
) -> None:
    """Set what all users of the dataset together may spend, or show it.

    A grant bounds what one user learns. Users who put their answers together learn the sum: ten
    colluding users of epsilon 1 (at delta 1e-6) hold epsilon 3.5 without a cap. The cap is the
    promise that holds for everybody at once. It is the largest single grant until you set it.

    \b
    dpsql budget cap adult.duckdb --epsilon 5
    dpsql budget cap adult.duckdb --auto
    dpsql budget cap adult.duckdb
    """
    run.owner = True
    db, _ = database(words, 0, "DB")
    if auto and epsilon is not None:
        raise UsageError("give --epsilon or --auto, not both")
    if delta is not None and epsilon is None:
        raise UsageError("give --epsilon beside --delta")
    name = dataset_of(db, schemas, dataset)
    with ledger_of(db, ledger) as book:
        if epsilon is not None:
            book.cap(name, epsilon=epsilon, delta=delta)
        elif auto:
            book.uncap(name)
        found = [balance for balance in book.caps() if balance.grant.dataset == name]
        everybody = book.purses()
    from dpsql.surfaces.purses import budget as of
    from dpsql.surfaces.purses import cap_words, lifted_words

    if not found:
        raise UsageError(f"{name} has no cap: it comes with the first grant, or with --epsilon")
    (balance,) = found
    fields = {**of(balance).to_dict(), "user": None, "fixed": balance.fixed}
    done(
        form,
        {"cap": fields},
        f"All users of {name} together: {cap_words(balance)}.",
        *lifted_words(everybody, balance),
    )


@click.command()
@click.argument("words", nargs=-1, metavar="DB GROUP [USER]...")
@click.option("--remove", multiple=True, metavar="USER", help="Take USER out; may repeat.")
@common
@click.pass_obj
def group(
    run: Run,
    /,
    words: tuple[str, ...],
    remove: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | str | None,
    form: str,
) -> None:
    """Let users share the purse GROUP: add members, take some out, or show them.

    A group is a purse with members; it gets its budget like a user, with `dpsql budget grant`.
    What a member asks is paid by the group's purse, and by the member's own as well: all of
    them, or none. Without a grant of its own the member's purse refuses nothing and remembers
    what was spent. What a member asked before joining does not count for the group.

    \b
    dpsql budget group adult.duckdb team bob carol
    dpsql budget grant adult.duckdb team --epsilon 2
    dpsql budget group adult.duckdb team --remove bob
    """
    run.owner = True
    db, rest = database(words, len(words), "DB GROUP [USER]...")
    if not rest:
        raise UsageError("no group: give DB GROUP [USER]...")
    from dpsql.schema.files import require

    require(db)
    name, users = rest[0], rest[1:]
    on = dataset_of(db, schemas, dataset)
    with ledger_of(db, ledger, create=bool(users)) as book:
        for user in users:
            book.join(user, name, dataset=on)
        for user in remove:
            book.leave(user, name, dataset=on)
        members = book.members(name, dataset=on)
        granted = {b.grant.user for b in book.purses() if b.grant.dataset == on}
    shown = f"{name} on {on}: {', '.join(members) or 'no members'}"
    fields = {"group": name, "dataset": on, "members": list(members)}
    said = []
    if name not in granted:
        advised = f"dpsql budget grant DB {shlex.quote(name)} --epsilon E"
        advised = Aim(db, ledger, schemas).words(advised)
        said.append(f"{name} has no grant yet, so its members get no answers: {advised}")
    if bare := [user for user in users if user not in granted]:
        said.append(
            f"{', '.join(bare)} {'has' if len(bare) == 1 else 'have'} no grant of their own:"
            f" what {name} is granted alone bounds them"
        )
    done(form, fields, shown, *said)
