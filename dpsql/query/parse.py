"""Text to a statement: which kind it is, its options, and the query as DuckDB's parser reads it.

The analyst's text is read by DuckDB's own parser, in an empty database, and nothing else: there is
no second grammar that could read it differently. A text that differs from one that was read in
literals alone follows from that (`shapes.py`). What is ours (SET, SHOW, EXPLAIN, DESCRIBE,
OPTIONS, FIRST ... ABOVE) is told by its tokens before any parsing, and stands where DuckDB's own
grammar has nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dpsql.query.broken import syntax
from dpsql.query.clauses import Clauses
from dpsql.query.empty import EmptyError, parsing
from dpsql.query.expr import Param, Span
from dpsql.query.shapes import recall, remember, shape
from dpsql.query.syntax import Query
from dpsql.query.text import Text, Token


@dataclass(frozen=True, slots=True)
class Option:
    """`name = value` of an OPTIONS clause; the name in lower case."""

    name: str
    value: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class First:
    """FIRST count ABOVE threshold: the first `count` groups whose numbers exceed `threshold`.

    WITH COUNTS: with these numbers.
    """

    count: int
    threshold: int
    span: Span = field(compare=False)
    counts: bool = False

    @property
    def words(self) -> str:
        return f"FIRST {self.count:,} ABOVE {self.threshold:,}"


@dataclass(frozen=True, slots=True)
class Largest:
    """LARGEST 1: the group of the largest number. WITH COUNTS: with that number."""

    span: Span = field(compare=False)
    counts: bool = False
    count: int = 1

    @property
    def words(self) -> str:
        return "LARGEST 1"


@dataclass(frozen=True, slots=True)
class Ask:
    """A query; `sql` is its text without clauses of ours, offsets unchanged."""

    query: Query
    text: Text
    sql: str
    options: tuple[Option, ...] = ()
    params: tuple[Param, ...] = ()
    first: First | Largest | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    ask: Ask


@dataclass(frozen=True, slots=True)
class Describe:
    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW TABLES, BUDGET, SYNOPSES, SYNOPSIS name, ALL or a setting; `what` in lower case."""

    what: str
    span: Span | None = field(default=None, compare=False)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Set:
    """SET name = value; RESET has no value. The spans are the places of the name and value."""

    name: str
    value: str | None
    span: Span | None = field(default=None, compare=False)
    value_span: Span | None = field(default=None, compare=False)


Statement: TypeAlias = Ask | Explain | Describe | Show | Set

