"""Price the recorded requests of small models again under three price rules, with and without a prompt cache.

    python benchmarks/recorded_bills.py run [--agents A,B,...] [--episodes 100] [--out benchmarks/results/recorded_bills.json]
    python benchmarks/recorded_bills.py page [benchmarks/results/recorded_bills.json]   # the page's table on the terminal

A record has each request's tokens and not its text, so the requests are *rebuilt by replay*: the agent plays the episode
again, and in the model's place stands the record. What a record does not say is inferred: a reply without a call has lost
its text, and a registration of EcoAct is known by the documentation that the next prompt is longer by. Estimated tokens of
the parts of a prompt are scaled to the tokens that the server counted.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import costgym
from costgym.agents.btp.experience import Experience
from costgym.agents.models.base import ACT, ASSISTANT, Function, FunctionCall, Message, Reply
from costgym.agents.models.prices import load_prices
from costgym.agents.registry import find_agent, make_agent
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import ExperienceSettings, past_uses
from costgym.experiments.play.statistics import intervals
from costgym.simulators.calls import Segment, Usage
from costgym.simulators.pricing.prompt_cache import CacheRules, ModelPrices, PrefixCache
from costgym.simulators.scenario import parse_scenario

RECORDED = Path("costgym/experiments/board/submissions/recorded")
ROWS = ("Qwen2.5-Coder-0.5B strategies", "Qwen2.5-Coder-1.5B strategies")
AGENTS = ("react", "react+ecoact", "react+btp")
AUTOMATIC, EXPLICIT = (
    load_prices("costgym/agents/models/prices/prices_2026_11.yaml").models[name] for name in ("gpt-5.1", "claude-sonnet-5")
)
RULES: dict[str, ModelPrices] = {
    "none": AUTOMATIC.model_copy(update={"cached": None, "cache": None}),
    "automatic": AUTOMATIC,
    "explicit": EXPLICIT,
    "any length": AUTOMATIC.model_copy(update={"cache": CacheRules(minimum_tokens=1)}),
}
REGISTRATION_TOKENS = (
    70  # a prompt that grows by more beside the reply has a tool's documentation more; results of errors take 30 to 60
)
RESULTS = Path("benchmarks/results/recorded_bills.json")


class RecordedModel:
    """Answers as a recorded episode's model did, and keeps the prompts that it was asked.

    Attributes:
        prompts: the parts of each request's prompt, functions first, in estimated tokens.
        usages: what the server counted.
    """

    name = "recorded"

    def __init__(self, actions: Sequence[dict[str, Any]], summarises: bool) -> None:
        self._actions = [action for action in actions if _tokens(action)]
        self._summarises = summarises
        self._registered: set[str] = set()
        self.prompts: list[list[Segment]] = []
        self.usages: list[Usage] = []

    def reset(self, seed: int) -> None:
        """Begin the episode."""

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """The reply to the next request; after the last one, the end."""
        number = len(self.usages)
        if number >= len(self._actions):
            return Reply(Message(ASSISTANT, "", (FunctionCall("finish", {"give_up": True}),)), Usage(0, 0))
        action = self._actions[number]
        self.prompts.append([(part.digest, part.tokens) for part in (*functions, *messages)])
        used = action["usage"]
        self.usages.append(Usage(used["input_tokens"], used["output_tokens"]))
        calls = () if purpose != ACT else self._calls(number, action, functions)
        text = str(action.get("arguments", {}).get("answer", "")) if purpose != ACT else ""
        return Reply(Message(ASSISTANT, text, calls), self.usages[-1])

    def _calls(self, number: int, action: dict[str, Any], functions: Sequence[Function]) -> tuple[FunctionCall, ...]:
        if action.get("name") != "think":
            written = action.get("calls", [action])
            return tuple(FunctionCall(call["name"], call["arguments"], f"call_{number}") for call in written)
        following = self._actions[number + 1] if number + 1 < len(self._actions) else None
        if self._summarises and number == len(self._actions) - 2:  # its answer was summed up by the request that followed
            return (FunctionCall("finish", {"answer": "-"}, f"call_{number}"),)
        if any(function.name == "tool_register" for function in functions) and following is not None:
            name = self._registration(number, following)
            return (FunctionCall("tool_register", {"name": name}, f"call_{number}"),)
        return ()

    def _registration(self, number: int, following: dict[str, Any]) -> str:
        """The tool that a reply registered: the next new one that is called, where documentation came in; else a known one."""
        grown = _tokens(following) - _tokens(self._actions[number]) - self._actions[number]["usage"]["output_tokens"]
        called = [action["name"] for action in self._actions[number:] if action.get("name") not in (None, "think", "finish")]
        if grown > REGISTRATION_TOKENS:
            name = next((name for name in called if name not in self._registered), "")
            self._registered.add(name)
            return name
        return next(iter(self._registered), "")


def _tokens(action: dict[str, Any]) -> int:
    return int(action.get("usage", {}).get("input_tokens", 0))


def scaled(prompt: Sequence[Segment], tokens: int) -> list[Segment]:
    """The parts of a prompt, in the tokens that the server counted for the whole."""
    whole = sum(part for _, part in prompt)
    ends = np.rint(np.cumsum([part for _, part in prompt]) * tokens / whole).astype(int)
    return [(digest, int(end)) for (digest, _), end in zip(prompt, np.diff(ends, prepend=0), strict=True)]


def rebuilt(file: Path, agent_name: str, episodes: int) -> Iterator[dict[str, Any]]:
    """The recorded episodes of an agent, with the cost of their tokens under each rule."""
    header, *lines = file.read_text(encoding="utf-8").split("\n")
    world = json.loads(header)
    scenario = parse_scenario(world["scenario"])
    env = costgym.make(world["env"], scenario=scenario, **world["settings"])
    summarises = find_agent(agent_name, world["env"]).needs_experience
    past = Experience.from_jsonl(past_uses(scenario, ExperienceSettings(), Local())) if summarises else None
    for line in [line for line in lines if line][:episodes]:
        record = json.loads(line)
        actions = [json.loads(action) for action in record["actions"]]
        model = RecordedModel(actions, summarises)
        agent = make_agent(agent_name, world["env"], model=model, experience=past)
        ((_, trajectory),) = play_many(env, agent, world["env"], [record["episode"]], record["seed"])
        assert trajectory is not None
        thought_s = [charge[0] for charge in record["charges"] if charge[1] == "think"]
        costs, shares = {}, {}
        for rule, prices in RULES.items():
            cache = PrefixCache(prices)
            usages = [
                cache.bill(scaled(prompt, usage.input_tokens), at_s, usage.output_tokens)
                for prompt, usage, at_s in zip(model.prompts, model.usages, thought_s, strict=False)
            ]
            costs[rule] = sum(map(prices.price, usages))
            shares[rule] = sum(usage.cached_tokens for usage in usages)
        yield {
            "same": list(trajectory.actions) == record["actions"],
            "requests": len(model.usages),
            "recorded_requests": sum(1 for action in actions if _tokens(action)),
            "input_tokens": sum(usage.input_tokens for usage in model.usages),
            "estimated_tokens": sum(part for prompt in model.prompts for _, part in prompt),
            "cached_tokens": shares,
            "usd_tokens": costs,
            "usd_tools": record["final"]["price"] / 100,
            "success": bool(record["final"]["strict"]) and record["final"]["exceeded"] is None,
        }


def summary(played: Sequence[dict[str, Any]], first: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean costs in US dollars, and their change from the first agent over the same tasks, with 95 % intervals."""
    tokens = sum(episode["input_tokens"] for episode in played)
    rows: dict[str, Any] = {}
    for rule in RULES:
        ours, theirs = (np.array([episode["usd_tokens"][rule] for episode in side]) for side in (played, first))
        low, high = intervals(ours[:, None], theirs[:, None], range(len(ours)), 0, 1000)
        rows[rule] = {
            "usd_tokens": float(ours.mean()),
            "change": float(ours.sum() / theirs.sum() - 1),
            "change_ci95": [float(low[0] - 1), float(high[0] - 1)],
            "cached_share": sum(episode["cached_tokens"][rule] for episode in played) / tokens,
        }
    return {
        "episodes": len(played),
        "same_actions": sum(episode["same"] for episode in played),
        "requests_missed": sum(abs(episode["recorded_requests"] - episode["requests"]) for episode in played),
        "estimated_over_counted": sum(episode["estimated_tokens"] for episode in played) / tokens,
        "requests": sum(episode["requests"] for episode in played) / len(played),
        "success": sum(episode["success"] for episode in played) / len(played),
        "usd_tools": sum(episode["usd_tools"] for episode in played) / len(played),
        "rules": rows,
    }


