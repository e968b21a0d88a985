"""Tools whose name promises what their documentation denies, and how a simulated model takes them."""

from typing import Any

from costgym.agents.models.simulated import Simulated, SimulatedRates
from costgym.envs.registration import make
from costgym.simulators.marketplace.catalogue import false_promise
from costgym.simulators.marketplace.generator import generate_marketplace

SIZE = {"tools": 400, "providers": 60, "categories": 6, "tasks": {"train": 5, "test": 5}}


def test_a_share_of_the_tools_promises_another_capability_of_the_category() -> None:
    plain = generate_marketplace(3, **SIZE).catalog
    mixed = generate_marketplace(3, **SIZE, misnamed=0.3).catalog
    wrong = [tool for tool in mixed if false_promise(tool)]
    assert 0.2 < len(wrong) / len(mixed) < 0.4 and not any(false_promise(tool) for tool in plain)
    for tool, same in zip(mixed, plain, strict=True):
        assert (tool.capability, tool.provider, tool.description) == (same.capability, same.provider, same.description)
    category = {tool.capability: tool.category for tool in mixed}
    assert all(category[false_promise(tool)] == tool.category for tool in wrong)
    offered = {(tool.provider, tool.capability) for tool in mixed}
    assert all((tool.provider, false_promise(tool)) not in offered for tool in wrong)


def taken(rates: dict[str, float], shown: bool) -> set[tuple[int, str]]:
    """Misnamed tools, by task, that a model takes for serving the first need."""
    scenario = {"name": "m", "source": {"kind": "marketplace", "candidates": 60, "misnamed": 0.5}}
    env: Any = make("costgym/MarketplaceChat-v0", scenario=scenario, split="test", disable_env_checker=True)
    wrong_calls: set[tuple[int, str]] = set()
    for number in range(400, 420):
        env.reset(seed=1, options={"task": number})
        model = Simulated(_rates(rates))
        model.begin(env.unwrapped, 0)
        context = model._reader.read([], [])
        names = dict.fromkeys(tool.name for tool in env.unwrapped.candidates)
        context.shown, context.names = (names, {}) if shown else ({}, names)
        wrong_calls |= {(number, name) for name in model._taken_for_serving(context, 0) if name in model._reader.misnamed}
    return wrong_calls


def _rates(rates: dict[str, float]) -> SimulatedRates:
    perfect = SimulatedRates.perfect()
    return SimulatedRates(**{**{name: getattr(perfect, name) for name in SimulatedRates.__slots__}, **rates})


def test_names_alone_mislead_and_documentation_does_where_it_is_skimmed() -> None:
    by_name, careful, skimming = taken({}, False), taken({"skim": 0.0}, True), taken({"skim": 1.0}, True)
    assert by_name and careful and not by_name & careful  # what serves under a wrong name is seen in its documentation alone
    assert skimming == by_name | careful
