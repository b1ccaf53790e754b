"""Statements of one shape, which differ in literals and columns: DuckDB reads one, others follow.

To have DuckDB read a short statement takes longer than most of what is done with it afterwards, and
most statements are like one that was read before, but for the columns, numbers and texts of their
conditions. A shape is a text without these, but with its blanks and comments.

Why another word in the same place is read as the first was: it is a whole number of 32 bits, a text
in plain quotes, or a name that is no keyword, as the first is, and stands apart from what is around
it. So the lexer finds the same tokens, and the grammar, to which one number is as another, the same
tree. Where a word does take part in how a tree is made (equal group keys become one, types,
intervals, functions), it is not beside a comparison, BETWEEN or IN: a word anywhere else belongs to
the shape.
"""

from __future__ import annotations

import dataclasses
import math
import re
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, get_args

from dpsql.query.expr import Between, Compare, Const, Expr, Op, Ref, Span, children, walk
from dpsql.query.renewed import Renewed
from dpsql.query.syntax import Cte, Derived, ForeignSource, Order, Query, Select, Table, Union
from dpsql.query.text import Text, Token

_KEPT = 256  # shapes
_LONGEST = 2048  # characters of a statement that is kept: one of 16,384 takes 3 MiB
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")  # of 32 bits at most
_QUOTED = re.compile("'(?:[ -&(-~]|'')*'")  # one that ends
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BEFORE = frozenset(" \n\t(,=<>")
_AFTER = frozenset(" \n\t),;=<>!")
_IN = ("IN", "NOT IN")
_KINDS = {
    "numeric_const": ("integer", "\0"),
    "string_const": ("text", "\1"),
    "identifier": ("name", "\2"),
}

_PARTS = (*get_args(Expr), Span, Select, Union, Table, Derived, ForeignSource, Order, Cte)
_FIELDS = {kind: attrgetter(*[f.name for f in dataclasses.fields(kind)]) for kind in _PARTS}
_WHOLE = frozenset({str, bool, int, type(None)})  # kinds of values that have no parts


class Word(NamedTuple):
    """A literal or a name that may be another, and its place."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A text without its words, and these, from left to right; a mark that is in no statement
    stands for each."""

    name: str
    words: tuple[Word, ...]


_Name: TypeAlias = "tuple[str, tuple[str | None, ...]]"  # with the words that may not be others
_LAST: OrderedDict[str, tuple[Shape, Query]] = OrderedDict()  # of which nothing is known yet
_LOOSE: OrderedDict[str, tuple[bool, ...]] = OrderedDict()  # which words may be others
_READ: OrderedDict[_Name, tuple[Shape, Query]] = OrderedDict()
_KEEPING = Renewed()


def shape(text: Text, sql: str) -> Shape:
    """The shape of `sql`, which is `text`, some of its tokens blanked out."""
    parts, found, end = list[str](), list[Word](), 0
    for token in text.tokens:
        if token.kind not in _KINDS:
            continue
        kind, mark = _KINDS[token.kind]
        value = _value(kind, token, sql)
        if value is not None:
            parts += [sql[end : token.start], mark]
            end = token.end
            found.append(Word(kind, value, token.start, end))
    return Shape("".join([*parts, sql[end:]]), tuple(found))


def _value(kind: str, token: Token, sql: str) -> str | None:
    """The value of a token that any other of its kind can take the place of; None for the rest."""
    text, start, end = token.text, token.start, token.end
    if not (start and sql[start - 1] in _BEFORE and sql.startswith(text, start)):
        return None
    if end < len(sql) and sql[end] not in _AFTER:
        return None
    if kind == "integer":
        return text if _NUMBER.fullmatch(text) else None
    if kind == "name":
        return text if _PLAIN.fullmatch(text) else None
    return text[1:-1].replace("''", "'") if _QUOTED.fullmatch(text) else None


def recall(asked: Shape) -> Query | None:
    """The query of a shape with these words, if one that is read like it was remembered."""
    with _KEEPING.held():
        last, loose = _LAST.get(asked.name), _LOOSE.get(asked.name)
        if last is not None and (loose is None or _name(last[0], loose) == _name(asked, loose)):
            loose = _keep(*_LAST.pop(asked.name))  # now that another is asked
        if loose is None:
            return None
        name = _name(asked, loose)
        known = _READ.get(name)
        if known is None:
            return None
        _LOOSE.move_to_end(asked.name)
        _READ.move_to_end(name)
    found: Query = _Filling(known[0].words, asked.words, loose).of(known[1])
    return found


