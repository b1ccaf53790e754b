"""What one call charged, and how an error after the charge says so."""

from __future__ import annotations

import functools
import os
import threading

from dpsql.accounting.ledger import Balance, Ledger, Price, Receipt
from dpsql.errors import BudgetError, Error, InternalError, LedgerError
from dpsql.planner import Terms
from dpsql.release import Cost, charged_words
from dpsql.session import tell

_UNKNOWN = (
    "the ledger does not tell whether the statement was charged; "
    "`dpsql budget show` does, once the ledger can be read"
)


class Calls(threading.local):
    """What the last call of each thread paid, and the interruptions that had come before it."""

    paid: Cost | None = None
    stops = 0


class Charge:
    """The charge of one call: nothing until its receipt comes, whatever other calls pay.

    Its `token` is random, and stands in the entry of this charge and in no other. `earlier`, in
    pico of rho, is what other parts of the same statement paid, of which an error tells, too.
    """

    def __init__(self, ledger: Ledger, before: Balance, earlier: int = 0) -> None:
        self._earlier = earlier
        self._ledger, self._before = ledger, before
        self._price: Price | None = None

    @property
    def _terms(self) -> Terms:
        return Terms.of(self._before.grant)

    @functools.cached_property
    def token(self) -> str:
        return os.urandom(12).hex()

    def take(self, receipt: Receipt) -> None:
        """Keep what the receipt says was paid."""
        self._price = receipt.charged

    @property
    def cost(self) -> Cost | None:
        """What was paid; None for nothing."""
        return None if self._price is None else tell.price(self._price, self._terms)

    @property
    def total(self) -> Cost | None:
        """What all parts of the statement paid; None for nothing."""
        if not self._earlier:
            return self.cost
        own = 0 if self._price is None else self._price.rho
        return tell.price(Price(self._earlier + own, None), self._terms)

    def failure(self, error: BaseException) -> BaseException:
        """What to raise for an error of this call.

        An error of ours, or an interruption, is raised itself and says what was charged; any other
        becomes an InternalError that names its type alone, for its words may quote values.
        """
        words = ""
        if self.cost is None and (isinstance(error, LedgerError) or not isinstance(error, Error)):
            words = self._look()
        if self.total is not None:
            words = charged_words(self.total)
        match error:
            case Error():
                error.charged = words
                if self._earlier:
                    error.args = tuple(map(_more, error.args))
                return error
            case Exception():
                fault = InternalError(
                    f"the answer could not be made ({type(error).__name__}): a fault of dpsql"
                )
                fault.charged = words or charged_words(None)
                return fault.with_traceback(error.__traceback__)
            case _:
                error.add_note(words or charged_words(None))
                return error

    def _look(self) -> str:
        """Find a charge whose receipt did not come; in words, when the ledger does not tell."""
        grant = self._before.grant
        try:
            after = self._ledger.balance(grant.user, grant.dataset)
            if after.spent == self._before.spent:
                return ""
            for entry in self._ledger.log(grant.user, grant.dataset):
                if entry.token == self.token:
                    self._price = entry.charged
                    break
        except BudgetError:
            return _UNKNOWN
        return ""


def says(error: BaseException) -> bool:
    """Whether an error, or an interruption, tells already what was charged."""
    return bool(error.charged if isinstance(error, Error) else getattr(error, "__notes__", ()))


def _more(words: object) -> object:
    """What a part says of itself, where others paid before it."""
    if not isinstance(words, str):
        return words
    return words.replace(
        "nothing was charged", "nothing was charged for this part of the statement"
    )
