"""An environment's docstring, which its page in the documentation is made from, says what the environment does."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.envs import columns
from costgym.envs.wrappers import MaskObservation
from docs.extensions.environments import PAGES, arrays, environment_class, parameters, sections, shared_rows, with_facts

NUMERIC = [name for name in costgym.ENV_IDS if "Chat" not in name]
SECTIONS = (
    "Description", "Action space", "Observation space", "Rewards", "Starting state", "Episode end", "Version history",
)  # fmt: skip
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
    if match := re.fullmatch(r"([≥≤]) (-?[\d.]+)", stated):
        limit = float(match[2])
        return bool((values >= limit).all() if match[1] == "≥" else (values <= limit).all())
    match = re.fullmatch(r"(-?[\d.]+) to (-?[\d.]+)", stated)
    assert match, f"no range: {stated}"
    return bool((values >= float(match[1])).all() and (values <= float(match[2])).all())


def stated_columns(stated: str, width: int) -> slice:
    """The columns that a row of a table is about."""
    if stated == "all":
        return slice(0, width)
    first, _, last = stated.partition(" ")
    return slice(int(first), width if last == "on" else int(last.removeprefix("to ") or first) + 1)


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_a_docstring_has_every_section(env_id: str) -> None:
    headings = sections(environment_class(env_id))
    assert [title for title in SECTIONS if not headings.get(title)] == []
    assert "\n" not in headings[""], "the summary is one line, which `costgym envs` prints"


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
                if described[key] in ("bool array", "int8 array"):
                    assert isinstance(value, np.ndarray) and f"{value.dtype} array" == described[key], key
                else:
                    assert type(value) in [TYPES[name] for name in described[key].split(" or ")], (key, type(value))


@pytest.mark.parametrize("env_id", NUMERIC)
def test_every_array_of_the_observation_is_described_to_its_last_column(env_id: str) -> None:
    env = costgym.make(env_id)
    space, named = env.observation_space, columns(env)
    described = arrays(environment_class(env_id))
    assert isinstance(space, gym.spaces.Dict) and sorted(described) == sorted(space.spaces)
    for name, rows in described.items():
        assert space[name].shape is not None
        width = space[name].shape[-1]
        stated = [column for row in rows for column in range(*stated_columns(row["column"], width).indices(width))]
        assert stated == list(range(width)), name
        one_by_one = {row["name"].strip("`"): int(row["column"]) for row in rows if row["column"].isdigit()}
        assert one_by_one.items() <= named.get(name, {}).items(), name
        assert len(named.get(name, {})) in (len(one_by_one), width), name


FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((env_id, {}) for env_id in NUMERIC),
    ("costgym/Marketplace-v0", {"scenario": "marketplace-writes", "concurrent": True}),
    ("costgym/MarketplaceSession-v0", {"memory": "raw", "capabilities": 3}),
    ("costgym/DecisionAware-v0", {"features": 8}),
)


@pytest.mark.parametrize(("env_id", "settings"), FORMS, ids=str)
def test_columns_name_every_column_but_those_of_embeddings_tokens_and_masks(env_id: str, settings: dict[str, Any]) -> None:
    env = costgym.make(env_id, **settings)
    unnamed = {"query": 1, "action_mask": 1} if "Decision" in env_id else {"tokens": 1}
    widths = {name: space.shape[-1] for name, space in env.observation_space.spaces.items() if name not in unnamed}
    if "Decision" in env_id:
        widths["candidates"] -= env.unwrapped.features  # type: ignore[attr-defined]
    table = columns(env)
    assert {name: list(named.values()) for name, named in table.items()} == {name: list(range(n)) for name, n in widths.items()}


def test_the_columns_of_wrapped_environments_are_those_inside_and_texts_have_none() -> None:
    env = costgym.make("costgym/Marketplace-v0")
    assert columns(env) == columns(env.unwrapped) == columns(MaskObservation(env))
    assert columns(costgym.make("costgym/MarketplaceChat-v0")) == {}


def test_the_price_column_holds_the_prices_that_are_asked() -> None:
    env = costgym.make("costgym/Marketplace-v0")
    observation, _ = env.reset(seed=0)
    number = columns(env)["tools"]["price"]
    quotes = {round(candidate.quote, 4) for candidate in env.unwrapped.episode.candidates}  # type: ignore[attr-defined]
    on_offer = observation["tools"][:, columns(env)["tools"]["on_offer"]] == 1
    assert {round(10 * float(price), 4) for price in observation["tools"][on_offer, number]} == quotes


@pytest.mark.parametrize("settings", [{}, {"budget": TIGHT}], ids=["default", "tight"])
@pytest.mark.parametrize("env_id", NUMERIC)
def test_observations_keep_to_the_ranges_described(env_id: str, settings: dict[str, Any]) -> None:
    episodes = 10 if "Session" in env_id else 40
    seen = [copy.deepcopy(observation) for observation, _ in steps(env_id, episodes, **settings)]
    for name, rows in arrays(environment_class(env_id)).items():
        observed = np.stack([step[name] for step in seen])
        for row in rows:
            values = observed[..., stated_columns(row["column"], observed.shape[-1])]
            assert within(values, row["range"]), (name, row["name"], row["range"], values.min(), values.max())


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_the_tables_of_a_page_are_those_of_the_code(page: Path) -> None:
    """`python docs/extensions/environments.py` writes them again."""
    text = page.read_text(encoding="utf-8")
    assert with_facts(text) == text
