"""The session of a language-model agent in one episode: it asks the model, makes its calls and pays for both.

A strategy is a generator that yields environment actions and is sent what each brought. Everything it does goes through
the session, so that every reply is paid for exactly once and no call passes by the tool access.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, NamedTuple, Protocol

from costgym.agents import prompts
from costgym.agents.base import TEXT, Agent
from costgym.agents.llm.types import CallResult, Outcome, Play, SearchResult, Turn
from costgym.agents.models.base import (
    ACT,
    ASSISTANT,
    FILTERED,
    FINISH,
    PLAN,
    REFUSED,
    SUMMARISE,
    SYSTEM,
    TOOL,
    TRUNCATED,
    USER,
    Function,
    FunctionCall,
    LanguageModel,
    Message,
    PromptWriter,
    Reply,
    reports_cache,
    to_json,
)
from costgym.agents.prompts import CUT, INSTRUCTIONS, NEWS, NUDGE, SUMMARY
from costgym.agents.seat import TextSeat
from costgym.agents.world_side import wrap_model
from costgym.envs.actions import FINISH as FINISH_NAME
from costgym.envs.actions import SEARCH, count_tokens, encode_action
from costgym.envs.chat import COMPACT, MAX_ACTION
from costgym.simulators.calls import Usage
from costgym.simulators.status import Status
from costgym.simulators.tools import Same

MAX_ANSWER = 16_000
MAX_CALLS = 16
_STATUS = {status.label: status for status in Status}
_PLAIN, _SUMMARISE = Message(SYSTEM, INSTRUCTIONS), Message(SYSTEM, SUMMARY)


class Strategy(Protocol):
    """Makes a search of a model's replies."""

    @property
    def name(self) -> str: ...

    @property
    def text_is_answer(self) -> bool:
        """Whether a reply without a call is the final answer."""
        ...

    def play(self, session: "LlmSession") -> Play[SearchResult]: ...


class Refusal(NamedTuple):
    """A call turned down before it reaches the world: it is recorded there, but never executed and never billed."""

    status: Status
    reason: str


class ToolAccess:
    """Decides which tools a model is shown, which calls are turned down, and what else the model is told.

    An agent has a list of accesses, and each does its part; a strategy does not know which there are. This one shows all
    tools at all times; others override what they change.

    Attributes:
        suffix: Its part of an agent's name, after "+".
        summarise: After the search, the final answer is written from all executed calls.
        wants_examples: Past queries that the seat shall hold, with what served them.
        compact_above: Tokens of a conversation from which the model's summary takes its place; None for never.
    """

    suffix: str = ""
    summarise: bool = False
    wants_examples: int = 0
    compact_above: int | None = None

    def reset(self, session: "LlmSession") -> None:
        """Begin a new episode."""

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        """Return the functions that the model is shown, out of those that the accesses before this one offer."""
        return offered

    def system(self) -> str:
        """Return what the model is told now, beside its instructions."""
        return ""

    def ending(self) -> str:
        """Return what the model is told now, at the end of the conversation."""
        return ""

    def unwrap(self, call: FunctionCall) -> FunctionCall:
        """Return the call that is meant by a call of one of this access's functions."""
        return call

    def refuse(self, call: FunctionCall) -> Refusal | None:
        """Return the reason why a call must not be made; None if it may."""
        return None

    def handle(self, call: FunctionCall) -> str | None:
        """Return the result of a call that this access answers itself."""
        return None

    def admit(self, call: FunctionCall) -> None:
        """Take note that a call goes to the world; `result` follows."""

    def result(self, result: CallResult) -> None:
        """See what a call brought."""

    def exhausted(self) -> bool:
        """Return whether no call is left, so that the search stops."""
        return False


