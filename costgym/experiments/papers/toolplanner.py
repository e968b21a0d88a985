"""ToolPlanner: do tags and a planned path make a tree search follow its instruction?

The same tasks are asked at five granularities: by statement, category, tool, API, or all of them.

* Match: the last chain of calls, failed ones included, uses all and only what the instruction names. Other branches of a tree
  search do not count.
* Pass: a meaningful answer within the limits (`meaningful_rate`). Whether it contains the facts is graded separately.
* Win: the episode beats a reference agent's in the same world, as in ToolEval: first by Pass, then by what the answer states of
  what the instruction asks for as its reader understands it, then by lower price.

Tag lists are compared with a retriever's.

Source: ToolPlanner (arXiv 2409.14826), Sections 5.1 to 5.5, Tables 1, 5, 7 and 27; ToolEval's rules.
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
from costgym.experiments.board.run_config import weights_of
from costgym.experiments.papers.claims import (
    PASSES,
    UNPUBLISHED,
    Points,
    effect,
    in_words,
    interval_ends,
    levels_of,
    printed,
)
from costgym.experiments.papers.paper import BOARD, PUBLISHED, Job, Paper, Protocol, Row, Tables
from costgym.experiments.papers.playing import enlarged, market, play_pieces, play_protocols, text_env
from costgym.experiments.play.episodes import play, result_of
from costgym.experiments.play.experience import watch
from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval import Retrieval
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.tasks import LEVELS, fact_in, normalise
from costgym.simulators.world import Episode, World

# -- protocol ----------------------------------------------------------------------------------------------------------------

PROTOCOLS = (
    Protocol(
        PUBLISHED,
        "tasks across categories (G3) alone; plain tree search with ToolPlanner's own limits (4 rounds deep, 30 replies) "
        "among the five tools that a retriever finds for the instruction in the whole catalogue; ToolPlanner looks up its "
        "tags there",
        search={"dfsdt": {"depth": 4, "queries": 30}},
        source={"candidates": {"from": "catalogue", "retriever": "bm25", "k": 5}},
    ),
    Protocol(BOARD, "the same tasks; plain tree search with ToolBench's limits: 12 steps deep, 200 replies"),
)

# -- agents ------------------------------------------------------------------------------------------------------------------

AGENTS = ("dfsdt", "toolplanner", "toolplanner-answers", "toolplanner-no-tags", "toolplanner-no-path")
TRAINED = "zoo:toolplanner"  # played beside the simulated ones where the extra `train` is installed
REFERENCE = "dfsdt"
RETRIEVED = (1, 3, 5)  # numbers of tools of the retrievers that tags are compared with

# -- play --------------------------------------------------------------------------------------------------------------------

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
        record = json.loads(line)
        tags = None if record["tags"] is None else Tags(*map(tuple, record["tags"]))
        result = EpisodeResult.from_json(json.dumps(record["result"]))
        return cls(result, record["matched"], record["meaningful"], record["answered"], tags)


Run = tuple[str, str, int]  # agent, level and luck, as `follow` takes them
Played = Mapping[Run, list[Followed]]  # episodes that several tables share


def play_protocol(protocol: Protocol, job: Job, agents: Sequence[str] | None = None) -> Tables:
    """Play the agents, by default the paper's, at every instruction level, under the published protocol the job's learnt ones
    too."""
    # three tenths of the tasks are of group G3
    world = protocol.scenario(enlarged(market(job.world), 4 * job.episodes))
    learnt = job.models or () if protocol.name == PUBLISHED else ()
    played = follow_all([*(agents or planners()), *learnt], world, protocol, job)
    rows = instruction_rows(played, job.seed)
    if protocol.name == PUBLISHED:
        rows += tag_rows(played, world, job.seed)
    differences = difference_rows(played, job.seed)
    return {"ours": rows, "differences": differences, "effects": check_claims(differences, rows, learnt)}


def planners() -> list[str]:
    """Return the agents of the table: the simulated ones, and the trained one if it can play here."""
    return [*AGENTS, *([TRAINED] if find_agent(TRAINED).playable else [])]


def follow_all(agents: Sequence[str], scenario: Scenario, protocol: Protocol, job: Job) -> Played:
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
    lines = play_pieces(job.out, manifest, _follow, shared, pieces, job.processes, job.progress)
    return {run: [Followed.from_json(line) for line in lines[name]] for name, run in pieces.items()}


def _follow(shared: tuple[str, Mapping[str, Any], str, int, int], run: Run) -> Iterator[str]:
    document, search, model, episodes, seed = shared
    name, level, luck = run
    for followed in follow(name, level, episodes, seed, Scenario.model_validate_json(document), model, luck, search):
        yield followed.to_json()


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
    tools = {tool.name: tool for tool in catalog}
    followed = []
    numbers = of_group(env.world, env.numbers, episodes)
    for index in range(episodes):
        number, world_seed = numbers[index % len(numbers)], env.instance(index, seed)[1]
        play(env, agent, number, world_seed, None if not luck else luck * 1_000_003 + index)
        episode = env.account()
        called = [tools[name] for name in watcher.chain if name in tools]
        answer, strategy = _answer(episode), agent._strategy
        needs, text = (episode.task if reader is None else reader.task).needs, normalise(answer or "")
        followed.append(
            Followed(
                result_of(env, agent, TEXT, index),
                match(called, gold_tools(episode.task, catalog), level),
                passed(answer),
                sum(fact_in(need.fact, text) for need in needs) / len(needs),
                strategy.tags if isinstance(strategy, ToolPlanner) else None,
            )
        )
    return followed


def at_level(scenario: Any, level: str) -> Any:
    """Return a scenario whose retriever, if it has one, is asked at an instruction level; others as they are."""
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    retrieval = getattr(loaded.source, "candidates", None)
    if not isinstance(retrieval, Retrieval):
        return scenario
    candidates = retrieval.model_copy(update={"level": level})
    return loaded.model_copy(update={"source": loaded.source.model_copy(update={"candidates": candidates})})


def of_group(world: World, numbers: Sequence[int], most: int) -> list[int]:
    """Return the first tasks of group G3, on which ToolPlanner is trained and tested; all tasks where none is of G3."""
    across = list(islice((number for number in numbers if world.tasks[number].group == "G3"), most))
    return across or list(numbers[:most])


def _answer(episode: Episode) -> str | None:
    match episode.log[-1]:
        case ("finish", str() as answer, False):
            return answer
    return None


# -- table -------------------------------------------------------------------------------------------------------------------

COLUMNS = (
    ("match_rate", "Match %", "rate"),
    ("meaningful_rate", "Pass %", "rate"),
    ("win_rate", "Win %", "rate"),
    ("judged_pass_rate", "facts, judged %", "rate"),
    ("pass_rate", "facts, strict %", "rate"),
    ("tag_precision", "tags P %", "rate"),
    ("tag_recall", "R %", "rate"),
    ("tag_f1", "F1 %", "rate"),
)
DIFFERENCE_COLUMNS = (
    ("match_rate", "Match, points", "rate"),
    ("meaningful_rate", "Pass, points", "rate"),
    ("win_rate", "Win, points", "rate"),
    ("judged_pass_rate", "facts, judged, points", "rate"),
    ("pass_rate", "facts, strict, points", "rate"),
)


def instruction_rows(played: Played, seed: int = 0) -> list[Row]:
    """Return a leaderboard row per agent and level with `match_rate`, `meaningful_rate`, `win_rate` and their intervals. The
    reference of the win rate is another run of plain tree search in the same worlds, so plain tree search itself wins about one
    half. Instructions of the level `statement` name no tools, so they have no match rate."""
    rows = []
    for (_, level, luck), followed in played.items():
        if not luck:
            flags = flags_of(followed, played[REFERENCE, level, 1], level)
            values = np.array(list(flags.values())).T  # (episodes, metrics)
            means = {name: float(np.mean(column)) for name, column in flags.items()}
            row = summarise([f.result for f in followed], "judge", seed=seed)
            ends = {**row.get("ci95", {}), **interval_ends(flags, values, seed=seed)}
            rows.append({**row, "level": level, **means, "ci95": ends})
    return rows


def flags_of(followed: Sequence[Followed], reference: Sequence[Followed], level: str) -> dict[str, list[float]]:
    """Match (where the level names tools), Pass and Win of each episode, from 0 to 1, by the name of their rate."""
    flags = {
        "match_rate": [float(f.matched) for f in followed],
        "meaningful_rate": [float(f.meaningful) for f in followed],
        "win_rate": [wins(f, r) for f, r in zip(followed, reference, strict=True)],
    }
    return {name: values for name, values in flags.items() if name != "match_rate" or REQUIRES[level]}


def wins(ours: Followed, theirs: Followed) -> float:
    """Compare two episodes by Pass, then share answered, then lower price: 1 where the first wins, 0.5 for a draw, else 0."""
    first, second = ((side.meaningful, side.answered, -side.result.price) for side in (ours, theirs))
    return 0.5 if first == second else float(first > second)


def difference_rows(played: Played, seed: int = 0) -> list[Row]:
    """Compare every agent with plain tree search, and tags alone with paths alone, episode by episode; returns rows by level
    with the differences of match, meaningful and win rate and of both pass rates, from -1 to 1, and their paired intervals."""
    agents = dict.fromkeys(agent for agent, _, _ in played if agent != REFERENCE)
    pairs = [*((agent, REFERENCE) for agent in agents), ("toolplanner-no-path", "toolplanner-no-tags")]
    rows = []
    for level in dict.fromkeys(level for _, level, _ in played):
        reference = played[REFERENCE, level, 1]
        for ours, base in pairs:
            first, second = (_flags_and_passes(played[agent, level, 0], reference, level) for agent in (ours, base))
            row: Row = {"agent": f"{ours} less {base}", "level": level, "episodes": len(played[ours, level, 0]), "ci95": {}}
            for name in first:
                both = np.array([first[name], second[name]]).T  # (episodes, 2)
                row[name] = float(both[:, 0].mean() - both[:, 1].mean())
                row["ci95"] |= interval_ends([name], both, seed=seed, difference=True)
            rows.append(row)
    return rows


def _flags_and_passes(followed: Sequence[Followed], reference: Sequence[Followed], level: str) -> dict[str, list[float]]:
    passes = {
        "judged_pass_rate": [float(f.result.judged) for f in followed],
        "pass_rate": [float(f.result.strict) for f in followed],
    }
    return {**flags_of(followed, reference, level), **passes}


def tag_rows(played: Played, scenario: Scenario, seed: int = 0) -> list[Row]:
    """Measure precision, recall and F1 of tag extraction and of a retriever over the whole catalog, by level, at the
    granularity of its instructions; `statement`, which names no tools, at that of categories. Tags are those of the simulated
    planner without path planning, which changes none. (The trained one chooses tags among listed tools only.) F1 has
    intervals."""
    rows = []
    for level in dict.fromkeys(level for _, level, _ in played):
        granularity = REQUIRES[level] or "category"
        followed = played["toolplanner-no-path", level, 0]
        env = base_env(text_env(scenario, level=level))
        world = env.world
        assert world is not None
        numbers = of_group(world, env.numbers, len(followed))
        tasks = [world.tasks[numbers[index % len(numbers)]] for index in range(len(followed))]
        gold = [names(gold_tools(task, world.catalog), granularity) for task in tasks]
        retriever = Retriever(list(world.catalog))
        ranked = [retriever.top(task.instructions.get(level, task.query), max(RETRIEVED)) for task in tasks]
        lists = {f"retriever@{count}": [names(tools[:count], granularity) for tools in ranked] for count in RETRIEVED}
        lists["tag extraction"] = [names(f.tags.mappings(), granularity) if f.tags else frozenset() for f in followed]
        for name, tags in lists.items():
            score = tag_score(zip(tags, gold, strict=True))
            hits = np.array([[2.0 * len(t & g), len(t) + len(g)] for t, g in zip(tags, gold, strict=True)])
            figures = {"tag_precision": score.precision, "tag_recall": score.recall, "tag_f1": score.f1}
            ends = interval_ends(["tag_f1"], hits[:, :1], hits[:, 1:], seed=seed)
            model = "simulated" if name == "tag extraction" else None
            rows.append({"agent": name, "model": model, "level": level, "episodes": len(followed), **figures, "ci95": ends})
    return rows


# -- claims ------------------------------------------------------------------------------------------------------------------

TAG_RATES = "the simulated model's rates `wrong_tool`, `crowding` and `overlook` decide its tags"


def check_claims(differences: Sequence[Row], rows: Sequence[Row], learnt: Sequence[str] = ()) -> list[Row]:
    """Check the claims of Sections 5.3 and 5.5: comparison with plain tree search and with a retriever. Of learnt planners
    those of Section 5.3."""
    table = {(row["level"], row["agent"]): row for row in differences}
    ours = {(row["level"], row["agent"]): row for row in rows}
    levels = list(dict.fromkeys(level for level, _ in table))
    effects = []
    for level in levels:
        effects += _check_following(level, table, ours)
        effects += _check_parts(level, table, ours)
    for grading, (passes, _) in PASSES.items():
        for level in levels:
            text, points = _difference(table[level, "toolplanner less dfsdt"], passes)
            follows = points[0] >= -3.0
            effects.append(effect(f"{level}: at most 3 points fewer facts found", text, follows, grading, UNPUBLISHED))
    f1 = {(row["level"], row["agent"]): row["tag_f1"] for row in rows if "tag_f1" in row}
    for level in dict.fromkeys(level for level, _ in f1):
        best = max(value for (at, agent), value in f1.items() if at == level and agent.startswith("retriever"))
        extracted = f1[level, "tag extraction"]
        measured = f"F1 {100 * extracted:.1f} beside {100 * best:.1f}"
        claim = f"{level}: extracted tags beat the best retriever"
        effects.append(effect(claim, measured, extracted > best, source="Table 27", by=TAG_RATES))
    for planner in learnt:
        for level in levels:
            effects += _check_following(level, table, ours, planner)
    return effects


def _check_following(
    level: str, table: Mapping[tuple[str, str], Row], ours: Mapping[tuple[str, str], Row], planner: str = "toolplanner"
) -> list[Row]:
    """Check at one level that a planner raises Match, Pass and Win."""
    effects = []
    full = table[level, f"{planner} less dfsdt"]
    for metric, name in (("match_rate", "Match"), ("meaningful_rate", "Pass"), ("win_rate", "Win")):
        if metric in full:
            text, points = _difference(full, metric)
            paper = printed("toolplanner", "ToolPlanner", "ToolLLaMA-Tree", metric, level=level)
            both = levels_of(ours.get((level, "dfsdt"), {}), ours.get((level, planner), {}), metric)
            claim = f"{level}: {name} rises" if planner == "toolplanner" else f"{planner}, {level}: {name} rises"
            effects.append(effect(claim, text, points[1] > 0, source="Table 1", points=points, paper=paper, levels=both))
    return effects


def _check_parts(level: str, table: Mapping[tuple[str, str], Row], ours: Mapping[tuple[str, str], Row]) -> list[Row]:
    """Check at one level that tags raise Match more than paths, where instructions name tools."""
    parts = table[level, "toolplanner-no-path less toolplanner-no-tags"]
    if "match_rate" not in parts:
        return []
    text, points = _difference(parts, "match_rate")
    paper = printed("toolplanner", "without path", "without tags", "match_rate", level=level)
    without_tags, without_path = (ours.get((level, f"toolplanner-no-{part}"), {}) for part in ("tags", "path"))
    both = levels_of(without_tags, without_path, "match_rate")
    claim = f"{level}: tags raise Match more than paths"
    return [effect(claim, text, points[1] > 0, source="Table 5", points=points, paper=paper, levels=both)]


def _difference(row: Row, metric: str) -> tuple[str, Points]:
    """Return a row's difference in points."""
    gain, low, high = (100 * value for value in (row[metric], *row["ci95"][metric]))
    return in_words((gain, low, high))


PAPER = Paper(
    "toolplanner",
    "ToolPlanner",
    PROTOCOLS,
    400,
    lambda job: play_protocols(PROTOCOLS, play_protocol, job),
    "Match, Pass and Win are defined as in the paper; facts are also graded, by the judge and strictly. "
    "zoo:toolplanner is a small model trained here, in both stages.",
    COLUMNS,
    {"differences": DIFFERENCE_COLUMNS},
    {"differences": "Less plain search, and tags less paths"},
    trained=TRAINED,
)
