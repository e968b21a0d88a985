"""Sessions of a server, each with its own environment and seed; they do not depend on the transport.

A session gives the same results as the same environment played locally with the same seed and actions: sessions share the
world, which does not change, and no other state.
"""

import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import gymnasium as gym

from costgym.envs.base import NO_OPTIONS, Instance, base_env
from costgym.experiments.play.collect import open_collection
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import Tape, trajectory_of
from costgym.experiments.serve.limits import Bucket, Limits, Refused
from costgym.experiments.serve.wire import encode_info, encode_observation, read_action, read_reset
from costgym.simulators.bounds import unreadable
from costgym.simulators.errors import ConfigError, CostGymError, DataError

Env = gym.Env[Any, Any]
LOGGER = logging.getLogger("uvicorn.error")
ABANDONED = "the client left the episode"  # on record, as an agent's crash is


class Scheduled(NamedTuple):
    """An episode that a server hands out, by its index in a run."""

    episode: int  # its index
    instance: Instance


class Recording(Protocol):
    """Where the episodes go that clients play."""

    def begin(self, env: Env, chosen: Sequence[str] = ()) -> Scheduled | None:
        """Take the next episode; None where clients choose what they play, as one did by some fields of its reset. Raises
        Refused if there is none, or a client may not choose."""

    def add(self, env: Env, tape: Tape, crash: str = "", scheduled: Scheduled | None = None) -> None:
        """Write the episode that has just ended in an environment, or was left in it."""


class Recorder(ExitStack):
    """Appends each episode to `folder/trajectories.jsonl` when it ends or its client leaves it, which is a failure; the folder
    is locked until `close`. A folder of the same world is continued. Raises ConfigError if it is another world's or in use."""

    def __init__(self, folder: Path, env: Env, env_id: str, agent: str) -> None:
        if problem := unreadable(agent):
            raise ConfigError("--record-as", problem)
        super().__init__()
        self.agent, self._header = agent, Header.of(env, env_id)
        self._store, self.episodes = self.enter_context(open_collection(folder, self._header, "--record"))

    def begin(self, env: Env, chosen: Sequence[str] = ()) -> None:
        """Return None: clients choose what they play."""

    def add(self, env: Env, tape: Tape, crash: str = "", scheduled: Scheduled | None = None) -> None:
        """Write the episode that has just ended in an environment, or was left in it."""
        trajectory, _ = trajectory_of(base_env(env), self.agent, "", self.episodes, NO_OPTIONS, tape, crash)
        self._store.append(trajectory.sealed_json(self._header))
        self.episodes += 1


