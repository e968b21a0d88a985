"""Export chat episodes in formats that other tools read: ATIF, chat messages as JSON lines, and ShareGPT.

The system message states the price of each call and the budget, so that a model trained on it learns to spend within one.

Sources: ATIF v1.7, Harbor's Agent Trajectory Interchange Format; ShareGPT with tools as LLaMA-Factory reads it.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from costgym.agents.models.base import ASSISTANT, FINISH, SYSTEM, TOOL, USER
from costgym.agents.prompts import COSTS, NEWS, REMAINING
from costgym.experiments.play.export.messages import conversation, need_text
from costgym.experiments.play.trajectories.replay import ReplayedEpisode, replayed
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.files import finished_folder, write_lines
from costgym.simulators.status import Origin

ATIF = "ATIF-v1.7"
ONLY = ("clean", "passed", "all")  # clean: passed within the budget without an error of the agent's
Messages = list[dict[str, Any]]


def to_atif(path: str | Path, out: str | Path, **options: Any) -> Path:
    """Export ATIF trajectories: a folder with a file for each episode, or a `.jsonl` file; the rest as for `to_jsonl`."""
    target = Path(out)
    if target.suffix == ".jsonl":
        return write_lines(target, _documents(_atif, path, **options))
    with finished_folder(target) as draft:
        for count, document in enumerate(_documents(_atif, path, **options)):
            (draft / f"{count:06}.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return target


def to_jsonl(path: str | Path, out: str | Path, **options: Any) -> Path:
    """Export chat messages with tools, budget and prices, a JSON line for each episode; options `only` (clean by default,
    passed, all), `data` and `progress`. Raises UnknownName or, if the trajectories do not replay, DataError."""
    return write_lines(Path(out), _documents(_chat, path, **options))


def to_sharegpt(path: str | Path, out: str | Path, **options: Any) -> Path:
    """Export ShareGPT conversations with function calls, a JSON line for each episode; the rest as for `to_jsonl`."""
    return write_lines(Path(out), _documents(_sharegpt, path, **options))


def _documents(
    convert: Callable[[ReplayedEpisode], Any],
    path: str | Path,
    only: str = "clean",
    data: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Any]:
    check_known("choice of episodes", only, ONLY)
    count = 0
    for played in replayed(path, data):
        need_text(played.header.env, "atif, jsonl and sharegpt")
        if only == "all" or (played.passed and (only == "passed" or _is_clean(played))):
            count += 1
            yield convert(played)
            if progress is not None:
                progress(count)
    if not count:
        raise ConfigError("--only", f"{path} holds no {only} episode; expected one of {', '.join(ONLY)}")


def _is_clean(played: ReplayedEpisode) -> bool:
    return not played.recorded.crash and all(call.status.origin is not Origin.AGENT for call in played.episode.calls)


def _briefed(played: ReplayedEpisode) -> tuple[Messages, Messages, Messages, dict[str, Any]]:
    """Prompt with prices and budget, the messages after it, tools, and what is known of the episode."""
    prompt, answers, tools = conversation(played)
    recorded, env = played.recorded, played.env.unwrapped
    # prices change in an episode: those at its beginning are what the agent was told
    env.reset(seed=recorded.seed, options={"task": recorded.number, **recorded.options})
    world: Any = env
    prices, budget = world.quotes(), played.episode.budget.as_dict()
    content = f"{prompt[0]['content']}\n{COSTS}{json.dumps(prices)}\n{REMAINING}{json.dumps(budget) if budget else 'no limit'}"
    final, tokens = recorded.final, played.episode.ledger.tokens_by_class()
    if not (tokens["cached_tokens"] or tokens["cache_write_tokens"] or tokens["reasoning_tokens"]):
        tokens = {}  # all of them are plain input and output
    about = {
        "task": recorded.task, "seed": recorded.seed, "agent": recorded.agent, "model": recorded.model, "passed": played.passed,
        "price": final["price"], "seconds": final["seconds"], "currency": world.scenario.currency, "budget": budget,
        "prices": prices, "scenario": world.scenario.name, **({"tokens": tokens} if tokens else {}),
    }  # fmt: skip
    return [{"role": SYSTEM, "content": content}, *prompt[1:]], answers, tools, about


def _chat(played: ReplayedEpisode) -> dict[str, Any]:
    prompt, answers, tools, about = _briefed(played)
    return {"messages": [*prompt, *answers], "tools": tools, **about}


def _atif(played: ReplayedEpisode) -> dict[str, Any]:
    prompt, answers, tools, about = _briefed(played)
    steps: list[dict[str, Any]] = []
    for message in [*prompt, *answers]:
        if message["role"] == TOOL:
            results = steps[-1].setdefault("observation", {"results": []})["results"]
            results.append({"source_call_id": message["tool_call_id"], "content": message["content"]})
            continue
        source = "agent" if message["role"] == ASSISTANT else message["role"]
        step: dict[str, Any] = {"step_id": len(steps) + 1, "source": source, "message": message["content"]}
        if calls := message.get("tool_calls"):
            step["tool_calls"] = [
                {
                    "tool_call_id": call["id"],
                    "function_name": call["function"]["name"],
                    "arguments": call["function"]["arguments"],
                }
                for call in calls
            ]
        steps.append(step)
    name = f"{about['scenario']}/{about['task']}/{about['seed']}/{about['agent']}"
    model = {"model_name": about["model"]} if about["model"] else {}
    tokens = played.episode.ledger.tokens_by_class()
    return {
        "schema_version": ATIF,
        "session_id": name,
        "agent": {"name": about["agent"], "version": played.header.version, **model, "tool_definitions": tools},
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": tokens["input_tokens"],
            "total_completion_tokens": tokens["output_tokens"],
            **({"total_cached_tokens": tokens["cached_tokens"]} if tokens["cached_tokens"] else {}),
            "total_steps": len(steps),
        },
        "extra": about,
    }


def _sharegpt(played: ReplayedEpisode) -> dict[str, Any]:
    prompt, answers, tools, about = _briefed(played)
    turns = [{"from": "human", "value": prompt[1]["content"]}]
    for message in answers:
        calls = [call["function"] for call in message.get("tool_calls", ())]
        if message["role"] == TOOL and turns[-1]["from"] == "observation":
            turns[-1]["value"] += f"\n{message['content']}"  # of calls side by side
        elif message["role"] == TOOL:
            turns.append({"from": "observation", "value": message["content"]})
        elif message["role"] == USER and turns[-1]["from"] == "observation":
            turns[-1]["value"] += f"\n{NEWS}{message['content']}"
        elif message["role"] == USER:
            turns.append({"from": "human", "value": message["content"]})
        elif calls and calls[0]["name"] == FINISH.name:
            turns.append({"from": "gpt", "value": calls[0]["arguments"]["answer"]})
        elif calls:
            turns.append({"from": "function_call", "value": json.dumps(calls if len(calls) > 1 else calls[0])})
        else:
            turns.append({"from": "gpt", "value": message["content"]})
    offered = [tool["function"] for tool in tools if tool["function"]["name"] != FINISH.name]
    return {"system": prompt[0]["content"], "conversations": turns, "tools": json.dumps(offered), **about}
