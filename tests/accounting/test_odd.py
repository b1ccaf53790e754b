"""Odd numbers and texts that are accepted: the ledger that took them opens again and is whole."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.accounting.convert import LARGEST_DELTA, LARGEST_EPSILON, SMALLEST_DELTA
from dpsql.accounting.events import Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.verify import verify

TERMS: list[dict[str, Any]] = [
    {"epsilon": 1, "delta": -0.0},
    {"epsilon": 1, "delta": 0},
    {"epsilon": np.float64(0.1), "delta": np.float64(-0.0)},
    {"epsilon": 1e-12, "delta": 0.0},
    {"epsilon": 0.1 + 0.2, "delta": 1e-6},
    {"epsilon": LARGEST_EPSILON, "delta": LARGEST_DELTA},
    {"epsilon": math.nextafter(1, 2), "delta": SMALLEST_DELTA},
    {"epsilon": 10**6, "delta": 1 / 3, "until": "9999-12-31"},
    {"epsilon": 1, "delta": 1e-6, "until": "2999-01-01T00:00:00.0004+23:59"},
]
TEXTS = ["é", "e\u0301", "Ⅳ 一 𝔄", " a ", "a'\"; --", "\u200b", "\ufeff", "٣", "%s {} \\n"]


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_a_grant_of_odd_numbers_is_read_as_it_was_written(
    place: str, terms: dict[str, Any]
) -> None:
    with Ledger.open(place) as ledger:
        given = ledger.grant("alice", dataset="adult", **terms)
        ledger.cap("adult", epsilon=terms["epsilon"], delta=terms["delta"])
        ledger.charge("alice", "adult", Laplace(1, 1, Fraction(10**13)), statement="SELECT 1")
    with Ledger.open(place, create=False) as ledger:
        found = ledger.balance("alice", "adult").grant
        assert (found, math.copysign(1, found.delta)) == (given, 1)
    assert verify(place).problems == ()


@pytest.mark.parametrize("text", [*TEXTS, "\0", "\n\r\x85\u2028", "\ud800"], ids=ascii)
def test_odd_texts_are_read_as_they_were_written(place: str, text: str) -> None:
    name = text if text in TEXTS else "bob"
    with Ledger.open(place) as ledger:
        ledger.grant(name, dataset=name, epsilon=1)
        ledger.join(name, "team", dataset=name)
        ledger.grant("team", dataset=name, epsilon=1)
        ledger.charge(name, name, Gaussian(1, Fraction(10**6)), statement=text)
    with Ledger.open(place, create=False) as ledger:
        assert ledger.balance(name, name).grant.user == name
        assert ledger.members("team", dataset=name) == (name,)
    assert verify(place).problems == ()
