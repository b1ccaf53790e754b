"""What a notebook shows: a table with intervals, a chart of it, the price; safe in any page."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from IPython.core.formatters import DisplayFormatter

import dpsql
from dpsql.release import Budget, Cost, Plan, Release, ScriptPlan
from dpsql.surfaces import dbapi, notebook
from dpsql.surfaces.html.plot import breadth

Make = Callable[..., Release]
DESCRIBED = ("</script>", "<b>&amp;", "\"quoted\" 'too'", "$a$ and $b$", "\u202eabc", "x" * 400)


def tree(value: Any) -> ElementTree.Element:
    """The page, which has to be well-formed XML, too."""
    return ElementTree.fromstring(value._repr_html_())


def texts(root: ElementTree.Element, path: str) -> list[str]:
    return ["".join(found.itertext()) for found in root.findall(path)]


def test_a_table_has_the_values_with_their_intervals_and_says_what_heads_what(
    release: Make,
) -> None:
    root = tree(release(notes=("a note",)))
    assert texts(root, "./table/thead/tr/th[@scope='col']") == ["sex", "n"]
    assert texts(root, "./table/tbody/tr/th[@scope='row']") == ["Female", "Male"]
    assert texts(root, "./table/tbody/tr/td") == ["10,771 ± 47", "21,790 ± 47"]
    below = texts(root, "./p")
    assert "price ε 0.171 alone, 1.0 % of the grant" in below[0] and "ε left 1.95" in below[0]
    assert below[1] == "note: a note"


def drawn(root: ElementTree.Element) -> list[tuple[float, float, float, float, float]]:
    """Of each bar its left and right, of its interval the ends, and where 0 is, in pixels."""
    [zero] = [p for p in root.findall("./svg/path") if p.get("opacity") == ".6"]
    at = float(re.findall(r"[\d.]+", zero.get("d", ""))[0])
    found = []
    whiskers = [p for p in root.findall("./svg/path") if p.get("fill") == "none"]
    for bar, whisker in zip(root.findall("./svg/rect"), whiskers, strict=True):
        left, width = float(bar.get("x", "")), float(bar.get("width", ""))
        low, high = re.match(r"M([\d.]+) \d+H([\d.]+)", whisker.get("d", "")).groups()
        found.append((left, left + width, float(low), float(high), at))
    return found


@pytest.mark.parametrize(
    ("values", "half"),
    [((10, 20, 5), 3.0), ((-4, 8, 0), 2.0), ((-1e9, -5e8, -1), 1e8), ((0.02, 0.05, 0.9), 0.01)],
)
def test_bars_and_their_errors_are_to_scale(
    release: Make, values: tuple[float, ...], half: float
) -> None:
    made = release(
        types=("VARCHAR", "DOUBLE"),
        rows=tuple((f"k{i}", value) for i, value in enumerate(values)),
        half=(None, half),
    )
    bars = drawn(tree(made))
    longest = max(range(len(values)), key=lambda i: abs(values[i]))
    scale = (bars[longest][1] - bars[longest][0]) / abs(values[longest])  # pixels of one
    assert scale > 0
    for (left, right, low, high, zero), value in zip(bars, values, strict=True):
        tip = right if value > 0 else left
        assert tip - zero == pytest.approx(value * scale, abs=0.3)
        assert (low - zero, high - zero) == pytest.approx(
            ((value - half) * scale, (value + half) * scale), abs=0.3
        )
        assert 160 < low <= high < 560, "nothing leaves the chart"


def test_an_interval_without_an_end_has_no_stroke_there(release: Make) -> None:
    made = release(low=((None, -math.inf), (None, 21000.0)), high=((None, 11000.0), (None, None)))
    found = [p.get("d", "") for p in tree(made).findall("./svg/path") if p.get("fill") == "none"]
    assert len(found) == 1 and found[0].count("v8") == 1, "one whisker, with one stroke"


def test_what_cannot_be_compared_has_no_chart(release: Make) -> None:
    one = release(rows=(("Female", 1),))
    many = release(rows=tuple((str(i), i) for i in range(41)))
    empty = release(rows=(("f", None), ("m", None)))
    free = release(price=None, charged=None, left=None, half=(None, None))
    for made in (one, many, empty, free):
        assert tree(made).find("./svg") is None
    assert tree(release(rows=tuple((str(i), i) for i in range(40)))).find("./svg") is not None
    mixed = tree(release(rows=(("f", None), ("m", 3))))
    assert len(mixed.findall("./svg/rect")) == 1, "NULL has a label and no bar"


def test_a_long_answer_is_cut_and_says_so(release: Make) -> None:
    made = release(rows=tuple((str(i), i) for i in range(1000)), notes=("a note",))
    root = tree(made)
    assert len(root.findall("./table/tbody/tr")) == 60
    assert texts(root, "./p/small") == ["note: 940 more rows are in .rows", "note: a note"]
    words = dpsql.text(made).splitlines()
    assert len(words) == 60 + 4 + 3 and words[-2] == "note: 940 more rows are in .rows"


@pytest.mark.parametrize("text", DESCRIBED)
def test_no_text_is_markup_or_a_formula(release: Make, text: str) -> None:
    made = release(columns=(text, text + "n"), rows=((text, 1), ("b", 2)), notes=(text,))
    root = tree(made)
    assert {element.tag for element in root.iter()} <= {
        *("div", "table", "thead", "tbody", "tr", "th", "td", "svg", "title", "path", "text"),
        *("rect", "p", "small"),
    }
    assert "ignore" in root.get("class", ""), "MathJax leaves dollars alone"
    shown = "".join(root.itertext())
    assert ("\\u202e" in shown and "\u202e" not in shown) if "\u202e" in text else text in shown


def test_colours_suit_light_and_dark(release: Make) -> None:
    """Contrast by WCAG: graphics need 3 to 1; all else has the colour of the text around it."""
    page = release()._repr_html_()
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', page)) == {
        "currentColor",
        "none",
        notebook._BAR,
    }

    def luminance(colour: tuple[float, ...]) -> float:
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    bar = tuple(int(notebook._BAR[at : at + 2], 16) / 255 for at in (1, 3, 5))
    for ground in (1.0, 17 / 255):  # white, and the ground of dark notebooks
        lighter, darker = sorted((luminance(bar), luminance((ground,) * 3)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_ipython_asks_and_is_told(release: Make) -> None:
    shown, _ = DisplayFormatter().format(release())
    assert shown["text/plain"].startswith("┌") and "10,771 ± 47" in shown["text/plain"]
    assert shown["text/html"] == release()._repr_html_()


def test_print_shows_what_a_terminal_would(release: Make) -> None:
    price = Cost(0.1, 1.0, 1e-6)
    for value in (release(), Budget(price, price, price, "ann", "town")):
        assert str(value) == notebook.text(value) != repr(value)
    assert "10,771 ± 47" in str(release()) and repr(release()).startswith("Release(columns=")


def test_plans_and_purses_are_shown_as_on_a_terminal() -> None:
    price = Cost(0.1, 1.0, 1e-6)
    left = Budget(price, price, price, "ann", "<town>")
    plan = Plan(("n",), ("BIGINT",), ((None,),), ((3.0,),), "gaussian", price, (), 1.0, True, 4, 1,
                left, dataset="<town>")  # fmt: skip
    script = ScriptPlan((plan,), ("<how many>",), "gaussian", price, price, left, left)
    for value, words in (
        (left, "ann on <town>"),
        (plan, "plan for <town>: gaussian"),
        (script, "1. <how many>"),
    ):
        root = tree(value)
        assert root.tag == "pre" and words in (root.text or "")
        assert value._repr_mimebundle_()["text/plain"].startswith(words)


def test_a_cursor_is_shown_as_its_answer(release: Make) -> None:
    class Answers:
        def answer(self, *asked: Any, **settings: Any) -> Release:
            return release()

    cursor = dbapi.Connection(Answers()).cursor()
    assert cursor._repr_html_() is None
    assert cursor.execute("SELECT")._repr_html_() == release()._repr_html_()


def test_ticks_are_round_and_hold_all() -> None:
    for least, most in ((0, 1), (-3, 8), (0, 32561), (-1e-9, 2e-9), (0, 0), (-7, 0), (0, 1e12)):
        ticks = notebook._ticks(least, most)
        assert ticks[0] <= least and ticks[-1] >= most and 2 <= len(ticks) <= 8
        assert any(abs(tick) < 1e-12 * max(1.0, abs(most)) for tick in ticks)


def test_showing_needs_no_ipython(release: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert dpsql.html(release()).startswith("<div") and "Female" in dpsql.text(release())


@pytest.mark.parametrize("label", ["W" * 24, "東京" * 12, "i" * 80, "short"])
def test_a_label_of_a_bar_is_no_broader_than_its_room(release: Make, label: str) -> None:
    found = tree(release(rows=((label, 5), ("b", 6)))).find("./svg/text[@text-anchor='end']")
    assert found is not None and found.text is not None
    assert breadth(found.text) <= notebook._LEFT - 8
    assert found.text == label or found.text.endswith("…")
    assert (found.text == label) is (breadth(label) <= notebook._LEFT - 10)
