"""The subcommands of `costgym train`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from pydantic import BeforeValidator

from costgym.agents.base import NUMERIC
from costgym.agents.catp.settings import CatpSettings
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.toolplanner.settings import LearntSettings
from costgym.cli.options import Quiet
from costgym.cli.output import Progress
from costgym.experiments.play.options import Data, Documents, Limits, ScenarioName
from costgym.experiments.train.grpo.settings import GrpoSettings
from costgym.experiments.train.run import Callback, TrainingResult, TrainingStep
from costgym.experiments.train.sb3.settings import DqnSettings, PpoSettings
from costgym.experiments.train.sft.settings import SftSettings
from costgym.experiments.train.usefulness.settings import UsefulnessSettings
from costgym.simulators.bounds import Settings, option
from costgym.simulators.errors import check_known
from costgym.simulators.ledger import Budget


class _Bar(Callback):
    """Shows a progress bar with the messages of a run above it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_step(self, step: TrainingStep) -> None:
        self._progress.update(int(step.done), int(step.total))

    def on_message(self, text: str) -> None:
        self._progress.say(text)


class Run(Settings):
    """The options about a trainer's run."""

    out: Annotated[Path, option("Folder of the run; the same folder continues it.", "DIR")]
    resume: Annotated[bool, option("Continue the run in the folder, or delete it and start again.")] = True
    report_to: Annotated[tuple[str, ...], option("Also log the figures to wandb, mlflow or trackio.", "NAME[,NAME ...]")] = ()
    quiet: Quiet = False

    def train(self, name: str, trainer: Callable[..., TrainingResult], *args: Any, **options: Any) -> None:
        """Train with a progress bar on standard error, then plot the learning curves and print the metrics and the folder."""
        from costgym.experiments.pages.learning_curves import publish
        from costgym.experiments.train.tracking import Tracked

        with Progress(f"training {name}", self.quiet) as progress, Tracked(_Bar(progress), self.report_to, self.out) as watch:
            result = trainer(self.out, *args, callback=watch, resume=self.resume, **options)
        curves = publish(result.run)
        if not self.quiet:
            for figure, value in result.metrics.items():
                typer.echo(f"{figure:24} {value:10.4f}")
            typer.echo(str(result.run) if curves is None else f"{result.run}\nlearning curves: {curves}")


PARTS = ("completion", "following", "tags", "path")  # parts of ToolPlanner that `--without` can leave out
_FEEDBACK = ("context", "intermediate_feedback", "cumulative", "gamma", "centred", "return_scale")
_BASELINE = ("method", *_FEEDBACK, "walks", "best", "near", "spread")  # settings of CATP that its baselines do not have


class World(Settings):
    """The options about the tasks to learn from."""

    heading: ClassVar[str] = "Tasks"
    scenario: ScenarioName = None
    split: Annotated[str, option("Tasks to learn from: train, or train-large.")] = "train"
    budget: Limits = None


class Length(Settings):
    """The options about the length of a run."""

    heading: ClassVar[str] = "Length"
    steps: Annotated[int | None, option("Number of decisions; the policy then does not depend on the machine's speed.")] = None
    minutes: Annotated[
        float | None, option("Training time in minutes after compilation, instead of --steps; 5 if neither is given.")
    ] = None


