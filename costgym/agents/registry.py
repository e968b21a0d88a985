"""The table of agents: every name that `make_agent` takes, where it plays, what it needs and how it is made.

An agent's module is imported when the agent is made, so that lists of agents and errors about their names are quick.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from costgym.agents.base import (
    DECISION,
    NUMERIC,
    PLAN_CALLS,
    PLAN_CHAT,
    PLANS,
    SESSION,
    SESSION_1,
    SESSION_CHAT,
    TEXT,
    Agent,
    in_view,
    view_of,
)
from costgym.agents.custom import custom_agent, is_custom
from costgym.agents.zoo.cards import FOLDER, ZOO, is_zoo, read_card, zoo_folder, zoo_names
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.files import decode_json, read_text

if TYPE_CHECKING:
    from costgym.agents.btp.access import Btp
    from costgym.agents.btp.experience import Experience
    from costgym.agents.btp.plan import BtpSettings
    from costgym.agents.btp.usefulness import Usefulness
    from costgym.agents.llm.session import Strategy, ToolAccess
    from costgym.agents.llm.strategies import SearchSettings
    from costgym.agents.models.base import LanguageModel
    from costgym.agents.opencatp.base import Planner

COMMAND = "command:"  # before the names of agents that are commands, which `costgym rank` plays
CLIENT = "client:"  # before the names of clients that play by themselves, through `costgym serve`


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """The arguments of `make_agent`, as the makers in the table read them."""

    name: str
    env_id: str
    model: "str | LanguageModel" = "simulated"
    experience: "Experience | str | Path | None" = None
    search: "SearchSettings | None" = None
    btp: "BtpSettings | None" = None
    usefulness: "Usefulness | str | Path | None" = None


Maker = Callable[[AgentRequest], Agent]


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """The description of an agent before it is made."""

    name: str  # the name that `make_agent` takes
    summary: str  # one line for lists
    env_ids: tuple[str, ...]  # the environments that it plays in, the usual one first, each for all its versions
    make: Maker = field(repr=False, compare=False)
    needs_experience: bool = False  # it plans from past uses of tools: `make_agent` needs `experience`
    privileged: bool = False  # it reads what no competitor can know, such as the luck of the episode: a bound, never ranked
    modules: tuple[str, ...] = ()  # modules of the extra `train` that it plays with
    simulated: bool = False  # only the simulated model can be behind it
    composes: bool = False  # a strategy, to which tool accesses can be added
    trained_in: int | None = None  # the version of the world that it learnt from, where it plays unless told otherwise

    @property
    def playable(self) -> bool:
        """Return whether the extras that it plays with are installed."""
        return all(find_spec(module) is not None for module in self.modules)

    @property
    def env_id(self) -> str:
        """The environment that it plays in unless told otherwise."""
        return self.env_ids[0]


# -- kinds of agents -------------------------------------------------------------------------------------------------------


def _load(path: str, *arguments: Any, **settings: Any) -> Callable[..., Any]:
    """Return a maker of ``module:Class`` in this package, which is imported by the first call."""
    module, _, name = path.partition(":")
    return lambda *more: getattr(import_module(f"costgym.agents.{module}"), name)(*arguments, *more, **settings)


def _policy(name: str, summary: str, make: Callable[[], Agent], env_id: str = NUMERIC, privileged: bool = False) -> AgentEntry:
    """Return an agent that is made without arguments."""
    return AgentEntry(name, summary, (env_id,), lambda request: make(), privileged=privileged)


def _index(name: str, summary: str, memory: bool, paced: bool, **more: Any) -> AgentEntry:
    return _policy(name, summary, _load("sessions.policies:IndexPolicy", name, memory, paced, **more), SESSION)


def _strategy(
    name: str, summary: str, make_strategy: "Callable[[SearchSettings | None], Strategy]", env_id: str = TEXT
) -> AgentEntry:
    """Return a strategy, to be composed with a language model and the tool accesses that its name adds."""

    def make(request: AgentRequest) -> Agent:
        from costgym.agents.llm.session import LlmAgent

        _, suffixes = read_agent_name(request.name)
        access = [_ACCESS[suffix][1](request) for suffix in sorted(suffixes, key=list(_ACCESS).index)]
        return LlmAgent(_model(request), make_strategy(request.search), access, request.name, env_id)

    return AgentEntry(name, summary, (env_id,), make, composes=True)


def _tool_planner(**settings: bool) -> "Callable[[SearchSettings | None], Strategy]":
    """Return a maker of ToolPlanner, which has limits of its own."""

    def make(search: "SearchSettings | None") -> "Strategy":
        from costgym.agents.toolplanner.agent import PlannerSettings, ToolPlanner

        return ToolPlanner(PlannerSettings(**settings))

    return make


def _planner(
    name: str, summary: str, make_planner: "Callable[[AgentRequest], Planner]", privileged: bool = False, calls: bool = True
) -> AgentEntry:
    """Return a planner for OpenCATP, whose plans are played token by token, given whole, or played call by call."""

    def make(request: AgentRequest) -> Agent:
        from costgym.agents.opencatp.base import PlanAgent, PlanCaller, PlanSpeaker

        players: dict[str, Callable[[Planner], Agent]] = {PLAN_CHAT: PlanSpeaker, PLAN_CALLS: PlanCaller}
        return players.get(request.env_id, PlanAgent)(make_planner(request))

    views = (PLANS, PLAN_CHAT, PLAN_CALLS) if calls else (PLANS, PLAN_CHAT)
    return AgentEntry(name, summary, views, make, privileged=privileged)


def _rule(path: str, *arguments: Any, **settings: Any) -> "Callable[[AgentRequest], Any]":
    """Return a maker of something that does not depend on the request."""
    return lambda request: _load(path, *arguments, **settings)()


def _model(request: AgentRequest) -> "LanguageModel":
    from costgym.agents.models.simulated import is_simulated, read_rates

    if not isinstance(request.model, str):
        return request.model
    if request.env_id == SESSION_CHAT and is_simulated(request.model):
        from costgym.agents.sessions.speaking import SimulatedSessionModel

        return SimulatedSessionModel(read_rates(request.model))
    return make_model(request.model)


def _prompted(request: AgentRequest) -> "Planner":
    from costgym.agents.models.simulated import is_simulated
    from costgym.agents.opencatp.planners import PromptPlanner
    from costgym.agents.opencatp.simulated import SimulatedPlanner

    if is_simulated(request.model):
        return PromptPlanner(request.name, SimulatedPlanner())
    return PromptPlanner(request.name, _model(request))


def _simulated_deer(request: AgentRequest) -> Agent:
    from costgym.agents.deer.deciders import DeerAgent, SimulatedDecider
    from costgym.agents.models.simulated import is_simulated

    if not is_simulated(request.model):
        name = request.model if isinstance(request.model, str) else request.model.name
        raise UnknownName("model for deer", name, ["simulated"])
    return DeerAgent(SimulatedDecider())


def _toolplanner_of_run(request: AgentRequest) -> Agent:
    from costgym.agents.toolplanner.learnt import learnt_agent

    model = None if isinstance(request.model, str) else request.model
    return learnt_agent(run_folder(request.name), request.name, model=model)


def _btp(request: AgentRequest, stable: bool = False, **changed: Any) -> "Btp":
    from costgym.agents.btp.access import Btp, BtpStable
    from costgym.agents.btp.plan import BtpSettings
    from costgym.agents.btp.usefulness import load_usefulness
    from costgym.agents.sessions.composed import SessionBtp
    from costgym.simulators.retrieval.sentences import need_minilm

    settings = replace(request.btp or BtpSettings(), **changed)
    if settings.similarity == "minilm":
        need_minilm()  # before anything is played
    if request.env_id == SESSION_CHAT:
        return SessionBtp(settings)
    past, judge = request.experience, request.usefulness
    if isinstance(past, str | Path):
        # the stamp keeps a file that was written again from being taken for the one that was read
        past = _experience(str(past), Path(past).stat().st_mtime_ns if Path(past).exists() else 0)
    if isinstance(judge, str | Path):
        judge = load_usefulness(judge)
    return (BtpStable if stable else Btp)(past, settings, judge)


@lru_cache(maxsize=8)  # curves over experience go from one file to the next and back
def _experience(path: str, stamp: int) -> "Experience":
    from costgym.agents.btp.experience import Experience

    return Experience.load(path)


# -- the table -------------------------------------------------------------------------------------------------------------

# Where a name stands for two agents, the earlier one is meant unless the environment says otherwise.
_AGENTS = (
    _policy("random", "calls allowed tools at random", _load("classic:RandomAgent")),
    _policy(
        "retry", "repeats a failed call blindly, the cheapest tool first; for worlds with writes", _load("writing:RetryAgent")
    ),
    _policy(
        "check-then-retry",
        "after an ambiguous end looks whether the call took effect, and takes back what was done twice",
        _load("writing:CheckThenRetryAgent"),
    ),
    _policy(
        "idempotent", "prefers tools with an idempotency key, and repeats on the same tool", _load("writing:IdempotentAgent")
    ),
    _policy("cheapest", "for each missing fact the cheapest tool that serves it", _load("classic:CheapestAgent")),
    _policy(
        "greedy", "for each missing fact the tool with the best advertised value for its price", _load("classic:GreedyAgent")
    ),
    _policy(
        "bayes-index",
        "the lowest price over the chance of success, inferred from adverts and its own calls",
        _load("index:BayesIndexAgent"),
    ),
    _policy("do-nothing", "ends the episode at once", _load("classic:DoNothingAgent")),
    _policy("oracle", "the optimum: knows the tools' luck", _load("oracle:OracleAgent"), privileged=True),
    _policy(
        "oracle-informed",
        "knows each tool's true reliability, speed and limits, not its luck",
        _load("oracle:ExpectedOptimumAgent"),
        privileged=True,
    ),
    _policy("do-nothing", "leaves every query", _load("sessions.policies:SessionDoNothing"), SESSION),
    _policy("random", "any allowed action", _load("classic:RandomAgent", SESSION), SESSION),
    _policy(
        "greedy",
        "the best advertised success for its price, for every query until the money is gone",
        _load("sessions.policies:SessionGreedy"),
        SESSION,
    ),
    _index("bayes-index", "the lowest price over the inferred chance, by a belief for each query", False, False),
    _index("bayes-memory", "the same with beliefs that are kept over the session", True, False),
    _index("paced", "an index by a belief for each query, under a shadow price that follows spending", False, True),
    _index("thompson", "paced, with chances drawn from beliefs that are kept over the session", True, True, samples=True),
    _policy("optimistic", "paced, with memory and an upper confidence bound", _load("sessions.policies:optimistic"), SESSION),
    _policy(
        "tuned",
        "optimistic, with all constants tuned together, and paying for later queries too",
        _load("sessions.policies:tuned"),
        SESSION,
    ),
    _policy(
        "hedged",
        "optimistic, which calls another tool beside one that takes long, where calls may run side by side",
        _load("sessions.policies:Hedged"),
        SESSION,
    ),
    _policy(
        "informed-paced",
        "paced, knows every tool's present regime, not its luck",
        _load("sessions.policies:InformedPaced"),
        SESSION,
        True,
    ),
    _policy(
        "informed",
        "knows all regimes, prices and queries, not luck, and re-solves as it goes",
        _load("sessions.policies:Informed"),
        SESSION,
        True,
    ),
    _policy(
        "cheapest",
        "answers from memory, else by the cheapest tools that serve the query, three at most",
        _load("sessions.speaking:SpokenCheapest"),
        SESSION_CHAT,
    ),
    AgentEntry(
        "deer", "decides whether to search and what to call, by a simulated model", (DECISION,), _simulated_deer, simulated=True
    ),
    _policy("deer-rule", "decides by the words that query and documentation share", _load("deer.deciders:RuleAgent"), DECISION),
    _policy("random", "decides at random", _load("classic:RandomAgent", DECISION), DECISION),
    _policy("do-nothing", "answers at once, without a search", _load("deer.deciders:DirectAnswerer"), DECISION),
    _policy(
        "oracle",
        "the right decisions, or an answer where they cost more",
        _load("oracle:RightDecisionsAgent"),
        DECISION,
        privileged=True,
    ),
    _strategy("react", "reason and act, one chain", _load("llm.strategies:ReAct")),
    _strategy("react", "reason and act, one chain to the session's end", _load("sessions.composed:SessionReact"), SESSION_CHAT),
    _strategy("cot@5", "up to five independent chains", _load("llm.strategies:CotAtN", 5)),
    _strategy("dfsdt", "depth-first tree search over replies", _load("llm.strategies:Dfsdt")),
    _strategy(
        "dfsdt",
        "a depth-first search for each query, of which nothing can be undone",
        _load("sessions.composed:SessionDfsdt"),
        SESSION_CHAT,
    ),
    _strategy("tot-dfs", "tree search that votes between steps", _load("llm.strategies:TotDfs")),
    _strategy("plan-act", "one plan, then its steps", _load("llm.strategies:PlanThenAct")),
    _strategy(
        "catp-plan",
        "one plan of all calls, weighed by their prices and run as a whole; then step by step",
        _load("one_world.planning:CatpPlan"),
    ),
    _strategy("toolplanner", "extracts tags, plans a path, then grows a guided tree", _tool_planner()),
    _strategy("toolplanner-no-tags", "the same without tag extraction", _tool_planner(tags=False)),
    _strategy(
        "toolplanner-answers",
        "the same, answering from what it found where it would give up",
        _tool_planner(answer=True),
    ),
    _strategy("toolplanner-no-path", "the same without path planning", _tool_planner(path=False)),
    _planner(
        "oracle",
        "the best plan for each sample, known after execution",
        _rule("opencatp.rules:ClairvoyantPlanner"),
        privileged=True,
    ),
    _planner(
        "oracle-informed",
        "the best fixed plan for each task and size level on the train samples",
        _rule("opencatp.rules:ExpectedOptimumPlanner"),
        privileged=True,
    ),
    _planner(
        "greedy",
        "adds the restorer that gains most on the train samples, until none gains",
        _rule("opencatp.rules:GreedyPlanner"),
    ),
    _planner("fixed-all", "every restorer that the description suggests", _rule("opencatp.rules:FixedPlanner", "fixed-all")),
    _planner("fixed-none", "no restorer", _rule("opencatp.rules:FixedPlanner", "fixed-none", restore=False)),
    _planner("random", "a random walk through the planning language", _rule("opencatp.rules:RandomPlanner"), calls=False),
    _policy("random", "calls allowed tools at random", _load("classic:RandomAgent", PLAN_CALLS), PLAN_CALLS),
    _policy("do-nothing", "ends the episode at once", _load("classic:DoNothingAgent", PLAN_CALLS), PLAN_CALLS),
    _planner("do-nothing", "the cheapest plan that the language allows", _rule("opencatp.rules:CheapestPlanner"), calls=False),
    _planner("zero-shot", "a language model asked for the plan", _prompted),
    _planner("few-shot", "the same after worked examples", _prompted),
    _planner("hugginggpt", "the same after finding the steps", _prompted),
    _planner("hydra", "the same, choosing among several plans by what they cost", _prompted),
)
_LANGUAGE_MODEL = ("torch", "transformers", "safetensors")


_NETWORK = ("torch", "safetensors")


def _run_of(by: str, env_id: str, make: Callable[[Path, str], Agent], modules: tuple[str, ...] = _LANGUAGE_MODEL) -> AgentEntry:
    """Return an agent that is made from the folder of a training run and a name; `_trained` names it."""
    return AgentEntry(
        "",
        f"trained by {by}",
        (env_id,),
        lambda request: make(run_folder(request.name), request.name),
        modules=modules,
        trained_in=0,
    )


def _planner_of_run(by: str) -> AgentEntry:
    make = _load("catp.planner:CatpPlanner")
    entry = _planner("", f"trained by {by}", lambda request: make(run_folder(request.name), request.name))
    return replace(entry, modules=_LANGUAGE_MODEL, trained_in=0)


_TRAINED = {
    "sb3": _run_of("`costgym train ppo` or `dqn`", NUMERIC, _load("sb3:Sb3Agent"), _NETWORK),
    "sessions": _run_of(f"`costgym train ppo --env {SESSION_1}`", SESSION, _load("sessions.learnt:SessionAgent"), _NETWORK),
    "deer": _run_of("`costgym train deer`", DECISION, _load("deer.learnt:LearntDeerAgent")),
    "toolplanner": AgentEntry(
        "", "trained by `costgym train toolplanner`", (TEXT,), _toolplanner_of_run, modules=_LANGUAGE_MODEL, trained_in=0
    ),
    **{method: _planner_of_run(f"`costgym train {method}`") for method in ("catp", "ift", "rltf")},
}
"""Agents of training runs by the prefix of their names, as in ``sb3:RUN``."""

# Accesses that filter tools stand before those that present them: an agent's accesses take effect in this order.
_ACCESS: dict[str, tuple[str, Callable[[AgentRequest], "ToolAccess"]]] = {
    "prompt": ("told prices and the remaining budget", _rule("llm.access:Prompt")),
    "deer": ("decides first whether a tool is needed, and which may be of use", _rule("deer.gate:DeerGate")),
    "prompt-end": ("the same at the end of each request, so that the beginning stays cached", _rule("llm.layouts:PromptAtEnd")),
    "btp": ("holds a knapsack plan made from past uses", _btp),
    "btp-no-summary": ("the same without the final summary (an ablation)", partial(_btp, summarise=False)),
    "btp-no-blacklist": ("the same without a blacklist (an ablation)", partial(_btp, blacklist=False)),
    "btp-no-caps": ("the same, each tool as often as the budget allows (an ablation)", partial(_btp, caps=False)),
    "btp-stable": ("the same, with a list of functions that stays, so that it stays cached", partial(_btp, stable=True)),
    "btp-minilm": ("the same, past queries compared by MiniLM (extra `minilm`)", partial(_btp, similarity="minilm")),
    "summary": ("writes the final answer again from all results, as BTP does (a control)", _rule("llm.access:Summary")),
    "ecoact": ("registers tools by name as needed", _rule("llm.access:EcoAct")),
    "ecoact-several": ("the same, several at once (an ablation)", _rule("llm.access:EcoAct", several=True)),
    "ecoact-described": ("the same, names told with descriptions (an ablation)", _rule("llm.access:EcoAct", descriptions=True)),
    "ecoact-append": (
        "the same, documented in messages, so that the list of functions stays cached",
        _rule("llm.layouts:EcoActAppend"),
    ),
    "compact": ("summarises a long conversation", _rule("llm.layouts:Compact")),
    "search": ("searches the catalogue for more tools by words, where tools are retrieved", _rule("llm.access:Search")),
    "browse": (
        "opens categories and providers of the catalogue instead, as AnyTool does",
        _rule("llm.access:Search", hierarchical=True),
    ),
}
_NO_ACCESS = {
    name: f"{name} is a strategy and not a tool access: it makes the search itself, so write it first, as in {name}+deer"
    for name in ("catp-plan", "toolplanner", "react", "dfsdt", "tot-dfs", "plan-act")
} | {"catp": "CATP's plans are a strategy, and no tool access: write catp-plan, as in catp-plan+deer"}
"""Parts of names that make no sense behind another strategy, and why."""
_LAYOUT = "its layout is for one task; here the functions stay as they are, and queries change"
_ANSWERS, _ON_OFFER = "it concerns the final answer, which a session lacks", "all tools of a session are on offer already"
NOT_IN_SESSIONS = {
    "cot@5": "a second chain, which shares nothing with the first, would go on in the same session, so it is the same as one",
    "tot-dfs": "it makes several steps to keep the best; in a session every step is a call, which is billed and stays",
    "plan-act": "it plans once and never revises, and the queries of a session are not known before they come",
    "toolplanner": "it reads from a request which functions are needed; queries of a session name the tools that serve them",
    "deer": "it decides on one request before it is answered, and a session's queries come one after the other",
    "catp-plan": "it writes one plan for the whole request, and the queries of a session are not known before they come",
    "prompt-end": _LAYOUT, "btp-stable": _LAYOUT, "ecoact-append": _LAYOUT,
    "compact": "its model reads the rules and the present query from the whole conversation",
    "summary": _ANSWERS, "btp-no-summary": _ANSWERS, "search": _ON_OFFER, "browse": _ON_OFFER,
}  # fmt: skip
"""Strategies and accesses without a meaning in a session, and why."""
_BTP = frozenset(suffix for suffix in _ACCESS if suffix.startswith("btp"))
_USUAL_COMBINATIONS = (("prompt",), ("btp",), ("ecoact",), ("ecoact", "btp"))


# -- names -----------------------------------------------------------------------------------------------------------------


def read_agent_name(name: str, env_id: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Split a name into base and tool accesses, loading nothing; raises UnknownName, which names those of `env_id`."""
    if is_custom(name) or name.startswith((COMMAND, CLIENT)) or _trained(name) is not None:
        return name, ()
    # neither a user's file is run nor a checkpoint opened here: a leaderboard reads names long before it plays
    base, *suffixes = name.split("+")
    entries = [entry for entry in _AGENTS if entry.name == base]
    composes = any(entry.composes for entry in entries)
    known = all(suffix in _ACCESS and suffixes.count(suffix) == 1 for suffix in suffixes)
    if composes and (reason := _without_meaning(base, suffixes)):
        raise ConfigError(f"agent {name}", reason)
    twice = any(sum(s.startswith(kind) for s in suffixes) > 1 for kind in ("btp", "ecoact", "prompt"))
    if not entries or (suffixes and not composes) or not known or twice:
        raise _unknown(name, env_id)
    return base, tuple(suffixes)


