"""Budgets are read and checked, ledgers add up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import RESOURCES, Budget, Charge, Ledger
from costgym.simulators.rules.limits import exceeded


def test_a_ledger_adds_up_its_charges():
    ledger = Ledger()
    ledger.charge(1.0, "map", 2.5, calls=1)
    ledger.charge(2.0, "think", 0.25, tokens=120)
    assert (ledger.price, ledger.tokens, ledger.calls, ledger.attempts) == (2.75, 120, 1, 0)
    assert list(ledger) == [Charge(1.0, "map", 2.5, 0, 1), Charge(2.0, "think", 0.25, 120, 0)]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 10**6), st.integers(0, 1)), max_size=40))
def test_totals_are_the_sums_of_the_charges(entries):
    ledger = Ledger()
    for at_s, (price, tokens, calls) in enumerate(entries):
        ledger.charge(float(at_s), "x", price, tokens, calls)
    assert ledger.price == pytest.approx(math.fsum(price for price, _, _ in entries), rel=1e-12)
    assert ledger.tokens == sum(tokens for _, tokens, _ in entries)
    assert ledger.calls == sum(calls for _, _, calls in entries)
    assert len(list(ledger)) == len(entries)


def test_a_limit_is_passed_only_above_it_and_the_first_in_order_is_named():
    assert exceeded(Budget(price=10, tokens=50, calls=1, seconds=3), 10.0, 3.0, 50, 1) is None
    assert exceeded(Budget(price=9.99, tokens=49), 10.0, 0.0, 50, 1) == "price"
    assert exceeded(Budget(seconds=3, tokens=49), 10.0, 3.01, 50, 1) == "seconds"
    assert exceeded(Budget(tokens=49, calls=0.5), 10.0, 0.0, 50, 1) == "tokens"
    assert exceeded(Budget(calls=0.5), 10.0, 0.0, 50, 1) == "calls"


@pytest.mark.parametrize("limit", [0, -1, math.nan, math.inf, -math.inf, True, "20", None])
@pytest.mark.parametrize("name", RESOURCES)
def test_an_invalid_budget_error_names_the_resource(name, limit):
    if limit is None:
        assert Budget(**{name: None}).as_dict() == {}
        return
    with pytest.raises(ConfigError, match=f"budget {name}: expected a positive finite number"):
        Budget(**{name: limit})


def test_budgets_are_read_from_the_command_line():
    assert Budget.parse("price=10,20") == [Budget(price=10.0), Budget(price=20.0)]
    assert Budget.parse("price=10,20;seconds=60") == [Budget(price=10.0, seconds=60.0), Budget(price=20.0, seconds=60.0)]


BAD_BUDGETS = ["price", "price=", "price=a", "price=0", "price=nan", "price=-3", "prise=10", "price=1,,2", ""]


@pytest.mark.parametrize("text", BAD_BUDGETS)
def test_a_budget_that_cannot_be_read_is_a_clear_error(text):
    with pytest.raises(ConfigError, match="budget"):
        Budget.parse(text)


def test_a_budget_says_what_it_limits():
    assert str(Budget()) == "unlimited"
    assert str(Budget(price=20, seconds=1.5)) == "price 20, seconds 1.5"
    assert Budget.from_mapping({"calls": 3}) == Budget(calls=3)
    with pytest.raises(ConfigError, match="unknown resource 'money'"):
        Budget.from_mapping({"money": 3})


def test_one_budget_is_read_from_text_or_by_resource():
    assert Budget.one("price=20;seconds=60") == Budget.one({"price": 20, "seconds": 60}) == Budget(price=20, seconds=60)
    with pytest.raises(ConfigError, match="--cost-limit: expected one limit per resource, got 'price=10,20'"):
        Budget.one("price=10,20", "--cost-limit")
