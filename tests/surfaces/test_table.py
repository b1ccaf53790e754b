"""Tables fit the terminal and never cut a number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth

from dpsql.surfaces.table import table
from dpsql.surfaces.terminal import visible

TEXT = st.text(max_size=30).map(visible)


def drawn(*arguments: object, **options: object) -> str:
    return "\n".join(table(*arguments, **options))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\nb", "\u202eabc", "\x00", "\u2028"])
def test_control_characters_are_escaped(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable() and "\x1b" not in shown and "\n" not in shown