def _without_meaning(base: str, suffixes: Sequence[str]) -> str:
    """The reason why parts of a name have no meaning together; "" where they have one."""
    if base == "catp-plan" and any(suffix.startswith("ecoact") for suffix in suffixes):
        return (
            "expected it without EcoAct: a plan is written once, from the documents of all tools, and EcoAct shows none first"
        )
    return next((_NO_ACCESS[suffix] for suffix in suffixes if suffix in _NO_ACCESS), "")


def find_agent(name: str, env_id: str | None = None) -> AgentEntry:
    """The entry of an agent: of the table, of a training run, a composition, or a user's own class, whose code is run.

    Raises UnknownName where `env_id` (None: any environment) has no such agent, and DataError for an unreadable file.
    """
    entry = known_agent(name, env_id)
    if entry is None:
        raise _unknown(name, env_id)
    return entry


def known_agent(name: str, env_id: str | None = None) -> AgentEntry | None:
    """`find_agent`, but None where the environment has no such agent: the error that lists the others takes long to make."""
    base, suffixes = read_agent_name(name, env_id)
    if is_custom(name):
        agent = custom_agent(name)
        if env_id is not None and not in_view(agent, env_id):
            expected = f"expected an agent of {env_id}, but its class has env_id = {agent.env_id!r}"
            raise ConfigError("agent", f"{name}: {expected}")
        return AgentEntry(name, "a user's own", (view_of(agent.env_id),), lambda request: custom_agent(request.name))
    view = None if env_id is None else view_of(env_id)
    if name.startswith(COMMAND) and view in (None, TEXT):
        return AgentEntry(name, "any command, metered", (TEXT,), _refuse_command)
    if name.startswith(CLIENT) and env_id in (None, TEXT):
        return AgentEntry(name, "a client of a server, with its own loop and model", (TEXT,), _refuse_client)
    trained = _trained(name)
    entries = [trained] if trained is not None else [entry for entry in _AGENTS if entry.name == base]
    for entry in entries:
        fits = not suffixes or (entry.composes and (TEXT in entry.env_ids or NOT_IN_SESSIONS.keys().isdisjoint(suffixes)))
        if fits and (view is None or view in entry.env_ids):
            return _with_access(entry, suffixes) if suffixes else entry
    unknown = _unknown(name, env_id) if view == SESSION_CHAT else None
    if isinstance(unknown, ConfigError):
        raise unknown
    return None


