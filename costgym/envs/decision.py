"""DEER's decisions, whether to search and which tool to call, as an environment: `costgym/DecisionAware-v0`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.envs.actions import count_tokens
from costgym.envs.base import checked_action, takes
from costgym.envs.marketplace import HIGHEST
from costgym.envs.seats import DecisionSeat, cards_of, past_decisions
from costgym.envs.tool_world import ToolEnv, ToolSettings, named_scenario
from costgym.simulators.decision.samples import DIRECT, NO_SEARCH, NONE_FITS, DecisionSettings, called, decision_world
from costgym.simulators.decision.toolsets import what_it_does
from costgym.simulators.errors import ConfigError, check_positive
from costgym.simulators.ledger import Budget
from costgym.simulators.oracle.optimum import Optimum
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.retrieval.embedding import TextEmbedding
from costgym.simulators.rules.gateway import passed_limit
from costgym.simulators.rules.limits import exceeded
from costgym.simulators.scenario import Scenario, parse_scenario
from costgym.simulators.status import Status
from costgym.simulators.tools import Same, Tool
from costgym.simulators.world import Candidate, Episode, Usage, World

if TYPE_CHECKING:
    from costgym.envs.rendering.choice import Choice

ANSWER, SEARCH, FIRST_CALL = 0, 1, 2
"""Numbers of actions: `FIRST_CALL + i` calls candidate i, and the last action says that none fits."""
CANDIDATE_FEATURES = ("on_offer", "similarity", "price", "latency_s", "success", "popularity")
"""Columns of `observation["candidates"]` before the description's embedding, described in `DecisionAwareEnv`."""
DECISION_TOKENS = 16  # tokens that a model writes for a decision or a call
SIMILARITY_WORDS = 1024  # length of the vectors behind `similarity`: long enough that words hardly ever share a place
THINKING = ("answer", "search", "call", "none fits")  # decisions whose tokens are charged, see `DecisionAwareEnv.costs`

Observation = dict[str, NDArray[np.float32]]


class Template(NamedTuple):
    """The arrays of a task that are the same in all its episodes."""

    query: NDArray[np.float32]
    candidates: NDArray[np.float32]  # (k, 6 + features) the candidates as observed after a search


class Cost(NamedTuple):
    """The cost of a decision's tokens: price, simulated seconds and number of tokens."""

    price: float
    seconds: float
    tokens: int


class Reading(NamedTuple):
    """Embeddings and token counts, made once per process for all environments with equal settings."""

    embed: TextEmbedding  # makes the embeddings in observations
    compare: TextEmbedding  # makes the longer embeddings behind `similarity`
    templates: dict[int, Template]  # arrays of each task, by its number
    lengths: dict[int, int]  # tokens of each tool's documentation, by the tool's number


@dataclass(frozen=True, kw_only=True)
class DecisionAwareSettings(ToolSettings):
    """Arguments of `DecisionAwareEnv`, which describes them."""

    scenario: str | Path | dict[str, Any] | Scenario = field(default="decision", kw_only=False)
    samples: dict[str, Any] | None = None
    features: int = 64
    answer_tokens: int = 128
    max_steps: int = 8


