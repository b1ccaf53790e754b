"""Tables of releases and of figures, each in a box of its own that it may be wider than."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from dpsql.release import Release, Value
from dpsql.surfaces.figures import Style, ceiling, figure, floor, measured, plain
from dpsql.surfaces.html.markup import Content, Html, el, text
from dpsql.surfaces.sheet import costs, numeric

ROWS = 100  # of a table; files of data have them all
_MANY = 7  # columns, beyond which they stand closer
_PAD = "\u2007"  # as wide as a digit


def boxed(table: Html, label: str) -> Html:
    """A table in a box that scrolls, by the keyboard as well."""
    return el("div", table, class_="box", tabindex=0, role="region", aria_label=label)


def grid(
    caption: Content,
    names: Sequence[Content],
    rows: Sequence[Sequence[Content]],
    right: Sequence[bool],
    *,
    foot: Sequence[Content] | None = None,
    heads: Collection[int] = (0,),
) -> Html:
    """A table whose columns `heads` name its rows."""

    def line(cells: Sequence[Content], name: str = "td") -> Html:
        made = []
        for at, cell in enumerate(cells):
            kind = "num" if right[at] else None
            if at in heads or name == "th":
                scope = "col" if name == "th" else "row"
                made.append(el("th", cell, scope=scope, class_=kind))
            else:
                made.append(el("td", cell, class_=kind))
        return el("tr", made)

    return el(
        "table",
        el("caption", el("span", caption)),
        el("thead", line(names, "th")),
        el("tbody", (line(row) for row in rows)),
        None if foot is None else el("tfoot", line(foot)),
        class_="dense" if len(names) > _MANY else None,
    )


def of_release(release: Release, caption: Content, rows: int = ROWS) -> Html:
    """The first rows of an answer, each value with its interval."""
    names: list[Content] = []
    right: list[bool] = []
    made: list[list[Content]] = []
    for index, name in enumerate(release.columns):
        values = [row[index] for row in release.rows[:rows]]
        noisy = bool(release.noisy) and release.noisy[index]
        names.append(name)
        if not noisy:
            right.append(numeric(release.types[index]))
            made.append([_cell(value, _writer(release, index)) for value in values])
            continue
        right.append(True)
        low = [line[index] for line in release.low[:rows]]
        high = [line[index] for line in release.high[:rows]]
        triples = list(zip(values, low, high, strict=True))
        style = Style.of(triples)
        pairs = [measured(*triple, style) for triple in triples]
        if release.intervals:
            names += [f"{name}_low", f"{name}_high"]
            right += [True, True]
            made.append([_error(shown, "", 0) for shown, _ in pairs])
            made.append([None if b is None else floor(b, style.digits) for b in low])
            made.append([None if b is None else ceiling(b, style.digits) for b in high])
        else:
            widest = max((len(error) for _, error in pairs), default=0)
            made.append([_error(*pair, widest) for pair in pairs])
    listed = [list(row) for row in zip(*made, strict=True)]
    return grid(caption, names, listed, right, heads=_keys(release))


def _keys(release: Release) -> Collection[int]:
    """The columns of the table that name a row: keys, where there are values beside them."""
    noisy = release.noisy or (False,) * len(release.columns)
    if not any(noisy):
        return (0,)
    found, at = [], 0
    for is_noisy in noisy:
        if not is_noisy:
            found.append(at)
        at += 3 if is_noisy and release.intervals else 1
    return found


def _writer(release: Release, index: int) -> Callable[[Value], str]:
    """How a plain value is written: costs of a list of ours as commands do."""
    if costs(release, index):
        if release.columns[index] == "delta":
            return lambda value: f"{value:g}"
        return lambda value: figure(value) if isinstance(value, float) else str(value)
    return lambda value: plain(value) or ""


def _cell(value: Value, write: Callable[[Value], str]) -> Content:
    return el("span", "NULL", class_="null") if value is None else write(value)


def _error(value: str, error: str, widest: int) -> Content:
    """A value and its error, so that the signs of a column stand below each other."""
    if value == "NULL":
        return el("span", "NULL", class_="null")
    if error.startswith(" ± "):
        error = f" ± {error[3:].rjust(widest - 3, _PAD)}"
    else:
        error = error.ljust(widest, _PAD)
    return [value, el("span", text(error, keep=_PAD), class_="pm")]