def _refuse_command(request: AgentRequest) -> Agent:
    raise ConfigError("agent", f"{request.name} is a command; `costgym rank -- COMMAND` plays it")


def _refuse_client(request: AgentRequest) -> Agent:
    raise ConfigError("agent", f"{request.name} plays by itself, through `costgym serve --record DIR --episodes N`")


def run_folder(name: str) -> Path:
    """The folder of a trained agent, after the colon or shipped; raises DataError where a shipped file is not its card's."""
    return zoo_folder(name) if is_zoo(name) else Path(name.partition(":")[2])


def agents(env_id: str | None = None) -> list[AgentEntry]:
    """Return the agents of an environment, or of all: the table with the usual compositions, and the trained ones that ship."""
    view = None if env_id is None else view_of(env_id)
    return [entry for entry in _all_agents(tuple(zoo_names())) if view is None or view in entry.env_ids]


@lru_cache(maxsize=1)  # every message about an unknown name lists them
def _all_agents(zoo: tuple[str, ...]) -> tuple[AgentEntry, ...]:
    entries = []
    for entry in (*_AGENTS, *filter(None, map(_trained, zoo))):
        entries.append(entry)
        if entry.composes:
            usual = (suffixes for suffixes in _USUAL_COMBINATIONS if not _without_meaning(entry.name, suffixes))
            entries += [_with_access(entry, suffixes) for suffixes in usual]
    return tuple(entries)