class DecisionAwareEnv(ToolEnv[Observation, "int | np.integer[Any]"]):
    """Decide whether a query needs a tool, and then which of five candidates fits, if any.

    ## Description

    The question of DEER. An episode has one or two decisions. First the agent sees a query alone and either answers it
    without a tool or searches for tools. A search shows the candidates; then the agent calls one of them, or says that none
    fits. Queries are of three kinds: those that need no tool, those for which a candidate is right, and those for which no
    candidate is. Every decision costs the tokens that a model would read and write for it, and a call costs its price whether
    it was right or not.

    `env.unwrapped` offers the same in words: `query`, and after a search `candidates` and `documentation()`.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 | answer | Answer without a tool. Ends the episode. |
    | 1 | search | Search; the candidates appear. |
    | 2 to k + 1 | call | Call candidate 0 to k - 1. Ends the episode. |
    | k + 2 | none fits | Say that no candidate fits. Ends the episode. |

    k is the number of candidates, 5 by default. Before a search `info["action_mask"]` allows 0 and 1, after it the rest,
    without tools that are banned. Under `enforcement="refuse"` a call is masked too if the rest of the budget does not pay the
    tokens of the decision and the advertised price, and a search if nothing would be left to say that none fits. An action
    outside the mask is refused, which takes a moment (`gateway_s`, 0.05 s by default) and changes nothing. `answer` and `none
    fits` are always allowed; where even their tokens cannot be paid, they give up: the episode ends without an answer and
    without a charge.

    ## Observation space

    A dictionary of float32 arrays.

    ### `query`: the words of the query, (`features`,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | all | embedding | -1 to 1 | A unit vector of hashed, weighted words; all zeros for a text without words. |

    ### `candidates`: one row for each candidate, (k, 6 + `features`)

    All zeros before a search. The rows stand in the sample's own order, which DEER draws at random, so a place says nothing;
    `similarity` is what ranks them. The text of a sample has the same order, and an action names a row of both.

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `on_offer` | 0 or 1 | The row holds a candidate. |
    | 1 | `similarity` | -1 to 1 | Cosine between the query's words and the description's. |
    | 2 | `price` | 0 to 10 | Advertised price of a call, in units of `max_price` / 10 (2 credits in the default scenario). |
    | 3 | `latency_s` | 0 to 10 | log(1 + advertised latency in seconds). |
    | 4 | `success` | 0 to 1 | Advertised success rate. |
    | 5 | `popularity` | 0 to 1 | Advertised popularity. |
    | 6 on | embedding | -1 to 1 | The words of the description, as in `query`. |

    What lies beyond a range is shown as its end: a price of 10 units costs more than an episode can earn.

    ### `stage`: which decision is due, (2,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | first | 0 or 1 | Answer or search. |
    | 1 | second | 0 or 1 | Call a candidate, or none. |

    ### `action_mask`: the mask as part of the observation, (k + 3,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | all | allowed | 0 or 1 | The action is allowed at this stage. |

    ## Rewards

    Each step brings -(1 - alpha) × (money charged in this step) / `max_price`, and the last step of a successful episode adds
    alpha, so the undiscounted return is the Quality of Plan. Success means the right decision at every stage, within the
    budget. A right call that fails is a success: the failure is the tool's. In the default scenario alpha is 0.5 and
    `max_price` is 20.

    ## Starting state

    The clock stands at 0 and no candidate is shown. The task is drawn uniformly from the split; `reset(options={"task":
    task})` names it instead, by number or id. All chance follows from the seed and the task.

    ## Episode end

    * Termination: the agent answers, calls a candidate or says that none fits, or a limit of the budget is passed. Under
      `enforcement="refuse"` (the default) that can only be the limit of seconds, by a call that takes long, and the price limit
      by a pay-per-use call dearer than advertised; under `enforcement="record"` the episode goes on, but is no success.
    * Truncation: `max_steps` steps were taken, which takes refused actions.

    A step after the end changes nothing and is rewarded with 0.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `status` | int | How the last call ended or was refused, as in `Status`; 0 is a success, or no call. |
    | `searched` | bool | The candidates are shown. |
    | `action_mask` | bool array | Which actions are allowed, (k + 3,). |

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `scenario` | One generated marketplace, which also prices the samples of `data`; or a scenario of kind `tooldeer`. |
    | `data` | A ToolDEER folder, whose tools and samples take the place of generated ones. |
    | `split` | `"train"` and `"valid"` are about tools that training sees, `"test"` about others. |
    | `samples` | How samples are generated: the fields of `DecisionSettings`. |
    | `features` | The length of an embedding. |
    | `answer_tokens` | The tokens that an answer without a tool takes. |
    | `max_steps` | The number of steps after which an episode is truncated. |
    | `enforcement` | What a limit does, as above. `None` takes `"refuse"`, or without limits the scenario's choice. |

    ## Version history

    * v0: first version. Since 0.2 a search or a call that the budget cannot pay is refused.

    ## References

    * DEER (arXiv 2402.16696).
    """

    reset_options = frozenset({"task"})
    column_names: Mapping[str, Sequence[str]] = {"candidates": CANDIDATE_FEATURES, "stage": ("first", "second")}

    @takes(DecisionAwareSettings)
    def __init__(self, settings: DecisionAwareSettings) -> None:
        features, split, data, samples = settings.features, settings.split, settings.data, settings.samples
        check_positive("features", features)
        check_positive("answer_tokens", settings.answer_tokens)
        argument: Any = settings.scenario
        if isinstance(argument, list | tuple) or (isinstance(argument, dict) and "any_of" in argument):
            raise ConfigError("scenario", "expected one scenario whose decisions make this world; Marketplace-v0 takes several")
        scenario = named_scenario(argument, None)
        recorded = scenario.source.kind == "tooldeer"
        if samples is not None and (data is not None or recorded):
            raise ConfigError("samples", "they come from the folder; pass either data or samples")
        if recorded and data is not None:
            scenario = scenario.model_copy(update={"source": scenario.source.model_copy(update={"data": data})})
            data = None
        # a recorded scenario's own world has the samples' splits; a generated market has others
        own_split = split if recorded else ToolSettings.split
        self._configure(replace(settings, scenario=scenario, data=None, split=own_split))
        wanted = None if data is not None else json.dumps(samples or {}, sort_keys=True)
        self.world = build_world(self.scenario.model_dump_json(), data, wanted)
        self.split = split
        self.numbers = self.world.tasks.numbers(split)
        self.k = max(len(self.world.tasks[number].candidates) for number in self.numbers[:64])
        self.none_action = FIRST_CALL + self.k
        self.features, self.answer_tokens = features, settings.answer_tokens
        shapes = {"query": (features,), "candidates": (self.k, len(CANDIDATE_FEATURES) + features)}
        low, high = np.full(shapes["candidates"], -1.0, np.float32), np.ones(shapes["candidates"], np.float32)
        low[:, [0, 2, 3, 4, 5]] = 0.0
        high[:, 2:4] = HIGHEST
        spaces: dict[str, gym.Space[Any]] = {
            "query": gym.spaces.Box(-1.0, 1.0, shapes["query"], np.float32),
            "candidates": gym.spaces.Box(low, high, dtype=np.float32),
            "stage": gym.spaces.Box(0.0, 1.0, (2,), np.float32),
            "action_mask": gym.spaces.Box(0.0, 1.0, (self.k + 3,), np.float32),
        }
        self.observation_space = gym.spaces.Dict(spaces)  # type: ignore[assignment]
        self.action_space = gym.spaces.Discrete(self.k + 3)
        self._read = _shared_reading(self.scenario.model_dump_json(), data, wanted, features, self.k)
        self._costs: dict[int, list[Cost]] = {}
        self.searched = False
        self.decision: str | None = None

    def _enter(self, scenario: Scenario) -> None:
        super()._enter(scenario)
        if self._given_enforcement is None and self.budget.as_dict():
            self.enforcement = "refuse"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        episode = self._start(*self._choose(seed, options))
        self.searched, self.decision = False, None
        self._status = Status.OK
        self._context = count_tokens(self.query)
        return self._observe(episode), self._full_info()

    # -- what an agent may read ------------------------------------------------------------------------------------------

    @property
    def query(self) -> str:
        """The user's query."""
        return self.task.query

    def seat(self, env_id: str, examples: int = 0) -> DecisionSeat:
        return DecisionSeat(
            **self.seat_parts(env_id),
            max_price=self.world.max_price,
            query=self.query,
            none_action=self.none_action,
            examples=past_decisions(Same(self.world), examples) if examples else (),
        )

    def visible_info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, "documents": cards_of(self.world.catalog, self.candidates)}

    @property
    def candidates(self) -> list[Tool]:
        """The tools that the search found, in order; empty before the search."""
        if not self.searched:
            return []
        return [self.world.catalog[slot.number] for slot in self._playing().candidates[: self.k]]

    def documentation(self) -> list[dict[str, Any]]:
        """The candidates' function schemas, in the format of OpenAI's API."""
        return [tool.documentation() for tool in self.candidates]

    # -- playing ---------------------------------------------------------------------------------------------------------

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        episode = self._playing()
        action = checked_action(action, self.k + 3)
        if episode.over:
            return self._observe(episode), 0.0, True, False, self._full_info()
        self._steps += 1
        if not self._due(episode, action):
            banned = self.searched and action - FIRST_CALL in episode.banned
            status = Status.BANNED if banned else Status.FORBIDDEN
            self._status = episode.submit(-1, None, status, "this action is not open at this stage").status
        elif self._payable(episode, action):
            self._decide(episode, action)
        elif action in (ANSWER, self.none_action):
            episode.finish("", gave_up=True)
        else:
            self._status = episode.submit(-1, None, Status.OVER_BUDGET, "the budget does not pay for this").status
        reward, over, truncated = self._outcome(episode)
        return self._observe(episode), reward, over, truncated, self._full_info()

    def _decide(self, episode: Episode, action: int) -> None:
        episode.think(self._usage(action, self._context))
        if episode.over:
            return
        if action == SEARCH:
            self.searched = True
            self._context += self._reading(episode.candidates)
            return
        if action in (ANSWER, self.none_action):
            self.decision = DIRECT if action == ANSWER else NONE_FITS
        else:
            call = episode.settle(episode.submit(action - FIRST_CALL))
            self._status = call.status
            self.decision = called(episode.candidates[action - FIRST_CALL].name)
        if not episode.over:
            episode.finish(self.decision)

    def optimum(self, budget: Budget | None = None) -> Optimum:
        """The optimum of the present episode, under `budget` or the environment's own limits.

        It is the sequence of right decisions, or the cheapest wrong decision if the right ones cost more than they are worth or
        than the budget allows; or to give up where not even an answer can be paid.
        """
        limits = self.budget if budget is None else budget
        # a wrong decision can be the better one: an answer that is graded wrong may cost less than a right one is worth
        prices = [self._price_of(actions, limits) for actions in (self.right_actions(), (ANSWER,))]
        answer = self.costs(self._playing().number)[0]
        if self.enforcement == "refuse" and exceeded(limits, answer.price, answer.seconds, answer.tokens, 0):
            prices.append((0.0, 0.0, 0.0, False))
        price, seconds, quality, feasible = max(prices, key=lambda outcome: outcome[2])
        return Optimum((), (), price, seconds, feasible, True, quality, quality)

    def right_actions(self) -> tuple[int, ...]:
        """The right actions of the present episode, in order."""
        task = self.task
        if task.group == NO_SEARCH:
            return (ANSWER,)
        right = task.needs[0].tools
        gold = next((slot.index for slot in self._playing().candidates[: self.k] if slot.name in right), None)
        return (SEARCH, self.none_action if gold is None else FIRST_CALL + gold)

    def _price_of(self, actions: Sequence[int], budget: Budget) -> tuple[float, float, float, bool]:
        """Price, seconds, Quality of Plan and success of the given decisions in this episode's world."""
        played = self._playing()
        episode = self.world.episode(played.number, played.seed)
        context = count_tokens(played.task.query)
        for action in actions:
            episode.think(self._usage(action, context))
            if action == SEARCH:
                context += self._reading(episode.candidates)
            elif FIRST_CALL <= action < self.none_action:
                episode.settle(episode.submit(action - FIRST_CALL))
        price, tokens, calls = episode.ledger.price, episode.ledger.tokens, episode.ledger.calls
        right = tuple(actions) == self.right_actions() and exceeded(budget, price, episode.now_s, tokens, calls) is None
        performance = 1.0 if right else 0.0
        quality = float(quality_of_plan(performance, price, self.world.alpha, self.world.max_price))
        return price, episode.now_s, quality, right

    def _usage(self, action: int, context: int) -> Usage:
        answers = action in (ANSWER, self.none_action)
        return Usage(context, DECISION_TOKENS + (self.answer_tokens if answers else 0))

    def _reading(self, slots: Sequence[Candidate]) -> int:
        """Tokens that a search adds to the context: the decision, and the candidates' documentation."""
        total, lengths = DECISION_TOKENS, self._read.lengths
        for slot in slots[: self.k]:
            if slot.number not in lengths:
                lengths[slot.number] = count_tokens(json.dumps(self.world.catalog[slot.number].documentation()))
            total += lengths[slot.number]
        return total

    def _due(self, episode: Episode, action: int) -> bool:
        """Return whether an action is open at this stage, whatever it costs."""
        if not self.searched:
            return action in (ANSWER, SEARCH)
        slot = action - FIRST_CALL
        return action == self.none_action or (0 <= slot < min(self.k, len(episode.candidates)) and slot not in episode.banned)

    def _payable(self, episode: Episode, action: int) -> bool:
        """Return whether the budget pays an action that is due; under `refuse` alone it can fail to.

        The tokens of a search count with those of saying that none fits, and the tokens of a call with its advertised price.
        """
        if episode.enforcement != "refuse":
            return True
        answer, search, call, none_fits = self.costs(episode.number)
        quote, calls, ledger = 0.0, episode.ledger.calls, episode.ledger
        if action == SEARCH:
            steps: tuple[Cost, ...] = search, none_fits
        elif action in (ANSWER, self.none_action):
            steps = (answer if action == ANSWER else none_fits,)
        else:
            steps, quote, calls = (call,), episode.quote(action - FIRST_CALL), calls + 1
        price, now, tokens = ledger.price, episode.now_s, ledger.tokens
        for step in steps:
            price, now, tokens = price + step.price, now + step.seconds, tokens + step.tokens
        return not passed_limit(episode.rules, price + quote, now, tokens, calls)

    def costs(self, number: int) -> list[Cost]:
        """What the decisions of a task cost, in the order of `THINKING`: the first two before a search, the others after it."""
        costs = self._costs.get(number)
        if costs is None:
            before = count_tokens(self.world.tasks[number].query)
            after = before + self._reading(self.world.candidates(number))
            contexts = ((ANSWER, before), (SEARCH, before), (FIRST_CALL, after), (self.none_action, after))
            costs = self._costs[number] = [self._cost(self._usage(action, context)) for action, context in contexts]
        return costs

    def _cost(self, usage: Usage) -> Cost:
        tokens = self.world.tokens
        price = 0.0 if tokens is None else tokens.price(usage)
        return Cost(price, self.world.thinking_s(usage), usage.input_tokens + usage.output_tokens)

    def _observe(self, episode: Episode) -> Observation:
        query, candidates = self.template(episode.number)
        return {
            "query": query.copy(),
            "candidates": candidates.copy() if self.searched else np.zeros_like(candidates),
            "stage": np.array((0.0, 1.0) if self.searched else (1.0, 0.0), np.float32),
            "action_mask": self.action_masks().astype(np.float32),
        }

    def template(self, number: int) -> Template:
        """The arrays of a task, made at its first use."""
        template = self._read.templates.get(number)
        if template is None:
            slots = self.world.candidates(number)[: self.k]
            texts = [self.world.tasks[number].query, *[what_it_does(self.world.catalog[slot.number]) for slot in slots]]
            embedded, compared = self._read.embed(texts), self._read.compare(texts)
            scale = 10.0 / self.world.max_price
            rows = np.zeros((self.k, len(CANDIDATE_FEATURES) + self.features), np.float32)
            for row, slot, similarity, vector in zip(rows, slots, compared[1:] @ compared[0], embedded[1:], strict=False):
                profile = slot.profile
                latency = float(np.log1p(profile.advertised_latency_s))
                row[: len(CANDIDATE_FEATURES)] = (
                    1.0, similarity, slot.quote * scale, latency, profile.advertised_success, profile.popularity / 10.0
                )  # fmt: skip
                row[len(CANDIDATE_FEATURES) :] = vector
            ends = self.observation_space["candidates"]  # type: ignore[index]
            query = np.clip(embedded[0].astype(np.float32), -1.0, 1.0)
            template = self._read.templates[number] = Template(query, np.clip(rows, ends.low, ends.high))
        return template

    def _full_info(self) -> dict[str, Any]:
        more = {"status": int(self._status), "searched": self.searched, "action_mask": self.action_masks()}
        return {**self._info(), **more}

    def action_text(self, action: int | np.integer[Any]) -> str:
        if action in (ANSWER, SEARCH, self.none_action):
            return {ANSWER: "answer directly", SEARCH: "search"}.get(int(action), "none fits")
        tools = self._playing().candidates[: self.k]
        index = int(action) - FIRST_CALL
        return f"call {tools[index].name if 0 <= index < len(tools) else 'an unknown tool'}"

    def choice(self) -> "Choice | None":
        from costgym.envs.rendering.chart import number
        from costgym.envs.rendering.choice import Choice, Offer, Wish

        episode = self._playing()
        if episode.over:
            return None
        offers = []
        for action in map(int, np.flatnonzero(self.action_masks())):
            slot = action - FIRST_CALL
            called = self.searched and 0 <= slot < min(self.k, len(episode.candidates))
            success = f"{episode.candidates[slot].profile.advertised_success:.0%}" if called else ""
            price = number(episode.quote(slot)) if called else "0"
            offers.append(Offer(self.action_text(action), price, success, action=str(action)))
        title = (
            "decision: which tool that the search brought, if any"
            if self.searched
            else "decision: whether to search for a tool"
        )
        return Choice(title, (Wish("what is allowed, beside the tokens", False, tuple(offers)),))

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (k + 3,) bool, with at least one allowed action."""
        episode = self._playing()
        mask = np.zeros(self.k + 3, np.bool_)
        if not self.searched:
            mask[ANSWER], mask[SEARCH] = True, self._payable(episode, SEARCH)
            return mask
        mask[self.none_action] = True
        for action in range(FIRST_CALL, self.none_action):
            mask[action] = self._due(episode, action) and self._payable(episode, action)
        return mask


@lru_cache(maxsize=4)
def _shared_reading(scenario: str, data: str | None, samples: str | None, features: int, candidates: int) -> Reading:
    documents = [what_it_does(tool) for tool in build_world(scenario, data, samples).catalog]
    return Reading(TextEmbedding(documents, features), TextEmbedding(documents, SIMILARITY_WORDS), {}, {})


@lru_cache(maxsize=4)
def build_world(scenario: str, data: str | None, samples: str | None) -> World:
    """Build the world of a scenario and, for generated samples, `DecisionSettings`, both as JSON; once per process."""
    settings = parse_scenario(json.loads(scenario))
    if settings.source.kind == "tooldeer":
        return settings.build()
    if data is not None:
        from costgym.simulators.decision.recorded import recorded_world

        return recorded_world(settings.build(), settings.seed, data)
    world, _ = decision_world(settings.build(), settings.seed, DecisionSettings(**json.loads(samples or "{}")))
    return world
