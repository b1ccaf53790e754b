"""The joint maximum of footprints, against brute force over every cell of small universes."""

import itertools
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from dpsql.accounting.footprints import joint, tables
from dpsql.accounting.footprints.footprint import Factor, Footprint, Loss
from dpsql.accounting.footprints.joint import Joint, Layer, largest
from dpsql.accounting.purse import LIMIT, Price
from tests.accounting.factors import at, brute, cells, factors
from tests.accounting.people import only

calm = hypothesis.settings(derandomize=True, deadline=None, max_examples=80)


def loss(*listed: Factor, constant: int = 0) -> Loss:
    return Loss(constant, listed, brute(listed))


def paid(state: Joint, footprint: Footprint, snapshot: str = "") -> Price:
    epsilon = footprint.epsilon
    price = Price(footprint.rho.largest, None if epsilon is None else epsilon.largest)
    return state.pay(state.spent, price, footprint, snapshot, state.seq + 1)


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=8), st.sampled_from([0, 1, 64]))
def test_what_is_spent_is_the_largest_loss_of_a_cell(listed: list[Factor], pending: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PENDING", pending)
        state = Joint()
        for count, factor in enumerate(listed, 1):
            paid(state, Footprint(loss(factor), None))
            assert state.spent == Price(brute(listed[:count]), None)
            assert state.exact
            state = Joint.from_bytes(state.to_bytes()) if count % 3 == 0 else state.copy()


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=3), st.integers(2, 30))
def test_what_is_asked_again_adds_up_where_it_concerns_the_same(
    listed: list[Factor], times: int
) -> None:
    state = Joint()
    for count in range(times):
        paid(state, Footprint(loss(listed[count % len(listed)]), None))
    asked = [listed[count % len(listed)] for count in range(times)]
    assert state.spent.rho == brute(asked) and state.exact


@calm
@hypothesis.given(st.lists(factors(), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(listed: list[Factor], draw: random.Random) -> None:
    shuffled = list(listed)
    draw.shuffle(shuffled)
    one, other = (largest(Footprint(loss(f), None) for f in order) for order in (listed, shuffled))
    assert one == other


@calm
@hypothesis.given(st.lists(factors(), min_size=2, max_size=6))
def test_factors_of_one_release_are_one_release(listed: list[Factor]) -> None:
    state = Joint()
    paid(state, Footprint(loss(*listed, constant=3), None))
    assert state.spent.rho == 3 + brute(listed)


@calm
@hypothesis.given(
    st.lists(factors(), min_size=1, max_size=10),
    st.sampled_from([("CELLS", 1), ("CELLS", 8), ("CELLS", 60), ("ENTRIES", 0), ("ENTRIES", 4000)]),
    st.sampled_from([0, 2, 512]),
)
def test_a_bound_is_never_below_and_never_above_the_sum(
    listed: list[Factor], room: tuple[str, int], waiting: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, *room)
        patch.setattr(joint, "WAITING", waiting)
        state = Joint()
        before = 0
        for count, factor in enumerate(listed, 1):
            paid(state, Footprint(loss(factor), None))
            true = brute(listed[:count])
            assert true <= state.spent.rho <= before + max(factor.table)
            assert not state.exact or state.spent.rho == true
            before = state.spent.rho


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=40), st.integers(2, 9))
def test_a_bound_holds_when_boxes_are_forgotten(listed: list[Factor], boxes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "CELLS", 1)
        patch.setattr("dpsql.accounting.footprints.shares.BOXES", boxes)
        state = Joint()
        for factor in listed:
            paid(state, Footprint(loss(factor), None))
        assert brute(listed) <= state.spent.rho <= sum(max(f.table) for f in listed)


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=8), st.booleans())
def test_a_state_is_read_back_as_it_was(listed: list[Factor], small: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "CELLS", 6 if small else 1 << 20)
        state = Joint()
        for factor in listed[:-1]:
            paid(state, Footprint(loss(factor), loss(factor)))
        data = state.to_bytes()
        again = Joint.from_bytes(data)
        assert again.to_bytes() == data
        last = Footprint(loss(listed[-1]), loss(listed[-1]))
        assert paid(again, last) == paid(state, last)
        assert again.to_bytes() == state.to_bytes()


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=5), factors(), st.booleans())
def test_a_trial_changes_nothing(listed: list[Factor], last: Factor, small: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "CELLS", 6 if small else 1 << 20)
        state = Joint()
        for factor in listed:
            paid(state, Footprint(loss(factor), None))
        before = state.to_bytes()
        trial = state.copy()
        after = paid(trial, Footprint(loss(last), None))
        assert state.to_bytes() == before
        assert paid(state, Footprint(loss(last), None)) == after


@calm
@hypothesis.given(st.lists(st.tuples(factors(), st.sampled_from("xyz")), min_size=1, max_size=9))
def test_snapshots_add(listed: list[tuple[Factor, str]]) -> None:
    state = Joint()
    for factor, snapshot in listed:
        paid(state, Footprint(loss(factor), None), snapshot)
    apart = {s: [f for f, of in listed if of == s] for _, s in listed}
    assert state.spent.rho == sum(brute(some) for some in apart.values())


