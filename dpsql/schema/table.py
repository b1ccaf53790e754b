"""A table of a TOML file, read key by key; it collects what is wrong and goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsql.schema.faults import Fault, name_of


@dataclass(frozen=True, slots=True)
class Table:
    """The fields of a table, the path to it, and the faults found so far in the whole file."""

    fields: Mapping[str, Any]
    path: tuple[str, ...]
    faults: list[Fault]

    def fault(self, key: tuple[str, ...], found: str, fix: str) -> None:
        """Note one fault of a key of this table."""
        self.faults.append(Fault((*self.path, *key), found, fix))

    def add(self, faults: Iterable[Fault]) -> None:
        """Note faults whose paths start at this table."""
        for fault in faults:
            self.fault(fault.path, fault.found, fault.fix)

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Note every key that is not among the known ones, with the one that it resembles."""
        for key in self.fields:
            if key not in known:
                like = nearest_word(key, known)
                fix = f"did you mean {like}? " if like else "remove it: "
                self.fault((key,), f"unknown key {key!r}", f"{fix}known are {', '.join(known)}")

    def text(
        self, key: str, *, required: str | None = None, one_of: Sequence[str] = ()
    ) -> str | None:
        """A text, or None when it is missing or wrong; `required` says what to add."""
        value = self._value(key, required)
        if isinstance(value, str) and (not one_of or value in one_of):
            return value
        if one_of and value is not None:
            like = nearest_word(value, one_of) if isinstance(value, str) else None
            fix = f"did you mean {like!r}? " if like else ""
            listed = ", ".join(f'"{option}"' for option in one_of)
            self.fault((key,), f"{key} is {value!r}", f"{fix}one of {listed}")
        elif value is not None:
            self.fault((key,), f"{key} is {name_of(value)}", "write text in quotes")
        return None

    def flag(self, key: str) -> bool:
        """A boolean, False when it is missing or wrong."""
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            self.fault((key,), f"{key} is {name_of(value)}", "write true or false, without quotes")
            return False
        return value

    def integer(self, key: str, *, required: str) -> int | None:
        """An integer, or None when it is missing or wrong."""
        value = self._value(key, required)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if value is not None:
            self.fault((key,), f"{key} is {name_of(value)}", "write an integer")
        return None

    def table(self, key: str) -> Table:
        """The table under a key; an empty one when it is missing or wrong."""
        value = self.fields.get(key, {})
        if not isinstance(value, dict):
            self.fault((key,), f"{key} is {name_of(value)}", f"write a section [{key}]")
            value = {}
        return Table(value, (*self.path, key), self.faults)

    def _value(self, key: str, required: str | None) -> Any:
        if required is not None and key not in self.fields:
            self.fault((key,), f"there is no {key}", f"add {required}")
        return self.fields.get(key)


def nearest_word(word: str, known: Sequence[str]) -> str | None:
    """The known word that a mistyped one resembles, if any does."""
    from difflib import get_close_matches

    close = get_close_matches(word.casefold(), known, 1)
    return close[0] if close else None
