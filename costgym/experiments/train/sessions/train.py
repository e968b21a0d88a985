"""Train a policy of sessions by PPO, in one file in CleanRL's manner: rollouts on the native batch, and clipped updates.

With `memory="raw"` the policy is recurrent: updates read the steps of a rollout in order, from the memory that was kept where
it began. A run consists of segments, each from one checkpoint to the next with sessions of its own, so that a resumed run ends
with the same weights. A checkpoint holds the weights that did best on `valid`, and beside them those that go on learning.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from costgym.agents.base import SESSION
from costgym.agents.checkpoints import OPTIMIZER, load_weights, read_state, read_tensors
from costgym.agents.sessions.learnt import SessionConfig
from costgym.agents.sessions.network import SessionNetwork, Watching
from costgym.envs.registration import make
from costgym.envs.vector.device import make_on_device
from costgym.experiments.train.loop import check_finite, load_moments, moments, own_chance
from costgym.experiments.train.run import Callback, TrainingResult, TrainingRun, TrainingStep, open_run, require_modules
from costgym.experiments.train.sessions.settings import SessionSettings
from costgym.simulators.draws import stable_integer

SCORE = "value_share"
_LATEST = "latest/"
_SPENDING = (("cost_price", "budget_remaining_price", "cost_sum"), ("cost_seconds", "budget_remaining_seconds", "at_s"))
"""Keys of `info`, for money and for time: used in the step, left, and spent so far."""
Kept = dict[str, Tensor]
"""What a rollout keeps of each step, (S, N, ...) each."""


def train_sessions(
    out: str | Path, seed: int = 0, *, resume: bool = True, callback: Callback | None = None, **settings: Any
) -> TrainingResult:
    """Train PPO in sessions of the split `train`; ``sessions:OUT`` is the agent. Same seed and steps, same weights.

    The weights that do best on `valid` are kept; returns the steps and their share of the value there. If the callback asks to
    stop, the run ends at the next checkpoint; with `resume` False it starts again. `settings` are further fields of
    `SessionSettings`. Raises ConfigError if a setting is invalid or the folder holds another run, TrainingFailed if a weight is
    not finite (the last good checkpoint is kept).
    """
    chosen = SessionSettings(**{"seed": seed, **settings})
    require_modules("torch", "safetensors", "numba")
    with own_chance(0):
        network = SessionNetwork(chosen.memory).describe()
    with open_run(out, SessionConfig(settings=chosen.model_dump(), network=network), resume=resume, callback=callback) as run:
        return run.done() or _Run(run, chosen).go()


class _Run:
    """A run of PPO in sessions."""

    def __init__(self, run: TrainingRun, settings: SessionSettings) -> None:
        self.run, self.settings = run, settings
        with own_chance(stable_integer(settings.seed, "weights") >> 1):
            self.policy, self.best = SessionNetwork(settings.memory), SessionNetwork(settings.memory)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), settings.learning_rate, eps=1e-5)
        self.steps = self.segments = 0
        self.found = {SCORE: -1.0, "at": 0.0}
        self.multipliers = [0.0] * len(_SPENDING)
        self.weights = dict(self.policy.named_parameters())
        if run.checkpoint is not None:
            state, kept = read_state(run.checkpoint), read_tensors(run.checkpoint / OPTIMIZER)
            self.steps, self.segments, self.found = state["step"], state["segments"], state["found"]
            self.multipliers = state["multipliers"]
            load_weights(run.checkpoint, self.best.state_dict())
            for name, weight in self.weights.items():
                weight.data.copy_(kept.pop(_LATEST + name))
            load_moments(kept, self.weights, self.optimizer, run.checkpoint / OPTIMIZER)
        run.cut_curve(self.steps)

    def go(self) -> TrainingResult:
        chosen = self.settings
        while self.steps < chosen.steps:
            seed = stable_integer(chosen.seed, "segment", self.segments) >> 1
            with own_chance(seed):
                stopped = self._segment(Rollout(chosen, seed, self.multipliers))
            self.segments += 1
            latest = {_LATEST + name: weight for name, weight in self.weights.items()}
            state = {"segments": self.segments, "found": self.found, "multipliers": self.multipliers}
            self.run.save(self.steps, self.best.state_dict(), {**latest, **moments(self.weights, self.optimizer)}, state)
            if stopped and self.steps < chosen.steps:
                return TrainingResult(self.run.folder, self.steps, {}, finished=False)
        return self.run.finish(self.steps, self.found)

    def _segment(self, rollout: "Rollout") -> bool:
        """Update up to the next checkpoint; return whether the callback asks to stop."""
        chosen, stopped = self.settings, False
        for number in range(1, chosen.updates_per_checkpoint + 1):
            done = min(1.0, self.steps / chosen.steps)
            self.optimizer.param_groups[0]["lr"] = chosen.learning_rate * (1.0 - (1.0 - chosen.final_lr_fraction) * done)
            line = {"loss": update(self.policy, self.optimizer, rollout.play(self.policy), chosen)}
            if chosen.lagrangian:
                line |= {"money": round(self.multipliers[0], 4), "time": round(self.multipliers[1], 4)}
            self.steps += chosen.n_envs * chosen.n_steps
            check_finite(self.weights, self.steps, self.run.checkpoint)
            over = self.steps >= chosen.steps
            if over or number % chosen.updates_per_measurement == 0:
                share = float(measure(self.policy, "valid", chosen.valid).mean())
                if share > self.found[SCORE]:
                    self.found = {SCORE: round(share, 4), "at": float(self.steps)}
                    self.best.load_state_dict(self.policy.state_dict())
                line[SCORE] = round(share, 4)
            stopped |= self.run.report(TrainingStep("", self.steps, min(self.steps, chosen.steps), chosen.steps, line))
            if over:
                break
        return stopped


class Rollout:
    """Sessions of `train` that are played for ever, by a policy that is given at each call. The `multipliers`, which it moves
    where the settings ask for them, are what all the money and all the time of a session cost, in scaled rewards."""

    def __init__(self, settings: SessionSettings, seed: int, multipliers: list[float]) -> None:
        self.settings, self.multipliers = settings, multipliers
        options = {"autoreset_mode": "SameStep", "split": "train", "memory": settings.memory}
        if settings.lagrangian:
            options["enforcement"] = "record"
        self.env = make_on_device(SESSION, settings.n_envs, "cpu", **options)
        self.seen, self.info = self.env.reset(seed=seed)
        self.watching: Watching | None = None

    def play(self, policy: SessionNetwork) -> Kept:
        """Play `n_steps` in every session; also keeps `last`, the value of what follows, and `first`, the memory before it."""
        watching = self.watching or Watching(policy, self.settings.n_envs, self.seen["tools"].shape[1])
        if self.watching is None:
            self.shown, self.watching = watching.see(self.seen, self.info), watching
        kept: dict[str, list[Tensor]] = {}
        first, over = watching.memory, list[Tensor]()
        for _ in range(self.settings.n_steps):
            left, mask = self.shown
            with torch.no_grad():
                logits, value = policy(self.seen, left, mask, watching.memory)
            chances = logits.log_softmax(-1)
            action = torch.multinomial(chances.exp(), 1)[:, 0]
            now = {**self.seen, "left": left, "mask": mask, "action": action, "value": value}
            now |= {"slots": watching.slots, "called": watching.called.clone(), "began": watching.began}
            now["before"] = chances.gather(1, action[:, None])[:, 0]
            watching.did(action)
            self.seen, reward, terminated, truncated, self.info = self.env.step(action)
            self.shown = watching.see(self.seen, self.info)
            now |= {"reward": self.settings.reward_scale * reward.float(), "end": terminated | truncated}
            if self.settings.lagrangian:
                used, spent = self._spending(now["end"])
                now["reward"] -= used @ torch.tensor(self.multipliers)
                over.append((spent[now["end"]] - 1.0).clamp_max(1.0))
            for name, part in now.items():
                kept.setdefault(name, []).append(part)
        with torch.no_grad():
            last = policy(self.seen, *self.shown, watching.memory)[1]
        extra = {} if first is None else {"first": first}
        if over and len(ended := torch.cat(over)):
            for which, excess in enumerate(ended.mean(0).tolist()):
                moved = self.multipliers[which] + self.settings.multiplier_rate * excess
                self.multipliers[which] = max(0.0, moved)
        return {**{name: torch.stack(parts) for name, parts in kept.items()}, "last": last, **extra}

    def _spending(self, ended: Tensor) -> tuple[Tensor, Tensor]:
        """Shares of the session's money and time, (N, 2) each: used in the last step, and spent so far."""
        shares = []
        for names in _SPENDING:
            parts = [torch.as_tensor(self.info[name]) for name in names]
            if "final_info" in self.info:
                last = (torch.as_tensor(self.info["final_info"][name]) for name in names)
                parts = [torch.where(ended, *each) for each in zip(last, parts, strict=True)]
            used, left, spent = parts
            shares.append(torch.stack([used, spent]) / (left + spent))
        used, spent = torch.stack(shares, -1).float()
        return used, spent


