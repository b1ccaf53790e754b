"""Words of DuckDB's grammar that name nothing without quotes, and words of other dialects."""

from __future__ import annotations

_WORDS = """
    all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by
    case cast check collate collation column columns concurrently constraint create cross default
    deferrable desc describe distinct do else end except false fetch for foreign freeze from full
    generated glob group having ilike in initially inner intersect into is isnull join lambda
    lateral leading left like limit map natural not notnull null offset on only or order outer
    overlaps pivot pivot_longer pivot_wider placing positional primary qualify references returning
    right select semi show similar some struct summarize symmetric table tablesample then to
    trailing true try_cast tuple union unique unpack unpivot using variadic verbose when where
    window with
"""
RESERVED = frozenset(_WORDS.split())
DIALECTS = {  # functions and operators of other databases, and what to write
    "&&": "AND",
    "iff": "CASE WHEN ... THEN ... ELSE ... END",
    "iif": "CASE WHEN ... THEN ... ELSE ... END",
    "decode": "CASE ... WHEN ... THEN ... ELSE ... END",
    "nvl": "COALESCE(a, b)",
    "isnull": "a IS NULL, or COALESCE(a, b)",
    "dateadd": "the date + INTERVAL 1 DAY",
    "date_add": "the date + INTERVAL 1 DAY",
    "timestampdiff": "date_diff('day', a, b)",
    "to_char": "strftime(date, '%Y-%m')",
    "date_format": "strftime(date, '%Y-%m')",
    "to_date": "CAST(text AS DATE)",
    "to_number": "CAST(text AS INTEGER)",
    "getdate": "the date as a literal, e.g. DATE '2025-01-31'",
    "sysdate": "the date as a literal, e.g. DATE '2025-01-31'",
    "curdate": "the date as a literal, e.g. DATE '2025-01-31'",
    "charindex": "position(part IN text)",
    "locate": "position(part IN text)",
    "regexp_like": "regexp_matches(text, pattern)",
    "regexp_contains": "regexp_matches(text, pattern)",
    "rlike": "regexp_matches(text, pattern)",
    "safe_divide": "a / NULLIF(b, 0)",
    "div0": "a / NULLIF(b, 0)",
    "width_bucket": "x // width * width, the lower end of a bin",
    "truncate": "trunc(x)",
    "square": "x * x",
    "sumif": "SUM(x) FILTER (WHERE ...)",
    "averageif": "AVG(x) FILTER (WHERE ...)",
}
