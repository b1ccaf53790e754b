"""Nothing of a sealed value shows, whoever asks."""

from __future__ import annotations

import copy
import dataclasses
import json
import operator
import pickle
import pprint
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql.curator.cells import Cells
from dpsql.curator.sealed import Sealed, unseal

SECRET = 8_675_309


@dataclasses.dataclass
class Holder:
    box: Sealed[int]


SHOWING: dict[str, Callable[[Sealed[int]], object]] = {
    "repr": repr,
    "str": str,
    "ascii": ascii,
    "format": format,
    "f-string": lambda box: f"{box} {box!r} {box!s} {box:>12}",
    "percent": lambda box: "%s %r" % (box, box),  # noqa: UP031
    "in a list": lambda box: repr([box, {"k": box}]),
    "pprint": pprint.pformat,
    "dir": dir,
    "holder": lambda box: repr(Holder(box)),
    "type": lambda box: repr(type(box)),
}
REFUSING: dict[str, Callable[[Sealed[int]], object]] = {
    "bool": bool,
    "not": operator.not_,
    "eq": lambda box: box == box,
    "ne": lambda box: box != SECRET,
    "lt": lambda box: box < SECRET,
    "sorted": lambda box: sorted([box, box]),
    "hash": hash,
    "set": lambda box: {box},
    "iter": lambda box: iter(box),
    "list": lambda box: list(box),
    "len": lambda box: len(box),
    "getitem": lambda box: box[0],
    "in": lambda box: SECRET in box,
    "int": lambda box: int(box),
    "float": lambda box: float(box),
    "index": lambda box: range(box),
    "sum": lambda box: sum([box]),
    "add": lambda box: 1 + box,
    "call": lambda box: box(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "pickle 0": lambda box: pickle.dumps(box, 0),
    "reduce": lambda box: box.__reduce__(),
    "json": json.dumps,
    "vars": vars,
    "asdict": lambda box: dataclasses.asdict(Holder(box)),
    "asarray": np.asarray,
    "numpy add": lambda box: np.ones(2) + box,
    "numpy sum": lambda box: np.add(box, 1),
    "numpy list": lambda box: np.array([box, box]),
    "bytes": lambda box: bytes(box),
    "attribute": lambda box: box.value,
}


@pytest.mark.parametrize("way", SHOWING)
def test_showing_a_sealed_value_tells_the_same_of_every_value(way: str) -> None:
    shown, other = (SHOWING[way](Sealed(value)) for value in (SECRET, 0))
    assert str(shown) == str(other)
    assert str(SECRET) not in str(shown)


@pytest.mark.parametrize("way", REFUSING)
def test_asking_anything_of_a_sealed_value_is_an_error_without_it(way: str) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        REFUSING[way](Sealed(SECRET))
    assert str(SECRET) not in str(caught.value)


def test_a_traceback_with_locals_does_not_show_a_sealed_value() -> None:
    def look(box: Sealed[int]) -> None:
        held = Holder(box)
        raise ValueError(held)

    with pytest.raises(ValueError) as caught:
        look(Sealed(SECRET))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert str(SECRET) not in "".join(told.format())


def test_cells_show_no_codes_or_counts() -> None:
    counted = Cells({"a": np.array([SECRET])}, np.array([SECRET]))
    assert str(SECRET) not in f"{counted!r} {counted}"


def test_the_curator_opens_what_it_sealed() -> None:
    assert unseal(Sealed(SECRET)) == SECRET


def test_sealed_cannot_be_extended() -> None:
    with pytest.raises(TypeError):
        type("Open", (Sealed,), {})


def test_only_the_curator_unseals() -> None:
    root = Path(str(dpsql.__file__)).parent
    outside = [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*.py"))
        if "curator" not in path.relative_to(root).parts and "unseal" in path.read_text()
    ]
    assert outside == []


def test_where_the_curator_unseals_is_counted() -> None:
    root = Path(str(dpsql.__file__)).parent / "curator"
    calls: dict[str, Any] = {
        path.relative_to(root).as_posix(): path.read_text().count("unseal(")
        for path in root.rglob("*.py")
    }
    engines = {name: n for name, n in calls.items() if n and name.startswith("engines/")}
    assert engines == {
        "engines/duckdb.py": 1,
        "engines/pack.py": 1,
    }
