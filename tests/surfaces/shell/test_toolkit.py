"""What prompt_toolkit is given: completions of paths and of SQL, and colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from dpsql.surfaces.shell.completion import Vocabulary
from dpsql.surfaces.shell.highlight import STYLES
from dpsql.surfaces.shell.toolkit import Colours, Completions


def completed(known: Vocabulary, text: str) -> list[str]:
    """The text with each of the completions in it."""
    found = Completions(known).get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + one.start_position] + one.text for one in found]


def test_commands_of_files_complete_paths(
    known: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("report.sql", "reports.csv", "other.sql"):
        (tmp_path / name).touch()
    for command in (".read", "\\i", ".output", "\\o", ".log"):
        assert completed(known, f"{command} rep") == [
            f"{command} report.sql", f"{command} reports.csv"
        ]  # fmt: skip
    assert completed(known, ".mode rep") == []


def test_values_take_the_place_of_what_was_typed(known: Vocabulary) -> None:
    where = "SELECT COUNT(*) FROM people WHERE "
    assert completed(known, where + "sex = 'FEM") == [where + "sex = 'female'"]
    assert completed(known, where + "street = 'Rue de l''é") == [
        where + "street = 'Rue de l''Église'"
    ]
    assert completed(known, where + "sex = fem") == [where + "sex = 'female'"]


def test_each_kind_of_part_has_a_colour(known: Vocabulary) -> None:
    text = "SELECT sex, COUNT(*)\nFROM people WHERE age > 1 AND \"x\" = 'a -- b' -- c"
    line = Colours(known).lex_document(Document(text))
    found = {part: style.removeprefix("class:") for n in range(2) for style, part, *_ in line(n)}
    kinds = {
        "SELECT": "sql.keyword", "sex": "sql.known", "COUNT": "sql.function", "FROM": "sql.keyword",
        "people": "sql.known", "1": "sql.number", '"x"': "sql.name", "'a -- b'": "sql.text",
        "-- c": "sql.comment",
    }  # fmt: skip
    assert {part: found[part] for part in kinds} == kinds and set(kinds.values()) < set(STYLES)
    command = Colours(known).lex_document(Document(".explain SELECT 1"))(0)
    assert ("class:sql.command", ".explain") in command and (
        "class:sql.keyword",
        "SELECT",
    ) in command
