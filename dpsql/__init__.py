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
    from dpsql.errors import Interrupted as Interrupted
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
    from dpsql.surfaces.dbapi import connect as connect
    from dpsql.surfaces.html.report import report as report
    from dpsql.surfaces.magic import load_ipython_extension as load_ipython_extension
    from dpsql.surfaces.magic import unload_ipython_extension as unload_ipython_extension
    from dpsql.surfaces.notebook import html as html
    from dpsql.surfaces.notebook import text as text
    from dpsql.surfaces.pep249 import BINARY as BINARY
    from dpsql.surfaces.pep249 import DATETIME as DATETIME
    from dpsql.surfaces.pep249 import NUMBER as NUMBER
    from dpsql.surfaces.pep249 import ROWID as ROWID
    from dpsql.surfaces.pep249 import STRING as STRING
    from dpsql.surfaces.pep249 import Binary as Binary
    from dpsql.surfaces.pep249 import DatabaseError as DatabaseError
    from dpsql.surfaces.pep249 import DataError as DataError
    from dpsql.surfaces.pep249 import Date as Date
    from dpsql.surfaces.pep249 import DateFromTicks as DateFromTicks
    from dpsql.surfaces.pep249 import IntegrityError as IntegrityError
    from dpsql.surfaces.pep249 import InterfaceError as InterfaceError
    from dpsql.surfaces.pep249 import NotSupportedError as NotSupportedError
    from dpsql.surfaces.pep249 import ProgrammingError as ProgrammingError
    from dpsql.surfaces.pep249 import Time as Time
    from dpsql.surfaces.pep249 import TimeFromTicks as TimeFromTicks
    from dpsql.surfaces.pep249 import Timestamp as Timestamp
    from dpsql.surfaces.pep249 import TimestampFromTicks as TimestampFromTicks
    from dpsql.surfaces.pep249 import Warning as Warning
    from dpsql.surfaces.pep249 import apilevel as apilevel
    from dpsql.surfaces.pep249 import paramstyle as paramstyle
    from dpsql.surfaces.pep249 import threadsafety as threadsafety

    __version__: str

_HOMES = {
    "dpsql.accounting.ledger": ("Ledger",),
    "dpsql.errors": (
        "BudgetError",
        "BudgetExceeded",
        "Error",
        "InternalError",
        "Interrupted",
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
    "dpsql.surfaces.dbapi": ("Connection", "Cursor", "connect"),
    "dpsql.surfaces.magic": ("load_ipython_extension", "unload_ipython_extension"),
    "dpsql.surfaces.notebook": ("html", "text"),
    "dpsql.surfaces.pep249": (
        "BINARY",
        "Binary",
        "DATETIME",
        "DataError",
        "DatabaseError",
        "Date",
        "DateFromTicks",
        "IntegrityError",
        "InterfaceError",
        "NUMBER",
        "NotSupportedError",
        "ProgrammingError",
        "ROWID",
        "STRING",
        "Time",
        "TimeFromTicks",
        "Timestamp",
        "TimestampFromTicks",
        "Warning",
        "apilevel",
        "paramstyle",
        "threadsafety",
    ),
    "dpsql.surfaces.html.report": ("report",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 -- as Python sorts, not as isort does
    "BINARY",
    "Binary",
    "Budget",
    "BudgetError",
    "BudgetExceeded",
    "Connection",
    "Cost",
    "Cursor",
    "DATETIME",
    "DataError",
    "DatabaseError",
    "Dataset",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interrupted",
    "Ledger",
    "LedgerError",
    "MissingExtra",
    "NUMBER",
    "NoGrant",
    "NotSupportedError",
    "OperationalError",
    "Plan",
    "ProgrammingError",
    "ROWID",
    "Refused",
    "Release",
    "STRING",
    "SchemaError",
    "ScriptPlan",
    "SourceError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "UsageError",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "report",
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