def parts_of_names() -> dict[str, str]:
    """The accesses that the name of a language-model agent may add, such as "+btp", and what each does."""
    return {f"+{suffix}": summary for suffix, (summary, _) in _ACCESS.items()}


def agent_names(env_id: str | None = None) -> list[str]:
    """Return the names of the agents of an environment, or of all, each once."""
    return list(dict.fromkeys(entry.name for entry in agents(env_id)))


def make_agent(
    name: str,
    env_id: str | None = None,
    *,
    model: "str | LanguageModel" = "simulated",
    experience: "Experience | str | Path | None" = None,
    search: "SearchSettings | None" = None,
    btp: "BtpSettings | None" = None,
    usefulness: "Usefulness | str | Path | None" = None,
) -> Agent:
    """Make an agent by its name.

    Args:
        name: One of `agent_names()`; any strategy with tool accesses added by "+"; ``sb3:RUN``, ``deer:RUN``,
            ``toolplanner:RUN``, ``catp:RUN``, ``ift:RUN``, ``rltf:RUN`` or ``sessions:RUN``, trained in that folder;
            ``zoo:ppo`` and the like, trained ones that ship; or ``FILE.py:CLASS``, a user's own.
        env_id: The environment that it shall play in. Needed where a name stands for two agents ("greedy", "random" and the
            oracles also plan for OpenCATP); by default the tool world's.
        model: A language model, or its name: "simulated", also with rates of its own ("simulated:notice=0.9"), "openai:MODEL"
            for a server that speaks OpenAI's protocol, "local:MODEL" for a folder or a hub name that transformers loads here;
            see `costgym.agents.models.named`.
        experience: Past uses for BTP, or the file that holds them.
        search: Limits of the search; None for the strategy's own.
        btp: Settings of BTP.
        usefulness: Judges results for BTP, or the folder of a `costgym train btp` run; None for the rules.

    Raises:
        UnknownName: There is no such agent in this environment, or no such model; names the nearest.
        ConfigError: A user's own agent plays in another environment.
        DataError: The experience, the judge or the training run cannot be read.
    """
    entry = find_agent(name, env_id)
    return entry.make(AgentRequest(name, view_of(env_id or entry.env_id), model, experience, search, btp, usefulness))


