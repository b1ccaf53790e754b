"""Footprints check themselves, and are written and read as they are."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.accounting.footprints.footprint import MOST_ENTRIES, Axis, Factor, Footprint, Loss
from dpsql.accounting.kept.pack import pack, unpack
from dpsql.accounting.purse import LIMIT, Price
from tests.accounting.people import only

AXIS = Axis("a", (0, 3, 5), (0, 1, 0))


@pytest.mark.parametrize(
    "fields",
    [
        ("a", (), ()),
        ("a", (1,), (0,)),
        ("a", (0, 3, 3), (0, 1, 0)),
        ("a", (0, 3), (0, 2)),
        ("a", (0, 3), (1, 2)),
        ("a", (0, 3), (0,)),
        ("a", (0, -3), (0, 1)),
        ("a", (0, 3.0), (0, 1)),
        ("a", (0, True), (0, 1)),
        (b"a", (0, 3), (0, 1)),
    ],
)
def test_an_axis_checks_itself(fields: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"not the classes|do not begin|have gaps"):
        Axis(*fields)


@pytest.mark.parametrize(
    ("axes", "table"),
    [
        ((), (1,)),
        ((AXIS, AXIS), (0, 0, 0, 0)),
        ((AXIS,), (1,)),
        ((AXIS,), (1, -1)),
        ((AXIS,), (1, 0.5)),
        ((AXIS,), (1, True)),
        ((AXIS,), (1, LIMIT + 1)),
        ((Axis("w", tuple(range(MOST_ENTRIES + 1)), tuple(range(MOST_ENTRIES + 1))),), (0,)),
    ],
)
def test_a_factor_checks_itself(axes: tuple[Axis, ...], table: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"a factor has|a loss is"):
        Factor(axes, table)


@pytest.mark.parametrize("fields", [(-1,), (0.5,), (0, (), -1), (0, (), 1, None), (LIMIT, (), 1)])
def test_a_loss_checks_itself(fields: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"not a loss|at most what a purse"):
        Loss(*fields)


def test_a_small_footprint_is_text_that_can_be_read() -> None:
    found = Footprint(Loss(3, (only("sex", 1, 50),), 50), None)
    assert found.text == (
        '{"version":1,"rho":[3,[[[["sex",[0,1,2],[0,1,0]]],[0,50]]],50,false],"epsilon":null}'
    )
    assert Footprint.from_text(found.text) == found


def test_a_footprint_of_the_first_version_is_read_for_ever() -> None:
    rho = '[7,[[[["a",[0,2],[0,1]],["b",[0],[0]]],[0,9]]],9,true]'
    text = '{"version":1,"rho":' + rho + ',"epsilon":[4,[],0,false]}'
    factor = Factor((Axis("a", (0, 2), (0, 1)), Axis("b", (0,), (0,))), (0, 9))
    assert Footprint.from_text(text) == Footprint(Loss(7, (factor,), 9, True), Loss(4))


def test_a_large_footprint_is_kept_short() -> None:
    axis = Axis("w", tuple(range(3000)), tuple(range(3000)))
    found = Footprint(Loss(0, (Factor((axis,), tuple(range(3000))),), 2999), None)
    text = found.text
    assert len(text) < 16_000 and Footprint.from_text(text) == found
    for damaged in (text[:-8], text[8:], "A" + text[1:], text + "ü"):
        with pytest.raises(ValueError, match=r"."):
            Footprint.from_text(damaged)


def test_everybody_pays_a_price_without_columns() -> None:
    assert Footprint.constant(Price(5, None)) == Footprint(Loss(5), None)
    assert Footprint.constant(Price(5, 6)).epsilon == Loss(6)
    assert Footprint.constant(Price(5, 6)).rho.largest == 5


def test_what_is_packed_is_unpacked() -> None:
    tree = {
        "text": "é",
        "number": 10**30,
        "nothing": None,
        "list": [1, {"deep": np.arange(6).reshape(2, 3)}, np.zeros(0, np.int64)],
        "scalar": np.array(7),
    }
    found = unpack(pack(tree))
    assert found["list"][1]["deep"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (found["number"], found["text"], found["nothing"]) == (10**30, "é", None)
    assert found["scalar"].shape == () and int(found["scalar"]) == 7
    assert found["list"][2].shape == (0,)
    for other in (b"", b"x", pack(tree)[:-5]):
        with pytest.raises(ValueError, match="not packed"):
            unpack(other)
