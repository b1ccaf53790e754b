"""SET, RESET, SHOW and DESCRIBE: statements of ours, which no engine sees; all are free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpsql.errors import Refused, UsageError
from dpsql.query.expr import written
from dpsql.query.parse import Describe, Set, Show
from dpsql.release import Release
from dpsql.session import tell
from dpsql.session.settings import EXAMPLES, NAMES

SETTINGS = "SET epsilon = 0.1, RESET epsilon, SHOW ALL"

if TYPE_CHECKING:
    from dpsql.session.session import Session


def told(
    session: Session, statement: Describe | Show | Set, sql: str, given: Mapping[str, Any]
) -> Release:
    """The answer to such a statement; SHOW tells the settings that hold for this call.

    Raises Refused.
    """
    match statement:
        case Describe(name=name, span=span):
            dataset = session.called(name)
            if dataset is None:
                raise Refused(
                    f"there is no dataset {name!r}",
                    hint=f"DESCRIBE one of: {', '.join(map(written, session.datasets))}",
                    sql=sql, start=span.start, end=span.end,
                )  # fmt: skip
            return tell.describe(dataset)
        case Show(what="tables"):
            return tell.tables(session.datasets.values())
        case Show(what="budget"):
            paying = session.ledger.paying(session.user)
            return tell.budgets([b for b in paying if b.grant.dataset in session.datasets])
        case Show(what="synopses"):
            return session.synopses.shown()
        case Show(what="synopsis", name=str(name), span=span):
            try:
                return session.synopses.described(name)
            except UsageError as error:
                raise Refused(
                    str(error), hint="SHOW SYNOPSES, which lists them", sql=sql,
                    start=None if span is None else span.start,
                    end=None if span is None else span.end,
                ) from None  # fmt: skip
        case Show(what=what, span=span):
            dataset = None if what in NAMES else session.called(what)
            if dataset is not None:
                return tell.describe(dataset)
            return tell.settings(session.settings.with_values(given), what, sql, span)
        case Set():
            return _set(session, statement, sql)


def _set(session: Session, statement: Set, sql: str) -> Release:
    name, value = statement.name, statement.value
    try:
        if value is None:
            session.settings = session.settings.reset(name, session.start)
        else:
            session.settings = session.settings.with_values({name: value})
    except UsageError as error:
        span = statement.value_span if name in NAMES else statement.span
        raise Refused(
            str(error),
            hint=f"SET {name} = {EXAMPLES[name]}" if name in NAMES else SETTINGS,
            sql=sql,
            start=None if span is None else span.start,
            end=None if span is None else span.end,
        ) from None
    return tell.settings(session.settings, name, sql)
