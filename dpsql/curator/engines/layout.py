"""How all declared columns of a dataset are read from its source, and which rows are in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dpsql.curator.engines import quote
from dpsql.curator.engines.encode import Encoding, encode
from dpsql.curator.engines.types import mismatch
from dpsql.errors import SourceError
from dpsql.schema import Dataset

UNIT = "unit"


@dataclass(frozen=True, slots=True)
class Layout:
    """The encodings of the columns, in declared order, and SQL for the id of a unit, if any.

    In what `rows` selects, column i has the code c<i>; the id of a unit is a BLOB, so that equal
    means equal bytes whatever collation the table has.
    """

    encodings: tuple[Encoding, ...]
    unit: str | None

    def codes(self, relation: str) -> str:
        """A SELECT of the codes of every row of the source, NULL where a row is not in the dataset.

        Nothing in it tells the engine to leave out a row or a column.
        """
        fields = [f"{e.complete} AS {code(i)}" for i, e in enumerate(self.encodings)]
        if self.unit is not None:
            fields.append(f"encode(CAST({self.unit} AS VARCHAR)) AS {UNIT}")
        return f"SELECT {', '.join(fields)} FROM {relation}"

    def rows(self, relation: str) -> str:
        """A SELECT of the codes of every row in the dataset, before a unit's rows are bounded."""
        return f"SELECT * FROM ({self.codes(relation)}) WHERE NOT ({self.outside})"

    @property
    def outside(self) -> str:
        """Whether a row of codes is not in the dataset."""
        strict = [
            f"{code(i)} IS NULL"
            for i, encoding in enumerate(self.encodings)
            if not encoding.column.nullable
        ]
        return " OR ".join(strict) or "false"

    def read(self, relation: str) -> str:
        """A statement that reads all declared columns of all rows and tells nothing of them."""
        values = [encoding.value for encoding in self.encodings]
        read = [f"bit_xor(hash({value}))" for value in [*values, *filter(None, [self.unit])]]
        return f"SELECT {', '.join(read)} FROM {relation}"

    @property
    def fields(self) -> str:
        """The definition of a table of codes."""
        return ", ".join(f"{code(i)} {e.width}" for i, e in enumerate(self.encodings))

    @property
    def bytes_per_row(self) -> int:
        """The memory that the codes of one row take."""
        sizes = {"UTINYINT": 1, "USMALLINT": 2, "UINTEGER": 4}
        return sum(sizes[encoding.width] for encoding in self.encodings)


def code(number: int) -> str:
    """The name of the code of a column, by its place in the schema."""
    return f"c{number}"


def layout(dataset: Dataset, types: Mapping[str, str]) -> Layout:
    """How to read a source that has columns of these types.

    Raises SourceError with all columns that are missing or of a type that does not do.
    """
    problems = tuple(faults(dataset, types))
    if problems:
        raise SourceError("\n".join(problems))
    names = Names(types)
    encodings = tuple(
        encode(column, types[name], quote.name(name), number)
        for number, column in enumerate(dataset.columns)
        if (name := names.find(column.table_name)) is not None
    )
    unit = names.unit(dataset)
    return Layout(encodings, None if unit is None else quote.name(unit))


def faults(dataset: Dataset, types: Mapping[str, str]) -> Iterator[str]:
    """What keeps the columns from being read as they are declared; all missing ones at once."""
    names = Names(types)
    missing = [column.name for column in dataset.columns if names.find(column.table_name) is None]
    if missing:
        lacks = f"the table lacks the declared column{'s' * (len(missing) > 1)}"
        them, names_ = ("them", "their names") if len(missing) > 1 else ("it", "its name")
        fix = f'take {them} out of the schema, or give {names_} in the table by source = "..."'
        yield f"{lacks} {', '.join(missing)}: {fix}"
    if dataset.unit.column is not None and names.unit(dataset) is None:
        yield "the table lacks the column that the schema names as its unit: correct unit.column"
    for column in dataset.columns:
        name = names.find(column.table_name)
        if name is not None and (problem := mismatch(column, types[name])):
            yield problem


class Names:
    """The names of a table's columns, found in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._folded = {name.casefold(): name for name in names}
        self._exact = frozenset(self._folded.values())

    def find(self, name: str) -> str | None:
        """The name as the table has it."""
        return name if name in self._exact else self._folded.get(name.casefold())

    def unit(self, dataset: Dataset) -> str | None:
        """The column of the unit's ids: by its name in the table, or else by its declared one."""
        asked = dataset.unit.column
        if asked is None or (found := self.find(asked)) is not None:
            return None if asked is None else found
        same = (c.table_name for c in dataset.columns if c.name.casefold() == asked.casefold())
        return next((self.find(name) for name in same), None)