def run(agents: Sequence[str], episodes: int, out: Path) -> None:
    document: dict[str, Any] = {"estimated": "requests rebuilt by replay", "rows": {}}
    for row in ROWS:
        first: list[dict[str, Any]] = []
        for agent in agents:
            played = list(rebuilt(RECORDED / row / "trajectories" / "text" / f"{agent}.price=20.jsonl", agent, episodes))
            first = first or played
            document["rows"][f"{row.partition(' ')[0]}: {agent}"] = summary(played, first)
            print(row, agent, json.dumps(document["rows"][f"{row.partition(' ')[0]}: {agent}"]), flush=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def page(source: Path) -> None:
    names = {
        "none": "no cache",
        "automatic": "automatic cache",
        "explicit": "cache with paid writes",
        "any length": "any length",
    }
    print(f"| model and agent | {' | '.join(names.values())} | read from the cache | success |\n{'| --- ' * 7}|")
    for row, figures in json.loads(source.read_text(encoding="utf-8"))["rows"].items():
        cells = []
        for rule in names:
            change = figures["rules"][rule]["change"]
            low, high = figures["rules"][rule]["change_ci95"]
            moved = f" ({100 * change:+.0f} %, {100 * low:.0f} – {100 * high:.0f})" if "+" in row else ""
            cells.append(f"{1000 * figures['rules'][rule]['usd_tokens']:.2f}{moved}".replace("-", "−"))
        read = [round(100 * figures["rules"][rule]["cached_share"]) for rule in ("automatic", "any length")]
        shares = f"{read[0]} %, {read[1]} %"
        print(f"| {row} | {' | '.join(cells)} | {shares} | {100 * figures['success']:.0f} % |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "page"))
    parser.add_argument("source", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--agents", default=",".join(AGENTS), help="react first; past uses for BTP take minutes to collect")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    sys.exit(run(chosen.agents.split(","), chosen.episodes, chosen.out) if chosen.what == "run" else page(chosen.source))
