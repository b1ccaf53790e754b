"""Finds and loads schema files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from dpsql.errors import Problem, SchemaError, SourceError, UsageError
from dpsql.schema.dataset import Dataset
from dpsql.schema.read import loads

FOLDER: Final = "schemas"

_SINGLE: Final = (".parquet", ".pq", ".csv", ".tsv")
"""A database file of these kinds is one table."""


def require(database: Path) -> None:
    """Raise SourceError for a database that is not there, or is a folder."""
    if database.is_dir():
        found = f"{database} is a folder"
        raise SourceError(f"{found}: name a .duckdb, .parquet or .csv file in it")
    if not database.exists():
        raise SourceError(f"there is no database {database}")


def load(path: str | Path) -> Dataset:
    """The dataset that a file declares. Raises SchemaError with all problems."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"the file is not UTF-8 (byte {error.start})"
        raise SchemaError((Problem(str(path), "", None, found, "save it as UTF-8"),)) from None
    except OSError as error:
        found = f"the file cannot be read: {(error.strerror or 'no reason given').lower()}"
        raise SchemaError((Problem(str(path), "", None, found, ""),)) from None
    return loads(text, str(path), path.absolute().parent)


def find(database: str | Path, schema: Sequence[str | Path] | None = None) -> tuple[Dataset, ...]:
    """The datasets declared for a database.

    `schema` names files and folders of files. Without it: `<stem>.toml` beside the database, else
    the files of `schemas/` beside the database, else those of `schemas/` in the working folder; of
    a folder's files `<stem>.toml` alone, when the database is a single Parquet or CSV file.
    Raises UsageError when there is no file, SchemaError with the problems of all.
    """
    return load_all(declarations(Path(database), schema))


def declarations(database: Path, schema: Sequence[str | Path] | None = None) -> list[Path]:
    """The schema files of a database, as `find` finds them. Raises UsageError if there is none."""
    return _named(schema) if schema else _beside(database)


def load_all(paths: Iterable[Path]) -> tuple[Dataset, ...]:
    """The datasets of several files. Raises SchemaError with the problems of all of them."""
    problems: list[Problem] = []
    found: dict[str, tuple[Dataset, Path]] = {}
    for path in {path.resolve(): path for path in paths}.values():
        try:
            dataset = load(path)
        except SchemaError as error:
            problems.extend(error.problems)
            continue
        other = found.setdefault(dataset.name.casefold(), (dataset, path))[1]
        if other != path:
            fix = "rename one of the datasets, or name one file only"
            taken = f"dataset {dataset.name!r} is declared in {other} already"
            problems.append(Problem(str(path), "dataset", None, taken, fix))
    if problems:
        raise SchemaError(tuple(problems))
    return tuple(dataset for dataset, _ in found.values())


def _named(schema: Sequence[str | Path]) -> list[Path]:
    paths: list[Path] = []
    for name in map(Path, schema):
        if name.is_dir():
            files = _files(name)
            if not files:
                raise UsageError(f"there is no schema in {name}: it holds no .toml file")
            paths.extend(files)
        elif name.is_file():
            paths.append(name)
        else:
            raise UsageError(f"there is no schema {name}: name a .toml file or a folder of them")
    return paths


def _beside(database: Path) -> list[Path]:
    own = database.parent / f"{database.stem}.toml"
    if own.is_file():
        return [own]
    folders = [database.parent / FOLDER, Path(FOLDER)]
    for folder in folders:
        files = _files(folder)
        single = folder / own.name
        if single in files and database.suffix.lower() in _SINGLE:
            return [single]
        if files:
            return files
    looked = ", ".join(str(place) for place in dict.fromkeys([own, *folders]))
    raise UsageError(
        f"there is no schema for {database}: looked for {looked}\n"
        f"write one with: dpsql schema infer {shlex.quote(str(database))}"
        f" -o {shlex.quote(str(own))}, or name one with --schema"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml")) if folder.is_dir() else []
