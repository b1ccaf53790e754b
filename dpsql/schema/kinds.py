"""The closed sets that a schema is made of: relations between neighbours, and kinds of column."""

from __future__ import annotations

import enum
from typing import Final

MAX_POINTS: Final = 10**7
"""The most points that the domain of one column may have."""

MAX_ROWS: Final = 10**9
"""The most rows that one privacy unit may be declared to have."""

BIGINT: Final = (-(2**63), 2**63 - 1)
"""The least and the greatest integer of an integer column or an integer category."""


class Neighbours(enum.Enum):
    """Which pairs of tables must not be told apart.

    Add-remove: one has a unit more. Replace-one: one row differs, and the number of rows is public.
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


class Kind(enum.Enum):
    """What the values of a column are."""

    CATEGORY = "category"
    INTEGER = "integer"
    NUMBER = "number"
    DATE = "date"
    BOOLEAN = "boolean"


DATE_STEPS: Final = ("day", "week", "month", "year")

COMMON_KEYS: Final = ("type", "nullable", "source", "description")

KEYS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.CATEGORY: ("values",),
    Kind.INTEGER: ("min", "max"),
    Kind.NUMBER: ("min", "max", "step", "edges"),
    Kind.DATE: ("min", "max", "step"),
    Kind.BOOLEAN: (),
}
"""The keys that a column of each kind takes beside the common ones."""

REQUIRED: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.CATEGORY: ("values",),
    Kind.INTEGER: ("min", "max"),
    Kind.NUMBER: (),  # min, max and step, or else edges
    Kind.DATE: ("min", "max"),
    Kind.BOOLEAN: (),
}
