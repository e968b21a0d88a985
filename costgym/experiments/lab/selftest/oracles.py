"""Properties that hold in every world: each oracle plays a world from a seed and says what is wrong."""

import json
import math
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.lab.selftest.lockstep import (
    CANCEL,
    FINISH,
    WAIT,
    CompiledOnes,
    CompiledSessions,
    Difference,
    play,
    run_views,
    session_actions,
)
from costgym.experiments.lab.selftest.rules import broken_rules
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import Tape, trajectory_of
from costgym.experiments.play.trajectories.verify import verify_file
from costgym.simulators.calls import Call, Usage, WorldEvent
from costgym.simulators.episode import Episode
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import Scenario
from costgym.simulators.sessions.draw import offered
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import Status

STEPS = 24  # actions of an episode


class Tally:
    """Counts of what was played: worlds, episodes and actions; and of the worlds that an oracle could not play, by its name."""

    def __init__(self) -> None:
        self.worlds = self.episodes = self.steps = 0
        self.refused = Counter[str]()


class PendingEvents:
    """The events that an episode has reported so far; `wait` must report the rest in the order of time."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self._told = set[int]()

    def told(self, *found: Call | WorldEvent) -> None:
        self._told.update(id(each) for each in found)

    def waited(self, episode: Episode, found: Call | WorldEvent | None, at_s: float, in_flight: int) -> None:
        """Note what a wait returned that began at `at_s`, with so many calls in flight."""
        events = [each for each in episode.world.notices(episode.number) if each.at_s <= episode.now_s]
        ended = [call for call in episode.calls if call.k and call.started_s >= 0 and call.finished_s >= 0]
        every: list[Call | WorldEvent] = [*events, *ended]
        left = [_time(each) for each in every if id(each) not in self._told and each is not found]
        if found is None:
            if in_flight and not episode.over:
                self.problem = f"10: a wait with {in_flight} calls in flight told nothing"
            elif not in_flight and episode.now_s != at_s:
                self.problem = "10: a wait for nothing took time"
            return
        if id(found) in self._told:
            self.problem = "10: a wait told the same twice"
        elif left and min(left) < _time(found):
            self.problem = f"10: a wait told of {_time(found)!r} s, and not of {min(left)!r} s"
        self.told(found)


def _time(pending: Call | WorldEvent) -> float:
    return pending.finished_s if isinstance(pending, Call) else pending.at_s


def act(episode: Episode, random: Random, usages: list[tuple[float, float, int]], pending: PendingEvents | None = None) -> None:
    """Take one random action; thoughts that were charged in full are noted as seconds, price and output tokens."""
    pending = PendingEvents() if pending is None else pending
    slot = random.randrange(-1, len(episode.candidates))
    match random.randrange(13):
        case 0 | 1 | 2 | 3:
            episode.submit(slot)
        case 4 | 5:
            pending.told(episode.call(max(0, slot)))
        case 6:
            needs = episode.candidates[max(0, slot)].needs
            wanted = episode.needs[random.choice(needs)].arguments if needs else None
            arguments = wanted if wanted is not None and random.random() < 0.7 else {"key": "nothing"}
            episode.submit(max(0, slot), arguments)
        case 7:
            episode.submit(slot, None, random.choice((Status.FORBIDDEN, Status.INVALID_ARGUMENTS)), "no")
        case 8:
            episode.advance(random.choice((0.0, 0.1, 1.0, 7.5)))
        case 9:
            usage = Usage(random.randrange(200), random.randrange(100))
            at_s, price = episode.now_s, episode.ledger.price
            episode.think(usage)
            if not episode.over:
                usages.append((episode.now_s - at_s, episode.ledger.price - price, usage.output_tokens))
        case 10:
            pending.told(*episode.notices())
        case 11 if random.random() < 0.15:
            episode.finish(None if random.random() < 0.7 else "fact 0 0, fact 0 1", random.random() < 0.2)
        case _:
            before = episode.now_s, episode.in_flight
            pending.waited(episode, episode.wait(), *before)


def begin(scenario: Scenario, random: Random) -> Episode:
    """Return an episode of a scenario under its own budget and enforcement."""
    world = scenario.build()
    number = random.choice(list(world.tasks.numbers(random.choice(("train", "test")))))
    return world.episode(number, random.randrange(2**40), scenario.limits(), scenario.enforcement)


def state(episode: Episode) -> dict[str, Any]:
    """Return all that can be seen of an episode."""
    names = ("now_s", "known", "needs", "counts", "in_flight", "factors", "over", "exceeded", "grade", "log")
    return {
        **{name: getattr(episode, name) for name in names},
        "calls": [tuple(getattr(call, name) for name in call.__slots__) for call in episode.calls],
        "charges": list(episode.ledger),
        "attempts": episode.ledger.attempts,
        "banned": sorted(episode.banned),
        "effects": {} if episode.store is None else {k: repr(record) for k, record in episode.store.records.items()},
        "writes": episode.write_figures(),
    }


def rules(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """Every rule of the world holds, time never runs back, and thinking costs what it says."""
    random = Random(seed)
    for _ in range(4):
        episode, now, thoughts, pending = begin(scenario, random), 0.0, list[tuple[float, float, int]](), PendingEvents()
        world = episode.world
        for _ in range(STEPS):
            if episode.over:
                break
            act(episode, random, thoughts, pending)
            tally.steps += 1
            if pending.problem is not None:
                yield pending.problem
            if not now <= episode.now_s < math.inf:
                yield f"1: time went from {now!r} to {episode.now_s!r} s"
            now = episode.now_s
        for seconds, _, tokens in thoughts:
            expected = world.ttft_s + tokens / world.tokens_per_s
            if abs(seconds - expected) > 1e-9 * max(1e-6, expected, now):
                yield f"9: {tokens} tokens took {seconds!r} s, expected {expected!r}"
        yield from broken_rules(episode)
        tally.episodes += 1


def forks(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """A fork and a pickle of an episode equal it, now and in what follows."""
    random = Random(seed)
    episode = begin(scenario, random)
    for _ in range(random.randrange(STEPS)):
        if not episode.over:
            act(episode, random, [])
    copies = {"fork": episode.fork(), "pickle": pickle.loads(pickle.dumps(episode))}
    later = random.getrandbits(60)
    for name, copy in copies.items():
        if state(copy) != state(episode):
            yield f"a {name} differs from its episode"
            return
    for each in (episode, *copies.values()):
        own = Random(later)
        for _ in range(8):
            if not each.over:
                act(each, own, [])
                tally.steps += 1
        tally.episodes += 1
    for name, copy in copies.items():
        if state(copy) != state(episode):
            yield f"a {name} has another future than its episode"


def threads(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """Episodes in threads are those played alone."""

    def one(number: int) -> dict[str, Any]:
        random = Random(seed + number)
        episode = begin(scenario, random)
        for _ in range(STEPS):
            if not episode.over:
                act(episode, random, [])
        return state(episode)

    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(one, range(4)))
    tally.episodes += 8
    if beside != [one(number) for number in range(4)]:
        yield "an episode in a thread differs from the one played alone"


def batch(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """The batched world equals the event-driven one call by call."""
    world, generator = scenario.build(), np.random.default_rng(seed)
    count, width = 8, max(len(task.candidates) for task in world.tasks)
    actions = generator.integers(-1, width, (STEPS, count))
    actions = np.where(generator.random(actions.shape) < 0.35, WAIT, actions)
    actions = np.where(generator.random(actions.shape) < 0.05, CANCEL - np.maximum(actions, 0), actions)
    actions = np.where(generator.random(actions.shape) < 0.03, FINISH, actions)
    seeds = [int(each) for each in generator.integers(2**40, size=count)]
    tally.episodes, tally.steps = tally.episodes + count, tally.steps + actions.size
    try:
        play(world, actions.tolist(), seeds, scenario.limits(), scenario.enforcement)
    except Difference as difference:
        yield str(difference)


def views(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """The native vector environment, or single ones in compiled code, equal those in Python, in a random form and mode."""
    from gymnasium.vector import AutoresetMode

    from costgym.envs.native import MarketplaceVectorEnv
    from costgym.simulators.batch.rng import most_threads

    random = Random(seed)
    settings: dict[str, Any] = {
        "scenario": scenario,
        "enforcement": scenario.enforcement,
        "split": random.choice(("train", "test")),
        "concurrent": random.random() < 0.5,
        "mask": random.choice(("useful", "legal")),
        "max_steps": random.choice((4, 12)),
    }
    mode, threads = random.choice(list(AutoresetMode)), min(random.choice((1, 2)), most_threads())
    native = random.choice((MarketplaceVectorEnv, CompiledOnes))
    tally.episodes, tally.steps = tally.episodes + 3, tally.steps + 3 * STEPS
    try:
        run_views(3, STEPS, seed, mode, native_env=native, threads=threads, **settings)
    except Difference as difference:
        form = "concurrent" if settings["concurrent"] else "one at a time"
        yield f"{mode.value}, {form}, {native.__name__}: {difference}"


def _session_settings(scenario: Scenario, random: Random) -> dict[str, Any]:
    """Random rules and limits of sessions, with the world's ways to fail, and with its tools where a session can have them."""
    kinds = random.randint(1, 4)
    worlds: list[Scenario | None] = [None]
    with suppress(ConfigError):
        offered(SessionRules(scenario=scenario), 0)
        worlds.append(scenario)
    failures = scenario.failures.model_dump(exclude={"bursts", "persistence"})
    return {
        "queries": random.randint(1, 12), "capabilities": kinds, "tools": random.randint(kinds, 12),
        "providers": random.randint(1, 4), "drift": random.choice((0.0, 0.1, 1.0)), "price_drift": random.choice((0.0, 0.3)),
        "repeat": random.random(), "ttl_s": random.choice((1.0, 60.0)), "outage_every_s": random.choice((5.0, 400.0)),
        "failures": {**failures, "persistence": 0.0}, "enforcement": random.choice(("refuse", "terminate", "record")),
        "budget": random.choice((None, {}, {"price": 25, "seconds": 40.0}, {"calls": 5})),
        "max_steps": random.choice((None, 9)), "scenario": random.choice(worlds),
    }  # fmt: skip


