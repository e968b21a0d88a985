"""The marketplace as text: `costgym/MarketplaceChat-v0`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from costgym.envs.actions import MAX_CALLS, SEARCH, Action, ToolCall, count_tokens, read_action, spoken
from costgym.envs.actions.plans import run_plan
from costgym.envs.actions.spaces import CallText, UnicodeText
from costgym.envs.base import BaseEnv, takes
from costgym.envs.seats import TextSeat, cards_of, past_decisions, shorten, without_verdicts
from costgym.envs.tool_world import ToolEnv, ToolSettings
from costgym.simulators.calls import Prompt
from costgym.simulators.errors import check_known
from costgym.simulators.failures.silent import unsupported
from costgym.simulators.marketplace.schema import check_arguments
from costgym.simulators.retrieval import Retriever
from costgym.simulators.scenario import Scenario
from costgym.simulators.status import Status
from costgym.simulators.tools import Same, Tool, ToolCard
from costgym.simulators.world import Call, Candidate, Episode, Usage, World, WorldEvent

MAX_ACTION = 100_000  # characters
MAX_NAME = 80  # characters of an unknown function's name that are repeated
MAX_ESCAPE = 12  # characters that JSON makes of one
DOCUMENTS, ORDERS = ("full", "short"), ("task", "stable")
COMPACT = "compact"  # the action by which an agent's summary takes the place of the conversation
_name = attrgetter("name")
MAX_OFFERS = 1024  # tasks whose offer is kept
FLOOR_CHARACTERS = 8  # of a token, at most


class TalkEnv(BaseEnv[str, str]):
    """Part of an environment in which an agent calls tools by JSON text and reads what they answer.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `max_observation` | The number of characters at which the text of a result is cut. |

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `input_tokens` | int | Tokens of the prompt that this action paid for. |
    | `cached_tokens` | int | Those among them that were read from the cache of prompts. |
    | `cache_write_tokens` | int | Those among them that were written to it. |
    | `output_tokens` | int | Tokens of the reply that this action paid for. |
    | `reasoning_tokens` | int | Those among them that were thoughts. |
    | `results` | list | For each call of this action a dict of its `tool`, `status` label and `text`. |
    | `news` | list | What the world told in this step, in words: prices, bans, changed minds. |
    | `status` | int | How the last call of this action ended, as in `Status`; 0 is a success, or no call. |
    | `statuses` | str | How each call of this action ended: labels such as `ok` or `rate_limited`, joined by commas. |
    """

    calls_by_name = True
    plans = False  # whether a plan is an action
    more_functions: tuple[ToolCard, ...] = ()  # functions besides the tools on offer, `finish` and those that always are there
    _short: list[ToolCard] | None = None
    _stable_order = False
    max_observation: int

    if TYPE_CHECKING:
        world: World
        _steps: int

        @property
        def query(self) -> str: ...
        @property
        def currency(self) -> str: ...
        def _playing(self) -> Episode: ...
        def _outcome(self, episode: Episode) -> tuple[float, bool, bool]: ...
        def _info(self) -> dict[str, Any]: ...

    def _listen(self, max_observation: int) -> None:
        """Set how long texts may be."""
        self.max_observation = max_observation
        self.observation_space = UnicodeText(20_000 + MAX_CALLS * MAX_ESCAPE * max_observation)
        self.action_space = CallText(MAX_ACTION) if self.worlds[-1] else UnicodeText(MAX_ACTION)
        self._forget()

    def _forget(self) -> None:
        """Forget the offers and documents of another world."""
        self._offers: dict[int, tuple[tuple[Candidate, ...], dict[str, int], tuple[ToolCard, ...]]] = {}
        self._documents: dict[int, int] = {}  # tokens of each task's documentation
        self._quoted: Sequence[Candidate] = ()  # the candidates whose prices were read last, with what made and what they were
        self._quoted_factors, self._quotes = list[float](), dict[str, float]()
        prices = None if self.world is None else self.world.tokens
        self._cached = prices is not None and prices.cache is not None  # the world counts what its cache of prompts serves
        self._window = None if prices is None else prices.window

    def _start_talk(self, episode: Episode) -> tuple[str, dict[str, Any]]:
        """Begin the conversation of an episode that has begun."""
        self._look_at_offer(episode)
        self._search_results: list[ToolCard] = []  # in the last step
        self._results: list[tuple[str, Status, str]] = []  # tool, status and text of each call of the last step
        self._news: list[str] = []
        text = self.query
        self._context = count_tokens(text)  # the documentation is counted where an action brings no usage
        # the conversation of an agent that reports no tokens, as parts of its prompts: how many were sent, and those to come
        self._sent, self._parts = 0, list[tuple[str, int]]()
        if self._cached:
            self._parts += [("functions", self._document_tokens(episode.number)), ("query", self._context)]
        self._charged = Usage(0, 0)
        self._unread, self._unsaid = _fewest_tokens(text), 0
        return text, self._chat_info(episode)

    # -- what an agent may read ------------------------------------------------------------------------------------------

    @property
    def candidates(self) -> list[Tool]:
        """The task's candidate tools, in order."""
        tools = [self.world.catalog[slot.number] for slot in self._playing().candidates]
        return sorted(tools, key=_name) if self._stable_order else tools

    def opening(self) -> dict[str, Any]:
        return {"functions": self.documentation(), "prices": self.quotes(), **self._token_prices()}

    def _token_prices(self) -> dict[str, Any]:
        """What a million tokens of each class cost, and the window of the model, where a cache of prompts is billed."""
        if not self._cached or (prices := self.world.tokens) is None:
            return {}
        names = ("input", "cached", "cache_write", "output", "window")
        return {"token_prices": {name: value for name in names if (value := getattr(prices, name)) is not None}}

    def documentation(self) -> list[dict[str, Any]]:
        """The candidates' function schemas, in the format of OpenAI's API."""
        return [tool.documentation() for tool in (*(self._short or self.candidates), *self.more_functions)]

    def _card(self, candidate: Candidate) -> ToolCard:
        """What the agent is told of a tool on offer; short documents hold the present price."""
        card = cards_of(self.world.catalog, [self.world.catalog[candidate.number]])[0]
        if self._short is None:
            return card
        return shorten(card, self._playing().quote(candidate.index), self.currency)

    def seat(self, env_id: str, examples: int = 0) -> TextSeat:
        return TextSeat(
            **self.seat_parts(env_id),
            max_price=self.world.max_price,
            query=self.query,
            tools=self._cards if self._short is None else tuple(self._short),
            token_pricing=self.world.tokens,
            categories=() if self.world.retriever is None else self.world.retriever.categories,
            more=self.more_functions,
            examples=past_decisions(Same(self.world), examples) if examples else (),
        )

    def visible_info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**without_verdicts(super().visible_info(info)), "quotes": self.quotes(), "found": tuple(self._search_results)}

    def quotes(self) -> dict[str, float]:
        """The present price of a call of each candidate."""
        episode = self._playing()
        candidates, factors = episode.candidates, episode.factors
        # an agent reads all of them at every step, and they rarely change
        if candidates is not self._quoted or factors != self._quoted_factors:
            self._quoted, self._quoted_factors = candidates, list(factors)
            self._quotes = {slot.name: slot.quote * factor for slot, factor in zip(candidates, factors, strict=True)}
        return self._quotes.copy()

    def _look_at_offer(self, episode: Episode) -> None:
        """Note slots and cards of the tools on offer; a search adds to them."""
        offered, catalog = episode.candidates, self.world.catalog
        offers = self._offers.get(episode.number)
        if offers is None or offers[0] is not offered:
            # made once a task, since a reset would else take a third longer
            cards = tuple(cards_of(catalog, [catalog[slot.number] for slot in offered]))
            if self._stable_order:
                cards = tuple(sorted(cards, key=_name))
            offers = self._offers[episode.number] = offered, {slot.name: slot.index for slot in offered}, cards
            if len(self._offers) > MAX_OFFERS:
                self._offers.popitem()
        _, self._slots, self._cards = offers
        if isinstance(self.action_space, CallText):
            self.action_space.functions = (*self._cards, *self.more_functions)

    def _document_tokens(self, number: int) -> int:
        tokens = self._documents.get(number)
        if tokens is None:
            tools = [self.world.catalog[slot.number].documentation() for slot in self.world.candidates(number)]
            tokens = self._documents[number] = count_tokens(json.dumps(tools))
        return tokens

    # -- playing ---------------------------------------------------------------------------------------------------------

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        episode = self._playing()
        self._results, self._news, self._search_results = [], [], []
        over = episode.over
        if over:
            self._charged = Usage(0, 0)
            return "", 0.0, True, False, self._chat_info(episode)
        self._steps += 1
        parsed = read_action(action, self.plans)
        usage = parsed.usage
        spoken = count_tokens(action) if usage is None and isinstance(action, str) else 0
        if usage is None:
            usage = Usage(self._document_tokens(episode.number) + self._context, spoken, prompt=self._prompt())
            self._converse("action", spoken)
        if (window := self._window) is None or usage.input_tokens <= window:
            episode.think(self._at_least(usage, parsed))
            self._charged = episode.ledger.usages[-1]
        else:
            parsed, self._charged = _too_long(usage.input_tokens, window), Usage(0, 0)
        if parsed.calls and parsed.calls[0].name == COMPACT and COMPACT not in self._slots and self.world_version > 0:
            observation = "" if episode.over else self._compact(episode, parsed.calls[0])
        else:
            observation = "" if episode.over else self._act(episode, parsed)
        self._converse("observation", count_tokens(observation))
        self._unread += _fewest_tokens(observation)
        reward, over, truncated = self._outcome(episode)
        return observation, reward, over, truncated, self._chat_info(episode)

    def _converse(self, kind: str, tokens: int) -> None:
        """Add a text to the conversation."""
        self._context += tokens
        if self._cached:
            self._parts.append((f"{kind} {self._steps}", tokens))

    def _prompt(self) -> Prompt | None:
        """The present conversation as the prompt of an agent that reports none; None where no prompt is cached."""
        if not self._cached:
            return None
        prompt = Prompt(
            self._sent, tuple(self._parts), (2,)
        )  # documents and query stay where a summary takes the place of the rest
        self._sent, self._parts = self._sent + len(self._parts), []
        return prompt

    def _compact(self, episode: Episode, call: ToolCall) -> str:
        """Let the agent's summary stand for the conversation so far."""
        summary = call.arguments.get("summary")
        if not isinstance(summary, str):
            return episode.content(episode.submit(-1, None, Status.INVALID_ARGUMENTS, "compact: expected `summary`, a text"))
        self._context = count_tokens(self.query)
        self._sent, self._parts = min(self._sent, 2), []
        self._converse("summary", count_tokens(summary))
        return json.dumps({"context_tokens": self._document_tokens(episode.number) + self._context})

    def _at_least(self, usage: Usage, action: Action) -> Usage:
        """Raise the tokens that an agent reports to what it must have read and written, over the episode so far.

        An agent may report more: what it read again, or thought. It cannot report less than each text that it was shown, once,
        and each call and answer that it gave.
        """
        text = action.answer or "".join([call.name + json.dumps(dict(call.arguments)) for call in action.calls])
        # what was reported above the floor stands for later: a plan is written once and then followed call by call
        read, written = usage.input_tokens, usage.output_tokens
        self._unread, self._unsaid = self._unread - read, self._unsaid + _fewest_tokens(text) - written
        if self._unread > 0 or self._unsaid > 0:
            read, written = read + max(0, self._unread), written + max(0, self._unsaid)
            self._unread, self._unsaid = min(0, self._unread), min(0, self._unsaid)
            usage = usage._replace(input_tokens=read, output_tokens=written)
        return usage

    def _act(self, episode: Episode, action: Action) -> str:
        if action.kind == "finish":
            episode.finish(action.answer, action.gave_up)
            return ""
        if action.kind == "think":
            return ""
        if action.kind == "wait":
            if action.seconds > 0:
                episode.advance(action.seconds)
            self._news = self._read_news(episode)
            return json.dumps({"news": self._news} if self._news else {"waited_s": action.seconds})
        if action.kind == "plan":
            return self._run_plan(episode, action)
        submitted = [self._submit(episode, call) for call in action.calls if not episode.over]
        for running in submitted:
            if isinstance(running, Call):
                episode.settle(running)
        self._results = [
            (SEARCH, Status.OK, call)
            if isinstance(call, str)
            else (call.tool or requested.name[:MAX_NAME], call.status, self._cut(episode.content(call)))
            for call, requested in zip(submitted, action.calls, strict=False)
        ]
        self._news = self._read_news(episode)
        # the tool's own text, as a model's chat template expects it; JSON around it only where there is more to tell
        if len(self._results) == 1 and not self._news:
            return self._results[0][2]
        answers = [{"name": tool, "content": text} for tool, _, text in self._results]
        return json.dumps({"results": answers, "news": self._news} if self._news else {"results": answers})

    def _run_plan(self, episode: Episode, action: Action) -> str:
        """Run a plan, and say what each of its steps brought."""

        def submit(index: int, arguments: Mapping[str, Any]) -> Call:
            call = action.calls[index]
            if call.name == SEARCH and call.status is None:
                return refuse(index, "a search is no step of a plan")
            started = self._submit(episode, call._replace(arguments=arguments))
            assert isinstance(started, Call)
            return started

        def refuse(index: int, problem: str) -> Call:
            slot = self._slots.get(action.calls[index].name, -1)
            return episode.submit(slot, None, Status.INVALID_ARGUMENTS, problem[:240])

        calls, events = run_plan(episode, action.steps, [call.arguments for call in action.calls], submit, refuse)
        self._results = [
            (requested.name[:MAX_NAME], Status.CANCELLED, "")
            if call is None  # the episode ended before it
            else (requested.name[:MAX_NAME], call.status, self._cut(episode.content(call)))
            for call, requested in zip(calls, action.calls, strict=True)
        ]
        self._news = [self._cut(self._say(episode, event)) for event in events] + self._read_news(episode)
        answers = [
            {"id": step.tool, "name": tool, "content": text}
            for step, (tool, _, text) in zip(action.steps, self._results, strict=True)
        ]
        return json.dumps({"results": answers, "news": self._news} if self._news else {"results": answers})

    def _cut(self, text: str) -> str:
        if len(text) <= self.max_observation:
            return text
        return f"{text[: self.max_observation]}... [cut: {self.max_observation:,} of {len(text):,} characters]"

    def _submit(self, episode: Episode, call: ToolCall) -> Call | str:
        if call.name == SEARCH and call.status is None and self.world.retriever is not None:
            text, cards = search_tools(self.world.retriever, episode, call.arguments, self._card)
            self._look_at_offer(episode)
            self._search_results = [*self._search_results, *cards]
            if self._short is not None:
                self._short = [*self._short, *cards]
            return text
        slot = self._slots.get(call.name, -1)
        if call.status is not None:
            return episode.submit(slot, None, call.status, call.problem)
        if slot < 0:
            return episode.submit(-1, None, Status.UNKNOWN_TOOL, f"there is no function named {call.name[:MAX_NAME]!r}")
        problem = check_arguments(self.world.catalog[episode.candidates[slot].number], call.arguments)
        if problem is not None:
            return episode.submit(slot, None, Status.INVALID_ARGUMENTS, problem[:240])
        return episode.submit(slot, call.arguments)

    def _read_news(self, episode: Episode) -> list[str]:
        """Descriptions of the visible events since the last call."""
        return [] if episode.over else [self._cut(self._say(episode, event)) for event in episode.notices()]

    def _say(self, episode: Episode, event: WorldEvent) -> str:
        names = ", ".join(episode.candidates[slot].name for slot in event.slots)
        if event.kind == "price_change":
            return f"prices of {names} changed by a factor of {event.factor:g}"
        if event.kind == "preference_change":
            return f"the user changes their mind: {episode.needs[event.need].wish}"
        return f"{names}: {'not available at present' if event.kind == 'ban' else 'available again'}"

    def action_text(self, action: str) -> str:
        return spoken(action)

    def _chat_info(self, episode: Episode) -> dict[str, Any]:
        info, results = self._info(), self._results
        charged = self._charged
        info["input_tokens"], info["output_tokens"] = charged.input_tokens, charged.output_tokens
        info["cached_tokens"], info["cache_write_tokens"] = charged.cached_tokens, charged.cache_write_tokens
        info["reasoning_tokens"] = charged.reasoning_tokens
        info["results"] = [{"tool": tool, "status": status.label, "text": text} for tool, status, text in results]
        info["news"] = list(self._news)
        info["status"] = int(results[-1][1]) if results else 0
        info["statuses"] = ",".join([status.label for _, status, _ in results]) if results else ""
        return info


