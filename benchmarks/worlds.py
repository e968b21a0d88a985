"""Measure version 1 of the world against version 0: equal numbers, masks that can be sampled, chat actions that can be read.

    python benchmarks/worlds.py steps --steps 1000000   # native batches of both versions, step by step
    python benchmarks/worlds.py spaces                  # check_env and sample(mask) of all ids of version 1

`steps` plays random allowed actions in native batches of `Marketplace-v0` over the same scenario in both versions, and counts
the steps of which an observation, a reward, an end, a cost or a mask differs.
"""

import argparse
import json
import warnings
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
from gymnasium.utils.env_checker import check_env

import costgym
from costgym.envs.actions import read_action
from costgym.envs.opencatp.chat import read_plan_action
from costgym.simulators.scenario import load_scenario

SCENARIOS = ("marketplace", "storm", "marketplace-extreme", "marketplace-writes", "faas")
COUNT = 512  # environments of a batch


def different(scenario: str, steps: int) -> tuple[int, int]:
    """The steps played in both versions of a scenario's world, and those that differ."""
    versions = [load_scenario(scenario).in_world(version) for version in (0, 1)]
    batches: list[Any] = [costgym.make_vec("costgym/Marketplace-v0", COUNT, scenario=world) for world in versions]
    generator, differ, rounds = np.random.default_rng(0), 0, -(-steps // COUNT)
    (seen, info), (other, its_info) = (batch.reset(seed=0) for batch in batches)
    for _ in range(rounds):
        luck = generator.random(info["action_mask"].shape)
        actions = np.where(info["action_mask"], luck, -1.0).argmax(axis=1)
        (seen, reward, ended, cut, info), (other, its_reward, its_end, its_cut, its_info) = (
            batch.step(actions) for batch in batches
        )
        unequal = (reward != its_reward) | (ended != its_end) | (cut != its_cut)
        for name, array in seen.items():
            unequal |= (array != other[name]).reshape(COUNT, -1).any(axis=1)
        for name, array in info.items():
            unequal |= (array != its_info[name]).reshape(COUNT, -1).any(axis=1)
        differ += int(unequal.sum())
    for batch in batches:
        batch.close()
    return rounds * COUNT, differ


def readable(env_id: str, text: str) -> bool:
    """Whether a text is an action that the environment can read."""
    if "OpenCATP" in env_id:
        return read_plan_action(text)[0] is not None
    action = read_action(text)
    return action.kind != "call" or all(call.status is None for call in action.calls)


def space(env_id: str, samples: int) -> dict[str, Any]:
    """Whether an id passes Gymnasium's check, and what samples of its action space are worth."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):  # it draws an episode too
        warnings.simplefilter("ignore")
        check_env(costgym.make(env_id).unwrapped)
    env = costgym.make(env_id)
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    good = 0
    for _ in range(samples):
        action = env.action_space.sample(info["action_mask"]) if "action_mask" in info else env.action_space.sample()
        good += bool(info["action_mask"][action]) if "action_mask" in info else readable(env_id, action)
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
    what = "allowed" if "action_mask" in info else "readable"
    return {"env": env_id, "check_env": "passes", "samples": samples, what: round(good / samples, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("steps", "spaces"))
    parser.add_argument("--steps", type=int, default=1_000_000, help="of all scenarios together")
    parser.add_argument("--samples", type=int, default=2_000, help="actions of each id")
    chosen = parser.parse_args()
    if chosen.part == "steps":
        totals = np.array([different(name, chosen.steps // len(SCENARIOS)) for name in SCENARIOS]).sum(axis=0)
        print(json.dumps({"scenarios": SCENARIOS, "steps": int(totals[0]), "differences": int(totals[1])}))
    else:
        for env_id in costgym.ENV_IDS:
            if env_id.endswith("-v1"):
                print(json.dumps(space(env_id, chosen.samples)))


if __name__ == "__main__":
    main()
