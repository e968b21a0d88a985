"""Estimate from recorded sessions what other policies would earn, and compare the estimates with what they do earn.

    python benchmarks/learning/evaluation.py --root build/datasets --json benchmarks/results/sessions_evaluation.json

The datasets are `costgym/sessions-v1/mixed-v0` and `medium-v0`, built where they are missing. A target plays what a rule
chooses, but with a chance of epsilon any allowed action, so the probabilities of its actions are known. Its true value is the
mean return of plays of the recorded sessions under fresh luck. Fitted Q evaluation (FQE) learns the values of all targets in
one network with a head for each; the doubly robust estimates use it too, fitted on the same sessions. No setting was chosen by
an estimate's error.

Sources: Le, Voloshin and Yue 2019 (FQE); Precup, Sutton and Singh 2000 (importance sampling, by trajectory and by decision,
weighted or not); Jiang and Li 2016, equation 10 (DR); Thomas and Brunskill 2016, section 5 (WDR).
"""

import argparse
import copy
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor, nn

from costgym.agents import make_agent
from costgym.agents.seat import begin
from costgym.agents.sessions.soft import SoftAgent
from costgym.experiments.play.named.build import build, folder_of, load
from costgym.experiments.play.named.catalogue import SESSION_1
from costgym.experiments.play.trajectories.record import played

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

Array = NDArray[Any]
TARGETS = {
    "random": ("greedy", 1.0),
    "greedy, 0.2": ("greedy", 0.2),
    "bayes-index, 0.2": ("bayes-index", 0.2),
    "paced, 0.5": ("paced", 0.5),
    "paced, 0.2": ("paced", 0.2),
    "optimistic, 0.2": ("optimistic", 0.2),
    "tuned, 0.2": ("tuned", 0.2),
    "tuned, 0.05": ("tuned", 0.05),
}
"""The rule of each target, and its epsilon."""
METHODS = ("mean of the data", "IS", "WIS", "PDIS", "PDWIS", "FQE", "DR", "WDR")
HORIZONS = (5, 10, 20, 50)
FRESH_SEED = 9_000_000  # of the plays that make the true values; datasets have other seeds
UNIT = 20.0  # credits, the most that a query is worth
BATCH, RATE, TARGET_RATE, HIDDEN = 256, 1e-3, 0.03, 64
RESAMPLES = 500


def targets() -> list[SoftAgent]:
    return [SoftAgent(make_agent(rule, SESSION_1), epsilon) for rule, epsilon in TARGETS.values()]


def read(name: str, root: Path) -> tuple[dict[str, Array], list[int]]:
    """The decisions of a dataset and the numbers of its sessions. Each is replayed, for the targets follow it step by step.

    Of D decisions: `tools` (D, k, columns), the tools that serve; `state` (D, columns); `chances` (D, targets, k + 2), of those
    tools, of memory and of leaving; `action` (D,) among them; `reward`, `behaviour` (D,), a log-probability; `ended` (D,).
    """
    dataset = load(name, root)
    env, agents = dataset.recover_environment(), targets()
    parts: dict[str, list[Any]] = {}
    numbers = []
    records = dataset.storage.get_episode_metadata(range(dataset.total_episodes))
    for about, episode in zip(records, dataset.iterate_episodes(), strict=True):
        numbers.append(int(about["options"]["task"]))
        observation, info = env.reset(seed=int(about["seed"]), options={"task": numbers[-1]})
        for agent in agents:
            begin(agent, env, observation, info, 0)
        for step, action in enumerate(map(int, episode.actions)):
            chances = np.stack([agent.probabilities(observation, info) for agent in agents])
            rows = serving(observation["tools"])
            slots = np.append(rows, [len(observation["tools"]), len(observation["tools"]) + 1])
            for agent in agents:
                agent.took(action)
            decision = {
                "tools": observation["tools"][rows],
                "state": np.concatenate([observation["query"], observation["resources"]]),
                "chances": chances[:, slots],
                "action": int(np.flatnonzero(slots == action)[0]),
                "behaviour": episode.infos["log_probabilities"][step],
            }
            observation, reward, terminated, truncated, info = env.step(action)
            assert reward == episode.rewards[step], f"{name}: the replay differs from the record; build the dataset again"
            for key, value in {**decision, "reward": reward / UNIT, "ended": terminated or truncated}.items():
                parts.setdefault(key, []).append(value)
    return {key: np.asarray(values, np.float32 if key in FLOATS else None) for key, values in parts.items()}, numbers


