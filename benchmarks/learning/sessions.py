"""Learn to play sessions with feed-forward PPO on counted features, on the native batch; in CleanRL's manner.

    python benchmarks/learning/sessions.py train --out runs/sessions --seeds 5 --minutes 5
    python benchmarks/learning/sessions.py test --out runs/sessions --json benchmarks/results/sessions_ppo.json
    python benchmarks/learning/sessions.py refusals --json benchmarks/results/sessions_refusals.json
    python benchmarks/learning/sessions.py stock --minutes 5 --json benchmarks/results/sessions_stock.json

`train` learns from `train` sessions and measures on 100 sessions of `valid` between updates, which chooses the weights that are
kept. `test` plays the weights of all seeds on the sessions of `test` beside the references; `--plot` draws the learning curves.
`refusals` plays `zoo:sessions` as it is, and with each tool masked for the rest of the query in which it refused a call.
`stock` is sb3-contrib's `MaskablePPO` with its `MultiInputPolicy` and default settings, but for a discount of 0.995, rollouts
of 512 steps in 8 environments and rewards divided by 20. Minutes are of processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION, Agent
from costgym.agents.checkpoints import load_weights, newest, save_checkpoint
from costgym.agents.registry import FunctionAgent
from costgym.agents.sessions.learnt import SessionConfig
from costgym.agents.sessions.network import SessionNetwork, left_of
from costgym.agents.settings import CONFIG
from costgym.experiments.play.rollout import play
from costgym.simulators.status import Status

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

ENVS, STEPS, EPOCHS, MINIBATCH = 256, 64, 4, 2048
RATE, LAST_RATE, LAMBDA, CLIP, ENTROPY, SCALE = 1e-3, 0.05, 0.97, 0.2, 0.01, 1 / 50
CURVE, DONE = "curve.jsonl", "metrics.json"
VALID = 100  # sessions
EVERY = 10  # updates between two measurements on valid
REFERENCES = ("greedy", "bayes-index", "paced", "optimistic", "informed-paced")


class Rollout:
    """Sessions that are played for ever, by a policy that is given at each call."""

    def __init__(self, seed: int) -> None:
        self.env = costgym.make_vec(SESSION, ENVS, autoreset_mode="SameStep", tensors=True, split="train")
        self.seen, self.info = self.env.reset(seed=seed * 1_000_003)

    def play(self, policy: SessionNetwork) -> dict[str, Any]:
        kept: dict[str, list[Tensor]] = {}
        for _ in range(STEPS):
            left, mask = left_of(self.info), self.info["action_mask"]
            with torch.no_grad():
                logits, value = policy(self.seen, left, mask)
            chances = logits.log_softmax(-1)
            action = torch.multinomial(chances.exp(), 1)[:, 0]
            now = {**self.seen, "left": left, "mask": mask, "action": action, "value": value}
            now["before"] = chances.gather(1, action[:, None])[:, 0]
            self.seen, reward, terminated, truncated, self.info = self.env.step(action)
            now |= {"reward": SCALE * reward.float(), "end": terminated | truncated}
            for name, part in now.items():
                kept.setdefault(name, []).append(part)
        with torch.no_grad():
            last = policy(self.seen, left_of(self.info), self.info["action_mask"])[1]
        return {**{name: torch.stack(parts) for name, parts in kept.items()}, "last": last}


def advantages(kept: dict[str, Any]) -> Tensor:
    """Generalised advantage estimates without discount, (S, N)."""
    found, running, following = torch.zeros_like(kept["reward"]), torch.zeros(ENVS), kept["last"]
    for step in reversed(range(STEPS)):
        alive = ~kept["end"][step]
        error = kept["reward"][step] + following * alive - kept["value"][step]
        running = error + LAMBDA * running * alive
        found[step], following = running, kept["value"][step]
    return found


def update(policy: SessionNetwork, optimizer: torch.optim.Optimizer, kept: dict[str, Any]) -> None:
    gains = advantages(kept)
    flat = {name: part.flatten(0, 1) for name, part in kept.items() if name != "last"}
    targets, gains = (gains + kept["value"]).flatten(), gains.flatten()
    free = flat["mask"].sum(-1) > 1  # a step with one allowed action teaches the actor nothing
    gains = (gains - gains[free].mean()) / (gains[free].std() + 1e-8) * free
    for _ in range(EPOCHS):
        for part in torch.randperm(len(gains)).split(MINIBATCH):
            seen = {name: flat[name][part] for name in ("tools", "query", "resources")}
            logits, value = policy(seen, flat["left"][part], flat["mask"][part])
            chances = logits.log_softmax(-1)
            ratio = (chances.gather(1, flat["action"][part, None])[:, 0] - flat["before"][part]).exp()
            actor = -torch.min(ratio * gains[part], ratio.clamp(1 - CLIP, 1 + CLIP) * gains[part]).mean()
            entropy = -(chances.exp() * chances.where(flat["mask"][part], torch.zeros(()))).sum(-1).mean()
            loss = actor + 0.5 * (value - targets[part]).square().mean() - ENTROPY * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


def measure(policy: SessionNetwork, split: str, count: int) -> np.ndarray:
    """Value shares of the first sessions of a split, played side by side with the most likely actions."""
    env = costgym.make_vec(SESSION, count, tensors=True, split=split)
    numbers = costgym.make(SESSION, split=split).unwrapped.numbers[:count]  # type: ignore[attr-defined]
    left = torch.zeros(count, 2)
    for i, number in enumerate(numbers):
        seen, info = env.reset(seed=[0] * count, options={"task": number, "reset_mask": np.arange(count) == i})
        left[i] = left_of(info)[i]  # of the others it says nothing
    mask = torch.as_tensor(env.unwrapped.action_masks())  # type: ignore[attr-defined]
    shares, over = np.zeros(count), np.zeros(count, np.bool_)
    while not over.all():
        with torch.no_grad():
            action = policy(seen, left, mask)[0].argmax(-1)
        seen, _, terminated, truncated, info = env.step(action)
        left, mask = left_of(info), info["action_mask"]
        ended = (terminated | truncated).numpy() & ~over
        shares[ended] = info["value_share"].numpy()[ended]
        over |= ended
    return shares


def train(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for seed in range(given.seed, given.seed + given.seeds):
        if not (given.out / f"seed-{seed}" / DONE).exists():
            learn(seed, given.minutes, given.out / f"seed-{seed}")


def learn(seed: int, minutes: float, folder: Path) -> None:
    """Train one policy, and keep the weights that did best on `valid`."""
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    policy = SessionNetwork()
    optimizer = torch.optim.Adam(policy.parameters(), RATE, eps=1e-5)
    settings = {
        "seed": seed,
        "minutes": minutes,
        "envs": ENVS,
        "steps": STEPS,
        "epochs": EPOCHS,
        "minibatch": MINIBATCH,
        "rate": RATE,
        "last_rate": LAST_RATE,
        "lambda": LAMBDA,
        "clip": CLIP,
        "entropy": ENTROPY,
        "scale": SCALE,
    }
    (folder / CONFIG).write_text(SessionConfig(settings=settings, network=policy.describe()).model_dump_json(indent=1))
    rollout = Rollout(seed)
    curve: list[dict[str, float]] = []
    began, number = time.process_time(), 0
    while (done := (time.process_time() - began) / (60.0 * minutes)) < 1.0:
        optimizer.param_groups[0]["lr"] = RATE * (1.0 - (1.0 - LAST_RATE) * done)
        update(policy, optimizer, rollout.play(policy))
        number += 1
        if number % EVERY == 0:
            share = float(measure(policy, "valid", VALID).mean())
            if share > max((row["value_share"] for row in curve), default=0.0):
                save_checkpoint(folder, number * ENVS * STEPS, policy.state_dict(), {}, {"value_share": share})
            used = (time.process_time() - began) / 60.0
            curve.append({"minutes": round(used, 3), "steps": number * ENVS * STEPS, "value_share": round(share, 4)})
            print(seed, json.dumps(curve[-1]), flush=True)
            (folder / CURVE).write_text("".join(f"{json.dumps(row)}\n" for row in curve))
    best = max(curve, key=lambda row: row["value_share"])
    (folder / DONE).write_text(json.dumps({**best, "minutes": curve[-1]["minutes"]}))


def row(name: str, shares: np.ndarray, paced: np.ndarray) -> dict[str, Any]:
    """The mean share of the value and what it is above `paced` in pairs, with half-widths of 95 % intervals."""
    ahead = shares - paced
    half, half_ahead = (1.96 * float(each.std(ddof=1)) / len(each) ** 0.5 for each in (shares, ahead))
    print(f"{name:16} {shares.mean():.4f} ± {half:.4f}   above paced {ahead.mean():+.4f} ± {half_ahead:.4f}", flush=True)
    figures = {"value_share": float(shares.mean()), "half": half, "above_paced": float(ahead.mean()), "half_above": half_ahead}
    return {"agent": name, **{key: round(value, 4) for key, value in figures.items()}}


def references(sessions: int, split: str = "test") -> dict[str, np.ndarray]:
    """The shares of the rules on the first sessions of a split."""
    env = costgym.make(SESSION, split=split, disable_env_checker=True)
    numbers = env.unwrapped.numbers[:sessions]  # type: ignore[attr-defined]
    agents = {name: make_agent(name, SESSION) for name in REFERENCES}
    return {name: np.array([play(env, agent, n, 0).value_share for n in numbers]) for name, agent in agents.items()}


def test(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    found = references(given.sessions)
    rows, curves = [row(name, shares, found["paced"]) for name, shares in found.items()], {}
    for folder in sorted(given.out.glob("seed-*")):
        policy = SessionNetwork()
        load_weights(newest(folder), policy.state_dict())
        rows.append(row(f"ppo {folder.name}", measure(policy, "test", given.sessions), found["paced"]))
        curves[folder.name] = [json.loads(line) for line in (folder / CURVE).read_text().splitlines()]
    valid = {name: round(float(shares.mean()), 4) for name, shares in references(VALID, "valid").items()}
    report = {"sessions": given.sessions, "minutes": given.minutes, "rows": rows, "valid": valid, "curves": curves}
    write_report(report, given.json, ("numpy", "gymnasium", "torch"))
    if given.plot is not None:
        draw(report, given.plot)


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the learning curves beside the references."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 3.6))
    for name, curve in report["curves"].items():
        axes.plot([each["steps"] / 1e6 for each in curve], [each["value_share"] for each in curve], label=f"PPO, {name}")
    for name, line in zip(REFERENCES[2:], ("--", "-.", ":"), strict=True):
        axes.axhline(report["valid"][name], color="grey", linestyle=line, label=name)
    axes.set(xlabel="million steps", ylabel="share of the value, 100 sessions of valid", ylim=(0.15, 0.5))
    axes.legend(fontsize=8, ncols=2, loc="lower right")
    figure.tight_layout()
    figure.savefig(path)


class Asks(Agent):
    """An agent of the zoo; if it asks once, a tool that refused a call is masked until the next query."""

    env_id = SESSION

    def __init__(self, once: bool) -> None:
        self.inner, self.once, self.name = make_agent("zoo:sessions", SESSION), once, "zoo:sessions"
        self.calls, self.refused = [0], [0]

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.inner.reset(seat, observation, info, seed)
        self.shut, self.query, self.last = np.zeros(len(info["action_mask"]), np.bool_), -1, -1
        self.calls.append(0)
        self.refused.append(0)

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        if info["query"] != self.query:
            self.query, self.shut[:] = info["query"], False
        if self.last >= 0 and info["status"] in (Status.RATE_LIMITED, Status.QUOTA_EXCEEDED):
            self.refused[-1] += 1
            self.shut[self.last] = self.once
        action = int(self.inner.act(observation, {**info, "action_mask": info["action_mask"] & ~self.shut}))
        self.last = action if action < len(self.shut) - 2 else -1
        self.calls[-1] += self.last >= 0
        return action


def refusals(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    env = costgym.make(SESSION, split="test", disable_env_checker=True)
    numbers = env.unwrapped.numbers[: given.sessions]  # type: ignore[attr-defined]
    found, rows = {}, []
    for once in (False, True):
        agent = Asks(once)
        found[once] = np.array([play(env, agent, number, 0).value_share for number in numbers])
        calls, refused, gain = np.array(agent.calls[1:]), np.array(agent.refused[1:]), found[once] - found[False]
        counts = {"calls": calls.sum(), "refused": refused.sum(), "mostly_refused": (2 * refused > calls).sum()}
        figures = {"value_share": found[once].mean(), "gain": gain.mean(), "half": 1.96 * gain.std(ddof=1) / len(gain) ** 0.5}
        rows.append({"asks": "once" if once else "as it likes", **{name: int(n) for name, n in counts.items()}})
        rows[-1] |= {name: round(float(each), 4) for name, each in figures.items()}
        print(rows[-1], flush=True)
    write_report({"sessions": given.sessions, "rows": rows}, given.json, ("numpy", "gymnasium", "torch"))


def stock(given: argparse.Namespace) -> None:
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    def make_env() -> gym.Env[Any, Any]:
        env = costgym.make(SESSION, split="train", disable_env_checker=True, compiled=True)
        return gym.wrappers.TransformReward(env, lambda reward: reward / 20.0)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() - began < 60.0 * given.minutes

    env = make_vec_env(make_env, 8, given.seed)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=512, batch_size=256, gamma=0.995, seed=given.seed, device="cpu")
    began = time.process_time()
    model.learn(10**9, callback=Stop())

    def choose(observation: Any, info: dict[str, Any]) -> int:
        return int(model.predict(observation, action_masks=info["action_mask"], deterministic=True)[0])

    found, world = references(given.sessions), costgym.make(SESSION, split="test", disable_env_checker=True)
    agent, numbers = FunctionAgent(choose, SESSION), world.unwrapped.numbers[: given.sessions]  # type: ignore[attr-defined]
    found["stock PPO"] = np.array([play(world, agent, number, 0).value_share for number in numbers])
    rows = [row(name, shares, found["paced"]) for name, shares in found.items()]
    report = {
        "minutes": given.minutes,
        "steps": model.num_timesteps,
        "sessions": given.sessions,
        "seed": given.seed,
        "rows": rows,
    }
    write_report(report, given.json, ("numpy", "gymnasium", "stable_baselines3", "sb3_contrib", "torch"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "test", "refusals", "stock"))
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("sessions-ppo"))
    parser.add_argument("--sessions", type=int, default=300, help="of test")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="picture of the learning curves")
    given = parser.parse_args()
    {"train": train, "test": test, "refusals": refusals, "stock": stock}[given.what](given)


if __name__ == "__main__":
    main()
