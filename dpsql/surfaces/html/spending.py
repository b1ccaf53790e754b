"""What was spent, on the owner's page: over time, by user and mechanism, and the newest charges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.accounting.events import PICO
from dpsql.accounting.purse import Entry
from dpsql.surfaces.figures import figure, percent
from dpsql.surfaces.html.bars import bars
from dpsql.surfaces.html.books import Books, Holding
from dpsql.surfaces.html.lines import Line, lines
from dpsql.surfaces.html.markup import Content, Html, el
from dpsql.surfaces.html.page import counted, section, whole
from dpsql.surfaces.html.plot import Mark
from dpsql.surfaces.html.scale import dates, seconds
from dpsql.surfaces.html.tables import boxed, grid
from dpsql.surfaces.html.tally import Took, mechanism, moment, took

_POINTS = 300  # of a curve
_BARS = 20
_STATEMENT = 300  # characters of a statement


def over_time(books: Books) -> Html | None:
    """Spending over time, a picture for each dataset."""
    made = [
        made
        for at, holding in enumerate(books.caps)
        if (made := _curve(books, holding, f"t{at}")) is not None
    ]
    if not made:
        return None
    return section("Spending over time", "time", el("div", made, class_="charts two"))


def _curve(books: Books, holding: Holding, name: str) -> Html | None:
    """What was spent of a cap, after each charge, in percent of what it is now."""
    grant = holding.balance.grant
    curve = books.tally.curves.get(grant.dataset)
    if not curve:
        return None
    whole = grant.epsilon_pico if grant.pure else grant.rho
    every = max(1, -(-len(curve) // _POINTS))
    kept = [*curve[:-1:every], curve[-1]]
    points = [
        (
            seconds(moment(at)),
            100 * ((price.epsilon or 0) if grant.pure else price.rho) / whole,
        )
        for at, price in kept
    ]
    end = seconds(moment(books.tally.latest))
    points = [(points[0][0], 0.0), *points, (max(end, points[-1][0]), points[-1][1])]
    line = Line(grant.dataset, tuple((x, Mark(y)) for x, y in points), step=True)
    title = f"Spent of the cap of {grant.dataset}, in percent"
    limit = 100.0 if points[-1][1] > 40 else None
    picture = lines(
        [line], dates(points[0][0], points[-1][0], 6), name=name, title=title,
        description=f"From {_day(curve[0][0])} to {_day(books.tally.latest)}:"
        f" {points[-1][1]:.1f} % of ε {figure(grant.epsilon)} is spent, by"
        f" {counted(books.tally.datasets[grant.dataset].charges, 'charge')}.",
        limit=limit, limit_words="the cap",
    )  # fmt: skip
    return el("figure", el("figcaption", title), el("div", picture, class_="draw"))


def by_user(books: Books) -> Html | None:
    """Which users took how much."""
    return _shares(
        books, books.tally.users, "By user", "users", "user",
        "By how much each user's questions raised what all users of the dataset together have"
        " spent. What others had paid for already raised nothing.",
    )  # fmt: skip


def by_mechanism(books: Books) -> Html | None:
    """Which mechanisms took how much."""
    return _shares(
        books, books.tally.mechanisms, "By mechanism", "mechanisms", "answered by",
        "The same by how the answers were made.",
    )  # fmt: skip


def _shares(
    books: Books, sums: Mapping[tuple[str, str], Took], title: str, name: str, what: str, said: str
) -> Html | None:
    """A table, and bars for each dataset, of parts of its cap."""
    if not sums:
        return None
    caps = {holding.balance.grant.dataset: holding.balance.grant for holding in books.caps}
    rows: list[list[Content]] = []
    listed: dict[str, list[tuple[str, float]]] = {}
    for (dataset, key), found in sorted(
        sums.items(), key=lambda item: (item[0][0], -item[1].rho, item[0][1])
    ):
        cap = caps.get(dataset)
        part = None
        if cap is not None:
            part = found.pico(cap.pure) / (cap.epsilon_pico if cap.pure else cap.rho)
            listed.setdefault(dataset, []).append((key, 100 * part))
        rows.append([
            key, dataset, f"{found.charges:,}", "" if part is None else percent(part),
            figure(found.rho / PICO), whole(_day(found.last)),
        ])  # fmt: skip
    names = (what, "dataset", "charges", "of the cap", "ρ", "last asked")
    right = (False, False, True, True, True, False)
    pictures = [
        _bars(dataset, values[:_BARS], f"{name[0]}{at}", title)
        for at, (dataset, values) in enumerate(listed.items())
        if len(values) > 1
    ]
    return section(
        title,
        name,
        el("p", said),
        el("div", pictures, class_="charts two") if pictures else None,
        boxed(grid(f"{title}, the most first", names, rows, right), title),
    )


def _bars(dataset: str, values: Sequence[tuple[str, float]], name: str, title: str) -> Html:
    heading = f"{title} of {dataset}, in percent of its cap"
    spoken = "; ".join(f"{key} {value:.1f} %" for key, value in values[:12])
    picture = bars(
        [key for key, _ in values], [Mark(value) for _, value in values],
        name=name, title=heading, description=f"Bars: {spoken}.",
    )  # fmt: skip
    return el("figure", el("figcaption", heading), el("div", picture, class_="draw"))


def newest(books: Books) -> Html | None:
    """The newest charges and their statements."""
    if not books.tally.recent:
        return None
    rows = [_statement(entry) for entry in reversed(books.tally.recent)]
    names = ("when (UTC)", "user", "dataset", "answered by", "ρ taken", "statement")
    right = (False, False, False, False, True, False)
    title = "Newest charges"
    said = "The newest first; ρ is by how much the cap's sum rose"
    return section(title, "recent", boxed(grid(said, names, rows, right), title))


def _statement(entry: Entry) -> list[Content]:
    words = " ".join(entry.statement.split())
    if len(words) > _STATEMENT:
        words = words[:_STATEMENT] + "…"
    when = whole(entry.at[:16].replace("T", " "))
    taken = figure(took(entry).rho / PICO)
    said = el("code", words, class_="sql") if words else ""
    return [when, entry.user, entry.dataset, whole(mechanism(entry)), taken, said]


def _day(at: str) -> str:
    return at[:10]
