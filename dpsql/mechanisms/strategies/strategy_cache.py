"""Strategies that were found before, in files of this user's cache folder: public mathematics only.

A file is named by the SHA-256 of what the strategy depends on, and holds arrays without pickle.
What cannot be read is as good as absent. Files are written aside and renamed into place, so a
reader sees a whole one or none; when all together are too large, the oldest go.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.strategies.optimum import Optimum
from dpsql.mechanisms.strategies.querycov import NoiseCovariance

VERSION = 2  # of the files and of how strategies are found; another version reads none of these
LARGEST = 1 << 28  # bytes of all files
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


def folder() -> Path:
    """DPSQL_CACHE, or dpsql in XDG_CACHE_HOME, or in ~/.cache."""
    own = os.environ.get("DPSQL_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "dpsql"


def key(objective: str, **parts: NDArray[Any] | float | str) -> str:
    """The SHA-256 of an objective and what it is about: arrays by type, shape and bytes."""
    digest = hashlib.sha256(f"dpsql strategy {VERSION}\n{objective}\n".encode())
    for name in sorted(parts):
        part = parts[name]
        if isinstance(part, np.ndarray):
            whole = np.ascontiguousarray(part)
            digest.update(f"{name} {whole.dtype.str} {whole.shape}\n".encode())
            digest.update(whole.tobytes())
        else:
            digest.update(f"{name} {part!r}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class StrategyCache:
    """The files of a folder, which is made when the first is written."""

    folder: Path
    largest: int = LARGEST

    def __post_init__(self) -> None:
        if not self.largest > 0:
            raise ValueError("a cache holds something")

    def optimum(self, name: str) -> Optimum | None:
        """The strategy kept by this key, or None."""
        found = self._read(name)
        try:
            return Optimum(
                found["matrix"], float(found["lower"]), float(found["rmse"]), int(found["steps"])
            )
        except _UNREADABLE:
            return None

    def keep_optimum(self, name: str, found: Optimum) -> None:
        """Keep a strategy, if the folder lets."""
        self._write(
            name,
            {
                "matrix": found.matrix,
                "lower": np.float64(found.lower),
                "rmse": np.float64(found.rmse),
                "steps": np.int64(found.iterations),
            },
        )

    def covariance(self, name: str) -> NoiseCovariance | None:
        """The covariance kept by this key, or None."""
        found = self._read(name)
        try:
            return NoiseCovariance(
                found["matrix"],
                found["root"],
                float(found["lower"]),
                float(found["rmse"]),
                float(found["certificate"]),
                int(found["columns"]),
                int(found["rounds"]),
            )
        except _UNREADABLE:
            return None

    def keep_covariance(self, name: str, found: NoiseCovariance) -> None:
        """Keep a covariance, if the folder lets."""
        self._write(
            name,
            {
                "matrix": found.matrix,
                "root": found.root,
                "lower": np.float64(found.lower),
                "rmse": np.float64(found.rmse),
                "certificate": np.float64(found.certificate),
                "columns": np.int64(found.columns),
                "rounds": np.int64(found.rounds),
            },
        )

    def _path(self, name: str) -> Path:
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise ValueError("a strategy is kept by a SHA-256")
        return self.folder / f"{name}.npz"

    def _read(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a file, its digest checked; none where it is not whole."""
        path = self._path(name)
        try:
            raw = path.read_bytes()
            body, digest = raw[:-32], raw[-32:]
            if hashlib.sha256(name.encode() + body).digest() != digest:
                return {}
            with np.load(io.BytesIO(body), allow_pickle=False) as file:
                return {part: file[part] for part in file.files}
        except _UNREADABLE:
            return {}

    def _write(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write a file aside and rename it; a cache that cannot be written is no cache."""
        body = io.BytesIO()
        np.savez(body, **arrays)
        raw = body.getvalue()
        if len(raw) > self.largest:
            return
        path = self._path(name)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._own():
                return
            self.folder.chmod(0o700)
            handle, aside = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(raw + hashlib.sha256(name.encode() + raw).digest())
                os.replace(aside, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(aside)
                raise
            self._bound(path)

    def _own(self) -> bool:
        """Whether the folder is this user's: nobody else's files are to be trusted or removed."""
        return not hasattr(os, "getuid") or self.folder.stat().st_uid == os.getuid()

    def _bound(self, newest: Path) -> None:
        """Remove the oldest files until all together are within the bound."""
        files = []
        for path in self.folder.glob("*.npz"):
            with contextlib.suppress(OSError):
                seen = path.stat()
                files.append((path == newest, seen.st_mtime_ns, seen.st_size, path))
        size = sum(entry[2] for entry in files)
        for _, _, bytes_, path in sorted(files):
            if size <= self.largest:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                size -= bytes_