MOST_ABOVE = 10**15  # of FIRST, and of the number that is to be exceeded
_SIGNS = ("-", "+")
_READ_ONLY = "a SELECT that counts or averages"
_FREE = "SHOW TABLES, DESCRIBE name, SHOW BUDGET, SHOW SYNOPSES, SHOW ALL or SHOW setting"
_HINTS = {
    **dict.fromkeys(["PRAGMA", "CALL"], f"{_FREE}, which are free"),
    **dict.fromkeys(["SUMMARIZE", "TABLE"], "DESCRIBE name, or SELECT column, COUNT(*) ..."),
    **dict.fromkeys(["PIVOT", "PIVOT_WIDER"], "GROUP BY: SELECT c, COUNT(*) ... GROUP BY c"),
    **dict.fromkeys(["UNPIVOT", "PIVOT_LONGER"], "a SELECT for each column, joined by UNION ALL"),
    **dict.fromkeys(["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"],
                    "nothing: every statement stands alone, and what is charged stays charged"),
}  # fmt: skip
_REFUSED = {
    **dict.fromkeys(["INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "UPSERT"], "changes data"),
    **dict.fromkeys(["CREATE", "DROP", "ALTER", "COMMENT"], "changes the catalogue"),
    **dict.fromkeys(["COPY", "EXPORT", "IMPORT"], "writes or reads files"),
    **dict.fromkeys(["ATTACH", "DETACH", "USE"], "opens or closes databases"),
    **dict.fromkeys(["INSTALL", "LOAD", "FORCE", "UPDATE EXTENSIONS"], "loads code"),
    **dict.fromkeys(
        ["PRAGMA", "CALL", "CHECKPOINT", "VACUUM", "ANALYZE"], "commands the engine itself"
    ),
    **dict.fromkeys(
        ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"], "controls transactions"
    ),
    **dict.fromkeys(["PREPARE", "EXECUTE", "DEALLOCATE"], "handles prepared statements"),
    **dict.fromkeys(["SUMMARIZE", "TABLE"], "shows single people's values"),
    **dict.fromkeys(["PIVOT", "PIVOT_WIDER"], "makes columns of the values that exist"),
    **dict.fromkeys(["UNPIVOT", "PIVOT_LONGER"], "makes several rows of one person"),
}


def parse(sql: str) -> Statement:
    """The statement that a text holds. Raises Refused, with the place, for anything else."""
    text = Text(sql)
    try:
        return _statement(text)
    except RecursionError:
        raise text.too_deep() from None


def _statement(text: Text) -> Statement:
    found = _strip(text)
    head = found[0].word
    if head == "EXPLAIN":
        query = len(found) > 2 and found[2].word in ("SELECT", "FROM", "WITH", "VALUES", "(")
        if len(found) > 1 and found[1].text == "(" and not query:
            end = next((t for t in found[2:] if t.text == ")"), found[-1])
            raise text.refusal(
                "EXPLAIN takes no options",
                Span(found[1].start, end.end),
                "EXPLAIN SELECT ...; as JSON: dpsql explain --format json",
            )
        if len(found) > 1 and found[1].word in ("ANALYZE", "ANALYSE", "VERBOSE"):
            raise text.refusal(
                f"EXPLAIN {found[1].word} would run the statement on the data"
                if found[1].word != "VERBOSE"
                else "EXPLAIN takes no options",
                _span(found[1]),
                "EXPLAIN SELECT ..., which shows the plan and its price",
            )
        if len(found) == 1:
            raise text.refusal("EXPLAIN without a statement", _span(found[0]), "EXPLAIN SELECT ...")
        return Explain(_ask(text, found[1:]))
    if head in ("DESCRIBE", "DESC"):
        return _describe(text, found)
    if head == "SHOW":
        return _show(text, found)
    if head in ("SET", "RESET"):
        return _setting(text, found)
    return _ask(text, found)


def _strip(text: Text) -> list[Token]:
    """The tokens of the one statement in a text, without semicolons about it."""
    found = text.tokens
    while found and found[-1].text == ";":
        found = found[:-1]
    while found and found[0].text == ";":
        found = found[1:]
    if not found:
        what = "only a comment" if text.sql.strip(" \t\r\n;") else "the text is empty"
        raise text.refusal(f"there is no statement: {what}", hint="SELECT COUNT(*) FROM ...")
    for index, token in enumerate(found):
        if token.text == ";" and token.kind == "operator":
            after = next(other for other in found[index:] if other.text != ";")
            raise text.refusal(
                "several statements where one is expected",
                Span(after.start, found[-1].end),
                "one statement at a time, or a script with dpsql run (in Python con.run)",
            )
    return found


def _span(token: Token) -> Span:
    return Span(token.start, token.end)


def _ask(text: Text, found: list[Token]) -> Ask:
    """The query that starts at the first of these tokens."""
    first, last = found[0], found[-1]
    reason = _REFUSED.get(first.word)
    if reason is not None and first.text[:1] not in "\"'":
        raise text.refusal(
            f"{first.word} {reason}", _span(first), _HINTS.get(first.word, _READ_ONLY)
        )
    sql = " " * first.start + text.sql[first.start : last.end]
    options, cut = _options(text, found)
    above = _first(text, found) or _largest(text, found)
    for place in (cut, None if above is None else above.span):
        if place is not None:
            sql = sql[: place.start] + " " * (place.end - place.start) + sql[place.end :]
    asked = shape(text, sql)
    query = recall(asked)
    if query is not None:
        return Ask(query, text, sql, options, (), above)
    text.given(sql)
    try:
        nodes = parsing().parse(sql)
    except EmptyError as error:
        raise syntax(text, found, error, _READ_ONLY) from None
    if len(nodes) != 1:
        raise text.refusal("this is not one SELECT", _span(first), _READ_ONLY)
    try:
        clauses = Clauses(text)
        query = clauses.query(nodes[0])
    except (LookupError, TypeError, AttributeError):
        raise text.refusal(
            "a statement in a form that is not known", _span(first), "the same in plainer SQL"
        ) from None
    if not clauses.params:
        remember(asked, query)
    return Ask(query, text, sql, options, clauses.params, above)


def _first(text: Text, found: list[Token]) -> First | None:
    """FIRST n ABOVE threshold at the end of a query, which is nothing of DuckDB's."""
    if "ABOVE" not in text.sql.upper():
        return None
    for at, token in enumerate(found):
        number = found[at - 1] if at > 1 else token
        if token.word != "ABOVE" or number.kind != "numeric_const" or found[at - 2].word != "FIRST":
            continue
        place = Span(found[at - 2].start, found[-1].end)
        counts = _with_counts(found)
        last = len(found) - (2 if counts else 0)
        limit = found[at + 1].text if at + 2 == last else ""
        if not (number.text.isdecimal() and limit.isdecimal()):
            raise text.refusal(
                "FIRST ... ABOVE in another form", place,
                "FIRST 3 ABOVE 100, at the very end, or FIRST 3 ABOVE 100 WITH COUNTS",
            )  # fmt: skip
        count, threshold = int(number.text), int(limit)
        if not (1 <= count <= MOST_ABOVE and threshold <= MOST_ABOVE):
            raise text.refusal(
                f"FIRST {count:,} ABOVE {threshold:,}",
                place,
                f"a number of groups from 1, and a threshold from 0, up to {MOST_ABOVE:.0e}",
            )
        return First(count, threshold, place, counts)
    return None


def _largest(text: Text, found: list[Token]) -> Largest | None:
    """LARGEST 1 at the end of a query, which is nothing of DuckDB's."""
    counts = _with_counts(found)
    at = len(found) - (4 if counts else 2)
    if at < 1 or found[at].word != "LARGEST" or found[at + 1].kind != "numeric_const":
        return None
    place = Span(found[at].start, found[-1].end)
    if found[at + 1].text != "1":
        raise text.refusal(
            f"LARGEST {found[at + 1].text}", place,
            "LARGEST 1, then again where its group is left out (WHERE region <> 'N')",
        )  # fmt: skip
    return Largest(place, counts)


def _with_counts(found: list[Token]) -> bool:
    return [token.word for token in found[-2:]] == ["WITH", "COUNTS"]


def _options(text: Text, found: list[Token]) -> tuple[tuple[Option, ...], Span | None]:
    """What `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (name = value, ...)` says, and its place."""
    if len(found) < 2 or found[1].word != "WITH":
        return (), None
    words = [token.word for token in found[:5]]
    if words[1:3] != ["WITH", "DIFFERENTIAL_PRIVACY"]:
        return (), None
    if words[3:4] != ["OPTIONS"]:
        return (), Span(found[1].start, found[2].end)
    form = "OPTIONS (epsilon = 0.1, ...)"
    if words[4:5] != ["("]:
        raise text.refusal("OPTIONS without its list", _span(found[3]), form)
    listed: list[Option] = []
    at = 5
    while True:
        part = found[at : at + 5]
        sign = part[2].text if len(part) > 2 and part[2].text in _SIGNS else ""
        part = [*part[:2], *part[3:]] if sign else part[:4]
        if len(part) < 4 or part[1].text != "=" or part[3].text not in (",", ")"):
            raise text.refusal(
                "an OPTIONS list that is not name = value, ...",
                _span(found[min(at, len(found) - 1)]),
                form,
            )
        option = Option(
            _unquote(part[0]).lower(), sign + _unquote(part[2]), Span(part[0].start, part[2].end)
        )
        if any(other.name == option.name for other in listed):
            raise text.refusal(
                f"{option.name} is given twice in OPTIONS", option.span, "each setting once"
            )
        listed.append(option)
        at += 5 if sign else 4
        if part[3].text == ")":
            return tuple(listed), Span(found[1].start, part[3].end)


def _unquote(token: Token) -> str:
    quote = token.text[:1]
    if quote in ("'", '"') and len(token.text) > 1:
        return token.text[1:-1].replace(quote * 2, quote)
    return token.text


def _describe(text: Text, found: list[Token]) -> Describe | Show:
    words = found[1:]
    if not words:
        return Show("tables")
    if words[0].word == "TABLE" and len(words) > 1:
        words = words[1:]
    if len(words) == 3 and words[1].text == "." and words[0].word == "MAIN":
        words = words[2:]
    if len(words) != 1 or words[0].kind not in ("identifier", "keyword", "string_const"):
        raise text.refusal(
            "DESCRIBE of something other than a dataset",
            Span(words[0].start, words[-1].end),
            "DESCRIBE name; or the query with LIMIT 0, which is free and has the columns",
        )
    return Describe(_unquote(words[0]), _span(words[0]))


def _show(text: Text, found: list[Token]) -> Show:
    if len(found) == 3 and found[1].word == "ALL" and found[2].word == "TABLES":
        return Show("tables")
    if len(found) == 3 and found[1].word == "SYNOPSIS":
        return Show("synopsis", _span(found[2]), _unquote(found[2]))
    if len(found) != 2 or found[1].word == "SYNOPSIS":
        raise text.refusal(
            "a SHOW of something else",
            Span(found[0].start, found[-1].end),
            "SHOW TABLES, SHOW BUDGET, SHOW SYNOPSES, SHOW SYNOPSIS name, SHOW ALL or SHOW setting",
        )
    return Show(_unquote(found[1]).lower(), _span(found[1]))


def _setting(text: Text, found: list[Token]) -> Set:
    form = "SET epsilon = 0.1, RESET epsilon"
    words = found[1:]
    if words and words[0].word in ("SESSION", "LOCAL", "GLOBAL"):
        words = words[1:]
    if not words or words[0].word == "VARIABLE":
        raise text.refusal(
            f"{found[0].word} VARIABLE keeps a value in the engine's session"
            if words
            else f"{found[0].word} without a setting",
            Span(found[0].start, found[-1].end),
            form,
        )
    name = _unquote(words[0]).lower()
    if found[0].word == "RESET":
        if len(words) != 1:
            raise text.refusal("a RESET of more than one setting", _span(words[1]), form)
        return Set(name, None, _span(words[0]))
    value = words[2:]
    sign = value[0].text if value and value[0].text in _SIGNS else ""
    value = value[1:] if sign else value
    if len(words) < 3 or words[1].word not in ("=", "TO") or len(value) != 1:
        raise text.refusal("a SET that is not name = value", _span(words[-1]), form)
    place = Span(words[2].start, value[0].end)
    return Set(name, sign + _unquote(value[0]), _span(words[0]), place)