def test_old_snapshots_become_a_constant_that_still_counts() -> None:
    state = Joint()
    for number in range(joint.LAYERS + 3):
        paid(state, Footprint(loss(only("a", 1, 10)), None), f"snapshot {number}")
        paid(state, Footprint(loss(only("a", 2, 10)), None), f"snapshot {number}")
    assert state.spent.rho == 10 * (joint.LAYERS + 3)
    assert len(state.rho.layers) == joint.LAYERS


def test_women_then_men_cost_what_one_costs() -> None:
    state = Joint()
    assert paid(state, Footprint(loss(only("d", 0, 50)), None)).rho == 50
    assert paid(state, Footprint(loss(only("d", 1, 50)), None)).rho == 50
    assert paid(state, Footprint(loss(only("d", 1, 50)), None)).rho == 100
    assert paid(state, Footprint.constant(Price(7, None))).rho == 107


def test_losses_of_everybody_keep_no_table() -> None:
    state = Joint()
    for _ in range(5):
        paid(state, Footprint.constant(Price(3, 4)))
    assert (state.spent, state.exact) == (Price(15, 20), True)
    assert not state.rho.layers


def test_a_release_without_epsilon_ends_the_epsilons() -> None:
    state = Joint()
    woman, man = only("d", 0, 50), only("d", 1, 50)
    paid(state, Footprint(loss(woman), loss(woman)))
    paid(state, Footprint(loss(man), loss(man)))
    assert state.spent == Price(50, 50)
    paid(state, Footprint(loss(man), None))
    assert state.spent == Price(100, None)
    paid(state, Footprint(loss(man), loss(man)))
    assert state.spent == Price(150, None)


def test_what_was_spent_elsewhere_counts_for_everybody() -> None:
    state = Joint()
    paid(state, Footprint(loss(only("a", 1, 10)), loss(only("a", 1, 10))))
    elsewhere = state.spent + Price(5, 6)
    two = Footprint(loss(only("a", 2, 10)), loss(only("a", 2, 10)))
    assert state.pay(elsewhere, Price(10, 10), two, "", 9) == Price(15, 16)
    assert state.seq == 9


def test_a_stored_bound_is_not_given_back_and_not_charged_twice() -> None:
    state = Joint()
    paid(state, Footprint(loss(only("a", 1, 10)), None))
    state.settle(Price(10, None))
    generous = Price(14, None)  # another process could only prove this
    state.spent = generous
    assert state.known.rho == 10
    assert (
        state.pay(generous, Price(3, None), Footprint(loss(only("a", 1, 3)), None), "", 5).rho == 14
    )
    assert not state.exact
    assert (
        state.pay(generous, Price(3, None), Footprint(loss(only("a", 1, 3)), None), "", 6).rho == 16
    )


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=6))
def test_replace_one_bounds_every_pair(listed: list[Factor]) -> None:
    prices = [sum(sorted(factor.table)[-2:]) for factor in listed]
    state = Joint()
    for factor, price in zip(listed, prices, strict=True):
        paid(state, Footprint(Loss(0, (factor,), price, pairs=True), None))
    losses = {tuple(at(factor, cell) for factor in listed) for cell in cells()}
    for x, y in itertools.product(losses, losses):
        assert sum(map(min, map(sum, zip(x, y, strict=True)), prices)) <= state.spent.rho
    assert state.spent.rho == min(2 * brute(listed), sum(prices))


def test_losses_beyond_64_bits_are_refused_not_wrapped() -> None:
    state = Joint()
    half = only("a", 1, LIMIT // 2)
    paid(state, Footprint(loss(half), None))
    paid(state, Footprint(loss(only("a", 2, LIMIT // 2)), None))
    assert state.spent.rho == LIMIT // 2
    after = state.pay(state.spent, Price(LIMIT, None), Footprint(loss(half), None), "", 3)
    assert after.rho > LIMIT


def test_sums_that_leave_64_bits_fall_back_to_adding() -> None:
    layer = Layer.new(False)
    for code in range(4):
        layer.add(loss(only("a", code % 4, LIMIT // 3)))
    assert LIMIT // 3 <= layer.bound <= 4 * (LIMIT // 3)


def test_a_universe_of_a_trillion_cells_is_bounded_well() -> None:
    draw = random.Random(3)
    boxes = []
    for _ in range(60):
        names = draw.sample([f"c{i}" for i in range(20)], 3)
        parts = [only(name, draw.randrange(4), 1) for name in names]
        listed = tuple(part.axes[0] for part in parts)
        size = 1
        for axis in listed:
            size *= axis.size
        hit = 0
        for part, axis in zip(parts, listed, strict=True):
            hit = hit * axis.size + part.table.index(1)
        boxes.append(Factor(listed, tuple(1000 * (i == hit) for i in range(size))))
    state = Joint()
    for factor in boxes:
        state.pay(state.spent, Price(1000, None), Footprint(Loss(0, (factor,), 1000), None), "", 1)
    layer = next(iter(state.rho.layers.values()))
    assert layer.tables is None
    best = 0
    for _ in range(2000):
        cell = {f"c{i}": draw.randrange(5) for i in range(20)}
        best = max(best, sum(at(factor, cell) for factor in boxes))
    assert best <= state.spent.rho <= 60_000 // 3
