"""Train learners on sessions under equal information, and compare what they earn with the tuned rule.

    python benchmarks/learning/sessions.py learn stock --minutes 3 --seeds 5 --shares stock_v1.json
    python benchmarks/learning/sessions.py learn stock --env costgym/MarketplaceSession-v0 --seeds 5 --shares stock_v0.json
    python benchmarks/learning/sessions.py learn tools --steps 3000000 --seeds 5 --out runs/sessions --shares tools_v1.json
    python benchmarks/learning/sessions.py rules --shares rules.json
    python benchmarks/learning/sessions.py compare rules.json stock_v1.json tools_v1.json --json sessions_learners.json

`stock` is sb3-contrib's `MaskablePPO` with its `MultiInputPolicy` and default settings, but for a discount of 0.995, rollouts
of 512 steps in 8 environments and rewards divided by 20. `recurrent` is its `RecurrentPPO`, which knows no mask: an action that
the mask forbids is refused and costs a step. `--settings` changes both, such as `{"n_envs": 64, "n_steps": 64}`. `torchrl` is
PPO by TorchRL's loss, estimator and masked distribution, with two layers. `tools` is `costgym train ppo`: MaskablePPO with a
network that reads tools as a set.

Sixty sessions of `valid` are played at regular times, which do not count. The policy that earned most there plays `valid`,
`test` and, of version 1, `shifted` once, by its likeliest actions. Minutes are of processor time; `tools` learns by decisions.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION, SESSION_1
from costgym.agents.checkpoints import load_weights, newest, save_checkpoint
from costgym.agents.sessions.network import SessionNetwork
from costgym.agents.settings import CONFIG
from costgym.experiments.play.episodes import play
from costgym.experiments.train.run import Callback, TrainingStep
from costgym.experiments.train.sb3.train import train_ppo

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.papers.presets import over_seeds
from benchmarks.report import write_report

SCALE = 1 / 20  # of rewards
VALID, CHECKS = 60, 5  # sessions of a check, and checks in a training
REFERENCES = ("tuned",)
OF_SB3: dict[str, Any] = {"n_envs": 8, "n_steps": 512, "batch_size": 256, "gamma": 0.995, "device": "cpu"}
Shares = NDArray[np.float64]
Seen = dict[str, NDArray[np.float32]]
Act = Callable[[Seen, NDArray[np.bool_], NDArray[np.bool_]], Any]
"""Observations (S, ...), masks (S, actions) and which sessions begin (S,), to actions (S,)."""


def shares(act: Act, env_id: str, split: str, sessions: int) -> Shares:
    """Play the first sessions of a split side by side under seed 0; return the share of the value of each, (S,)."""
    envs: Any = costgym.make_vec(env_id, sessions, split=split, autoreset_mode=AutoresetMode.NEXT_STEP)
    observation: Any = None
    for number, task in enumerate(envs.scalar.numbers[:sessions]):
        options = {"reset_mask": np.arange(sessions) == number, "task": task}
        observation, _ = envs.reset(seed=[0] * sessions, options=options)
    value_shares, begins = np.full(sessions, np.nan), np.ones(sessions, np.bool_)
    while np.isnan(value_shares).any():
        observation, _, ended, cut, info = envs.step(act(observation, envs.action_masks(), begins))
        begins = ended | cut
        first = begins & np.isnan(value_shares)
        value_shares[first] = info["value_share"][first]
    return value_shares


class Lesson:
    """One training: its processor time without that of its checks on `valid`, its curve, and its best policy so far."""

    def __init__(self, options: argparse.Namespace, seed: int, actor: Callable[[Any], Act]) -> None:
        self.env_id, self.minutes, self.seed, self.actor = options.env, options.minutes, seed, actor
        self.settings: dict[str, Any] = options.settings
        self.curve: list[dict[str, float]] = []
        self.best: Any = None
        self.began = time.process_time()

    def begin(self, envs: Any) -> None:
        """Start the clock, once the environments' kernels are compiled."""
        envs.reset()
        envs.step(np.zeros(envs.num_envs, np.int64))
        self.began = time.process_time()

    @property
    def spent(self) -> float:
        """Minutes of processor time so far."""
        return (time.process_time() - self.began) / 60.0

    def goes_on(self, steps: int, policy: Any) -> bool:
        """Note that a policy has learnt from so many steps, and check it if it is time; return whether time is left."""
        if self.spent >= self.minutes * (len(self.curve) + 1) / CHECKS:
            self.check(steps, policy)
        return len(self.curve) < CHECKS

    def check(self, steps: int, policy: Any) -> None:
        """Play sessions of `valid`, and keep the policy if it is the best so far."""
        spent = self.spent
        earned = float(shares(self.actor(policy), self.env_id, "valid", VALID).mean())
        if earned > max((point["valid"] for point in self.curve), default=-1.0):
            self.best = copy.deepcopy(policy)
        self.curve.append({"minutes": round(spent, 2), "steps": steps, "valid": round(earned, 4)})
        print(self.curve[-1], flush=True)
        self.began = time.process_time() - 60.0 * spent


