"""ORDER BY: entries over what is released. Slot("c0") is output 0, and Star stands for all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from dpsql.query.declared import Refuse
from dpsql.query.expr import Const, Expr, Ref, Slot, Star, fold, written
from dpsql.query.syntax import Order, Query, Select, Union


def of_select(
    query: Select, aliases: Mapping[str, Expr], lifted: Callable[[Expr], Expr], refuse: Refuse
) -> tuple[Order, ...]:
    """ORDER BY of a SELECT; an alias goes before a column where it stands alone."""
    if not query.order:
        return ()

    def meaning(expr: Expr) -> Expr:
        match expr:
            case Star(columns=True, relation=""):
                return expr
            case Star():
                raise refuse("ORDER BY *", expr.span, "ORDER BY ALL")
            case Const(kind="integer"):
                return Slot(f"c{position(expr, len(query.items), 'ORDER BY', refuse)}", expr.span)
            case Ref(path=(name,)) if fold(name) in aliases:
                return Slot(f"c{_aliased(expr, query, refuse)}", expr.span)
        found = expr if isinstance(expr, Const) else lifted(expr)
        if isinstance(found, Const):  # to DuckDB a position, whatever made it
            raise refuse("ORDER BY of a constant", expr.span, "a column, an alias or a position")
        return found

    return tuple(dataclasses.replace(o, expr=meaning(o.expr)) for o in query.order)


def of_union(query: Union, refuse: Refuse) -> tuple[Order, ...]:
    """ORDER BY of a UNION ALL: output columns, by a name in any of its SELECTs or by position."""
    parts = _selects(query)

    def meaning(expr: Expr) -> Expr:
        index = None
        match expr:
            case Star(columns=True, relation=""):
                return expr
            case Ref(path=(name,)):
                places = (_shown(part).get(fold(name)) for part in parts)
                index = next((place for place in places if place is not None), None)
            case Const(kind="integer"):
                index = position(expr, len(parts[0].items), "ORDER BY", refuse)
        if index is None:
            raise refuse(
                "ORDER BY of a UNION ALL by something else than a column of it",
                expr.span,
                "a name or a position of the first SELECT",
            )
        return Slot(f"c{index}", expr.span)

    return tuple(dataclasses.replace(o, expr=meaning(o.expr)) for o in query.order)


def position(at: Const, width: int, clause: str, refuse: Refuse) -> int:
    """The index of the output at a position. Raises Refused outside of 1 to `width`."""
    if not 1 <= int(at.text) <= width:
        raise refuse(
            f"{clause} {at.text}: SELECT has {width} column{'s' if width > 1 else ''}",
            at.span,
            f"a position from 1 to {width}",
        )
    return int(at.text) - 1


def _aliased(ref: Ref, query: Select, refuse: Refuse) -> int:
    """The output that an alias names; of two aliases that are alike the last."""
    name = fold(ref.path[-1])
    if any(not a and isinstance(e, Ref) and fold(e.path[-1]) == name for e, a in query.items):
        raise refuse(
            f"{written(ref.path[-1])} is an alias, and the name of a column in SELECT",
            ref.span,
            "another alias, or a position",
        )
    return max(at for at, (_, alias) in enumerate(query.items) if fold(alias) == name)


def _selects(query: Query) -> list[Select]:
    """The SELECTs of a UNION ALL, in order."""
    return [query] if isinstance(query, Select) else [s for p in query.parts for s in _selects(p)]


def _shown(query: Select) -> dict[str, int]:
    """The places of the outputs of a SELECT, by the folded names that they can be meant by."""
    names = [alias or (e.path[-1] if isinstance(e, Ref) else "") for e, alias in query.items]
    return {fold(name): at for at, name in reversed(list(enumerate(names))) if name}
