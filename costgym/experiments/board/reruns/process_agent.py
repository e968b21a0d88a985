"""An agent that plays in a process of its own, without a network and without a world."""

import contextlib
import io
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from costgym.agents.base import Agent
from costgym.agents.custom import is_custom
from costgym.agents.models.base import REQUESTS, Function, LanguageModel, Message, PromptWriter, Reply, reports_cache
from costgym.agents.models.simulated import SIMULATED, is_simulated
from costgym.agents.registry import make_agent, make_model
from costgym.agents.world_side import LanguageModelHandle, ModelHandle, model_of
from costgym.envs.actions import FINISH, MAX_SECONDS, MAX_TOKENS_REPORTED, read_usage
from costgym.experiments.board.reruns.requests import answers, read_request
from costgym.experiments.board.reruns.sandbox import BUBBLEWRAP, NONE, Place, confined
from costgym.experiments.board.reruns.wire import MAX_ANSWER_BYTES, Patience, receive, send
from costgym.experiments.board.tracks import track_of
from costgym.experiments.play.trajectories.format import URL
from costgym.experiments.play.trajectories.record import AgentCrash
from costgym.simulators.calls import Prompt, Usage
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.pricing.prompt_cache import ModelPrices


class Meter:
    """The tokens and the time of the replies that an agent's models gave in an episode, less what its actions have paid for.

    An action pays for all that was used, and for more if it reports more, which counts for later ones. How much of a prompt
    came from a cache or went into it, how much of a reply was thought and how long it took is known here alone: what an action
    says of these is dropped. `prices` are those of the world's tokens: where these say what is cached, the world is told the
    prompts of the requests; of several that one action pays for it is told none, so that they are billed as new."""

    def __init__(self, prices: ModelPrices | None = None) -> None:
        self._prompts = None if prices is None or prices.cache is None else PromptWriter(prices.cache)
        self._prompt: Prompt | None = None
        self._unpaid = 0  # requests that no action has paid for
        self.requests = self._read = self._written = self._cached = self._stored = self._thought = 0
        self._seconds: float | None = None

    def add(self, reply: Reply, messages: Sequence[Message] = (), functions: Sequence[Function] = ()) -> None:
        """Count a reply to a request."""
        self.requests += 1
        self._unpaid += 1
        if self._prompts is not None:
            if self._unpaid > 1:  # the world was not told of the prompt before this one
                self._prompts.forget()
            self._prompt = self._prompts.write(messages, functions)
        self._read += reply.usage.input_tokens
        self._written += reply.usage.output_tokens
        self._cached += reply.usage.cached_tokens
        self._stored += reply.usage.cache_write_tokens
        self._thought += reply.usage.reasoning_tokens
        if reply.usage.seconds is not None:
            self._seconds = (self._seconds or 0.0) + reply.usage.seconds

    def charge(self, action: Any) -> Any:
        """An agent's action with the tokens that it has to pay for; one that says exactly that, or nothing, stays as it is."""
        if not isinstance(action, str):
            return action
        try:
            document = {"name": FINISH} if action.strip() == FINISH else json.loads(action)
        except (ValueError, RecursionError):
            return action  # it calls nothing and answers nothing, and the next action owes the tokens
        if not isinstance(document, dict):
            return action
        reported = read_usage(document.get("usage"))
        if not self.requests and reported is None:
            return action  # nothing was used here, and the environment counts what was shown and written
        paid = self._paid(reported or Usage(0, 0))
        return action if paid == reported else json.dumps({**document, "usage": paid.document()})

    def _paid(self, reported: Usage) -> Usage:
        owed = (min(MAX_TOKENS_REPORTED, max(0, tokens)) for tokens in (self._read, self._written))
        read, written = map(max, owed, (reported.input_tokens, reported.output_tokens))
        seconds = None if self._seconds is None else min(MAX_SECONDS, self._seconds)
        cached = min(self._cached, read)
        prompt = self._prompt if self._unpaid == 1 else None
        if self._prompts is not None and prompt is None:
            self._prompts.forget()
        paid = Usage(read, written, cached, seconds, min(self._stored, read - cached), min(self._thought, written), prompt)
        self._prompt, self._unpaid = None, 0
        self._read -= read
        self._written -= written
        self._cached, self._stored, self._thought, self._seconds = 0, 0, 0, None
        return paid


class Limits:
    """What an entry may take of its judge, over all of its episodes; what goes beyond is the agent's crash.

    Args:
        minutes: for all of its episodes.
        outages: how many episodes may be put back, because the judge's own requests to its model failed too.
        size: bytes of its record.
    """

    def __init__(self, minutes: float = math.inf, outages: int = 1_000_000, size: int = 4 * 2**30) -> None:
        self.minutes, self.outages, self.size = minutes, outages, size
        self.begun = False  # an agent of the entry has been made, so that what fails from now on is its failure
        self._deadline = time.monotonic() + 60.0 * minutes

    @property
    def seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    @property
    def exceeded(self) -> str:
        """Which is used up; "" where none is."""
        if self.size < 0:
            return "its episodes before fill all that a record may hold"
        return f"its entry was not judged within {self.minutes:g} minutes" if self.seconds_left <= 0 else ""


