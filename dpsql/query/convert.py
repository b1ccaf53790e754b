"""DuckDB's expressions, as JSON, to our own small trees; both formats, of DuckDB 1.5 and of 2.

Fail closed: an unknown class, an unknown field that is set, or an unknown word becomes a `Foreign`
that names the construct, and every later step refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from dpsql.query.literals import Node, cast_name, cast_type, constant
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
_STARS = {
    "exclude_list": "* EXCLUDE",
    "qualified_exclude_list": "* EXCLUDE",
    "replace_list": "* REPLACE",
    "rename_list": "* RENAME",
    "expr": "COLUMNS(...)",
}
_MADE = {"list_value": "a list", "struct_pack": "a struct", "map": "a map"}

MAX_NESTING = 100  # expressions, and queries, inside each other


def unknown(node: Node, *known: str) -> list[str]:
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
    """Converts the expressions of one text."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._depth = 0
        self.params: dict[str, Param] = {}

    def span(self, node: Node) -> Span | None:
        """The place of a node, or of the first thing inside it."""
        start = node.get("query_location")
        if start is not None:
            return self._text.place(start, node.get("query_location_length"))
        start = _first_location(node)
        return None if start is None else self._text.place(start, None)

    def enter(self, span: Span | None) -> None:
        """Begin a node inside the one around, until `leave`. Raises Refused above MAX_NESTING."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._text.refusal(
                f"more than {MAX_NESTING} expressions or queries inside each other",
                span,
                "a flatter statement: fewer parentheses, CASEs and derived tables in each other",
            )

    def leave(self) -> None:
        """End the node that was entered last. After a refusal nothing is converted any more."""
        self._depth -= 1

    # -- expressions ---------------------------------------------------------------------------

    def expr(self, node: Node) -> Expr:
        """The expression of a node; whatever is not known becomes a Foreign."""
        kind = node.get("class", "")
        span = self.span(node)
        convert = getattr(self, _CLASSES[kind]) if kind in _CLASSES else None
        if kind == "SUBQUERY" and node.get("subquery_type") == "ANY" and self._text.quantified():
            return Foreign("a comparison with ANY or ALL", self._text.quantified())
        if convert is None:
            return Foreign(_NAMED_FOREIGN.get(kind, f"the construct {kind or 'unknown'}"), span)
        self.enter(span)
        found: Expr = convert(node, span)
        self.leave()
        return found

    def exprs(self, nodes: Iterable[Node]) -> tuple[Expr, ...]:
        """The expressions of several nodes."""
        return tuple([self.expr(node) for node in nodes])

    def _column_ref(self, node: Node, span: Span | None) -> Expr:
        if unknown(node, *_COMMON, "column_names"):
            return Foreign("this form of a name", span)
        return Ref(tuple(node["column_names"]), span)

    def _constant(self, node: Node, span: Span | None) -> Expr:
        if unknown(node, *_COMMON, "literal", "value"):
            return Foreign("this form of a literal", span)
        return constant(node, span)

    def _function(self, node: Node, span: Span | None) -> Expr:
        unset = unknown(
            node, *_COMMON, "function_name", "arguments", "children", "qualified_name", "schema",
            "filter", "distinct", "order_bys", "is_operator", "export_state",
        )  # fmt: skip
        unset += unknown(node.get("qualified_name", {}), "path")
        unset += unknown(node.get("order_bys", {}), "type", "orders")
        path = node.get("qualified_name", {}).get("path", [])
        schema = path[:-1] or ([node["schema"]] if node.get("schema") else [])
        if unset or node.get("export_state") or schema not in ([], ["main"]):
            return Foreign(f"this form of {node['function_name']}()", span)
        arguments = node.get("arguments")
        if arguments is not None:
            if any(unknown(argument, "expression") for argument in arguments):
                return Foreign("a named argument", span)
            args = self.exprs(argument["expression"] for argument in arguments)
        else:
            args = self.exprs(node.get("children", ()))
        name = node["function_name"].lower()
        if name == "contains" and args[:1] == (Call("row", ()),):  # how DuckDB 2 reads IN ()
            raise self._text.refusal(
                "the list after IN is empty", span, "at least one value: IN (1, 2)"
            )
        call = Call(
            name,
            args,
            operator=bool(node.get("is_operator")) and not name[0].isalpha(),
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
        if op is None or unknown(node, *_COMMON, "left", "right"):
            return Foreign(f"the comparison {node['type']}", span)
        return Compare(op, self.expr(node["left"]), self.expr(node["right"]), span)

    def _conjunction(self, node: Node, span: Span | None) -> Expr:
        if unknown(node, *_COMMON, "children"):
            return Foreign("this form of AND and OR", span)
        op = "AND" if node["type"] == "CONJUNCTION_AND" else "OR"
        return Logic(op, self.exprs(node["children"]), span)

    def _operator(self, node: Node, span: Span | None) -> Expr:
        name = _OPERATORS.get(node["type"])
        if name is None or unknown(node, *_COMMON, "children"):
            what = {"ARRAY_EXTRACT": "a subscript", "STRUCT_EXTRACT": "a field of a struct"}
            return Foreign(what.get(node["type"], f"the operator {node['type']}"), span)
        return Op(name, self.exprs(node["children"]), span)

    def _between(self, node: Node, span: Span | None) -> Expr:
        if unknown(node, *_COMMON, "input", "lower", "upper"):
            return Foreign("this form of BETWEEN", span)
        low, high = self.expr(node["lower"]), self.expr(node["upper"])
        return Between(self.expr(node["input"]), low, high, span)

    def _case(self, node: Node, span: Span | None) -> Expr:
        checks = [unknown(check, "when_expr", "then_expr") for check in node["case_checks"]]
        if unknown(node, *_COMMON, "case_checks", "else_expr") or any(checks):
            return Foreign("this form of CASE", span)
        branches = tuple(
            (self.expr(check["when_expr"]), self.expr(check["then_expr"]))
            for check in node["case_checks"]
        )
        return Case(branches, self.expr(node["else_expr"]), span)

    def _cast(self, node: Node, span: Span | None) -> Expr:
        if unknown(node, *_COMMON, "child", "cast_type", "type_expr", "try_cast"):
            return Foreign("this form of CAST", span)
        name = cast_type(node)
        if name is None:
            return Foreign(f"a cast to {cast_name(node)}", span)
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
        if unknown(node, *_COMMON, "identifier"):
            return Foreign("this form of a parameter", span)
        name = str(node["identifier"])
        found = Param(name, span or self._text.parameter(name))
        self.params.setdefault(found.name, found)
        return found

    def _star(self, node: Node, span: Span | None) -> Expr:
        others = unknown(node, *_COMMON, "relation_name", "columns")
        if others:
            return Foreign(_STARS.get(others[0], "* in this form"), span)
        implied = self._text.find("*") or self._text.find("FROM")  # FROM alone means SELECT *
        return Star(node.get("relation_name", ""), bool(node.get("columns")), span or implied)


_CLASSES = {
    kind: f"_{kind.lower()}"
    for kind in (
        "COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN",
        "CASE", "CAST", "PARAMETER", "STAR",
    )
}  # fmt: skip
