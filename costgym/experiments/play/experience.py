"""Past uses of tools, from which BTP learns: played on train tasks without a budget, and kept for every run that needs them."""

import contextlib
import hashlib
import json
import lzma
import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from costgym.agents.base import TEXT, Agent
from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.btp.usefulness import RuleBased, Usefulness
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.llm.types import CallResult
from costgym.agents.models.base import ACT, Function, FunctionCall, LanguageModel, Message, Reply
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.registry import make_agent, read_agent_name
from costgym.agents.world_side import ModelHandle, model_of, wrap_model
from costgym.envs.chat import MarketplaceChatEnv
from costgym.envs.registration import class_of, in_version
from costgym.experiments.play.episodes import chunks, play
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.simulators import __version__
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import read_packed, write_atomically
from costgym.simulators.marketplace.sources import MarketplaceSource
from costgym.simulators.marketplace.tasks import LARGE_SPLIT
from costgym.simulators.scenario import Scenario, worlds_of
from costgym.simulators.tasks import Judge

SHIPPED = Path(__file__).parents[2] / "agents" / "btp" / "data"  # past uses in worlds of the package
PASSES = 4  # most passes over the train tasks, each with another seed


class ExperienceSettings(BaseModel):
    """Settings of the collection of past uses."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    explorer: str = "dfsdt"  # agent that plays the train tasks. BTP's experience comes from depth-first tree searches.
    uses: float = Field(default=40.0, ge=0)  # per tool of the catalog, on average; BTP's data holds about 150 of an API
    seed: int = Field(default=0, ge=0, lt=2**62)  # seed of the worlds and of the explorer
    search: dict[str, Any] = {}  # fields of `SearchSettings` that differ from the explorer's own
    candidates: int | None = Field(default=None, ge=1)  # of a generated world's task; None: the world's
    remembered: Literal["path", "all"] = "path"  # calls of the chain that answered, or of every branch

    @field_validator("explorer")
    @classmethod
    def _known(cls, value: str) -> str:
        read_agent_name(value)
        return value

    @classmethod
    def parse(cls, text: str) -> "ExperienceSettings":
        """Read `EXPLORER:USES`, such as `dfsdt:100`, or either part alone; raises ConfigError if the uses are no number."""
        explorer, colon, uses = text.partition(":")
        if not colon and text.replace(".", "", 1).isdigit():
            explorer, uses = "", text
        try:
            number = float(uses) if uses else cls.model_fields["uses"].default
        except ValueError:
            number = -1.0
        if not math.isfinite(number) or number < 0:
            raise ConfigError("--experience", f"expected EXPLORER:USES, for example dfsdt:100, got {text!r}")
        return cls(explorer=explorer or "dfsdt", uses=number)


def play_split(
    scenario: Scenario, split: str, episodes: Iterable[int], seed: int, key: tuple[str, ...], agent: Agent | None = None
) -> Iterator[MarketplaceChatEnv]:
    """Play episodes, by their indices, on the tasks of a split in turn, in the text view, and yield the environment after each.
    Each pass over the tasks has another seed; `key` keeps them apart from episodes of another purpose."""
    player = agent if agent is not None else make_agent("react")
    chat: type[MarketplaceChatEnv] = class_of(in_version(TEXT, scenario.world))  # type: ignore[assignment]
    env = chat(scenario=scenario, split=split, budget={}, enforcement="record", max_steps=400)
    for index in episodes:
        turn, row = divmod(index, len(env.numbers))
        play(env, player, env.numbers[row], stable_integer(seed, *key, turn) >> 1)
        yield env


def collect_experience(
    scenario: Scenario,
    settings: ExperienceSettings | None = None,
    engine: Engine | None = None,
    usefulness: Usefulness | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Experience:
    """Play train tasks without a budget and collect the uses of tools, judged by a rule unless another judge is given, until
    each tool has as many as wanted on average. Nothing is read from or written to the cache; `past_uses` does that."""
    chosen = settings or ExperienceSettings()
    scenario = _explored(scenario, chosen)
    return Experience.from_jsonl("".join(_collected(scenario, chosen, [], engine, usefulness, progress)))


def past_uses(
    scenario: Scenario,
    settings: ExperienceSettings | None = None,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
    keep: bool = True,
) -> str:
    """Return past uses of tools as JSON lines: those that come with the package, those of the cache, or newly collected ones.
    Collected ones are kept in the folder `costgym` of the user's cache (`XDG_CACHE_HOME`); collecting more continues from
    there. What does not change which calls succeed, such as budgets or prices of tokens, does not matter."""
    if worlds_of(scenario) is not None:
        raise ConfigError("--agents", "BTP plans from past uses of one world's tools; choose a world, such as FOLDER/0")
    chosen = settings or ExperienceSettings()
    scenario = _explored(scenario, chosen)
    name = f"{experience_key(scenario, chosen)}.jsonl.xz"
    tools = len(scenario.build().catalog)
    cached = _cache_folder() / name
    most = _most_episodes(scenario)
    lines: list[str] = []
    for path in (SHIPPED / name, cached):
        if path.is_file():
            text, lines = _cached_lines(path, path.stat().st_mtime_ns, chosen.uses * tools, most)
            if text is not None:
                return text
    collected = _collected(scenario, chosen, lines, engine, None, progress)
    if not keep:
        return "".join(collected)
    with contextlib.suppress(OSError, DataError):  # a cache that cannot be written costs time only
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_experience(cached, "".join(collected))
    return "".join(collected)


def first_uses(text: str, uses: float) -> str:
    """Return the shortest beginning of JSON lines of experience that holds so many uses; all of it where it holds fewer."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: _enough(lines, uses, 0)])