def make_model(name: str) -> "LanguageModel":
    """Make a language model by its name; raises UnknownName or ConfigError for what there is not or cannot be reached."""
    from costgym.agents.models.named import make_real_model, read_model_name
    from costgym.agents.models.simulated import is_simulated, read_rates

    if is_simulated(name):
        from costgym.agents.one_world.simulated import SimulatedOneWorld

        return SimulatedOneWorld(read_rates(name))
    real = read_model_name(name)
    if real is None:
        raise UnknownName("model", name, ("simulated", "simulated:RATE=VALUE", "openai:MODEL", "local:MODEL"))
    return make_real_model(real)


def make_planner(name: str) -> "Planner":
    """Make an OpenCATP planner by its name, without the agent that plays its plans; raises as `make_agent` does."""
    from costgym.agents.opencatp.base import PlanAgent

    agent = make_agent(name, PLANS)
    if not isinstance(agent, PlanAgent):
        raise ConfigError("planner", f"expected the name of a planner, got {name!r}, which plays token by token")
    return agent.planner


def _unknown(name: str, env_id: str | None) -> UnknownName | ConfigError:
    parts = ["toolplanner" if part.startswith("toolplanner") else part for part in name.split("+")]
    if env_id is not None and view_of(env_id) == SESSION_CHAT and (part := next(filter(NOT_IN_SESSIONS.get, parts), None)):
        known = ", ".join(entry.name for entry in agents(env_id))
        return ConfigError(f"agent {name}", f"expected an agent of sessions ({known}), got {part}: {NOT_IN_SESSIONS[part]}")
    if env_id is None:
        return UnknownName("agent", name, agent_names())
    elsewhere = [view for entry in _AGENTS if entry.name == parts[0] for view in entry.env_ids if view != view_of(env_id)]
    plays_in = f"it plays in {', '.join(dict.fromkeys(elsewhere))}" if elsewhere else ""
    return UnknownName(f"agent of {env_id}", name, agent_names(env_id), plays_in)


