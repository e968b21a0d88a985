"""Learn to play sessions from a named dataset alone: conservative Q-learning and cloning, both under the mask; in one file.

    python benchmarks/learning/offline_sessions.py choose
    python benchmarks/learning/offline_sessions.py test --seeds 3 --json benchmarks/results/sessions_offline.json

The dataset is `costgym/sessions/mixed-v0`, built where it is missing: a third each of `random`, `paced` and `informed-paced`.
Values are read from the network of sessions: the state's value, and an advantage for each action. `choose`
compares weights of the regulariser on 100 sessions of `valid`. `test` trains with the chosen one and plays the sessions of
`test` once, beside `paced`.

Source: Kumar, Zhou, Tucker and Levine 2020, equation 4; van Hasselt, Guez and Silver 2016.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from costgym.agents.base import SESSION
from costgym.agents.checkpoints import save_checkpoint
from costgym.agents.sessions.learnt import SessionConfig
from costgym.agents.sessions.network import LEFT, SessionNetwork
from costgym.agents.settings import CONFIG
from costgym.experiments.play.named.build import build, folder_of, load
from costgym.simulators.errors import require

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.learning.sessions import references
from benchmarks.report import write_report

DATASET = "costgym/sessions/mixed-v0"
BATCH, RATE, TARGET_RATE, SCALE = 512, 1e-3, 0.005, 1 / 20
WEIGHTS = (0.1, 0.3, 1.0)
WEIGHT = 0.1
"""Weight of the regulariser: 0.351 of the value on 100 valid sessions; 0.342 with 0.3 and 0.325 with 1.0, `paced` 0.325."""


def data() -> dict[str, Tensor]:
    """The decisions of the dataset, with the observation that followed each."""
    require("minari", "data")
    if not folder_of(DATASET).exists():
        build(DATASET)
    parts: dict[str, list[np.ndarray]] = {}
    for episode in load(DATASET).iterate_episodes():
        both = {**episode.observations, "mask": episode.infos["action_mask"]}
        both["left"] = np.stack([episode.infos[name] for name in LEFT], -1).astype(np.float32)
        for name, part in both.items():
            parts.setdefault(name, []).append(part[:-1])
            parts.setdefault(f"next {name}", []).append(part[1:])
        for name in ("actions", "rewards"):
            parts.setdefault(name, []).append(np.asarray(getattr(episode, name)))
        parts.setdefault("ended", []).append(np.asarray(episode.terminations) | np.asarray(episode.truncations))
    return {name: torch.from_numpy(np.concatenate(part)) for name, part in parts.items()}


def row(name: str, shares: np.ndarray, paced: np.ndarray) -> dict[str, Any]:
    """The mean share of the value and what it is above `paced` in pairs, with half-widths of 95 % intervals."""
    ahead = shares - paced
    half, half_ahead = (1.96 * float(each.std(ddof=1)) / len(each) ** 0.5 for each in (shares, ahead))
    print(f"{name:16} {shares.mean():.4f} ± {half:.4f}   above paced {ahead.mean():+.4f} ± {half_ahead:.4f}", flush=True)
    figures = {"value_share": float(shares.mean()), "half": half, "above_paced": float(ahead.mean()), "half_above": half_ahead}
    return {"agent": name, **{key: round(value, 4) for key, value in figures.items()}}


def measure(network: SessionNetwork, split: str, sessions: int) -> np.ndarray:
    """The shares of a network on the first sessions of a split."""
    with TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), 1, network.state_dict(), {}, {})
        (Path(folder) / CONFIG).write_text(SessionConfig(settings={}, network=network.describe()).model_dump_json())
        return references(SESSION, split, sessions, (f"sessions:{folder}",))[f"sessions:{folder}"]


def scores(network: SessionNetwork, batch: dict[str, Tensor], when: str = "") -> Tensor:
    """Values of the actions (B, A), far below all others where the mask forbids."""
    seen = {name: batch[when + name] for name in ("tools", "query", "resources")}
    mask = batch[f"{when}mask"]
    advantages, value = network(seen, batch[f"{when}left"], mask)
    mean = advantages.where(mask, torch.zeros(())).sum(-1) / mask.sum(-1)
    return advantages + (value - mean)[:, None]


def learn(found: dict[str, Tensor], method: str, weight: float, seed: int, updates: int) -> tuple[SessionNetwork, float]:
    """Train a policy; returns it, and the seconds of processor time."""
    torch.manual_seed(seed)
    began = time.process_time()
    network, target = SessionNetwork(), SessionNetwork()
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for _ in range(updates):
        drawn = torch.randint(len(found["actions"]), (BATCH,))
        batch = {name: part[drawn] for name, part in found.items()}
        action = batch["actions"][:, None].long()
        values = scores(network, batch)
        chosen = values.gather(1, action)[:, 0]
        loss = (values.logsumexp(-1) - chosen).mean()
        if method == "cql":
            with torch.no_grad():
                best = scores(network, batch, "next ").argmax(-1, keepdim=True)
                after = scores(target, batch, "next ").gather(1, best)[:, 0]
                wanted = SCALE * batch["rewards"].float() + after * ~batch["ended"]
            loss = weight * loss + 0.5 * (chosen - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for kept, moved in zip(target.parameters(), network.parameters(), strict=True):
                kept.lerp_(moved, TARGET_RATE)
    return network, round(time.process_time() - began, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("choose", "test"))
    parser.add_argument("--updates", type=int, default=2_500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=300, help="of test")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = data()
    if args.what == "choose":
        for weight in WEIGHTS:
            network, seconds = learn(found, "cql", weight, 0, args.updates)
            print(weight, round(float(measure(network, "valid", 100).mean()), 4), seconds, flush=True)
        return
    paced = references(SESSION, "test", args.sessions, ("paced",))["paced"]
    rows: list[dict[str, Any]] = [row("paced", paced, paced)]
    for method in ("bc", "cql"):
        for seed in range(args.seeds):
            network, seconds = learn(found, method, WEIGHT, seed, args.updates)
            shares = measure(network, "test", args.sessions)
            rows.append({**row(f"{method} seed-{seed}", shares, paced), "seconds": seconds})
    report = {"dataset": DATASET, "decisions": len(found["actions"]), "updates": args.updates, "weight": WEIGHT, "rows": rows}
    write_report(report, args.json, ("numpy", "gymnasium", "torch", "minari"))


if __name__ == "__main__":
    main()
