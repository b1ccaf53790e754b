"""Footprints of people with one code of a column, for tests of ledgers."""

from __future__ import annotations

from fractions import Fraction

from dpsql.accounting.events import PICO, Gaussian, Laplace
from dpsql.accounting.footprints.footprint import Axis, Factor, Footprint, Loss
from dpsql.accounting.purse import Price


def only(name: str, code: int, amount: int) -> Factor:
    """A loss of the people with one code of a column."""
    if code == 0:
        return Factor((Axis(name, (0, 1), (0, 1)),), (amount, 0))
    return Factor((Axis(name, (0, code, code + 1), (0, 1, 0)),), (0, amount))


def loss(name: str, code: int, amount: int) -> Loss:
    return Loss(0, (only(name, code, amount),), amount)


def gaussian(rho: int) -> Gaussian:
    """A release that costs `rho` pico alone."""
    return Gaussian(rho, Fraction(PICO, 2))


def laplace(scale: int) -> Laplace:
    return Laplace(1, 1, Fraction(scale))


def about(event: Gaussian | Laplace, name: str, code: int) -> Footprint:
    """The footprint of a release about the people with one code of a column."""
    price = Price.of(event)
    epsilon = None if price.epsilon is None else loss(name, code, price.epsilon)
    return Footprint(loss(name, code, price.rho), epsilon)
