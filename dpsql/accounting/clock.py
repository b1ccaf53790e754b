"""Times of the ledger: UTC, ISO 8601 to the millisecond, so that they compare as text.

Clocks go wrong and can be set back. What has ended by the latest time that a ledger has seen in
any entry stays ended, whatever a clock says later.
"""

from __future__ import annotations

import datetime

from dpsql.errors import UsageError

_LAST = "9999-12-31T23:59:59.999+00:00"  # no midnight follows it


def now() -> str:
    return written(datetime.datetime.now(datetime.UTC))


def written(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


def end(until: datetime.date | str | None) -> str:
    """The moment at which a grant ends: with the last second of a day (UTC), or at a time.

    "" without an end. Raises UsageError for what is neither, and for a time without its zone.
    """
    if until is None:
        return ""
    if isinstance(until, str):
        until = _parsed(until)
    if not isinstance(until, datetime.date):
        raise UsageError(f"until {until!r} is no date; give a date, or text like 2026-12-31")
    if until == datetime.date.max:
        return _LAST
    try:
        if not isinstance(until, datetime.datetime):
            midnight = datetime.datetime(until.year, until.month, until.day, tzinfo=datetime.UTC)
            return written(midnight + datetime.timedelta(days=1))
        if until.tzinfo is None:
            raise UsageError(f"until {until} has no zone: write {until.isoformat()}Z for UTC")
        return written(until)
    except OverflowError:
        raise UsageError(f"until {until} is beyond the year 9999 in UTC") from None


def last_day(until: str) -> str:
    """An end in words: the last whole day, or the time."""
    day, _, time = until.partition("T")
    if until == _LAST:
        return day
    if time != "00:00:00.000+00:00":
        return shown(until)
    return str(datetime.date.fromisoformat(day) - datetime.timedelta(days=1))


def shown(moment: str) -> str:
    """A time in words, to the minute."""
    day, _, time = moment.partition("T")
    return f"{day} {time[:5]} UTC"


def _parsed(text: str) -> datetime.date:
    for kind in (datetime.date, datetime.datetime):
        try:
            return kind.fromisoformat(text)
        except ValueError:
            continue
    raise UsageError(f"until {text!r} is no date; write one like 2026-12-31 (that day included)")