class Session:
    """A client's environment; `used_at` is the time of its last use, and `client` the address that opened it."""

    def __init__(
        self, name: str, env: Env, seed: int, bucket: Bucket, now: float, client: str = "", recorder: Recording | None = None
    ) -> None:
        self.name, self.env, self.steps, self.used_at, self.client = name, env, 0, now, client
        self._recorder = recorder
        self._tape: Tape | None = None
        self._scheduled: Scheduled | None = None
        self.hang_up: Callable[[], Awaitable[None]] | None = None
        self.wish: dict[str, Any] = {}
        self._next_seed: int | None = seed
        self._bucket = bucket
        self._episode_id: str | None = None  # of the episode that has begun
        self._info: dict[str, Any] = {}
        self._done = False

    def use(self, now: float) -> None:
        """Record that the session is used; raises Refused if its requests are too frequent."""
        self.used_at = now
        if wait := self._bucket.take(now):
            raise Refused(f"too many requests; come back in {wait:.3f} s", "RATE_LIMITED", 429, wait)

    def reset(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Begin an episode."""
        wish = read_reset(request)
        seed, task = wish.seed, wish.task
        if task is None and wish.index is not None:
            numbers = task_numbers(self.env, wish.split)
            if wish.index >= len(numbers):
                raise Refused(f"index: expected a whole number from 0 to {len(numbers) - 1}, got {wish.index}")
            task = numbers[wish.index]
        self.leave()
        options: dict[str, Any] = {} if task is None else {"task": task}
        chosen = [name for name in ("seed", "task", "index", "split") if getattr(wish, name) is not None]
        self._scheduled = None if self._recorder is None else self._recorder.begin(self.env, chosen)
        if self._scheduled is not None:
            _, (number, seed, more) = self._scheduled
            options = {"task": number, **more}
        elif seed is None:  # the first episode has the session's seed, the next ones follow from it
            seed, self._next_seed = self._next_seed, None
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except CostGymError as error:
            raise Refused(str(error)) from error
        self._next_seed = None
        self.steps, self._done = 0, False
        self._episode_id = wish.episode_id or secrets.token_hex(8)
        self._tape = None if self._recorder is None else Tape(observation)
        answer = self._answer(observation, None, False, False, info)
        answer["observation"] |= base_env(self.env).opening()
        return answer

    def step(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Play an action from a request, see `wire.read_action`."""
        if self._episode_id is None:
            raise Refused("no episode has begun; reset first", "EXECUTION_ERROR", 409)
        if self._done:
            raise Refused("the episode has ended; reset to begin another", "EXECUTION_ERROR", 409)
        return self.act(read_action(self.env.action_space, request))

    def act(self, action: Any) -> dict[str, Any]:
        """Play an action of the environment."""
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except CostGymError as error:
            raise Refused(str(error), "EXECUTION_ERROR", 409) from error
        self.steps += 1
        self._done = terminated or truncated
        if self._tape is not None and self._recorder is not None:
            self._tape.add(observation, action, float(reward), truncated)
            if self._done:
                self._record("")
        return self._answer(observation, float(reward), terminated, truncated, info)

    def leave(self) -> None:
        """End the episode that goes on, if one does: on record it is a failure."""
        if self._tape is not None:
            self._record(ABANDONED)

    def _record(self, crash: str) -> None:
        tape, self._tape = self._tape, None
        assert tape is not None and self._recorder is not None
        try:
            self._recorder.add(self.env, tape, crash, self._scheduled)
        except DataError as error:
            raise Refused(f"the episode has ended and was not recorded: {error}", "EXECUTION_ERROR", 507) from error

    def begin(self) -> None:
        """Begin an episode if none has begun yet."""
        if self._episode_id is None:
            self.reset({})

    @property
    def unfinished(self) -> bool:
        """Return whether an episode is under way in which something was played."""
        return self.playing and self.steps > 0

    @property
    def playing(self) -> bool:
        """Return whether an episode has begun and has not ended."""
        return self._episode_id is not None and not self._done

    def _answer(
        self, observation: Any, reward: float | None, terminated: bool, truncated: bool, info: Mapping[str, Any]
    ) -> dict[str, Any]:
        self._info = encode_info(info)
        return {
            "observation": encode_observation(observation),
            "reward": reward,
            "done": terminated or truncated,
            "metadata": {
                "session_id": self.name,
                "episode_id": self._episode_id,
                "terminated": terminated,
                "truncated": truncated,
                **self._info,
            },
        }

    def state(self) -> dict[str, Any]:
        """The state of the session and its episode. The seed, which an agent must not know, is not in it."""
        world = self.env.unwrapped
        episode = None if self._episode_id is None else getattr(world, "episode", None)
        state: dict[str, Any] = {
            "session_id": self.name,
            "episode_id": self._episode_id,
            "step_count": self.steps,
            "done": self._done,
            "env": None if self.env.spec is None else self.env.spec.id,
            **self._info,
        }
        if episode is not None:
            state |= {"task": episode.task.id, "number": episode.number}
        return state


def task_numbers(env: Env, split: object = None) -> list[int]:
    """The numbers of a split's tasks; by default of the environment's own split."""
    world: Any = env.unwrapped
    if hasattr(world, "numbers"):
        if split is None or split == world.split:
            return list(world.numbers)
        if split not in ("train", "valid", "test") or not (numbers := list(world.world.tasks.numbers(split))):
            raise Refused(f"split: there is no split {split!r:.60}; try train or test")
        return numbers
    if split not in (None, world.split):
        raise Refused(f"split: this server plays {world.split}, not {split!r:.60}")
    return [task.task_id for task in world.tasks]


class Sessions:
    """All sessions of a server; the n-th that names no seed begins with `seed + n`. The clock never runs back, in seconds;
    episodes that end are recorded where there is a recorder."""

    def __init__(
        self, make: Callable[[], Env], limits: Limits, seed: int, clock: Callable[[], float], recorder: Recording | None = None
    ) -> None:
        self.limits, self._make, self._seed, self._clock, self._recorder = limits, make, seed, clock, recorder
        self.example = make()  # builds the world once, and has the spaces
        self._open: dict[str, Session] = {}
        self._ended: dict[str, tuple[float, dict[str, Any]]] = {}  # when a session was closed, and its last state
        self._opened = itertools.count()
        self._bucket = Bucket(limits.openings, clock())

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._open.values()))

    def open(self, name: str | None = None, seed: int | None = None, client: str = "") -> Session:
        """Open a session; raises Refused if there are too many, of all clients or of this address."""
        now = self._clock()
        most = self.limits.client_sessions
        if client and most and sum(session.client == client for session in self._open.values()) >= most:
            raise Refused(f"all {most} sessions of this address are taken; close one", "CAPACITY_REACHED", 429, 1.0)
        if len(self._open) >= self.limits.sessions:
            raise Refused(f"all {self.limits.sessions} sessions are taken; come back later", "CAPACITY_REACHED", 503, 1.0)
        if wait := self._bucket.take(now):
            raise Refused(f"too many new sessions; come back in {wait:.3f} s", "RATE_LIMITED", 429, wait)
        number = next(self._opened)
        name = name or secrets.token_hex(16)
        bucket = Bucket(self.limits.rate, now)
        first = self._seed + number if seed is None else seed
        session = Session(name, self._make(), first, bucket, now, client, self._recorder)
        self._open[name] = session
        return session

    def find(self, name: object) -> Session | None:
        """The session of that name, if it is open."""
        return self._open.get(name) if isinstance(name, str) else None

    def get(self, name: object) -> Session:
        """Find an open session and record its use; raises Refused if it does not exist."""
        session = self.find(name)
        if session is None:
            raise Refused("no such session (it may have been idle for too long); reset to open one", "SESSION_ERROR", 404)
        session.use(self._clock())
        return session

    def close(self, session: Session) -> None:
        """Close a session and its environment."""
        if self._open.pop(session.name, None) is not None:
            self._ended.pop(session.name, None)
            self._ended[session.name] = self._clock(), session.state()
            try:
                session.leave()
            except Refused as error:
                LOGGER.error("%s", error)
            # a client that opens and closes sessions all the time must not fill the memory
            if len(self._ended) > 4 * self.limits.sessions:
                del self._ended[next(iter(self._ended))]
            session.env.close()

    def last_state(self, name: object) -> dict[str, Any]:
        """The state of a session, or of one that was closed within the idle time; raises Refused for others."""
        if isinstance(name, str) and name not in self._open and name in self._ended:
            at, state = self._ended[name]
            if self._clock() - at <= self.limits.idle_s:
                return state
            del self._ended[name]
        return self.get(name).state()

    async def reap(self) -> int:
        """Close the sessions that have been idle for too long; return their number."""
        now = self._clock()
        idle = [session for session in self._open.values() if now - session.used_at > self.limits.idle_s]
        for name in [name for name, (at, _) in self._ended.items() if now - at > self.limits.idle_s]:
            del self._ended[name]
        for session in idle:
            self.close(session)
            self._ended.pop(session.name, None)  # its last state is kept no longer
            if session.hang_up is not None:
                await session.hang_up()
        return len(idle)

    def use(self, session: Session) -> None:
        """Record that a session is used; raises Refused if its requests are too frequent."""
        session.use(self._clock())
