"""Pages in a real browser: no overflow at 1280 and 390 pixels, light and dark, and on paper.

With DPSQL_SHOTS=folder the pictures are kept there, to be looked at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.session import Session
from dpsql.surfaces.html.books import read
from dpsql.surfaces.html.budget import of_books
from dpsql.surfaces.html.report import of_releases, of_report
from tests.surfaces.conftest import released
from tests.surfaces.html import browser as chromium

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(chromium.MISSING, reason=chromium.REASON)
PAPER = 674  # pixels of A4 between its margins
# Elements that stick out of the window, but for those in a box that scrolls by itself.
OUT = """
(() => {
  const wide = document.documentElement.clientWidth, found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest(".box") || e.closest("pre") || e.closest(".draw svg svg")) continue;
    const box = e.getBoundingClientRect();
    if (box.right > wide + 0.5 || box.left < -0.5) found.push(e.outerHTML.slice(0, 80));
  }
  return found;
})()
"""
# Labels of one chart that lie on each other.
OVER = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg.plot")) {
    const shown = [...svg.querySelectorAll("text.x, text.y")]
      .filter(e => getComputedStyle(e).display != "none" && !e.hasAttribute("transform"))
      .map(e => [e.textContent, e.getBoundingClientRect()]);
    shown.forEach(([a, p], i) => shown.slice(i + 1).forEach(([b, q]) => {
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > 1 && y > 3) found.push(a + " / " + b);
    }));
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of adults and the owner's page of its ledger."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copy(ROOT / "examples/data/adult.parquet", folder)
    shutil.copy(ROOT / "schemas/adult.toml", folder)
    with dpsql.Ledger.memory() as ledger:
        ledger.grant("alice", dataset="adult", epsilon=2)
        ledger.grant("a-user-with-a-very-long-name@department.example", dataset="adult", epsilon=1)
        with Session(folder / "adult.parquet", user="alice", ledger=ledger) as session:
            report = session.report(ROOT / "examples/page.sql")
            session.answer("SELECT COUNT(*) FROM adult", epsilon=1.8)
        (folder / "report.html").write_text(of_report(report), encoding="utf-8")
        (folder / "budget.html").write_text(of_books(read(ledger, None), "adult"), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in ("report", "budget")}


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    place = Path(os.environ.get("DPSQL_SHOTS") or tmp_path)
    place.mkdir(parents=True, exist_ok=True)
    return place


# Where the marks of a scale, its bars and its error bars are drawn, in pixels.
DRAWN = """
(() => {
  const svg = document.querySelector("svg.plot");
  const ends = what => [...svg.querySelectorAll(what)]
    .map(e => e.getBoundingClientRect()).map(box => [box.left, box.right]);
  const marks = [...svg.querySelectorAll("text.x")].map(e => e.textContent.replace(",", ""));
  return {marks, lines: ends("line.g, line.z"), bars: ends("rect.b"), errors: ends("line.e")};
})()
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_bars_and_error_bars_end_at_their_pixels(
    browser: chromium.Browser, tmp_path: Path, width: int
) -> None:
    values = (100, -50, 1_000, 0, 3)
    rows = tuple((f"k{value}", value) for value in values)
    place = tmp_path / "bars.html"
    place.write_text(of_releases([released(rows=rows)]), encoding="utf-8")
    browser.open(place, width)
    drawn = browser.value(DRAWN)
    (first, left), (last, right) = (
        (float(drawn["marks"][at]), drawn["lines"][at][0]) for at in (0, -1)
    )

    def pixel(value: float) -> float:
        return left + (value - first) / (last - first) * (right - left)

    assert right - left > 0.4 * width
    for value, bar, error in zip(values, drawn["bars"], drawn["errors"][::3], strict=True):
        assert bar == pytest.approx(sorted((pixel(0), pixel(value))), abs=1)
        assert error == pytest.approx((pixel(value - 47), pixel(value + 47)), abs=1.5)


@pytest.mark.parametrize(
    "labels",
    [
        ["WN", "MQ"], ["WWWWWWWWWW", "mmmmmmmmmm"], ["東京都千代田区", "a"],
        ["0123456789" * 4, "b"], ["a label of many words, too long to be shown", "Éé"],
    ],
)  # fmt: skip
def test_labels_have_room(browser: chromium.Browser, tmp_path: Path, labels: list[str]) -> None:
    """What sticks out of a chart is not seen: it scrolls by itself."""
    rows = tuple((label, 10) for label in labels)
    place = tmp_path / "labels.html"
    place.write_text(of_releases([released(rows=rows)]), encoding="utf-8")
    browser.open(place, 390)
    edge, lefts = browser.value("""[
        document.querySelector(".draw").getBoundingClientRect().left,
        [...document.querySelectorAll("text.y")].map(e => e.getBoundingClientRect().left)]""")
    assert edge <= min(lefts) < edge + 60


@pytest.mark.parametrize("name", ["report", "budget"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_of_the_window(
    browser: chromium.Browser,
    pages: dict[str, Path],
    shots: Path,
    name: str,
    width: int,
    dark: bool,
) -> None:
    browser.open(pages[name], width, dark=dark)
    for element in ("document.documentElement", "document.body"):
        assert browser.value(f"{element}.scrollWidth") <= width
    assert browser.value(OUT) == []
    assert browser.value(OVER) == []
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
    picture = shots / f"{name}-{width}-{'dark' if dark else 'light'}.png"
    browser.picture(picture)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and picture.stat().st_size > 20_000


@pytest.mark.parametrize("name", ["report", "budget"])
def test_a_page_prints_whole_and_dark_on_light(
    browser: chromium.Browser, pages: dict[str, Path], shots: Path, name: str
) -> None:
    browser.open(pages[name], PAPER, dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print",
                 features=[{"name": "prefers-color-scheme", "value": "dark"}])  # fmt: skip
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value(
        "[...document.querySelectorAll('.box')].every(e => e.scrollHeight <= e.clientHeight + 1)"
    ), "a table is cut on paper"
    assert browser.value("document.documentElement.scrollWidth") <= PAPER
    browser.paper(shots / f"{name}.pdf")
    assert (shots / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_error_bars_are_drawn_over_bars(browser: chromium.Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["report"], 1280)
    sizes = browser.value(
        "[...document.querySelectorAll('line.e')].map(e => e.getBoundingClientRect())"
        ".map(b => Math.max(b.width, b.height))"
    )
    assert len(sizes) > 20 and sum(size > 1 for size in sizes) > len(sizes) * 0.9


def test_a_page_has_no_errors_of_its_policy(
    browser: chromium.Browser, pages: dict[str, Path]
) -> None:
    browser.call("Log.enable")
    browser.open(pages["report"], 1280)
    assert browser.value("document.styleSheets.length") == 1
    assert browser.value("performance.getEntriesByType('resource').length") == 0
