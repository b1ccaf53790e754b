"""What is asked of a synopsis: where that is said, and where `auto` need buy nothing.

`auto` buys no gate. But a guess that has passed one in this session is known to be near, free, and
where its interval is no wider than what would be bought, nothing is bought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.accounting.purse import Balance
from dpsql.planner import Terms
from dpsql.query.compile import Compiled
from dpsql.query.parse import Ask
from dpsql.release import Release
from dpsql.session.build import widest
from dpsql.session.reuse.wanted import wanted
from dpsql.session.settings import Settings
from dpsql.session.synopses.learned import asked
from dpsql.session.synopses.passed import again
from dpsql.session.synopses.picked import fitting, outlook, refused

if TYPE_CHECKING:
    from dpsql.session.session import Session


def answer(
    session: Session, ask: Ask, compiled: Compiled, settings: Settings, balance: Balance
) -> Release | None:
    """The answer of a synopsis to a statement that is asked of one; None for others.

    Raises as `learned.asked` does.
    """
    if not spared(session, compiled, settings):
        return None
    return asked(session, ask, compiled.bound, compiled, settings, balance)


def spared(session: Session, compiled: Compiled, settings: Settings) -> bool:
    """Whether a statement is answered by a synopsis: as asked, or because that has passed."""
    if settings.backend == "synopsis":
        return True
    if settings.backend != "auto" or not settings.reuse or settings.postprocess != "none":
        return False
    dataset, workload = compiled.bound.dataset, compiled.workload
    archive = session._archive(dataset)
    synopsis = fitting(session, dataset, workload, archive.name[2])
    if synopsis is None or refused(compiled, synopsis):
        return False
    if again(session, archive, synopsis, workload) is None:
        return False
    balance = session.ledger.balance(session.user, dataset.name)
    said = outlook(session, compiled, settings, archive, synopsis, balance)
    if isinstance(said, str) or said.again is None or said.noises is None:
        return False
    if settings.accuracy is not None:
        return True  # it is as accurate as that
    plan = wanted(compiled, dataset, settings, Terms.of(balance.grant), archive)
    width = widest(compiled, settings.confidence)
    return plan.rest is not None and width(said.noises) <= width(plan.choice.noises(workload))
