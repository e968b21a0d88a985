"""Find what decides whether a paper's effects follow: a protocol with one change at a time.

    python benchmarks/papers/causes.py ecoact --episodes 300

prints each counted effect under a protocol and under every variation, with whose setting the change is: the paper's, where its
text or code leave it open, or ours.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, replace
from math import log2
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.registry import make_agent
from costgym.experiments.papers import btp, ecoact, toolplanner
from costgym.experiments.papers.claims import counted
from costgym.experiments.papers.paper import PUBLISHED, Job, Protocol
from costgym.simulators.files import write_atomically

Found = dict[str, dict[str, tuple[str, bool]]]
"""Measured and whether it follows, by claim and variation."""


_TALKATIVE = "simulated:thought=1"


def _answering(name: str, **settings: Any) -> Any:
    """Return an agent; where the planner is asked for, the one that answers from what it found instead of giving up."""
    return make_agent(f"{name}-answers" if name == "toolplanner" else name, **settings)


def _with(model: str, rates: str) -> str:
    """Return the simulated model's name with further rates."""
    return f"{model}{',' if ':' in model else ':'}{rates}"


def variations(paper: str, name: str = PUBLISHED) -> tuple[Protocol, ...]:
    """A protocol of a paper, then the same with one change each."""
    module, changes = _PAPERS[paper]
    base = next(protocol for protocol in module.PROTOCOLS if protocol.name == name)
    return (replace(base, whose="paper"), *changes(base))


def _btp(published: Protocol) -> tuple[Protocol, ...]:
    assert published.experience is not None
    discouraged = replace(
        published, name="discouraged", whose="ours", model=_with(published.model, "tire=0.9,give_up=0,give_up_empty=0"),
        summary="a model that stops at nine of ten failures and then answers, so that a useless tool costs more than its price",
    )  # fmt: skip
    return (
        replace(published, name="confusable", whose="paper", source={"serving": 0.49},
                summary="49 % of the candidates serve a need, as of the five that ToolBench's retriever finds (ToolPlanner, "
                "Table 27), beside those that are most similar and serve none"),
        replace(published, name="whole answers", whose="ours", judge={"curve": 1000.0},
                summary="a judge whose second stage passes no partial answer beyond its rate for empty ones"),
        replace(published, name="one need", whose="ours", source={"needs": [1, 1]},
                summary="tasks with one need, so that a plan cannot leave one without a tool for another"),
        replace(published, name="reliable", whose="ours", failures="reliable",
                summary="tools that nearly always work, so that what a plan allows suffices"),
        replace(published, name="reliable and one need", whose="ours", failures="reliable", source={"needs": [1, 1]},
                summary="both"),
        discouraged,
        replace(discouraged, name="discouraged with all past calls",
                experience=published.experience.model_copy(update={"remembered": "all"}),
                summary="the same; past uses are those of every branch of the search, not of the one that answered"),
        replace(discouraged, name="discouraged and one need", source={"needs": [1, 1]},
                summary="the same with one need a task"),
    )  # fmt: skip


def _whole(query: str, statement: str, needs: Sequence[Any], gold: Sequence[Any]) -> dict[str, str]:
    """Instructions as they were before they dropped the details: the whole query with names."""
    steps = "; ".join(f"{need.wish} with {tool.title} of {tool.provider}" for need, tool in zip(needs, gold, strict=True))
    categories, providers, apis = (
        ", ".join(dict.fromkeys(getattr(tool, name) for tool in gold)).replace("_", " " if name == "category" else "_")
        for name in ("category", "provider", "title")
    )
    return {
        "statement": query,
        "category": f"{query} Please use tools from the categories {categories}.",
        "tool": f"{query} Please use {providers}.",
        "api": f"{query} Please call {apis}.",
        "hybrid": f"{query} In detail: {steps}.",
    }


def _documents_crowd(model: Any, context: Any) -> float:
    """Return the chance of a wrong choice by the number of tools with documentation alone."""
    return float(model.rates.wrong_tool + model.rates.crowding * max(0.0, log2(max(1, len(context.shown)) / 5.0)))


PATCHES = {
    "all groups": ("costgym.experiments.papers.toolplanner.of_group", lambda world, numbers, most: list(numbers[:most])),
    "reader knows": ("costgym.agents.toolplanner.simulated.understood", lambda view, everywhere=False: view.task),
    "whole query": ("costgym.simulators.marketplace.tasks.instructions", _whole),
    "documents crowd": ("costgym.agents.models.simulated.Simulated._wrong_rate", _documents_crowd),
    "answers": ("costgym.experiments.papers.toolplanner.make_agent", _answering),
}
"""Other code, by what the name of a variation holds."""


