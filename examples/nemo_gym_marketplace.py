"""The marketplace as a resources server of NeMo Gym, for its `gymnasium_agent`: tools are function calls of the model.

The data set's rows hold the tools of their tasks, with the task and the seed beside them; `write_rows` makes the file:

    python examples/nemo_gym_marketplace.py rows train.jsonl
    python examples/nemo_gym_marketplace.py            # NeMo Gym starts the server like this

Source: NeMo Gym 0.7, `resources_servers.gymnasium`. It needs Python 3.13.
"""

import sys
from pathlib import Path
from typing import Any

from nemo_gym.openai_utils import NeMoGymResponse
from resources_servers.gymnasium import GymnasiumServer, extract_text

from costgym.agents.models.base import FunctionCall
from costgym.experiments.play.text_episode import Row, TextWorld, ToolEpisode
from costgym.simulators.errors import InfrastructureError


class MarketplaceServer(GymnasiumServer):  # type: ignore[misc]
    """Plays an episode for each session. The reward is the Quality of Plan, of which each step brings its part."""

    ray_enabled = False

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str | None, dict[str, Any]]:
        """Begin the episode of a row; its prompt and its tools are in the row already."""
        self._cleanup_session(session_id)
        self.session_state[session_id] = ToolEpisode.of_row(metadata)
        return None, {"task": metadata["task"]}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Play a response: its function calls, in parallel, or a reminder if it contains none."""
        episode: ToolEpisode = self.session_state[session_id]
        items = [item for item in action.output if item.type == "function_call"]
        calls = [FunctionCall(item.name, item.arguments, item.call_id) for item in items]
        try:
            messages = episode.say(extract_text(action), calls)
        except InfrastructureError as error:  # not the model's play: nothing is to be learnt from it
            return None, 0.0, True, False, {"failure_reason": f"infrastructure: {error}", "mask_sample": True}
        if episode.over:
            return None, episode.step_reward(), True, False, {**episode.score(), **failure_of(episode.score())}
        if not items:
            return messages[0]["content"], episode.step_reward(), False, False, {}
        outputs = [{"call_id": item.call_id, "output": answer["content"]} for item, answer in zip(items, messages, strict=True)]
        return None, episode.step_reward(), False, False, {"tool_outputs": outputs}


def failure_of(score: Row) -> Row:
    """Why an episode failed, as NeMo Gym's rollouts state it; what the model did itself is never masked."""
    if score["success"]:
        return {"failure_reason": None, "mask_sample": False}
    return {"failure_reason": "answer" if score["within_budget"] else "over budget", "mask_sample": False}


def write_rows(path: str | Path, agent: str = "costgym_agent", rounds: int = 1, **settings: Any) -> Path:
    """Write a data set as NeMo Gym reads it, one JSON object per line, for the agent server of that name; settings as for
    `TextWorld`, such as `tasks=100` and `budget="price=20"`."""

    def columns(episode: ToolEpisode) -> Row:
        tools = [{"type": "function", "strict": False, **function.document()["function"]} for function in episode.functions]
        request = {"input": episode.prompt(), "tools": tools}
        return {"responses_create_params": request, "agent_ref": {"type": "responses_api_agents", "name": agent}}

    return TextWorld(rounds=rounds, **settings).write(path, columns)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rows"]:
        print(write_rows(sys.argv[2], budget="price=20"))
    else:
        MarketplaceServer.run_webserver()
