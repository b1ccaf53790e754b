"""Plain values and arrays of whole numbers as bytes, and back."""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tree: TypeAlias = "dict[str, Any] | list[Any] | NDArray[np.int64] | str | int | None"

_MARK = "array"
_WORD = np.dtype("<i8")
_LEVEL = 1  # of compression: most of the time is the disk's
_SMALL = 1 << 10  # bytes that are not compressed: they fit a page of the ledger anyway
_PLAIN = b"\0"  # before these; no stream of zlib begins so


def pack(tree: Tree, *, plain: bool = False) -> bytes:
    """Dictionaries, lists, text, integers and int64 arrays as bytes.

    `plain`, they are not compressed, which takes longer than to write them.
    """
    arrays: list[bytes] = []

    def mark(array: object) -> dict[str, tuple[int, ...]]:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"not packed: {type(array).__name__}")
        arrays.append(array.astype(_WORD, copy=False).tobytes())
        return {_MARK: array.shape}

    text = json.dumps(tree, separators=(",", ":"), default=mark).encode()
    data = struct.pack("<I", len(text)) + text + b"".join(arrays)
    if len(data) >= _SMALL and not plain:
        return compressed(data, _LEVEL)
    return _PLAIN + struct.pack("<I", zlib.crc32(data)) + data


def compressed(data: bytes, level: int) -> bytes:
    """What `zlib.decompress` takes, made in as much memory as the data need.

    zlib's own of 256 kB takes longer to clear than a release does to be compressed.
    """
    window = min(max(len(data).bit_length(), 9), zlib.MAX_WBITS)
    made = zlib.compressobj(level, zlib.DEFLATED, window, window - 7)
    return made.compress(data) + made.flush()


def unpack(data: bytes) -> Any:
    """What `pack` was given. Raises ValueError for other bytes."""
    try:
        raw = _checked(data) if data[:1] == _PLAIN else zlib.decompress(data)
        (length,) = struct.unpack_from("<I", raw)
        at = 4 + length

        def whole(
            tree: dict[str, Any],
        ) -> Any:  # arrays come in the order in which they were packed
            nonlocal at
            if _MARK not in tree:
                return tree
            shape = tree[_MARK]
            size = math.prod(shape)
            found = np.frombuffer(raw, _WORD, size, at).reshape(shape).astype(np.int64)
            at += 8 * size
            return found

        return json.loads(raw[4:at], object_hook=whole)
    except (zlib.error, struct.error, KeyError, TypeError):
        raise ValueError("not packed by dpsql") from None


def _checked(data: bytes) -> bytes:
    raw = data[len(_PLAIN) + 4 :]
    if struct.unpack_from("<I", data, len(_PLAIN)) != (zlib.crc32(raw),):
        raise ValueError("not packed by dpsql")
    return raw
