"""Functions of outputs, and expressions of several answers, cover at least as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.mechanisms.intervals.answers import Answers
from dpsql.query.estimators import Count, Mean
from dpsql.query.expr import Cast, Const, Op, Slot
from tests.mechanisms.judged import (
    COUNTS,
    SLACK,
    A,
    B,
    C,
    D,
    call,
    gauss,
    judge,
    lap,
    num,
    tenth_off,
)

FUNCTIONS = {
    "round": (call("round", call("/", A, num(7))), lambda a: round(a / 7)),
    "round to tens": (call("round", A, num(-1)), lambda a: round(a / 10) * 10),
    "round of a mean": (call("round", call("/", A, num(30)), num(2)), lambda a: round(a / 30, 2)),
    "floor": (call("floor", call("/", A, num(7))), lambda a: a // 7),
    "ceil": (call("ceil", call("/", A, num(7))), lambda a: -(-a // 7)),
    "trunc": (call("trunc", call("/", A, num(7))), lambda a: math.trunc(a / 7)),
    "integer division": (call("//", A, num(7)), lambda a: math.trunc(a / 7)),
    "cast": (Cast(call("/", A, num(7)), "BIGINT"), lambda a: round(a / 7)),
    "decimal": (Cast(call("/", A, num(7)), "DECIMAL(10,2)"), lambda a: round(a / 7, 2)),
    "float": (Cast(A, "DOUBLE"), lambda a: a),
    "try": (Op("TRY", (A,)), lambda a: a),
    "abs": (call("abs", call("-", A, num(20))), lambda a: abs(a - 20)),
    "sqrt": (call("sqrt", A), math.sqrt),
    "cbrt": (call("cbrt", A), np.cbrt),
    "ln": (call("ln", A), np.log),
    "log2": (call("log2", A), np.log2),
    "log10": (call("log", A), np.log10),
    "exp": (call("exp", call("/", A, num(50))), lambda a: np.exp(a / 50)),
    "square": (call("**", A, num(2)), lambda a: a * a),
    "cube": (call("pow", A, num(3)), lambda a: a**3),
    "greatest": (call("greatest", A, num(20)), lambda a: max(a, 20)),
    "least": (call("least", num(20), A), lambda a: min(a, 20)),
    "negative of a square": (call("-", call("*", A, A)), lambda a: -a * a),
    "sum coalesced": (Op("COALESCE", (A, num(0))), lambda a: a),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("law", [gauss(1), gauss(6), lap(3)], ids=str)
def test_functions_of_an_output_cover(kind, law):
    expr, value = FUNCTIONS[kind]
    for truth in (1, 17, 24, 200):
        found = judge(expr, COUNTS, [truth], law, 0.95)
        assert found.covers(float(value(truth))) >= 0.95 - SLACK


@pytest.mark.parametrize("kind", ["sqrt", "exp", "ln", "square", "abs", "cbrt", "log2"])
def test_functions_told_of_a_tenth_less_noise_do_not_cover(kind):
    expr, value = FUNCTIONS[kind]
    found = judge(expr, COUNTS, [200], gauss(5), 0.95, claimed=tenth_off(gauss(5)))
    assert found.covers(value(200)) < 0.95


@pytest.mark.parametrize("kind", ["sqrt", "exp", "ln", "square", "cube", "cbrt", "log10", "abs"])
def test_standard_errors_of_functions_are_of_first_order(kind):
    expr, value = FUNCTIONS[kind]
    found = judge(expr, COUNTS, [2000], gauss(4), 0.95)
    error = math.sqrt(found.mean_square(value(2000)))
    assert found.chances @ found.stderr == pytest.approx(error, rel=0.02)


JOINT = {
    "product": (call("*", A, B), (9, 14), lambda a, b: a * b),
    "quotient of functions": (call("/", call("sqrt", A), B), (90, 64), lambda a, b: a**0.5 / b),
    "quotient by a root": (call("/", A, call("sqrt", B)), (90, 64), lambda a, b: a / b**0.5),
    "greatest": (call("greatest", A, B), (9, 11), max),
    "distance": (call("abs", call("-", A, B)), (9, 8), lambda a, b: abs(a - b)),
}


@pytest.mark.parametrize("kind", JOINT)
@pytest.mark.parametrize("law", [gauss(1), gauss(4), lap(2)], ids=str)
def test_expressions_of_two_answers_cover(kind, law):
    expr, truth, value = JOINT[kind]
    found = judge(expr, COUNTS, truth, law, 0.95)
    assert found.covers(value(*truth)) >= 0.95 - SLACK


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(7, 10)])
def test_an_odds_ratio_covers_and_is_withheld_near_nothing(sigma):
    odds = call("/", call("/", A, B), call("/", C, D))
    for truth in ((30, 12, 9, 25), (2, 3, 2, 1), (5, 4, 0, 9)):
        found = judge(odds, COUNTS, truth, gauss(sigma), 0.9)
        a, b, c, d = truth
        if c:
            assert found.covers(a / b / (c / d)) >= 0.9 - SLACK
        assert np.isinf(found.high[found.doubtful]).all()
        assert (found.doubtful | np.isfinite(found.high)).all()


def test_means_of_two_columns_are_compared_at_a_shared_level():
    law = gauss(Fraction(3, 5))
    means = [Mean(0, 1, Fraction(0), Fraction(1)), Mean(2, 3, Fraction(0), Fraction(1))]
    found = judge(call("-", A, B), means, (9, 3, 2, 10), law, 0.9)
    assert found.covers(9 / 12 - 2 / 12) >= 0.9 - SLACK
    assert (found.low >= -1).all() and (found.high <= 1).all()


def test_a_mean_that_is_withheld_is_replaced_by_coalesce():
    """COALESCE(AVG(x), 0): the number shown instead lies in the interval, and is not withheld."""
    for parts in ((0, 0), (3, 9), (300, 100)):
        found = judge(
            Op("COALESCE", (A, num(-1))),
            [Mean(0, 1, Fraction(0), Fraction(1))],
            parts,
            gauss(3),
            0.95,
        )
        assert not found.doubtful.any()
        true = -1.0 if parts == (0, 0) else parts[0] / sum(parts)
        assert found.covers(true) >= 0.95 - SLACK


def test_what_has_no_interval_says_so():
    answers = Answers(np.zeros((3, 1), np.int64), gauss(1), (Count(0),), (1,), False)
    for expr in (
        Slot("k0"),
        num(3),
        call("sin", A),
        call("%", A, num(3)),
        Cast(A, "VARCHAR"),
        call("*", A, Const("double", "1e400")),
        call("*", call("*", A, Const("double", "1e300")), Const("double", "1e300")),
        call("pow", A, num("0.5")),
        Op("COALESCE", (call("/", A, A), num(0))),
    ):
        assert answers.intervals(expr, 0.95) is None
    digits = answers.intervals(call("round", A, num(400)), 0.95)
    assert digits is not None and np.isfinite(digits[1]).all()
