"""What the shell offers to complete: from the declared schema and the grammar, never from data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice

from dpsql.planner import BACKENDS, OBJECTIVES
from dpsql.query.expr import quote, text_literal, written
from dpsql.query.functions import AGGREGATES, SIGNATURES
from dpsql.schema import Column, Dataset, Kind
from dpsql.session.settings import EXAMPLES, NAMES, POSTPROCESSES, TARGETS, WHOLE
from dpsql.surfaces.shell import dots
from dpsql.surfaces.shell.context import Place, place
from dpsql.surfaces.shell.scan import LONGEST
from dpsql.surfaces.terminal import visible

MOST = 200  # that are offered at once
LOOKED = 5_000  # declared values that are looked through at a key; of more, beginnings are found
COUNTED = 2_000  # points of a range that are listed; of more, the two ends
CHOICES: Mapping[str, tuple[str, ...]] = {
    "backend": BACKENDS,
    "objective": OBJECTIVES,
    "postprocess": POSTPROCESSES,
    "target": TARGETS,
    "whole": WHOLE,
    **dict.fromkeys(("intervals", "clamp", "strict", "reuse"), ("on", "off")),
    **{name: (EXAMPLES[name], "unset") for name in ("epsilon", "rho", "accuracy", "total")},
    "confidence": ("0.9", "0.95", "0.99"),
}
_START = ("SELECT", "EXPLAIN", "SHOW", "DESCRIBE", "SET", "RESET", "WITH", "FROM")
_OPERAND = ("CASE", "NOT", "NULL", "TRUE", "FALSE", "DATE", "CAST")
_OPERATORS = ("AND", "OR", "IN", "NOT", "LIKE", "BETWEEN", "IS NULL", "IS NOT NULL")
_NEXT = {
    "SELECT": ("FROM", "AS", "FILTER (WHERE"),
    "FROM": ("WHERE", "GROUP BY", "ORDER BY", "LIMIT", "AS", "UNION ALL"),
    "WHERE": (*_OPERATORS, "GROUP BY", "ORDER BY", "LIMIT", "UNION ALL"),
    "GROUP": ("HAVING", "ORDER BY", "LIMIT", "UNION ALL", "FIRST", "LARGEST 1"),
    "HAVING": (*_OPERATORS, "ORDER BY", "LIMIT"),
    "ORDER": ("DESC", "ASC", "NULLS LAST", "NULLS FIRST", "LIMIT"),
    "LIMIT": ("OFFSET",),
    "OFFSET": (),
    "WITH": ("AS", "SELECT"),
    "UNION": ("ALL", "SELECT"),
    "": _OPERATORS,
}
_CASE = ("WHEN", "THEN", "ELSE", "END")
_GROUPED = ("ALL", "CUBE", "ROLLUP", "GROUPING SETS")


@dataclass(frozen=True)
class Offer:
    """A text that replaces the last `typed` characters before the cursor, and what it is."""

    text: str
    typed: int
    shown: str
    meta: str = ""


@dataclass(frozen=True)
class Vocabulary:
    """What names there are: the declared datasets."""

    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    _points: dict[int, list[tuple[str, str]]] = field(default_factory=dict, repr=False)
    _sorted: dict[int, list[str]] = field(default_factory=dict, repr=False)

    def dataset(self, name: str) -> Dataset | None:
        """The dataset of a name, whatever the case of its letters."""
        alike = (d for n, d in self.datasets.items() if n.casefold() == name.casefold())
        return self.datasets.get(name) or next(alike, None)

    def points(self, column: Column) -> list[tuple[str, str]]:
        """The points as text, casefolded and as they are; of a range of too many, the ends."""
        if id(column) not in self._points:
            points: Iterable[object]
            if column.kind is Kind.CATEGORY:
                points = column.values
            elif column.size <= COUNTED:
                points = column.points()
            else:
                points = [column.point(0), column.point(column.size - 1)]
            self._points[id(column)] = [(text.casefold(), text) for text in map(_text, points)]
        return self._points[id(column)]

    def beginning(self, column: Column, word: str) -> Iterator[str]:
        """The values of a long category that begin with a word, in a few spellings."""
        if id(column) not in self._sorted:
            self._sorted[id(column)] = sorted(map(str, column.values))
        listed = self._sorted[id(column)]
        for spelt in dict.fromkeys((word, word.upper(), word.lower(), word.capitalize())):
            for text in islice(listed, bisect_left(listed, spelt), None):
                if not text.startswith(spelt):
                    break
                yield text


def offers(text: str, cursor: int, known: Vocabulary) -> list[Offer]:
    """What could come at the cursor, likeliest first; at most MOST. Reads no data."""
    if len(text) > LONGEST:
        return []
    line = text[:cursor].lstrip()
    if dots.is_dot(line):
        return list(islice(_of_command(line, text, cursor, known), MOST))
    return _of_sql(text, cursor, known)


# -- commands of the shell ---------------------------------------------------------------------


def _of_command(line: str, text: str, cursor: int, known: Vocabulary) -> Iterator[Offer]:
    name, blank, rest = line.partition(" ")
    if not blank:
        for other in dots.names():
            if other.startswith(name.lower()):
                yield Offer(other, len(name), other, dots.dot(other).summary)
        return
    try:
        takes = dots.dot(name).takes
    except Exception:  # there is no such command: nothing to complete
        return
    word = rest.lstrip()
    if takes == "sql":
        start = text.index(name) + len(name) + 1
        yield from _of_sql(text[start:], cursor - start, known)
        return
    listed: Iterable[str] = ()
    match takes:
        case "command":
            listed = (dot.name for dot in dots.DOTS)
        case "dataset":
            listed = known.datasets
        case "mode":
            listed = dots.MODES
        case "switch":
            listed = dots.SWITCH
        case "setting":
            listed = NAMES
    for other in listed:
        if other.casefold().startswith(word.casefold()):
            yield Offer(other, len(word), visible(other))


# -- SQL ---------------------------------------------------------------------------------------


def _of_sql(text: str, cursor: int, known: Vocabulary) -> list[Offer]:
    at = place(text, cursor)
    closed = text[cursor : cursor + 1] == at.quote
    found: dict[str, Offer] = {}
    for offer in islice(_offered(at, known, closed), MOST):
        found.setdefault(offer.text, offer)
    return [o for o in found.values() if at.quote or o.text != at.word]


def _offered(at: Place, known: Vocabulary, closed: bool) -> Iterator[Offer]:
    match at.kind:
        case "nothing":
            return
        case "start":
            yield from _words(at, _START, "statement")
        case "query":
            yield from _words(at, ("SELECT", "WITH", "FROM"), "statement")
        case "dataset" | "describe":
            yield from _datasets(at, known, closed)
            if at.kind == "dataset":
                yield from _names(at, at.aliases, "name of a query", closed)
        case "show":
            yield from _words(at, ("TABLES", "BUDGET", "SYNOPSES", "SYNOPSIS", "ALL"), "free")
            yield from _plain(at, NAMES, "setting")
            yield from _datasets(at, known, closed)
        case "setting":
            others = ("ALL",) if at.of[1] == "RESET" else ()
            yield from _plain(at, NAMES, "setting")
            yield from _words(at, others, "every setting")
        case "choice":
            yield from _choices(at, closed)
        case "value":
            yield from _values(at, known, closed)
        case "column":
            yield from _columns(at, _of_name(at, known, at.of[0]), closed)
        case "by":
            yield from _words(at, ("BY",), "clause")
        case "above":
            yield from _words(at, ("ABOVE",), "clause")
        case "operand":
            yield from _operands(at, known, closed)
        case "next":
            clause = _NEXT.get(at.clause, ())
            also = _OPERATORS if at.clause == "SELECT" else ()
            yield from _words(at, (*(_CASE if at.cased else ()), *clause, *also), "clause")


def _operands(at: Place, known: Vocabulary, closed: bool) -> Iterator[Offer]:
    if at.clause == "UNION":
        yield from _words(at, _NEXT["UNION"], "clause")
        return
    if at.clause in ("ORDER", "HAVING", "GROUP"):
        yield from _names(at, at.aliases, "column of the answer", closed)
    yield from _columns(at, _sources(at, known), closed)
    yield from _names(at, (name for name, _ in at.names), "dataset", closed)
    if at.quote:
        return
    if at.clause in ("SELECT", "HAVING", "ORDER", ""):
        yield from _functions(at, (n for n in AGGREGATES if n != "count_star"), "aggregate")
    if at.clause == "SELECT":
        yield from _words(at, ("WITH DIFFERENTIAL_PRIVACY OPTIONS (",), "price of this statement")
    yield from _words(at, _OPERAND, "")
    if at.clause in ("GROUP", "ORDER"):
        yield from _words(at, _GROUPED if at.clause == "GROUP" else ("ALL",), "clause")
    yield from _functions(at, (n for n in SIGNATURES if n[0].isalpha()), "function")


def _sources(at: Place, known: Vocabulary) -> list[Dataset]:
    """The datasets in FROM, or all of them where FROM is not typed yet or names a query."""
    named = [known.dataset(name) for _, name in at.names]
    if not named or None in named:
        return list(known.datasets.values())
    return list({d.name: d for d in named if d is not None}.values())


def _of_name(at: Place, known: Vocabulary, name: str) -> list[Dataset]:
    """The dataset that a qualifier stands for."""
    meant = dict((alias.casefold(), of) for alias, of in reversed(at.names))
    found = known.dataset(meant.get(name.casefold(), name))
    return [] if found is None else [found]


def _values(at: Place, known: Vocabulary, closed: bool) -> Iterator[Offer]:
    qualifier, name = at.of
    sources = _of_name(at, known, qualifier) if qualifier else _sources(at, known)
    column = next((c for d in sources for c in d.columns if c.name.casefold() == name.casefold()),
                  None)  # fmt: skip
    if column is not None:
        yield from _points(at, column, known, closed)
    if not at.quote or at.quote == '"':
        yield from _operands(at, known, closed)


def _points(at: Place, column: Column, known: Vocabulary, closed: bool) -> Iterator[Offer]:
    """The declared values of a column that begin with what is typed, then those that hold it."""
    if at.quote == '"':
        return
    word, meta = at.word.casefold(), f"value of {visible(column.name)}"
    texts = column.kind is Kind.DATE or column.sql_type == "VARCHAR"
    if at.quote and not texts:
        return
    if column.kind is Kind.CATEGORY and column.size > LOOKED:
        found = islice(known.beginning(column, at.word), MOST)
    else:
        found = islice(_alike(known.points(column), word), MOST)
    for value in found:
        if at.quote:
            text = value.replace("'", "''") + ("" if closed else "'")
        elif column.kind is Kind.DATE:
            text = f"DATE '{value}'"
        else:
            text = text_literal(value) if texts else value
        yield Offer(text, _typed(at), visible(value), meta)
    if column.nullable and not at.quote and "null".startswith(word):
        yield Offer("NULL", _typed(at), "NULL", meta)


def _alike(points: Sequence[tuple[str, str]], word: str) -> Iterator[str]:
    """The points that begin with a word, then those that hold it."""
    yield from (text for folded, text in points if folded.startswith(word))
    if word:
        yield from (t for folded, t in points if word in folded and not folded.startswith(word))


def _text(point: object) -> str:
    match point:
        case bool():
            return "true" if point else "false"
        case date():
            return point.isoformat()
        case float() if point.is_integer() and abs(point) < 1e15:
            return str(int(point))
        case _:
            return str(point)


def _choices(at: Place, closed: bool) -> Iterator[Offer]:
    for value in CHOICES.get(at.of[1], ()):
        if value.startswith(at.word.lower()):
            end = at.quote if at.quote and not closed else ""
            yield Offer(value + end, _typed(at), value, f"value of {at.of[1]}")


def _columns(at: Place, sources: Iterable[Dataset], closed: bool) -> Iterator[Offer]:
    for dataset in sources:
        for column in dataset.columns:
            meta = f"{column.sql_type}  {visible(column.description)}".rstrip()
            yield from _names(at, (column.name,), meta, closed)


def _datasets(at: Place, known: Vocabulary, closed: bool) -> Iterator[Offer]:
    for dataset in known.datasets.values():
        meta = visible(dataset.description) or "dataset"
        yield from _names(at, (dataset.name,), meta, closed)


def _names(at: Place, names: Iterable[str], meta: str, closed: bool) -> Iterator[Offer]:
    """Names, in double quotes where they need them."""
    for name in names:
        if not name.casefold().startswith(at.word.casefold()) or at.quote == "'":
            continue
        text = written(name)
        if at.quote:
            text = quote(name)[1 : -1 if closed else None]
        yield Offer(text, _typed(at), visible(name), meta)


def _plain(at: Place, words: Iterable[str], meta: str) -> Iterator[Offer]:
    for word in words:
        if not at.quote and word.startswith(at.word.lower()):
            yield Offer(word, _typed(at), word, meta)


def _words(at: Place, words: Iterable[str], meta: str) -> Iterator[Offer]:
    """Keywords, in small letters where what is typed is."""
    for word in words:
        if not at.quote and word.startswith(at.word.upper()):
            text = word.lower() if at.word.islower() else word
            yield Offer(text, _typed(at), text, meta)


def _functions(at: Place, names: Iterable[str], meta: str) -> Iterator[Offer]:
    if not at.word and meta == "function":  # too many to be of use
        return
    for name in names:
        if name.startswith(at.word.lower()):
            text = name if at.word.islower() or meta == "function" else name.upper()
            yield Offer(f"{text}(", _typed(at), f"{text}(", meta)


def _typed(at: Place) -> int:
    """How many characters of the text are replaced: the word, without its opening quote."""
    quotes = at.word.count(at.quote) if at.quote else 0  # each is typed twice
    return len(at.word) + quotes
