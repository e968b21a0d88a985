"""A person as an agent: what they see of an episode, and how others do under the same luck."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from costgym.agents.base import NUMERIC, TEXT, Agent
from costgym.agents.registry import make_agent
from costgym.agents.seat import TextSeat
from costgym.envs.actions import FINISH, WAIT, encode_action, json_or_text
from costgym.envs.base import base_env
from costgym.envs.registration import make, parameters_of
from costgym.envs.rendering.chart import number
from costgym.envs.tool_world import ToolEnv
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import record
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError, CostGymError
from costgym.simulators.marketplace.schema import check_value
from costgym.simulators.tools import ToolCard

MAX_WAIT_S = 86_400  # that a person lets pass at once
MAX_RESULT_CHARS = 400  # of a result on a screen, which may be as long as a book
GIVE_UP = encode_action(FINISH, {"answer": "", "give_up": True})
POLICIES = {"zoo:ppo": "PPO", "greedy": "the rule greedy"}
"""Agents that play the same episode, by their names in a sentence: the first that can, for packages may be missing."""


class ToolRow(NamedTuple):
    """A tool on offer, as agents see it."""

    number: int  # from 1, by which it is called
    card: ToolCard
    price: float  # of a call now
    success: float  # share of successful calls that it advertises, 0 to 1
    calls: str  # how its calls went so far, such as "1 ok, 2 timeout"


class Left(NamedTuple):
    """What is left of a limited resource."""

    unit: str
    rest: float
    limit: float


@dataclass
class PlayerView:
    """What an agent may know of an episode, kept for a screen.

    Attributes:
        query: The user's request.
        cards: The tools on offer, in the order of their numbers.
        info: What the last step told.
        log: Lines about what happened: when, what, and the text that came; results are kept whole.
    """

    world: ToolEnv[Any, Any]
    query: str
    cards: list[ToolCard]
    info: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.currency = self.world.scenario.currency
        self.can_search = self.world.world.retriever is not None
        self.log: list[tuple[str, str]] = []
        self._calls: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def observe(self, info: Mapping[str, Any]) -> None:
        """Note what a step brought; the new entries of `log` and `cards` come last."""
        self.info = info
        self.cards += info["found"]
        for result in info["results"]:
            status = result["status"].replace("_", " ")
            self._calls[result["tool"]][status] += 1
            self.log.append((f"[{info['at_s']:.1f} s] {result['tool']}: {status}", result["text"]))
        self.log += [(f"[{info['at_s']:.1f} s] News", text) for text in info["news"]]

    def tools(self, words: str = "", first: int = 0) -> list[ToolRow]:
        """The tools on offer from an index on, whose names or descriptions hold each of the words."""
        wanted, catalog = words.lower().split(), self.world.world.catalog
        rows = []
        for position, card in enumerate(self.cards[first:], first + 1):
            text = f"{card.name} {card.description}".lower()
            if all(word in text for word in wanted):
                calls = ", ".join(f"{count} {status}" for status, count in self._calls[card.name].items())
                success = catalog.get(card.name).profile.advertised_success
                rows.append(ToolRow(position, card, self.info["quotes"][card.name], success, calls))
        return rows

    def left(self) -> list[Left]:
        """What is left of each limited resource."""
        return [
            Left(self.currency if name == "price" else name, self.info[f"budget_remaining_{name}"], limit)
            for name, limit in self.world.account().budget.items()
        ]


class Screen(Protocol):
    """Shows an episode to a person, and asks what to do."""

    def begin(self, view: PlayerView) -> None:
        """Show the request, the tools and what is left."""

    def choose(self) -> str | None:
        """Return the next action; None to give up."""

    def show(self, over: bool) -> None:
        """Show what the last action brought."""


class Human(Agent):
    """A person at a screen. Each text that was shown counts as read once."""

    name = "human"
    env_id = TEXT

    def __init__(self, world: ToolEnv[Any, Any], screen: Screen) -> None:
        self._world, self._screen = world, screen

    def reset(self, seat: TextSeat, observation: str, info: dict[str, Any], seed: int) -> None:
        self._view = PlayerView(self._world, observation, list(seat.tools), info)
        self._screen.begin(self._view)

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return counted(self._screen.choose() or GIVE_UP)

    def observe(self, observation: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self._view.observe(info)
        self._screen.show(terminated or truncated)


def counted(action: str) -> str:
    """An action of a person, who reports no tokens: the environment charges what was shown and written."""
    return json.dumps({**json.loads(action), "usage": Usage(0, 0).document()})


def typed(text: str, schema: Mapping[str, Any], name: str) -> Any:
    """The value of an argument that a person wrote: a text stays one, anything else is read as JSON where it can be. Raises
    ConfigError for a value that the schema does not allow."""
    value = text if schema.get("type", "string") == "string" else json_or_text(text)
    if problem := check_value(value, schema, name):
        path, _, words = problem.partition(": ")
        raise ConfigError(path, words)
    return value


def wait_action(text: str) -> str | None:
    """The action that waits for as many seconds as a person wrote; None where the text is not an allowed number."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return encode_action(WAIT, {"seconds": seconds}) if 0 < seconds <= MAX_WAIT_S else None


def shortened(text: str) -> str:
    """A result as far as a screen shows it."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]} ... ({MAX_RESULT_CHARS} of {len(text):,} characters)"


# -- afterwards ------------------------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """How an episode of one task ended for somebody."""

    name: str
    success: bool
    price: float
    seconds: float
    calls: int


def scores(played: ToolEnv[Any, Any], header: Header, policies: Sequence[str] = tuple(POLICIES)) -> list[Score]:
    """Scores of the person's episode that has just ended, of a policy under the same luck, and of the optimum. There is no
    policy where none of them plays in the world of the header."""
    episode = played.account()
    rows = [Score("you", played.succeeded, episode.ledger.price, episode.now_s, episode.ledger.calls)]
    settings, known = header.arguments(), parameters_of(NUMERIC)
    numeric = make(NUMERIC, disable_env_checker=True, **{name: settings[name] for name in settings if name in known})
    for policy in policies:
        try:
            _, other = record(numeric, make_agent(policy, NUMERIC), episode.number, episode.seed)
        except CostGymError:  # its packages are missing, or it was trained for worlds of another kind
            continue
        success = base_env(numeric).succeeded
        rows.append(Score(POLICIES[policy], success, other.ledger.price, other.now_s, other.ledger.calls))
        break
    best = played.optimum()
    rows.append(
        Score("the optimum" if best.exact else "the best plan found", best.feasible, best.price, best.seconds, len(best.plan))
    )
    return rows


def line_to_copy(played: ToolEnv[Any, Any], rows: Sequence[Score], again: str) -> str:
    """One line that says how it went, and by which command others play the same episode."""
    episode, unit = played.account(), played.scenario.currency
    limits = [f"{number(limit)} {unit if name == 'price' else name}" for name, limit in episode.budget.items()]
    title = ", ".join([f"task {episode.task.id} of {played.scenario.name}", f"seed {episode.seed}", *limits])
    you, *others = rows
    mine = f"I {'passed' if you.success else 'failed'} for {number(you.price)}"
    rest = ", ".join(f"{row.name} {'passed' if row.success else 'failed'} for {number(row.price)}" for row in others)
    return f"costgym, {title}: {mine}; {rest}. Play it: {again}"
