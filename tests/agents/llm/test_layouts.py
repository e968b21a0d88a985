"""Layouts for caches of prompts: what stands first stays, and a summary takes the place of a long conversation."""

import json
from itertools import pairwise
from typing import Any

import pytest

import costgym
from costgym.agents.btp.experience import Experience
from costgym.agents.llm.layouts import CALL, EcoActAppend
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import ReAct
from costgym.agents.models.base import FunctionCall, Message, Reply
from costgym.agents.models.cached import Measured
from costgym.agents.registry import make_agent, read_agent_name
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import play
from costgym.experiments.play.experience import ExperienceSettings, collect_experience
from costgym.experiments.play.trajectories.record import record
from costgym.simulators.errors import UnknownName
from costgym.simulators.pricing.usage import Prompt, Usage

CHAT = "costgym/MarketplaceChat-v1"


@pytest.fixture(scope="module")
def env() -> Any:
    return costgym.make(CHAT, scenario="marketplace-small", enforcement="record")


@pytest.fixture(scope="module")
def past(env: Any) -> Experience:
    return collect_experience(base_env(env).scenario, ExperienceSettings(uses=0.05))  # type: ignore[attr-defined]


def prompts_of(env: Any, name: str, tasks: int, past: Experience | None = None) -> list[list[Prompt]]:
    """The prompts of each task's requests."""
    agent = make_agent(name, CHAT, experience=past)
    episodes = [play(env, agent, base_env(env).numbers[task], 3) for task in range(tasks)]
    return [[entry[1].prompt for entry in episode.log if entry[0] == "think" and entry[1].prompt] for episode in episodes]


def share_kept(episodes: list[list[Prompt]], ending: int) -> float:
    """The share of requests that begin with the whole request before, but for so many parts at its end."""
    reused = [
        after.same >= before.same + len(before.parts) - ending for prompts in episodes for before, after in pairwise(prompts)
    ]
    return sum(reused) / len(reused)


@pytest.mark.parametrize(
    ("name", "ending"), [("react", 0), ("react+ecoact-append", 0), ("react+prompt-end", 1), ("react+btp-stable", 1)]
)
def test_a_request_begins_with_the_one_before(env: Any, past: Experience, name: str, ending: int) -> None:
    episodes = prompts_of(env, name, 12, past)
    if "btp" in name:  # the final summary is another prompt
        episodes = [prompts[:-1] for prompts in episodes]
    assert share_kept(episodes, ending) == 1.0


@pytest.mark.parametrize("name", ["react+ecoact", "react+prompt", "react+btp"])
def test_the_papers_forms_do_not(env: Any, past: Experience, name: str) -> None:
    assert share_kept(prompts_of(env, name, 12, past), 1) < 0.8


def test_a_call_through_the_lists_own_function_is_the_call_that_is_meant() -> None:
    access, inner = EcoActAppend(), {"name": "weather", "arguments": {"city": "Rome"}}
    assert access.unwrap(FunctionCall(CALL.name, json.dumps(inner), "7")) == FunctionCall("weather", {"city": "Rome"}, "7")
    broken = FunctionCall(CALL.name, "no JSON")
    assert access.unwrap(broken) is broken


def test_a_long_conversation_gives_way_to_a_summary(env: Any) -> None:
    agent = make_agent("react+compact", CHAT)
    agent._access[0].compact_above = 400  # type: ignore[attr-defined]
    trajectories = [record(env, agent, base_env(env).numbers[task], 3, task)[0] for task in range(12)]
    actions = [json.loads(action) for trajectory in trajectories for action in trajectory.actions]
    summaries = [number for number, action in enumerate(actions) if action.get("name") == "compact"]
    tokens = [action.get("usage", {}).get("input_tokens", 0) for action in actions]
    assert summaries and all(actions[number]["arguments"]["summary"] for number in summaries)
    assert any(tokens[number + 1] < tokens[number - 1] for number in summaries)


def test_only_one_form_of_an_access_is_taken() -> None:
    for name in ("react+prompt+prompt-end", "react+btp+btp-stable", "react+ecoact+ecoact-append"):
        with pytest.raises(UnknownName):
            read_agent_name(name)


class Served:
    """A model behind a server, which says of each prompt what its cache has served."""

    name, reports_cache = "served", True

    def reset(self, seed: int) -> None:
        pass

    def complete(self, messages: Any, functions: Any, purpose: str = "") -> Reply:
        return Reply(Message("assistant", "", (FunctionCall("finish", {"answer": "x"}),)), Usage(5000, 10, cached_tokens=4000))


def test_what_a_server_reports_of_its_cache_stands(env: Any) -> None:
    agent = LlmAgent(Measured(Served()), ReAct(), env_id=CHAT)
    (usage,) = play(env, agent, base_env(env).numbers[0], 3).ledger.usages
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (5000, 4000, 0)
