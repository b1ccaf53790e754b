"""A number on the command line, which is not taken for 0 because it is too small."""

from __future__ import annotations

from typing import Any

import click


class Number(click.ParamType[Any]):
    """A float, as click's own, but for what is written as more than 0 and would be read as 0."""

    name = "float"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = click.FLOAT.convert(value, param, ctx)
        digits = str(value).lower().partition("e")[0]
        if found == 0 and any(digit.isdecimal() and int(digit) for digit in digits):
            self.fail(f"{value} is too small to be told from 0: write 0 if you mean 0", param, ctx)
        return found


NUMBER = Number()
