"""The marketplace as a resources server of NeMo Gym, for its `gymnasium_agent`: tools are function calls of the model.

The data set's rows hold the tools of their tasks, with the task and the seed beside them; `write_rows` makes the file:

    python -m costgym.experiments.serve.adapters.nemo_gym_server rows train.jsonl
    python -m costgym.experiments.serve.adapters.nemo_gym_server            # NeMo Gym starts the server like this

Source: NeMo Gym 0.7, `resources_servers.gymnasium`. It needs Python 3.13.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nemo_gym.openai_utils import NeMoGymResponse
from resources_servers.gymnasium import GymnasiumServer, extract_text

from ....agents.models.base import Function, FunctionCall
from ....simulators.draws import stable_integer
from ....simulators.errors import CostGymError
from ...play.files import write_atomically
from ...play.text_episode import ToolEpisode, task_rows

SETTINGS = ("scenario", "budget", "split", "documents", "grading", "enforcement")
"""Columns of a row, besides `task` and `seed`, that are arguments of the episode."""


class MarketplaceServer(GymnasiumServer):  # type: ignore[misc]
    """Plays an episode for each session. The reward is the Quality of Plan, of which each step brings its part."""

    ray_enabled = False

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str | None, dict[str, Any]]:
        """Begin the episode of a row; its prompt and its tools are in the row already."""
        self._cleanup_session(session_id)
        if "task" not in metadata:
            raise CostGymError(f"expected a row with task and seed, got the columns {', '.join(sorted(metadata)) or 'none'}")
        settings = {name: metadata[name] for name in SETTINGS if metadata.get(name) is not None}
        self.session_state[session_id] = ToolEpisode(metadata["task"], int(metadata.get("seed", 0)), **settings)
        return None, {"task": metadata["task"]}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Play a response: its function calls, side by side, or nothing but a reminder where it holds none."""
        episode: ToolEpisode = self.session_state[session_id]
        asked = [item for item in action.output if item.type == "function_call"]
        before = episode.reward
        messages = episode.say(extract_text(action), [FunctionCall(item.name, item.arguments, item.call_id) for item in asked])
        reward = episode.reward - before
        if episode.over:
            return None, reward, True, False, episode.score()
        if not asked:
            return messages[0]["content"], reward, False, False, {}
        outputs = [
            {"call_id": item.call_id, "output": message["content"]} for item, message in zip(asked, messages, strict=True)
        ]
        return None, reward, False, False, {"tool_outputs": outputs}


def write_rows(
    path: str | Path, agent: str = "costgym_agent", tasks: int | None = None, rounds: int = 1, seed: int = 0, **settings: Any
) -> Path:
    """Write a data set as NeMo Gym reads it, one JSON object a line.

    Args:
        path: the file.
        agent: name of the agent server in NeMo Gym's configuration.
        tasks: number of tasks from the start of the split; None for all.
        rounds: rows of each task, each with a seed of its own.
        seed: base seed of the rows' seeds.
        settings: arguments of `ToolEpisode` that go into the rows, such as `split="train"` and `budget="price=20"`.
    """
    lines = []
    for turn in range(rounds):
        for row in task_rows(settings.get("scenario", "marketplace"), settings.get("split", "train"), tasks):
            number = stable_integer(seed, "nemo", row["task"], turn) % 2**31
            episode = ToolEpisode(row["task"], number, **settings)
            asked = {"input": episode.prompt(), "tools": [_tool(function) for function in episode.functions]}
            about = {"task": row["task"], "seed": number, **settings}
            reference = {"type": "responses_api_agents", "name": agent}
            lines.append(json.dumps({"responses_create_params": asked, **about, "agent_ref": reference}))
    write_atomically(Path(path), "".join(f"{line}\n" for line in lines))
    return Path(path)


def _tool(function: Function) -> dict[str, Any]:
    return {"type": "function", "strict": False, **function.document()["function"]}


if __name__ == "__main__":
    if sys.argv[1:2] == ["rows"]:
        print(write_rows(sys.argv[2], budget="price=20", split="train"))
    else:
        MarketplaceServer.run_webserver()