# -- learners ---------------------------------------------------------------------------------------------------------------


def with_sb3(make_model: Callable[[Any, dict[str, Any]], Any], lesson: Lesson) -> None:
    """Let a model of Stable-Baselines3 learn in compiled environments until the lesson ends."""
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    def make_env() -> gym.Env[Any, Any]:
        env = costgym.make(lesson.env_id, split="train", disable_env_checker=True, compiled=True)
        return gym.wrappers.TransformReward(env, lambda reward: reward * SCALE)

    settings = {**OF_SB3, **lesson.settings}

    class Checked(BaseCallback):
        def _on_step(self) -> bool:
            return lesson.goes_on(self.num_timesteps, self.model.policy)

    env = make_vec_env(make_env, settings.pop("n_envs"), lesson.seed)
    lesson.begin(env)
    make_model(env, settings).learn(10**9, callback=Checked())


def stock(options: argparse.Namespace, seed: int) -> Lesson:
    from sb3_contrib import MaskablePPO

    def actor(policy: Any) -> Act:
        return lambda seen, masks, begins: policy.predict(seen, action_masks=masks, deterministic=True)[0]

    lesson = Lesson(options, seed, actor)
    with_sb3(lambda env, settings: MaskablePPO("MultiInputPolicy", env, seed=seed, **settings), lesson)
    return lesson


def recurrent(options: argparse.Namespace, seed: int) -> Lesson:
    from sb3_contrib import RecurrentPPO

    def actor(policy: Any) -> Act:
        state: Any = None

        def act(seen: Seen, masks: NDArray[np.bool_], begins: NDArray[np.bool_]) -> Any:
            nonlocal state
            actions, state = policy.predict(seen, state, begins, deterministic=True)
            return actions

        return act

    lesson = Lesson(options, seed, actor)
    with_sb3(lambda env, settings: RecurrentPPO("MultiInputLstmPolicy", env, seed=seed, **settings), lesson)
    return lesson


