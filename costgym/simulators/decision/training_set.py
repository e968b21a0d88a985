"""DEER's training set, which is not public, drawn again by Algorithm 1 from the tools of a ToolDEER folder.

Every recorded query of a tool becomes a sample: Call with the tool among the candidates, or NoCall without it, in the paper's
proportion. What may not be learnt from is left out: queries that `valid.json` or `test.json` asks too, and every tool that is a
candidate in `test.json`, whose tools are to be unseen. The authors' NoSearch questions come from a data set of conversations
that the folder does not hold; as many generated ones take their place.

Source: DEER (arXiv 2402.16696), Section 3.2, Algorithm 1 and Table 2.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from costgym.simulators.decision.conversation import general_query
from costgym.simulators.decision.recorded import find_file
from costgym.simulators.decision.samples import CALL, COUNTS, NO_CALL, NO_SEARCH, DecisionCase, Example
from costgym.simulators.decision.toolsets import MIXTURE, RANDOM, CandidateSampler, Embed, mixture_cycle
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import DataError
from costgym.simulators.marketplace.loaders.tooldeer import read_conversations, read_queries, read_tools
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.tasks import normalise
from costgym.simulators.tools import Tool

CANDIDATES, CLUSTERS = 5, 30
NO_SEARCHES, NO_CALLS, CALLS = COUNTS["train"]


class TrainingSet(NamedTuple):
    """The samples, and what was left out."""

    examples: list[Example]
    tools: tuple[Tool, ...]  # that a training may see
    repeated: int  # recorded queries that valid.json or test.json asks too
    unseen: int  # further ones, of tools that are candidates in test.json


def training_set(
    folder: str | Path, embed: Embed | None = None, mixture: Mapping[str, int] = MIXTURE, seed: int = 0
) -> TrainingSet:
    """Draw the training set of a folder with tool.json and valid.json or test.json; `embed` is the encoder of descriptions, by
    default by their words. Raises DataError where the folder holds no tools with queries."""
    root = Path(folder)
    path = find_file(root, "tool.json")
    if path is None:
        raise DataError(root, "holds no tool.json; expected ToolDEER's folder, whose tools have the recorded queries")
    sets = {name: read_conversations(file) for name in ("valid", "test") if (file := find_file(root, f"{name}.json"))}
    queries = {normalise(sample.query) for known in sets.values() for sample in known}
    hidden = {tool.name for sample in sets.get("test", ()) for tool in sample.candidates}
    recorded = read_queries(path)
    fresh = [sample for sample in recorded if normalise(sample.query) not in queries]
    learnt = [sample for sample in fresh if sample.tool not in hidden]
    tools = tuple(tool for tool in read_tools(path) if tool.name not in hidden)
    if not learnt:
        raise DataError(path, "holds no query that valid.json and test.json leave to learn from")
    sampler = CandidateSampler(tools, CANDIDATES, CLUSTERS, seed, embed)
    cycle = mixture_cycle(dict(mixture))
    names = [tool.name for tool in tools]
    calls = round(len(learnt) * CALLS / (NO_CALLS + CALLS))
    shuffled = [learnt[index] for index in stable_generator(seed, "recorded queries").permutation(len(learnt)).tolist()]
    cases: list[DecisionCase] = []
    for number, sample in enumerate(shuffled):
        kind, strategy = CALL if number < calls else NO_CALL, cycle[number % len(cycle)]
        luck = Luck("recorded query", number, seed=seed)
        drawn = tuple(tool.name for tool in sampler.draw(strategy, sample.tool, kind == CALL, luck))
        cases.append(DecisionCase(kind, sample.query, sample.tool, drawn, strategy, sample.arguments))
    for number in range(NO_SEARCHES):
        luck = Luck("general query", number, seed=seed)
        query = general_query(luck)
        cases.append(DecisionCase(NO_SEARCH, query, "", tuple(luck.order(names)[:CANDIDATES]), RANDOM))
    order = stable_generator(seed, "training set").permutation(len(cases)).tolist()
    by_name = {tool.name: tool for tool in tools}
    examples = [
        Example(case.task(f"train-{number:05d}", number), tuple(by_name[name] for name in case.candidates))
        for number, case in enumerate(cases[index] for index in order)
    ]
    return TrainingSet(examples, tools, len(recorded) - len(fresh), len(fresh) - len(learnt))
