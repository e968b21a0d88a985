"""One episode of a language-model agent: asking the model, making its calls, paying for both.

A strategy is a generator that yields environment actions and is sent what each brought. Everything it does goes through
the session, so that every reply is paid for exactly once and no call passes by the tool access.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import gymnasium as gym

from ...envs.actions import FINISH as FINISH_NAME
from ...envs.actions import encode_action
from ...envs.chat import MAX_ACTION
from ...simulators.calls import Usage
from ...simulators.status import Status
from ..models.base import (
    ACT,
    ASSISTANT,
    FINISH,
    PLAN,
    SUMMARISE,
    SYSTEM,
    TOOL,
    USER,
    Function,
    FunctionCall,
    LanguageModel,
    Message,
    Reply,
)
from .prompts import INSTRUCTIONS, NEWS, NUDGE, SUMMARY

if TYPE_CHECKING:
    from ..access.base import ToolAccess

MAX_ANSWER = 16_000
MAX_CALLS = 16


class Outcome(NamedTuple):
    """What an action brought."""

    observation: str
    info: dict[str, Any]


T = TypeVar("T")
Play = Generator[str, Outcome, T]
"""A part of an episode: yields actions, is sent outcomes, returns its own result."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """A call and what came of it.

    Attributes:
        call: as the model wrote it.
        text: what the model reads.
        status: how it ended.
        executed: it reached the tool (and was billed).
    """

    call: FunctionCall
    text: str
    status: Status
    executed: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """How a search ended: with an answer, or without (the agent gives up)."""

    answer: str | None

    @property
    def gave_up(self) -> bool:
        return self.answer is None


@dataclass(slots=True)
class Turn:
    """A reply played out.

    Attributes:
        messages: the reply and the results of its calls, to be added to the history.
        results: of its calls.
        ending: if it ended the search.
        nodes: how many nodes ToolBench's trees make of it: one for a thought, two for a call.
    """

    messages: list[Message]
    results: list[CallResult] = field(default_factory=list)
    ending: SearchResult | None = None
    nodes: int = 1

    @property
    def registered(self) -> bool:
        """Its calls were answered by the tool access, without the world."""
        return bool(self.results) and all(not r.executed and r.status is Status.OK for r in self.results)


class Strategy(Protocol):
    """How replies make a search."""

    @property
    def name(self) -> str: ...

    @property
    def text_is_answer(self) -> bool: ...

    def play(self, session: Session) -> Play[SearchResult]: ...


class Session:
    """An episode under way.

    Args:
        env: a text environment, reset.
        model: the language model.
        access: the tool accesses, in order.
        functions: the candidates' documentation.
        info: what `env.reset` returned.
        text_is_answer: a reply without a call is the final answer.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        model: LanguageModel,
        access: Sequence[ToolAccess],
        functions: Sequence[Function],
        query: str,
        info: dict[str, Any],
        text_is_answer: bool = True,
    ) -> None:
        self.env: Any = env.unwrapped
        self.model, self.access, self.candidates, self.query, self.info = model, access, functions, query, info
        self.text_is_answer = text_is_answer
        self.queries = 0
        self.executed: list[CallResult] = []
        self._owed: Usage | None = None
        self._system = Message(SYSTEM, INSTRUCTIONS)
        self.request = Message(USER, query)
        for part in access:
            part.reset(self)

    # -- the model -------------------------------------------------------------------------------------------------------

    def ask(self, history: Sequence[Message], purpose: str = ACT, functions: Sequence[Function] | None = None) -> Play[Reply]:
        """A reply of the model; it is paid with the next action.

        Args:
            history: the conversation without its system message.
            purpose: what is asked for.
            functions: what may be called; None shows what the tool access allows.
        """
        yield from self.pay()
        if functions is None:
            functions = self.offered() if purpose in (ACT, PLAN) else ()
        answer = self.model.complete([self._instructions(purpose), *history], functions, purpose)
        self.queries += 1
        self._owed = answer.usage
        return answer

    def pay(self) -> Play[None]:
        """Pay for the last reply, if that is still to be done."""
        if self._owed is not None:
            outcome = yield encode_action("think", usage=self._take())
            self.info = outcome.info

    def offered(self) -> list[Function]:
        """What the model may call now."""
        functions: Sequence[Function] = self.candidates
        for part in self.access:
            functions = part.functions(functions)
        return [*functions, FINISH]

    def exhausted(self) -> bool:
        """Nothing is left to call."""
        return any(part.exhausted() for part in self.access)

    def _instructions(self, purpose: str) -> Message:
        if purpose == SUMMARISE:
            return Message(SYSTEM, SUMMARY)
        parts = [INSTRUCTIONS, *[text for part in self.access if (text := part.system())]]
        text = "\n\n".join(parts)
        if text != self._system.content:
            self._system = Message(SYSTEM, text)
        return self._system

    def _take(self) -> Usage:
        usage, self._owed = self._owed, None
        return usage or Usage(0, 0)

    # -- calls -----------------------------------------------------------------------------------------------------------

    def perform(self, said: Reply) -> Play[Turn]:
        """Make the calls of a reply, side by side where there are several, each past the tool access."""
        message = said.message
        turn = Turn([message], nodes=(1 if message.content else 0) + 2 * len(message.calls))
        if not message.calls:
            text = message.content.strip()
            if text and self.text_is_answer:
                turn.ending = SearchResult(text[:MAX_ANSWER])
            else:
                turn.nodes = 1
                turn.messages.append(Message(USER, NUDGE))
            return turn
        written = [call if isinstance(call.name, str) else call._replace(name=str(call.name)) for call in message.calls]
        for call in written:
            if call.name == FINISH_NAME:
                ending, problem = _read_finish(call)
                if ending is None:
                    turn.messages.append(_result_message(call, problem))
                turn.ending = ending
                return turn
        documents: list[dict[str, Any]] = []
        asked: list[FunctionCall] = []
        for call in written[:MAX_CALLS]:
            answer = self._handle(call)
            if answer is not None:
                turn.results.append(CallResult(call, answer, Status.OK, False))
                turn.messages.append(_result_message(call, answer))
            else:
                asked.append(call)
                documents.append(self._document(call))
        if documents:
            outcome = yield _write(documents, self._take())
            self.info = outcome.info
            labels = [label for label in str(outcome.info.get("statuses", "")).split(",") if label]
            texts, news = _split(outcome.observation, len(asked))
            for index, call in enumerate(asked):
                status = Status[labels[index].upper()] if index < len(labels) else Status.OK
                result = CallResult(call, texts[index], status, index < len(labels) and status.executed)
                turn.results.append(result)
                turn.messages.append(_result_message(call, texts[index]))
                if result.executed:
                    self.executed.append(result)
                for part in self.access:
                    part.result(result)
            if news:
                turn.messages.append(Message(USER, NEWS + "; ".join(news)))
        return turn

    def _handle(self, call: FunctionCall) -> str | None:
        for part in self.access:
            answer = part.handle(call)
            if answer is not None:
                return answer
        return None

    def _document(self, call: FunctionCall) -> dict[str, Any]:
        document: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
        for part in self.access:
            refusal = part.refuse(call)
            if refusal is not None:
                document["refuse"], document["reason"] = refusal.status.label, refusal.reason
                return document
        for part in self.access:
            part.admit(call)
        return document

    @property
    def summarises(self) -> bool:
        """Some access has the final answer written anew from all executed calls."""
        return any(part.summarise for part in self.access)

    def summarise(self, history: Sequence[Message]) -> Play[SearchResult]:
        """The final answer, written from the results in a history; without one, a reply that says nothing."""
        said = yield from self.ask(history, SUMMARISE)
        text = _answer_in(said.message)
        return SearchResult(text[:MAX_ANSWER]) if text else SearchResult(None)

    # -- the whole episode -----------------------------------------------------------------------------------------------

    def run(self, strategy: Strategy) -> Play[None]:
        """Search, summarise where the access wants that, finish."""
        ending = yield from strategy.play(self)
        if self.summarises:
            history = [self.request]
            for result in self.executed:
                history.append(Message(ASSISTANT, "", (result.call,)))
                history.append(_result_message(result.call, result.text))
            summary = yield from self.summarise(history)
            if not summary.gave_up:
                ending = summary
        arguments = {"answer": "", "give_up": True} if ending.answer is None else {"answer": ending.answer}
        self.info = (yield encode_action(FINISH_NAME, arguments, usage=self._take())).info


