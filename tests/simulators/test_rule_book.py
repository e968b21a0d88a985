"""Each rule of the world is stated by one function, and a search finds no second statement."""

import inspect

import pytest

from tests.helpers.rule_book import RULES, Stated, places_of, table


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.number} {rule.about}")
def test_a_rule_is_stated_once(rule: Stated) -> None:
    file, _, first = rule.location.partition(":")
    lines = len(inspect.getsource(rule.function).splitlines())
    [location] = places_of(rule.pattern)
    where, _, line = location.partition(":")
    assert where == file and int(first) <= int(line) < int(first) + lines


def test_all_fourteen_rules_are_in_the_table() -> None:
    assert {rule.number for rule in RULES} == set(range(1, 15)) and all(rule.location in table() for rule in RULES)