def _costs(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return Budget.one(text if "=" in text else f"price={text}", "--cost-limit").as_dict()


def ppo(
    run: Run,
    world: World,
    length: Length,
    settings: PpoSettings,
    env: Annotated[
        str, option("Environment to learn in: costgym/Marketplace-v0, costgym/MarketplaceSession-v1 or one of its levels.")
    ] = NUMERIC,
    cost_limit: Annotated[
        Mapping[str, float] | None,
        BeforeValidator(_costs),
        option("Limits of mean costs, enforced by Lagrange multipliers: `7` (price) or `price=7;calls=3`.", "LIMITS"),
    ] = None,
) -> None:
    """Train MaskablePPO (Stable-Baselines3); the agent is `sb3:DIR`, or `sessions:DIR` with `--env` of sessions.

    Example: `costgym train ppo --minutes 5 --budget price=20 --out runs/ppo`
    """
    from costgym.experiments.train.sb3.train import train_ppo

    options = {**dict(world), **dict(length), **settings.explicit}
    run.train("ppo", train_ppo, env=env, lagrangian=cost_limit, **options)


def dqn(run: Run, world: World, length: Length, settings: DqnSettings) -> None:
    """Train DQN (Stable-Baselines3) with action masks in the marketplace; the agent is `sb3:DIR`.

    Example: `costgym train dqn --steps 100000 --out runs/dqn`
    """
    from costgym.experiments.train.sb3.train import train_dqn

    options = {**dict(world), **dict(length), **settings.explicit}
    run.train("dqn", train_dqn, **options)


def catp(
    run: Run,
    settings: Annotated[CatpSettings, ("method", "supervised_steps", "group")] = CatpSettings(steps=3000),  # noqa: B008
    pool: Annotated[
        list[Path] | None, option("Plan pool to learn from (.json, or the official .pkl); repeatable.", "FILE")
    ] = None,
    preset: Annotated[
        str | None, option("Settings of the paper's text (paper) or of its code (code); other options take precedence.")
    ] = None,
) -> None:
    """Train CATP-LLM offline on executed plans of the OpenCATP tools, conditioned on their returns; the agent is `catp:DIR`.

    With `--pool` it trains on recorded plans instead of plans that it searches for and executes. A quarter of the recorded
    tasks and samples is held out, and the metrics are measured on them.

    Example: `costgym train catp --tasks sequential --steps 1500 --out runs/catp`
    """
    from costgym.experiments.train.catp.train import train_catp

    usual = CatpSettings.preset(preset, settings.explicit.get("tasks", "all")) if preset else {}
    run.train("catp", train_catp, pool=pool or (), **{**usual, **settings.explicit})


def ift(
    run: Run,
    settings: Annotated[CatpSettings, (*_BASELINE, "supervised_steps", "group")] = CatpSettings(steps=1500),  # noqa: B008
) -> None:
    """Train the baseline of instruction fine-tuning: supervised on the best plan for each task; the agent is `ift:DIR`.

    Example: `costgym train ift --steps 1500 --out runs/ift`
    """
    from costgym.experiments.train.catp.train import train_ift

    run.train("ift", train_ift, **settings.explicit)


def rltf(
    run: Run,
    settings: Annotated[CatpSettings, _BASELINE] = CatpSettings(steps=1500),  # noqa: B008, it is frozen
) -> None:
    """Train the baseline of reinforcement learning from task feedback (policy gradient); the agent is `rltf:DIR`.

    Example: `costgym train rltf --steps 1500 --out runs/rltf`
    """
    from costgym.experiments.train.catp.train import train_rltf

    run.train("rltf", train_rltf, **settings.explicit)


def deer(
    run: Run,
    settings: DeerSettings,
    scenario: ScenarioName = "decision",
    data: Data = None,
    check: Annotated[bool, option("Measure the accuracies at the end, for a published model as long as training.")] = True,
) -> None:
    """Train DEER's policy, which decides whether to search for a tool and which to call; the agent is `deer:DIR`.

    Prints the six accuracies on seen and on unseen tools.

    Example: `costgym train deer --sampling mixture --out runs/deer`
    """
    from costgym.experiments.train.deer.train import train_deer

    run.train("deer", train_deer, scenario, data=data, check=check, **settings.explicit)


def toolplanner(
    run: Run,
    settings: Annotated[LearntSettings, ("steps", "budget")],
    scenario: ScenarioName = "marketplace",
    budget: Annotated[Limits, option("Limits under which the train tasks are played; none by default.", "LIMITS")] = None,
    steps: Annotated[
        int | None, option("Steps of stage 1; the steps of stage 2 and the tasks of both stages scale with it.")
    ] = None,
    without: Annotated[tuple[str, ...], option("Parts to leave out: completion, following, tags, path.", "A,B,...")] = (),
    start: Annotated[
        Path | None, option("Folder of an existing stage 1 with the same settings, such as RUN/sft.", "DIR")
    ] = None,
    trees: Annotated[
        Path | None, option("Folder of another stage 1, whose solution trees stage 2 learns from, and not its own.", "DIR")
    ] = None,
) -> None:
    """Train ToolPlanner on solved paths, then by ranking rounds of its own search trees; the agent is `toolplanner:DIR`.

    Example: `costgym train toolplanner --steps 500 --out runs/toolplanner`
    """
    from costgym.experiments.train.toolplanner.train import train_toolplanner

    for part in without:
        check_known("part to leave out", part, PARTS)
    chosen = {**scaled(steps), **dict.fromkeys(without, False), **settings.explicit}
    if budget is not None:
        chosen["budget"] = dict(budget)
    run.train("toolplanner", train_toolplanner, scenario, sft=start, trees=trees, **chosen)


def scaled(steps: int | None) -> dict[str, int]:
    """Return the settings of a run with the given steps in stage 1, and the others scaled in proportion."""
    if steps is None:
        return {}
    usual = LearntSettings()
    least = {"tasks": 100, "rank_tasks": 50, "rank_steps": 1}
    return {"steps": steps, **{name: max(low, getattr(usual, name) * steps // usual.steps) for name, low in least.items()}}


def btp(
    run: Run,
    settings: UsefulnessSettings,
    scenario: ScenarioName = "marketplace",
    records: Annotated[Path | None, option("Train on these trajectories of `costgym collect` instead.", "DIR")] = None,
) -> None:
    """Train BTP's classifier, which predicts whether the result of a call helps; agents use it with `--usefulness DIR`.

    Prints the metrics of the classifier and of the rules on held-out tasks.

    Example: `costgym train btp --episodes 1500 --out runs/btp`
    """
    from costgym.experiments.train.usefulness.train import train_btp
    from costgym.simulators.scenario import load_scenario

    run.train("btp", train_btp, load_scenario(scenario or "marketplace"), records=records, **settings.explicit)


def sft(
    run: Run,
    world: World,
    settings: SftSettings,
    minutes: Annotated[float | None, option("Stop after this many minutes; the same command continues.")] = None,
) -> None:
    """Fine-tune a language model on solved episodes of the text view; the result is `DIR/model`.

    Example: `costgym train sft --model models/smollm2 --split train-large --budget price=20 --out runs/sft`
    """
    from costgym.experiments.train.sft.train import train_sft

    options = {**dict(world), "scenario": world.scenario or "marketplace", **settings.explicit}
    run.train("sft", train_sft, minutes=minutes, **options)


def grpo(
    run: Run,
    settings: GrpoSettings,
    scenario: ScenarioName = None,
    steps: Annotated[int, option("Number of GRPO steps.")] = 20,
    budget: Limits = None,
    documents: Documents = None,
) -> None:
    """Train a tool-calling language model in the marketplace by GRPO (TRL); the result is `DIR/model`.

    Without `--model`, a tiny model is created and first trained to call tools; its default scenario is a tiny one.

    Example: `costgym train grpo --steps 20 --out runs/grpo`
    """
    from costgym.experiments.train.grpo.train import train_grpo
    from costgym.experiments.train.grpo.world import GrpoWorld

    if settings.model is None and scenario is None and documents is None:
        world = GrpoWorld.tiny(seed=settings.seed)  # a tiny model needs a tiny scenario
    else:
        world = GrpoWorld(scenario or "marketplace", budget=budget, documents=documents or "short")
    run.train("grpo", train_grpo, world, steps=steps, **settings.explicit)
