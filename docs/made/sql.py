"""The SQL that is answered and refused, from the tables by which it is."""

from __future__ import annotations

from collections.abc import Iterator

from docs.made.markdown import code, marked, plain, table

LETTERS = {"t": "text", "n": "number", "b": "boolean", "d": "date", "i": "interval", "a": "value"}
SPELT = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "~~~": "GLOB"}
INTERNAL = ("like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape")


def limits() -> list[tuple[str, int]]:
    """What a statement may be at most, by the constants that refuse more."""
    from dpsql.mechanisms import projection
    from dpsql.mechanisms.synopses import purchase
    from dpsql.query import bind, convert, grid, groups, linear, names, parse, text, typing
    from dpsql.schema import kinds
    from dpsql.session.reuse import whole
    from dpsql.session.scripts import script
    from dpsql.session.synopses import queried

    return [
        ("characters of a statement", text.MAX_LENGTH),
        ("bytes of a script", script.LONGEST),
        ("expressions, or queries, inside each other", convert.MAX_NESTING),
        ("parts of all expressions of a statement", names.MAX_SIZE),
        ("characters of a text value", typing.MAX_TEXT),
        ("group keys", bind.MAX_KEYS),
        ("grouping sets", bind.MAX_SETS),
        ("groups of a statement", groups.MAX_GROUPS),
        ("combinations of the values of the columns that one condition mentions", grid.MAX_CELLS),
        ("steps of the range of a value that is summed, before it is rounded", linear.MAX_WEIGHT),
        ("`n`, and the number, of `FIRST n ABOVE number`", parse.MOST_ABOVE),
        ("counts of all statements of a script that a synopsis is made for", queried.MOST),
        ("answers that `postprocess = projection` explains together", projection.QUERIES),
        ("cells of a table that `whole` buys", whole.CELLS),
        ("cells of a table of a synopsis", purchase.CELLS),
        ("points of the domain of a column", kinds.MAX_POINTS),
        ("rows of a unit", kinds.MAX_ROWS),
    ]


def form(name: str, args: str, value: str) -> str:
    """A form of a function or an operator as people write it."""
    words = []
    for at, char in enumerate(args):
        if char in LETTERS:
            mark = args[at + 1 : at + 2]
            word = LETTERS[char]
            words.append(f"[{word}]" if mark == "?" else f"{word}..." if mark == "*" else word)
    if name[0].isalpha():
        return f"{name}({', '.join(words)}) → {LETTERS[value]}"
    sign = SPELT.get(name, name)
    shown = f"{words[0]} {sign} {words[1]}" if len(words) == 2 else f"{sign} {words[0]}"
    return f"{shown} → {LETTERS[value]}"


def sql() -> Iterator[str]:
    from dpsql.query import functions, keywords, parse

    yield "# SQL"
    yield ""
    yield "One `SELECT` over one dataset, in DuckDB's dialect and with DuckDB's meaning. What is"
    yield "listed here is answered; everything else is refused, before anything is read or charged,"
    yield "with the place, the reason and what to write instead."
    yield ""
    yield "## Statements and clauses"
    yield ""
    yield from marked("answered")
    yield "## Aggregates"
    yield ""
    kinds: dict[str, list[str]] = {}
    for name, kind in functions.AGGREGATES.items():
        kinds.setdefault(kind, []).append("count(*)" if name == "count_star" else name)
    about = {
        "count": "rows, or rows where the argument is not NULL",
        "count_if": "rows where a condition holds",
        "sum": "the sum of a bounded value or of a condition; 0 where there are no rows",
        "avg": "the mean of a bounded value, or the share of a condition",
        "var_samp": "the variance, by n - 1",
        "var_pop": "the variance, by n",
        "stddev_samp": "the root of `var_samp`",
        "stddev_pop": "the root of `var_pop`",
    }
    assert set(about) == set(kinds)
    names = ((", ".join(code(n) for n in listed), about[kind]) for kind, listed in kinds.items())
    yield from table(("aggregate", "what"), names)
    yield "Each of them takes `FILTER (WHERE ...)`."
    yield ""
    yield "## Functions and operators"
    yield ""
    yield "Beside these: comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, IS DISTINCT FROM, CASE,"
    yield "COALESCE and CAST. `[...]` may be left out, `...` may be repeated; *value* is a value of"
    yield "any kind, all alike. A date may have a time. No function here is volatile, and none"
    yield "makes a text whose length an argument sets."
    yield ""
    signatures = {n: f for n, f in functions.SIGNATURES.items() if n not in INTERNAL}
    signs = {n: f for n, f in signatures.items() if not n[0].isalpha()}
    yield from table(
        ("operator", "forms"),
        (
            (code(SPELT.get(name, name)), "<br>".join(code(form(name, *f)) for f in forms))
            for name, forms in signs.items()
        ),
    )
    yield from table(
        ("function", "forms"),
        (
            (code(name), "<br>".join(code(form(name, *f)) for f in forms))
            for name, forms in sorted(signatures.items())
            if name not in signs
        ),
    )
    yield "Without `FROM`, alone: " + ", ".join(code(n) for n in sorted(functions.SESSION)) + "."
    yield ""
    yield "## Refused"
    yield ""
    yield from marked("refused")
    yield "### Functions that are refused by name"
    yield ""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, why in functions.REFUSED_FUNCTIONS.items():
        reasons.setdefault(why, []).append(name)
    yield from table(
        ("functions", "why", "write instead"),
        (
            (
                ", ".join(code(name) for name in sorted(listed)),
                reason,
                plain(hint.replace("{c}", "c").replace("{x}", "x")),
            )
            for (reason, hint), listed in reasons.items()
        ),
    )
    yield "### Words of other databases"
    yield ""
    yield from table(
        ("word", "write instead"), ((code(w), code(h)) for w, h in keywords.DIALECTS.items())
    )
    yield "### Statements that are refused"
    yield ""
    statements: dict[str, list[str]] = {}
    for name, reason in parse._REFUSED.items():
        statements.setdefault(reason, []).append(name)
    yield from table(
        ("statements", "why"), ((", ".join(listed), why) for why, listed in statements.items())
    )
    yield "## Limits"
    yield ""
    yield from table(("at most", ""), ((f"{most:,}", what) for what, most in limits()))
