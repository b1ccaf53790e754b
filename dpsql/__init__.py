"""Ask SQL of a private table: answers with noise, an interval and a price."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.accounting.ledger import Ledger as Ledger
    from dpsql.errors import BudgetError as BudgetError
    from dpsql.errors import BudgetExceeded as BudgetExceeded
    from dpsql.errors import Error as Error
    from dpsql.errors import InternalError as InternalError
    from dpsql.errors import LedgerError as LedgerError
    from dpsql.errors import MissingExtra as MissingExtra
    from dpsql.errors import NoGrant as NoGrant
    from dpsql.errors import OperationalError as OperationalError
    from dpsql.errors import Refused as Refused
    from dpsql.errors import SchemaError as SchemaError
    from dpsql.errors import SourceError as SourceError
    from dpsql.errors import UsageError as UsageError
    from dpsql.release import Budget as Budget
    from dpsql.release import Cost as Cost
    from dpsql.release import Plan as Plan
    from dpsql.release import Release as Release
    from dpsql.release import ScriptPlan as ScriptPlan
    from dpsql.schema import Dataset as Dataset
    from dpsql.surfaces.dbapi import Connection as Connection
    from dpsql.surfaces.dbapi import Cursor as Cursor
    from dpsql.surfaces.dbapi import DatabaseError as DatabaseError
    from dpsql.surfaces.dbapi import DataError as DataError
    from dpsql.surfaces.dbapi import IntegrityError as IntegrityError
    from dpsql.surfaces.dbapi import InterfaceError as InterfaceError
    from dpsql.surfaces.dbapi import NotSupportedError as NotSupportedError
    from dpsql.surfaces.dbapi import ProgrammingError as ProgrammingError
    from dpsql.surfaces.dbapi import Warning as Warning
    from dpsql.surfaces.dbapi import apilevel as apilevel
    from dpsql.surfaces.dbapi import connect as connect
    from dpsql.surfaces.dbapi import paramstyle as paramstyle
    from dpsql.surfaces.dbapi import threadsafety as threadsafety

    __version__: str

_HOMES = {
    "dpsql.accounting.ledger": ("Ledger",),
    "dpsql.errors": (
        "BudgetError",
        "BudgetExceeded",
        "Error",
        "InternalError",
        "LedgerError",
        "MissingExtra",
        "NoGrant",
        "OperationalError",
        "Refused",
        "SchemaError",
        "SourceError",
        "UsageError",
    ),
    "dpsql.release": ("Budget", "Cost", "Plan", "Release", "ScriptPlan"),
    "dpsql.schema": ("Dataset",),
    "dpsql.surfaces.dbapi": (
        "Connection",
        "Cursor",
        "DataError",
        "DatabaseError",
        "IntegrityError",
        "InterfaceError",
        "NotSupportedError",
        "ProgrammingError",
        "Warning",
        "apilevel",
        "connect",
        "paramstyle",
        "threadsafety",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Budget",
    "BudgetError",
    "BudgetExceeded",
    "Connection",
    "Cost",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Dataset",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Ledger",
    "LedgerError",
    "MissingExtra",
    "NoGrant",
    "NotSupportedError",
    "OperationalError",
    "Plan",
    "ProgrammingError",
    "Refused",
    "Release",
    "SchemaError",
    "ScriptPlan",
    "SourceError",
    "UsageError",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("dpsql")
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
