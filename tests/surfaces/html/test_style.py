"""Colours can be told apart by people who see little: WCAG 2.2 AA, in both themes."""

from __future__ import annotations

import itertools

import pytest

from dpsql.surfaces.html.style import COLOURS, CSS, HEAT


def luminance(colour: str) -> float:
    """Relative luminance, by WCAG's formula."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)  # the known AA grey


THEMES = pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])


@THEMES
@pytest.mark.parametrize("ground", ["page", "panel"])
@pytest.mark.parametrize("ink", ["ink", "soft", "link", "bad"])
def test_text_stands_out(theme: int, ground: str, ink: str) -> None:
    assert contrast(COLOURS[ink][theme], COLOURS[ground][theme]) >= 4.5


@THEMES
@pytest.mark.parametrize("sign", ["bar", "err", "zero", "bad", "s0", "s1", "s2", "s3", "s4"])
def test_what_is_drawn_stands_out(theme: int, sign: str) -> None:
    assert contrast(COLOURS[sign][theme], COLOURS["page"][theme]) >= 3


@THEMES
def test_an_error_bar_stands_out_from_its_bar(theme: int) -> None:
    assert contrast(COLOURS["err"][theme], COLOURS["bar"][theme]) >= 3


@THEMES
def test_cells_of_a_heat_map_can_be_read_and_grow_steadily(theme: int) -> None:
    cells = HEAT["dark" if theme else "light"]
    assert len(cells) == 7
    for fill, ink in cells:
        assert contrast(fill, ink) >= 4.5
    depth = [contrast(fill, COLOURS["page"][theme]) for fill, _ in cells]
    assert all(after > 1.15 * before for before, after in itertools.pairwise(depth))


def test_every_colour_is_named_in_both_themes() -> None:
    dark = CSS.partition("prefers-color-scheme:dark")[2].partition("}")[0]
    light = CSS.partition("}")[0]
    for name, values in COLOURS.items():
        assert f"--{name}:{values[0]}" in light and f"--{name}:{values[1]}" in dark
    used = {part.split(")")[0] for part in CSS.split("var(--")[1:]} - {"s"}
    assert used <= {*COLOURS, *(f"h{n}" for n in range(7)), *(f"t{n}" for n in range(7))}
    assert "@media print" in CSS
