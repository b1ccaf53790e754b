"""Literals and types of casts, out of both formats of DuckDB's syntax tree."""

from __future__ import annotations

import math
import re
from typing import Any, TypeAlias

from dpsql.query.expr import Const, Expr, Foreign, Span

Node: TypeAlias = dict[str, Any]

_TYPES = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "INTERVAL",
}  # fmt: skip
_SYNONYMS = {
    "INT": "INTEGER", "INT4": "INTEGER", "SIGNED": "INTEGER", "INT8": "BIGINT", "LONG": "BIGINT",
    "INT2": "SMALLINT", "SHORT": "SMALLINT", "INT1": "TINYINT", "INT16": "SMALLINT",
    "INT32": "INTEGER", "INT64": "BIGINT", "INT128": "HUGEINT", "REAL": "FLOAT", "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE", "NUMERIC": "DECIMAL", "DEC": "DECIMAL", "TEXT": "VARCHAR",
    "STRING": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR", "BOOL": "BOOLEAN",
    "LOGICAL": "BOOLEAN", "DATETIME": "TIMESTAMP",
}  # fmt: skip
_PLACE = {"class", "type", "query_location", "query_location_length"}
_NAMED_TYPE = {*_PLACE, "type_name", "children", "qualified_name"}
_NUMBER = {*_PLACE, "literal"}
_DECIMAL = {"type", "width", "scale"}
_VALUE = {"type", "is_null", "value"}


def constant(node: Node, span: Span | None) -> Expr:
    """The literal of a CONSTANT node."""
    if set(node.get("literal", {})) - {"kind", "text"} or set(node.get("value", {})) - _VALUE:
        return Foreign("this form of a literal", span)
    found = _constant_2(node["literal"], span) if "literal" in node else _constant_1(node, span)
    if isinstance(found, Const) and found.kind == "double" and math.isinf(float(found.text)):
        return Foreign("a number beyond the range of DOUBLE", span)
    return found


def _constant_2(literal: Node, span: Span | None) -> Expr:
    """A literal as DuckDB 2 writes it: its kind, and its text."""
    kind, text = literal["kind"], literal.get("text", "")
    match kind:
        case "INTEGER":
            return _integer(text.replace("_", ""), span)
        case "NUMERIC":
            text = text.replace("_", "")
            return Const("double" if "e" in text.lower() else "decimal", text, span)
        case "STRING":
            return Const("text", text, span)
        case "BOOLEAN":
            return Const("boolean", text.upper(), span)
        case "NULL_LITERAL":
            return Const("null", "NULL", span)
        case _:
            return Foreign(f"a literal of kind {kind}", span)


def _constant_1(node: Node, span: Span | None) -> Expr:
    """A literal as DuckDB 1 writes it: already a typed value."""
    value = node["value"]
    if value.get("is_null"):
        return Const("null", "NULL", span)
    type_ = value["type"]
    found: Any = value.get("value")
    if set(type_) - {"id", "type_info"} or set(type_.get("type_info", {})) - _DECIMAL:
        return Foreign("this form of a literal", span)
    match type_["id"]:
        case "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT" | "UBIGINT":
            return _integer(str(found), span)
        case "HUGEINT":
            return _integer(str((found["upper"] << 64) + found["lower"]), span)
        case "DOUBLE":
            text = repr(float(found))
            return Const("double", text if "e" in text or "n" in text else f"{text}e0", span)
        case "DECIMAL":
            if isinstance(found, dict):
                found = (found["upper"] << 64) + found["lower"]
            scale = type_["type_info"].get("scale", 0)
            digits = str(abs(found)).rjust(scale + 1, "0")
            whole, part = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
            sign = "-" if found < 0 else ""
            return Const("decimal", f"{sign}{whole}.{part}", span)
        case "VARCHAR":
            return Const("text", found, span)
        case "BOOLEAN":
            return Const("boolean", "TRUE" if found else "FALSE", span)
        case other:
            return Foreign(f"a literal of type {other}", span)


def _integer(text: str, span: Span | None) -> Const:
    """An integer literal; one beyond DuckDB's widest type is a double there."""
    wide = abs(float(text)) >= 2.0**127
    return Const("double", f"{float(text)!r}", span) if wide else Const("integer", text, span)


def cast_name(node: Node) -> str:
    """The type of a cast as the analyst calls it, for a message."""
    named = node.get("type_expr", {}).get("type_name") or node.get("cast_type", {}).get("id", "")
    return str(named).upper() or "this type"


def cast_type(node: Node) -> str | None:
    """The type of a cast as DuckDB's SQL writes it, or None outside the types we know."""
    if "type_expr" in node:  # DuckDB 2
        named = node["type_expr"]
        plain = named.get("class") == "TYPE" and set(named) <= _NAMED_TYPE
        if not plain or named["qualified_name"] != {"path": [named["type_name"]]}:
            return None
        name = named["type_name"].upper()
        numbers = []
        for child in named.get("children", ()):
            literal = child.get("literal", {})
            text = literal.get("text", "") if set(literal) == {"kind", "text"} else ""
            if set(child) - _NUMBER or not re.fullmatch(r"\d{1,4}", text):
                return None
            numbers.append(int(text))
    else:
        given = node["cast_type"].get("type_info", {})
        if set(node["cast_type"]) - {"id", "type_info"} or set(given) - _DECIMAL:
            return None
        name, numbers = node["cast_type"]["id"].upper(), []
        if name == "DECIMAL":
            numbers = [given["width"], given.get("scale", 0)]
        elif given:
            return None
    name = _SYNONYMS.get(name, name)
    if name == "DECIMAL":
        width, scale = [*numbers, 18, 3][:2] if len(numbers) != 1 else (numbers[0], 0)
        return f"DECIMAL({width},{scale})" if 0 <= scale <= width <= 38 and width else None
    return name if name in _TYPES else None