class LlmSession:
    """An episode under way: the seat, the accesses in their order, the candidates' documentation and cards so far.

    `replies` counts a real model's replies by the names in `agents.models.base.REPLIES`; with `text_is_answer` a reply without
    a call is the final answer.
    """

    def __init__(
        self,
        seat: TextSeat,
        model: LanguageModel,
        access: Sequence[ToolAccess],
        query: str,
        info: dict[str, Any],
        text_is_answer: bool,
    ) -> None:
        self.seat, self.model, self.access, self.query, self.info = seat, model, access, query, info
        self.text_is_answer = text_is_answer
        self.queries = 0
        self.replies: dict[str, int] = {}
        self.executed: list[CallResult] = []
        self._shown: list[tuple[Message, Message]] = []  # the reply with each executed call, and the call's result
        self._owed: Usage | None = None
        limits = [part.compact_above for part in access if part.compact_above is not None]
        self._compact_above = min(limits, default=None)
        self._compacted: list[tuple[tuple[Message, ...], Message]] = []  # conversations, and the summaries in their places
        prices = seat.token_pricing
        self._window = None if prices is None else prices.window
        self._prompts = None if prices is None or prices.cache is None or reports_cache(model) else PromptWriter(prices.cache)
        self._access_texts: list[str] = []  # in the system message, beside the instructions
        self._system = _PLAIN
        self.request = Message(USER, query)
        self.tools = seat.tools
        self.candidates: Sequence[Function] = _functions(Same(seat.tools))
        self._more = _functions(Same(seat.more))
        for part in access:
            part.reset(self)

    def quotes(self) -> dict[str, float]:
        """Return the price of a call of each tool now."""
        quotes: dict[str, float] = self.info["quotes"]
        return quotes

    def meet(self, info: dict[str, Any]) -> None:
        """Take tools that a search found among the candidates."""
        if more := info.get("found", ()):
            self.tools = (*self.tools, *more)
            self.candidates = [*self.candidates, *map(Function.of, more)]

    # -- the model -------------------------------------------------------------------------------------------------------

    def ask(self, history: Sequence[Message], purpose: str = ACT, functions: Sequence[Function] | None = None) -> Play[Reply]:
        """A reply of the model to a history for a `purpose`, with the accesses' functions or these; the next action pays it."""
        yield from self.pay()
        if self._compact_above is not None and purpose == ACT:
            history = yield from self._compact(history, self._compact_above)
        if functions is None:
            functions = self.offered() if purpose in (ACT, PLAN) else ()
        messages = [self._instructions(purpose), *history]
        if purpose in (ACT, PLAN) and (texts := [text for part in self.access if (text := part.ending())]):
            messages.append(Message(USER, prompts.STATUS + "\n".join(texts)))
        answer = self.model.complete(messages, functions, purpose)
        self.queries += 1
        self._owed = answer.usage
        if self._window is not None and answer.usage.input_tokens > self._window:
            # the world refuses the request, as a server does, and the model says nothing
            self._owed = answer.usage._replace(output_tokens=0)
            return Reply(Message(ASSISTANT, ""), Usage(0, 0))
        if self._prompts is not None:
            self._owed = answer.usage._replace(prompt=self._prompts.write(messages, functions))
        answer.count_in(self.replies)
        return answer

    def _compact(self, history: Sequence[Message], above: int) -> Play[Sequence[Message]]:
        """The conversation with the model's summaries in the places of what they sum up; a long one is summed up now."""
        for whole, summary in reversed(self._compacted):
            if len(history) >= len(whole) and all(map(is_, whole, history)):
                shorter = [history[0], summary, *history[len(whole) :]]
                break
        else:
            shorter = list(history)
        if len(shorter) < 3 or shorter[-1].role != TOOL or sum(message.tokens for message in shorter) <= above:
            return shorter
        text = (yield from self.summarise(shorter)).answer or ""
        if self.seat.env_id.endswith("-v1"):
            self.info = (yield encode_action(COMPACT, {"summary": text}, usage=self._take())).info
        message = Message(USER, prompts.COMPACTED + text)
        self._compacted.append((tuple(history), message))
        return [history[0], message]

    def pay(self) -> Play[None]:
        """Pay for the last reply, if that is still to be done."""
        if self._owed is not None:
            self.info = (yield encode_action("think", usage=self._take())).info

    def offered(self) -> list[Function]:
        """Return the functions that the model may call now."""
        functions: Sequence[Function] = self.candidates
        for part in self.access:
            functions = part.functions(functions)
        return [*functions, *self._more, FINISH]

    def exhausted(self) -> bool:
        """Return whether no call is left."""
        return any(part.exhausted() for part in self.access)

    def _instructions(self, purpose: str) -> Message:
        if purpose == SUMMARISE:
            return _SUMMARISE
        texts = [text for part in self.access if (text := part.system())]
        if texts != self._access_texts:
            self._access_texts, self._system = texts, Message(SYSTEM, "\n\n".join([INSTRUCTIONS, *texts]))
        return self._system

    def _take(self) -> Usage:
        usage, self._owed = self._owed, None
        return usage or Usage(0, 0)

    # -- calls -----------------------------------------------------------------------------------------------------------

    def perform(self, reply: Reply) -> Play[Turn]:
        """Make the calls of a reply, side by side where there are several, each past the tool access."""
        message = reply.message
        turn = Turn([message], nodes=(1 if message.content else 0) + 2 * len(message.calls))
        if reply.outcome in (FILTERED, REFUSED):
            turn.nodes, turn.ending = 1, SearchResult(None)
            return turn
        if not message.calls:
            text = message.content.strip()
            if text and self.text_is_answer and not reply.outcome:
                turn.ending = SearchResult(text[:MAX_ANSWER])
            else:
                turn.nodes = 1
                turn.messages.append(Message(USER, CUT if reply.outcome == TRUNCATED else NUDGE))
            return turn
        written = [call if isinstance(call.name, str) else call._replace(name=str(call.name)) for call in message.calls]
        for part in self.access:
            written = [part.unwrap(call) for call in written]
        for call in written:
            if call.name == FINISH_NAME:
                ending, problem = (None, CUT) if reply.outcome == TRUNCATED else read_finish(call)
                if ending is None:
                    turn.messages.append(_result_message(call, problem))
                turn.ending = ending
                return turn
        documents: list[dict[str, Any]] = []
        calls: list[FunctionCall] = []
        for call in written[:MAX_CALLS]:
            answer = self._handle(call)
            if answer is not None:
                turn.results.append(CallResult(call, answer, Status.OK, False))
                turn.messages.append(_result_message(call, answer))
            else:
                calls.append(call)
                documents.append(self._document(call))
        if documents:
            outcome = yield encode_calls(documents, self._take())
            self.info = outcome.info
            self.meet(outcome.info)
            news = outcome.info["news"]
            for call, (text, status, executed) in zip(calls, read_results(outcome.info, len(calls)), strict=True):
                if call.name == SEARCH and self.seat.categories:
                    text, executed = found_names(text), False
                result = CallResult(call, text, status, executed)
                shown = _result_message(call, text)
                turn.results.append(result)
                turn.messages.append(shown)
                if executed:
                    self.executed.append(result)
                    self._shown.append((message, shown))
                for part in self.access:
                    part.result(result)
            if news:
                turn.messages.append(Message(USER, NEWS + "; ".join(news)))
        return turn

    def run_plan(self, message: Message, steps: Sequence[tuple[FunctionCall, Mapping[str, Any]]]) -> Play[Turn]:
        """Have a plan run as a whole, each of its calls past the tool access; a step is a call and its place in the plan."""
        calls = [call._replace(id=f"plan_{number}") for number, (call, _) in enumerate(steps)]
        written = Message(ASSISTANT, message.content, tuple(calls), extra=message.extra, tokens=message.tokens)
        turn = Turn([written], nodes=1 + 2 * len(calls))
        documents = [{**self._document(call), **more} for call, (_, more) in zip(calls, steps, strict=True)]
        outcome = yield to_json({"plan": documents, "usage": self._take().document()})
        self.info = outcome.info
        results = read_results(outcome.info, len(calls))
        if len(outcome.info["results"]) != len(calls):  # it is no plan, and is refused as a whole
            turn.messages = [message, Message(USER, outcome.observation)]
            results = [("", Status.MALFORMED, False)] * len(calls)
        for call, (text, status, executed) in zip(calls, results, strict=True):
            result, shown = CallResult(call, text, status, executed), _result_message(call, text)
            if turn.messages[0] is written:
                turn.results.append(result)
                turn.messages.append(shown)
            if executed:
                self.executed.append(result)
                self._shown.append((written, shown))
            for part in self.access:
                part.result(result)
        if news := outcome.info["news"]:
            turn.messages.append(Message(USER, NEWS + "; ".join(news)))
        return turn

    def search(self, **arguments: str) -> Play[None]:
        """Search the catalogue without asking the model; what is found is among the candidates from then on."""
        self.info = (yield encode_action(SEARCH, arguments, usage=self._take())).info
        self.meet(self.info)

    def _handle(self, call: FunctionCall) -> str | None:
        for part in self.access:
            if (answer := part.handle(call)) is not None:
                return answer
        return None

    def _document(self, call: FunctionCall) -> dict[str, Any]:
        document: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
        for part in self.access:
            if refusal := part.refuse(call):
                return {**document, "refuse": refusal.status.label, "reason": refusal.reason}
        for part in self.access:
            part.admit(call)
        return document

    @property
    def summarises(self) -> bool:
        """Whether a tool access wants the final answer written from all executed calls."""
        return any(part.summarise for part in self.access)

    def summarise(self, history: Sequence[Message]) -> Play[SearchResult]:
        """Return the final answer, written from the results in a history; without one, a reply that says nothing."""
        reply = yield from self.ask(history, SUMMARISE)
        text = "" if reply.outcome else _answer_in(reply.message)
        return SearchResult(text[:MAX_ANSWER]) if text else SearchResult(None)

    def results(self) -> list[Message]:
        """Return the request and all executed calls with their results, whatever branch they were made on."""
        history = [self.request]
        for result, (message, shown) in zip(self.executed, self._shown, strict=True):
            tokens = message.tokens - count_tokens(message.content) if len(message.calls) == 1 else -1
            history += [Message(ASSISTANT, "", (result.call,), extra=message.extra, tokens=tokens), shown]
        return history

    # -- the whole episode -----------------------------------------------------------------------------------------------

    def run(self, strategy: Strategy) -> Play[None]:
        """Search, summarise where the access wants that, finish."""
        ending = yield from strategy.play(self)
        if self.summarises:
            summary = yield from self.summarise(self.results())
            if not summary.gave_up:
                ending = summary
        arguments = {"answer": "", "give_up": True} if ending.answer is None else {"answer": ending.answer}
        self.info = (yield encode_action(FINISH_NAME, arguments, usage=self._take())).info


