"""Lines of keys: the shortest prefix of the file that parses and holds the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from dpsql.schema.lines import key_lines, line_of

ROOT = Path(__file__).parents[2]

TEXTS = {
    "everything": (Path(__file__).parent / "bad" / "everything.toml").read_text(),
    "flights": (ROOT / "schemas" / "flights.toml").read_text(),
    "headers": "a.b = 1\n[c.d]\nx = {y = {z = 1}}\n\n#\n[[e]]\nf = 1\n[[e]]\ng = 1\n[c]\nq = 2\n",
    "long": 'a = """\nx = 1\n]\n"""\nb = [\n  "]", # ]\n  {c = 1},\n]\n"d\\ne" = 1\n',
}


def holds(fields: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if isinstance(fields, list):
            fields = next((f for f in fields if key in f), {})
        if not isinstance(fields, dict) or key not in fields:
            return False
        fields = fields[key]
    return True


def shortest(text: str, path: tuple[str, ...]) -> tuple[int, int]:
    """The last line of the longest shorter prefix that parses, and of the one with the key."""
    rows = text.split("\n")
    before = 0
    for count in range(1, len(rows) + 1):
        try:
            fields = tomllib.loads("\n".join(rows[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if holds(fields, path):
            return before, count
        before = count
    raise AssertionError(path)


@pytest.mark.parametrize("name", TEXTS)
def test_a_key_stands_where_the_shortest_prefix_that_holds_it_ends(name: str) -> None:
    lines = key_lines(TEXTS[name])
    assert lines
    for path, line in lines.items():
        before, last = shortest(TEXTS[name], path)
        assert before < line <= last
        assert line == before + 1


def test_every_key_is_found() -> None:
    lines = key_lines(TEXTS["headers"])
    assert lines["c", "d", "x", "y", "z"] == 3
    assert lines["e", "f"] == 7
    assert lines["e", "g"] == 9
    assert lines["c", "q"] == 11


def test_a_missing_key_stands_where_its_table_does() -> None:
    lines = key_lines("[columns]\n\nage = {min = 1}\n")
    assert line_of(("columns", "age", "max"), lines) == 3
    assert line_of(("columns", "sex"), lines) == 1
    assert line_of(("unit",), lines) is None


def test_a_long_file_is_cut_in_good_time() -> None:
    listed = ",\n".join(f'"value {i}"' for i in range(20_000))
    text = "".join(f"k{i} = {i}\n" for i in range(2_000)) + f"long = [\n{listed}\n]\nlast = 1\n"
    assert key_lines(text)["last",] == 22_003
