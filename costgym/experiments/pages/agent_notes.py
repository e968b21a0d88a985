"""Describe the agents of rows, a line about each, the paper that it is from, and the model that judged their answers."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from costgym.agents.base import TEXT
from costgym.agents.custom import is_custom
from costgym.agents.registry import find_agent
from costgym.experiments.board.rows import own_name, shown_name
from costgym.experiments.board.tracks import TRACKS
from costgym.experiments.play.metric_registry import plain
from costgym.simulators.errors import CostGymError

PAPERS = {
    "react": ("ReAct: synergizing reasoning and acting in language models", "2210.03629"),
    "cot": ("Chain-of-thought prompting elicits reasoning in large language models", "2201.11903"),
    "dfsdt": ("ToolLLM: facilitating large language models to master 16,000+ real-world APIs", "2307.16789"),
    "tot-dfs": ("Tree of thoughts: deliberate problem solving with large language models", "2305.10601"),
    "plan-act": ("Plan-and-solve prompting", "2305.04091"),
    "btp": ("Budget-constrained tool learning with planning", "2402.15960"),
    "ecoact": ("EcoAct: economic agent determines when to register what action", "2411.01643"),
    "toolplanner": ("ToolPlanner: multi-granularity instructions with path planning and feedback", "2409.14826"),
    "deer": ("DEER: decision-aware and generalizable tool usage", "2402.16696"),
    "catp": ("CATP-LLM: empowering large language models for cost-aware tool planning", "2411.16313"),
    "hugginggpt": ("HuggingGPT: solving AI tasks with ChatGPT and its friends", "2303.17580"),
    "hydra": ("HYDRA: a hyper agent for dynamic compositional visual reasoning", "2403.12884"),
}
"""Title and arXiv number, by a part of an agent's name."""


def describe(row: Mapping[str, Any]) -> str:
    """Describe the agent of a row in one line; "" where nothing is known of it."""
    submission = row.get("submission")
    if isinstance(submission, Mapping) and submission.get("description"):
        return str(submission["description"]).strip().splitlines()[0][:200]
    name, track = own_name(row), TRACKS.get(str(row.get("track")))
    if is_custom(name):
        return "a user's own agent"
    for view in track.views if track is not None else (None,):
        with suppress(CostGymError):
            return find_agent(name, view).summary
    return ""


def judge_note(leaderboard: Mapping[str, Any]) -> str:
    """Write who judged the chat agents' answers of a leaderboard, and what that took; "" where no model did."""
    judge, track = leaderboard.get("judge"), TRACKS.get(str(leaderboard.get("track", "text")))
    if not isinstance(judge, Mapping) or track is None or TEXT not in track.views:
        return ""
    cost = "tokens of unknown price" if judge["usd"] is None else f"${judge['usd']:,.4f}"
    read, wrote = judge["input_tokens"], judge["output_tokens"]
    return (
        f"{plain(judge['model'])}, {judge['answers']:,} answers, {judge['unparsable']:,} unparsable verdicts, "
        f"{judge['void']:,} void; {read + wrote:,} tokens, {cost}, charged to no agent"
    )


def papers_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return title and address of the papers behind the parts of an agent's name."""
    parts = own_name(row).replace("@", "+").replace(":", "+").split("+")
    parts = ["btp" if part.startswith("btp-no-") else part.removesuffix("-answers") for part in parts]
    for suffix in ("-rule", "-no-tags", "-no-path", "-plan"):
        parts = [part.removesuffix(suffix) for part in parts]
    return [(PAPERS[part][0], f"https://arxiv.org/abs/{PAPERS[part][1]}") for part in dict.fromkeys(parts) if part in PAPERS]


def papers_behind(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """List title and address of the papers behind the agents of rows, and the agents' names, in the order of first use."""
    agents_of_paper: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for paper in papers_of(row):
            agents_of_paper.setdefault(paper, {})[shown_name(row)] = None
    return [(title, address, sorted(agents)) for (title, address), agents in agents_of_paper.items()]
