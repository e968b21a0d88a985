"""Training ToolPlanner: supervised on solved paths (stage 1), then by ranking rounds of its own solution trees (stage 2).

A run is a folder. `sft/` holds stage 1, a run of its own that plays as ``toolplanner:RUN/sft``, with the solution trees
that its policy grew; the folder itself holds stage 2. Both have `config.json` (what it is), `tokenizer/`, `checkpoints/`,
`curve.jsonl` (a line a step) and, at the end, `metrics.json`. Every draw is a function of the seed and of a step's or a
task's number, so a run that was killed and resumed ends in the same bytes as one that was not.

Source: ToolPlanner (arXiv 2409.14826), Section 4.4.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....agents.llm.agent import LlmAgent
from ....agents.toolplanner.agent import ToolPlanner
from ....agents.toolplanner.feedback import match, passed
from ....agents.toolplanner.settings import CONFIG, LearntSettings, read_config, write_config
from ....agents.toolplanner.tags import gold_tools
from ....agents.toolplanner.tree import called_tools, final_solution
from ....agents.toolplanner.words import ROUND, Piece
from ....simulators.draws import stable_generator, stable_integer
from ....simulators.errors import ConfigError, TrainingFailed, require
from ....simulators.scenario import Scenario, load_scenario
from ...files import keep_lines, read_lines, sole_writer, write_atomically
from ...rollout import play
from .data import Demonstration, GrownTree, demonstrations, grow_trees, ranked_pairs, read_trees, text_env, training_scenario

if TYPE_CHECKING:
    from ....agents.toolplanner.language_model import PlannerModel, Tokens

CURVE, METRICS, STAGE_ONE = "curve.jsonl", "metrics.json", "sft"
CHECKED = 40
"""Train tasks that a policy plays at the end of a stage."""
_OF_STAGE_TWO = (
    "completion", "following", "rank_tasks", "rank_steps", "rank_batch", "rank_rate", "beta", "margin", "rehearsal",
    "temperature",
)  # fmt: skip

Progress = Callable[[int, int], None]
Demonstrations = Callable[[], list[Demonstration]]


@dataclass(frozen=True, slots=True)
class Watching:
    """How a run is watched and stopped; nothing of it changes what is learnt.

    Attributes:
        progress: called with what is done and what is to do, in optimiser steps of both stages.
        log: given lines of text.
        stop: asked after each step with the stage and the steps taken; the run then saves and ends, and can be resumed.
        save_every: steps between checkpoints.
    """

    progress: Progress | None = None
    log: Callable[[str], None] | None = None
    stop: Callable[[int, int], bool] | None = None
    save_every: int = 100

    def say(self, line: str) -> None:
        if self.log is not None:
            self.log(line)


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished (or stopped) run.

    Attributes:
        run: its folder; ``toolplanner:FOLDER`` is the agent.
        steps: taken in its last stage.
        metrics: of that stage: loss, and the match and pass rate on some train tasks; {} where it was stopped.
    """

    run: Path
    steps: int
    metrics: dict[str, float]


def train_toolplanner(
    out: str | Path,
    scenario: str | Path | Scenario = "marketplace",
    seed: int = 0,
    *,
    sft: str | Path | None = None,
    resume: bool = True,
    device: str = "auto",
    watching: Watching | None = None,
    **settings: Any,
) -> TrainingResult:
    """Trains both stages.

    Args:
        out: folder of the run; created if need be.
        scenario: the world; its train split is learnt from.
        seed: of everything drawn.
        sft: folder of a stage 1 that is there already, with the same settings; None trains one in `out`.
        resume: go on where the run stands; else begin anew.
        device: ``cpu``, ``cuda`` or ``auto``.
        watching: how the run is watched and stopped.
        settings: other fields of `LearntSettings`.

    Raises:
        MissingExtra: torch, transformers or safetensors is not installed.
        ConfigError: a setting makes no sense, the folder holds something else, or stage 2 finds no pair to learn from.
        TrainingFailed: the loss became infinite or no number; the last good checkpoint stays.
        DataError: what is to be gone on from is damaged.
    """
    for module in ("torch", "transformers", "safetensors"):
        require(module, "train")
    known = {field.name for field in fields(LearntSettings)}
    for name in settings:
        if name not in known:
            raise ConfigError(name, f"no such setting; known: {', '.join(sorted(known))}")
    chosen = LearntSettings(seed=seed, **settings)
    world = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    folder, watch = Path(out), watching or Watching()
    first = folder / STAGE_ONE if sft is None else Path(sft)
    _check_folder(folder)
    if sft is not None:
        _own(first, _stage_one(chosen), 1, world)
    folder.mkdir(parents=True, exist_ok=True)
    with sole_writer(folder):
        if not resume:
            for name in (STAGE_ONE, "checkpoints", "tokenizer"):
                shutil.rmtree(folder / name, ignore_errors=True)
            for name in (CONFIG, CURVE, METRICS):
                (folder / name).unlink(missing_ok=True)
        _own(folder, chosen, 2, world)
        shown = cache(partial(demonstrations, world, chosen))  # the teacher's: both stages learn from them
        if sft is None:
            done = _supervise(first, _stage_one(chosen), world, shown, device, watch)
            if done.steps < chosen.steps:
                return done
        return _rank(folder, first, chosen, world, shown, device, watch)


