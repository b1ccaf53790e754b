"""What the owner of a table declares: domains, units, neighbours and sources; read and written."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpsql.schema.column import Column, Point
from dpsql.schema.dataset import Dataset, Source, Unit
from dpsql.schema.files import find, load, load_all
from dpsql.schema.kinds import Kind, Neighbours
from dpsql.schema.read import loads
from dpsql.schema.write import dumps

if TYPE_CHECKING:
    from dpsql.schema.drafts import Fact, draft
    from dpsql.schema.importers import from_mbi, from_smartnoise
    from dpsql.schema.jsonschema import json_schema

_HOME = {  # what only an owner's commands need
    "Fact": "dpsql.schema.drafts",
    "draft": "dpsql.schema.drafts",
    "from_mbi": "dpsql.schema.importers",
    "from_smartnoise": "dpsql.schema.importers",
    "json_schema": "dpsql.schema.jsonschema",
}

__all__ = [
    "Column",
    "Dataset",
    "Fact",
    "Kind",
    "Neighbours",
    "Point",
    "Source",
    "Unit",
    "draft",
    "dumps",
    "find",
    "from_mbi",
    "from_smartnoise",
    "json_schema",
    "load",
    "load_all",
    "loads",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dpsql.schema' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
