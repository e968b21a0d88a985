"""Play an episode of the running server to its highest reward: the oracle that `openenv.yaml` declares.

It solves the same task under the same seed in this process, knowing what serves it, and repeats the calls on the server. In the
container: `python /app/costgym/examples/openenv_hub/oracle.py`. Agents reach the server, not this file.
"""

import json
import os
import sys
from typing import Any

from websockets.sync.client import connect

from costgym.experiments.play.text_episode import ToolEpisode, task_rows
from costgym.experiments.train.sft.episodes import solve
from costgym.simulators.scenario import load_scenario

SEED = 0


def solution(scenario: str, split: str, budget: str) -> tuple[str, list[dict[str, Any]]]:
    """The first task that can be solved within the budget, and the calls that do."""
    world = load_scenario(scenario)
    for row in task_rows(world, split):
        episode = ToolEpisode(row["task"], SEED, world, budget, split=split)
        calls: list[dict[str, Any]] = []

        def say(name: str, arguments: dict[str, Any], episode: ToolEpisode = episode, calls: list[Any] = calls) -> None:
            calls.append({"name": name, "arguments": arguments})
            episode.call(name, arguments)

        if solve(episode.env.account(), episode.env.quotes(), lambda: 0.5, say, lambda: episode.over) and episode.passed:  # noqa: B023
            return row["task"], calls
    raise SystemExit(f"no task of {scenario} can be solved within {budget}")


def main(address: str = "ws://127.0.0.1:8000/ws") -> None:
    """Play it, and print the reward."""
    world = {name: os.environ[f"COSTGYM_{name.upper()}"] for name in ("scenario", "split", "budget")}
    task, calls = solution(**world)
    with connect(address, max_size=None) as socket:

        def ask(kind: str, data: dict[str, Any]) -> Any:
            socket.send(json.dumps({"type": kind, "data": data}))
            return json.loads(socket.recv())["data"]

        ask("reset", {"seed": SEED, "task": task})
        total = sum(ask("step", call)["reward"] for call in calls)
    print(f"{task}: {total:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
