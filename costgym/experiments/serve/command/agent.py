"""An agent that is a command: it asks the run's model and calls tools over HTTP, and is played like any other agent."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from costgym.agents.base import TEXT, Agent
from costgym.agents.llm.session import encode_calls, read_finish, read_results
from costgym.agents.models.base import (
    ASSISTANT,
    FINISH,
    REQUESTS,
    Function,
    FunctionCall,
    LanguageModel,
    Message,
    PromptWriter,
    Reply,
)
from costgym.agents.models.openai import SETTING_ADVICE
from costgym.agents.prompts import NEWS
from costgym.agents.seat import TextSeat
from costgym.agents.world_side import wrap_model
from costgym.envs.actions import FINISH as FINISH_NAME
from costgym.envs.actions import MAX_CALLS, encode_action
from costgym.experiments.play.trajectories.format import URL
from costgym.experiments.play.trajectories.record import AgentCrash
from costgym.experiments.serve.command.desk import Desk, Exit, ModelRequest, ToolAnswer, ToolRequest
from costgym.experiments.serve.command.endpoint import endpoint
from costgym.experiments.serve.command.process import CommandProcess
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError, CostGymError

MAX_ANSWER = 16_000
TIME_LIMIT_S = 300.0
GATHER_S = 1.0  # wall seconds in which calls of one reply may arrive, to be made side by side
GRACE_S = 2.0  # wall seconds that a command has for itself after its episode
_REFUSED_REQUEST = re.compile(r"HTTP (400|413|422)\b")
_GAVE_UP = "I cannot solve this."


@dataclass(frozen=True)
class Command:
    """A command as an agent of a run.

    Calling it with a model makes the agent, as a run wants it of those that it does not know by name.
    """

    name: str  # of the agent
    words: tuple[str, ...]
    isolation: str  # `bubblewrap` or `none`
    time_limit_s: float = TIME_LIMIT_S

    def __call__(self, model: LanguageModel) -> "CommandAgent":
        return CommandAgent(self, model)


class CommandAgent(Agent):
    """Plays what its command asks for. Model requests and calls are answered in the order of their arrival; calls of one reply
    that arrive together are made side by side, as an agent of ours makes them."""

    env_id = TEXT
    brokered = True

    def __init__(self, command: Command, model: LanguageModel) -> None:
        self.name, self._command = command.name, command
        self._model, self.handles = wrap_model(model)
        self.model = model.name
        self._process: CommandProcess | None = None
        self._desk = Desk()
        self._token = ""

    # -- an episode ------------------------------------------------------------------------------------------------------

    def reset(self, seat: TextSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.close()
        self._model.reset(seed)
        self._desk = Desk()
        self._desk.functions = [*map(Function.of, seat.tools), *map(Function.of, seat.more), FINISH]
        self._desk.prices = info["quotes"]
        self._taken: list[ModelRequest | ToolRequest | Exit] = []  # to be played before what waits at the desk
        self._called: list[ToolRequest] = []  # the calls of the last action
        self._expected: list[FunctionCall] = []  # calls of the last reply that have not arrived
        self._one_by_one = False
        self._owed: Usage | None = None
        prices = seat.token_pricing
        served = self.model.startswith("openai:")  # by a server, which counts what it reads from its cache
        self._prompts = None if prices is None or prices.cache is None or served else PromptWriter(prices.cache)
        self._crash = ""
        self._counts: dict[str, int] = {}
        self._info = info
        server = endpoint()
        self._token = server.open(self._desk)
        self._deadline = time.monotonic() + self._command.time_limit_s
        variables = server.variables(self._token) | {
            "COSTGYM_TASK": seat.query.replace("\0", ""),
            "COSTGYM_BUDGET": json.dumps(dict(seat.budget)),
        }
        where = server.socket_path, server.port
        try:
            self._process = CommandProcess(self._command.words, variables, self._command.isolation, *where, self._desk.exited)
        except OSError as error:
            self._crash = f"the command cannot be started: {error.strerror}"

    @property
    def replies(self) -> Mapping[str, int]:  # type: ignore[override]
        return self._counts

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        try:
            return self._next_action()
        except BaseException as error:
            if not isinstance(error, AgentCrash) and isinstance(error, CostGymError):
                self._desk.end("the model's server failed")
            self.close()
            raise

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self._info = info
        self._desk.functions[-1:-1] = map(Function.of, info.get("found", ()))
        self._desk.prices = info["quotes"]
        called, self._called = self._called, []
        over = terminated or truncated
        news = info["news"]
        for request, (text, status, executed) in zip(called, read_results(info, len(called)), strict=True):
            shown = f"{text}\n\n{NEWS}{'; '.join(news)}" if news else text
            request.answer.set_result(ToolAnswer(shown, bool(status), self._figures(info, status.label, executed)))
        if over:
            self._desk.end("the episode has ended")
            if self._process is not None:
                self._process.wait(GRACE_S)
            self.close()

    def close(self) -> None:
        """End the command of the last episode."""
        self._desk.end("the episode has ended")
        if self._token:
            endpoint().close(self._token)
            self._token = ""
        if self._process is not None:
            self._process.close()
            self._process = None

    # -- what is played --------------------------------------------------------------------------------------------------

    def _next_action(self) -> str:
        while True:
            if self._crash:
                if self._owed is not None:  # what the model has answered is paid for, whatever comes of it
                    return encode_action("think", usage=self._take_owed())
                raise AgentCrash(self._crash)
            request = self._taken.pop(0) if self._taken else self._desk.take(self._deadline)
            if request is None:
                self._crash = f"the command did not end within {self._command.time_limit_s:g} s"
            elif isinstance(request, Exit):
                if (action := self._after_exit(request.status)) is not None:
                    return action
            elif isinstance(request, ModelRequest):
                if self._owed is not None:
                    self._taken.insert(0, request)
                    return encode_action("think", usage=self._take_owed())
                self._answer(request)
            elif (action := self._call(request)) is not None:
                return action

    def _after_exit(self, status: int) -> str | None:
        """The final answer of a command that has ended well: the last line that it wrote."""
        assert self._process is not None
        if status != 0:
            detail = f": {self._process.last_error}" if self._process.last_error else ""
            signal = -status if status < 0 else status - 128
            how = f"was killed by signal {signal}" if 0 < signal < 65 else f"ended with exit status {status}"
            self._crash = f"the command {how}{detail}"
            return None
        answer = self._process.last_line[:MAX_ANSWER]
        arguments = {"answer": answer} if answer else {"answer": "", "give_up": True}
        return encode_action(FINISH_NAME, arguments, usage=self._take_owed())

    def _answer(self, request: ModelRequest) -> None:
        """Ask the model; its reply is paid for by the next action."""
        ask = request.ask
        if hasattr(self._model, "options"):  # a model behind a server
            self._model.options = ask.options
        try:
            reply = self._model.complete(ask.messages, ask.functions)
        except ConfigError as error:
            request.answer.set_exception(error)
            # a refusal that names no setting of ours is that of the command's own request
            if _REFUSED_REQUEST.search(str(error)) and not SETTING_ADVICE.search(str(error)):
                self._crash = f"the model's server refused its request: {URL.sub('', str(error))[:300]}"
                return
            raise
        except BaseException as error:
            request.answer.set_exception(error)
            raise
        number = self._counts.get(REQUESTS, 0)
        self._counts[REQUESTS] = number + 1
        reply.count_in(self._counts)
        self._owed = reply.usage
        if self._prompts is not None:
            self._owed = reply.usage._replace(prompt=self._prompts.write(ask.messages, ask.functions))
        reply = _as_offered(reply, ask.functions, number)
        self._expected = list(reply.message.calls)
        request.answer.set_result(reply)

    def _call(self, request: ToolRequest) -> str | None:
        """The action that makes a call, and those that belong to it; None where it is answered without one."""
        if request.name == FINISH_NAME:
            ending, problem = read_finish(FunctionCall(FINISH_NAME, dict(request.arguments)))
            if ending is None:
                request.answer.set_result(ToolAnswer(problem, True))
                return None
            request.answer.set_result(ToolAnswer("The answer is in. The episode has ended."))
            arguments = {"answer": "", "give_up": True} if ending.answer is None else {"answer": ending.answer}
            return encode_action(FINISH_NAME, arguments, usage=self._take_owed())
        self._called = self._gather(request)
        documents = [{"name": call.name, "arguments": dict(call.arguments)} for call in self._called]
        return encode_calls(documents, self._take_owed())

    def _gather(self, first: ToolRequest) -> list[ToolRequest]:
        """The calls that are made together: those of the same reply that arrive within a moment, in the reply's order."""
        expected = [call for call in self._expected if call.name != FINISH_NAME][:MAX_CALLS]
        arrived: dict[int, ToolRequest] = {}

        def belongs(request: ToolRequest) -> bool:
            for index, call in enumerate(expected):
                same = call.name == request.name and (call.read() or {}) == dict(request.arguments)
                if same and index not in arrived:
                    arrived[index] = request
                    return True
            return False

        if not belongs(first):
            return [first]
        until = min(self._deadline, time.monotonic() + GATHER_S)
        while len(arrived) < len(expected) and not self._one_by_one:
            request = self._desk.take(until)
            if request is None:
                self._one_by_one = True  # it waits for this call's answer before it makes the next
            elif not isinstance(request, ToolRequest) or not belongs(request):
                self._taken.append(request)
                break
        self._expected = [call for index, call in enumerate(expected) if index not in arrived]
        return [arrived[index] for index in sorted(arrived)]

    def _take_owed(self) -> Usage:
        usage, self._owed = self._owed, None
        return usage or Usage(0, 0)

    @staticmethod
    def _figures(info: Mapping[str, Any], status: str, executed: bool) -> dict[str, Any]:
        left = {name: float(info[name]) for name in info if name.startswith("budget_remaining_")}
        return {"status": status, "executed": executed, **{name: value for name, value in left.items() if isfinite(value)}}


def _as_offered(reply: Reply, functions: Sequence[Function], number: int) -> Reply:
    """A reply whose calls have ids; a call of `finish` is a text where that function was not on offer."""
    message = reply.message
    calls = [call if call.id else call._replace(id=f"call_{number}_{index}") for index, call in enumerate(message.calls)]
    content = message.content
    if calls and not any(function.name == FINISH_NAME for function in functions):
        endings = [read_finish(call)[0] for call in calls if call.name == FINISH_NAME]
        if endings:
            calls = [call for call in calls if call.name != FINISH_NAME]
            content = next((ending.answer for ending in endings if ending is not None and ending.answer), _GAVE_UP)
    return reply._replace(message=Message(ASSISTANT, content, tuple(calls), extra=message.extra))
