"""The example that plans with honest forks, `examples/session_planning.py`."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import costgym

FILE = Path(__file__).parents[3] / "examples/session_planning.py"
SMALL = {"queries": 20, "tools": 8, "capabilities": 2, "providers": 2, "budget": {"price": 60, "seconds": 200}}


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("session_planning", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_planner_plays_a_session_by_one_of_its_rules_and_leaves_the_session_alone() -> None:
    module = example()
    env: Any = costgym.make(module.SESSION, split="valid", disable_env_checker=True, **SMALL).unwrapped
    planner = module.Planner(env, futures=2, every=10)
    shares = [module.play(env, planner, 100_000) for _ in range(2)]
    assert shares[0] == shares[1] > 0.0
    episode = env.account()
    assert episode.over and all(entry[0] != "redraw" for entry in episode.log)
    assert planner.best in planner.rules


def test_every_rule_is_judged_in_the_same_futures_and_not_in_the_true_one() -> None:
    """Rules that act alike earn alike; and what they earn differs from what they would if the forks knew the future."""
    module = example()
    env: Any = costgym.make(module.SESSION, split="valid", disable_env_checker=True, **SMALL).unwrapped
    planner = module.Planner(env, futures=2)
    observation, info = env.reset(seed=0, options={"task": 100_001})
    planner.reset(env.seat(module.SESSION), observation, info, 0)
    rule = planner.rules[0]
    earned = [planner.expect(rule, observation, info) for _ in range(2)]
    true = module.finish(env.fork(), rule, observation, info)
    assert earned[0] == earned[1] != true
