"""Strategies kept in files: what is damaged is absent, what is old goes, nobody else reads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from dpsql.mechanisms.strategies.optimum import Optimum, optimum
from dpsql.mechanisms.strategies.querycov import noise_covariance
from dpsql.mechanisms.strategies.rows import Prefixes
from dpsql.mechanisms.strategies.strategy_cache import StrategyCache, folder, key
from dpsql.mechanisms.strategies.universe import ListedColumns


@pytest.fixture
def kept(tmp_path: Path) -> tuple[StrategyCache, str, Optimum]:
    cache = StrategyCache(tmp_path / "deep" / "dpsql")
    name = key("rmse", gram=Prefixes(8).gram())
    found = optimum(Prefixes(8).gram(), 8)
    cache.keep_optimum(name, found)
    return cache, name, found


def _same(one: Optimum | None, other: Optimum) -> bool:
    return (
        one is not None
        and bool((one.matrix == other.matrix).all())
        and (one.lower, one.rmse, one.iterations) == (other.lower, other.rmse, other.iterations)
    )


def test_what_was_kept_is_read(kept: tuple[StrategyCache, str, Optimum]) -> None:
    cache, name, found = kept
    assert _same(cache.optimum(name), found)
    assert cache.optimum(key("rmse", gram=Prefixes(9).gram())) is None
    assert cache.covariance(name) is None
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert [path.suffix for path in cache.folder.iterdir()] == [".npz"]
    assert stat.S_IMODE(next(cache.folder.iterdir()).stat().st_mode) == 0o600


def test_a_covariance_is_kept_too(tmp_path: Path) -> None:
    cache, name = StrategyCache(tmp_path), key("answers", columns=np.eye(3, dtype=np.int8))
    found = noise_covariance(ListedColumns(np.eye(3, dtype=np.int8)), 3)
    cache.keep_covariance(name, found)
    again = cache.covariance(name)
    assert again is not None and (again.matrix == found.matrix).all()
    assert (again.root == found.root).all() and again.certificate == found.certificate


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text", "folder", "swap"])
def test_a_damaged_file_is_absent_and_written_again(
    kept: tuple[StrategyCache, str, Optimum], damage: str
) -> None:
    cache, name, found = kept
    path = cache.folder / f"{name}.npz"
    raw = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(raw[: len(raw) // 2])
        case "flip":
            path.write_bytes(raw[:200] + bytes([raw[200] ^ 1]) + raw[201:])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("not an archive")
        case "swap":  # another strategy's file under this name
            other = key("rmse", gram=Prefixes(3).gram())
            cache.keep_optimum(other, optimum(Prefixes(3).gram(), 3))
            os.replace(cache.folder / f"{other}.npz", path)
        case "folder":
            path.unlink()
            path.mkdir()
    assert cache.optimum(name) is None
    cache.keep_optimum(name, found)
    assert _same(cache.optimum(name), found) or damage == "folder"


def test_every_part_of_a_key_counts() -> None:
    gram = np.eye(2)
    keys = [
        key("rmse", gram=gram, gap=1e-3),
        key("largest", gram=gram, gap=1e-3),
        key("rmse", gram=gram, gap=1e-4),
        key("rmse", gram=gram.astype(np.float32), gap=1e-3),
        key("rmse", gram=gram.reshape(1, 4), gap=1e-3),
        key("rmse", gram=2 * gram, gap=1e-3),
    ]
    assert len(set(keys)) == len(keys)
    assert keys[0] == key("rmse", gap=1e-3, gram=gram.T.copy())


def test_the_oldest_go_when_all_are_too_large(tmp_path: Path) -> None:
    found = optimum(Prefixes(8).gram(), 8)
    size = _size(StrategyCache(tmp_path / "one"), found)
    cache = StrategyCache(tmp_path / "many", largest=3 * size)
    names = [key("rmse", at=at) for at in range(5)]
    for age, name in enumerate(names):
        cache.keep_optimum(name, found)
        os.utime(cache.folder / f"{name}.npz", (1_000 + age, 1_000 + age))
    assert [cache.optimum(name) is not None for name in names] == [False, False, True, True, True]
    StrategyCache(tmp_path / "small", largest=100).keep_optimum(names[0], found)
    assert not (tmp_path / "small").exists()


def _size(cache: StrategyCache, found: Optimum) -> int:
    cache.keep_optimum(key("rmse"), found)
    return sum(path.stat().st_size for path in cache.folder.iterdir())


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = StrategyCache(tmp_path / "file" / "dpsql")
    cache.keep_optimum(key("rmse"), optimum(np.eye(2), 2))
    assert cache.optimum(key("rmse")) is None


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path / "own"))
    assert folder() == tmp_path / "own"
    monkeypatch.delenv("DPSQL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / "dpsql"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert folder() == Path.home() / ".cache" / "dpsql"


def test_names_that_are_no_key_are_refused(tmp_path: Path) -> None:
    for name in ("../x", "a" * 63, "A" * 64):
        with pytest.raises(ValueError, match="SHA-256"):
            StrategyCache(tmp_path).optimum(name)
    with pytest.raises(ValueError, match="something"):
        StrategyCache(tmp_path, largest=0)
