"""The batched and the event-driven simulator side by side: the same actions, everything compared to the last bit."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from costgym.envs.actions import encode_action
from costgym.envs.marketplace import MarketplaceEnv
from costgym.envs.native import MarketplaceVectorEnv
from costgym.envs.sessions.base import CANCEL as CANCEL_CALL
from costgym.envs.sessions.base import OTHERS
from costgym.envs.sessions.levels import MarketplaceSessionEnvV1
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.simulators.batch import kernels
from costgym.simulators.batch.state import Batch
from costgym.simulators.calls import WorldEvent
from costgym.simulators.ledger import Budget
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode


class Difference(AssertionError):
    """The two simulators differ."""


# actions of `play`, beside a candidate's index; `CANCEL` less an index cuts off its oldest call in flight
WAIT, FINISH, CANCEL = -2, -3, -4


def play(
    world: World,
    actions: Sequence[Sequence[int]],
    seeds: Sequence[int],
    budget: Budget,
    enforcement: Any,
    taken: Counter[str] | None = None,
) -> Counter[str]:
    """Play episodes of a world both ways: episode i takes column i of `actions`, its task is i modulo the tasks. Returns how
    often each status was met ("over budget" where an episode ended so); raises Difference where the two differ. `taken` counts
    the actions that were taken, by their kind."""
    count = len(seeds)
    rows = [i % len(world.tasks) for i in range(count)]
    batch = Batch(world, range(len(world.tasks)), count, budget, enforcement)
    batch.begin(rows, np.array(seeds, np.uint64))
    episodes = [world.episode(row, seed, budget, enforcement) for row, seed in zip(rows, seeds, strict=True)]
    met: Counter[str] = Counter()
    for number, step in enumerate(actions):
        alive = np.array([not episode.over for episode in episodes])
        chosen = np.array(step)
        # the batch takes all episodes of a kind of action at once, the event-driven world one after the other
        seen = np.zeros(count, np.int64)
        waits, submits = alive & (chosen == WAIT), alive & (chosen > WAIT)
        seen[waits] = batch.wait(waits)[waits]
        batch.finish(alive & (chosen == FINISH))
        batch.cancel(CANCEL - chosen, alive & (chosen <= CANCEL))
        seen[submits] = batch.submit(chosen, submits)[submits]
        if taken is not None:
            taken.update(wait=int(waits.sum()), cancel=int((alive & (chosen <= CANCEL)).sum()), call=int(submits.sum()))
        for i in np.flatnonzero(alive).tolist():
            expected = _act(episodes[i], int(chosen[i]))
            if expected is not None:
                plain = seen[i] == kernels.NOTHING or seen[i] >= 0 or expected in (-1, kernels.NOTHING)
                if seen[i] != expected if plain else expected != "notice":
                    raise Difference(f"action {number}, episode {i}: the batch tells {seen[i]}, the world {expected}")
            if seen[i] >= 0 and chosen[i] > FINISH:
                met[str(seen[i] % 64)] += 1
            batched, exact = _seen(batch, i), _state(episodes[i])
            if batched != exact:
                different = {name: (batched[name], exact[name]) for name in exact if batched[name] != exact[name]}
                raise Difference(f"action {number}, episode {i}: (batch, world) {different}")
            if episodes[i].exceeded:
                met[f"over {episodes[i].exceeded}"] += 1
    return met


def _act(episode: Episode, action: int) -> Any:
    if action == FINISH:
        episode.finish()
        return None
    if action <= CANCEL:
        if call := next((call for call in episode.flying if call.slot == CANCEL - action), None):
            episode.cancel(call)
        return None
    if action == WAIT:
        news = episode.wait()
        if news is None:
            return kernels.NOTHING
        return "notice" if isinstance(news, WorldEvent) else news.slot * 64 + int(news.status)
    call = episode.submit(action)
    return int(call.status) if call.k == 0 else -1


def _seen(batch: Batch, i: int) -> dict[str, Any]:
    e = batch.state.episodes[i]
    return {
        "now_s": float(e["now"]),
        "price": float(e["price"]),
        "calls": int(e["calls"]),
        "in_flight": int(e["records"]),
        "reserved": float(e["reserved"]),
        "news": int(e["news"]),
        "known": int(e["known"]),
        "effects": _batched_effects(batch, i),
        "counts": batch.state.slots["count"][i].tolist()[: len(batch.world.candidates(batch.numbers[int(e["task"])]))],
        "over": bool(e["over"]),
        "exceeded": batch.exceeded()[i],
        "grade": (bool(e["strict"]), bool(e["judged"])) if e["over"] else None,
    }


def _batched_effects(batch: Batch, i: int) -> dict[int, tuple[Any, ...]]:
    row = int(batch.state.episodes[i]["task"])
    wanted = int(batch.tables.state[row])
    entities = batch.state.entities[i] if batch.rules.writes else ()
    names = ("count", "seen", "perhaps", "duplicates")
    return {
        need: (*(record[name].item() for name in names), record["since"].item() if record["count"] else math.inf)
        for need, record in enumerate(entities)
        if wanted >> need & 1
    }


def _state(episode: Episode) -> dict[str, Any]:
    grade, records = episode.grade, {} if episode.store is None else episode.store.records
    return {
        "now_s": episode.now_s,
        "price": episode.ledger.price,
        "calls": episode.ledger.calls,
        "in_flight": episode.in_flight,
        "reserved": episode.reserved,
        "news": len(episode.unread),
        "known": sum(1 << need for need, known in enumerate(episode.known) if known),
        "effects": {
            need: (r.count, r.seen, r.perhaps, r.duplicates, r.since if r.count else math.inf) for need, r in records.items()
        },
        "counts": list(episode.counts),
        "over": episode.over,
        "exceeded": episode.exceeded,
        "grade": None if grade is None else (grade.strict, grade.judged),
    }


# -- the views -----------------------------------------------------------------------------------------------------------------


def difference(a: Any, b: Any, where: str = "") -> str | None:
    """Find where two results of a vector environment differ in keys, types or bytes; None if nowhere."""
    if isinstance(a, dict):
        if set(a) != set(b):
            return f"{where}: keys {sorted(set(a) ^ set(b))}"
        return next((clue for key in a if (clue := difference(a[key], b[key], f"{where}/{key}"))), None)
    if a is None or b is None:
        return None if a is b else f"{where}: one is None"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{where}: {a.dtype} {a.shape} against {b.dtype} {b.shape}"
    if a.dtype == object:
        return next(
            (clue for i, (x, y) in enumerate(zip(a, b, strict=True)) if (clue := difference(x, y, f"{where}[{i}]"))),
            None,
        )
    if a.tobytes() == b.tobytes():
        return None
    return f"{where}: {a[a != b][:4]} against {b[a != b][:4]}"


def some_actions(generator: np.random.Generator, observation: dict[str, Any], mask: Any) -> Any:
    """Choose actions that reach every corner: mostly allowed ones, some that serve a need or finish, some forbidden."""
    (count, width), tools = mask.shape, observation["tools"].shape[1]
    actions = generator.integers(0, width, count)
    luck = generator.random(count)
    instead = np.full(count, tools) if width == tools + 2 else generator.integers(0, tools, count)  # wait, where there is one
    actions = np.where(luck < 0.3, instead, actions)
    needs = observation["needs"]
    open_needs = (needs[:, :, 2] > 0) & (needs[:, :, 1] == 0)  # (count, 6)
    serves = (observation["tools"][:, :, 5:11] * open_needs[:, None, :]).sum(axis=2) > 0
    helpful = serves & mask[:, :tools] & (observation["tools"][:, :, 12] == 0)
    weights = generator.random(helpful.shape) * helpful
    actions = np.where((luck > 0.6) & helpful.any(axis=1), weights.argmax(axis=1), actions)
    complete = (needs[:, :, 1] >= needs[:, :, 0]).all(axis=1)
    return np.where(complete, width - 1, np.where((actions == width - 1) & (luck < 0.8), instead, actions))


def session_actions(generator: np.random.Generator, observation: dict[str, Any], mask: Any) -> Any:
    """Choose actions for sessions: mostly allowed ones and few that leave a query, pause or cancel; some forbidden."""
    (count, width), luck = mask.shape, generator.random(mask.shape[0])
    tools = observation["tools"].shape[1] if observation else width - 2
    weights = generator.random(mask.shape) * mask
    weights[:, tools + 1] *= 0.2
    weights[:, tools + 3 :] *= 0.4
    return np.where(luck < 0.05, generator.integers(0, width, count), weights.argmax(axis=1))


def in_words(env: MarketplaceSessionEnv, action: int) -> str:
    """An action of a session in numbers, as the session in words takes it."""
    words, others = env.action_text(action), action - env.rules.tools
    if others < 0:
        return encode_action(words.removeprefix("call "))
    what = OTHERS[min(others, len(OTHERS) - 1)]
    return encode_action(what, {"tool": words.removeprefix("cancel ")} if what == CANCEL_CALL else None)


def run_views(
    count: int,
    steps: int,
    seed: int,
    mode: AutoresetMode,
    tick: Callable[[], None] | None = None,
    scalar_env: Callable[..., Any] = MarketplaceEnv,
    native_env: Callable[..., Any] = MarketplaceVectorEnv,
    choose: Callable[..., Any] = some_actions,
    threads: int = 1,
    others: Sequence[tuple[Callable[..., Any], int]] = (),
    **settings: Any,
) -> Counter[str]:
    """Step the native vector environment, and `others` with their numbers of threads, beside `SyncVectorEnv` over the scalar
    one, with the actions that `choose` picks. Returns how often each status and each way to end was met; raises Difference
    where they differ."""
    scalar = SyncVectorEnv([lambda: scalar_env(**settings)] * count, autoreset_mode=mode)
    made = ((native_env, threads), *others)
    natives = [make(count, autoreset_mode=mode, threads=number, **settings) for make, number in made]
    generator = np.random.default_rng(seed)

    def compare(when: str, expected: tuple[Any, ...], each: Sequence[tuple[Any, ...]]) -> None:
        for (make, number), got in zip(made, each, strict=True):
            if (clue := difference(dict(enumerate(expected)), dict(enumerate(got)))) is not None:
                raise Difference(f"{make.__name__}, threads {number}, {when}{clue}")

    each = [native.reset(seed=seed) for native in natives]
    compare("reset", scalar.reset(seed=seed), each)
    observation, mask = each[0][0], natives[0].action_masks()
    met: Counter[str] = Counter()
    for step in range(steps):
        actions = choose(generator, observation, mask)
        each = [native.step(actions) for native in natives]
        compare(f"step {step}", scalar.step(actions), each)
        observation, _, terminated, truncated, info = each[0]
        final = info.get("final_info", info)
        met.update(map(str, info["status"].tolist()))
        met["terminated"] += int(terminated.sum())
        met["truncated"] += int(truncated.sum())
        met["success"] += int(final["is_success"].sum())
        ended = terminated | truncated
        if mode is AutoresetMode.DISABLED and ended.any():
            expected, *each = (env.reset(options={"reset_mask": ended.copy()}) for env in (scalar, *natives))
            compare(f"step {step}, reset", expected, each)
            observation = each[0][0]
        mask = np.stack([env.unwrapped.action_masks() for env in scalar.envs])  # type: ignore[attr-defined]
        compare(f"step {step}, masks", (mask,), [(native.action_masks(),) for native in natives])
        if tick is not None:
            tick()
    return met


class CompiledOnes(SyncVectorEnv):
    """Gymnasium's loop over environments that play in compiled code, one by one; an argument `native_env` of `run_views`."""

    env_type: type[MarketplaceEnv | MarketplaceSessionEnv] = MarketplaceEnv

    def __init__(self, count: int, autoreset_mode: AutoresetMode, threads: int, **settings: Any) -> None:
        del threads  # each plays by itself
        super().__init__([lambda: self.env_type(compiled=True, **settings)] * count, autoreset_mode=autoreset_mode)

    def action_masks(self) -> Any:
        return np.stack([env.unwrapped.action_masks() for env in self.envs])  # type: ignore[attr-defined]


class CompiledSessions(CompiledOnes):
    """The same with sessions."""

    env_type = MarketplaceSessionEnv


class CompiledLevels(CompiledOnes):
    """The same with sessions of version 1."""

    env_type = MarketplaceSessionEnvV1