def _ecoact(published: Protocol) -> tuple[Protocol, ...]:
    steps = asdict(SearchSettings(depth=24, text_is_answer=False))
    return (
        replace(published, name="talkative", whose="ours", model=_TALKATIVE,
                summary="a thought beside every call, so that 24 nodes are 8 replies instead of 11"),
        replace(published, name="steps", whose="paper", search=steps,
                summary="24 reasoning steps, as the paper's text has it, instead of the code's 24 nodes"),
        replace(published, name="retrieved", whose="paper",
                source={"candidates": {"retriever": "bm25"}},
                summary="10, 20 and 64 candidates that BM25 finds in the whole catalogue"),
        replace(published, name="few needs", whose="ours", source={"needs": [1, 2]},
                summary="tasks with one or two needs"),
        replace(published, name="many needs", whose="ours", source={"needs": [3, 5]},
                summary="tasks with three to five needs"),
        replace(published, name="reliable", whose="ours", failures="reliable",
                summary="tools that nearly always work, so that few are tried for a need"),
        replace(published, name="misnamed", whose="ours", source={"misnamed": 0.3},
                summary="30 % of the tools promise by name what their documentation denies"),
        replace(published, name="register more", whose="ours", model=_with(published.model, "register_more=1"),
                summary="whoever may register several tools at once always does, instead of in 30 % of the cases"),
        replace(published, name="documents crowd", whose="ours",
                summary="tools beyond five bring wrong choices where their documents are shown, not where names are listed"),
        replace(published, name="documents crowd and register more", whose="ours",
                model=_with(published.model, "register_more=1"),
                summary="both"),
        replace(published, name="documents crowd fourfold and register more", whose="ours",
                model=_with(published.model, "register_more=1,crowding=0.1"),
                summary="the same, with four times as many wrong choices for each doubling of the documents"),
        replace(published, name="unreliable", whose="ours", failures="storm",
                summary="tools that mostly fail, so that many are tried for a need"),
        replace(published, name="unreliable and steps", whose="ours", failures="storm", search=steps, source={"needs": [6, 6]},
                summary="the same with 24 steps and six needs, so that there are replies and reasons to register"),
        replace(published, name="just above 20", whose="ours", candidates={**published.candidates, "more than 20": (21, 25)},
                summary="21 to 25 candidates instead of 21 to 64"),
        replace(published, name="just above 20 and six needs", whose="ours", search=steps, source={"needs": [6, 6]},
                candidates={**published.candidates, "more than 20": (21, 25)}, summary="the same with 24 steps and six needs"),
        replace(published, name="six needs", whose="ours", source={"needs": [6, 6]}, summary="tasks with six needs"),
    )  # fmt: skip


def _toolplanner(published: Protocol) -> tuple[Protocol, ...]:
    other = next(protocol for protocol in toolplanner.PROTOCOLS if protocol.name != published.name)
    return (
        replace(published, name="other limits", whose="ours" if published.name == PUBLISHED else "paper", search=other.search,
                summary="plain tree search with the limits of the other protocol"),
        replace(published, name="answers", whose="paper",
                summary="the planner answers from what it found instead of giving up, as the paper's trained one does"),
        replace(published, name="other limits and answers", whose="paper", search=other.search,
                summary="both"),
        replace(published, name="listed", whose="ours", source={},
                summary="16 listed candidates, three quarters of which serve the needs"),
        replace(published, name="reliable", whose="ours", failures="reliable",
                summary="tools that nearly always work, so that the tagged one suffices"),
        replace(published, name="all groups", whose="ours", summary="tasks of all groups, not of G3 alone"),
        replace(published, name="reader knows", whose="ours",
                summary="a reader who knows the wish that a coarse instruction drops"),
        replace(published, name="whole query", whose="ours", summary="the whole query at every level, with names"),
    )  # fmt: skip


_PAPERS: dict[str, tuple[Any, Any]] = {
    "btp": (btp, _btp),
    "ecoact": (ecoact, _ecoact),
    "toolplanner": (toolplanner, _toolplanner),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", choices=tuple(_PAPERS))
    parser.add_argument("--protocol", default=PUBLISHED)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="Names of variations, separated by commas; by default all.")
    parser.add_argument("--agents", help="The systems to play, such as react,react+ecoact; by default all.")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    chosen = [v for v in variations(args.paper, args.protocol) if args.only is None or v.name in args.only.split(",")]
    agents = None if args.agents is None else args.agents.split(",")
    results: Found = {}
    for variation in chosen:
        effects = apart(play, args.paper, variation, args.seed, args.episodes, args.jobs, agents)
        for row in effects:
            key = f"{row['claim']} ({row['grading']})" if row["grading"] else row["claim"]
            results.setdefault(key, {})[variation.name] = (row["measured"], row["follows"])
        count = f"{sum(row['follows'] for row in effects)} of {len(effects)}"
        print(f"{variation.name} [{variation.whose}]: {count}: {variation.summary}", flush=True)
        if args.json is not None:
            write(args.json, args, chosen, results)
    for claim, measured in results.items():
        print(f"\n{claim}")
        for name, (text, follows) in measured.items():
            print(f"  {'yes' if follows else 'no ':3} {name}: {text}")


def apart(function: Any, *arguments: Any) -> Any:
    """Call a function in a process of its own: worlds are kept, also those that another variation has made."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def play(
    paper: str, variation: Protocol, seed: int, episodes: int, jobs: int, agents: Sequence[str] | None
) -> list[dict[str, Any]]:
    """The counted effects under a variation."""
    patched = next((patch for name, patch in PATCHES.items() if name in variation.name), None)
    with tempfile.TemporaryDirectory() as folder, nullcontext() if patched is None else patch(*patched):
        job = Job(seed, episodes, jobs, Path(folder))
        return counted(_PAPERS[paper][0].play_protocol(variation, job, agents)["effects"])


def write(path: Path, args: argparse.Namespace, chosen: list[Protocol], results: Found) -> None:
    """Write what is known so far: a run may be stopped between two variations."""
    document = {
        "paper": args.paper,
        "episodes": args.episodes,
        "seed": args.seed,
        **({"agents": args.agents.split(",")} if args.agents else {}),
        "variations": [{"name": v.name, "whose": v.whose, "summary": v.summary} for v in chosen],
        "effects": {
            claim: {name: {"measured": text, "follows": follows} for name, (text, follows) in row.items()}
            for claim, row in results.items()
        },
    }
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