def _stage_one(settings: LearntSettings) -> LearntSettings:
    """What of the settings concerns stage 1; the rest is the default."""
    usual = LearntSettings()
    return replace(settings, **{name: getattr(usual, name) for name in _OF_STAGE_TWO})


# -- stage 1 -------------------------------------------------------------------------------------------------------------------


def _supervise(
    run: Path, settings: LearntSettings, scenario: Scenario, shown: Demonstrations, device: str, watch: Watching
) -> TrainingResult:
    from ....agents.toolplanner.language_model import TOKENIZER, PlannerModel, load_tokenizer, sft_loss, small_tokenizer

    run.mkdir(parents=True, exist_ok=True)
    _own(run, settings, 1, scenario)
    if _is_done(run, settings.steps):
        return TrainingResult(run, settings.steps, _metrics(run))
    learnt = shown()
    watch.say(f"stage 1: {len(learnt)} solved paths to learn from")
    if settings.small and not (run / TOKENIZER / "tokenizer.json").is_file():
        texts = ("".join(piece.text for piece in each.pieces(settings)) for each in learnt)
        small_tokenizer(texts, settings.vocabulary).save_pretrained(run / TOKENIZER)
    model = PlannerModel(settings, load_tokenizer(settings, run), device)
    drawn = _batches([model.sequence(each.pieces(settings)) for each in learnt], settings, "sft")

    def loss(step: int) -> tuple[Any, dict[str, float]]:
        return sft_loss(*model.log_probabilities(drawn(step))), {}

    return _optimise(run, 1, settings, model, loss, scenario, watch, settings.steps)


def _batches(sequences: Sequence[Tokens], settings: LearntSettings, name: str) -> Callable[[int], list[Tokens]]:
    """What each step learns from: texts of like length, so that little is wasted on padding."""
    order = sorted(range(len(sequences)), key=lambda place: (len(sequences[place].tokens), place))
    window = 4 * settings.batch

    def drawn(step: int) -> list[Tokens]:
        chance = stable_generator(settings.seed, name, step)
        start = int(chance.integers(max(1, len(order) - window + 1)))
        near = order[start : start + window]
        return [sequences[near[i]] for i in chance.permutation(len(near))[: settings.batch].tolist()]

    return drawn


# -- stage 2 -------------------------------------------------------------------------------------------------------------------


def _rank(
    run: Path, first: Path, settings: LearntSettings, scenario: Scenario, shown: Demonstrations, device: str, watch: Watching
) -> TrainingResult:
    from ....agents.checkpoints import load_weights, newest
    from ....agents.toolplanner.language_model import (
        TOKENIZER,
        PlannerModel,
        load_tokenizer,
        ranking_loss,
        sequence_scores,
        sft_loss,
    )

    if _is_done(run, settings.rank_steps):
        return TrainingResult(run, settings.rank_steps, _metrics(run))
    model = PlannerModel(settings, load_tokenizer(settings, first), device)
    load_weights(newest(first), model.weights())
    trees = _trees(first, settings, scenario, model, watch)
    pairs = ranked_pairs(trees, training_scenario(scenario, settings).build().catalog, settings)
    if not pairs:
        raise ConfigError(
            "rank_tasks",
            f"no round of {len(trees)} solution trees is a positive example; train stage 1 for longer, or take more",
        )
    counts = Counter(pair.made or "grown" for pair in pairs)
    watch.say(f"stage 2: {len(pairs)} pairs ({', '.join(f'{name} {number}' for name, number in sorted(counts.items()))})")
    if settings.small and not (run / TOKENIZER).is_dir():
        shutil.copytree(first / TOKENIZER, run / TOKENIZER)
    texts = [tuple(_Choice.of(model, pair.before, action) for action in (pair.better, pair.worse)) for pair in pairs]
    rehearsed = None
    if settings.rehearsal:
        heeded = [model.sequence(each.heeded(settings.feedback).pieces(settings)) for each in shown()]
        rehearsed = _batches(heeded, settings, "rehearsal")
    # the coarser an instruction, the more easily it is followed: drawn alike, those that name nothing would drown the others
    levels = [[place for place, pair in enumerate(pairs) if pair.level == level] for level in settings.levels]
    levels = [places for places in levels if places]

    def loss(step: int) -> tuple[Any, dict[str, float]]:
        chance = stable_generator(settings.seed, "ranking", step)
        chosen = [levels[i] for i in chance.integers(len(levels), size=settings.rank_batch).tolist()]
        batch = [texts[places[int(chance.integers(len(places)))]] for places in chosen]
        half = len(batch)
        both = [pair[0] for pair in batch] + [pair[1] for pair in batch]
        logs, real = model.log_probabilities([choice.text for choice in both])
        scores = sequence_scores(logs, _own_tokens(both, logs.shape[1]).to(logs.device))
        ranking, sft = ranking_loss(scores[:half], scores[half:], settings.margin), sft_loss(logs[:half], real[:half])
        in_order = (scores[:half] > scores[half:]).float().mean()
        figures = {"sft": float(sft.detach()), "ranking": float(ranking.detach()), "in_order": float(in_order)}
        loss = sft + settings.beta * ranking
        if rehearsed is not None:
            again = sft_loss(*model.log_probabilities(rehearsed(step)))
            figures["rehearsal"] = float(again.detach())
            loss = loss + settings.rehearsal * again
        return loss, figures

    return _optimise(run, 2, settings, model, loss, scenario, watch, settings.rank_steps)


