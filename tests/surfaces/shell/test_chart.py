"""Charts in text: a bar ends at its value, and its error bar at the ends of the interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.errors import UsageError
from dpsql.release import Release
from dpsql.surfaces.shell.chart import Scale, chart_lines
from dpsql.surfaces.terminal import cells

Make = Callable[..., Release]


def bars(release: Release, **options: Any) -> list[str]:
    return list(chart_lines(release, **options))


def test_bars_are_as_long_as_their_values(release: Make) -> None:
    made = release(rows=(("a", 100), ("b", 50), ("c", 0)), half=(None, 10.0))
    a, b, c, foot = bars(made, width=80)
    room = a.index("┤") + 1 - 2  # the widest: 110 rows
    for line, value in ((a, 100), (b, 50), (c, 0)):
        for sign, at in (("├", value - 10), ("┼", value), ("┤", value + 10)):
            low = -10
            assert abs(line.index(sign) - 2 - (at - low) / (110 - low) * room) <= 1, (line, sign)
    assert a.endswith(" 100 ± 10") and foot == "n · 95 % intervals"
    assert "█" not in c and a.count("█") > b.count("█") > 10


def test_a_chart_fits_its_width_in_any_signs(release: Make) -> None:
    made = release(rows=(("日本 and a long name", 12345), ("b", -3), (None, 7)))
    for width in (20, 40, 79, 200):
        assert max(map(cells, bars(made, width=width))) <= width
        plain = bars(made, width=width, drawn=False)
        assert max(map(cells, plain)) <= width
        assert "".join(plain).replace("日", "").replace("本", "").isascii()
    assert any("NULL" in line for line in bars(made, width=80))


def test_what_has_no_number_or_no_end_is_drawn_as_such(release: Make) -> None:
    made = release(
        types=("VARCHAR", "DOUBLE"),
        rows=(("a", None), ("b", 5.0)),
        low=((None, None), (None, -math.inf)),
        high=((None, None), (None, math.inf)),
    )
    a, b, _ = bars(made, width=80)
    assert a.split() == ["a", "NULL"]
    assert not set("├┤") & set(b) and "┼" in b and "[-infinity, infinity]" in b


def test_one_row_has_a_bar_for_each_column(release: Make) -> None:
    made = release(columns=("x", "y"), types=("BIGINT",) * 2, rows=((10, 20),), half=(1.0, 2.0))
    x, y, foot = bars(made, width=60)
    assert x.startswith("x █") and y.startswith("y █") and foot == "95 % intervals"
    assert bars(made, column="Y", width=60)[0].startswith("y █")


def test_nothing_to_draw_is_said(release: Make) -> None:
    with pytest.raises(UsageError, match="no noisy values"):
        bars(release(half=(None, None)))
    with pytest.raises(UsageError, match="no noisy values"):
        bars(release(rows=()))
    with pytest.raises(UsageError, match=r"no noisy column 'sex'.*: n"):
        bars(release(), column="sex")


def test_a_scale_of_nothing_is_no_division_by_zero() -> None:
    scale = Scale.of([(0, 0.0, 0.0), (None, None, None)], 10)
    assert scale.at(0.0) == 0 and scale.at(9.0) == 9 and scale.at(-9.0) == 0
