"""Releases as bytes: what is read back is what was written, and nothing else is read."""

from __future__ import annotations

import base64
import contextlib
import zlib
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.accounting.kept.pack import compressed, pack, unpack
from dpsql.accounting.kept.stored import Stored
from tests.mechanisms.measured import CELLS, CODES, workload

STATEMENTS = [
    "SELECT COUNT(*) FROM town",
    "SELECT sex, region, AVG(age), COUNT(*) FROM town WHERE age > 1 GROUP BY CUBE (sex, region)",
    "SELECT VAR_POP(age) FROM town WHERE smoker UNION ALL SELECT SUM(age) FROM town",
    "SELECT COUNT(*) FROM town WHERE sex = 'f' AND sex = 'm'",
]
LAWS = [Gaussian(7, Fraction(31, 4)), Laplace(5, 3, Fraction(9, 2))]


def stored(sql, law):
    asked = workload(sql)
    found = Stored.of(asked, law, asked.matvec(CODES, np.arange(CELLS) * 10**6))
    assert found is not None
    return found


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_is_read_is_what_was_written(sql, law):
    one = stored(sql, law)
    other = Stored.from_bytes(one.to_bytes())
    assert other.columns == one.columns
    assert [f.key for f in other.families] == [f.key for f in one.families]
    assert [f.factor for f in other.families] == [f.factor for f in one.families]
    for a, b in zip(one.values, other.values, strict=True):
        assert (a == b).all() and b.dtype == np.int64
    same = other.law.variance == law.variance if isinstance(law, Gaussian) else other.law.scale
    assert same
    assert len(one.to_bytes()) < 4000


def test_a_cube_of_many_groups_takes_a_few_bytes_a_group():
    keys = "sex, region, age, smoker"
    sql = f"SELECT {keys}, COUNT(*) FROM town GROUP BY CUBE ({keys})"
    one = stored(sql, LAWS[0])
    assert len(one.to_bytes()) < 16 * sum(len(values) for values in one.values) + 2000


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_damaged_bytes_are_no_release(place):
    data = bytearray(stored(STATEMENTS[0], LAWS[0]).to_bytes())
    data[place % len(data)] ^= 0x55
    with pytest.raises(ValueError):
        Stored.from_bytes(bytes(data))
    with pytest.raises(ValueError):
        Stored.from_bytes(b"")


def test_values_beyond_64_bits_are_not_kept():
    asked = workload("SELECT COUNT(*) FROM town")
    assert Stored.of(asked, LAWS[0], [np.array([[1 << 70]], object)]) is None


def test_what_earlier_versions_packed_is_read_as_what_is_packed_now():
    tree = {
        "version": 1,
        "noise": ["gaussian", "3/2"],
        "list": [["age", [np.array([0, 3]), np.array([1, 0]), 74]], None, -5],
        "wide": np.arange(4).reshape(2, 2),
    }
    written = base64.b64decode(
        "eAFdjd0KwjAMhau+ybmOyKYi7FVKLwIrI1A6aJwyxt59QTpQc/OR85PMzrkFr1hUxoyuIeRRNKLzGHhSFc4gXC8t"
        "AiGJPs3x4CGC/AIuhWdT2rDS7/a4hUB5SonOd2u+pbebXxGyymq/P3OqPFT+Y9eP1djzGyKPJuU="
    )
    assert pack(tree)[0] != written[0]  # what is small is not compressed any more
    for read in (unpack(written), unpack(pack(tree))):
        assert read["noise"] == tree["noise"] and read["list"][1:] == [None, -5]
        for a, b in zip(read["list"][0][1][:2], tree["list"][0][1][:2], strict=True):
            assert a.dtype == np.int64 and (a == b).all()
        assert (read["wide"] == tree["wide"]).all()


@pytest.mark.parametrize("size", [1, 100, 200, 5000])
def test_no_bit_of_what_is_packed_changes_unseen(size: int) -> None:
    packed = pack({"values": np.arange(size)})
    for place in range(0, len(packed), max(len(packed) // 64, 1)):
        for bit in range(8):
            changed = bytearray(packed)
            changed[place] ^= 1 << bit
            with contextlib.suppress(ValueError):
                assert (unpack(bytes(changed))["values"] == np.arange(size)).all()


@pytest.mark.parametrize("size", [0, 1, 255, 256, 511, 512, 1000, 16384, 32767, 32768, 200000])
def test_data_of_any_size_are_what_zlib_reads(size: int) -> None:
    noise = np.random.default_rng(size).integers(0, 256, size // 2, np.uint8).tobytes()
    for data in (bytes(size), noise + noise):
        assert zlib.decompress(compressed(data, 1)) == data


def test_only_arrays_and_plain_values_are_packed():
    with pytest.raises(TypeError, match="not packed: Fraction"):
        pack({"value": [Fraction(1, 2)]})