def _answer_in(message: Message) -> str:
    """Return the answer that a message holds: its text, or what it would finish with."""
    if message.content.strip():
        return message.content
    endings = [read_finish(call)[0] for call in message.calls if call.name == FINISH_NAME]
    return next((ending.answer for ending in endings if ending is not None and ending.answer), "")


def read_finish(call: FunctionCall) -> tuple[SearchResult | None, str]:
    """Return the ending that a call of `finish` means; None and what is wrong where its arguments cannot be read."""
    arguments = call.read()
    if arguments is None:
        return None, json.dumps({"error": "invalid_arguments", "message": "finish takes a JSON object with answer or give_up"})
    if arguments.get("give_up") is True:
        return SearchResult(None), ""
    answer = arguments.get("answer")
    if answer is None:
        return None, json.dumps({"error": "invalid_arguments", "message": "finish: answer is missing"})
    return SearchResult((answer if isinstance(answer, str) else to_json(answer))[:MAX_ANSWER]), ""


def found_names(text: str) -> str:
    """Return the names of the tools that a search found; their documents are shown as functions from then on."""
    try:
        document = json.loads(text)
        return json.dumps({"found": [tool["name"] for tool in document["found"]]}) if document.get("found") else text
    except (ValueError, KeyError, TypeError):
        return text


