"""Names and types of a statement's columns, as DuckDB gives them over an empty table."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dpsql.query.empty import Empty, EmptyError
from dpsql.query.expr import quote
from dpsql.query.parse import Ask
from dpsql.query.text import Text
from dpsql.schema import Dataset

Params: TypeAlias = "Sequence[Any] | Mapping[str, Any]"
Outputs: TypeAlias = "tuple[list[str], list[str]]"

_KEPT = 512
_AFTER_WHERE = frozenset(
    {"GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "UNION", "SELECT"}
)


class Describer:
    """Describes statements over one dataset; texts that differ in WHERE alone are alike."""

    def __init__(self, dataset: Dataset, empty: Empty) -> None:
        self._dataset, self._empty = dataset, empty
        self._known: OrderedDict[str, Outputs] = OrderedDict()

    def declare(self) -> None:
        """Make the empty table of the dataset, under its own name, once."""
        name = quote(self._dataset.name)
        if not self._empty.has(name):
            columns = self._dataset.columns
            listed = ", ".join(f"NULL::{c.sql_type} AS {quote(c.name)}" for c in columns)
            self._empty.make(name, f"SELECT {listed} LIMIT 0")

    def outputs(self, ask: Ask, params: Params = ()) -> Outputs:
        """Names and types of a statement. Raises Refused where DuckDB does not take it."""
        self.declare()
        sql = ask.sql
        if not params:
            text = ask.text if sql == ask.text.sql else Text(sql)
            sql = text.without("WHERE", _AFTER_WHERE)
        found = self._known.get(sql)
        if found is None:
            try:
                found = self._empty.describe(sql, params)
            except EmptyError:
                raise ask.text.refusal(
                    "DuckDB does not accept this statement over the declared columns",
                    None,
                    "the statement in DuckDB's SQL; DESCRIBE shows the columns and their types",
                ) from None
            if not params:
                self._known[sql] = found
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return found
