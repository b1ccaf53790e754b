"""The line that a person types on, by prompt_toolkit: completion, colours, lines, history."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from dpsql.surfaces import terminal
from dpsql.surfaces.shell import dots
from dpsql.surfaces.shell.completion import Vocabulary, offers
from dpsql.surfaces.shell.highlight import STYLES, fragments
from dpsql.surfaces.shell.history import kept
from dpsql.surfaces.shell.prompt import Reader, finished

if TYPE_CHECKING:
    from dpsql.session import Session

MENU = 7  # lines kept for what is offered
GOES_ON = "...> "


class Rich:
    """A person at a terminal that can move its cursor."""

    def __init__(self, asked: PromptSession[str], answered: PromptSession[str]) -> None:
        self._asked, self._answered = asked, answered

    def line(self, prompt: str) -> str:
        """Whole statements or a command."""
        return self._asked.prompt([("class:prompt", prompt)])

    def question(self, words: str) -> str:
        """The answer to a question."""
        return self._answered.prompt([("class:prompt", words)])


class Completions(Completer):
    """What is offered as one types, and at Tab: see `completion`."""

    def __init__(self, known: Vocabulary) -> None:
        self._known = known
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """What could come at the cursor."""
        line = document.text_before_cursor.lstrip()
        if dots.is_dot(line) and (path := dots.path(line)) is not None:
            yield from self._paths.get_completions(Document(path), event)
            return
        for offer in offers(document.text, document.cursor_position, self._known):
            shown = terminal.signs(offer.shown, sys.stdout)
            meta = terminal.signs(offer.meta, sys.stdout)
            yield Completion(offer.text, -offer.typed, display=shown, display_meta=meta)


class Colours(Lexer):
    """The colours of what is typed: see `highlight`."""

    def __init__(self, known: Vocabulary) -> None:
        self._known = known

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """The parts of each line."""
        lines = fragments(document.text, self._known)

        def line(number: int) -> StyleAndTextTuples:
            return list(lines[number]) if number < len(lines) else []

        return line


def rich(session: Session) -> tuple[Reader, str]:
    """A person at this terminal, and a warning if what they type is not kept."""
    known = Vocabulary(session.datasets)
    history, warning = kept(session.user, session.ledger_place)
    coloured = terminal.coloured(sys.stdout)
    style = Style.from_dict(dict(STYLES)) if coloured else Style([])
    asked: PromptSession[str] = PromptSession(
        history=history,
        completer=Completions(known),
        complete_while_typing=True,
        lexer=Colours(known) if coloured else None,
        style=style,
        multiline=True,
        key_bindings=keys(),
        prompt_continuation=lambda width, line, wrapped: "" if wrapped else GOES_ON.rjust(width),
        reserve_space_for_menu=MENU,
        enable_suspend=True,
    )
    answered: PromptSession[str] = PromptSession(
        history=DummyHistory(), style=style, enable_suspend=True
    )
    return Rich(asked, answered), warning


def keys() -> KeyBindings:
    """Enter takes what is offered, answers what is finished, and else starts a line."""
    bound = KeyBindings()

    @bound.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    @bound.add("escape", "enter")
    def end(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not finished(buffer.text) and finished(f"{buffer.text};"):
            buffer.cursor_position = len(buffer.text)
            buffer.insert_text(";")
        if finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    return bound
