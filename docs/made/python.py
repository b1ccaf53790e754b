"""The Python interface, from signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import dpsql
from docs.made.markdown import code, paragraphs, plain, table

BESIDES = {
    "dpsql.session.synopses.owned": ("Synopses",),
    "dpsql.release": ("Candidate",),
    "dpsql.accounting.purse": ("Grant", "Balance", "Entry", "Payment", "Price"),
}


def python() -> Iterator[str]:
    yield "# Python"
    yield ""
    yield "`import dpsql` has the names below that begin with `dpsql` and no further module. It"
    yield "loads what is used, when it is used."
    yield ""
    named = {n: getattr(dpsql, n) for n in dpsql.__all__ if not n.startswith("__")}
    ours = {n: thing for n, thing in named.items() if _is_ours(n, thing)}
    for name, thing in ours.items():
        if inspect.isfunction(thing):
            yield from _function(_node(thing), f"## dpsql.{name}")
    classes = [n for n, thing in ours.items() if inspect.isclass(thing) and not _is_error(thing)]
    for name in sorted(classes, key=_first):
        yield from _class(ours[name], f"dpsql.{name}")
    for module, names in BESIDES.items():
        for name in names:
            yield from _class(getattr(importlib.import_module(module), name), f"{module}.{name}")
    yield "## Errors"
    yield ""
    yield from paragraphs(importlib.import_module("dpsql.errors").__doc__ or "")
    yield "## Names of PEP 249"
    yield ""
    yield "DB-API 2.0 asks for these:"
    yield ""
    rest = {n: thing for n, thing in named.items() if n not in ours}
    yield from table(("name", "is"), ((code(n), _what(thing)) for n, thing in rest.items()))


def _is_ours(name: str, thing: Any) -> bool:
    """Whether this is a class or function of dpsql, by its own name, and not one of PEP 249's."""
    home = getattr(thing, "__module__", "")
    return (
        home.startswith("dpsql")
        and not home.endswith("pep249")
        and getattr(thing, "__name__", "") == name
    )


def _what(thing: Any) -> str:
    """A name of PEP 249 in a line."""
    if isinstance(thing, str | int):
        return code(repr(thing))
    if inspect.isclass(thing) and not thing.__module__.endswith("pep249"):
        home = "" if thing.__module__ == "builtins" else f"{thing.__module__.split('.')[0]}."
        return code(f"{home}{thing.__name__}")
    return plain((inspect.getdoc(thing) or "").splitlines()[0])


def _is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _first(name: str) -> tuple[int, str]:
    """What is met first comes first."""
    order = ("Connection", "Cursor", "Release", "Cost", "Budget", "Plan", "ScriptPlan", "Ledger")
    return (order.index(name) if name in order else len(order), name)


def _node(thing: Any) -> Any:
    found = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    assert isinstance(found, ast.ClassDef | ast.FunctionDef)
    return found


def _signature(node: ast.FunctionDef, bound: bool) -> str:
    """How it is called, on one line or on a line an argument."""
    args = node.args
    if bound:
        args.args = args.args[1:]
    parts = re.split(r", (?=[\w*]+(?:[:,=]|$))", ast.unparse(args))
    parts = [re.sub(r"^([\w*]+: .*?)=", r"\1 = ", part) for part in parts if part]
    end = ")" if node.returns is None else f") -> {ast.unparse(node.returns)}"
    line = f"{node.name}({', '.join(parts)}{end}"
    return line if len(line) <= 88 else "\n".join(
        [f"{node.name}(", *(f"    {part}," for part in parts), end]
    )  # fmt: skip


def _function(node: ast.FunctionDef, head: str, bound: bool = False) -> Iterator[str]:
    yield from (head, "", "```", *_signature(node, bound).splitlines(), "```", "")
    yield from paragraphs(ast.get_docstring(node) or "")


def _class(kind: type[Any], name: str) -> Iterator[str]:
    node = _node(kind)
    yield from (f"## {name}", "")
    yield from paragraphs(ast.get_docstring(node) or "")
    fields = [
        n for n in node.body if isinstance(n, ast.AnnAssign) and dataclasses.is_dataclass(kind)
    ]
    if fields:
        shown = (f"{ast.unparse(n.target)}: {ast.unparse(n.annotation)}"
                 + (f" = {ast.unparse(n.value)}" if n.value is not None else "")
                 for n in fields)  # fmt: skip
        yield from ("```", *shown, "```", "")
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
            continue
        marks = {ast.unparse(d) for d in method.decorator_list}
        if not ast.get_docstring(method):
            continue
        if "property" in marks:
            gives = ast.unparse(method.returns) if method.returns is not None else "Any"
            yield from (
                f"### {kind.__name__}.{method.name}",
                "",
                "```",
                f"{method.name}: {gives}",
                "```",
                "",
            )
            yield from paragraphs(ast.get_docstring(method) or "")
        else:
            head = f"### {kind.__name__}.{method.name}"
            yield from _function(method, head, "staticmethod" not in marks)
