"""The marketplace as an environment of SkyRL: text in, text out, with calls in `<tool_call>` tags.

Importing this module registers `costgym`. A row of the data set names a task and a seed; `write_data` makes the files that
SkyRL's trainer reads:

    python examples/skyrl_marketplace.py DIR          # DIR/train.parquet, DIR/validation.parquet
    ... trainer.train_data="['DIR/train.parquet']" environment.env_class=costgym

Source: SkyRL-gym 0.4, text environments.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType
from skyrl_gym.envs.registration import register, registry

from costgym.agents.models.call_forms import read_calls
from costgym.experiments.play.text_episode import TextWorld, ToolEpisode, text_prompt

ID = "costgym"


class MarketplaceTextEnv(BaseTextEnv):  # type: ignore[misc]
    """An episode of the marketplace; each turn brings its part of the reward, the Quality of Plan. `env_config` are arguments
    of `ToolEpisode`, such as `budget: price=20`; `extras` are the row's columns, which come first, and `max_turns`."""

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._row = {**dict(env_config or {}), **dict(extras or {})}
        self.max_turns = int(self._row.get("max_turns") or 32)
        self.episode: ToolEpisode | None = None

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """Begin the episode. Its prompt replaces the row's, because it contains the tools and their prices."""
        self.turns = 0
        self.episode = ToolEpisode.of_row(self._row, documents="short")
        return text_prompt(self.episode), {"task": self._row["task"], "seed": self._row.get("seed", 0)}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play a reply of the model: its calls, or a reminder if it contains none."""
        assert self.episode is not None, "init comes first"
        self.turns += 1
        text, calls, _ = read_calls(action)
        messages = self.episode.say(text, calls)
        done = self.episode.over or self.turns >= self.max_turns
        answers = [] if done else [{"role": "user", "content": _wrap(message)} for message in messages]
        return BaseTextEnvStepOutput(observations=answers, reward=self.episode.step_reward(), done=done, metadata={})

    def get_metrics(self) -> dict[str, Any]:
        """The figures of the episode: success within the budget, price, calls and so on."""
        return {} if self.episode is None else dict(self.episode.score())


def _wrap(message: Mapping[str, Any]) -> str:
    text = str(message["content"])
    return f"<tool_response>\n{text}\n</tool_response>" if message["role"] == "tool" else text


def write_data(
    folder: str | Path, tasks: int | None = None, rounds: int = 4, validation: int = 100, **settings: Any
) -> list[Path]:
    """Write the data set as SkyRL reads it: `train.parquet`, and `validation.parquet` with so many tasks of the test split;
    settings as for `TextWorld`."""
    sizes = {"train": ("train", tasks, rounds), "validation": ("test", validation, 1)}
    return [
        TextWorld(split=split, tasks=count, rounds=turns, **settings).write(
            Path(folder) / f"{name}.parquet", lambda episode: {"prompt": text_prompt(episode), "env_class": ID}
        )
        for name, (split, count, turns) in sizes.items()
    ]


if ID not in registry:
    register(id=ID, entry_point=f"{MarketplaceTextEnv.__module__}:{MarketplaceTextEnv.__qualname__}")

if __name__ == "__main__":
    print(*write_data(sys.argv[1] if len(sys.argv) > 1 else "."), sep="\n")