def write_experience(path: Path, text: str) -> None:
    """Write JSON lines of experience, packed where the name ends in .xz; all or nothing."""
    write_atomically(path, lzma.compress(text.encode(), preset=9) if path.suffix == ".xz" else text)


def experience_key(scenario: Scenario, settings: ExperienceSettings) -> str:
    """Hash of everything that past uses depend on; fewer uses are the beginning of more, so their number is left out."""
    scenario = _explored(scenario, settings)
    source = scenario.source
    if isinstance(source, MarketplaceSource):  # more tasks in a split change nothing in another
        scenario = scenario.model_copy(update={"source": source.model_copy(update={"train": 1, "test": 1})})
    plain: dict[str, Any] = {
        "name": "experience",
        "description": "",
        "currency": "",
        "tokens": None,
        "budget": {},
        "enforcement": "record",
    }
    world = scenario.model_copy(update={**plain, "alpha": 0.5, "max_price": 1.0, "judge": Judge()})
    rates = asdict(SimulatedRates())
    del rates["repeat"], rates["guess"]  # younger than the experience that ships, and without influence on it
    played = {
        **settings.model_dump(exclude={"uses", "candidates"}),
        "world": world.digest_under(0),
        "rates": rates,
    }  # that of the experience that ships
    explorer = json.dumps(played, sort_keys=True)
    return hashlib.sha256(explorer.encode()).hexdigest()[:16]


@lru_cache(maxsize=4)  # each check of a board asks for the same of every track
def describe_experience(text: str) -> Mapping[str, Any]:
    """Number of past queries, of tools and of uses, mean uses of those tools, and the text's hash."""
    tools: set[str] = set()
    uses = 0
    lines = text.splitlines()
    for line in lines:
        past = json.loads(line)["uses"]
        tools.update(past)
        uses += sum(map(len, past.values()))
    return {
        "queries": len(lines),
        "tools": len(tools),
        "uses": uses,
        "uses_per_tool": uses / len(tools) if tools else 0.0,
        "digest": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
    }


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "costgym" / f"experience-{'.'.join(__version__.split('.')[:2])}"  # another version may play otherwise


def _explored(scenario: Scenario, settings: ExperienceSettings) -> Scenario:
    """The world in which is explored: the scenario with as many candidates as the settings say."""
    if settings.candidates is None or not isinstance(scenario.source, MarketplaceSource):
        return scenario
    return scenario.model_copy(update={"source": scenario.source.model_copy(update={"candidates": settings.candidates})})


@lru_cache(maxsize=4)  # making a board and each check of it ask for the same of every track
def _cached_lines(path: Path, stamp: int, uses: float, most: int) -> tuple[str | None, list[str]]:
    """The text of a packed file's first lines that hold so many uses; None where all hold fewer, and then the lines."""
    try:
        lines = read_packed(path).decode().splitlines(keepends=True)
    except (DataError, UnicodeDecodeError):  # the file is damaged
        lines = []
    cut = _enough(lines, uses, most)
    return (None, lines) if cut is None else ("".join(lines[:cut]), [])


def _split(scenario: Scenario) -> str:
    return LARGE_SPLIT if isinstance(scenario.source, MarketplaceSource) else "train"


def _most_episodes(scenario: Scenario) -> int:
    """A few passes over the train tasks; repeating them further teaches little about other queries."""
    return PASSES * len(scenario.build().tasks.numbers(_split(scenario)))


def _enough(lines: Sequence[str], uses: float, most: int) -> int | None:
    """The number of lines, from the first, that hold so many uses; None where they hold fewer and more can be collected."""
    seen = 0
    for number, line in enumerate(lines):
        if seen >= uses:
            return number
        seen += _uses_in(line)
    return len(lines) if seen >= uses or len(lines) >= most else None


def _uses_in(line: str) -> int:
    return sum(map(len, json.loads(line)["uses"].values()))


