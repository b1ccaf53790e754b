"""Names of users, groups and datasets: text that can be told in a message and a log."""

from __future__ import annotations

from dpsql.errors import UsageError

LONGEST_NAME = 255


def check_names(user: str, dataset: str) -> None:
    for what, name in (("user", user), ("dataset", dataset)):
        if not isinstance(name, str):
            raise UsageError(f"a {what} is named by text, not by {name!r}")
        if not name.strip():
            raise UsageError(f"the {what} has an empty name")
        if len(name) > LONGEST_NAME:
            raise UsageError(f"the name of a {what} has at most {LONGEST_NAME} characters")
        if not name.isprintable() and any(_control(ord(character)) for character in name):
            raise UsageError(f"the name of a {what} has no control characters: {name!a}")


def _control(code: int) -> bool:
    """Whether a code point is a control, a line separator, or half of a surrogate pair."""
    return code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029) or 0xD800 <= code < 0xE000
