"""`dpsql budget`: grant, revoke, show, log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.errors import NoGrant, SourceError, UsageError
from dpsql.surfaces.options import database, ledger_option, schema_option
from dpsql.surfaces.run import Run

if TYPE_CHECKING:
    from dpsql.accounting.ledger import Balance, Entry, Ledger
    from dpsql.surfaces.options import F

format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
dataset_option = click.option(
    "--dataset", metavar="NAME", help="Dataset. [default: the only one that the schema declares]"
)


@click.group()
def budget() -> None:
    """Grant, revoke and show what each user may spend.

    A purse belongs to a user and a dataset; its ledger stands beside the database.

    \b
    dpsql budget grant adult.duckdb alice --epsilon 2
    dpsql budget show adult.duckdb
    dpsql budget log adult.duckdb alice
    dpsql budget revoke adult.duckdb alice
    """


def _common(command: F) -> F:
    return dataset_option(schema_option(ledger_option(format_option(command))))


def _holds(balance: Balance) -> bool:
    """Whether what is spent lies within the terms, so that they are true of all answers."""
    grant = balance.grant
    if grant.pure:
        return balance.spent_epsilon is not None and balance.spent_epsilon <= grant.epsilon_pico
    return balance.spent_rho <= grant.rho


@budget.command()
@click.argument("words", nargs=-1, metavar="DB USER")
@click.option("--epsilon", type=float, required=True, help="How much, in epsilon.")
@click.option(
    "--delta", type=float, default=1e-6, show_default=True, help="0 makes a pure grant (Laplace)."
)
@_common
@click.pass_obj
def grant(
    run: Run,
    /,
    words: tuple[str, ...],
    epsilon: float,
    delta: float,
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | None,
    form: str,
) -> None:
    """Let USER spend up to epsilon at delta, over all questions together.

    Granting again replaces the terms; what is spent stays spent.

    \b
    dpsql budget grant adult.duckdb alice --epsilon 2
    """
    run.owner = True
    db, user = _named(words)
    if not db.exists():
        raise SourceError(f"there is no database {db}")
    name = _dataset(db, schemas, dataset)
    with _ledger(db, ledger, create=True) as book:
        book.grant(user, dataset=name, epsilon=epsilon, delta=delta)
        balance = book.balance(user, name)
    from dpsql.surfaces.purses import budget as of
    from dpsql.surfaces.purses import questions_left, terms

    purse = of(balance)
    spent = f", of which {terms(purse.spent)} is spent" if balance.spent_rho else ""
    _done(
        form,
        {"granted": purse.to_dict()},
        f"granted {user} {terms(purse.granted)} on {name}{spent}",
        f"All answers to {user} together are ({epsilon:g}, {delta:g})-differentially private; "
        f"{questions_left(purse):,} default queries are left."
        if _holds(balance)
        else f"More was answered to {user} before than this allows: nothing more is answered, and "
        "what was answered stays as private as the earlier terms made it.",
    )


@budget.command()
@click.argument("words", nargs=-1, metavar="DB USER")
@_common
@click.pass_obj
def revoke(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | None,
    form: str,
) -> None:
    """End the grant of USER.

    \b
    dpsql budget revoke adult.duckdb alice
    """
    run.owner = True
    db, user = _named(words)
    name = _dataset(db, schemas, dataset)
    with _ledger(db, ledger) as book:
        book.revoke(user, dataset=name)
    _done(
        form,
        {"revoked": {"user": user, "dataset": name}},
        f"revoked the grant of {user} on {name}",
        f"{user} gets no more answers from {name}; what was spent stays in the log, "
        "and counts if you grant again.",
    )


@budget.command()
@click.argument("words", nargs=-1, metavar="DB [USER]")
@_common
@click.pass_obj
def show(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | None,
    form: str,
) -> None:
    """Show what was granted, spent and is left.

    \b
    dpsql budget show adult.duckdb          every user
    dpsql budget show adult.duckdb alice    one user
    """
    del run, schemas
    from dpsql.surfaces import purses, terminal
    from dpsql.surfaces.output import write_lines

    db, rest = database(words, 1, "DB [USER]")
    user = rest[0] if rest else None
    with _ledger(db, ledger) as book:
        found = [
            purses.budget(balance)
            for balance in book.purses()
            if user in (None, balance.grant.user) and dataset in (None, balance.grant.dataset)
        ]
    if user is not None and not found:
        raise NoGrant(f"{user} has no grant" + (f" on {dataset}" if dataset else ""))
    if form == "json":
        listed = [{**p.to_dict(), "default_queries_left": purses.questions_left(p)} for p in found]
        write_lines([json.dumps(listed, indent=2)], sys.stdout)
        return
    bar, width = terminal.is_terminal(sys.stdout), terminal.width(sys.stdout)
    made = (line for purse in found for line in purses.purse_lines(purse, bar=bar, width=width))
    write_lines(made if found else ["nobody has a grant"], sys.stdout)


@budget.command()
@click.argument("words", nargs=-1, metavar="DB [USER]")
@_common
@click.pass_obj
def log(
    run: Run,
    /,
    words: tuple[str, ...],
    dataset: str | None,
    schemas: tuple[Path, ...],
    ledger: Path | None,
    form: str,
) -> None:
    """List grants, revocations and charges, oldest first.

    \b
    dpsql budget log adult.duckdb alice --format json
    """
    del schemas
    run.owner = True
    from dpsql.surfaces import terminal
    from dpsql.surfaces.output import write_lines
    from dpsql.surfaces.table import table

    db, rest = database(words, 1, "DB [USER]")
    with _ledger(db, ledger) as book:
        entries = list(book.log(rest[0] if rest else None, dataset))
    if form == "json":
        write_lines(_json(entries), sys.stdout)
        return
    names = ("#", "when (UTC)", "user", "dataset", "what", "statement")
    rows = [_row(entry) for entry in entries]
    width, drawn = terminal.width(sys.stdout), terminal.draws(sys.stdout)
    rows = rows if drawn else [[terminal.signs(text, sys.stdout) for text in row] for row in rows]
    right = (True, False, False, False, False, False)
    write_lines(table(names, rows, right, width=width, drawn=drawn), sys.stdout)


def _row(entry: Entry) -> list[str]:
    from dpsql.surfaces.terminal import visible

    statement = " ".join(entry.statement.split())
    when = entry.at[:19].replace("T", " ")
    fields = (when, entry.user, entry.dataset, _what(entry), statement)
    return [str(entry.seq), *map(visible, fields)]


def _what(entry: Entry) -> str:
    from dpsql.accounting.events import PICO
    from dpsql.surfaces.figures import figure

    if entry.grant is not None:
        return f"grant ε {figure(entry.grant.epsilon)} at δ {entry.grant.delta:g}"
    if entry.price is None:
        return entry.kind
    words = f"{entry.kind} ρ {figure(entry.charged.rho / PICO)}"
    if entry.charged.rho < entry.price.rho:
        words += f" (alone {figure(entry.price.rho / PICO)})"
    if entry.exact is False:
        words += ", a bound"
    pure = entry.charged.epsilon
    return words if pure is None else f"{words}, pure ε {figure(pure / PICO)}"


def _json(entries: list[Entry]) -> Iterator[str]:
    """A list of objects, one a line; costs in ones."""
    from dpsql.accounting.events import PICO
    from dpsql.accounting.purse import Price

    def ones(price: Price | None) -> Any:
        if price is None:
            return None
        pure = None if price.epsilon is None else price.epsilon / PICO
        return {"rho": price.rho / PICO, "epsilon": pure}

    yield "["
    for number, entry in enumerate(entries, 1):
        granted: dict[str, float] | None = None
        if entry.grant is not None:
            granted = {"epsilon": entry.grant.epsilon, "delta": entry.grant.delta}
        fields: dict[str, Any] = {
            "seq": entry.seq,
            "at": entry.at,
            "kind": entry.kind,
            "user": entry.user,
            "dataset": entry.dataset,
            "grant": granted,
            "statement": entry.statement,
            "event": None if entry.event is None else dict(entry.event),
            "price": ones(entry.price),
            "charged": None if entry.price is None else ones(entry.charged),
            "exact": entry.exact,
            "snapshot": entry.snapshot,
            "spent": ones(entry.after),
        }
        yield f"  {json.dumps(fields, ensure_ascii=False)}{',' if number < len(entries) else ''}"
    yield "]"


def _named(words: tuple[str, ...]) -> tuple[Path, str]:
    db, rest = database(words, 1, "DB USER")
    if not rest:
        raise UsageError("no user: give DB USER")
    return db, rest[0]


def _dataset(db: Path, schemas: tuple[Path, ...], named: str | None) -> str:
    """The dataset meant: the one named, as the schema spells it, or the schema's only one."""
    from dpsql.schema import find

    try:
        declared = [dataset.name for dataset in find(db, schemas or None)]
    except UsageError:
        if named is None or schemas:
            raise
        return named
    if named is None:
        if len(declared) == 1:
            return declared[0]
        raise UsageError(f"which dataset? add --dataset with one of: {', '.join(declared)}")
    for name in declared:
        if name.casefold() == named.casefold():
            return name
    raise UsageError(f"the schema has no dataset {named!r}; it has: {', '.join(declared)}")


def _ledger(db: Path, path: Path | None, *, create: bool = False) -> Ledger:
    from dpsql.accounting.ledger import Ledger

    return Ledger.open(path or db.with_suffix(".ledger"), create=create)


def _done(form: str, fields: dict[str, Any], *sentences: str) -> None:
    from dpsql.surfaces.output import write_lines

    write_lines([json.dumps(fields)] if form == "json" else sentences, sys.stdout)
