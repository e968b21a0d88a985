"""Measure how well agents follow instructions: match, pass and win rate by level, and tag lists compared with a retriever.

Match is computed on the last chain of calls, including failed calls; other branches of a tree search do not count. Pass, in
ToolPlanner's definition, is a meaningful answer within the limits (`meaningful_rate`); whether the answer contains the facts is
graded separately, against the task. Win compares an episode with a reference agent's episode in the same world, as ToolEval
does: first by Pass, then by what the answer states of what the instruction asks for as its reader understands it, then by lower
price.

Source: ToolPlanner (arXiv 2409.14826), Section 5.2; ToolEval's rules.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Any

import numpy as np

from costgym.agents.base import TEXT
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.registry import find_agent, make_agent
from costgym.agents.toolplanner.agent import ToolPlanner
from costgym.agents.toolplanner.tags import Retriever, Tags, gold_tools, tag_score
from costgym.agents.toolplanner.tree import REQUIRES, match, names, passed
from costgym.agents.world_side import model_of
from costgym.envs.base import base_env
from costgym.envs.chat import MarketplaceChatEnv
from costgym.experiments.board.run_config import weights_of
from costgym.experiments.lab.papers.common import Job, Row, interval_ends, play_kept, text_env
from costgym.experiments.lab.papers.protocols import Protocol
from costgym.experiments.play.experience import watch
from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.rollout import play, result_of
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval import Retrieval
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.tasks import LEVELS, fact_in, normalise
from costgym.simulators.world import Episode, World

AGENTS = ("dfsdt", "toolplanner", "toolplanner-answers", "toolplanner-no-tags", "toolplanner-no-path")
TRAINED = "zoo:toolplanner"  # played beside the simulated ones where the extra `train` is installed
REFERENCE = "dfsdt"
RETRIEVED = (1, 3, 5)
STEPS = 400


@dataclass(frozen=True, slots=True)
class Followed:
    """The measured result of an episode at an instruction level."""

    result: EpisodeResult
    matched: bool  # the calls follow the instruction
    meaningful: bool  # it ends in a meaningful answer
    answered: float  # share of what the instruction asks for, as its reader understands it, that the answer states
    tags: Tags | None  # extracted tags, if the agent extracts tags

    def to_json(self) -> str:
        """Write one line of JSON."""
        tags = None if self.tags is None else astuple(self.tags)
        flags = {"matched": self.matched, "meaningful": self.meaningful, "answered": self.answered}
        return json.dumps({"result": json.loads(self.result.to_json()), **flags, "tags": tags})

    @classmethod
    def from_json(cls, line: str) -> "Followed":
        """Return the record that `to_json` wrote."""
        said = json.loads(line)
        tags = None if said["tags"] is None else Tags(*map(tuple, said["tags"]))
        result = EpisodeResult.from_json(json.dumps(said["result"]))
        return cls(result, said["matched"], said["meaningful"], said["answered"], tags)


Run = tuple[str, str, int]  # agent, level and luck, as `follow` takes them
Kept = Mapping[Run, list[Followed]]  # episodes that several tables share


def follow(
    agent_name: str,
    level: str,
    episodes: int,
    seed: int = 0,
    scenario: Any = "marketplace",
    model: str = "simulated",
    luck: int = 0,
    search: Mapping[str, Any] | None = None,
) -> list[Followed]:
    """Play the test tasks of group G3 (all where none is of G3) at one instruction level, without a budget, by a
    language-model agent; a trained one (``toolplanner:RUN``, ``zoo:toolplanner``) uses its own model. Episodes cycle through
    the tasks, each cycle with the next seed; another `luck` gives another run of the agent in the same worlds. `search` has the
    limits that `SearchSettings.chosen` reads."""
    env = base_env(text_env(at_level(scenario, level), level=level, max_steps=STEPS))
    agent = make_agent(agent_name, model=model, search=SearchSettings.chosen(search or {}, agent_name.partition("+")[0]))
    if not isinstance(agent, LlmAgent):
        raise ConfigError("agent", f"expected an agent with a language model, got {agent_name!r}")
    reader = model_of(agent.handles[0]) if agent.handles else None
    watcher = watch(agent)
    assert env.world is not None
    catalog = env.world.catalog
    known = {tool.name: tool for tool in catalog}
    found = []
    numbers = of_group(env.world, env.numbers, episodes)
    for index in range(episodes):
        number, world_seed = numbers[index % len(numbers)], env.instance(index, seed)[1]
        play(env, agent, number, world_seed, None if not luck else luck * 1_000_003 + index)
        episode = env.account()
        called = [known[name] for name in watcher.chain if name in known]
        answer, strategy = _answer(episode), agent._strategy
        needs, text = (episode.task if reader is None else reader.task).needs, normalise(answer or "")
        found.append(
            Followed(
                result_of(env, agent, TEXT, index),
                match(called, gold_tools(episode.task, catalog), level),
                passed(answer),
                sum(fact_in(need.fact, text) for need in needs) / len(needs),
                strategy.tags if isinstance(strategy, ToolPlanner) else None,
            )
        )
    return found


def of_group(world: World, numbers: Sequence[int], most: int) -> list[int]:
    """Return the first tasks of group G3, on which ToolPlanner is trained and tested; all tasks where none is of G3."""
    found = list(islice((number for number in numbers if world.tasks[number].group == "G3"), most))
    return found or list(numbers[:most])


def planners() -> list[str]:
    """Return the agents of the table: the simulated ones, and the trained one if it can play here."""
    return [*AGENTS, *([TRAINED] if find_agent(TRAINED).playable else [])]


def follow_all(agents: Sequence[str], scenario: Scenario, protocol: Protocol, job: Job) -> Kept:
    """Play agents at every level, and the reference of the win rate; a later call with the same folder plays what is
    missing."""
    runs: list[Run] = [
        (name, level, luck) for level in LEVELS for name, luck in ((REFERENCE, 1), *((name, 0) for name in agents))
    ]
    manifest = {
        "scenario": scenario.digest, "search": protocol.search, "model": protocol.model, "weights": weights_of(agents),
        "episodes": job.episodes, "seed": job.seed,
    }  # fmt: skip
    shared = scenario.model_dump_json(), protocol.search, protocol.model, job.episodes, job.seed
    pieces = {f"{name}-{level}-{luck}": (name, level, luck) for name, level, luck in runs}
    kept = play_kept(job.out, manifest, _follow, shared, pieces, job.processes, job.progress)
    return {run: [Followed.from_json(line) for line in kept[name]] for name, run in pieces.items()}


def _follow(shared: tuple[str, Mapping[str, Any], str, int, int], run: Run) -> Iterator[str]:
    document, search, model, episodes, seed = shared
    name, level, luck = run
    for found in follow(name, level, episodes, seed, Scenario.model_validate_json(document), model, luck, search):
        yield found.to_json()


def at_level(scenario: Any, level: str) -> Any:
    """Return a scenario whose retriever, if it has one, is asked at an instruction level; others as they are."""
    found = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    retrieval = getattr(found.source, "candidates", None)
    if not isinstance(retrieval, Retrieval):
        return scenario
    asked = retrieval.model_copy(update={"level": level})
    return found.model_copy(update={"source": found.source.model_copy(update={"candidates": asked})})


def _answer(episode: Episode) -> str | None:
    match episode.log[-1]:
        case ("finish", str() as answer, False):
            return answer
    return None


def wins(ours: Followed, theirs: Followed) -> float:
    """Compare two episodes by Pass, then share answered, then lower price: 1 where the first wins, 0.5 for a draw, else 0."""
    first, second = ((each.meaningful, each.answered, -each.result.price) for each in (ours, theirs))
    return 0.5 if first == second else float(first > second)


def instruction_rows(kept: Kept, seed: int = 0) -> list[Row]:
    """Return a leaderboard row per agent and level with `match_rate`, `meaningful_rate`, `win_rate` and their intervals. The
    reference of the win rate is another run of plain tree search in the same worlds, so plain tree search itself wins about one
    half. Instructions of the level `statement` name no tools, so they have no match rate."""
    rows = []
    for (_, level, luck), found in kept.items():
        if not luck:
            flags = flags_of(found, kept[REFERENCE, level, 1], level)
            values = np.array(list(flags.values())).T  # (episodes, metrics)
            means = {name: float(np.mean(column)) for name, column in flags.items()}
            row = summarise([f.result for f in found], "judge", seed=seed)
            ends = {**row.get("ci95", {}), **interval_ends(flags, values, seed=seed)}
            rows.append({**row, "level": level, **means, "ci95": ends})
    return rows


def flags_of(found: Sequence[Followed], reference: Sequence[Followed], level: str) -> dict[str, list[float]]:
    """Match (where the level names tools), Pass and Win of each episode, from 0 to 1, by the name of their rate."""
    flags = {
        "match_rate": [float(f.matched) for f in found],
        "meaningful_rate": [float(f.meaningful) for f in found],
        "win_rate": [wins(f, r) for f, r in zip(found, reference, strict=True)],
    }
    return {name: values for name, values in flags.items() if name != "match_rate" or REQUIRES[level]}


def difference_rows(kept: Kept, seed: int = 0) -> list[Row]:
    """Compare every agent with plain tree search, and tags alone with paths alone, episode by episode; returns rows by level
    with the differences of match, meaningful and win rate and of both pass rates, from -1 to 1, and their paired intervals."""
    agents = dict.fromkeys(agent for agent, _, _ in kept if agent != REFERENCE)
    pairs = [*((agent, REFERENCE) for agent in agents), ("toolplanner-no-path", "toolplanner-no-tags")]
    rows = []
    for level in dict.fromkeys(level for _, level, _ in kept):
        for ours, base in pairs:
            sides = []
            for found in (kept[ours, level, 0], kept[base, level, 0]):
                passes = {
                    "judged_pass_rate": [float(f.result.judged) for f in found],
                    "pass_rate": [float(f.result.strict) for f in found],
                }
                sides.append({**flags_of(found, kept[REFERENCE, level, 1], level), **passes})
            row: Row = {"agent": f"{ours} less {base}", "level": level, "episodes": len(kept[ours, level, 0]), "ci95": {}}
            for name in sides[0]:
                both = np.array([side[name] for side in sides]).T  # (episodes, 2)
                row[name] = float(both[:, 0].mean() - both[:, 1].mean())
                row["ci95"] |= interval_ends([name], both, seed=seed, difference=True)
            rows.append(row)
    return rows


def tag_rows(kept: Kept, scenario: Scenario, seed: int = 0) -> list[Row]:
    """Measure precision, recall and F1 of tag extraction and of a retriever over the whole catalog, by level, at the
    granularity of its instructions; `statement`, which names no tools, at that of categories. Tags are those of the simulated
    planner without path planning, which changes none. (The trained one chooses tags among listed tools only.) F1 has
    intervals."""
    rows = []
    for level in dict.fromkeys(level for _, level, _ in kept):
        granularity = REQUIRES[level] or "category"
        followed = kept["toolplanner-no-path", level, 0]
        env = MarketplaceChatEnv(scenario=scenario, split="test", level=level)
        world: World = env.world
        own = of_group(world, env.numbers, len(followed))
        tasks = [world.tasks[own[index % len(own)]] for index in range(len(followed))]
        gold = [names(gold_tools(task, world.catalog), granularity) for task in tasks]
        retriever = Retriever(list(world.catalog))
        ranked = [retriever.top(task.instructions.get(level, task.query), max(RETRIEVED)) for task in tasks]
        lists = {f"retriever@{count}": [names(tools[:count], granularity) for tools in ranked] for count in RETRIEVED}
        lists["tag extraction"] = [names(f.tags.mappings(), granularity) if f.tags else frozenset() for f in followed]
        for name, said in lists.items():
            score = tag_score(zip(said, gold, strict=True))
            hits = np.array([[2.0 * len(s & g), len(s) + len(g)] for s, g in zip(said, gold, strict=True)])
            figures = {"tag_precision": score.precision, "tag_recall": score.recall, "tag_f1": score.f1}
            ends = interval_ends(["tag_f1"], hits[:, :1], hits[:, 1:], seed=seed)
            model = "simulated" if name == "tag extraction" else None
            rows.append({"agent": name, "model": model, "level": level, "episodes": len(followed), **figures, "ci95": ends})
    return rows
