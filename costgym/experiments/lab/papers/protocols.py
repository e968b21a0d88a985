"""The settings under which a paper's systems are played: as the paper published them, and those of the common board.

A protocol states everything in which the two differ, so that a table can be read beside the paper's: candidates on offer,
limits of the search and how they are counted, BTP's smoothing and past uses. Nothing in a protocol is fitted to the effects.

Sources: BTP, Sections 3.1 and 3.2 and Appendix A; EcoAct, Section 3.1 and Appendix B; ToolPlanner, Section 5.1 and Table 7;
where papers do not say it, their published code.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.experiments.play.experience import ExperienceSettings
from costgym.simulators.decision.toolsets import NEAREST
from costgym.simulators.errors import check_known
from costgym.simulators.marketplace.sources import MarketplaceSource
from costgym.simulators.scenario import Scenario, parse_scenario

PUBLISHED, BOARD, NEAR = "published", "board", "near"


@dataclass(frozen=True, slots=True)
class Protocol:
    """The terms under which a paper's systems are played."""

    name: str  # "published" or "board"; "near" for DEER, which is on no board of papers
    summary: str  # what is particular to it, in words
    # tools on offer in a task by group of rows; None for as many as the world has
    candidates: Mapping[str, int | tuple[int, int] | None] = field(default_factory=lambda: {"": None})
    search: Mapping[str, Any] = field(default_factory=dict)  # as `SearchSettings.chosen` reads it
    btp: Mapping[str, Any] = field(default_factory=dict)  # fields of `BtpSettings`
    experience: ExperienceSettings | None = None  # what BTP plans from; None for a paper without past uses
    grading: str = "judge"  # of the paper's own table
    # further fields of the world's source, such as `needs` (for DEER, of `DecisionSettings`); `candidates` that are retrieved
    # are as many as the group has at most
    source: Mapping[str, Any] = field(default_factory=dict)
    failures: str = ""  # how tools fail, by the name of a preset; "" for the world's own
    judge: Mapping[str, float] = field(default_factory=dict)  # fields of the judge that differ from the world's
    model: str = "simulated"  # its name, with rates of its own where the paper's setting gives them
    whose: str = ""  # where a variation of the published protocol comes from: "paper" or "ours"

    def scenario(self, base: Scenario, group: str = "") -> Scenario:
        """Return the base world with as many candidates as a group of rows has."""
        wanted = self.candidates[group]
        changes = {**({} if wanted is None else {"candidates": wanted}), **self.source}
        retrieved = changes.get("candidates")
        if isinstance(retrieved, Mapping) and wanted is not None:
            changes["candidates"] = {**retrieved, "k": wanted if isinstance(wanted, int) else wanted[1]}
        if not isinstance(base.source, MarketplaceSource) or not (changes or self.failures or self.judge):
            return base
        document = base.model_dump(mode="json")
        document["source"].update(changes)
        document["judge"] = {**document["judge"], **self.judge}
        return parse_scenario({**document, **({"failures": self.failures} if self.failures else {})})


CHATGPT = "simulated:thought=0.13"
"""Models with function calling seldom write a thought beside a call, and depths that count nodes depend on it.

In ten published solution trees of ChatGPT (ToolBench, StableToolBench), 6 of 45 calls on the first path have a thought; in the
nine of ToolBench, 65 of 67 calls that were asked for as another step than before.
"""
_EXPLORED = ExperienceSettings(candidates=16)
"""BTP's past uses come from training queries with candidates of their own, whatever the test queries offer."""

PROTOCOLS: dict[str, tuple[Protocol, ...]] = {
    "btp": (
        Protocol(
            PUBLISHED,
            "5 candidates; depth counted in nodes (12 of them, ToT-DFS 8), with thoughts as seldom as ChatGPT's; 200 replies "
            "(ToT-DFS 30); the published code's smoothing and rounding; past uses on the answered paths of DFSDT",
            {"": 5},
            {name: asdict(SearchSettings.btp(tree_of_thoughts=name == "tot-dfs")) for name in ("react", "dfsdt", "tot-dfs")},
            asdict(BtpSettings.published()),
            _EXPLORED,
            model=CHATGPT,
        ),
        Protocol(
            BOARD,
            "16 candidates; depth counted in steps (12 of them, ToT-DFS 8) with 200 replies (ToT-DFS 30); BTP's own settings",
            experience=_EXPLORED,
        ),
    ),
    "ecoact": (
        Protocol(
            PUBLISHED,
            "up to 64 candidates; chains of 24 nodes, with thoughts as seldom as ChatGPT's; one child after a registration",
            {"up to 10": (5, 10), "11 to 20": (11, 20), "more than 20": (21, 64)},
            asdict(SearchSettings.ecoact()),
            model=CHATGPT,
        ),
        Protocol(
            BOARD,
            "up to 40 candidates; chains of 24 steps",
            {"up to 10": (5, 10), "11 to 20": (11, 20), "more than 20": (21, 40)},
            {"depth": 24},
        ),
    ),
    "deer": (
        Protocol(
            PUBLISHED,
            "candidates drawn at random, within and across clusters, in the paper's mixture; for unseen tools at random",
        ),
        Protocol(
            NEAR,
            "the candidates whose descriptions are most like the right tool's, each for another fact",
            source={"mixture": {NEAREST: 1}, "test_mixture": {NEAREST: 1}},
        ),
    ),
    "toolplanner": (
        Protocol(
            PUBLISHED,
            "tasks across categories (G3) alone; plain tree search with ToolPlanner's own limits (4 rounds deep, 30 replies) "
            "among the five tools that a retriever finds for the instruction in the whole catalogue; ToolPlanner looks up its "
            "tags there",
            search={"dfsdt": {"depth": 4, "queries": 30}},
            source={"candidates": {"from": "catalogue", "retriever": "bm25", "k": 5}},
        ),
        Protocol(BOARD, "the same tasks; plain tree search with ToolBench's limits: 12 steps deep, 200 replies"),
    ),
    "catp": (
        Protocol(
            PUBLISHED,
            "a policy for each kind of tasks, trained by the preset of the paper's text: Eq. 4's cumulative charge, the "
            "largest return of the data as the target, no discount; plans that are not valid are left out of the means",
        ),
        Protocol(
            BOARD,
            "one policy for both kinds of tasks, trained by the default settings of `costgym train catp`; a plan that is not "
            "valid has a Quality of Plan of -0.5",
        ),
    ),
}


def protocols(paper: str) -> tuple[Protocol, ...]:
    """Return the protocols of a paper, the published one first."""
    check_known("paper with protocols", paper, PROTOCOLS)
    return PROTOCOLS[paper]
