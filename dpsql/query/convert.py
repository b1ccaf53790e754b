"""DuckDB's syntax tree, as JSON, to our own small trees; both formats that DuckDB 1.5 and 2 write.

Fail closed: an unknown class, an unknown field that is set, or an unknown word becomes a `Foreign`
that names the construct, and every later step refuses it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from dpsql.query.expr import (
    Between,
    Call,
    Case,
    Cast,
    Compare,
    Const,
    Expr,
    Foreign,
    Logic,
    Op,
    Param,
    Ref,
    Span,
    Star,
)
from dpsql.query.literals import Node, cast_type, constant
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

_COMMON = {"class", "type", "alias", "query_location", "query_location_length"}
_COMPARE = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_OPERATORS = {
    "OPERATOR_NOT": "NOT",
    "OPERATOR_IS_NULL": "IS NULL",
    "OPERATOR_IS_NOT_NULL": "IS NOT NULL",
    "OPERATOR_COALESCE": "COALESCE",
    "OPERATOR_TRY": "TRY",
    "COMPARE_IN": "IN",
    "COMPARE_NOT_IN": "NOT IN",
    "GROUPING_FUNCTION": "GROUPING",
}
_NAMED_FOREIGN = {
    "SUBQUERY": "a subquery in an expression",
    "WINDOW": "a window function",
    "LAMBDA": "a lambda function",
    "LAMBDA_REF": "a lambda function",
    "COLLATE": "COLLATE",
    "POSITIONAL_REFERENCE": "a positional reference",
    "DEFAULT": "DEFAULT",
}
_MADE = {"list_value": "a list", "struct_pack": "a struct", "map": "a map"}

MAX_NESTING = 100  # expressions, and queries, inside each other


def _set(node: Node, *known: str) -> list[str]:
    """The fields of a node that are set and not known."""
    return [
        key for key, value in node.items() if key not in known and value not in (False, "", [], {})
    ]


def _first_location(node: Any) -> int | None:
    """The least location of anything inside a node: DuckDB 1 places few sources itself."""
    if isinstance(node, list):
        parts = [_first_location(part) for part in node]
    elif isinstance(node, dict):
        parts = [node.get("query_location"), *(_first_location(part) for part in node.values())]
    else:
        return None
    return min((part for part in parts if part is not None), default=None)


class Converter:
    """Converts the nodes of one text."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._depth = 0

    def span(self, node: Node) -> Span | None:
        """The place of a node, or of the first thing inside it."""
        start = node.get("query_location")
        if start is not None:
            return self._text.place(start, node.get("query_location_length"))
        start = _first_location(node)
        return None if start is None else self._text.place(start, None)

    @contextlib.contextmanager
    def _nested(self, span: Span | None) -> Iterator[None]:
        """Counts how deep the nodes are inside each other. Raises Refused above MAX_NESTING."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._text.refusal(
                f"more than {MAX_NESTING} expressions or queries inside each other",
                span,
                "a flatter statement: fewer parentheses, CASEs and derived tables in each other",
            )
        yield
        self._depth -= 1

    # -- expressions ---------------------------------------------------------------------------

    def expr(self, node: Node) -> Expr:
        """The expression of a node; whatever is not known becomes a Foreign."""
        kind = node.get("class", "")
        span = self.span(node)
        convert = getattr(self, f"_{kind.lower()}", None) if kind in _CLASSES else None
        if convert is None:
            return Foreign(_NAMED_FOREIGN.get(kind, f"the construct {kind or 'unknown'}"), span)
        with self._nested(span):
            found: Expr = convert(node, span)
        return found

    def _exprs(self, nodes: Iterable[Node]) -> tuple[Expr, ...]:
        return tuple(self.expr(node) for node in nodes)

    def _column_ref(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "column_names"):
            return Foreign("this form of a name", span)
        return Ref(tuple(node["column_names"]), span)

    def _constant(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "literal", "value"):
            return Foreign("this form of a literal", span)
        return constant(node, span)

    def _function(self, node: Node, span: Span | None) -> Expr:
        unknown = _set(
            node, *_COMMON, "function_name", "arguments", "children", "qualified_name", "schema",
            "filter", "distinct", "order_bys", "is_operator", "export_state",
        )  # fmt: skip
        path = node.get("qualified_name", {}).get("path", [])
        schema = path[:-1] or ([node["schema"]] if node.get("schema") else [])
        if unknown or node.get("export_state") or schema not in ([], ["main"]):
            return Foreign(f"this form of {node['function_name']}()", span)
        arguments = node.get("arguments")
        if arguments is not None:
            if any(argument.get("name") for argument in arguments):
                return Foreign("a named argument", span)
            args = self._exprs(argument["expression"] for argument in arguments)
        else:
            args = self._exprs(node.get("children", ()))
        call = Call(
            node["function_name"].lower(),
            args,
            operator=bool(node.get("is_operator")),
            filter=self.expr(node["filter"]) if "filter" in node else None,
            distinct=bool(node.get("distinct")),
            ordered=bool(node.get("order_bys", {}).get("orders")),
            span=span,
        )
        if call.name in _MADE:
            return Foreign(_MADE[call.name], span)
        if call == Call("if", args) and len(args) == 3:  # how DuckDB 2 writes a CASE
            return Case(((args[0], args[1]),), args[2], span)
        return call

    def _comparison(self, node: Node, span: Span | None) -> Expr:
        op = _COMPARE.get(node["type"])
        if op is None or _set(node, *_COMMON, "left", "right"):
            return Foreign(f"the comparison {node['type']}", span)
        return Compare(op, self.expr(node["left"]), self.expr(node["right"]), span)

    def _conjunction(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "children"):
            return Foreign("this form of AND and OR", span)
        op = "AND" if node["type"] == "CONJUNCTION_AND" else "OR"
        return Logic(op, self._exprs(node["children"]), span)

    def _operator(self, node: Node, span: Span | None) -> Expr:
        name = _OPERATORS.get(node["type"])
        if name is None or _set(node, *_COMMON, "children"):
            what = {"ARRAY_EXTRACT": "a subscript", "STRUCT_EXTRACT": "a field of a struct"}
            return Foreign(what.get(node["type"], f"the operator {node['type']}"), span)
        return Op(name, self._exprs(node["children"]), span)

    def _between(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "input", "lower", "upper"):
            return Foreign("this form of BETWEEN", span)
        low, high = self.expr(node["lower"]), self.expr(node["upper"])
        return Between(self.expr(node["input"]), low, high, span)

    def _case(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "case_checks", "else_expr"):
            return Foreign("this form of CASE", span)
        branches = tuple(
            (self.expr(check["when_expr"]), self.expr(check["then_expr"]))
            for check in node["case_checks"]
        )
        return Case(branches, self.expr(node["else_expr"]), span)

    def _cast(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "child", "cast_type", "type_expr", "try_cast"):
            return Foreign("this form of CAST", span)
        name = cast_type(node)
        if name is None:
            return Foreign("a cast to this type", span)
        child = self.expr(node["child"])
        inner = getattr(child, "span", None)
        if span is not None and inner is not None:  # `x::INT` is placed at its type
            span = Span(min(span.start, inner.start), max(span.end, inner.end))
        if isinstance(child, Const) and child.kind == "text" and name == "BOOLEAN":
            truth = {"t": "TRUE", "f": "FALSE"}.get(child.text)
            if truth and "cast_type" in node:  # how DuckDB 1 writes TRUE and FALSE
                return Const("boolean", truth, span)
        return Cast(child, name, bool(node.get("try_cast")), span)

    def _parameter(self, node: Node, span: Span | None) -> Expr:
        return Param(str(node["identifier"]), span)

    def _star(self, node: Node, span: Span | None) -> Expr:
        if _set(node, *_COMMON, "relation_name", "columns"):
            return Foreign("this form of *", span)
        return Star(node.get("relation_name", ""), bool(node.get("columns")), span)

    # -- queries -------------------------------------------------------------------------------

    def query(self, node: Node) -> Query:
        """The query of a node; a clause that is not known is named in `foreign`."""
        with self._nested(None):
            return self._query(node)

    def _query(self, node: Node) -> Query:
        order, limit, offset, foreign = self._modifiers(node.get("modifiers", ()))
        ctes = self._ctes(node.get("cte_map", {}))
        match node["type"]:
            case "SELECT_NODE":
                return self._select(node, order, limit, offset, foreign, ctes)
            case "SET_OPERATION_NODE":
                if node.get("setop_type") != "UNION" or node.get("setop_all") is False:
                    foreign = foreign or "a set operation other than UNION ALL"
                known = {"type", "modifiers", "cte_map", "setop_type", "setop_all"}
                if _set(node, *known, "children", "left", "right"):
                    foreign = foreign or "this form of a set operation"
                parts = node.get("children") or [node["left"], node["right"]]
                queries = tuple(self.query(part) for part in parts)
                return Union(queries, order, limit, offset, ctes, foreign)
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
            place = self.span(node["qualify"])
        if "sample" in node:
            foreign = foreign or "a sample of rows"
        unknown = _set(
            node, "type", "modifiers", "cte_map", "select_list", "from_table", "where_clause",
            "group_expressions", "group_sets", "aggregate_handling", "having", "qualify", "sample",
        )  # fmt: skip
        if unknown:
            foreign = foreign or f"the clause {unknown[0]}"
        return Select(
            items=tuple((self.expr(e), e.get("alias", "")) for e in node["select_list"]),
            source=self.source(node.get("from_table", {"type": "EMPTY"})),
            where=self.expr(node["where_clause"]) if "where_clause" in node else None,
            groups=self._exprs(node.get("group_expressions", ())),
            sets=tuple(tuple(s) for s in node.get("group_sets", ())),
            group_all=node.get("aggregate_handling") == "FORCE_AGGREGATES",
            having=self.expr(node["having"]) if "having" in node else None,
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
                    order = tuple(self._order(o) for o in node.get("orders", ()))
                case "LIMIT_MODIFIER":
                    limit = self.expr(node["limit"]) if "limit" in node else None
                    offset = self.expr(node["offset"]) if "offset" in node else None
                case "DISTINCT_MODIFIER":
                    foreign = foreign or "SELECT DISTINCT"
                case "LIMIT_PERCENT_MODIFIER":
                    foreign = foreign or "LIMIT with a percentage"
                case other:
                    foreign = foreign or f"the clause {other}"
        return order, limit, offset, foreign

    def _order(self, node: Node) -> Order:
        descending = {"ASCENDING": False, "DESCENDING": True}.get(node["type"])
        nulls = {"NULLS FIRST": True, "NULLS LAST": False}.get(node["null_order"])
        return Order(self.expr(node["expression"]), descending, nulls)

    def _ctes(self, node: Node) -> tuple[Cte, ...]:
        found = []
        for entry in node.get("map", ()):
            value = entry["value"]
            inner = value.get("query_node") or value["query"]["node"]
            query = self.query(inner)
            if _set(value, "query", "query_node", "materialized", "aliases"):
                query = Select((), None, foreign="this form of a common table expression")
            found.append(Cte(entry["key"], query, tuple(value.get("aliases", ()))))
        return tuple(found)

    def source(self, node: Node) -> Source:
        span = self.span(node)
        base = {"type", "alias", "query_location", "query_location_length", "column_name_alias"}
        match node["type"]:
            case "EMPTY":
                return None
            case "BASE_TABLE":
                known = base | {"table_name", "schema_name", "catalog_name", "qualified_name"}
                if "sample" in node:
                    return ForeignSource("a sample of rows", span)
                if unknown := _set(node, *known):
                    return ForeignSource(f"{unknown[0]} on a table", span)
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
                unknown = _set(node, *base, "subquery") + _set(inner, "node", "named_param_map")
                if unknown:
                    return ForeignSource(f"{unknown[0]} on a derived table", span)
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


_CLASSES = {
    "COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN",
    "CASE", "CAST", "PARAMETER", "STAR",
}  # fmt: skip
