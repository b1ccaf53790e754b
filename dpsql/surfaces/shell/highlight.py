"""What each part of a statement is, for its colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpsql.query.functions import AGGREGATES, SIGNATURES
from dpsql.query.keywords import RESERVED
from dpsql.surfaces.shell import dots
from dpsql.surfaces.shell.completion import Vocabulary
from dpsql.surfaces.shell.scan import LONGEST, scan

_WORDS = """
    above between budget by cast cube date days differential_privacy explain filter first grouping
    if interval is last nulls offset options reset rollup set sets tables year years
"""
_OURS = frozenset(_WORDS.split())  # of our grammar and DuckDB's, without being reserved
STYLES: Mapping[str, str] = {
    "sql.keyword": "bold ansiblue",
    "sql.function": "ansicyan",
    "sql.name": "",
    "sql.known": "ansimagenta",
    "sql.text": "ansigreen",
    "sql.number": "ansigreen",
    "sql.comment": "ansibrightblack",
    "sql.command": "bold ansiyellow",
    "prompt": "bold",
}
Fragment = tuple[str, str]


def fragments(text: str, known: Vocabulary) -> list[list[Fragment]]:
    """The lines of a text, each as pairs of a style's name and a part."""
    lines: list[list[Fragment]] = [[]]
    for style, part in _parts(text, _names(known)):
        for number, piece in enumerate(part.split("\n")):
            if number:
                lines.append([])
            if piece:
                lines[-1].append((style, piece))
    return lines


def _parts(text: str, names: frozenset[str]) -> Iterator[Fragment]:
    start = len(text) - len(text.lstrip())
    if dots.is_dot(text[start:]):
        end = next((i for i in range(start, len(text)) if text[i].isspace()), len(text))
        yield "", text[:start]
        yield "class:sql.command", text[start:end]
        if text[start:end] == ".explain":
            yield from _sql(text[end:], names)
        else:
            yield "", text[end:]
        return
    yield from _sql(text, names)


def _sql(text: str, names: frozenset[str]) -> Iterator[Fragment]:
    if len(text) > LONGEST:
        yield "", text
        return
    position, tokens = 0, scan(text)
    for at, token in enumerate(tokens):
        yield "", text[position : token.start]
        kind = token.kind
        if kind in ("word", "name"):
            called = at + 1 < len(tokens) and tokens[at + 1].text == "("
            kind = _word(token.value.casefold(), kind, called, names)
        yield ("" if kind == "sign" else f"class:sql.{kind}"), token.text
        position = token.end
    yield "", text[position:]


def _word(word: str, kind: str, called: bool, names: frozenset[str]) -> str:
    if word in names:
        return "known"
    if kind == "name":
        return "name"
    if called and (word in AGGREGATES or word in SIGNATURES):
        return "function"
    return "keyword" if word in RESERVED or word in _OURS else "name"


def _names(known: Vocabulary) -> frozenset[str]:
    datasets = known.datasets.values()
    columns = (column.name.casefold() for dataset in datasets for column in dataset.columns)
    return frozenset([*(dataset.name.casefold() for dataset in datasets), *columns])