def trained_kinds() -> tuple[str, ...]:
    """Kinds of trained agents, which are named ``KIND:RUN`` by the folder of their run."""
    return tuple(_TRAINED)


def is_trained(name: str) -> bool:
    """Return whether a name is that of a trained agent, by its run or of the zoo, whether its weights are here or not."""
    kind, colon, _ = name.partition(":")
    return is_zoo(name) or (bool(colon) and kind in _TRAINED)


def _trained(name: str) -> AgentEntry | None:
    """Return the entry of a trained agent, by its folder or of the zoo; None for any other name."""
    if is_zoo(name):
        if name not in zoo_names():
            return None
        card = read_card(name)
        learnt = _version_learnt(FOLDER / name.removeprefix(ZOO))
        return replace(_TRAINED[card.kind], name=name, summary=card.summary, trained_in=learnt)
    kind, colon, folder = name.partition(":")
    known = bool(colon and folder) and kind in _TRAINED
    return replace(_TRAINED[kind], name=name, trained_in=_version_learnt(Path(folder))) if known else None


def _version_learnt(run: Path) -> int:
    """The version of the world that a run learnt from, by its `config.json`; 0 where none can be read: loading says why."""
    from costgym.agents.settings import CONFIG, MAX_CONFIG_BYTES

    try:
        config = decode_json(read_text(run / CONFIG, MAX_CONFIG_BYTES, follow=False))
    except (DataError, OSError, ValueError):
        return 0
    return int(isinstance(config, dict) and str(config.get("env")).endswith("-v1"))


