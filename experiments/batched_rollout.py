"""Play episodes of one language-model agent side by side, so that a local model replies to all of them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from ..agents.llm.agent import LlmAgent
from ..agents.models.batched import Batch, ManyAtOnce, Member
from .results import EpisodeResult
from .rollout import play_many


def rollout_batched(
    make_player: Callable[[Member], tuple[LlmAgent, gym.Env[Any, Any]]],
    model: ManyAtOnce,
    episodes: int,
    seed: int = 0,
    batch: int = 8,
    progress: Callable[[int], None] | None = None,
) -> list[EpisodeResult]:
    """Play an agent in an environment and record every episode, several at a time.

    Tasks and luck are those of `rollout`. In a batch a model pads and adds up in another order, so single replies may differ
    from those that it gives alone.

    Args:
        make_player: makes an agent of a language model, which is the seat of a batch, and an environment for it; called once
            for each episode that is played at the same time.
        model: replies to several requests at once, such as a greedy `LocalModel`.
        episodes: how many.
        seed: as in `rollout`.
        batch: greatest number of episodes at a time.
        progress: called with the number of finished episodes.

    Raises:
        Exception: what any of the episodes raised.
    """
    seats = Batch(model, min(batch, episodes))
    found: dict[int, EpisodeResult] = {}
    failures: list[BaseException] = []

    def play(first: int, member: Member) -> None:
        try:
            agent, env = make_player(member)
            for index in range(first, episodes, len(seats.members)):
                if failures:
                    break
                env_id = env.spec.id if env.spec is not None else agent.env_id
                ((result, _),) = play_many(env, agent, env_id, range(index, index + 1), seed)
                found[index] = result
                if progress is not None:
                    progress(len(found))
        except BaseException as error:
            failures.append(error)
        finally:
            member.leave()

    threads = [threading.Thread(target=play, args=(k, member), daemon=True) for k, member in enumerate(seats.members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [found[index] for index in range(episodes)]
