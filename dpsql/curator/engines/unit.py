"""Keeps at most so many rows of each privacy unit, by a rule that looks at that unit alone.

The rows of a unit are ranked by HMAC-SHA-256 under a secret key, over the number of earlier rows
equal to this one, the codes of all declared columns and the unit's id. So what is kept of one unit
does not depend on the other units, on the order of the file, on threads or on the engine: the
engine computes SHA-256, and none of its own hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpsql.curator.engines.layout import UNIT

_BLOCK: Final = 64  # bytes of a block of SHA-256


def pads(key: bytes) -> tuple[bytes, bytes]:
    """The key as the inner and the outer hash of HMAC begin with it (RFC 2104)."""
    if not 0 < len(key) <= _BLOCK:
        raise ValueError("a key has 1 to 64 bytes")
    block = key.ljust(_BLOCK, b"\0")
    return bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)


def kept(codes: Sequence[str], rows: str, max_rows: int) -> str:
    """A SELECT of the codes of the rows that stay; $1 and $2 are the pads of the key.

    `rows` has the id of a unit and the codes. Each part of the message that is hashed has a fixed
    length but the last: the numbers take 16 hexadecimal digits each.
    """
    listed = ", ".join(codes)
    lines = f"SELECT {UNIT}, {listed}, count(*) AS n FROM {rows} GROUP BY ALL"
    twins = f"SELECT {UNIT}, {listed}, unnest(range(n)) AS twin FROM ({lines})"
    numbers = ", ".join(f"CAST({number} AS BIGINT)" for number in ("twin", *codes))
    digits = "{:016x}" * (1 + len(codes))
    message = f"unhex(format('{digits}', {numbers})) || {UNIT}"
    rank = f"sha256($2::BLOB || unhex(sha256($1::BLOB || {message})))"
    ranked = f"SELECT {UNIT}, {listed}, {rank} AS rank FROM ({twins})"
    place = f"row_number() OVER (PARTITION BY {UNIT} ORDER BY rank)"
    return f"SELECT {listed} FROM ({ranked}) QUALIFY {place} <= {max_rows}"
