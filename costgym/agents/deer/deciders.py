"""Deciders: whether to search for a tool, and which candidate to call, if any."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import DECISION, Agent
from costgym.agents.classic import DoNothingAgent
from costgym.agents.seat import DecisionSeat
from costgym.agents.world_side import ModelHandle, model_of
from costgym.envs.decision import ANSWER, FIRST_CALL, SEARCH
from costgym.simulators.decision.samples import NO_SEARCH, Example
from costgym.simulators.decision.toolsets import Embed, what_it_does
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval.embedding import TextEmbedding
from costgym.simulators.tasks import Task
from costgym.simulators.tools import Tool, ToolText

WORDS = 1024  # length of the vectors that queries and descriptions are compared in


class Decider(ABC):
    """Makes DEER's two decisions from text. A trained model implements the same two questions.

    Attributes:
        name: Its name in results.
        model: The language model behind it, or "".
    """

    name: str = ""
    model: str = ""
    on_world_side = False  # it reads the task; an agent that is given one holds a handle to it

    def begin(self, task: Task, seed: int) -> None:  # noqa: B027  # most deciders have nothing to do
        """Begin a query, on the world's side. At an agent's seat, deciders see only the text that they are asked about."""

    @abstractmethod
    def search(self, query: str) -> bool:
        """Return whether to search for a tool rather than answer from the model's own knowledge."""

    @abstractmethod
    def choose(self, query: str, candidates: Sequence[ToolText]) -> int | None:
        """Index of the candidate to call, or None where none fits."""


class DeciderHandle(ModelHandle, Decider):
    """The handle of a decider on the world's side."""

    def begin(self, world: Any, seed: int) -> None:
        model_of(self).begin(world.task, seed)

    def search(self, query: str) -> bool:
        return bool(model_of(self).search(query))

    def choose(self, query: str, candidates: Sequence[ToolText]) -> int | None:
        index: int | None = model_of(self).choose(query, candidates)
        return index


class TrainedDecider(Decider):
    """A decider that is asked about many queries at once."""

    @abstractmethod
    def search_many(self, queries: Sequence[str]) -> list[bool]:
        """Return the first decision about each of some queries."""

    @abstractmethod
    def choose_many(self, questions: Sequence[tuple[str, Sequence[ToolText]]]) -> list[int | None]:
        """Return the second decision about each of some queries with their candidates, at least one."""

    def search(self, query: str) -> bool:
        return self.search_many([query])[0]

    def choose(self, query: str, candidates: Sequence[ToolText]) -> int | None:
        return self.choose_many([(query, candidates)])[0] if candidates else None