def _with_access(entry: AgentEntry, suffixes: tuple[str, ...]) -> AgentEntry:
    words = "; ".join(_ACCESS[suffix][0] for suffix in suffixes)
    name = "+".join([entry.name, *suffixes])
    plans = TEXT in entry.env_ids and not _BTP.isdisjoint(suffixes)  # in a session its own calls are the experience
    return replace(entry, name=name, summary=f"{entry.summary}; {words}", needs_experience=plans)


Policy = Callable[[Any, dict[str, Any]], Any]  # takes an observation and its info, and returns an action


class FunctionAgent(Agent):
    """A function ``(observation, info) -> action``, which should depend on its arguments alone, as an agent."""

    def __init__(self, function: Policy, env_id: str) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self.env_id, self._function = env_id, function

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        """Nothing to do: a function has no memory."""

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        return self._function(observation, info)


def _takes_two(function: object) -> bool:
    """Return whether something can be called with an observation and its info."""
    if not callable(function):
        return False
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions of C have no signature
        return True
    return True


def as_agent(agent: Agent | str | Policy, env: gym.Env[Any, Any]) -> Agent:
    """The agent that an `Agent`, a name for `make_agent` or a function ``(observation, info) -> action`` stands for."""
    if not isinstance(env, gym.Env):
        raise ConfigError("env", f"expected an environment of costgym.make, got {env!r:.60}")
    env_id = "" if env.spec is None else env.spec.id
    if isinstance(agent, str):
        return make_agent(agent, env_id or None)
    if not isinstance(agent, Agent):
        if isinstance(agent, type) or not _takes_two(agent):
            raise ConfigError("agent", f"expected an agent, its name or a function (observation, info), got {agent!r:.60}")
        return FunctionAgent(agent, env_id)
    if env_id.startswith("costgym/") and not in_view(agent, env_id):
        raise ConfigError("agent", f"{agent.name or type(agent).__name__} plays in {agent.env_id}, not in {env_id}")
    return agent
