"""The allow-list: every function and operator that an expression may use, with what it takes.

A signature reads `arguments>value`, one letter a kind: t text, n number, b boolean, d date or
timestamp, i interval, a anything (all alike). `?` makes the kind before it optional, `*` repeats
it. Nothing here is volatile, and no argument sets the length of a value (no repeat, lpad, range,
format): what is not in this table is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dpsql.query.expr import Call, Column, Span, walk, written
from dpsql.query.keywords import DIALECTS

_SIGNATURES = """
+ n>n nn>n di>d id>d dn>d nd>d ii>i
- n>n nn>n di>d dn>d dd>n ii>i i>i
* nn>n in>i ni>i
/ nn>n
// nn>n
% nn>n
^ nn>n
** nn>n
& nn>n
| nn>n
<< nn>n
>> nn>n
~ n>n
@ n>n
|| tt>t
~~ tt>b
!~~ tt>b
~~* tt>b
!~~* tt>b
~~~ tt>b
^@ tt>b
like_escape ttt>b
not_like_escape ttt>b
ilike_escape ttt>b
not_ilike_escape ttt>b
regexp_matches ttt?>b
regexp_full_match ttt?>b
regexp_extract ttn?>t
abs n>n
sign n>n
ceil n>n
ceiling n>n
floor n>n
round nn?>n
round_even nn>n
trunc nn?>n
even n>n
sqrt n>n
cbrt n>n
exp n>n
ln n>n
log nn?>n
log2 n>n
log10 n>n
pow nn>n
power nn>n
mod nn>n
gcd nn>n
lcm nn>n
xor nn>n
bit_count n>n
degrees n>n
radians n>n
pi >n
sin n>n
cos n>n
atan n>n
atan2 nn>n
isnan n>b
isinf n>b
isfinite n>b
greatest aa*>a
least aa*>a
nullif aa>a
ifnull aa>a
lower t>t
lcase t>t
upper t>t
ucase t>t
length t>n
len t>n
char_length t>n
character_length t>n
strlen t>n
trim tt?>t
ltrim tt?>t
rtrim tt?>t
substring tnn?>t
substr tnn?>t
left tn>t
right tn>t
reverse t>t
contains tt>b
starts_with tt>b
prefix tt>b
ends_with tt>b
suffix tt>b
position tt>n
strpos tt>n
instr tt>n
replace ttt>t
translate ttt>t
split_part ttn>t
concat tt*>t
concat_ws tt*>t
ascii t>n
unicode t>n
ord t>n
strip_accents t>t
levenshtein tt>n
year d>n
month d>n
day d>n
dayofmonth d>n
dayofweek d>n
weekday d>n
isodow d>n
dayofyear d>n
week d>n
weekofyear d>n
isoyear d>n
yearweek d>n
quarter d>n
decade d>n
century d>n
millennium d>n
hour d>n
minute d>n
second d>n
epoch d>n
julian d>n
dayname d>t
monthname d>t
last_day d>d
date_part td>n
datepart td>n
date_trunc td>d
datetrunc td>d
date_diff tdd>n
datediff tdd>n
date_sub tdd>n
datesub tdd>n
make_date nnn>d
strftime dt>t
to_days n>i
to_weeks n>i
to_months n>i
to_quarters n>i
to_years n>i
to_hours n>i
to_minutes n>i
to_seconds n>i
"""

KINDS = {"t": "text", "n": "number", "b": "boolean", "d": "date", "i": "interval", "a": "any"}


def _read(lines: str) -> dict[str, tuple[tuple[str, str], ...]]:
    table = {}
    for line in lines.strip().splitlines():
        name, *forms = line.split()
        table[name] = tuple((f.rsplit(">", 1)[0], f.rsplit(">", 1)[1]) for f in forms)
    return table


SIGNATURES = _read(_SIGNATURES)

AGGREGATES = {
    "count_star": "count",
    "count": "count",
    "count_if": "count_if",
    "countif": "count_if",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
}

USERS = frozenset({"current_user", "session_user", "user"})  # asked without FROM alone
SESSION = USERS | {"version", "current_database", "current_catalog", "current_schema"}
_QUANTILE = "a quantile by counts, e.g. SELECT {c}, COUNT(*) FROM ... GROUP BY {c}"
_COUNTS = "counts of the values, e.g. SELECT {c}, COUNT(*) FROM ... GROUP BY {c}"
_COLUMNS = "an expression of declared columns"
_ONE = "reveals one person's value"
_ALL = "lists people's values"
REFUSED_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ["min", "max", "median", "quantile", "quantile_cont", "quantile_disc",
         "percentile_cont", "percentile_disc", "approx_quantile", "reservoir_quantile", "mad"],
        (_ONE, _QUANTILE),
    ),
    "mode": (_ONE, "SELECT {c}, COUNT(*) AS n FROM ... GROUP BY {c} ORDER BY n DESC LIMIT 1"),
    **dict.fromkeys(
        ["list_contains", "list_has", "array_contains", "array_has"],
        ("takes a list", "{c} IN ('...', '...')"),
    ),
    **dict.fromkeys(
        ["first", "last", "any_value", "arbitrary", "arg_max", "arg_min", "argmax", "argmin",
         "max_by", "min_by", "arg_max_null", "arg_min_null"],
        (_ONE, _COUNTS),
    ),
    **dict.fromkeys(
        ["bool_or", "bool_and", "bit_or", "bit_and", "bit_xor"],
        ("reveals whether one person exists", "COUNT(*) FILTER (WHERE ...)"),
    ),
    **dict.fromkeys(
        ["list", "array_agg", "string_agg", "group_concat", "listagg", "histogram",
         "histogram_exact", "approx_top_k", "json_group_array", "json_group_object",
         "map_from_entries"],
        (_ALL, _COUNTS),
    ),
    "approx_count_distinct": ("cannot be made from noisy counts", _COUNTS),
    **dict.fromkeys(
        ["corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_count",
         "regr_sxx", "regr_sxy", "regr_syy", "regr_avgx", "regr_avgy", "skewness", "kurtosis",
         "kurtosis_pop", "entropy"],
        ("is none of the moments that are answered", "SUM, AVG, VARIANCE or STDDEV"),
    ),
    **dict.fromkeys(
        ["geomean", "geometric_mean"],
        ("cannot be made from noisy sums", "exp(AVG(ln({x})))"),
    ),
    "product": ("cannot be made from noisy sums", "exp(SUM(ln({x})))"),
    **dict.fromkeys(
        ["fsum", "kahan_sum", "sumkahan", "favg", "bitstring_agg"],
        ("cannot be made from noisy sums", "SUM or AVG"),
    ),
    **dict.fromkeys(
        ["random", "setseed", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval"],
        ("gives another value each time", _COLUMNS),
    ),
    **dict.fromkeys(
        ["now", "today", "current_date", "get_current_time", "get_current_timestamp",
         "transaction_timestamp", "current_localtime", "current_localtimestamp", "age", "ago"],
        ("depends on the clock", "the date as a literal, e.g. DATE '2025-01-31'"),
    ),
    **dict.fromkeys(
        SESSION, ("depends on the engine's session", "it in a SELECT of its own, without FROM")
    ),
    **dict.fromkeys(
        ["current_setting", "txid_current", "current_query", "getvariable",
         "current_connection_id", "current_transaction_id", "current_query_id"],
        ("depends on the engine's session", _COLUMNS),
    ),
    **dict.fromkeys(
        ["hash", "md5", "sha1", "sha256", "md5_number"],
        ("scatters values in a way that differs between versions", "a comparison of the column"),
    ),
    **dict.fromkeys(
        ["range", "generate_series", "repeat", "lpad", "rpad", "format", "printf", "bar",
         "list_transform", "list_sum", "pg_sleep", "sleep_ms"],
        ("makes values whose size an argument sets", _COLUMNS),
    ),
    "unnest": ("counts a person several times", "a condition on the column"),
    "error": ("raises an error on chosen values", "a condition in WHERE"),
    "stats": ("shows the engine's statistics of the data", "COUNT(*) with a condition"),
}  # fmt: skip


def match(args: str, kinds: tuple[str, ...]) -> bool:
    """Whether arguments of these kinds fit the form `args`; null fits everything."""
    letters: list[tuple[str, str]] = []
    for char, after in pairwise(args + " "):
        if char in KINDS:
            letters.append((KINDS[char], after if after in "?*" else ""))
    required = [kind for kind, mark in letters if not mark]
    optional = [kind for kind, mark in letters if mark == "?"]
    repeated = [kind for kind, mark in letters if mark == "*"]
    expected = required + optional
    if len(kinds) < len(required) or (len(kinds) > len(expected) and not repeated):
        return False
    expected += repeated * max(0, len(kinds) - len(expected))
    seen = {kind for kind, want in zip(kinds, expected, strict=False) if want == "any"} - {"null"}
    return len(seen) <= 1 and all(
        want in ("any", kind) or kind == "null" for kind, want in zip(kinds, expected, strict=False)
    )


_OPERATORS = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE"}


def written_operator(name: str) -> str:
    """An operator as people write it."""
    return _OPERATORS.get(name, name)


def shown(name: str) -> str:
    """A function or an operator as messages write it."""
    return f"{name}()" if name[0].isalpha() else written_operator(name)


def refused(call: Call) -> tuple[str, Span | None, str]:
    """Why a function is not answered, where, and what to write instead."""
    name = call.name
    if name in AGGREGATES:
        reason, hint = "is an aggregate, which cannot stand here", "it in SELECT or HAVING"
    elif name == "age" and len(call.args) == 2:
        reason, hint = "is not among the functions that are answered", "date_diff('day', a, b)"
    elif name in REFUSED_FUNCTIONS:
        column = next((written(c.name) for c in _columns(call)), "c")
        bare = bool(call.args) and isinstance(call.args[0], Column)
        reason, hint = refused_name(name, column, column if bare else "...")
    elif name in DIALECTS:
        reason, hint = "is of another dialect", DIALECTS[name]
    else:
        from difflib import get_close_matches

        near = get_close_matches(name, [*SIGNATURES, *AGGREGATES], 1, 0.75)
        reason = "is not among the functions that are answered"
        hint = (
            f"{near[0]}(...), if that is meant" if near
            else "comparisons, arithmetic, CASE, or such functions as round, lower, date_trunc"
        )  # fmt: skip
    return f"{name.upper()} {reason}", call.span, hint


def refused_name(name: str, column: str, argument: str = "...") -> tuple[str, str]:
    """Why a function that is refused by name is not answered, and what to write instead.

    `column` is one that it mentions, and `argument` all of what it is of.
    """
    reason, hint = REFUSED_FUNCTIONS[name]
    return reason, hint.replace("{c}", column).replace("{x}", argument)


def _columns(call: Call) -> Iterator[Column]:
    return (part for part in walk(call) if isinstance(part, Column))


def forms(name: str) -> str:
    """What a function takes, in words."""
    listed = []
    for args, _ in SIGNATURES[name]:
        shown_ = ""
        for char, after in pairwise(args + " "):
            if char in KINDS:
                kind = KINDS[char] if KINDS[char] != "any" else "values of one kind"
                part = f", {kind}" if shown_ else kind
                shown_ += (
                    f"[{part}]" if after == "?" else f"[{part}, ...]" if after == "*" else part
                )
        listed.append(f"({shown_})")
    return " or ".join(listed)
