"""The owner's page: what was granted and spent, by whom, and what is about to run dry.

It is made of the ledger alone: nothing of the data is on it.
"""

from __future__ import annotations

from dpsql.accounting import clock
from dpsql.accounting.events import PICO
from dpsql.surfaces.figures import figure, percent
from dpsql.surfaces.html.books import LOW, SOON, Books, Holding
from dpsql.surfaces.html.markup import Content, Html, el
from dpsql.surfaces.html.page import counted, made_by, page, section, tiles, whole
from dpsql.surfaces.html.spending import by_mechanism, by_user, newest, over_time
from dpsql.surfaces.html.tables import boxed, grid
from dpsql.surfaces.html.tally import DAYS, moment
from dpsql.surfaces.purses import budget


def of_books(books: Books, name: str) -> Html:
    """The page; `name` is what it calls the data."""
    title = f"Privacy budgets of {name}"
    header = [el("h1", title), _tiles(books)]
    main = [
        _dry(books), _purses(books), _caps(books), over_time(books), by_user(books),
        by_mechanism(books), newest(books), _reading(),
    ]  # fmt: skip
    return page(title, header, main, made_by(moment(books.now), ", of the ledger alone"), wide=True)


def _tiles(books: Books) -> Html:
    asked = sum(sums.charges for sums in books.tally.datasets.values())
    low = sum(holding.low for holding in (*books.purses, *books.caps))
    lately = f"{sum(p.took.charges for (_, h), p in books.tally.purses.items() if not h):,}"
    return tiles(
        [
            ("Purses", f"{len(books.purses):,}", f"on {counted(len(books.caps), 'dataset')}"),
            ("Charges", f"{asked:,}", f"{lately} in the last {DAYS} days"),
            ("About to run dry", f"{low:,}", "purses and caps"),
        ]
    )


# -- purses ------------------------------------------------------------------------------------


def _dry(books: Books) -> Html:
    title, name = "About to run dry", "dry"
    found = sorted(
        (holding for holding in (*books.caps, *books.purses) if holding.low),
        key=lambda holding: (holding.days if holding.days is not None else 1e9, holding.part),
    )
    if not found:
        return section(title, name, el(
            "p", f"Nothing: every purse has {percent(LOW)} or more left, and at the rate of the"
            f" last {DAYS} days lasts for two weeks or longer.",
        ))  # fmt: skip
    rows: list[list[Content]] = [
        [h.holder, h.balance.grant.dataset, _left(h), _lasts(h), _rate(h)] for h in found
    ]
    names = ("purse", "dataset", "left", "lasts", "paid a day")
    said = (
        f"Less than {percent(LOW)} left, or less than two weeks at the rate of the last {DAYS}"
        " days (of a newer purse: since its first charge, over a week at least). The rate is what"
        " was paid, not what will be."
    )
    table = grid("Purses and caps, the nearest first", names, rows, (False,) * 4 + (True,))
    return section(title, name, el("p", said), boxed(table, title))


def _purses(books: Books) -> Html:
    title, name = "Purses", "purses"
    if not books.purses:
        return section(title, name, el("p", "Nobody has a grant."))
    rows: list[list[Content]] = []
    for holding in books.purses:
        purse, grant = budget(holding.balance), holding.balance.grant
        members = f"a group: {', '.join(holding.members)}" if holding.members else ""
        who = [grant.user, el("br"), el("span", members, class_="soft")] if members else grant.user
        until = clock.last_day(grant.until) if grant.until else "no end"
        rows.append([
            who, grant.dataset, _granted(holding), figure(purse.spent.epsilon), _left(holding),
            _lasts(holding), whole(until),
        ])  # fmt: skip
    names = ("user", "dataset", "granted", "spent", "left", "lasts", "until")
    right = (False, False, True, True, False, False, False)
    said = (
        "ε at the δ of each grant. What is left counts what groups and the cap of the dataset"
        " leave, too."
    )
    return section(title, name, boxed(grid(said, names, rows, right), title))


def _caps(books: Books) -> Html | None:
    if not books.caps:
        return None
    title, name = "Datasets and their caps", "caps"
    rows: list[list[Content]] = []
    for holding in books.caps:
        spent, dataset = budget(holding.balance).spent, holding.balance.grant.dataset
        users = sum(own.balance.grant.dataset == dataset for own in books.purses)
        charges = books.tally.datasets[dataset].charges
        why = "set by the owner" if holding.balance.fixed else "the largest grant"
        rows.append([
            dataset, f"{users:,}", f"{charges:,}", _granted(holding), whole(why),
            figure(spent.epsilon), _left(holding), _lasts(holding),
        ])  # fmt: skip
    names = (
        "dataset", "purses", "charges", "cap", "why", "spent", "left", "lasts",
    )  # fmt: skip
    right = (False, True, True, True, False, True, False, False)
    said = "What all users of a dataset together may spend, have spent, and have left, in ε"
    return section(title, name, boxed(grid(said, names, rows, right), title))


def _granted(holding: Holding) -> Content:
    grant = holding.balance.grant
    delta = "pure" if grant.pure else f"at δ {grant.delta:g}"
    return [figure(grant.epsilon), " ", el("span", delta, class_="pm")]


def _left(holding: Holding) -> Content:
    """What is left in epsilon, and which part of the grant, in figures and as a bar."""
    if holding.balance.ended:
        return "0"
    left = budget(holding.balance).left.epsilon
    part = min(max(holding.part, 0.0), 1.0)
    bar = el("i", style=f"width:{100 * part:.1f}%")
    kind = "meter low" if holding.part < LOW else "meter"
    share = el(
        "span", percent(holding.part) + ("" if holding.balance.grant.pure else " of ρ"), class_="pm"
    )
    return [
        el("span", f"{figure(left)} ", share, class_="nw"),
        el("span", bar, class_=kind, aria_hidden="true"),
    ]


def _lasts(holding: Holding) -> Html:
    if holding.balance.ended:
        return whole("ended")
    if holding.left <= 0:
        return el("span", "empty", class_="bad nw")
    if holding.days is None:
        return whole("not used of late")
    kind = "bad nw" if holding.days < SOON else "nw"
    return el("span", days_words(holding.days), class_=kind)


def days_words(days: float) -> str:
    """How long something lasts, as roughly as it is known."""
    if days < 1:
        return "less than a day"
    for size, word, most in ((1.0, "day", 60.0), (30.4, "month", 730.0)):
        if days < most:
            return f"about {counted(round(days / size), word)}"
    years = days / 365.25
    return f"about {counted(round(years), 'year')}" if years < 100 else "more than 100 years"


def _rate(holding: Holding) -> str:
    sign = "ε" if holding.balance.grant.pure else "ρ"
    return f"{sign} {figure(holding.rate / PICO)}" if holding.rate else "nothing"


def _reading() -> Html:
    return section(
        "How to read this page",
        "reading",
        el(
            "p",
            "ε at δ says how much all answers together may tell about any one person (or row: what"
            " the schema protects); the smaller, the less. Prices add up in ρ, from which ε is"
            " computed, so shares are shares of ρ, and half of ρ is more than half of ε. A pure"
            " grant, of δ 0, adds ε itself. The cap is what all users of a dataset hold if they put"
            " their answers together.",
        ),
        el(
            "p",
            "Days are what is left, divided by what was paid a day lately. When there is less than"
            " a statement costs, it is refused, and nothing more is told.",
        ),
    )