def sessions(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """Sessions of random rules, with the world's ways to fail, are the same in compiled code."""
    from gymnasium.vector import AutoresetMode

    from costgym.envs.native import SessionVectorEnv
    from costgym.envs.sessions.session import MarketplaceSessionEnv
    from costgym.simulators.batch.rng import most_threads

    random = Random(seed)
    settings = _session_settings(scenario, random) | {
        "memory": random.choice(("counts", "raw")), "mask": random.choice(("useful", "legal")),
        "concurrent": random.random() < 0.5,
    }  # fmt: skip
    mode, threads = random.choice(list(AutoresetMode)), min(random.choice((1, 2)), most_threads())
    native: Any = random.choice((SessionVectorEnv, CompiledSessions))
    tally.episodes, tally.steps = tally.episodes + 3, tally.steps + 3 * STEPS
    try:
        run_views(3, STEPS, seed, mode, None, MarketplaceSessionEnv, native, session_actions, threads, **settings)
    except Difference as difference:
        yield f"{mode.value}, {native.__name__}, {settings}: {difference}"


def words(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """A session in words takes the time, costs the price and ends as the same session in numbers, call by call."""
    from costgym.envs.sessions.chat import SessionChatEnv
    from costgym.envs.sessions.session import MarketplaceSessionEnv
    from costgym.experiments.lab.selftest.lockstep import in_words

    random = Random(seed)
    settings = _session_settings(scenario, random) | {"concurrent": random.random() < 0.5}
    numbers, text = MarketplaceSessionEnv(**settings), SessionChatEnv(**settings)
    info, outcome = numbers.reset(seed=seed)[1], [0.0, False, False]
    text.reset(seed=seed)
    tally.episodes += 2
    while not any(outcome[1:]):
        tally.steps += 2
        allowed = info["action_mask"].nonzero()[0].tolist()
        action = random.choice(allowed) if random.random() < 0.9 else random.randrange(len(info["action_mask"]))
        _, *outcome, info = numbers.step(action)
        _, *said, told = text.step(in_words(numbers, action))
        found = [(*result, seen["cost_price"], seen["at_s"], seen["value"]) for result, seen in ((outcome, info), (said, told))]
        if found[0] != found[1]:
            yield f"{settings}: action {action} in numbers {found[0]}, in words {found[1]}"
            return


def records(scenario: Scenario, seed: int, tally: Tally) -> Iterator[str]:
    """Verification accepts an honest record, and refuses it after a random edit; observations keep to their space."""
    random = Random(seed)
    env = make("costgym/Marketplace-v0", scenario=scenario, max_steps=12)
    world = base_env(env)
    observation, info = env.reset(seed=random.randrange(2**30))
    tape, ended = Tape(observation), False
    while not ended and not tape.truncated:
        action = random.choice(np.flatnonzero(info["action_mask"]).tolist())
        observation, reward, ended, truncated, info = env.step(action)
        if not env.observation_space.contains(observation):
            yield "an observation lies outside its space"
        tape.add(observation, action, float(reward), truncated)
    tally.episodes, tally.steps = tally.episodes + 1, tally.steps + len(tape.actions)
    header = Header.of(env, "costgym/Marketplace-v0")
    trajectory, _ = trajectory_of(world, "random", "", 0, {}, tape)
    honest = trajectory.sealed_json(header)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        for line in (honest, edited(honest, random)):
            path.write_text(f"{header.to_json()}\n{line}\n", encoding="utf-8")
            verdict = verify_file(path)
            if verdict.verified != (line == honest):
                said = "; ".join(verdict.problems[:2]) or "nothing"
                yield f"verification says {said} of {'an honest record' if line == honest else f'the edit {line!r:.300}'}"


def edited(line: str, random: Random) -> str:
    """Return a record with one value changed."""
    document = json.loads(line)
    places: list[tuple[Any, Any]] = []

    def look(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            if isinstance(node[key], dict | list):
                look(node[key])
            else:
                places.append((node, key))

    look(document)
    node, key = random.choice(places)
    value = node[key]
    if isinstance(value, bool) or value is None:
        node[key] = not value
    elif isinstance(value, int | float):
        next_one = math.nextafter(value, math.inf) if isinstance(value, float) else value + 2
        node[key] = random.choice((value + 1, -value - 1, next_one))
    else:
        node[key] = f"{value}x"
    return json.dumps(document, separators=(",", ":"))


Oracle = Callable[[Scenario, int, Tally], Iterator[str]]
ORACLES: dict[str, Oracle] = {
    "rules": rules,
    "forks": forks,
    "batch": batch,
    "records": records,
    "views": views,
    "sessions": sessions,
    "words": words,
    "threads": threads,
}
COMPILED = ("batch", "views", "sessions")  # oracles that need Numba


def check(name: str, scenario: Scenario, seed: int, tally: Tally, own: bool = False) -> str | None:
    """Find the first problem of an oracle in a world, be it a crash or a refusal; a user's `own` world may not fit a view."""
    try:
        return next(ORACLES[name](scenario, seed, tally), None)
    except ConfigError as error:
        if own and name in (*COMPILED, "records"):
            tally.refused[name] += 1
            return None
        return f"refused while it was played: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