def _collected(
    scenario: Scenario,
    settings: ExperienceSettings,
    lines: list[str],
    engine: Engine | None,
    usefulness: Usefulness | None,
    progress: Callable[[int, int], None] | None,
) -> list[str]:
    """Continue from the given lines until there are enough."""
    wanted = settings.uses * len(scenario.build().catalog)
    collected, uses = list(lines), sum(map(_uses_in, lines))
    if uses >= wanted:
        return collected
    shared = (scenario.model_dump_json(), settings, usefulness)
    workers = engine or Local()
    # closed as soon as there are enough uses, so that workers do not play episodes that nobody needs
    stream = workers.stream(_explore, shared, chunks(len(lines), _most_episodes(scenario), workers))
    with contextlib.closing(cast("Generator[str, None, None]", stream)):
        for line in stream:
            collected.append(line)
            uses += _uses_in(line)
            if progress is not None:
                progress(min(uses, math.ceil(wanted)), math.ceil(wanted))
            if uses >= wanted:
                break
    return collected


def _explore(shared: tuple[str, ExperienceSettings, Usefulness | None], indices: range) -> Iterator[str]:
    """Play some episodes and yield what they teach as JSON lines."""
    document, settings, usefulness = shared
    scenario = Scenario.model_validate_json(document)
    judge = usefulness or RuleBased()
    search = SearchSettings(**settings.search) if settings.search else None
    agent = make_agent(settings.explorer, search=search)
    if not isinstance(agent, LlmAgent):
        raise ConfigError("--experience", f"expected an agent with a language model as explorer, got {settings.explorer!r}")
    watcher = watch(agent)
    for env in play_split(scenario, _split(scenario), indices, settings.seed, ("experience",), agent):
        if settings.remembered == "all":
            past = remember(env, judge)
        else:
            assert agent.session is not None
            past = _remember_path(env, agent.session.executed, watcher.calls, judge)
        yield past.to_json() + "\n"


def _remember_path(env: Any, executed: Sequence[CallResult], path: Sequence[FunctionCall], judge: Usefulness) -> PastQuery:
    """Collect the tools used on the chain that ended in an answer; none where the episode was given up."""
    uses: dict[str, list[bool]] = {}
    if env.episode.log[-1][0] == "finish" and env.episode.log[-1][1]:
        on_path = {id(call) for call in path}
        for result in executed:
            if id(result.call) in on_path and env.world.catalog.get(str(result.call.name)) is not None:
                name = str(result.call.name)
                helped = judge.helpful(env.query, name, result.call.read() or {}, result.text)
                uses.setdefault(name, []).append(helped)
    return PastQuery(env.query, {name: tuple(flags) for name, flags in uses.items()})


def remember(env: Any, usefulness: Usefulness, test: bool = False) -> PastQuery:
    """Collect the tools that a finished episode used, with usefulness judged from the text of their results."""
    uses: dict[str, list[bool]] = {}
    query, episode = env.query, env.episode
    for call in episode.calls:
        if call.slot >= 0 and call.status.executed:
            helped = usefulness.helpful(query, call.tool, call.arguments or {}, episode.content(call))
            uses.setdefault(call.tool, []).append(helped)
    return PastQuery(query, {name: tuple(flags) for name, flags in uses.items()}, test)


class ChainWatcher:
    """A wrapper of a language model that records the calls on the chain that ends with the model's last reply; of a tree search
    these are the calls on the branch that ended it."""

    on_world_side = True  # it hears of every episode

    def __init__(self, model: LanguageModel) -> None:
        self._model, self._handles = wrap_model(model)
        self.calls: tuple[FunctionCall, ...] = ()

    @property
    def name(self) -> str:
        """Name of the model that is listened to."""
        return self._model.name

    @property
    def chain(self) -> tuple[str, ...]:
        """Names of the functions called on the chain, in order."""
        return tuple(str(call.name) for call in self.calls)

    def reset(self, seed: int) -> None:
        """Nothing to do: `begin` tells of an episode."""

    def begin(self, world: Any, seed: int) -> None:
        """A new episode, told to the model that is listened to."""
        self.calls = ()
        for handle in self._handles:
            handle.begin(world, seed)
        self._model.reset(seed)

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """The model's reply; the calls before it and in it are kept."""
        answer = self._model.complete(messages, functions, purpose)
        if purpose == ACT:
            self.calls = tuple(call for message in (*messages, answer.message) for call in message.calls)
        return answer


def watch(agent: LlmAgent) -> ChainWatcher:
    """Put a watcher between an agent and its language model, whichever that is, and return it."""
    model = agent._model
    watcher = ChainWatcher(model_of(model) if isinstance(model, ModelHandle) else model)
    agent._model, agent.handles = wrap_model(watcher)
    return watcher