class _Choice(NamedTuple):
    """An action after what stands before it; so many tokens are its own."""

    text: Tokens
    own: int

    @classmethod
    def of(cls, model: PlannerModel, before: Sequence[Piece], action: str) -> _Choice:
        from ....agents.toolplanner.language_model import Tokens

        # the rounds that led here are as good as the choice; of tags and path nothing is said
        start = next(place for place, piece in enumerate(before) if piece.text == ROUND)
        read, written, option = model.sequence(before[:start]), model.sequence(before[start:]), model.option(action)
        learnt = [*[False] * len(read.tokens), *written.learnt, *[True] * len(option)]
        return cls(Tokens([*read.tokens, *written.tokens, *option], learnt), len(option))


def _own_tokens(choices: Sequence[_Choice], width: int) -> Any:
    """Which log-probabilities are those of the choices' own tokens.  # (B, width)"""
    import torch

    ends = torch.tensor([len(choice.text.tokens) - 1 for choice in choices])[:, None]
    owns = torch.tensor([choice.own for choice in choices])[:, None]
    places = torch.arange(width)[None]
    return (places < ends) & (places >= ends - owns)


def _trees(first: Path, settings: LearntSettings, scenario: Scenario, model: PlannerModel, watch: Watching) -> list[GrownTree]:
    """The solution trees of stage 1's policy; grown once, one a line, and gone on with after a kill."""
    from ....agents.toolplanner.learnt import LearntPlanner

    path = first / f"trees-{settings.rank_tasks}-{settings.temperature:g}.jsonl"
    keep_lines(path, 10**9)
    there = len(read_lines(path))
    model.network.eval()
    planner = LearntPlanner(model, "stage 1", settings.temperature, guided=True)
    with path.open("a", encoding="utf-8") as store:
        for tree in grow_trees(planner, scenario, settings, there):
            store.write(tree.model_dump_json() + "\n")
            store.flush()
    trees = read_trees(path)
    if len(trees) > there:
        watch.say(f"{len(trees) - there} solution trees grown")
    return trees


# -- both ----------------------------------------------------------------------------------------------------------------------


def _optimise(
    run: Path,
    stage: int,
    settings: LearntSettings,
    model: PlannerModel,
    loss_of: Callable[[int], tuple[Any, dict[str, float]]],
    scenario: Scenario,
    watch: Watching,
    steps: int,
) -> TrainingResult:
    """Optimiser steps, from the newest checkpoint of a run to its end."""
    import torch

    from ....agents.checkpoints import checkpoints, load_optimizer, load_weights, save

    weights = model.weights()
    watch.say(f"stage {stage}: {sum(weight.numel() for weight in weights.values()):,} weights to train")
    optimizer = torch.optim.AdamW(weights.values(), lr=settings.rate(stage, 0), weight_decay=settings.weight_decay)
    found = checkpoints(run)
    kept = found[-1] if found else None
    step = 0
    if kept is not None:
        load_weights(kept, weights)
        step = int(load_optimizer(kept, weights, optimizer)["step"])
        watch.say(f"stage {stage}: going on from step {step}")
    _cut_curve(run / CURVE, step)
    before, total = settings.steps * (stage - 1), settings.steps + settings.rank_steps
    recent: list[float] = []
    model.network.train()
    with (run / CURVE).open("a", encoding="utf-8") as curve:
        while step < steps:
            for group in optimizer.param_groups:
                group["lr"] = settings.rate(stage, step)
            with _own_chance(settings.seed, stage, step):
                loss, figures = loss_of(step)
            value = float(loss.detach())
            if not torch.isfinite(loss):
                raise TrainingFailed(step, f"the loss of stage {stage} is {value}", kept)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(weights.values()), settings.clip)
            optimizer.step()
            step += 1
            recent = [*recent[-49:], value]
            curve.write(json.dumps({"step": step, "loss": value, **figures, "rate": settings.rate(stage, step - 1)}) + "\n")
            if watch.progress is not None:
                watch.progress(before + step, total)
            stopped = watch.stop is not None and watch.stop(stage, step)
            if step == steps or stopped or step % watch.save_every == 0:
                if not all(bool(torch.isfinite(weight).all()) for weight in weights.values()):
                    raise TrainingFailed(step, "a weight is no longer a finite number", kept)
                curve.flush()
                kept = save(run, step, weights, optimizer, {"stage": stage, "seed": settings.seed, "loss": value})
            if stopped and step < steps:
                return TrainingResult(run, step, {})
    metrics = _played(model, settings, scenario)
    if recent:
        metrics["loss"] = sum(recent) / len(recent)
    report = {"stage": stage, "steps": steps, **metrics, "settings": asdict(settings)}
    write_atomically(run / METRICS, json.dumps(report, indent=1) + "\n")
    watch.say(f"stage {stage}: " + ", ".join(f"{name} {number:.4f}" for name, number in metrics.items()))
    return TrainingResult(run, steps, metrics)


