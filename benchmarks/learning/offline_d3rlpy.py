"""Compare our conservative Q-learning with d3rlpy's on one dataset of sessions: flat observations, masks in play alone.

    PYTHONPATH=FOLDER python benchmarks/learning/offline_d3rlpy.py --json benchmarks/results/baselines/d3rlpy.json

FOLDER holds d3rlpy 2.8.1, which asks for another Gymnasium than ours and so is no dependency (`pip install --target`).
Both learn from the same decisions by the same network, batches, learning rate, discount and weight of the regulariser. Ours
follows with its target network at every update, and presses down allowed actions alone; d3rlpy knows no masks. d3rlpy copies
its target every 100 updates.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from costgym.agents.base import SESSION_1
from costgym.envs.wrappers import DictLayout
from costgym.experiments.baselines import offline
from costgym.experiments.baselines.methods import BatchAgent, measure, open_env
from costgym.experiments.baselines.recorded import Transitions, best, of_dataset

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

WEIGHT, COPIED_EVERY = offline.SESSION_CONSERVATISM, 100


def theirs(data: Transitions, updates: int, seed: int) -> Any:
    """A function of observations (N, ...), by d3rlpy's trained values."""
    import d3rlpy

    d3rlpy.seed(seed)
    dataset = d3rlpy.dataset.MDPDataset(
        data.seen, data.actions, data.rewards, data.ended, action_space=d3rlpy.ActionSpace.DISCRETE, action_size=26
    )
    encoder = d3rlpy.models.VectorEncoderFactory([offline.HIDDEN, offline.HIDDEN])
    settings = {"learning_rate": offline.LEARNING_RATE, "batch_size": offline.BATCH, "gamma": 1.0, "alpha": WEIGHT}
    config = d3rlpy.algos.DiscreteCQLConfig(encoder_factory=encoder, target_update_interval=COPIED_EVERY, **settings)
    learner = config.create(device="cpu:0")
    learner.fit(
        dataset, n_steps=updates, n_steps_per_epoch=updates, show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(), save_interval=updates,
    )  # fmt: skip

    def values(seen: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            scores: NDArray[np.float32] = learner.impl.modules.q_funcs[0](torch.from_numpy(seen)).q_value.numpy()
        return scores

    return values


def ours(data: Transitions, updates: int, seed: int) -> Any:
    """The same by our update, on the flat network."""
    flat = data._replace(rules=None)
    torch.manual_seed(seed)
    policy = offline._network(flat, flat.masks.shape[1])
    update, chance = offline._conservative_q(policy, flat, WEIGHT), np.random.default_rng(seed)
    for _ in range(updates):
        drawn = chance.integers(0, len(flat.actions), offline.BATCH)
        update([torch.from_numpy(part[drawn]) for part in flat.arrays])

    def values(seen: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            scores: NDArray[np.float32] = policy(torch.from_numpy(seen)).numpy()
        return scores

    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="costgym/sessions-v1/mixed-flat-v0")
    parser.add_argument("--updates", type=int, default=2_000)
    parser.add_argument("--sessions", type=int, default=300, help="of test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data, env = of_dataset(given.dataset, SESSION_1), open_env(SESSION_1, "", "test")
    layout, rows = DictLayout(env.observation_space), []
    for name, train in (("ours", ours), ("d3rlpy", theirs)):
        begin = time.process_time()
        values = train(data, given.updates, given.seed)
        seconds = round(time.process_time() - begin, 1)

        def act(observation: Any, info: Any, begins: Any, values: Any = values) -> NDArray[np.int64]:
            return best(values(layout.flat(observation)), observation, info["action_mask"], data.rules)

        rows.append({"learner": name, **measure(env, BatchAgent(act, SESSION_1), given.sessions)})
        rows[-1] |= {"seconds": seconds}
        print(rows[-1], flush=True)
    report = {"dataset": given.dataset, "updates": given.updates, "weight": WEIGHT, "sessions": given.sessions, "rows": rows}
    write_report(report, given.json, ("numpy", "gymnasium", "torch"))


if __name__ == "__main__":
    main()