@dataclass(frozen=True, kw_only=True)
class ChatSettings(ToolSettings):
    """Arguments of `MarketplaceChatEnv`, which describes them."""

    max_observation: int = 2048
    level: str | None = None
    documents: str = "full"
    tool_order: str = "task"
    max_steps: int = 400


@dataclass(frozen=True, kw_only=True)
class ChatSettingsV1(ChatSettings):
    """Arguments of `MarketplaceChatEnvV1`: results of tools are long, so more of them is shown."""

    max_observation: int = 100_000


class MarketplaceChatEnv(TalkEnv, ToolEnv[str, str]):
    """Call tools by JSON and read what they answer, as a language model does.

    ## Description

    The same world as `Marketplace-v0`, in words. An episode is one task: a user's query, the documentation of the candidate
    tools, and an answer to be given in the end. The agent writes the arguments of its calls itself, from the tools' schemas.
    Calls take simulated time and money, fail as real APIs do, and the tokens that the agent reads and writes are counted.

    `env.unwrapped` offers what an agent may read besides the observation: `query`, the question at the chosen `level`;
    `documentation()`, the candidates as function schemas in the format of OpenAI's API; `quotes()`, the present price of a
    call of each candidate.

    ## Action space

    A string of at most 100,000 characters: one JSON object, or the word `finish`.

    | action | effect |
    | --- | --- |
    | `{"name": NAME, "arguments": {...}}` | Call a tool and wait until the call ends. |
    | `{"calls": [{"name": ..., "arguments": ...}, ...]}` | Make 1 to 16 calls side by side and wait until all have ended. |
    | `{"name": "wait", "arguments": {"seconds": 5}}` | Let simulated time pass, at most 86,400 s. |
    | `{"name": "think"}` | Do nothing but think: only tokens are charged. |
    | `{"name": "search_tools", "arguments": {"query": "..."}}` | Ask the retriever for more tools, where there is one. |
    | `{"name": "finish", "arguments": {"answer": "..."}}` | Answer. `"give_up": true` gives up instead. |

    Any action may hold `"usage": {"input_tokens": ..., "output_tokens": ..., "cached_tokens": ...}`, the tokens that a model
    reports. Without it the environment counts them, one for each four characters: the documentation and the whole
    conversation as input, the action as output. A report is raised to a floor: over an episode no less is charged than every
    text that the agent was shown, read once, and every call and answer that it gave, at eight characters a token. Thinking
    takes `ttft_s` (0.5 s by default) and 1 / `tokens_per_s` (1/60 s) for each output token; tokens cost money where the
    scenario has a price for them.

    Where a scenario's tools are retrieved (`candidates: {from: catalogue, retriever: bm25, k: 5}`), the tools on offer are
    what a search of the whole catalogue for the query brought, and `search_tools` brings `k` more that are not on offer yet.
    `"category"` and `"provider"` narrow it; without a `"query"` it lists categories, a category's tools by provider, or offers
    a provider's tools. A search takes simulated time (0.3 s by default) and costs nothing but the tokens that are read; tools
    that it finds can be called from then on.

    A call may hold `"refuse"`, one of `forbidden`, `not_registered`, `over_budget`, `malformed` and `unknown_tool`, and
    `"reason"`: the agent's own rules turn the call down, and the record says so. What cannot be read, and calls of unknown
    tools or with arguments that do not fit the schema, are answered with an error in words; this takes a moment (`gateway_s`,
    0.05 s by default) and costs nothing. No action raises an error.

    ## Observation space

    A string. After `reset` it is the query. After a single call it is what the tool returned, or an error in words; after
    several calls, or when the world has news, it is JSON: `{"results": [{"name": ..., "content": ...}], "news": [...]}`. News
    are changed prices, tools that are not available at present or available again, and users who change their mind. `think`
    and `finish` return an empty string. The text of a result is cut at `max_observation` characters, and says that it was; the
    query is never cut.

    ## Rewards

    As in `Marketplace-v0`: each step brings -(1 - alpha) × (money charged in this step) / `max_price`, and the last step of a
    successful episode adds alpha, so the undiscounted return is the Quality of Plan. Success means that the answer holds
    every fact (with `grading="judge"`: that the simulated judge accepts it) and that no limit was passed.

    ## Starting state

    As in `Marketplace-v0`: the clock stands at 0, the task is drawn uniformly from the split, `reset(options={"task": task})`
    names it by number or id, and all chance follows from the seed and the task. Both environments play the same tasks and the
    same luck.

    ## Episode end

    * Termination: the agent finishes, or a limit of the budget is passed, as in `Marketplace-v0`.
    * Truncation: `max_steps` actions were taken.

    A step after the end changes nothing and is rewarded with 0.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `level` | The query's detail: `statement`, `category`, `tool`, `api` or `hybrid`; `None`: the task's own. |
    | `tool_order` | Of the documented tools: `"task"`, the task's own; or `"stable"`, by name, so that tasks begin alike. |
    | `documents` | `"full"`; or `"short"`, for small contexts: first sentence, price, required arguments and their types. |

    ## Version history

    * v0: first version.
    """

    can_search = True

    @takes(ChatSettings)
    def __init__(self, settings: ChatSettings) -> None:
        self._settle(settings)

    def _settle(self, settings: ChatSettings) -> None:
        """Check the arguments, and enter the first scenario."""
        check_known("form of the documents", settings.documents, DOCUMENTS)
        check_known("order of the tools", settings.tool_order, ORDERS)
        self._stable_order = settings.tool_order == "stable"
        self._configure(settings)
        self.level, self.documents = settings.level, settings.documents
        self._listen(settings.max_observation)

    def _enter(self, scenario: Scenario) -> None:
        super()._enter(scenario)
        self._forget()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        episode = self._start(*self._choose(seed, options))
        if self.documents == "short":
            self._short = []
            # again for each episode, since prices are in them
            self._short = [self._card(candidate) for candidate in episode.candidates]
            if self._stable_order:
                self._short.sort(key=_name)
            self._documents[episode.number] = count_tokens(json.dumps(self.documentation()))
        return self._start_talk(episode)

    @property
    def query(self) -> str:
        """The user's query at the chosen level of detail."""
        task = self.task
        return task.query if self.level is None else task.instructions.get(self.level, task.query)

    @property
    def currency(self) -> str:
        """The currency of the prices."""
        return self.scenario.currency

    def figures(self) -> dict[str, Any]:
        """In a world with silent faults, whether the answer states a value that nothing the agent read holds."""
        figures, episode = super().figures(), self.episode
        if episode is None or not self.world.failures.silent:
            return figures
        wrong, answer = False, self._final_answer()
        if answer:
            read = [self.query, *(self._cut(episode.content(call)) for call in episode.calls if call.finished_s >= 0)]
            wrong = bool(unsupported(answer, read, [need.fact for need in episode.needs]))
        return {**figures, "unsupported_answer": wrong}

    def _final_answer(self) -> str:
        """The answer that was given; empty without one."""
        last = self.episode.log[-1] if self.episode is not None and self.episode.log else ("",)
        return last[1] or "" if last[0] == "finish" and not last[2] else ""


