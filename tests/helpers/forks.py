"""Steps of every environment from the middle of an episode on, to compare copies with their originals."""

from typing import Any

import numpy as np

from costgym.envs.actions import encode_action

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "costgym/Marketplace-v0": [
        {},
        {"scenario": "storm", "concurrent": True},
        {"scenario": "faas"},
        {"scenario": "marketplace-writes"},
    ],
    "costgym/MarketplaceChat-v0": [
        {"scenario": "storm"},
        {"scenario": "marketplace-writes"},
        {"scenario": {"extends": "storm", "source": {"candidates": {"retriever": "bm25", "k": 3}}}, "documents": "short"},
    ],
    "costgym/MarketplaceChat-v1": [{}],
    "costgym/MarketplaceSession-v1": [{}],
    "costgym/MarketplaceSessionChat-v1": [{}],
    "costgym/OpenCATP-v1": [{}],
    "costgym/OpenCATPChat-v1": [{}],
    "costgym/MarketplaceSession-v0": [{}, {"queries": 3, "memory": "raw", "mask": "legal"}],
    "costgym/MarketplaceSessionChat-v0": [{}, {"concurrent": True}],
    "costgym/OpenCATP-v0": [{}],
    "costgym/OpenCATPChat-v0": [{}],
    "costgym/OpenCATPCalls-v0": [{}, {"concurrent": True, "slots": 2, "gpu_capacity_mb": 4000.0, "cold_starts": True}],
    "costgym/DecisionAware-v0": [{}],
}
CASES = [(env_id, settings) for env_id, many in SETTINGS.items() for settings in many]


def choose(env: Any, info: dict[str, Any], luck: float) -> Any:
    if "action_mask" in info:
        allowed = np.flatnonzero(info["action_mask"])
        return int(allowed[int(luck * len(allowed))])
    world = env.unwrapped
    if "Chat" in type(world).__name__ and hasattr(world, "candidates"):
        if world.world.retriever is not None and luck < 0.3:
            return encode_action("search_tools", {"query": world.query})
        tools = [*world.candidates, *world.more_functions]
        tool = tools[int(luck * len(tools))]
        if tool.name == "cancel":
            return encode_action("cancel", {"tool": world.account().candidates[world.account().calls[-1].slot].name})
        if world.world.writes:  # what the task wants, so that there are effects
            served = world.account().candidates[int(luck * len(tools))].needs
            return encode_action(tool.name, world.account().needs[served[0]].arguments if served else {})
        return encode_action(tool.name, dict.fromkeys(tool.parameters.get("required", ()), "x"))
    return '["image_captioning", ["input_of_query"]]'


def as_lists(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: as_lists(value) for key, value in values.items()}
    return values.tolist() if isinstance(values, np.ndarray) else values


def go_on(env: Any, info: dict[str, Any], seed: int, steps: int = 40) -> list[Any]:
    """What happens next, over the ends of episodes, under actions that `seed` draws."""
    generator, log = np.random.default_rng(seed), []
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(choose(env, info, generator.random()))
        log.append((as_lists(observation), reward, terminated, truncated, as_lists(info)))
        if terminated or truncated:
            observation, info = env.reset()
            log.append((as_lists(observation), as_lists(info)))
    return log
