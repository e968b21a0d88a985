"""Agents by name: ``react``, ``dfsdt+btp``, ``tot-dfs+ecoact+btp``, ``random`` and so on."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..simulators.errors import UnknownName
from .access import EcoAct, Prompt, ToolAccess
from .base import NUMERIC, TEXT, Agent
from .btp.access import Btp
from .btp.experience import Experience
from .btp.plan import BtpSettings
from .btp.usefulness import Usefulness
from .custom import is_own, own_agent
from .deer.agent import DECISION
from .llm.agent import LlmAgent
from .llm.session import Strategy
from .models.base import LanguageModel
from .models.named import make_real_model, read_model_name
from .strategies import CotAtN, Dfsdt, PlanThenAct, ReAct, SearchSettings, TotDfs
from .toolplanner.agent import PlannerSettings, ToolPlanner


class AgentEntry(NamedTuple):
    """What there is to know of an agent before it is made.

    Attributes:
        name: as `make_agent` takes it.
        summary: one line.
        env_id: the view it plays in.
    """

    name: str
    summary: str
    env_id: str


_CLASSIC = {
    "random": "calls allowed tools at random",
    "cheapest": "for each missing fact the cheapest tool that serves it",
    "greedy": "for each missing fact the tool with the best advertised value for its price",
    "oracle": "the optimum: knows the tools' luck",
    "oracle-informed": "knows the tools' true reliability, not their luck",
}
_STRATEGIES: dict[str, tuple[str, Callable[[SearchSettings | None], Strategy]]] = {
    "react": ("reason and act, one chain", ReAct),
    "cot@5": ("up to five independent chains", lambda settings: CotAtN(5, settings)),
    "dfsdt": ("depth-first tree search over replies", Dfsdt),
    "tot-dfs": ("tree search that votes between steps", TotDfs),
    "plan-act": ("one plan, then its steps", PlanThenAct),
    "toolplanner": ("extracts tags, plans a path, then grows a guided tree", lambda settings: ToolPlanner()),
    "toolplanner-no-tags": ("the same without tag extraction", lambda settings: ToolPlanner(PlannerSettings(tags=False))),
    "toolplanner-no-path": ("the same without path planning", lambda settings: ToolPlanner(PlannerSettings(path=False))),
}
_DECIDERS = {
    "deer": "decides whether to search and what to call, by a (simulated) model",
    "deer-rule": "decides by the words that query and documentation share",
}
_ACCESS = {
    "prompt": "told prices and the remaining budget",
    "btp": "holds a knapsack plan made from past uses",
    "ecoact": "registers tools by name as needed",
    "ecoact-several": "the same, several at once (an ablation)",
    "ecoact-described": "the same, names told with descriptions (an ablation)",
}
LEARNT = "sb3:"
"""Before the folder of a `costgym train ppo` or `dqn` run."""
LEARNT_PLANNER = "toolplanner:"
"""Before the folder of a `costgym train toolplanner` run."""
LEARNT_DECIDER = "deer:"
"""Before the folder of a `costgym train deer` run."""
_ORDER = ("prompt", "btp", "ecoact", "ecoact-several", "ecoact-described")
"""Accesses that filter tools stand before those that present them."""


def read_agent_name(name: str) -> tuple[str, tuple[str, ...]]:
    """An agent's base and its accesses.

    Raises:
        UnknownName: no such agent; names the nearest.
    """
    if name.startswith((LEARNT, LEARNT_PLANNER, LEARNT_DECIDER)) or is_own(name):
        return name, ()
    base, *suffixes = name.split("+")
    if base not in _CLASSIC and base not in _STRATEGIES and base not in _DECIDERS:
        raise UnknownName("agent", name, agent_names())
    if base not in _STRATEGIES and suffixes:
        raise UnknownName("agent", name, agent_names())
    for suffix in suffixes:
        if suffix not in _ACCESS or suffixes.count(suffix) > 1:
            raise UnknownName("agent", name, agent_names())
    if sum(suffix.startswith("ecoact") for suffix in suffixes) > 1:
        raise UnknownName("agent", name, agent_names())
    return base, tuple(suffixes)


OPENCATP = "costgym/OpenCATP"


def check_agent_name(name: str, env_id: str, model: str = "simulated") -> None:
    """See that there is an agent of this name for an environment.

    Raises:
        UnknownName: there is none; names the nearest.
        CostGymError: what was trained, or the user's own agent, cannot be read.
    """
    if env_id.startswith(OPENCATP) and not is_own(name):
        make_agent(name, env_id, model=model)
    else:
        read_agent_name(name)


def needs_experience(name: str, env_id: str | None = None) -> bool:
    """The agent plans from past uses."""
    if env_id is not None and env_id.startswith(OPENCATP):
        return False
    return "btp" in read_agent_name(name)[1]


def agent_names() -> list[str]:
    """Names of all agents and of the usual combinations."""
    return [entry.name for entry in agents()]


def agents() -> list[AgentEntry]:
    """All agents, with a line about each."""
    found = [AgentEntry(name, summary, NUMERIC) for name, summary in _CLASSIC.items()]
    found += [AgentEntry(name, summary, DECISION) for name, summary in _DECIDERS.items()]
    for base, (summary, _) in _STRATEGIES.items():
        found.append(AgentEntry(base, summary, TEXT))
        for suffixes in (("prompt",), ("btp",), ("ecoact",), ("ecoact", "btp")):
            words = "; ".join(_ACCESS[suffix] for suffix in suffixes)
            found.append(AgentEntry("+".join([base, *suffixes]), f"{summary}; {words}", TEXT))
    return found


def make_agent(
    name: str,
    env_id: str | None = None,
    *,
    model: str | LanguageModel = "simulated",
    experience: Experience | str | Path | None = None,
    search: SearchSettings | None = None,
    btp: BtpSettings | None = None,
    usefulness: Usefulness | str | Path | None = None,
) -> Agent:
    """An agent by name.

    Args:
        name: one of `agent_names()`, any strategy with accesses added by "+", ``sb3:RUN``, ``deer:RUN`` or
            ``toolplanner:RUN``: learnt in that folder, or ``FILE.py:CLASS``: a user's own.
        env_id: the environment in which the name is looked up: `greedy` is another agent in OpenCATP. By default the tool
            world, where it has the name.
        model: a language model, or its name: "simulated", "openai:MODEL" for a server that speaks OpenAI's protocol,
            "local:MODEL" for a folder or a hub name that transformers loads here; see `costgym.agents.models.named`.
        experience: past uses for BTP, or the file that holds them.
        search: limits of the search; None for the strategy's own.
        btp: settings of BTP.
        usefulness: judges results for BTP, or the folder of a `costgym train btp` run; None for the rules.

    Raises:
        UnknownName: no such agent or model; names the nearest.
        DataError: the experience or the judge cannot be read.
    """
    if is_own(name):
        return own_agent(name)
    if env_id is not None and env_id.startswith(OPENCATP):
        from .opencatp.registry import make_plan_agent

        return make_plan_agent(name, env_id, model)
    base, suffixes = read_agent_name(name)
    if base.startswith(LEARNT):
        from .sb3 import Sb3Agent

        return Sb3Agent(base.removeprefix(LEARNT), base)
    if base.startswith(LEARNT_PLANNER):
        from .toolplanner.learnt import learnt_agent

        return learnt_agent(base.removeprefix(LEARNT_PLANNER), base, None if isinstance(model, str) else model)
    if base.startswith(LEARNT_DECIDER):
        from .deer.learnt import LearntDeerAgent

        return LearntDeerAgent(base.removeprefix(LEARNT_DECIDER), base)
    if base in _CLASSIC:
        return _classic(base)
    if base in _DECIDERS:
        return _decider(base, model)
    access: list[ToolAccess] = []
    for suffix in sorted(suffixes, key=_ORDER.index):
        if suffix == "prompt":
            access.append(Prompt())
        elif suffix == "btp":
            access.append(Btp(_experience(experience), btp, _usefulness(usefulness)))
        else:
            access.append(EcoAct(several=suffix == "ecoact-several", descriptions=suffix == "ecoact-described"))
    chosen = make_model(model) if isinstance(model, str) else model
    return LlmAgent(chosen, _STRATEGIES[base][1](search), access, name)


def model_names() -> list[str]:
    return ["simulated", "openai:MODEL", "local:MODEL"]


def make_model(name: str) -> LanguageModel:
    """A language model by name.

    Raises:
        UnknownName: no such model, or no such setting of it.
        ConfigError: a setting makes no sense, or the model cannot be reached.
    """
    if name == "simulated":
        from .toolplanner.simulated import SimulatedPlanner

        return SimulatedPlanner()
    real = read_model_name(name)
    if real is None:
        raise UnknownName("model", name, model_names())
    return make_real_model(real)


def _decider(name: str, model: str | LanguageModel) -> Agent:
    from .deer import DeerAgent, RuleAgent, SimulatedDecider

    if name == "deer-rule":
        return RuleAgent()
    if model != "simulated":
        raise UnknownName("model for deer", model if isinstance(model, str) else model.name, ["simulated"])
    return DeerAgent(SimulatedDecider())


def _classic(name: str) -> Agent:
    from .classic import CheapestAgent, GreedyAgent, RandomAgent
    from .oracle import InformedOracleAgent, OracleAgent

    found: dict[str, Callable[[], Agent]] = {
        "random": RandomAgent,
        "cheapest": CheapestAgent,
        "greedy": GreedyAgent,
        "oracle": OracleAgent,
        "oracle-informed": InformedOracleAgent,
    }
    return found[name]()


def _usefulness(value: Usefulness | str | Path | None) -> Usefulness | None:
    if not isinstance(value, str | Path):
        return value
    from .btp.usefulness_model import load_usefulness

    return load_usefulness(value)


def _experience(value: Experience | str | Path | None) -> Experience:
    if value is None:
        return Experience()
    if isinstance(value, Experience):
        return value
    path = Path(value)
    stamp = path.stat().st_mtime_ns if path.exists() else 0
    return _load(str(path), stamp)


@lru_cache(maxsize=2)
def _load(path: str, stamp: int) -> Experience:
    return Experience.load(path)