class MarketplaceChatEnvV1(MarketplaceChatEnv):
    """Call tools by JSON and read what they answer, as a language model does, in the world of version 1.

    ## Action space

    As in `MarketplaceChat-v0`, and two actions more.

    | action | effect |
    | --- | --- |
    | `{"plan": [{"id": "a", "name": NAME, "arguments": {...}, "after": [...]}, ...]}` | Run 1 to 16 steps as a plan. |
    | `{"name": "compact", "arguments": {"summary": "..."}}` | A summary takes the place of the conversation since the query. |

    A step of a plan starts as soon as all steps that it depends on have ended, side by side with others: those that `after`
    names, and those whose results its arguments take. An argument `"{a}"` takes the result of step a: the value under the
    argument's name, or else the first that is no echo of the step's own arguments; `"{a.data.0.price}"` names it. A step stands
    behind those that it depends on. One whose argument has no value is refused; the others go on, and what ran is billed.

    Every message is billed, one that cannot be read like any other: where a scenario states no prices of tokens, they cost
    what those of claude-sonnet-5 cost in November 2026. What of a prompt the vendor's cache serves is counted on the
    simulated clock: an agent may report the parts of its prompts, `"usage": {..., "prompt": {"same": 12, "parts": [[DIGEST,
    TOKENS], ...]}}`, where `same` counts the leading parts that are those of its prompt before; for one that reports nothing
    the whole conversation is the prompt. `compact` shortens it, and breaks its prefix after the query. A request that does not
    fit into the model's window is answered with the error `context_length_exceeded`; it does nothing and costs nothing.

    ## Observation space

    As in `MarketplaceChat-v0`; after a plan the results have the ids of its steps. The results of tools have 20 to 20,000
    tokens, by what the tools do; the answer stands first. After `compact` it is JSON: `{"context_tokens": ...}`.

    ## Version history

    * v1: plays version 1 of the world, and its action space samples calls that can be read.
    * v0: first version; plays version 0 of the world, in which recordings up to 0.2 were made.
    """

    worlds = (1,)
    plans = True

    @takes(ChatSettingsV1)
    def __init__(self, settings: ChatSettingsV1) -> None:
        self._settle(settings)

    def figures(self) -> dict[str, Any]:
        """In a query about an image, also the score of what is answered about it, as OpenCATP scores a plan's outputs."""
        figures, scored = super().figures(), getattr(self.world.answers, "picture_score", None)
        score = None if scored is None or self.episode is None else scored(self.episode, self._final_answer())
        return figures if score is None else {**figures, "score": score}


