"""The process of an agent: it is handed seats and observations over a pipe, and answers with actions.

There is no world here. Models that stand on the world's side are asked over the same pipe.
"""

import io
import os
import pickle
import sys
from collections.abc import Sequence
from typing import IO, Any

from costgym.agents import world_side
from costgym.agents.btp.experience import Experience
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.models.base import ACT
from costgym.agents.models.simulated import SIMULATED
from costgym.agents.registry import make_agent
from costgym.experiments.board.reruns.wire import encoded, message_document, receive, send


class Remote:
    """A model at the other end of the pipe."""

    def __init__(self, name: str, number: int, inbox: IO[bytes], outbox: IO[bytes]) -> None:
        self.name, self._number, self._inbox, self._outbox = name, number, inbox, outbox

    def begin(self, world: Any, seed: int) -> None:
        """Nothing to do here: the world's side tells the model."""

    def reset(self, seed: int) -> None:
        """Nothing to do here, either."""

    def complete(self, messages: Sequence[Any], functions: Sequence[Any], purpose: str = ACT) -> Any:
        offered = [{"name": f.name, "description": f.description, "parameters": dict(f.parameters)} for f in functions]
        return self._ask("complete", [[message_document(m) for m in messages], offered, purpose])

    def search(self, query: str) -> Any:
        """A decider's first decision."""
        return self._ask("search", [query])

    def choose(self, query: str, candidates: Sequence[Any]) -> Any:
        """A decider's second decision."""
        return self._ask("choose", [query, [tool.name for tool in candidates]])

    def _ask(self, what: str, arguments: list[Any]) -> Any:
        send(self._outbox, encoded({"ask": what, "handle": self._number, "arguments": arguments}))
        return pickle.loads(receive(self._inbox))


class _Defined(pickle.Unpickler):
    """Reads what the world's side wrote, with the objects that it sent before."""

    def __init__(self, frame: IO[bytes], defined: dict[int, Any]) -> None:
        super().__init__(frame)
        self._defined = defined

    def persistent_load(self, number: int) -> Any:
        return self._defined[number]


def main() -> None:
    """Serve an agent until the other side closes the pipe."""
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the agent prints is no frame
    try:
        name, env_id, experience, search, btp, model = pickle.loads(receive(inbox))
        agent = make_agent(
            name,
            env_id,
            model=SIMULATED if model is None else Remote(model, 0, inbox, outbox),
            experience=None if experience is None else Experience.from_jsonl(experience),
            search=SearchSettings.chosen(search, name.partition("+")[0]),
            btp=BtpSettings(**btp) if btp else None,
        )
        for number, handle in enumerate(agent.handles, 0 if model is None else 1):
            world_side.replace(handle, Remote(handle.name, number, inbox, outbox))
        send(outbox, encoded({"ready": agent.name, "model": agent.model, "wants_examples": agent.wants_examples}))
    except Exception as error:
        send(outbox, encoded({"error": _words(error)}))
        sys.exit(1)
    defined: dict[int, Any] = {}
    crash = ""  # what the agent raised in this episode; the other side hears of it when it asks for an action
    while True:
        try:
            kind, *rest = _Defined(io.BytesIO(receive(inbox)), defined).load()
        except EOFError:
            return
        if kind == "define":
            defined[rest[0]] = rest[1]
            continue
        try:
            if kind == "reset":
                crash = ""
                agent.reset(*rest)
            elif kind == "observe" and not crash:
                agent.observe(*rest)
            elif kind == "act" and not crash:
                action = agent.act(*rest)
                send(outbox, encoded({"action": action if isinstance(action, str) else int(action)}))
        except EOFError:
            return
        except Exception as error:
            crash = _words(error)
        if kind == "act" and crash:
            send(outbox, encoded({"error": crash}))


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except Exception:  # the agent's code wrote the exception's __str__ too
        return type(error).__name__


if __name__ == "__main__":
    main()