class RuleDecider(Decider):
    """Decides by common words, or by another encoder's likeness.

    It searches if the query is closer to the tools and to the queries that needed one than to the queries that did not, and
    calls the closest candidate if that is close enough.

    Args:
        tools: Tools whose documentation it has read (the seen ones).
        searched, answered: Remembered queries that needed a tool, and that did not.
        embed: The encoder; by default by words.

    Attributes:
        search_at: Least difference in similarity that makes it search.
        call_at: Least similarity to a candidate that makes it call.

    Raises:
        ConfigError: It knows no tool.
    """

    name = "deer-rule"
    search_at, call_at = 0.0, 0.2

    def __init__(
        self,
        tools: Sequence[Tool],
        searched: Sequence[str] = (),
        answered: Sequence[str] = (),
        embed: Embed | None = None,
    ) -> None:
        if not tools:
            raise ConfigError("RuleDecider", "expected at least one known tool")
        documents = list(dict.fromkeys(what_it_does(tool) for tool in tools))
        self._embed: Embed = embed or TextEmbedding([*documents, *searched, *answered], WORDS)
        self._for = self._embed([*documents, *searched]).astype(np.float32)
        self._against = self._embed(list(answered)).astype(np.float32)

    def search(self, query: str) -> bool:
        return bool(self._leaning([query])[0] >= self.search_at)

    def choose(self, query: str, candidates: Sequence[ToolText]) -> int | None:
        similarities = self._similarities(query, candidates)
        best = int(similarities.argmax()) if len(similarities) else 0
        return best if len(similarities) and similarities[best] >= self.call_at else None

    def _leaning(self, queries: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._embed(queries).astype(np.float32)
        leaning: NDArray[np.float32] = (vectors @ self._for.T).max(axis=1)
        against: NDArray[np.float32] = (vectors @ self._against.T).max(axis=1, initial=0.0)
        return (leaning - against).round(5)  # free of the noise of a sum's order

    def _similarities(self, query: str, candidates: Sequence[ToolText]) -> NDArray[np.float64]:
        vectors = self._embed([query, *[what_it_does(tool) for tool in candidates]])
        similarities: NDArray[np.float64] = (vectors[1:] @ vectors[0]).round(9)
        return similarities

    @classmethod
    def fit(cls, known: Sequence[Example], embed: Embed | None = None) -> "RuleDecider":
        """Remembers every other example, and takes the thresholds that decide most of the rest rightly.

        Args:
            known: Labelled decisions about seen tools; their candidates are the documentation it knows.
            embed: The encoder; by default by words.

        Raises:
            ConfigError: There are too few examples.
        """
        if len(known) < 4:
            raise ConfigError("RuleDecider.fit", f"expected at least 4 examples, got {len(known)}")
        tools = {tool.name: tool for example in known for tool in example.candidates}
        remembered, rest = known[::2], known[1::2]
        searched = [example.query for example in remembered if example.kind != NO_SEARCH]
        answered = [example.query for example in remembered if example.kind == NO_SEARCH]
        decider = cls([tools[name] for name in sorted(tools)], searched, answered, embed)
        leaning = decider._leaning([example.query for example in rest])
        decider.search_at = best_threshold(leaning, np.array([example.kind != NO_SEARCH for example in rest]))
        sought = [example for example in rest if example.kind != NO_SEARCH]
        if sought:
            similarities = [decider._similarities(example.query, example.candidates) for example in sought]
            right = [e.gold is not None and int(s.argmax()) == e.gold for e, s in zip(sought, similarities, strict=True)]
            best = np.array([float(s.max()) for s in similarities])
            decider.call_at = best_threshold(best, np.array(right), np.array([e.gold is None for e in sought]))
        return decider


def best_threshold(
    scores: NDArray[np.floating[Any]], above: NDArray[np.bool_], below: NDArray[np.bool_] | None = None
) -> float:
    """The threshold right most often, of equals the highest; `above` and `below` (n,) say where "yes" and "no" are right."""
    below = ~above if below is None else below
    # All thresholds at once: with the scores sorted, the right decisions of each threshold are two running sums.
    order = np.argsort(scores, kind="stable")
    # with the threshold at the i-th score, all from i on get a yes
    yes = above[order][::-1].cumsum()[::-1]
    no = np.concatenate([[0], below[order].cumsum()[:-1]])
    firsts = np.concatenate([[True], scores[order][1:] > scores[order][:-1]])
    return float(scores[order][np.flatnonzero((yes + no == (yes + no)[firsts].max()) & firsts)[-1]])


@dataclass(frozen=True, slots=True)
class DecisionRates:
    """The rates at which a model decides rightly, by kind of sample."""

    #: no_search, search, no_call, call: shares of right decisions
    no_search: float
    search: float
    no_call: float
    call: float
    #: share of the wrong decisions about Call samples that call another tool; the rest say that none fits
    other_tool: float = 0.5


RATES = {
    "gpt-4": DecisionRates(0.743, 0.789, 0.873, 0.877),
    "gpt-3.5-turbo": DecisionRates(0.438, 0.725, 0.592, 0.574),
    "llama2-13b-chat": DecisionRates(0.444, 0.744, 0.735, 0.477),
}
"""Untrained models with six demonstrations. Source: DEER, Table 1; how wrong decisions on Call samples are shared is ours."""


class SimulatedDecider(Decider):
    """A model without weights: it knows what is right and errs at given rates. Results with it say nothing about a model.

    Args:
        rates: Shares of right decisions; by default GPT-4's with six demonstrations.
        name: Name of the model that it stands for.
    """

    def __init__(self, rates: DecisionRates | None = None, name: str = "gpt-4") -> None:
        self.on_world_side = True
        self._rates = rates or RATES[name]
        self.name, self.model = "deer", "simulated"
        self._task: Task | None = None
        self._luck: list[float] = []

    def begin(self, task: Task, seed: int) -> None:
        self._task = task
        self._luck = stable_generator(seed, "deer").random(4).tolist()

    def search(self, query: str) -> bool:
        assert self._task is not None, "begin comes first"
        if self._task.group == NO_SEARCH:
            return self._luck[0] >= self._rates.no_search
        return self._luck[0] < self._rates.search

    def choose(self, query: str, candidates: Sequence[ToolText]) -> int | None:
        assert self._task is not None, "begin comes first"
        _, luck, error, which = self._luck
        right = self._task.needs[0].tools
        gold = next((index for index, tool in enumerate(candidates) if tool.name in right), None)
        others = [index for index in range(len(candidates)) if index != gold]
        other = others[int(which * len(others))] if others else None
        if gold is None:
            return None if luck < self._rates.no_call else other
        if luck < self._rates.call:
            return gold
        return other if error < self._rates.other_tool else None


FITTED_ON = 2000  # training examples that the rule-based decider of the leaderboard learns its thresholds from


class DeerAgent(Agent):
    """Decides by text: answers or searches, then calls a candidate or says that none fits."""

    env_id = DECISION

    def __init__(self, decider: Decider) -> None:
        self.name, self.model = decider.name, decider.model
        self.decider = decider
        if decider.on_world_side:
            handle = DeciderHandle(decider)
            self.decider, self.handles = handle, (handle,)

    def reset(self, seat: DecisionSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._query, self._none = seat.query, seat.none_action

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        if not info["searched"]:
            searches = self.decider.search(self._query) and info["action_mask"][SEARCH]
            return SEARCH if searches else ANSWER
        chosen = self.decider.choose(self._query, info["documents"])
        action = self._none if chosen is None else FIRST_CALL + chosen
        # a call that the budget or a ban forbids leaves one thing to say; so does a search that the budget forbids
        return int(action if info["action_mask"][action] else self._none)


class RuleAgent(DeerAgent):
    """The rule-based decider, fitted on the training split of whichever world it meets."""

    wants_examples = FITTED_ON

    def __init__(self) -> None:
        self.name, self.model = RuleDecider.name, ""
        self._fitted_on: tuple[Example, ...] | None = None

    def reset(self, seat: DecisionSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        if seat.examples is not self._fitted_on:
            self._fitted_on, self.decider = seat.examples, RuleDecider.fit(seat.examples)
        super().reset(seat, observation, info, seed)


class DirectAnswerer(DoNothingAgent):
    """Answers every query at once: the least that can be done."""

    def __init__(self) -> None:
        super().__init__(DECISION)

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return ANSWER
