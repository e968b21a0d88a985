"""An environment's docstring, which its page in the documentation is made from, says what the environment does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.envs import decision, marketplace
from costgym.envs.opencatp import base, calls, plans
from costgym.envs.sessions import features
from costgym.simulators.sessions.rules import SessionRules
from docs.extensions.environments import _facts, arrays, environment_class, parameters, sections, shared_rows

NUMERIC = [name for name in costgym.ENV_IDS if "Chat" not in name]
SECTIONS = (
    "Description", "Action space", "Observation space", "Rewards", "Starting state", "Episode end", "Version history",
)  # fmt: skip
COLUMNS = {
    ("costgym/Marketplace-v0", "tools"): marketplace.TOOL_FEATURES,
    ("costgym/Marketplace-v0", "needs"): marketplace.NEED_FEATURES,
    ("costgym/Marketplace-v0", "resources"): marketplace.RESOURCE_FEATURES,
    ("costgym/MarketplaceSession-v0", "tools"): features.tool_features(SessionRules(), "counts"),
    ("costgym/MarketplaceSession-v0", "query"): features.query_features(SessionRules()),
    ("costgym/MarketplaceSession-v0", "resources"): features.RESOURCE_FEATURES,
    ("costgym/OpenCATP-v0", "task"): base.TASK_FEATURES,
    ("costgym/OpenCATP-v0", "tools"): plans.TOOL_FEATURES,
    ("costgym/OpenCATP-v0", "progress"): plans.PROGRESS_FEATURES,
    ("costgym/OpenCATPCalls-v0", "task"): base.TASK_FEATURES,
    ("costgym/OpenCATPCalls-v0", "tools"): calls.TOOL_FEATURES,
    ("costgym/OpenCATPCalls-v0", "resources"): calls.RESOURCE_FEATURES,
    ("costgym/DecisionAware-v0", "candidates"): decision.CANDIDATE_FEATURES,
}
TIGHT = {"price": 6.0, "seconds": 30.0, "calls": 4.0, "tokens": 3000.0}
TEXTS = ("nonsense", '{"name": "think"}', '{"name": "wait", "arguments": {"seconds": 9}}', '{"name": "no_such_tool"}', "finish")
TYPES = {"list": list, "float": float, "int": int, "bool": bool, "str": str}


def steps(env_id: str, episodes: int = 40, **settings: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Observations and infos of episodes with mostly allowed actions, their last ones included."""
    env = costgym.make(env_id, **settings)
    env.action_space.seed(0)
    generator = np.random.default_rng(0)
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        over = False
        yield observation, info
        while not over:
            if "action_mask" not in info:
                action = TEXTS[generator.integers(len(TEXTS))]
            elif generator.random() < 0.95:
                action = generator.choice(np.flatnonzero(info["action_mask"]))
            else:
                action = env.action_space.sample()
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            yield observation, info


def within(values: np.ndarray[Any, Any], stated: str) -> bool:
    """Whether all values lie in a range as the tables write it."""
    if stated == "0 or 1":
        return bool(np.isin(values, (0, 1)).all())
    if found := re.fullmatch(r"([≥≤]) (-?[\d.]+)", stated):
        limit = float(found[2])
        return bool((values >= limit).all() if found[1] == "≥" else (values <= limit).all())
    found = re.fullmatch(r"(-?[\d.]+) to (-?[\d.]+)", stated)
    assert found, f"no range: {stated}"
    return bool((values >= float(found[1])).all() and (values <= float(found[2])).all())


def columns(stated: str, width: int) -> slice:
    """The columns that a row of a table is about."""
    if stated == "all":
        return slice(0, width)
    first, _, last = stated.partition(" ")
    return slice(int(first), width if last == "on" else int(last.removeprefix("to ") or first) + 1)


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_a_docstring_has_every_section(env_id: str) -> None:
    found = sections(environment_class(env_id))
    assert [title for title in SECTIONS if not found.get(title)] == []
    assert "\n" not in found[""], "the summary is one line, which `costgym envs` prints"


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_every_argument_is_described_and_no_other(env_id: str) -> None:
    cls = environment_class(env_id)
    assert sorted(row["argument"].strip("`") for row in shared_rows(cls, "Arguments")) == sorted(parameters(cls))


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_every_key_of_info_is_described_with_its_type(env_id: str) -> None:
    described = {row["key"].strip("`"): row["type"] for row in shared_rows(environment_class(env_id), "Information")}
    for cost in ("price", "calls"):
        for _, info in steps(env_id, 5, cost=cost):
            assert set(info) == set(described)
            for key, value in info.items():
                if described[key] == "bool array":
                    assert isinstance(value, np.ndarray) and value.dtype == np.bool_, key
                else:
                    assert type(value) in [TYPES[name] for name in described[key].split(" or ")], (key, type(value))


@pytest.mark.parametrize("env_id", NUMERIC)
def test_every_array_of_the_observation_is_described_to_its_last_column(env_id: str) -> None:
    space = costgym.make(env_id).observation_space
    described = arrays(environment_class(env_id))
    assert isinstance(space, gym.spaces.Dict) and sorted(described) == sorted(space.spaces)
    for name, rows in described.items():
        assert space[name].shape is not None
        width = space[name].shape[-1]
        told = [column for row in rows for column in range(*columns(row["column"], width).indices(width))]
        assert told == list(range(width)), name
        names = tuple(row["name"].strip("`") for row in rows if row["column"].isdigit())
        if (env_id, name) in COLUMNS:
            assert names == COLUMNS[env_id, name]


@pytest.mark.parametrize("settings", [{}, {"budget": TIGHT}], ids=["default", "tight"])
@pytest.mark.parametrize("env_id", NUMERIC)
def test_observations_keep_to_the_ranges_described(env_id: str, settings: dict[str, Any]) -> None:
    described = arrays(environment_class(env_id))
    for observation, _ in steps(env_id, **settings):
        for name, rows in described.items():
            for row in rows:
                values = observation[name][..., columns(row["column"], observation[name].shape[-1])]
                assert within(values, row["range"]), (name, row["name"], row["range"], values)


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_the_facts_of_a_page_are_rows_of_one_line(env_id: str) -> None:
    rows = _facts(env_id, costgym.make(env_id))
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 and "\n" not in row and len(row) < 160 for row in rows), rows
