"""The tables of a report as files: one an answer, in a folder or in a .zip."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import UsageError
from dpsql.surfaces.formats import csv_lines
from dpsql.surfaces.output import text_writer, words_of
from dpsql.surfaces.pages import names

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.session.scripts.report import Report

_OURS = re.compile(r"(\d{2,})(?:-[a-z0-9-]+)?\.(csv|parquet)")


class Folder:
    """A folder to be written, begun beside its place before anything is charged.

    `place` puts the whole folder there, in the place of one that holds nothing but such tables.
    Raises UsageError when something else is there, or the folder above is missing or not writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = Path(os.path.realpath(path))
        if self._real.exists():
            if not self._real.is_dir():
                raise UsageError(
                    f"cannot write {path}: it is a file, and several answers make a folder; remove "
                    "it, or give another name, or one that ends in .zip"
                )
            if other := _foreign(os.listdir(self._real)):
                raise UsageError(
                    f"cannot write {path}: the folder holds {other}, which no report wrote; "
                    "give a new folder"
                )
        try:
            draft = tempfile.mkdtemp(prefix=f".{self._real.name}.", dir=self._real.parent)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {words_of(error)}") from None
        self._draft = Path(draft)

    def place(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill the draft, then move it into place. Raises OSError."""
        write(self._draft)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(self._draft, 0o777 & ~mask)
        if self._real.exists():
            old = self._draft.with_name(self._draft.name + ".old")
            os.replace(self._real, old)
            os.replace(self._draft, self._real)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(self._draft, self._real)

    def discard(self) -> None:
        """Remove the draft if it is still there."""
        shutil.rmtree(self._draft, ignore_errors=True)


def _foreign(listed: Iterable[str]) -> str:
    """A file that no report wrote; nothing where all are tables of one, numbered from 1 on."""
    suffixes = set()
    for number, name in enumerate(sorted(listed), 1):
        found = _OURS.fullmatch(name)
        if found is None or int(found[1]) != number:
            return name
        suffixes.add(found[2])
        if len(suffixes) > 1:
            return name
    return ""


def files(report: Report, form: str) -> Callable[[Path], None]:
    """A writer of one file an answer into a folder that is there."""

    def write(folder: Path) -> None:
        for name, release in zip(names(report, f".{form}"), report.releases, strict=True):
            file(release, form)(folder / name)

    return write


def file(release: Release, form: str) -> Callable[[Path], None]:
    """A writer of one answer as CSV or Parquet."""
    if form == "csv":
        return text_writer(csv_lines(release))

    def write(path: Path) -> None:
        from dpsql.surfaces import frames
        from dpsql.surfaces.sheet import sheet

        frames.parquet(sheet(release), path)

    return write


def zipped(report: Report, form: str) -> Callable[[Path], None]:
    """A writer of a .zip with one file an answer."""

    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.") as folder:
            files(report, form)(Path(folder))
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in sorted(os.listdir(folder)):
                    archive.write(Path(folder) / name, name)

    return write
