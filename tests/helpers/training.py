"""Every trainer with settings that train it within seconds, and callbacks that stop and kill runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents.base import SESSION
from costgym.experiments.train.run import Callback, TrainingResult, TrainingStep
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.scenario import parse_scenario
from tests.helpers.catp_scores import ShapedScores
from tests.helpers.toolplanner_world import TINY, WORLD

SCORES = Evaluator(ShapedScores(10))  # one for all runs, so that what plans are worth is worked out once
CATP: dict[str, Any] = {
    "hidden_size": 16,
    "layers": 1,
    "heads": 2,
    "window": 6,
    "batch_size": 8,
    "walks": 2,
    "best": 1,
    "near": 1,
    "spread": 0,
    "composed": 0,
    "tasks": "nonsequential",
}
DEER_COUNTS = {"train": (20, 30, 40), "valid": (4, 6, 8), "test": (4, 6, 8)}
DEER: dict[str, Any] = {
    "counts": DEER_COUNTS,
    "steps": 4,
    "batch_size": 4,
    "retrieval_steps": 2,
    "hidden_size": 16,
    "warmup_steps": 1,
}
PPO: dict[str, Any] = {
    "n_envs": 8,
    "n_steps": 8,
    "batch_size": 32,
    "n_epochs": 1,
    "hidden_size": 8,
    "rounds": 1,
    "updates_per_checkpoint": 2,
}
DQN: dict[str, Any] = {
    "n_envs": 8,
    "buffer_size": 500,
    "learning_starts": 16,
    "batch_size": 16,
    "gradient_steps": 1,
    "hidden_size": 8,
    "rounds": 1,
}
SMALL = parse_scenario(
    {
        "name": "small",
        "source": {
            "kind": "marketplace",
            "tools": 40,
            "providers": 10,
            "categories": 4,
            "train": 12,
            "test": 6,
            "candidates": 4,
        },
    }
)


class Trainer(NamedTuple):
    """A trainer to test.

    Attributes:
        train: trains into a folder.
        stops: steps at which a run is stopped, one after the other, before it goes to its end.
        resumes: a run that was stopped ends with the same bytes as one that was not.
        needs: optional modules.
    """

    train: Callable[..., TrainingResult]
    stops: tuple[int, ...]
    resumes: bool = True
    needs: tuple[str, ...] = ("torch", "transformers", "safetensors")


def _catp(method: str) -> Callable[..., TrainingResult]:
    def train(out: Path, **options: Any) -> TrainingResult:
        from costgym.experiments.train.catp import train as trainers

        usual = {
            **CATP,
            "steps": 6,
            "save_every": 2,
            "supervised_steps": 3,
            "group": 2,
            "evaluator": SCORES,
        }
        return getattr(trainers, f"train_{method}")(out, **{**usual, **options})  # type: ignore[no-any-return]

    return train


def _toolplanner(out: Path, **options: Any) -> TrainingResult:
    from costgym.experiments.train.toolplanner.train import train_toolplanner

    return train_toolplanner(out, WORLD, **{**TINY, "save_every": 2, **options})


def _deer(out: Path, **options: Any) -> TrainingResult:
    from costgym.experiments.train.deer.train import train_deer

    return train_deer(out, **{**DEER, **options})


def _ppo(out: Path, **options: Any) -> TrainingResult:
    from costgym.experiments.train.sb3.settings import Lagrangian
    from costgym.experiments.train.sb3.train import train_ppo

    return train_ppo(out, **{**PPO, "steps": 384, "lagrangian": Lagrangian(limit=5.0, rate=0.01), **options})


def _dqn(out: Path, **options: Any) -> TrainingResult:
    from costgym.experiments.train.sb3.train import train_dqn

    return train_dqn(out, **{**DQN, "steps": 128, **options})


def _sessions(out: Path, **options: Any) -> TrainingResult:
    from costgym.experiments.train.sb3.train import train_ppo

    small = {"n_envs": 4, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "steps": 64, "updates_per_checkpoint": 2}
    return train_ppo(out, **{"env": SESSION, **small, **options})


def _sessions_1(out: Path, **options: Any) -> TrainingResult:
    return _sessions(out, **{"env": "costgym/MarketplaceSessionEasy-v1", **options})


def _btp(**usual: Any) -> Callable[..., TrainingResult]:
    def train(out: Path, **options: Any) -> TrainingResult:
        from costgym.experiments.train.usefulness.train import train_btp

        return train_btp(out, SMALL, **{"episodes": 24, "held_out": 12, **usual, **options})

    return train


SB3 = ("torch", "stable_baselines3", "sb3_contrib", "safetensors", "numba")
TRAINERS = {
    "ppo": Trainer(_ppo, (2,), needs=SB3),
    "dqn": Trainer(_dqn, (), resumes=False, needs=SB3),
    "sessions": Trainer(_sessions, (16,), needs=SB3),
    "sessions-1": Trainer(_sessions_1, (16,), needs=SB3),
    "catp": Trainer(_catp("catp"), (3,)),
    "ift": Trainer(_catp("ift"), (5,)),
    "rltf": Trainer(_catp("rltf"), (1, 5)),
    "deer": Trainer(_deer, (1, 2, 3)),  # in retrieval, at its end, and in decisions
    "toolplanner": Trainer(_toolplanner, (3, 5, 41, 43)),  # twice in each stage
    "btp": Trainer(_btp(), (), resumes=False, needs=("sklearn",)),
}


class StopAt(Callback):
    """Stops a run, or kills it, when it has taken so many steps in all.

    Attributes:
        said: what the run said.
    """

    def __init__(self, step: int | None = None, kill: bool = False) -> None:
        self.step, self.kill, self.said, self.steps = step, kill, [], []  # type: ignore[var-annotated]

    def on_step(self, step: TrainingStep) -> bool:
        self.steps.append(step)
        reached = self.step is not None and step.done >= self.step
        if reached and self.kill:
            raise KeyboardInterrupt
        return reached

    def on_message(self, text: str) -> None:
        self.said.append(text)


def files(folder: Path) -> dict[str, bytes]:
    """The content of every file of a folder that is not hidden."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, so that sums have one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