def _played(model: PlannerModel, settings: LearntSettings, scenario: Scenario) -> dict[str, float]:
    """Match and pass rate on some train tasks, the levels in turns."""
    from ....agents.toolplanner.learnt import LearntPlanner

    model.network.eval()
    world = training_scenario(scenario, settings)
    strategy = ToolPlanner(settings.planner())
    agent = LlmAgent(LearntPlanner(model, "in training"), strategy)
    envs = {level: text_env(world, level) for level in settings.levels}
    catalog = world.build().catalog
    numbers = envs[settings.levels[0]].unwrapped.numbers[-CHECKED:]
    matched, meaningful = [], []
    for place, number in enumerate(numbers):
        level = settings.levels[place % len(settings.levels)]
        episode = play(envs[level], agent, number, settings.seed)
        path = final_solution(strategy.roots)
        matched.append(match(called_tools(path, catalog), gold_tools(episode.task, catalog), level))
        meaningful.append(passed(path[-1].answer if path and path[-1].end == "answer" else None))
    return {"train_match": sum(matched) / len(matched), "train_pass": sum(meaningful) / len(meaningful)}


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError("--out", f"{out} is a file; name a folder")
    if out.is_dir() and not (out / CONFIG).is_file() and any(not path.name.startswith(".") for path in out.iterdir()):
        raise ConfigError("--out", f"{out} holds something else than a ToolPlanner run; name another folder")


def _own(run: Path, settings: LearntSettings, stage: int, scenario: Scenario) -> None:
    """Says what a folder's run is, or checks that it is this one."""
    if not (run / CONFIG).is_file() and run.is_dir():
        write_config(run, settings, stage, scenario.digest)
    there, of_stage, digest = read_config(run)
    odd = [field.name for field in fields(settings) if getattr(there, field.name) != getattr(settings, field.name)]
    told = [f"{name} {getattr(there, name)!r} there, {getattr(settings, name)!r} asked" for name in odd]
    if of_stage != stage:
        told.append(f"stage {of_stage} there, {stage} asked")
    if digest != scenario.digest:
        told.append(f"scenario {digest} there, {scenario.digest} asked")
    if told:
        raise ConfigError("--out", f"{run} holds another run ({', '.join(told)}); name another folder, or do not resume")


def _is_done(run: Path, steps: int) -> bool:
    from ....agents.checkpoints import checkpoints, read_state

    found = checkpoints(run)
    return (run / METRICS).is_file() and bool(found) and read_state(found[-1])["step"] >= steps


def _metrics(run: Path) -> dict[str, float]:
    record = json.loads((run / METRICS).read_text(encoding="utf-8"))
    return {name: record[name] for name in ("train_match", "train_pass", "loss") if name in record}


def _cut_curve(path: Path, steps: int) -> None:
    """Drops what the curve has beyond a step, such as the steps after the checkpoint of a killed run."""
    keep_lines(path, sum(json.loads(line)["step"] <= steps for line in read_lines(path)))


class _own_chance:
    """Torch's own chance (dropout) depends on seed, stage and step alone, and the caller's is left as it was."""

    def __init__(self, seed: int, stage: int, step: int) -> None:
        import torch

        self._seed, self._torch = stable_integer(seed, "dropout", stage, step) >> 1, torch
        self._fork = torch.random.fork_rng(devices=[])

    def __enter__(self) -> None:
        self._fork.__enter__()
        self._torch.manual_seed(self._seed)

    def __exit__(self, *error: Any) -> None:
        self._fork.__exit__(*error)