FLOATS = ("tools", "state", "chances", "reward")
SERVES, SERVING = 6, 6  # column of the observation's tools, and how many serve a query at the level `medium`


def serving(tools: Array) -> Array:
    """The slots of the tools that serve the present query, which alone may be called."""
    rows: Array = np.argsort(-tools[:, SERVES], kind="stable")[:SERVING]
    assert tools[:, SERVES].sum() <= SERVING
    return rows


class Values(nn.Module):  # type: ignore[misc, unused-ignore]
    """The value of each action to each target, (B, targets, k + 2); in proportion to the queries that are left."""

    def __init__(self, columns: int, state: int, heads: int) -> None:
        super().__init__()
        self.tool = nn.Sequential(nn.Linear(columns + state + 1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(2 * HIDDEN + state, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.call, self.others = nn.Linear(2 * HIDDEN, heads), nn.Linear(HIDDEN, 2 * heads)

    def forward(self, tools: Tensor, state: Tensor) -> Tensor:
        left, credits = state[:, 8:9], torch.expm1(state[:, 17:18] * np.log(100_001.0))
        share = (UNIT * tools[..., 0].clamp_min(1e-3)).log() - (credits.clamp_min(1e-2) / (100.0 * left + 1.0)).log()
        wide = state[:, None].expand(-1, tools.shape[1], -1)
        h = self.tool(torch.cat([tools, share[..., None], wide], -1))
        context = self.all(torch.cat([h.mean(1), h.amax(1), state], -1))
        calls = self.call(torch.cat([h, context[:, None].expand_as(h)], -1)).transpose(1, 2)
        others = self.others(context).unflatten(-1, (-1, 2))
        return torch.cat([calls, others], -1) * UNIT * left[..., None]


def fitted(data: dict[str, Array], seed: int, updates: int) -> tuple[Array, Array]:
    """Fit the values of all targets; returns Q of the actions taken and V, (decisions, targets)."""
    torch.manual_seed(seed)
    held = {key: torch.from_numpy(values) for key, values in data.items()}
    network = Values(held["tools"].shape[-1], held["state"].shape[-1], len(TARGETS))
    slow = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for _ in range(updates):
        drawn = torch.randint(len(data["action"]), (BATCH,))
        following = (drawn + 1).clamp_max(len(data["action"]) - 1)
        with torch.no_grad():
            values = (slow(held["tools"][following], held["state"][following]) * held["chances"][following]).sum(-1)
            wanted = held["reward"][drawn, None] + values * ~held["ended"][drawn, None]
        loss = nn.functional.smooth_l1_loss(taken(network, held, drawn), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        for old, new in zip(slow.parameters(), network.parameters(), strict=True):
            old.data.lerp_(new.data, TARGET_RATE)
    rows = torch.arange(len(data["action"])).split(4096)
    with torch.no_grad():
        chosen = torch.cat([taken(network, held, part) for part in rows])
        state = [(network(held["tools"][part], held["state"][part]) * held["chances"][part]).sum(-1) for part in rows]
    return chosen.numpy().astype(np.float64), torch.cat(state).numpy().astype(np.float64)


def taken(network: Values, held: dict[str, Tensor], rows: Tensor) -> Tensor:
    """(B, targets) values of the actions that were taken."""
    slots = held["action"][rows, None, None].expand(-1, len(TARGETS), 1)
    return network(held["tools"][rows], held["state"][rows]).gather(-1, slots)[..., 0]


def by_session(column: Array, ended: Array, after: str = "zero") -> Array:
    """A column of decisions as (sessions, steps), padded with 0, or with the last value where `after` is "last"."""
    ends = np.flatnonzero(ended) + 1
    parts = np.split(column, ends[:-1])
    padded = np.zeros((len(parts), max(map(len, parts))))
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
        row[len(part) :] = part[-1] if after == "last" else 0.0
    return padded


def weights(data: dict[str, Array], target: int) -> Array:
    """(sessions, steps) product of the ratios of probabilities up to each decision."""
    chance = data["chances"][np.arange(len(data["action"])), target, data["action"]].astype(np.float64)
    with np.errstate(divide="ignore"):
        ratios = np.log(chance) - data["behaviour"]
    return np.exp(np.cumsum(by_session(ratios, data["ended"]), axis=1))


def estimates(counts: Array, weight: Array, reward: Array, q: Array, v: Array) -> dict[str, float]:
    """All estimates of one target from sessions that are drawn `counts` times; arrays (sessions, steps). In credits."""
    n, total = counts.sum(), reward.sum(axis=1)
    sums = np.maximum(counts @ weight, 1e-300)  # (steps,)
    following = np.concatenate([v[:, 1:], np.zeros((len(v), 1))], axis=1)
    surprise = reward + following - q
    first = counts @ v[:, 0] / n
    by_method = {
        "mean of the data": counts @ total / n,
        "IS": counts @ (weight[:, -1] * total) / n,
        "WIS": counts @ (weight[:, -1] * total) / sums[-1],
        "PDIS": (counts @ (weight * reward)).sum() / n,
        "PDWIS": (counts @ (weight * reward) / sums).sum(),
        "FQE": first,
        "DR": first + (counts @ (weight * surprise)).sum() / n,
        "WDR": first + (counts @ (weight * surprise) / sums).sum(),
    }
    return {name: UNIT * float(value) for name, value in by_method.items()}


def true_returns(name: str, root: Path, numbers: list[int], plays: int) -> list[Array]:
    """The rewards of each target, (plays, steps), in the sessions of a dataset under fresh seeds."""
    env = load(name, root).recover_environment().unwrapped
    sessions = sorted(set(numbers))
    rewards_of_targets = []
    for agent in targets():
        rewards = []
        for index in range(plays):
            repeat, position = divmod(index, len(sessions))
            steps = played(env, agent, sessions[position], FRESH_SEED + repeat)
            rewards.append([step.reward for step in steps][1:])
        padded = np.zeros((plays, max(map(len, rewards))))
        for row, part in zip(padded, rewards, strict=True):
            row[: len(part)] = part
        rewards_of_targets.append(padded)
    return rewards_of_targets


def agreement(estimated: Array, true: Array) -> tuple[float, float]:
    """Spearman's correlation of estimates (targets,) with true values, and the mean absolute error."""
    same = np.ptp(estimated) < 1e-9
    return (float("nan") if same else float(spearmanr(estimated, true)[0])), float(np.abs(estimated - true).mean())


def compare(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """All estimates from a dataset beside the true values."""
    if not folder_of(name, args.root).exists():
        build(name, args.root, args.episodes)
    began = time.process_time()
    data, numbers = read(name, args.root)
    truth = true_returns(name, args.root, numbers, args.plays)
    true = np.array([rewards.sum(axis=1).mean() for rewards in truth])
    played_s = time.process_time() - began
    reward, ended = by_session(data["reward"], data["ended"]), data["ended"]
    weight = [weights(data, target) for target in range(len(TARGETS))]
    generator = np.random.Generator(np.random.Philox(0))
    draws = [np.ones(len(reward)), *generator.multinomial(len(reward), np.full(len(reward), 1 / len(reward)), args.resamples)]
    estimated = np.zeros((args.seeds, len(draws), len(TARGETS), len(METHODS)))
    for seed in range(args.seeds):
        q, v = fitted(data, seed, args.updates)
        for target in range(len(TARGETS)):
            both = by_session(q[:, target], ended), by_session(v[:, target], ended)
            for draw, counts in enumerate(draws):
                row = estimates(counts.astype(np.float64), weight[target], reward, *both)
                estimated[seed, draw, target] = [row[method] for method in METHODS]
        print(f"{name} seed {seed}: {time.process_time() - began:.0f} s", flush=True)
    return {
        "dataset": name,
        "sessions": len(reward),
        "decisions": len(ended),
        "targets": [
            about(label, target, truth[target], estimated, weight[target], reward) for target, label in enumerate(TARGETS)
        ],
        "methods": [summary(method, estimated[..., number], true) for number, method in enumerate(METHODS)],
        "play_s": round(played_s, 1),
        "fit_s": round(time.process_time() - began - played_s, 1),
    }


def about(label: str, target: int, plays: Array, estimated: Array, weight: Array, reward: Array) -> dict[str, Any]:
    """The true value of a target with its interval, the estimates over seeds, and effective numbers of sessions by horizon."""
    total = plays.sum(axis=1)
    row: dict[str, Any] = {
        "target": label,
        "true": round(float(total.mean()), 2),
        "half": round(1.96 * float(total.std(ddof=1)) / len(total) ** 0.5, 2),
        "estimates": {method: round(float(estimated[:, 0, target, i].mean()), 2) for i, method in enumerate(METHODS)},
        "horizons": [],
    }
    for steps in (*HORIZONS, weight.shape[1]):
        last = weight[:, min(steps, weight.shape[1]) - 1]
        part = UNIT * weight[:, :steps] * reward[:, :steps]
        row["horizons"].append({
            "steps": steps,
            "effective_sessions": round(float(last.sum() ** 2 / max((last**2).sum(), 1e-300)), 2),
            "true": round(float(plays[:, :steps].sum(axis=1).mean()), 2),
            "PDIS": round(float(part.sum(axis=1).mean()), 2),
            "PDWIS": round(float((part.sum(axis=0) / np.maximum(weight[:, :steps].sum(axis=0), 1e-300)).sum()), 2),
        })  # fmt: skip
    return row


def summary(method: str, estimated: Array, true: Array) -> dict[str, Any]:
    """How well a method's estimates (seeds, draws, targets) agree: means over seeds, and 95 % of resamples and seeds."""
    whole = np.array([agreement(estimate, true) for estimate in estimated[:, 0]])
    again = np.array([agreement(estimate, true) for estimate in estimated[:, 1:].reshape(-1, len(true))])
    row: dict[str, Any] = {"method": method}
    for column, name in enumerate(("rank_correlation", "mean_absolute_error")):
        if np.isnan(whole[:, column]).any():
            row |= {name: None, f"{name}_interval": None}
            continue
        row[name] = round(float(whole[:, column].mean()), 3)
        row[f"{name}_interval"] = [round(float(part), 3) for part in np.nanquantile(again[:, column], (0.025, 0.975))]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["costgym/sessions-v1/mixed-v0", "costgym/sessions-v1/medium-v0"])
    parser.add_argument("--root", type=Path, default=Path("build/datasets"))
    parser.add_argument("--episodes", type=int, help="sessions of a dataset that is built, for a trial")
    parser.add_argument("--plays", type=int, default=480, help="sessions behind each true value")
    parser.add_argument("--updates", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [compare(name, args) for name in args.names]
    settings = {name: getattr(args, name) for name in ("plays", "updates", "seeds", "resamples")}
    write_report({"settings": settings, "datasets": rows}, args.json, ("torch", "minari"))


if __name__ == "__main__":
    main()
