"""Replies that were paid for once are kept on disk; they are charged in full all the same, so figures do not change."""

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costgym.agents.models.base import ACT, ASSISTANT, Function, FunctionCall, LanguageModel, Message, Reply
from costgym.simulators.calls import Usage
from costgym.simulators.errors import DataError, InfrastructureError
from costgym.simulators.files import decode_json

_BROKEN = (sqlite3.Error, UnicodeDecodeError)  # what SQLite says of a file that is no database of its own


class Cached:
    """A model with a memory on disk, an SQLite file that several processes may share.

    A request is the same if the model, the episode's seed, the context, the functions and the purpose are, and it is the
    n-th such request of its episode: a model that samples may answer its repetition otherwise. `identity` tells the model apart
    from others of its name, by its server and its settings. With `keeps_failures` the server's failures are kept too: an
    episode that a later process begins again meets them again, so it is tried as often as without the interruption.
    """

    def __init__(self, model: LanguageModel, path: str | Path, identity: str = "", keeps_failures: bool = False) -> None:
        self.model, self.name, self.path = model, model.name, Path(path)
        self._identity, self._seed, self._keeps_failures = identity, 0, keeps_failures
        self._counts: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
            self._store.execute("CREATE TABLE IF NOT EXISTS replies (request TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        except (*_BROKEN, OSError) as error:
            raise DataError(path, f"is not a reply cache: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same file itself."""
        return type(self), (self.model, self.path, self._identity, self._keeps_failures)

    @property
    def options(self) -> Mapping[str, Any]:
        """Further fields of the next requests; they are a part of what makes two requests the same."""
        return getattr(self.model, "options", {})

    @options.setter
    def options(self, options: Mapping[str, Any]) -> None:
        if hasattr(self.model, "options"):
            self.model.options = options

    def reset(self, seed: int) -> None:
        self._seed = seed
        self._counts.clear()
        self.model.reset(seed)

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        key = self._key(messages, functions, purpose)
        failure = f"{key} failed {self._failed[key]}"
        if self._keeps_failures and (problem := self._find(failure)) is not None:
            self._failed[key] += 1
            raise InfrastructureError(problem)
        if (reply := self._find(key)) is not None:
            return _read(reply, self.path)
        try:
            completion = self.model.complete(messages, functions, purpose)
        except InfrastructureError as error:
            if self._keeps_failures:
                self._failed[key] += 1
                self._keep(failure, str(error))
            raise
        self._keep(key, _write(completion))
        return completion

    def _find(self, request: str) -> str | None:
        try:
            row = self._store.execute("SELECT reply FROM replies WHERE request = ?", (request,)).fetchone()
        except _BROKEN as error:
            raise DataError(self.path, f"cannot be read as a reply cache: {error}; delete it, or name another") from error
        return None if row is None else str(row[0])

    def _keep(self, request: str, text: str) -> None:
        try:
            self._store.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (request, text))
        except _BROKEN as error:
            remedy = "make room there, or name another cache, and run the same command again"
            raise DataError(self.path, f"a reply cannot be kept: {error}; {remedy}") from error

    def _key(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str) -> str:
        conversation = [
            [m.role, m.content, [_call(call) for call in m.calls], m.name, m.call_id, *([m.extra] if m.extra else [])]
            for m in messages
        ]
        documents = [function.document() for function in functions]
        more = [dict(self.options)] if self.options else []
        request = [self.name, self._identity, self._seed, purpose, conversation, documents, *more]
        digest = hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()
        self._counts[digest] += 1
        return f"{digest}:{self._counts[digest]}"


def _call(call: FunctionCall) -> list[Any]:
    return [call.name, call.arguments, call.id, *([call.extra] if call.extra else [])]


def _write(reply: Reply) -> str:
    message = reply.message
    document = {"content": message.content, "calls": [_call(call) for call in message.calls], "usage": reply.usage.document()}
    more = {"extra": message.extra, "outcome": reply.outcome, "form": reply.form, "notes": reply.notes}
    return json.dumps(document | {name: value for name, value in more.items() if value}, default=str)


def _read(text: str, path: Path) -> Reply:
    try:
        document = decode_json(text)
        calls = tuple(
            FunctionCall(str(name), arguments, str(number), *more) for name, arguments, number, *more in document["calls"]
        )
        usage = document["usage"]
        counts: dict[str, Any] = {name: int(value) for name, value in usage.items() if name != "seconds"}
        message = Message(ASSISTANT, str(document["content"]), calls, extra=document.get("extra"))
        about = str(document.get("outcome", "")), str(document.get("form", ""))
        notes = tuple(str(note) for note in document.get("notes", ()))
        return Reply(message, Usage(**counts, seconds=usage.get("seconds")), *about, notes)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(path, f"a cached reply cannot be read: {error}") from error


class Measured:
    """Notes how long each reply of a real model took, wall seconds, retries and waits for a busy server included.

    The figure is part of the reply's usage, so it is recorded with the action that pays for it, and a replay reads it there. A
    world whose thinking is `measured` moves its clock by it. No clock is read anywhere else below `experiments`.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.name = model, model.name

    def reset(self, seed: int) -> None:
        self.model.reset(seed)

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """See `LanguageModel`."""
        begun_s = time.perf_counter()
        reply = self.model.complete(messages, functions, purpose)
        seconds = round(time.perf_counter() - begun_s, 6)
        return reply._replace(usage=reply.usage._replace(seconds=seconds))
