"""The marketplace as an environment of SkyRL: text in, text out, with calls in `<tool_call>` tags.

Importing this module registers `costgym`. A row of the data set names a task and a seed; `write_data` makes the files that
SkyRL's trainer reads:

    python -m costgym.experiments.serve.adapters.skyrl DIR          # DIR/train.parquet, DIR/validation.parquet
    ... trainer.train_data="['DIR/train.parquet']" environment.env_class=costgym

Source: SkyRL-gym 0.4, text environments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType
from skyrl_gym.envs.registration import register, registry

from ....agents.models.local import read_calls
from ....simulators.draws import stable_integer
from ...play.text_episode import ToolEpisode, task_rows, text_prompt

ID = "costgym"
SETTINGS = ("scenario", "budget", "split", "documents", "grading", "enforcement", "level", "max_observation")


class MarketplaceTextEnv(BaseTextEnv):  # type: ignore[misc]
    """An episode of the marketplace. Its reward is the Quality of Plan, of which each turn brings its part.

    Args:
        env_config: arguments of `ToolEpisode` besides `task` and `seed`, such as `budget: price=20`.
        extras: the columns of the row: `task` and `seed`, and any argument that differs from `env_config`; `max_turns`.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        extras = dict(extras or {})
        given = {**dict(env_config or {}), **extras}
        self.max_turns = int(given.get("max_turns") or 32)
        self._task, self._seed = extras["task"], int(extras.get("seed", 0))
        self._settings = {"documents": "short", **{name: given[name] for name in SETTINGS if given.get(name) is not None}}
        self.episode: ToolEpisode | None = None

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """Begin the episode. Its prompt takes the place of the row's: it holds the tools and their prices."""
        self.turns, self._given = 0, 0.0
        self.episode = ToolEpisode(self._task, self._seed, **self._settings)
        return text_prompt(self.episode), {"task": self._task, "seed": self._seed}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play a reply of the model: its calls, or nothing but a reminder where it holds none."""
        assert self.episode is not None, "init comes first"
        self.turns += 1
        messages = self.episode.say(*read_calls(action))
        done = self.episode.over or self.turns >= self.max_turns
        if done:
            self.episode.score()  # an episode that is cut off is given up
        reward, self._given = self.episode.reward - self._given, self.episode.reward
        told = [{"role": "user", "content": _wrap(message)} for message in messages]
        return BaseTextEnvStepOutput(observations=[] if done else told, reward=reward, done=done, metadata={})

    def get_metrics(self) -> dict[str, Any]:
        """The figures of the episode: success within the budget, price, calls and so on."""
        return {} if self.episode is None else dict(self.episode.score())


def _wrap(message: Mapping[str, Any]) -> str:
    if message["role"] != "tool":
        return str(message["content"])
    return f"<tool_response>\n{message['content']}\n</tool_response>"


def write_data(
    folder: str | Path, tasks: int | None = None, rounds: int = 4, validation: int = 100, seed: int = 0, **settings: Any
) -> tuple[Path, Path]:
    """Write the data set as SkyRL reads it: `train.parquet` and `validation.parquet`.

    Args:
        folder: where the files go.
        tasks: number of training tasks; None for all of the split.
        rounds: rows of each training task, each with a seed of its own.
        validation: number of tasks of the test split.
        seed: base seed of the rows' seeds.
        settings: arguments of `ToolEpisode` that go into the rows.
    """
    import datasets

    scenario, out = settings.get("scenario", "marketplace"), []
    for name, split, count, turns in (("train", "train", tasks, rounds), ("validation", "test", validation, 1)):
        rows = [
            {
                "prompt": [{"role": "user", "content": row["query"]}],
                "env_class": ID,
                "task": row["task"],
                "seed": stable_integer(seed, ID, row["task"], turn) % 2**31,
                "split": split,
                **settings,
            }
            for turn in range(turns)
            for row in task_rows(scenario, split, count)
        ]
        out.append(Path(folder) / f"{name}.parquet")
        out[-1].parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows).to_parquet(str(out[-1]))
    return out[0], out[1]


if ID not in registry:
    register(id=ID, entry_point=f"{MarketplaceTextEnv.__module__}:{MarketplaceTextEnv.__qualname__}")

if __name__ == "__main__":
    print(*write_data(sys.argv[1] if len(sys.argv) > 1 else "."), sep="\n")