def _too_long(tokens: int, window: int) -> Action:
    """A request that does not fit into the model's window: as servers do, it is refused whole, and nothing is charged."""
    problem = f"context_length_exceeded: the model's context holds {window:,} tokens, and this request has {tokens:,}"
    return Action("call", (ToolCall("", status=Status.MALFORMED, problem=problem),))


def _fewest_tokens(text: str) -> int:
    """Return fewer tokens than any tokenizer in use makes of English or JSON: one for each eight characters."""
    return len(text) // FLOOR_CHARACTERS


MAX_QUERY = 2_000  # characters of a search's query that are read


def search_tools(
    retriever: Retriever, episode: Episode, arguments: Mapping[str, Any], card: Callable[[Candidate], ToolCard]
) -> tuple[str, list[ToolCard]]:
    """Search, which takes the retriever's time; returns what the agent reads, and the cards of the tools that are new on offer.

    With a query, or with a provider, tools are found; they are on offer from then on. Without either, names are listed: the
    categories, or one category's tools by provider, as in AnyTool's hierarchical search (arXiv 2402.04253, Section 3.1).
    """
    query, category, provider = (str(arguments.get(name) or "")[:MAX_QUERY] for name in ("query", "category", "provider"))
    episode.advance(retriever.settings.seconds)
    if episode.over:
        return "", []
    if not query and not provider:
        if not category:
            return json.dumps({"categories": retriever.categories}), []
        listed = retriever.listing(category)
        if not listed:
            return _nothing(f"there is no category {category[:80]!r}"), []
        return json.dumps({"category": category, "providers": listed}), []
    offered = frozenset(candidate.name for candidate in episode.candidates)
    numbers = retriever.search(query or provider, episode.task, offered, category, provider)
    cards = [card(candidate) for candidate in episode.offer(numbers)]
    if not cards:
        return _nothing("there is no further tool"), []
    return json.dumps({"found": [new.documentation()["function"] for new in cards]}), cards


def _nothing(why: str) -> str:
    return json.dumps({"found": [], "note": why})