def remember(asked: Shape, query: Query) -> None:
    """Keep a query as DuckDB read it, if it is short."""
    if len(asked.name) > _LONGEST:
        return
    with _KEEPING.held():
        _LAST[asked.name] = asked, query
        _cut(_LAST)


def _keep(asked: Shape, query: Query) -> tuple[bool, ...]:
    """Which words of a query may be others, by which it is found from now on."""
    found = _LOOSE[asked.name] = _loose(asked, query)
    _READ[_name(asked, found)] = asked, query
    _cut(_LOOSE)
    _cut(_READ)
    return found


def _cut(kept: OrderedDict[Any, Any]) -> None:
    if len(kept) > _KEPT:
        kept.popitem(last=False)


def _name(asked: Shape, loose: Sequence[bool]) -> _Name:
    listed = zip(asked.words, loose, strict=True)
    return asked.name, tuple([None if may else word.text for word, may in listed])


def _loose(asked: Shape, query: Query) -> tuple[bool, ...]:
    """Whether each word is one constant or column, as it is written, beside a comparison."""
    compared, constants, edges = Counter[Word](), Counter[int](), set[int]()
    for part in _parts(query):
        match part:
            case Select():
                conditions = [expr for expr, _ in part.items]
                conditions += [expr for expr in (part.where, part.having) if expr is not None]
                compared.update(c for condition in conditions for c in _compared(condition))
            case Const(span=Span(start=start)) | Ref(span=Span(start=start)):
                constants[start] += 1
            case Span(start=start, end=end):
                edges |= {start, end}
    return tuple(
        compared[word] == constants[word.start] == 1
        and edges.isdisjoint(range(word.start + 1, word.end))
        for word in asked.words
    )


def _compared(expr: Expr) -> Iterator[Word]:
    """The constants and columns that stand beside a comparison, BETWEEN or IN."""
    for part in walk(expr):
        if isinstance(part, Compare | Between) or (isinstance(part, Op) and part.name in _IN):
            for one in children(part):
                match one:
                    case Const(kind=kind, text=text, span=Span(start=start, end=end)):
                        yield Word(kind, text, start, end)
                    case Ref(path=(name,), span=Span(start=start, end=end)):
                        yield Word("name", name, start, end)


def _parts(query: Query) -> Iterator[Any]:
    """Everything that a query is made of."""
    left: list[Any] = [query]
    while left:
        part = left.pop()
        if isinstance(part, tuple):
            left += part
        elif type(part) in _FIELDS:
            yield part
            left += _FIELDS[type(part)](part)


class _Filling:
    """Puts words in the place of others, and moves all places accordingly."""

    def __init__(self, then: Sequence[Word], now: Sequence[Word], loose: Sequence[bool]) -> None:
        self._starts = [word.start for word in then]
        moves = [new.end - old.end for new, old in zip(now, then, strict=True)]
        self._moves = [0, *moves]  # of what follows the first, second, ... word
        moved = [word.start for word, by in zip(then, moves, strict=True) if by]
        self._still = moved[0] if moved else math.inf  # nothing up to here moves
        listed = zip(then, now, loose, strict=True)
        self._texts = {old.start: new.text for old, new, may in listed if may}

    def of(self, part: Any) -> Any:
        """A query, or a part of one."""
        kind = type(part)
        if kind is Span and part.end <= self._still:
            return part
        if kind is Span:
            return Span(self._moved(part.start), self._moved(part.end))
        listed = part if kind is tuple else _FIELDS[kind](part)
        found = [self.of(p) if p and type(p) not in _WHOLE else p for p in listed]
        if kind is tuple:
            return tuple(found)
        if kind is Const and part.span is not None and part.span.start in self._texts:
            return Const(part.kind, self._texts[part.span.start], found[-1])
        if kind is Ref and part.span is not None and part.span.start in self._texts:
            return Ref((self._texts[part.span.start],), found[-1])
        return kind(*found)

    def _moved(self, at: int) -> int:
        return at + self._moves[bisect_left(self._starts, at)]