def _answer_in(message: Message) -> str:
    """The answer that a message holds: its text, or what it would finish with."""
    if message.content.strip():
        return message.content
    for call in message.calls:
        if call.name == FINISH_NAME:
            ending, _ = _read_finish(call)
            if ending is not None and ending.answer:
                return ending.answer
    return ""


def _read_finish(call: FunctionCall) -> tuple[SearchResult | None, str]:
    arguments = call.read()
    if arguments is None:
        return None, json.dumps({"error": "invalid_arguments", "message": "finish takes a JSON object with answer or give_up"})
    if arguments.get("give_up") is True:
        return SearchResult(None), ""
    answer = arguments.get("answer")
    if answer is None:
        return None, json.dumps({"error": "invalid_arguments", "message": "finish: answer is missing"})
    return SearchResult((answer if isinstance(answer, str) else json.dumps(answer, default=str))[:MAX_ANSWER]), ""


def _result_message(call: FunctionCall, text: str) -> Message:
    return Message(TOOL, text, name=str(call.name), call_id=call.id)


def _write(documents: list[dict[str, Any]], usage: Usage) -> str:
    """Calls as an action; what JSON cannot hold, or is too long, is asked for and refused as malformed."""
    action: dict[str, Any] = documents[0] if len(documents) == 1 else {"calls": documents}
    try:
        text = json.dumps({**action, "usage": usage._asdict()}, default=str)
    except (ValueError, TypeError, RecursionError):
        text = ""
    if not text or len(text) > MAX_ACTION:
        why = {"refuse": Status.MALFORMED.label, "reason": "the call cannot be read or is too long"}
        broken = [{"name": str(d["name"])[:80] or "?", **why} for d in documents]
        action = broken[0] if len(broken) == 1 else {"calls": broken}
        text = json.dumps({**action, "usage": usage._asdict()})
    return text


def _split(observation: str, count: int) -> tuple[list[str], list[str]]:
    """The results of `count` calls out of one observation, and the news beside them."""
    if observation.startswith('{"results": ['):
        try:
            document = json.loads(observation)
        except ValueError:
            document = None
        results = document.get("results") if isinstance(document, dict) else None
        if isinstance(results, list) and len(results) == count and all(isinstance(r, dict) and "content" in r for r in results):
            news = document.get("news") or []
            return [str(r["content"]) for r in results], [str(n) for n in news]
    # cut short by the environment: the first result holds what came through
    return [observation] + [""] * (count - 1), []