def _result_message(call: FunctionCall, text: str) -> Message:
    return Message(TOOL, text, name=str(call.name), call_id=call.id)


def encode_calls(documents: list[dict[str, Any]], usage: Usage) -> str:
    """Calls as an action; what JSON cannot hold, or is too long, is asked for and refused as malformed."""
    action: dict[str, Any] = documents[0] if len(documents) == 1 else {"calls": documents}
    try:
        text = to_json({**action, "usage": usage.document()})
    except (ValueError, TypeError, RecursionError):
        text = ""
    if not text or len(text) > MAX_ACTION:
        why = {"refuse": Status.MALFORMED.label, "reason": "the call cannot be read or is too long"}
        broken = [{"name": str(d["name"])[:80] or "?", **why} for d in documents]
        action = broken[0] if len(broken) == 1 else {"calls": broken}
        text = json.dumps({**action, "usage": usage.document()})
    return text


def read_results(info: Mapping[str, Any], count: int) -> list[tuple[str, Status, bool]]:
    """Text, status and whether it was executed, of each of `count` calls; calls that the episode's end cut off have no text."""
    results = [(result["text"], status := _STATUS[result["status"]], status.executed) for result in info["results"]]
    return results + [("", Status.OK, False)] * (count - len(results))


class LlmAgent(Agent):
    """Plays the text view by asking a language model.

    Args:
        model: Says what to do.
        strategy: Makes a search of what it says.
        access: Tool accesses; those that filter tools stand before those that present them.
        name: Its name in results; by default the strategy's name and the accesses' suffixes.
        env_id: The environment that it plays in, whose actions are words.

    >>> from costgym.agents.btp.access import Btp
    >>> agent = LlmAgent(Simulated(), ReAct(), access=[Btp(experience)])  # doctest: +SKIP
    """

    env_id = TEXT

    def __init__(
        self,
        model: LanguageModel,
        strategy: Strategy,
        access: Sequence[ToolAccess] = (),
        name: str | None = None,
        env_id: str = TEXT,
    ) -> None:
        self.env_id = env_id
        self._model, self.handles = wrap_model(model)
        self._strategy, self._access = strategy, tuple(access)
        self.wants_examples = max((part.wants_examples for part in access), default=0)
        self.name = name or "+".join([strategy.name, *[part.suffix for part in access if part.suffix]])
        self.model = model.name
        self.session: LlmSession | None = None
        self._play: Play[None] | None = None
        self._begun = False

    def reset(self, seat: TextSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._model.reset(seed)
        text_is_answer = self._strategy.text_is_answer
        self.session = LlmSession(seat, self._model, self._access, str(observation), info, text_is_answer)
        self.replies = self.session.replies
        self._play = self.session.run(self._strategy)
        self._begun = False

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        assert self._play is not None, "reset comes first"
        try:
            if self._begun:
                return self._play.send(Outcome(str(observation), info))
            self._begun = True
            return next(self._play)
        except StopIteration:
            return encode_action("finish", {"answer": "", "give_up": True})


# tools are the same objects in every episode, so all agents share what counting their tokens took
@lru_cache(maxsize=1024)
def _functions(tools: Same) -> tuple[Function, ...]:
    """Return the documents of the tools on offer."""
    return tuple([_function(Same(card)) for card in tools.value])


@lru_cache(maxsize=16_384)
def _function(card: Same) -> Function:
    return Function.of(card.value)
