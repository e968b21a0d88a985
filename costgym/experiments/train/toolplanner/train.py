"""Train ToolPlanner in two stages.

`OUT/sft/` holds stage 1, a complete run whose policy is the agent ``toolplanner:OUT/sft``, and the solution trees of that
policy; `OUT` itself holds stage 2.

Source: ToolPlanner (arXiv 2409.14826), Section 4.4.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from costgym.agents.settings import read_config
from costgym.agents.toolplanner.settings import LearntSettings, PlannerConfig
from costgym.experiments.train.run import (
    Callback,
    TrainingResult,
    TrainingRun,
    check_folder,
    named_files,
    open_run,
    require_modules,
)
from costgym.experiments.train.toolplanner.data import (
    Demonstration,
    GrownTree,
    demonstrations,
    grow_trees,
    ranked_pairs,
    read_trees,
    training_scenario,
)
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import keep_lines, read_lines
from costgym.simulators.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from costgym.agents.toolplanner.language_model import PlannerModel

STAGE_ONE = "sft"
MAX_TREES_BYTES = 512 * 2**20
TOKENIZER = "tokenizer"
_OF_STAGE_TWO = (
    "completion", "following", "rank_tasks", "rank_steps", "rank_batch_size", "rank_learning_rate", "beta", "margin",
    "rehearsal", "temperature",
)  # fmt: skip

Demonstrations = Callable[[], list[Demonstration]]


def train_toolplanner(
    out: str | Path,
    scenario: str | Path | Scenario = "marketplace",
    seed: int = 0,
    *,
    sft: str | Path | None = None,
    trees: str | Path | None = None,
    shown: Demonstrations | None = None,
    resume: bool = True,
    device: str = "auto",
    callback: Callback | None = None,
    save_every: int = 100,
    **settings: Any,
) -> TrainingResult:
    """Train both stages of ToolPlanner into the folder of a run, the agent ``toolplanner:OUT``.

    `sft` is the folder of an existing stage 1 with the same settings; None trains stage 1 in `out`. `trees` is the folder of a
    stage 1 in the same world, of any model, whose solution trees stage 2 learns from; None grows the run's own. `shown` returns
    the teacher's paths, which several runs of like settings can share; None plays the teacher. `device` is ``cpu``, ``cuda`` or
    ``auto``; `save_every` is in steps; with `resume` False the run starts again; `settings` are further fields of
    `LearntSettings`. Returns the result of stage 2, or of stage 1 if it was stopped: the loss, and the match and pass
    rate on some train tasks. Raises ConfigError or UnknownName if a setting is invalid, the folder holds other files, or the
    solution trees contain no pair; TrainingFailed if the loss is not finite (the last good checkpoint is kept); DataError if a
    file to resume from is damaged.
    """
    require_modules("torch", "transformers", "safetensors")
    chosen = LearntSettings(**{"seed": seed, **settings})
    world = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    usual = LearntSettings()
    of_one = chosen.model_copy(update={name: getattr(usual, name) for name in _OF_STAGE_TWO})
    grown = None if trees is None else _trees_of(Path(trees), chosen, world)
    config = PlannerConfig(stage=2, scenario=world, settings=chosen, data=() if grown is None else grown.about)
    first_config = PlannerConfig(stage=1, scenario=world, settings=of_one)
    first = Path(out) / STAGE_ONE if sft is None else Path(sft)
    if sft is not None:
        if not first.is_dir():
            raise DataError(first, "the folder does not exist; expected the folder of a stage 1, such as RUN/sft")
        check_folder(first, first_config)
    with open_run(out, config, resume=resume, callback=callback, files=(STAGE_ONE, TOKENIZER)) as run:
        shown = shown or cache(partial(demonstrations, world, chosen))  # which both stages use
        if sft is None:
            with open_run(first, first_config, callback=callback, files=(TOKENIZER,)) as stage_one:
                done = stage_one.done() or _supervise(stage_one, of_one, world, shown, device, save_every, chosen.rank_steps)
            if not done.finished:
                return done
        return run.done() or _rank(run, first, chosen, world, shown, device, save_every, grown)


def _supervise(
    run: TrainingRun,
    settings: LearntSettings,
    scenario: Scenario,
    shown: Demonstrations,
    device: str,
    save_every: int,
    after: int,
) -> TrainingResult:
    from costgym.agents.toolplanner.language_model import PlannerModel, load_tokenizer, small_tokenizer
    from costgym.experiments.train.loop import optimise
    from costgym.experiments.train.toolplanner.learning import SupervisedLearner

    run.say("stage 1: the teacher solves train tasks")
    learnt = shown()
    run.say(f"stage 1: {len(learnt)} solved paths for training")
    if settings.small and not (run.folder / TOKENIZER / "tokenizer.json").is_file():
        texts = ("".join(piece.text for piece in example.pieces(settings)) for example in learnt)
        small_tokenizer(texts, settings.vocabulary).save_pretrained(run.folder / TOKENIZER)
    model = PlannerModel(settings, load_tokenizer(settings, run.folder), device)
    return optimise(run, SupervisedLearner(model, settings, scenario, learnt), save_every, after=after)


def _rank(
    run: TrainingRun,
    first: Path,
    settings: LearntSettings,
    scenario: Scenario,
    shown: Demonstrations,
    device: str,
    save_every: int,
    grown: "_Trees | None",
) -> TrainingResult:
    from costgym.agents.checkpoints import load_weights, newest
    from costgym.agents.toolplanner.language_model import PlannerModel, load_tokenizer
    from costgym.experiments.train.loop import optimise
    from costgym.experiments.train.toolplanner.learning import RankingLearner

    model = PlannerModel(settings, load_tokenizer(settings, first), device)
    load_weights(newest(first), model.weights())
    trees = grown.trees if grown is not None else _trees(run, first, settings, scenario, model)
    pairs = ranked_pairs(trees, training_scenario(scenario, settings).build().catalog, settings)
    if not pairs:
        raise ConfigError(
            "rank_tasks",
            f"no round of {len(trees)} solution trees is a positive example; train stage 1 for longer or raise rank_tasks",
        )
    for counts in (Counter(pair.made or "grown" for pair in pairs), Counter(pair.level for pair in pairs)):
        run.say(f"stage 2: {len(pairs)} pairs ({', '.join(f'{name} {number}' for name, number in sorted(counts.items()))})")
    if settings.small and not (run.folder / TOKENIZER).is_dir():
        shutil.copytree(first / TOKENIZER, run.folder / TOKENIZER)
    return optimise(run, RankingLearner(model, settings, scenario, pairs, shown), save_every, before=settings.steps)


class _Trees(NamedTuple):
    """The solution trees of another run, and what identifies them."""

    trees: list[GrownTree]
    about: tuple[str, ...]


def _trees_of(folder: Path, settings: LearntSettings, scenario: Scenario) -> _Trees:
    """Return the solution trees that another run has grown; raises DataError where there are none, of another world, with a
    tool that this one lacks, or of a model that writes tags or paths where this one does not."""
    run = read_config(folder, PlannerConfig)
    if run.scenario != scenario:
        raise DataError(folder, "its solution trees are of another scenario; train both stages in the same")
    if (run.settings.tags, run.settings.path) != (settings.tags, settings.path):
        raise DataError(folder, "its solution trees have other parts (tags, path); train both stages with the same")
    path = folder / _name_of_trees(settings)
    if not path.is_file():
        raise DataError(path, "is missing; expected the folder of a stage 1 that a stage 2 has grown as many trees with")
    about = named_files([path], MAX_TREES_BYTES)  # which refuses too large a file before its trees are read
    trees, known = read_trees(path), {tool.name for tool in training_scenario(scenario, settings).build().catalog}
    unknown = next((name for tree in trees for name in (*tree.gold, *tree.called()) if name not in known), None)
    if unknown is not None:
        raise DataError(path, f"names a tool that this world lacks, {unknown!r}; expected trees that were grown in it")
    return _Trees(trees, about)


def _name_of_trees(settings: LearntSettings) -> str:
    return f"trees-{settings.rank_tasks}-{settings.temperature:g}.jsonl"


def _trees(
    run: TrainingRun, first: Path, settings: LearntSettings, scenario: Scenario, model: "PlannerModel"
) -> list[GrownTree]:
    """Return the solution trees of stage 1's policy; they are stored one per line, and a resumed run continues the file."""
    from costgym.agents.toolplanner.learnt import LearntPlanner

    path = first / _name_of_trees(settings)
    keep_lines(path, 10**9)
    there = len(read_lines(path))
    model.network.eval()
    planner = LearntPlanner(model, "stage 1", settings.temperature, guided=True)
    run.say("stage 2: generating solution trees with stage 1's policy")
    with path.open("a", encoding="utf-8") as store:
        for tree in grow_trees(planner, scenario, settings, there):
            store.write(tree.model_dump_json() + "\n")
            store.flush()
    trees = read_trees(path)
    if len(trees) > there:
        run.say(f"stage 2: {len(trees) - there} solution trees generated")
    return trees
