"""A script of SQL: its statements, what the comments above them say, and their places.

Statements end at semicolons as DuckDB's tokenizer sees them, so never inside a text, a quoted
name, a dollar quote or a comment. Of the comments above a statement `-- # Title` is its title,
`-- weight: 4` how much it counts in the joint plan, `-- chart: bar` how to draw it, and the rest
describes it. What stands above a SET that comes first, or apart from the first statement, is about
the whole script.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import Place, Refused, UsageError
from dpsql.query.empty import tokens
from dpsql.session.chart import NAMES

LONGEST = 1_000_000  # bytes of a script that are read at all
_MARKS = ("weight", "chart")
_MARK = re.compile(r"([A-Za-z]+)\s*:\s*(.*)")
_HEADING = re.compile(r"#+\s*(.*)")
_RULE = re.compile(r"[-=*#_~]*")  # a line that only divides
_BLOCK = re.compile(r"/\*|\*/")
_SETTINGS = re.compile(r"(?:SET|RESET)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a script: its text, which begins at character `start`, and its comments."""

    sql: str
    start: int
    title: str = ""
    description: str = ""
    weight: float | None = None
    chart: str = ""

    def __post_init__(self) -> None:
        if self.weight is not None and not 0 < self.weight < math.inf:
            raise ValueError("a weight is a finite number above 0")

    @property
    def caption(self) -> str:
        """The title, or else the text, on one line."""
        return self.title or " ".join(self.sql.split())

    @property
    def sets(self) -> bool:
        """Whether it changes a setting, for the statements after it."""
        return _SETTINGS.match(self.sql) is not None


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script; `name` is what its errors call it."""

    name: str
    text: str
    steps: tuple[Step, ...]
    title: str = ""
    description: str = ""

    @classmethod
    def of(cls, text: str, name: str = "script") -> Script:
        """The script that a text is. Raises Refused, with the place, or UsageError."""
        found = cls(name, text, ())
        pieces = _pieces(text, found)
        if not pieces:
            raise UsageError(f"{name} holds no statement: SELECT COUNT(*) FROM ...; ...")
        head, carried, steps = _Above(), _Above(), []
        for index, (gap, start, stop) in enumerate(pieces):
            sql = text[start:stop].rstrip()
            above = _Above.of(found, gap, start)
            if index == 0:
                head, above = above.parted(whole=_SETTINGS.match(sql) is not None)
                head.require_none(found)
            above = carried.then(above)
            step = Step(sql, start)
            if step.sets:  # what stands above it is about the statement after it
                carried = above
            else:
                carried, step = _Above(), above.on(step, found)
            steps.append(step)
        end = max(pieces[-1][2] + 1, pieces[-1][1])
        carried.then(_Above.of(found, end, len(text))).require_none(found)
        told = head.on(Step("", 0), found)
        return dataclasses.replace(
            found, steps=tuple(steps), title=told.title, description=told.description
        )

    @classmethod
    def read(cls, file: Path) -> Script:
        """The script in a file. Raises Refused or UsageError."""
        try:
            with open(file, "rb") as opened:
                content = opened.read(LONGEST + 1)
        except OSError as error:
            raise UsageError(
                f"cannot read {file}: {(error.strerror or 'input failed').lower()}"
            ) from None
        if len(content) > LONGEST:
            raise UsageError(f"{file} is longer than {LONGEST:,} bytes")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{file} is not UTF-8 text (byte {error.start}): save it as UTF-8"
            ) from None
        return cls.of(text, file.name)

    def place(self, at: int) -> Place:
        """The line and column of a character."""
        before = self.text[:at]
        return Place(self.name, before.count("\n") + 1, at - before.rfind("\n"))

    def line(self, step: Step) -> int:
        """The line on which a statement begins."""
        return self.place(step.start).line

    def refusal(self, reason: str, start: int, end: int, hint: str = "") -> Refused:
        """A refusal that quotes this script."""
        return Refused(
            reason, hint=hint, sql=self.text, start=start, end=end, place=self.place(start)
        )

    @contextlib.contextmanager
    def placed(self, step: Step) -> Iterator[None]:
        """Refusals and usage errors of a statement get their place in the script."""
        try:
            yield
        except Refused as error:
            if error.start is None or error.place is not None:
                place = error.place or self.place(step.start)
                raise Refused(error.reason, hint=error.hint, place=place) from None
            end = error.start + 1 if error.end is None else error.end
            raise self.refusal(
                error.reason, step.start + error.start, step.start + end, error.hint
            ) from None
        except UsageError as error:
            raise UsageError(f"{self.place(step.start)}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Note:
    """One line of a comment; `paragraph` counts those that blank lines divide."""

    text: str
    start: int
    paragraph: int


@dataclass(frozen=True, slots=True)
class _Above:
    """The comments above a statement."""

    notes: tuple[_Note, ...] = ()

    @classmethod
    def of(cls, script: Script, start: int, stop: int) -> _Above:
        """Those between two characters, but for one that ends the line of the first."""
        notes = tuple(_notes(script.text, start, stop))
        if start and notes:
            same = script.text.find("\n", start, notes[0].start) < 0
            notes = notes[1:] if same else notes
        return cls(notes)

    def then(self, other: _Above) -> _Above:
        return _Above((*self.notes, *other.notes))

    def parted(self, *, whole: bool) -> tuple[_Above, _Above]:
        """What is about the script, and what about its first statement: a paragraph of its own,
        or all from a second heading on."""
        if whole or not self.notes:
            return self, _Above()
        last = self.notes[-1].paragraph
        cut = next(at for at, note in enumerate(self.notes) if note.paragraph == last)
        headings = [at for at, note in enumerate(self.notes) if _HEADING.fullmatch(note.text)]
        if not cut and len(headings) > 1:
            cut = headings[1]
        return _Above(self.notes[:cut]), _Above(self.notes[cut:])

    def require_none(self, script: Script) -> None:
        """Refuse a weight or a chart that stands above no statement."""
        for note in self.notes:
            name, _ = _mark(note, script)
            if name:
                raise script.refusal(
                    f"{name} stands above no statement",
                    note.start,
                    note.start + len(note.text),
                    f"-- {name}: ... directly above the SELECT that it is about",
                )

    def on(self, step: Step, script: Script) -> Step:
        """The statement with what its comments say. Raises Refused."""
        title, weight, chart = "", None, ""
        lines: list[str] = []
        seen: set[str] = set()
        for before, note in itertools.pairwise((None, *self.notes)):
            assert note is not None
            name, value = _mark(note, script)
            if name in seen:
                raise script.refusal(
                    f"{name} is given twice", note.start, note.start + len(note.text), "it once"
                )
            heading = _HEADING.fullmatch(note.text)
            if name:
                seen.add(name)
            if name == "weight":
                weight = _weight(value, note, script)
            elif name == "chart":
                chart = _chart(value, note, script)
            elif heading and not title and not lines:
                title = heading[1].strip()
            elif not _RULE.fullmatch(note.text):
                if lines and before is not None and before.paragraph != note.paragraph:
                    lines.append("")
                lines.append(note.text)
            elif lines and not note.text:
                lines.append("")
        described = "\n".join(lines).strip()
        return dataclasses.replace(
            step, title=title, description=described, weight=weight, chart=chart
        )


def _mark(note: _Note, script: Script) -> tuple[str, str]:
    """Name and value of a line such as `weight: 4`; empty for other lines."""
    found = _MARK.fullmatch(note.text)
    if found is None:
        return "", ""
    name = found[1].lower()
    if name in _MARKS:
        return name, found[2].strip()
    near = difflib.get_close_matches(name, _MARKS, 1, 0.8)
    if near and " " not in found[2].strip():
        raise script.refusal(
            f"there is no {found[1]!r} of a statement: did you mean {near[0]}?",
            note.start,
            note.start + len(note.text),
            f"-- {near[0]}: {found[2].strip()}",
        )
    return "", ""


def _weight(value: str, note: _Note, script: Script) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise script.refusal(
            f"a weight is a finite number above 0, not {value!r}",
            note.start,
            note.start + len(note.text),
            "-- weight: 4, for half the noise",
        )
    return found


def _chart(value: str, note: _Note, script: Script) -> str:
    name = value.lower()
    if name in NAMES:
        return name
    near = difflib.get_close_matches(name, NAMES, 1, 0.5)
    raise script.refusal(
        f"there is no chart {value!r}" + (f": did you mean {near[0]}?" if near else ""),
        note.start,
        note.start + len(note.text),
        f"-- chart: {', '.join(NAMES[:-1])} or {NAMES[-1]}",
    )


# -- cutting -----------------------------------------------------------------------------------


def _pieces(text: str, script: Script) -> list[tuple[int, int, int]]:
    """For each statement where the comments above it begin, where it begins, and where it ends."""
    if "\0" in text:
        at = text.index("\0")
        raise script.refusal("a NUL character", at, at + 1, "the script without it")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise script.refusal(
            "a lone surrogate, which is no character", error.start, error.end,
            "the script without it",
        ) from None  # fmt: skip
    found: list[tuple[int, int, int]] = []
    gap, first = 0, -1
    for start, kind in _placed(text, encoded):
        if kind == "comment":
            continue
        if kind == "operator" and text[start] == ";":
            if first >= 0:
                found.append((gap, first, start))
            gap, first = start + 1, -1
        elif first < 0:
            first = start
    if first < 0 and (rest := _rest(text, gap)) is not None:
        first = rest  # what the tokenizer could not read is left to the parser's refusal
    if first >= 0:
        found.append((gap, first, len(text)))
    return found


def _placed(text: str, encoded: bytes) -> Sequence[tuple[int, str]]:
    """The tokens of a text, each at its character."""
    listed = tokens(text)
    if len(encoded) == len(text):
        return listed
    offsets = itertools.accumulate((len(character.encode()) for character in text), initial=0)
    at = {offset: index for index, offset in enumerate(offsets)}
    return [(at[start], kind) for start, kind in listed]


def _rest(text: str, start: int) -> int | None:
    """The first character after blanks and comments; None for none."""
    at = start
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text.startswith(("--", "/*"), at):
            at = _after(text, at, len(text))
        else:
            return at
    return None


def _after(text: str, at: int, stop: int) -> int:
    """Where the comment ends that begins here."""
    if text.startswith("--", at):
        end = text.find("\n", at, stop)
        return stop if end < 0 else end
    depth, at = 1, at + 2
    while depth and (found := _BLOCK.search(text, at, stop)):
        depth += 1 if found.group() == "/*" else -1
        at = found.end()
    return stop if depth else at


def _notes(text: str, start: int, stop: int) -> Iterator[_Note]:
    """The lines of the comments between two characters, where there is nothing else."""
    at, paragraph = start, 0
    while at < stop:
        begin = at
        while at < stop and text[at].isspace():
            at += 1
        paragraph += text.count("\n", begin, at) > 1
        if not text.startswith(("--", "/*"), at):
            return
        end = _after(text, at, stop)
        for line in re.finditer(r"[^\n]+", text[at:end].removesuffix("*/")):
            content = line.group().strip(" \t\r")
            left = at + line.start() + line.group().find(content)
            for mark in ("--", "/*", "*"):
                if content.startswith(mark):
                    left, content = left + len(mark), content.removeprefix(mark)
                    break
            bare = content.strip()
            yield _Note(bare, left + content.find(bare), paragraph)
        at = end
