"""Measure which changes `costgym gate` catches, how many episodes it needs, and how often it raises a false alarm.

    python benchmarks/gate.py changes            # exit statuses and episodes of three changed agents
    python benchmarks/gate.py alarms [--runs 200] [--out benchmarks/results/gate.json]

`changes` runs the command on the agents of this file. `alarms` plays `react` under twenty seeds of the world, each with chance
of its own in five ways; pairs of these are an agent that has not changed. A true rise is the same costs times a factor.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import costgym
from costgym.agents.llm.session import LlmAgent, ToolAccess
from costgym.agents.llm.strategies import ReAct
from costgym.agents.models.simulated import Simulated
from costgym.agents.registry import make_agent
from costgym.experiments.play.costs.gate import EPISODES, BaselineEpisode, compare
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.results import outcome
from costgym.simulators.draws import stable_integer

ENV, BUDGET = "costgym/MarketplaceChat-v1", {"price": 60.0}
WORDS = "Think about the costs of each of the tools before you call one. "
LONGER = 310  # times that these words stand in the prompt: the whole bill is 8 % dearer
RETRIES = 2
WAYS, RISES, JOINED = 5, (0.05, 0.10, 0.15, 0.20), (1, 4, 10)
RESULTS = Path("benchmarks/results/gate.json")


class LongPrompt(ToolAccess):
    """Tells the model more than it needs."""

    def system(self) -> str:
        return WORDS * LONGER


class Retrying(LlmAgent):
    """Makes a call that brought an error again, up to twice, before the model is told."""

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        super().reset(seat, observation, info, seed)
        self._call, self._retries = "", 0

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        failed = self._call and any(result["status"] != "ok" for result in info.get("results", ()))
        if failed and self._retries < RETRIES:
            self._retries += 1
            return self._call
        action = super().act(observation, info)
        document = json.loads(action)
        document.pop("usage", None)  # the model was asked once
        self._call, self._retries = "" if document["name"] in ("think", "finish") else json.dumps(document), 0
        return action


def plain() -> LlmAgent:
    return LlmAgent(Simulated(), ReAct(), name="mine")


def longer() -> LlmAgent:
    return LlmAgent(Simulated(), ReAct(), access=[LongPrompt()], name="mine")


def retrying() -> LlmAgent:
    return Retrying(Simulated(), ReAct(), name="mine")


def changes() -> None:
    with TemporaryDirectory() as folder:
        baseline = f"{folder}/baseline.json"
        command = [sys.executable, "-m", "costgym", "gate"]
        words = ["--budget", "price=60", "--quiet"]
        subprocess.run([*command, f"{__file__}:plain", "--write-baseline", baseline, *words], check=True)
        for agent in ("plain", "longer", "retrying"):
            begin = time.perf_counter()
            done = subprocess.run([*command, f"{__file__}:{agent}", "--baseline", baseline, *words, "--json", "-"],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            verdict = json.loads(done.stdout)
            print(f"{agent}: exit status {done.returncode}, {time.perf_counter() - begin:.1f} s, {verdict['sentence']}")


class OtherChance(Simulated):
    """The simulated model with a chance of its own beside that of the world."""

    def __init__(self, way: int) -> None:
        super().__init__()
        self._way = way

    def begin(self, world: Any, seed: int) -> None:
        super().begin(world, stable_integer(seed, "way", self._way) >> 1)


def played(seed: int, way: int) -> list[BaselineEpisode]:
    env = costgym.make(ENV, budget=BUDGET)
    agent = make_agent("react", ENV, model=OtherChance(way))
    return [
        BaselineEpisode(task=str(result.task), cost=result.price, success=outcome(result, "strict") == "passed")
        for result, _ in play_many(env, agent, ENV, range(EPISODES), seed, recorded=False)
    ]


def fails(before: Sequence[BaselineEpisode], after: Sequence[BaselineEpisode]) -> tuple[bool, int]:
    """Whether a change fails that may cost nothing more, and after how many episodes."""
    verdict = compare(before, lambda episodes: after[episodes.start : episodes.stop], max_cost=0.0)
    return not verdict.passed, verdict.episodes


def dearer(episodes: Sequence[BaselineEpisode], rise: float) -> list[BaselineEpisode]:
    return [episode.model_copy(update={"cost": (1 + rise) * episode.cost}) for episode in episodes]


def share(verdicts: Sequence[tuple[bool, int]]) -> dict[str, Any]:
    failed = [episodes for fail, episodes in verdicts if fail]
    return {"fails": len(failed), "of": len(verdicts), "episodes_of_fails": sum(failed) / len(failed) if failed else None}


def alarms(runs: int, out: Path) -> None:
    worlds = -(-runs // (WAYS * (WAYS - 1) // 2))
    plays = [[played(seed, way) for way in range(WAYS)] for seed in range(worlds)]
    document: dict[str, Any] = {"worlds": worlds, "ways": WAYS, "max_cost": 0.0, "episodes": {}}
    for joined in JOINED:  # the episodes of so many worlds are one run
        groups = [plays[first : first + joined] for first in range(0, worlds - joined + 1, joined)]
        sides = [[list(chain.from_iterable(one)) for one in zip(*group, strict=True)] for group in groups]
        pairs = [pair for ways in sides for pair in combinations(ways, 2)][:runs]
        if not pairs:
            continue
        rows = {"unchanged": share([fails(before, after) for before, after in pairs])}
        for rise in RISES:
            rows[f"+{rise:.0%}"] = share([fails(before, dearer(after, rise)) for before, after in pairs])
        rows["+5%, without chance of its own"] = share([fails(before, dearer(before, 0.05)) for before, _ in pairs])
        document["episodes"][str(joined * EPISODES)] = rows
        print(joined * EPISODES, json.dumps(rows), flush=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("changes", "alarms"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    changes() if chosen.what == "changes" else alarms(chosen.runs, chosen.out)
