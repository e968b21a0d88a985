"""The base of the OpenCATP environments: choice of task and sample, figures of `info`, rendering."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self

import numpy as np

from costgym.envs.base import ActType, BaseEnv, Instance, ObsType, no_episode
from costgym.envs.seats import PlanSeat
from costgym.envs.world_spec import Document, WorldSpec
from costgym.simulators.bounds import WORLDS
from costgym.simulators.digests import SCHEMA, digest_of, short_hash
from costgym.simulators.draws import stable_generator, stable_integer
from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.ledger import RESOURCES, Budget
from costgym.simulators.opencatp.plan_space import PlanValues, plan_space
from costgym.simulators.opencatp.profile import Profile, profile_record, read_profile
from costgym.simulators.opencatp.scoring.evaluation import (
    Evaluator,
    ScoreSource,
    check_sample,
    known_evaluator,
    shipped_outcomes,
    split_samples,
)
from costgym.simulators.opencatp.scoring.table import OutcomeTable
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tasks import task as find_task
from costgym.simulators.opencatp.tasks import tasks as tasks_of
from costgym.simulators.opencatp.tools import LEVELS, TOOLS
from costgym.simulators.opencatp.world import PlanEpisode, PlayedPlan, plan_worlds
from costgym.simulators.plan import Plan
from costgym.simulators.pricing import FaasPricing
from costgym.simulators.quality import MAX_PRICE_USD, check_alpha
from costgym.simulators.rules.limits import exceeded
from costgym.simulators.tasks import Grade

if TYPE_CHECKING:
    from costgym.envs.opencatp.images import SceneImages
    from costgym.envs.rendering.chart import Chart
    from costgym.envs.rendering.choice import Choice, Picture
    from costgym.envs.rendering.story import EpisodeStory
    from costgym.simulators.oracle.optimum import Optimum

BUDGET = {"price": 0.3}  # USD, by default in version 1 of the world; 95 of 100 of the best plans keep within it
SAMPLES = ("drawn", "each")
WORLD = "opencatp"  # the name in the document of an OpenCATP world


@dataclass(frozen=True, kw_only=True)
class OpenCATPSettings:
    """Arguments that all OpenCATP environments have; `OpenCATPBase` describes them."""

    tasks: str = "sequential"
    split: str = "train"
    alpha: float = 0.5
    profile: str | Path | Mapping[str, Any] | Profile = "v100"
    level: int | None = None
    budget: dict[str, float] | str | float | None = None
    cost: str = "price"
    success_score: float = 0.5
    outcomes: str | None = None
    scores: ScoreSource | None = None
    samples: str = "drawn"
    arrangement: int = 0
    render_mode: str | None = None


class PlanWorld(WorldSpec):
    """The profile of the tools, and the digest of the table of what they made."""

    arguments_of_world = frozenset({"profile", "scores", "arrangement"})

    def digest_under(self, schema: int) -> str:
        names, document = ("name", "outcomes", "profile"), self.document
        known = sorted(document.keys() - {"world", "arrangement"}) == list(names) and self.version in WORLDS
        if not known or document["name"] != WORLD or not isinstance(document["outcomes"], str):
            wanted = f"expected a world {WORLD} with {', '.join(names)}, of version {' or '.join(map(str, WORLDS))}"
            raise DataError("header", f"{wanted}; got {sorted(document)}, version {self.version!r:.40}", "scenario")
        read_profile(document["profile"], "header")
        if schema == SCHEMA:
            return digest_of(document)
        return short_hash(json.dumps(document, sort_keys=True, separators=(",", ":"))) if schema == 0 else ""

    def summary(self) -> dict[str, Any]:
        return {
            "name": WORLD,
            "description": "Vision tools were really executed beforehand; plans are looked up and priced by the profile.",
            "currency": "USD",
            **self.stated_version,
            "profile": self.document["profile"]["name"],
        }

    def arguments(self, settings: Document, data: str | None = None) -> dict[str, Any]:
        elsewhere = {} if data is None else {"outcomes": data}
        return {**settings, "profile": self.document["profile"], "arrangement": self.seed, **elsewhere}

    @property
    def seed(self) -> int:
        return check_arrangement(self.document.get("arrangement", 0))

    def another(self, settings: Document, seed: int) -> Self:
        return type(self)({**self.document, "arrangement": seed})


class OpenCATPBase(BaseEnv[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the OpenCATP environments: `OpenCATP-v0`, `OpenCATPChat-v0` and `OpenCATPCalls-v0`.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `tasks` | `"sequential"` (one output), `"nonsequential"` (several outputs) or `"all"`. |
    | `split` | The tasks and samples that `reset` draws from: `"train"` or `"test"`. |
    | `alpha` | Weight of the score against the price, strictly between 0 and 1. |
    | `profile` | What tools cost: a name, a file of `costgym opencatp profile`, what such a file holds, or a `Profile`. |
    | `level` | Gives every sample at this size level, 0 to 3. `None`: at the sample's own. |
    | `budget` | Limits: `{"price": 0.2}`, `"price=0.2"` or `0.2`. `None`: no limits; in version 1 of the world 0.3 USD. |
    | `cost` | The resource reported as `info["cost"]`: `"price"`, `"seconds"`, `"tokens"` or `"calls"`. |
    | `success_score` | The score from which an episode counts as a success. |
    | `outcomes` | File of an outcome table. `None`: the table that comes with the package. |
    | `scores` | Scores from another source in place of a table; such episodes cannot be recorded. |
    | `samples` | What a run plays: `"drawn"`, each task with a sample drawn by the seed; `"each"`, with every sample once. |
    | `arrangement` | Draws the order of the table's samples, and in which every task meets them. 0: as they are. |
    | `render_mode` | `"ansi"` gives calls and choice as text, which `"human"` prints; `"rgb_array"`, `"svg"` draw images too. |

    A setting that makes no sense raises a `CostGymError` that names it.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `cost_price` | float | Price that this step added, USD. |
    | `cost_seconds` | float | Simulated seconds that this step added to the plan's run. |
    | `cost_tokens` | int | Tokens that this step wrote; 0 where tools are called. |
    | `cost_calls` | int | Tools that this step added. |
    | `budget_remaining_price` | float | USD left; negative once overspent, infinite without a limit. |
    | `budget_remaining_calls` | float | Tools left, likewise. |
    | `is_success` | bool | The plan is valid, its score reaches `success_score`, and no limit was passed. |
    | `plan_valid` | bool | The episode has ended with a plan that makes every output the task wants. |
    | `quality_of_plan` | float | Quality of Plan so far; a score counts once the plan is finished. |
    | `score` | float | Score of the plan's outputs, 1 at best; 0 before the end. |
    | `price` | float | Price of the plan so far, USD. |
    | `execution_time_s` | float | Simulated seconds that the plan takes so far. |
    | `task_id` | int | The task's number, in the old numbering. |
    | `sample` | int | The number of the image that the task is about. |
    | `size_level` | int | How large the image is, 0 (smallest) to 3. |
    """

    world_class: type[WorldSpec] = PlanWorld
    world_kind = "opencatp"
    reset_options = frozenset({"task", "sample", "level"})
    in_time = False
    may_give_nothing = True  # an episode may end without a plan, which scores and costs nothing

    def _configure(self, settings: OpenCATPSettings) -> None:
        """Check the arguments, and read tasks, profile and outcomes."""
        split, alpha, level, success_score = settings.split, settings.alpha, settings.level, settings.success_score
        if split not in ("train", "test"):
            raise ConfigError("split", f"expected train or test, got {split!r}")
        self.kind, self.tasks = settings.tasks, tasks_of(settings.tasks, split)
        self.numbers = [task.task_id for task in self.tasks]
        self.alpha, self.max_price = check_alpha(alpha), MAX_PRICE_USD
        if level is not None and (isinstance(level, bool) or level not in range(LEVELS)):
            raise ConfigError("level", f"expected a size level 0..{LEVELS - 1} or None, got {level!r}")
        check_known("way to choose samples", settings.samples, SAMPLES)
        if isinstance(success_score, bool) or not isinstance(success_score, int | float) or not math.isfinite(success_score):
            raise ConfigError("success_score", f"expected a finite number, got {success_score!r}")
        self.outcomes = None if settings.outcomes is None else str(settings.outcomes)
        self._arrangement = check_arrangement(settings.arrangement)
        scores = shipped_outcomes(self.outcomes, self._arrangement) if settings.scores is None else settings.scores
        if not isinstance(scores, OutcomeTable) and self._arrangement:
            raise ConfigError("arrangement", "custom scores cannot be arranged; name a table: outcomes=FILE")
        self.evaluator = Evaluator(scores, settings.profile, alpha)
        self.profile = self.evaluator.profile
        self._worlds = plan_worlds(self.profile)
        self.samples = split_samples(self.evaluator.scores.samples, split)
        self.each_sample = settings.samples == "each"
        self.level, self.success_score = level, success_score
        usual = BUDGET if self.world_version else {}
        budget = Budget.one(usual if settings.budget is None else settings.budget, "budget")
        self._set_up(split, budget, settings.cost, settings.render_mode)
        self._task: OpenCATPTask | None = None
        self.sample = self.size_level = self._draw = 0
        self._seed: int | None = None
        self._sample_named = False
        self._values: PlanValues | None = None
        self._begin_figures()

    # -- episodes

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> OpenCATPTask:
        """Start an episode. `options` may give `task` (old numbering), `sample` and `level`; otherwise they are drawn."""
        self._check_options(options)
        super().reset(seed=seed)
        chosen = options or {}
        draw = self.np_random.integers(1 << 31, size=2)
        self._seed, self._draw, self._sample_named = seed, int(draw[1]), chosen.get("sample") is not None
        task = self.tasks[int(draw[0]) % len(self.tasks)]
        if chosen.get("task") is not None:
            task = find_task(_int("task", chosen["task"]))
        if chosen.get("sample") is None:
            self.sample = self.samples[int(draw[1]) % len(self.samples)]
        else:
            self.sample = check_sample(self.evaluator.scores, _int("sample", chosen["sample"]))
        level = self.level if chosen.get("level") is None else _int("level", chosen["level"])
        if level is not None and not 0 <= level < LEVELS:
            raise ConfigError('options["level"]', f"expected a size level 0..{LEVELS - 1}, got {level}")
        self.size_level = self.evaluator.level(task, self.sample) if level is None else level
        self._task = task
        self._begin_figures()
        return task

    def _begin_figures(self) -> None:
        self._spent: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)
        self._over = False
        self._valid = False
        self._score = 0.0
        self._return = 0.0
        self._exceeded: str | None = None

    @property
    def task(self) -> OpenCATPTask:
        """The task being played."""
        return self._playing()

    def _playing(self) -> OpenCATPTask:
        if self._task is None:
            raise no_episode()
        return self._task

    def quality(self) -> float:
        """Quality of Plan so far: alpha * score - (1 - alpha) * price / max_price, with the score once the plan is finished."""
        return float(self._return)

    def _used(self) -> tuple[float, float, int, int]:
        """Price, seconds, tokens and calls so far."""
        raise NotImplementedError

    def _check_budget(self) -> bool:
        """Return whether all limits were kept so far."""
        self._exceeded = exceeded(self.budget, *self._used())
        return self._exceeded is None

    # -- figures

    def _info(self) -> dict[str, Any]:
        """The `info` of this step. Its keys are always the same, and its objects are new."""
        spent = self._used()
        info = self._cost_info(spent)
        info["is_success"] = bool(self.succeeded)
        info["plan_valid"] = bool(self._over and self._valid)
        info["quality_of_plan"] = float(self._return)
        info["score"] = float(self._score)
        info["price"] = float(spent[0])
        info["execution_time_s"] = float(spent[1])
        info["task_id"] = self.task.task_id
        info["sample"] = self.sample
        info["size_level"] = self.size_level
        if self.world_version:
            info["failure_reason"] = self.failure_reason
        return info

    @property
    def failure_reason(self) -> str:
        """Why the episode that has ended is no success; "" for a success, and before the end."""
        if not self._over or self.succeeded:
            return ""
        if self._exceeded is not None:
            used = dict(zip(RESOURCES, self._used(), strict=True))[self._exceeded]
            return f"over the budget: {self._exceeded} {used:.4g} of {self.budget.as_dict()[self._exceeded]:g}"
        if not self._valid:
            return "no valid plan"
        return f"score {self._score:.3f} below {self.success_score:g}"

    def visible_info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in info.items() if name != "sample"}  # the table that ships tells its optimum

    # -- records

    def world_spec(self) -> WorldSpec:
        table, profile = self.evaluator.scores, self.profile
        if not isinstance(table, OutcomeTable):
            raise ConfigError("scores", "episodes with custom scores cannot be recorded; name a table: outcomes=FILE")
        if profile.pricing != FaasPricing.opencatp():
            raise ConfigError("profile", "episodes with custom pricing cannot be recorded; use OpenCATP's pricing")
        optional = {"world": self.world_version, "arrangement": self._arrangement}
        stated = {name: value for name, value in optional.items() if value}
        return self.world_class({"name": WORLD, "profile": profile_record(profile), "outcomes": self._digest(table), **stated})

    def world_settings(self) -> dict[str, Any]:
        settings = {
            "tasks": self.kind,
            "split": self.split,
            "alpha": self.alpha,
            "level": self.level,
            "budget": self.budget.as_dict(),
            "success_score": self.success_score,
            "samples": "each" if self.each_sample else "drawn",
        }
        return settings if self.outcomes is None else {**settings, "outcomes": self.outcomes}

    def check_world(self, document: Mapping[str, Any]) -> None:
        super().check_world(document)
        table = self.evaluator.scores
        read = self._digest(table) if isinstance(table, OutcomeTable) else "scores from elsewhere"
        if read != document["outcomes"]:
            wanted = f"expected the outcome table {document['outcomes']}, got {read}; name the file by --data"
            raise DataError(self.outcomes or "the shipped outcome table", wanted)

    def _digest(self, table: OutcomeTable) -> str:
        """The digest of a table as it was before it was arranged."""
        return (shipped_outcomes(self.outcomes) if self._arrangement else table).digest

    def seat(self, env_id: str, examples: int = 0) -> PlanSeat:
        about: dict[str, Any] = {"max_price": self.max_price, "task": self.task, "level": self.size_level}
        return PlanSeat(**self.seat_parts(env_id), **about, evaluator=known_evaluator(self.evaluator))

    def plan(self) -> Plan | None:
        """The plan so far, or None."""
        raise NotImplementedError

    def account(self) -> PlanEpisode:
        raise NotImplementedError

    def _begin_calls(self) -> PlanEpisode:
        """The present episode on the tool world's clock, before any call."""
        seed = -1 if self._seed is None else self._seed  # without one it cannot be replayed
        return self._worlds[self.size_level].episode_of(self.task, self.sample, seed, self.budget)

    def _graded(self, episode: PlanEpisode) -> PlanEpisode:
        """An episode with what the environment knows of it: whether it is over, its grade and the limit that was passed."""
        if self._over:
            episode.stop()
            good = self._valid and self._score >= self.success_score
            episode.grade = Grade(float(self._score), bool(good), bool(good))
        episode.exceeded = self._exceeded
        return episode

    def _played(self, plan: PlayedPlan, price: float) -> PlanEpisode:
        """The episode of a plan, at the price that was told, which is added in the order written, not in that of the ends."""
        episode = self._begin_calls()
        episode.play(plan)
        episode.ledger.price = price
        return self._graded(episode)

    def give_up(self) -> None:
        self._playing()
        self._over = True

    @property
    def succeeded(self) -> bool:
        """Return whether the plan is valid, its score reaches `success_score` and no limit was passed."""
        return self._over and self._valid and self._exceeded is None and self._score >= self.success_score

    def figures(self) -> dict[str, Any]:
        """Score, Quality of Plan, validity, seconds without concurrency, sample, size level and the draw of the sample."""
        plan, seconds = self.plan() if self._valid else None, 0.0
        if plan is not None:
            seconds = plan.sequential_time({tool: self.profile.seconds(tool, self.size_level) for tool in plan.nodes})
        return {
            "score": float(self._score),
            "quality_of_plan": float(self._return),
            "plan_valid": bool(self._over and self._valid),
            "seconds_one_by_one": seconds,
            "sample": self.sample,
            "size_level": self.size_level,
            "draw": self._draw,
        }

    def outcome_table(self) -> OutcomeTable | None:
        scores = self.evaluator.scores
        return scores if isinstance(scores, OutcomeTable) else None

    def optimum(self, budget: Budget | None = None) -> "Optimum":
        """The best plan for the present sample, by its true scores. Where no plan need be given, none at all has quality 0."""
        from costgym.simulators.oracle.optimum import Optimum

        if self._values is None:
            self._values = PlanValues(self.evaluator)
        task, level, limits = self.task, self.size_level, self.budget if budget is None else budget
        plans, worth = plan_space(task.wants).plans, self._values.qualities(task, level, self.sample)
        unlimited = not limits.as_dict()
        for number in [int(np.argmax(worth))] if unlimited else np.argsort(-worth, kind="stable").tolist():
            price, seconds = self.evaluator.cost(plans[number], level)
            used = {"price": price, "seconds": seconds, "calls": len(plans[number].nodes)}
            if all(used.get(name, 0.0) <= limit for name, limit in limits.items()):
                quality = float(worth[number])
                good = self.evaluator.score(plans[number], task, self.sample) >= self.success_score
                best = max(quality, 0.0) if self.may_give_nothing else quality
                chosen = () if best > quality else tuple(map(TOOLS.index, plans[number].nodes))
                return Optimum(chosen, (), price, seconds, good, True, best, quality)
        return Optimum((), (), 0.0, 0.0, False, True, 0.0, 0.0)

    # -- what a run plays

    @property
    def instances(self) -> int | None:
        """The number of tasks times the number of samples, if each pair is played once."""
        return len(self.tasks) * len(self.samples) if self.each_sample else None

    def instance(self, index: int, seed: int) -> Instance:
        """The task at an index, in turn. Its sample is drawn by the seed, or is the next one in each round; in a table that is
        arranged, the next one of the task's own order, so that what one task tells of a sample helps with no other."""
        if not self.each_sample:
            return super().instance(index, seed)
        whole, rest = divmod(index, len(self.tasks) * len(self.samples))
        sample, task = divmod(rest, len(self.tasks))
        if self._arrangement:
            order = stable_generator(self._arrangement, "order", self.numbers[task]).permutation(len(self.samples))
            sample = int(order[sample])
        return Instance(self.numbers[task], seed + whole, {"sample": self.samples[sample]})

    def agent_seed(self, seed: int) -> int:
        if not self._sample_named:
            return super().agent_seed(seed)
        return stable_integer(seed, "plan", self.task.task_id, self.sample) >> 1

    # -- views

    def chart(self) -> "Chart":
        from costgym.envs.rendering.chart import plan_chart

        return plan_chart(self.account(), self.quality())

    _images: "SceneImages | None" = None  # made for the first picture

    def choice(self) -> "Choice | None":
        from costgym.envs.rendering.choice import query_choice

        episode = self.account()
        called = {call.tool for call in episode.calls}
        wanted = ", ".join(f"{want.kind}{' in German' if want.german else ''}" for want in self.task.wants)
        slots = [slot for slot in episode.candidates if slot.name not in called]
        choice = query_choice(
            episode, f"wanted: {wanted}", "tools that have not run, the cheapest first", slots, advertised=False
        )
        return None if choice is None or self._over else choice

    def pictures(self) -> "Sequence[Picture]":
        from costgym.envs.opencatp.images import SceneImages

        if self._images is None:
            self._images = SceneImages()
        return self._images.pictures(self)

    def describe_episode(self, steps: Sequence[Any]) -> "EpisodeStory":
        from costgym.envs.rendering.story import EpisodeStory, wrapped

        account, figures = self.account(), self.figures()
        head = [wrapped(f"Task {account.task.id}: ", account.task.query)]
        sample = f"sample {figures['sample']}, size level {figures['size_level']}"
        head.append(f"  {sample}, seed {account.seed}, budget: {account.budget}")
        return EpisodeStory(head, self._choices_story(steps), self._grade_story(account))

    def _choices_story(self, steps: Sequence[Any]) -> str:
        """List the choices with their times; choices at the same time are on one line."""
        from costgym.envs.rendering.story import wrapped

        chosen = [(before.info["execution_time_s"], self.action_text(step.action)) for before, step in pairwise(steps)]
        if not self.in_time:
            return wrapped("Written: ", " | ".join(name for _, name in chosen))
        times = groupby(chosen, key=lambda pair: pair[0])
        lines = [wrapped(f"  {at_s:8.2f} s  ", ", ".join(name for _, name in names)) for at_s, names in times]
        return "\n".join(["Actions", *lines])

    def _grade_story(self, account: PlanEpisode) -> str:
        from costgym.envs.rendering.chart import plan_verdict
        from costgym.envs.rendering.story import wrapped

        plan, lines = self.plan(), [f"Grade at {account.now_s:.2f} s", wrapped("  ", plan_verdict(account, self.quality()))]
        refused = [call.reason for call in account.calls if call.reason]
        if refused:
            lines.append(wrapped("  ", f"no valid plan: {refused[0]}"))
        elif account.over and not self.figures()["plan_valid"]:
            lines.append("  no valid plan: it was cut off, or does not answer with all that is wanted")
        if plan is not None:
            lines.append(wrapped("  plan: ", "; ".join(f"{step.tool} after {', '.join(step.deps)}" for step in plan.steps)))
        return "\n".join(lines)


def check_arrangement(seed: Any) -> int:
    """A seed of the order of a table's samples; raises ConfigError where it is none."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError("arrangement", f"expected a whole number from 0 on, got {seed!r:.60}")
    return seed


def _int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f'options["{name}"]', f"expected a whole number, got {value!r}")
    return int(value)
