"""Tables in box drawing, or in ASCII, fitted to a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.surfaces.terminal import cells, cut, spelt

NARROWEST = 8  # columns to which a text column may be cut before rows are written as records


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    *,
    width: int | None = None,
    drawn: bool = True,
    whole: Sequence[bool] | None = None,
) -> Iterator[str]:
    """The lines of a table; `right` says which columns stand to the right (numbers).

    Columns that are not `whole` (by default those of text) are cut to fit `width`. Where the
    others do not fit, each row becomes a record of one line a column. Without box drawing our own
    signs are spelt in ASCII.
    """
    if not drawn:
        columns = [spelt(name) for name in columns]
        rows = [[spelt(text) for text in row] for row in rows]
    widths = [cells(name) for name in columns]
    for row in rows:
        for index, text in enumerate(row):
            if (size := len(text) if text.isascii() else cells(text)) > widths[index]:
                widths[index] = size
    fitted = _fit(widths, right if whole is None else whole, width)
    if fitted is None:
        return _records(columns, rows, width or 80, drawn)
    return _boxes(columns, rows, right, fitted, drawn)


def _fit(widths: list[int], whole: Sequence[bool], width: int | None) -> list[int] | None:
    """Widths whose table fits, the widest columns cut first; None when `whole` ones do not."""
    fitted = list(widths)
    while width is not None and (excess := sum(fitted) + 3 * len(fitted) + 1 - width) > 0:
        wide = [i for i, size in enumerate(fitted) if not whole[i] and size > NARROWEST]
        if not wide:
            return None
        widest = max(wide, key=lambda i: fitted[i])
        others = [fitted[i] for i in wide if fitted[i] < fitted[widest]]
        floor = max([NARROWEST, *others])
        fitted[widest] -= min(excess, max(fitted[widest] - floor, 1))
    return fitted


def _boxes(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    widths: list[int],
    drawn: bool,
) -> Iterator[str]:
    top, middle, bottom = ("┌┬┐", "├┼┤", "└┴┘") if drawn else ("+++", "+++", "+++")
    dash, bar, ellipsis = ("─", "│", "…") if drawn else ("-", "|", "...")

    def rule(corners: str) -> str:
        return corners[0] + corners[1].join(dash * (size + 2) for size in widths) + corners[2]

    def line(texts: Sequence[str]) -> str:
        padded = (
            _pad(text, size, to_right, ellipsis)
            for text, size, to_right in zip(texts, widths, right, strict=True)
        )
        return f"{bar} " + f" {bar} ".join(padded) + f" {bar}"

    yield rule(top)
    yield line(columns)
    yield rule(middle)
    for row in rows:
        yield line(row)
    yield rule(bottom)


def _pad(text: str, size: int, to_right: bool, ellipsis: str) -> str:
    if text.isascii():
        if len(text) > size:
            text = cut(text, size, ellipsis)
        return text.rjust(size) if to_right else text.ljust(size)
    text = cut(text, size, ellipsis)
    space = " " * (size - cells(text))
    return space + text if to_right else text + space


def _records(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, drawn: bool
) -> Iterator[str]:
    dash, ellipsis = ("─", "…") if drawn else ("-", "...")
    names = [cut(name, max(width // 2, NARROWEST), ellipsis) for name in columns]
    longest = max((cells(name) for name in names), default=0)
    for number, row in enumerate(rows, 1):
        title = f"{dash} row {number} "
        yield title + dash * max(width - cells(title), 0)
        for name, text in zip(names, row, strict=True):
            yield f"{name}{' ' * (longest - cells(name))}  {text}"
    if not rows:
        yield from (f"{name}" for name in names)
        yield "(no rows)"
