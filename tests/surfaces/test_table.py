"""Tables fit the terminal and never cut a number."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth

from dpsql.surfaces.table import table
from dpsql.surfaces.terminal import visible, visible_json

TEXT = st.text(max_size=30).map(visible)
SIGNS = st.text(st.sampled_from("ab ±·ερδσ√…≈█░→"), max_size=9)


def drawn(*arguments: object, **options: object) -> str:
    return "\n".join(table(*arguments, **options))


def test_a_table_is_drawn_in_boxes() -> None:
    rows = [["Female", "10,771 ± 47"], ["Male", "21,790 ± 47"]]
    assert drawn(("sex", "n"), rows, (False, True)) == (
        "┌────────┬─────────────┐\n"
        "│ sex    │           n │\n"
        "├────────┼─────────────┤\n"
        "│ Female │ 10,771 ± 47 │\n"
        "│ Male   │ 21,790 ± 47 │\n"
        "└────────┴─────────────┘"
    )


def test_a_table_without_box_drawing_is_ascii() -> None:
    assert drawn(("a",), [["x"]], (False,), drawn=False) == ("+---+\n| a |\n+---+\n| x |\n+---+")


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(SIGNS, SIGNS), max_size=4), st.none() | st.integers(20, 60))
def test_signs_that_are_spelt_in_ascii_keep_the_columns_straight(
    rows: list[tuple[str, str]], width: int | None
) -> None:
    lines = list(table(("ε", "n ±"), rows, (False, True), width=width, drawn=False))
    assert all(line.isascii() for line in lines)
    assert lines[0][:1] != "+" or len({len(line) for line in lines}) == 1


def test_what_is_whole_is_never_cut() -> None:
    row = ["2026-11-28 10:00:00", "x" * 60]
    kept = drawn(("when", "statement"), [row], (False, False), width=40, whole=(True, False))
    assert row[0] in kept and "…" in kept
    records = drawn(("when", "statement"), [row], (False, False), width=25, whole=(True, False))
    assert "─ row 1" in records and all(text in records for text in row)


def test_wide_characters_keep_the_columns_straight() -> None:
    lines = drawn(("名前", "n"), [["日本語", "1"], ["e\u0301", "2"]], (False, True)).splitlines()
    assert {wcswidth(line) for line in lines} == {wcswidth(lines[0])}


def test_a_long_text_is_cut_and_a_number_is_not() -> None:
    lines = drawn(
        ("name", "n"), [["x" * 90, "1,234,567 ± 890"]], (False, True), width=40
    ).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert "1,234,567 ± 890" in lines[3] and "…" in lines[3]


def test_numbers_that_do_not_fit_become_records() -> None:
    lines = drawn(
        ("aa", "bbb", "c"), [["1" * 15, "2" * 15, "3" * 15]], (True, True, True), width=40
    ).splitlines()
    assert lines[0] == "─ row 1 " + "─" * 32
    assert lines[1:] == ["aa   " + "1" * 15, "bbb  " + "2" * 15, "c    " + "3" * 15]


def test_an_empty_table_shows_its_columns() -> None:
    assert "│ sex │ n │" in drawn(("sex", "n"), [], (False, True))
    assert drawn(("a" * 20, "b" * 30), [], (True, True), width=40).endswith("(no rows)")


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=5), st.integers(40, 120))
def test_every_line_fits_the_terminal(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = list(table(("a", "b", "c"), rows, (False, False, False), width=width))
    assert all(max(wcswidth(line), 0) <= width for line in lines)


@pytest.mark.parametrize("text", [
    "\x1b[31mred", "a\nb", "\u202eabc", "\x00", "\u2028", "a\u2066b", "a\u200bb", "a\u200db",
    "\ufeff", "a\xadb", "a\xa0b", "a\u3164b", "\u2800", "\U000e0041", "汉\u200d", "\u200d\u200d",
])  # fmt: skip
def test_control_characters_are_escaped(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable() and "\x1b" not in shown and "\n" not in shown
    assert "\\" in shown and shown.replace("汉", "").isascii()
    read = json.loads(visible_json(json.dumps(text, ensure_ascii=False)))
    assert read == text and visible_json(shown) == shown


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क्\u200dष", "👩\u200d🔬", "é", "日本"])
def test_joiners_that_belong_to_a_script_are_kept(text: str) -> None:
    assert visible(text) == text
