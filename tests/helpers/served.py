"""A server apart from the test, and sessions whose every answer is known beforehand because they were played locally."""

import asyncio
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import costgym
from costgym.experiments.serve.limits import Limits
from costgym.experiments.serve.sessions import Sessions

ENV = "costgym/MarketplaceChat-v0"
CLIENTS_OWN = ("session_id", "episode_id")


class Exchange(NamedTuple):
    """A message and the answer it must get; what names the session is left out."""

    message: dict[str, Any]
    answer: dict[str, Any]


def known(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs between servers."""
    metadata = {key: value for key, value in answer["metadata"].items() if key not in CLIENTS_OWN}
    return {**answer, "metadata": metadata}


def play_locally(sessions: Sessions, number: int, steps: int) -> list[Exchange]:
    """One session's episodes without a server: right calls, wrong ones, waits and nonsense; a new episode where one ends."""
    session = sessions.open()
    world: Any = session.env.unwrapped
    exchanges: list[Exchange] = []
    played = episodes = 0

    def send(kind: str, data: dict[str, Any]) -> dict[str, Any]:
        answer = session.reset(data) if kind == "reset" else session.step(data)
        exchanges.append(Exchange({"type": kind, "data": data}, known(json.loads(json.dumps(answer)))))
        return answer

    done = True
    while played < steps:
        if done:
            send("reset", {"seed": 1000 * number + episodes})
            episodes += 1
        done = bool(send("step", _action(world, number + played))["done"])
        played += 1
    sessions.close(session)
    return exchanges


def _action(world: Any, turn: int) -> dict[str, Any]:
    episode = world.episode
    slots = [slot for slot in episode.candidates if slot.need >= 0] or list(episode.candidates)
    slot = slots[turn % len(slots)]
    right = {"name": slot.name, "arguments": dict(episode.needs[slot.need].arguments) if slot.need >= 0 else {}}
    match turn % 7:
        case 0:
            return {"name": "wait", "arguments": {"seconds": 1 + turn % 5}}
        case 1:
            return {"action": f"I think of the number {turn}"}
        case 2:
            return {"name": slot.name, "arguments": {"no_such": turn}}
        case 3:
            return {"calls": [right, right], "usage": {"input_tokens": 100 + turn, "output_tokens": 7, "cached_tokens": 0}}
        case _:
            return {"action": json.dumps(right)} if turn % 2 else right


def local_sessions(count: int, steps: int, **settings: Any) -> list[list[Exchange]]:
    """That many sessions, played one after the other."""
    sessions = Sessions(lambda: costgym.make(ENV, disable_env_checker=True, **settings), Limits(openings=1e6), 0, lambda: 0.0)
    return [play_locally(sessions, number, steps) for number in range(count)]


async def replay(address: str, exchanges: list[Exchange], pause_s: float = 0.0) -> tuple[list[float], list[str]]:
    """Play a session on a server; returns the seconds of each step, and each answer as it came."""
    from websockets.asyncio.client import connect

    seconds, answers = [], []
    texts = [(json.dumps(message), message["type"] == "step") for message, _ in exchanges]
    async with connect(address.replace("http", "ws", 1) + "/ws", compression=None, max_size=None) as socket:
        for text, is_step in texts:
            begin = time.perf_counter()
            await socket.send(text)
            answers.append(str(await socket.recv()))
            if is_step:
                seconds.append(time.perf_counter() - begin)
            if pause_s:
                await asyncio.sleep(pause_s)
    return seconds, answers


def differences(exchanges: list[Exchange], answers: list[str]) -> list[str]:
    """How a session's answers differ from the known ones."""
    problems = []
    for number, ((message, known_answer), raw) in enumerate(zip(exchanges, answers, strict=True)):
        got = json.loads(raw)
        if got["type"] != "observation" or known(got["data"]) != known_answer:
            problems.append(f"message {number} {message!r:.200}: expected {known_answer!r:.300}, got {got!r:.300}")
    return problems


async def replay_all(address: str, sessions: list[list[Exchange]], pause_s: float = 0.0) -> tuple[list[float], list[str]]:
    """Play sessions on a server side by side; what differs is looked for once all have ended."""
    done = await asyncio.gather(*(replay(address, exchanges, pause_s) for exchanges in sessions))
    problems = [differences(exchanges, answers) for exchanges, (_, answers) in zip(sessions, done, strict=True)]
    return [duration for seconds, _ in done for duration in seconds], [problem for session in problems for problem in session]


@contextlib.contextmanager
def served_here(env: str = ENV, limits: Limits | None = None, **settings: Any) -> Iterator[str]:
    """The address of a server in a thread of this process, with the limits of one that serves only this machine."""
    from costgym.experiments.serve.connections import configuration
    from costgym.experiments.serve.server import Server, Service, run_server

    make = partial(costgym.make, env, disable_env_checker=True, split="test", **settings)
    service = Service(make, env, limits=(limits or Limits()).of_host("127.0.0.1"))
    server, addresses = Server(configuration(service.app, service.limits)), queue.Queue[str]()
    thread = threading.Thread(target=run_server, args=(server, "127.0.0.1", 0, addresses.put), daemon=True)
    thread.start()
    try:
        yield addresses.get(timeout=20)
    finally:
        server.should_exit = True
        thread.join(20)


@contextlib.contextmanager
def served(*options: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running `costgym serve`: its address and its process; it is told to end at the end."""
    with listening("serve", "--port", 0, *options, says="serving ") as server:
        yield server


@contextlib.contextmanager
def listening(*command: object, says: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running command of costgym's, once it says where it listens: its address and its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "costgym", *map(str, command)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith(says):
                yield line.split()[-1], process
                break
        else:
            raise AssertionError("the server did not start")
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.stderr.close()
