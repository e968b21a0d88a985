"""Frames on a pipe: a length, then the bytes.

What comes from an agent's process is JSON and nothing else, since whoever reads a pickle runs what is in it. What goes to it is
pickled: it trusts the world's side.
"""

import json
import os
import select
import time
from typing import IO, Any

MAX_FRAME_BYTES, MAX_ANSWER_BYTES = 64 * 2**20, 8 * 2**20  # longest frames to an agent and from it; an action takes 1.2 MB


class Patience:
    """Reads or writes all of a pipe until a deadline, however slow the other side is; one that is written to does not block."""

    def __init__(self, pipe: IO[bytes], seconds: float) -> None:
        self._file, self._deadline = pipe.fileno(), time.monotonic() + seconds

    def read(self, count: int) -> bytes:
        """At most so many bytes; raises TimeoutError at the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0 or not select.select([self._file], [], [], left)[0]:
            raise TimeoutError
        return os.read(self._file, min(count, 2**20))

    def write(self, content: bytes) -> None:
        """Write all of it; raises TimeoutError at the deadline, since a process that reads nothing would block its judge."""
        rest = memoryview(content)
        while rest:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([], [self._file], [], left)[1]:
                raise TimeoutError
            rest = rest[os.write(self._file, rest) :]

    def flush(self) -> None:
        """Nothing is kept back."""


def send(pipe: "IO[bytes] | Patience", content: bytes) -> None:
    """Write a frame."""
    pipe.write(len(content).to_bytes(8, "big"))
    pipe.write(content)
    pipe.flush()


def receive(pipe: "IO[bytes] | Patience", most: int = MAX_FRAME_BYTES) -> bytes:
    """The next frame; raises EOFError where the other side is gone, and ValueError where it is too long."""
    head = _exactly(pipe, 8)
    length = int.from_bytes(head, "big")
    if length > most:
        raise ValueError(f"a frame of {length:,} bytes")
    return _exactly(pipe, length)


def _exactly(pipe: "IO[bytes] | Patience", count: int) -> bytes:
    parts = []
    while count:
        part = pipe.read(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def message_document(message: Any) -> dict[str, Any]:
    """A message of a conversation as JSON."""
    calls = [{"name": str(call.name), "arguments": call.arguments, "id": call.id} for call in message.calls]
    return {"role": message.role, "content": message.content, "calls": calls, "name": message.name, "call_id": message.call_id}


def encoded(document: Any) -> bytes:
    """JSON as a frame holds it."""
    return json.dumps(document, default=str).encode("utf-8", "surrogatepass")
