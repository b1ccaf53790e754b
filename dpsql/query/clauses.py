"""DuckDB's queries, as JSON, to our own; a clause that is not known is named in `foreign`."""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.query.convert import Converter, unknown
from dpsql.query.expr import Expr, Param, Span
from dpsql.query.literals import Node
from dpsql.query.syntax import (
    Cte,
    Derived,
    ForeignSource,
    Order,
    Query,
    Select,
    Source,
    Table,
    Union,
)
from dpsql.query.text import Text

_DIRECTIONS = {"ORDER_DEFAULT": None, "ASCENDING": False, "DESCENDING": True}
_NULLS = {"ORDER_DEFAULT": None, "NULLS FIRST": True, "NULLS LAST": False}
_CTE = ("query", "query_node", "materialized", "aliases")


class Clauses:
    """Converts the queries of one text."""

    def __init__(self, text: Text) -> None:
        self._text, self._convert = text, Converter(text)

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters of the queries converted so far, each once."""
        return tuple(self._convert.params.values())

    def query(self, node: Node) -> Query:
        """The query of a node; a clause that is not known is named in `foreign`."""
        self._convert.enter(None)
        found = self._query(node)
        self._convert.leave()
        return found

    def _query(self, node: Node) -> Query:
        order, limit, offset, foreign = self._modifiers(node.get("modifiers", ()))
        ctes = self._ctes(node.get("cte_map", {}))
        if unknown(node.get("cte_map", {}), "map"):
            foreign = foreign or "this form of WITH"
        match node["type"]:
            case "SELECT_NODE":
                return self._select(node, order, limit, offset, foreign, ctes)
            case "SET_OPERATION_NODE":
                if node.get("setop_type") != "UNION" or node.get("setop_all") is False:
                    foreign = foreign or "a set operation other than UNION ALL"
                known = {"type", "modifiers", "cte_map", "setop_type", "setop_all"}
                if unknown(node, *known, "children", "left", "right"):
                    foreign = foreign or "this form of a set operation"
                parts = node.get("children") or [node["left"], node["right"]]
                queries = tuple(self.query(part) for part in parts)
                return Union(queries, order, limit, offset, ctes, foreign)
            case "RECURSIVE_CTE_NODE":
                place = self._text.find("RECURSIVE")
                return Select((), None, foreign=foreign or "WITH RECURSIVE", foreign_span=place)
            case other:
                what = other.replace("_NODE", "").replace("_", " ").lower()
                return Select((), None, foreign=foreign or f"a {what} query")

    def _select(
        self,
        node: Node,
        order: tuple[Order, ...],
        limit: Expr | None,
        offset: Expr | None,
        foreign: str,
        ctes: tuple[Cte, ...],
    ) -> Select:
        place: Span | None = None
        if "qualify" in node:
            foreign = foreign or "QUALIFY"
            place = self._convert.span(node["qualify"])
        if "sample" in node:
            foreign = foreign or "a sample of rows"
        unset = unknown(
            node, "type", "modifiers", "cte_map", "select_list", "from_table", "where_clause",
            "group_expressions", "group_sets", "aggregate_handling", "having", "qualify", "sample",
        )  # fmt: skip
        if unset:
            foreign = foreign or f"the clause {unset[0]}"
        handling = node.get("aggregate_handling", "STANDARD_HANDLING")
        if handling not in ("STANDARD_HANDLING", "FORCE_AGGREGATES"):
            foreign = foreign or "this form of GROUP BY"
        return Select(
            items=tuple((self._convert.expr(e), e.get("alias", "")) for e in node["select_list"]),
            source=self.source(node.get("from_table", {"type": "EMPTY"})),
            where=self._convert.expr(node["where_clause"]) if "where_clause" in node else None,
            groups=self._convert.exprs(node.get("group_expressions", ())),
            sets=tuple(tuple(s) for s in node.get("group_sets", ())),
            group_all=handling == "FORCE_AGGREGATES",
            having=self._convert.expr(node["having"]) if "having" in node else None,
            order=order,
            limit=limit,
            offset=offset,
            ctes=ctes,
            foreign=foreign,
            foreign_span=place,
        )

    def _modifiers(
        self, nodes: Iterable[Node]
    ) -> tuple[tuple[Order, ...], Expr | None, Expr | None, str]:
        order: tuple[Order, ...] = ()
        limit = offset = None
        foreign = ""
        for node in nodes:
            match node["type"]:
                case "ORDER_MODIFIER":
                    orders = node.get("orders", ())
                    if unknown(node, "type", "orders") or not all(map(_known_order, orders)):
                        foreign = foreign or "this form of ORDER BY"
                    order = tuple(self._order(o) for o in orders)
                case "LIMIT_MODIFIER" if node.get("limit_type") == "PERCENTAGE":
                    foreign = foreign or "LIMIT with a percentage"
                case "LIMIT_MODIFIER":
                    if unknown(node, "type", "limit", "offset"):
                        foreign = foreign or "this form of LIMIT"
                    limit = self._convert.expr(node["limit"]) if "limit" in node else None
                    offset = self._convert.expr(node["offset"]) if "offset" in node else None
                case "DISTINCT_MODIFIER":
                    foreign = foreign or "SELECT DISTINCT"
                case "LIMIT_PERCENT_MODIFIER":
                    foreign = foreign or "LIMIT with a percentage"
                case other:
                    foreign = foreign or f"the clause {other}"
        return order, limit, offset, foreign

    def _order(self, node: Node) -> Order:
        expr = self._convert.expr(node["expression"])
        return Order(expr, _DIRECTIONS.get(node["type"]), _NULLS.get(node["null_order"]))

    def _ctes(self, node: Node) -> tuple[Cte, ...]:
        found = []
        for entry in node.get("map", ()):
            value = entry["value"]
            inner = value.get("query_node") or value["query"]["node"]
            query = self.query(inner)
            others = unknown(entry, "key", "value") + unknown(value, *_CTE)
            if others or unknown(value.get("query", {}), "node", "named_param_map"):
                query = Select((), None, foreign="this form of a common table expression")
            found.append(Cte(entry["key"], query, tuple(value.get("aliases", ()))))
        return tuple(found)

    def source(self, node: Node) -> Source:
        span = self._convert.span(node)
        base = {"type", "alias", "query_location", "query_location_length", "column_name_alias"}
        match node["type"]:
            case "EMPTY":
                return None
            case "BASE_TABLE":
                known = base | {"table_name", "schema_name", "catalog_name", "qualified_name"}
                if "sample" in node:
                    return ForeignSource("a sample of rows", span)
                others = unknown(node, *known) + unknown(node.get("qualified_name", {}), "path")
                if others:
                    words = "AT (...)" if others[0] == "at_clause" else others[0]
                    return ForeignSource(f"{words} on a table", span)
                path = node.get("qualified_name", {}).get("path") or [
                    *filter(None, [node.get("catalog_name"), node.get("schema_name")]),
                    node["table_name"],
                ]
                names = tuple(node.get("column_name_alias", ()))
                return Table(tuple(path), node.get("alias", ""), names, span)
            case "SUBQUERY":
                if "sample" in node:
                    return ForeignSource("a sample of rows", span)
                inner = node["subquery"]
                others = unknown(node, *base, "subquery")
                others += unknown(inner, "node", "named_param_map")
                if others:
                    return ForeignSource(f"{others[0]} on a derived table", span)
                names = tuple(node.get("column_name_alias", ()))
                return Derived(self.query(inner["node"]), node.get("alias", ""), names, span)
            case "JOIN":
                return ForeignSource("a JOIN", span)
            case "TABLE_FUNCTION":
                name = node.get("function", {}).get("function_name", "")
                return ForeignSource(f"the table function {name}()", span)
            case "EXPRESSION_LIST":
                return ForeignSource("VALUES", span)
            case "PIVOT":
                return ForeignSource("PIVOT", span)
            case "SHOW_REF":
                return ForeignSource("a description of a table", span)
            case other:
                return ForeignSource(f"the source {other}", span)


def _known_order(node: Node) -> bool:
    """Whether an entry of ORDER BY says nothing that is not known."""
    words = node.get("type") in _DIRECTIONS and node.get("null_order") in _NULLS
    return words and not unknown(node, "type", "null_order", "expression")