def torchrl(options: argparse.Namespace, seed: int) -> Lesson:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torch import nn
    from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    torch.manual_seed(seed)
    count, length, batch, epochs = 64, 64, 256, 4
    envs: Any = costgym.make_vec(options.env, count, split="train", autoreset_mode=AutoresetMode.SAME_STEP)
    width = sum(int(np.prod(space.shape)) for space in envs.single_observation_space.values())

    def layers(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs))

    def flat(seen: Seen) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([part.reshape(len(part), -1) for part in seen.values()], 1))

    def actor(policy: Any) -> Act:
        def act(seen: Seen, masks: NDArray[np.bool_], begins: NDArray[np.bool_]) -> Any:
            with torch.no_grad():
                return policy(flat(seen)).masked_fill(~torch.from_numpy(masks), -torch.inf).argmax(-1).numpy()

        return act

    policy, value = layers(envs.single_action_space.n), ValueOperator(layers(1), in_keys=["observation"])
    logits = TensorDictModule(policy, in_keys=["observation"], out_keys=["logits"])
    keys = {"logits": "logits", "mask": "mask"}
    chooses = ProbabilisticActor(logits, in_keys=keys, distribution_class=MaskedCategorical, return_log_prob=True)
    loss = ClipPPOLoss(chooses, value, clip_epsilon=0.2, entropy_coeff=0.003, normalize_advantage=True)
    advantage = GAE(gamma=0.995, lmbda=0.95, value_network=value)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    lesson, steps = Lesson(options, seed, actor), 0
    lesson.begin(envs)
    observation, _ = envs.reset(seed=seed)
    while lesson.goes_on(steps, policy):
        rows = []
        for _ in range(length):
            now = {"observation": flat(observation), "mask": torch.from_numpy(envs.action_masks().copy())}
            with torch.no_grad():
                row = chooses(TensorDict(now, [count]))
            observation, reward, ended, cut, _ = envs.step(row["action"].numpy())
            over = torch.from_numpy(ended | cut)[:, None]
            earned = torch.from_numpy(reward.astype(np.float32) * SCALE)[:, None]
            after = {"observation": flat(observation), "reward": earned, "done": over, "terminated": over}
            row["next"] = TensorDict(after, [count])
            rows.append(row)
        data = torch.stack(rows, 1)  # (N, T)
        with torch.no_grad():
            advantage(data)
        data, steps = data.reshape(-1), steps + count * length
        for _ in range(epochs):
            for part in torch.randperm(len(data)).split(batch):
                terms = loss(data[part])
                optimizer.zero_grad()
                (terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
    return lesson


def tools(options: argparse.Namespace, seed: int) -> Lesson:
    folder, env = options.out / f"seed-{seed}", costgym.make(options.env, disable_env_checker=True)
    rules = env.unwrapped.rules  # type: ignore[attr-defined]

    def actor(network: Any) -> Act:
        def act(seen: Seen, masks: NDArray[np.bool_], begins: NDArray[np.bool_]) -> Any:
            with torch.inference_mode():
                shown = {name: torch.from_numpy(part) for name, part in seen.items()}
                return network(shown, None, torch.from_numpy(masks))[0].argmax(-1).numpy()

        return act

    lesson = Lesson(options, seed, actor)
    lesson.begin(costgym.make_vec(options.env, 2))

    def check(steps: int) -> None:
        network = SessionNetwork.of_rules(rules)
        load_weights(newest(folder), network.state_dict())
        lesson.check(steps, network)

    class Checks(Callback):
        def on_step(self, step: TrainingStep) -> bool:
            if options.steps * (len(lesson.curve) + 1) / 10 <= step.step < options.steps and (folder / "checkpoints").exists():
                check(step.step)
            return False

    train_ppo(folder, seed=seed, env=options.env, steps=options.steps, callback=Checks(), **options.settings)
    check(options.steps)
    best = options.out / f"seed-{seed}-best"
    save_checkpoint(best, options.steps, lesson.best.state_dict(), {}, {})
    (best / CONFIG).write_bytes((folder / CONFIG).read_bytes())
    return lesson


LEARNERS = {"stock": stock, "recurrent": recurrent, "torchrl": torchrl, "tools": tools}


def splits_of(env_id: str) -> tuple[str, ...]:
    return ("valid", "test") if env_id == SESSION else ("valid", "test", "shifted")


def learn(options: argparse.Namespace) -> None:
    """Train a learner under some seeds, and play the best policy of each."""
    torch.set_num_threads(1)
    runs = []
    for seed in range(options.seed, options.seed + options.seeds):
        lesson = LEARNERS[options.what](options, seed)
        actor = lesson.actor(lesson.best)
        measured = {split: shares(actor, options.env, split, options.sessions).round(5) for split in splits_of(options.env)}
        print(options.what, seed, {split: round(float(of.mean()), 4) for split, of in measured.items()}, flush=True)
        name = f"tools, {options.steps:,} decisions" if options.what == "tools" else options.what
        runs.append({"learner": name, "env": options.env, "seed": seed, "curve": lesson.curve})
        runs[-1] |= {split: of.tolist() for split, of in measured.items()}
        options.shares.write_text(json.dumps(runs), encoding="utf-8")


# -- what they earn ---------------------------------------------------------------------------------------------------------


def interval(values: Shares) -> dict[str, Any]:
    """Mean and 95 % interval over sessions."""
    mean, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    return {"mean": round(mean, 4), "ci95": [round(mean - half, 4), round(mean + half, 4)]}


def references(env_id: str, split: str, sessions: int, names: tuple[str, ...]) -> dict[str, Shares]:
    """The shares of agents on the first sessions of a split."""
    env: Any = costgym.make(env_id, split=split, disable_env_checker=True)
    numbers = env.unwrapped.numbers[:sessions]
    agents = {name: make_agent(name, SESSION) for name in names}
    return {name: np.array([play(env, agent, n, 0).value_share for n in numbers]) for name, agent in agents.items()}


def rules(options: argparse.Namespace) -> None:
    """Play the rules that learners are compared with."""
    measured = {split: references(options.env, split, options.sessions, REFERENCES) for split in splits_of(options.env)[1:]}
    runs: list[dict[str, Any]] = [{"learner": name, "env": options.env} for name in REFERENCES]
    for run in runs:
        run |= {split: of[run["learner"]].tolist() for split, of in measured.items()}
    options.shares.write_text(json.dumps(runs), encoding="utf-8")


def compare(options: argparse.Namespace) -> None:
    """Gather the runs of each learner: its mean over seeds on each split, and what it is above the rules, in pairs."""
    runs: list[dict[str, Any]] = [run for file in options.files for run in json.loads(Path(file).read_text(encoding="utf-8"))]
    played = [run for run in runs if run["learner"] in REFERENCES]
    rows = []
    for learner, env_id in dict.fromkeys((run["learner"], run["env"]) for run in runs if run not in played):
        own_runs = [run for run in runs if (run["learner"], run["env"]) == (learner, env_id)]
        row: dict[str, Any] = {"learner": learner, "env": env_id, "seeds": [run["seed"] for run in own_runs]}
        for split in splits_of(env_id)[1:]:
            by_seed = np.array([run[split] for run in own_runs])  # (seeds, S)
            mean = by_seed.mean(0)
            above = {f"above_{of['learner']}": interval(mean - np.array(of[split])) for of in played if of["env"] == env_id}
            row[split] = interval(mean) | above
            if len(own_runs) > 1:
                row[split]["over_seeds"] = over_seeds(by_seed.mean(1).tolist())
        print(json.dumps(row), flush=True)
        rows.append(row | {"curves": [run["curve"] for run in own_runs]})
    write_report({"rows": rows}, options.json, ("numpy", "gymnasium", "stable_baselines3", "sb3_contrib", "torch"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("learn", help="train a learner, and play it")
    one.add_argument("what", choices=LEARNERS)
    one.add_argument("--env", default=SESSION_1)
    one.add_argument("--minutes", type=float, default=3.0, help="of all but tools")
    one.add_argument("--steps", type=int, default=3_000_000, help="of tools")
    one.add_argument("--settings", type=json.loads, default={}, metavar="JSON", help="of PPO; not of torchrl")
    one.add_argument("--out", type=Path, default=Path("runs/sessions"), help="the folder for the runs of tools")
    one.add_argument("--seed", type=int, default=0, help="the first")
    one.add_argument("--seeds", type=int, default=1)
    one.add_argument("--sessions", type=int, default=300, help="that are played at the end")
    one.add_argument("--shares", type=Path, required=True, help="the file for the share of the value in each session")
    one.set_defaults(run=learn)
    known = commands.add_parser("rules", help="play the rules that learners are compared with")
    known.add_argument("--env", default=SESSION_1)
    known.add_argument("--sessions", type=int, default=300)
    known.add_argument("--shares", type=Path, required=True, help="as of learn")
    known.set_defaults(run=rules)
    several = commands.add_parser("compare", help="compare what learners earned with the rules")
    several.add_argument("files", nargs="+")
    several.add_argument("--json", type=Path)
    several.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