LONG = 100
MAX_EXAMPLES = 10_000
STARTS = 10  # times that the process of an agent is started; each is lost at the latest after `REPLY_S`
REPLY_S = 120.0  # seconds in which an agent must have read what it was sent, and have sent each of its answers whole
MAX_QUESTIONS = 10_000  # to its models in an episode, which take the judge's time; ours ask some hundred
_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "OMP_NUM_THREADS", "VIRTUAL_ENV")  # that the agent may see: no keys


class ProcessAgent(Agent):
    """Plays as the agent of that name does, which lives in another process. Close it after use. An exception of the agent's, or
    a process that ends or stays silent, is an `AgentCrash` in that episode; a lost process is started again at the next reset,
    `STARTS` times in all. A file `FILE.py:CLASS` is read in the other process alone, in the folder `code`; the run's language
    model answers on this side, whatever it is. Raises DataError if the agent cannot be made."""

    brokered = True

    def __init__(
        self,
        name: str,
        env_id: str,
        code: Path | None = None,
        experience: str | None = None,
        search: dict[str, Any] | None = None,
        btp: dict[str, Any] | None = None,
        sandbox: str = NONE,
        model: str = SIMULATED,
        limits: Limits | None = None,
    ) -> None:
        self.env_id, self.limits = env_id, limits or Limits()
        real = None if is_simulated(model) or is_custom(name) else make_model(model)
        models = self._models_of(name, env_id, model, real)
        self.handles = models if real is None else (LanguageModelHandle(real), *models)
        self._starts = self._questions = 0
        self._folder = tempfile.TemporaryDirectory(prefix="costgym-agent-")
        self._command = [sys.executable, "-m", "costgym.experiments.board.reruns.agent_process"]
        self._environment = {key: os.environ[key] for key in _KEPT if key in os.environ} | {"HOME": self._folder.name}
        # not where this file lies: in a checkout named costgym, its parents hold a costgym without a package's beginning
        package = str(Path(str(sys.modules[__name__.partition(".")[0]].__file__)).resolve().parents[1])
        self._environment["PYTHONPATH"] = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._code, self._sandbox = code, sandbox
        self._setup = name, env_id, experience, search or {}, btp or {}, None if real is None else real.name
        self._counts: dict[str, int] = {}
        self._meter = Meter()
        try:
            about = self._start()
        except AgentCrash as error:
            self.close()
            raise DataError("agent's process", str(error)) from error
        self.name, self.model = str(about.get("ready", name)), str(about.get("model", ""))
        wanted = about.get("wants_examples", 0)
        self.wants_examples = min(wanted, MAX_EXAMPLES) if isinstance(wanted, int) else 0

    @staticmethod
    def _models_of(name: str, env_id: str, model: str, real: LanguageModel | None) -> tuple[ModelHandle, ...]:
        """The models that stay on this side; files of others are not opened here."""
        if not is_custom(name):
            return make_agent(name, env_id, model=real or SIMULATED).handles
        # simulated, it reads tool worlds
        return () if track_of(env_id) == "plans" else (LanguageModelHandle(make_model(model)),)

    def _start(self) -> dict[str, Any]:
        """Start the process; returns what the agent says of itself."""
        self._check_limits()
        if self._starts == STARTS:
            raise AgentCrash(f"its process was lost {STARTS} times and is not started again")
        self._starts += 1
        self._sent: dict[int, Any] = {}
        home = Path(self._folder.name)
        paths = Place(home, self._code)
        inside = confined(self._command, paths) if self._sandbox == BUBBLEWRAP else contextlib.nullcontext((self._command, ()))
        with inside as (whole, handles):
            self._process = subprocess.Popen(
                whole,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=home if self._code is None else self._code,
                env=self._environment,
                pass_fds=handles,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._out: IO[bytes] = self._process.stdin
        os.set_blocking(self._out.fileno(), False)
        self._in: IO[bytes] = self._process.stdout
        self._lost, self._played = True, False
        self._say(self._setup)
        about = self._hear()
        self._lost = False
        return about

    def _check_limits(self) -> None:
        if exceeded := self.limits.exceeded:
            raise AgentCrash(exceeded)

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._check_limits()
        if self._lost:
            self._end()
            self._start()
        served = any(reports_cache(model_of(handle)) for handle in self.handles)
        prices = None if served else getattr(seat, "token_pricing", None)
        self._questions, self._meter, self._counts, self._played = 0, Meter(prices), {}, True
        self._say(("reset", seat, observation, info, seed))

    def renew(self) -> None:
        """Let the next episode begin in another process, where nothing is remembered; one that has played nothing stays."""
        if not self._lost and self._played:
            self._lost = True
            self._starts -= 1

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        self._say(("act", observation, info))
        while True:
            heard = self._hear()
            if "action" in heard and isinstance(heard["action"], str | int):
                return self._meter.charge(heard["action"])
            try:
                answer = self._answer(heard)
            except (AgentCrash, InfrastructureError) as error:
                self._lost = True  # it waits for an answer that it will not get
                self._starts -= isinstance(error, InfrastructureError)  # that is not its fault
                raise
            self._say(answer)

    @property
    def replies(self) -> dict[str, int]:  # type: ignore[override]
        """Counts of the replies that models on this side gave in this episode; for an agent's own code also how many."""
        return {**self._counts, **({REQUESTS: self._meter.requests} if is_custom(self.name) else {})}

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self._say(("observe", observation, reward, terminated, truncated, info))

    def close(self) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._out.close()
        self._process.kill()
        self._process.wait()
        self._in.close()

    def __enter__(self) -> "ProcessAgent":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _say(self, content: Any) -> None:
        try:
            frame, pipe = io.BytesIO(), Patience(self._out, REPLY_S)
            _OnceEach(frame, self._sent, pipe).dump(content)
            send(pipe, frame.getvalue())
        except TimeoutError as error:
            self._lost = True
            raise AgentCrash(f"its process did not read what it was sent within {REPLY_S:g} s") from error
        except OSError as error:
            self._lost = True
            raise AgentCrash("its process has ended") from error

    def _hear(self) -> dict[str, Any]:
        lost, self._lost = self._lost, True
        try:
            pipe = Patience(self._in, min(REPLY_S, self.limits.seconds_left))
            document = json.loads(receive(pipe, MAX_ANSWER_BYTES).decode("utf-8", "surrogatepass"))
        except TimeoutError as error:
            self._check_limits()
            raise AgentCrash(f"its process did not send a complete answer within {REPLY_S:g} s") from error
        except (EOFError, ValueError, OSError, RecursionError) as error:
            raise AgentCrash(f"its process has ended or sent an invalid answer ({error})") from error
        if not isinstance(document, dict):
            raise AgentCrash("its process sent something other than a JSON object")
        self._lost = lost
        if "error" in document:
            raise AgentCrash(str(document["error"])[:500])
        return document

    def _answer(self, heard: dict[str, Any]) -> Any:
        """Answer a question of the agent with the model on this side."""
        what, number, arguments = heard.get("ask"), heard.get("handle"), heard.get("arguments")
        self._questions += 1
        if self._questions > MAX_QUESTIONS:
            raise AgentCrash(f"its process asked its models more than {MAX_QUESTIONS:,} questions in an episode")
        if not isinstance(number, int) or not 0 <= number < len(self.handles) or not isinstance(arguments, list):
            raise AgentCrash(f"its process sent neither an action nor a question to one of its models: {heard!r:.200}")
        model = model_of(self.handles[number])
        try:
            if what == "complete":
                request = read_request(arguments)
                reply: Reply = self._complete(model, request)
                self._meter.add(reply, request[0], request[1])
                reply.count_in(self._counts)
                return reply
            if what == "search":
                return bool(model.search(str(arguments[0])))
            if what == "choose":
                query, names = arguments
                return model.choose(str(query), [SimpleNamespace(name=str(name)) for name in names])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise AgentCrash(f"its process asked what no model can answer ({type(error).__name__}: {error})") from error
        raise AgentCrash(f"its process asked for {what!r:.80}")

    def _complete(self, model: Any, request: Any) -> Reply:
        """A model's reply. Where the model fails, but answers a request of the judge's own, it was the request that it failed
        on, and so the agent; else the back-end is broken, and the episode is played again."""
        try:
            reply: Reply = model.complete(*request)
        except (InfrastructureError, ConfigError) as error:
            if answers(model):
                refusal = URL.sub("", str(error))  # results name no server
                raise AgentCrash(f"its request broke a model that answers others ({refusal})") from error
            if self.limits.outages <= 0:
                raise AgentCrash("the judge's model failed in more of its episodes than may be put back") from error
            raise
        return reply


class _OnceEach(pickle.Pickler):
    """Pickles for the pipe; a long tuple, such as past decisions, or a table of known scores is sent once and named then."""

    def __init__(self, frame: IO[bytes], sent: dict[int, Any], pipe: Patience) -> None:
        super().__init__(frame)
        self._sent, self._pipe = sent, pipe

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Evaluator) and (type(value) is not tuple or len(value) < LONG):
            return None
        if id(value) not in self._sent:
            self._sent[id(value)] = value  # kept, so that no other object takes its number
            send(self._pipe, pickle.dumps(("define", id(value), value)))
        return id(value)