def advantages(kept: Kept, gae_lambda: float) -> Tensor:
    """Generalised advantage estimates without discount, (S, N)."""
    found, following = torch.zeros_like(kept["reward"]), kept["last"]
    running = torch.zeros_like(following)
    for step in reversed(range(len(found))):
        alive = ~kept["end"][step]
        error = kept["reward"][step] + following * alive - kept["value"][step]
        running = error + gae_lambda * running * alive
        found[step], following = running, kept["value"][step]
    return found


def update(policy: SessionNetwork, optimizer: torch.optim.Optimizer, kept: Kept, settings: SessionSettings) -> float:
    """Take the clipped steps of PPO on a rollout; returns the mean loss."""
    gains = advantages(kept, settings.gae_lambda)
    targets = gains + kept["value"]
    free = kept["mask"].sum(-1) > 1  # a step with one allowed action teaches the actor nothing
    gains = (gains - gains[free].mean()) / (gains[free].std() + 1e-8) * free
    kept = {**kept, "gains": gains, "targets": targets}
    steps, count = gains.shape
    recurrent = "first" in kept
    # sequences are whole where there is a memory; else every decision stands for itself
    flat = {} if recurrent else {name: part.flatten(0, 1) for name, part in kept.items() if name != "last"}
    size = max(1, settings.batch_size // steps) if recurrent else settings.batch_size
    losses = []
    for _ in range(settings.n_epochs):
        for part in torch.randperm(count if recurrent else steps * count).split(size):
            if recurrent:
                some = {name: each[:, part] for name, each in kept.items() if name not in ("last", "first")}
                memory = _memories(policy, some, kept["first"][part]).flatten(0, 1)
                some = {name: each.flatten(0, 1) for name, each in some.items()}
            else:
                some, memory = {name: each[part] for name, each in flat.items()}, None
            seen = {name: some[name] for name in ("tools", "query", "resources")}
            logits, value = policy(seen, some["left"], some["mask"], memory)
            chances = logits.log_softmax(-1)
            ratio = (chances.gather(1, some["action"][:, None])[:, 0] - some["before"]).exp()
            clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
            actor = -torch.min(ratio * some["gains"], clipped * some["gains"]).mean()
            entropy = -(chances.exp() * chances.where(some["mask"], torch.zeros(()))).sum(-1).mean()
            loss = actor + 0.5 * (value - some["targets"]).square().mean() - settings.ent_coef * entropy
            optimizer.zero_grad()
            loss.backward()
            losses.append(float(loss.detach()))
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
    return sum(losses) / len(losses)


def _memories(policy: SessionNetwork, some: Kept, memory: Tensor) -> Tensor:
    """(S, B, tools, width) the memory at each step of sequences, from the one that was kept at the first."""
    found = [memory]
    ended = policy.ended(some, some["slots"])
    for step in range(1, len(ended)):
        memory = memory * ~some["began"][step][:, None, None]
        memory = policy.updated(memory, ended[step], some["slots"][step], some["called"][step])
        found.append(memory)
    return torch.stack(found)


def measure(policy: SessionNetwork, split: str, count: int) -> NDArray[np.float64]:
    """Value shares of the first sessions of a split, played side by side with the most likely actions."""
    env: Any = make_on_device(SESSION, count, "cpu", split=split, memory=policy.memory)
    numbers = make(SESSION, split=split).unwrapped.numbers[:count]  # type: ignore[attr-defined]
    infos = []
    for i, number in enumerate(numbers):
        seen, info = env.reset(seed=[0] * count, options={"task": number, "reset_mask": np.arange(count) == i})
        infos.append({name: torch.as_tensor(info[name])[i] for name in info if not name.startswith("_")})
    info = {name: torch.stack([each[name] for each in infos]) for name in infos[0]}
    watching = Watching(policy, count, seen["tools"].shape[1])
    shares, over = np.zeros(count), np.zeros(count, np.bool_)
    while not over.all():
        with torch.no_grad():
            left, mask = watching.see(seen, info)
            action = policy(seen, left, mask, watching.memory)[0].argmax(-1)
        watching.did(action)
        seen, _, terminated, truncated, info = env.step(action)
        ended = (terminated | truncated).numpy() & ~over
        shares[ended] = info["value_share"].numpy()[ended]
        over |= ended
    env.close()
    return shares
