"""The shared parts of the native OpenCATP environments: the start of N episodes, and their figures.

The functions are compiled; `OpenCATPVectorBase` is the Python class around them.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...simulators.batch.device import Device
from ...simulators.batch.rng import inlined, next_word
from ...simulators.errors import ConfigError
from ...simulators.ledger import RESOURCES
from ...simulators.opencatp.batch.kernels import WANTS
from ...simulators.opencatp.batch.scorer import PlanScorer, task_rows
from ...simulators.opencatp.levels import LEVELS
from ...simulators.opencatp.scoring.evaluation import check_sample
from ...simulators.opencatp.tasks import all_tasks
from ...simulators.opencatp.tasks import task as find_task
from ..base import BaseEnv
from ..opencatp.base import OpenCATPBase, _int, _task_row
from .base import NativeVectorEnv, Observation, Parts
from .info import duplicate, what_is_left

FIGURES = (
    "cost_price", "cost_seconds", "budget_remaining_price", "budget_remaining_seconds",
    "quality_of_plan", "score", "price", "execution_time_s",
)  # fmt: skip
COUNTS = ("cost_tokens", "cost_calls", "task_id", "sample", "size_level")
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT, _HALF = np.uint64(1), np.uint64(33)

SHARED = [
    ("price", "f8"), ("seconds", "f8"), ("last_price", "f8"), ("last_seconds", "f8"), ("worth", "f8"), ("score", "f8"),
    ("tokens", "i4"), ("calls", "i4"), ("last_tokens", "i4"), ("last_calls", "i4"),
    ("task", "i4"), ("sample", "i4"), ("used", "i4"), ("consumed", "i4"), ("log_seconds", "f4"),
    ("level", "i1"), ("over", "?"), ("valid", "?"), ("exceeded", "?"), ("ended", "?"),
]  # fmt: skip
"""Fields of an episode in both environments: resources spent, and spent at the last report; quality so far; score; task, sample
and level; tools as bits (those in the plan, those that others read); and flags of its state."""


class Rules(NamedTuple):
    """The settings of an environment, and the arrays that its observations are copied from.

    Attributes:
        alpha, loss, max_price: weights of score and price.
        limits: (4,) price, seconds, tokens, calls; infinite where there is none.
        success_score: score from which an episode is a success.
        choices: (K,) rows of the tasks that a reset draws from.
        first_sample, sample_count: the samples that a reset draws from.
        level: the level of every sample, or -1 for its own.
        tasks: (T, 12) `observation["task"]`.
        levels: (4, 4) `observation["level"]`.
        tools: (4, 10, columns) `observation["tools"]` at the start, by level.
        cumulative: the reward is the published one.
        max_tokens, max_steps, concurrent: of the environment that has them, 0 and False in the other.
        time_limit: steps after which an episode is truncated whatever it says.
        refuse, record: what a limit does to a call, and False where plans are written.
    """

    alpha: float
    loss: float
    max_price: float
    limits: NDArray[np.float64]
    success_score: float
    choices: NDArray[np.int64]
    first_sample: int
    sample_count: int
    level: int
    tasks: NDArray[np.float32]
    levels: NDArray[np.float32]
    tools: NDArray[np.float32]
    cumulative: bool
    max_tokens: int
    max_steps: int
    time_limit: int
    concurrent: bool
    refuse: bool
    record: bool


class Common(NamedTuple):
    """The arrays of a step that both environments return.

    Attributes:
        task, level: (N, 12), (N, 4).
        mask: (N, actions).
        rewards, terminated, truncated: (N,).
        figures: (8, N), named by `FIGURES`.
        counts: (5, N), named by `COUNTS`.
        used: (2, N) tokens and calls so far.
        success, valid: (N,).
    """

    task: NDArray[np.float32]
    level: NDArray[np.float32]
    mask: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    figures: NDArray[np.float64]
    counts: NDArray[np.int64]
    used: NDArray[np.int64]
    success: NDArray[np.bool_]
    valid: NDArray[np.bool_]


@inlined
def begin(tables: Any, rules: Any, episodes: Any, streams: Any, i: int, row: int, sample: int, level: int) -> None:
    """Begin an episode. A task or sample below 0 is drawn; a level below 0 is the settings', or else the sample's own."""
    word = next_word(streams, i)
    # As two draws below 2**31: the generator hands out the lower half of a word first.
    if row < 0:
        row = rules.choices[np.int64((word & _LOW) >> _SHIFT) % rules.choices.size]
    if sample < 0:
        sample = rules.first_sample + np.int64(word >> _HALF) % rules.sample_count
    if level < 0:
        level = rules.level if rules.level >= 0 else (sample + tables.task_id[row]) % 4
    e = episodes[i]
    e.task, e.sample, e.level = row, sample, level
    e.price = e.seconds = e.last_price = e.last_seconds = e.worth = e.score = 0.0
    e.log_seconds = 0.0
    e.tokens = e.calls = e.last_tokens = e.last_calls = 0
    e.used = e.consumed = 0
    e.over = e.valid = e.exceeded = e.ended = False


@inlined
def keeps_budget(rules: Any, e: Any) -> bool:
    """Return whether all limits are kept; sets `exceeded` if one is not."""
    limits = rules.limits
    if e.price > limits[0] or e.seconds > limits[1] or e.tokens > limits[2] or e.calls > limits[3]:
        e.exceeded = True
        return False
    return True


@inlined
def show_figures(tables: Any, rules: Any, e: Any, common: Any, i: int) -> None:
    """Write the figures of `info`, and mark what was spent as reported."""
    figures, counts, limits = common.figures, common.counts, rules.limits
    figures[0, i], figures[1, i] = e.price - e.last_price, e.seconds - e.last_seconds
    figures[2, i], figures[3, i] = limits[0] - e.price, limits[1] - e.seconds
    figures[4, i], figures[5, i], figures[6, i], figures[7, i] = e.worth, e.score, e.price, e.seconds
    counts[0, i], counts[1, i] = e.tokens - e.last_tokens, e.calls - e.last_calls
    counts[2, i], counts[3, i], counts[4, i] = tables.task_id[e.task], e.sample, e.level
    common.used[0, i], common.used[1, i] = e.tokens, e.calls
    valid = e.over and e.valid
    common.valid[i] = valid
    common.success[i] = valid and not e.exceeded and e.score >= rules.success_score
    e.last_price, e.last_seconds, e.last_tokens, e.last_calls = e.price, e.seconds, e.tokens, e.calls


@inlined
def share_left(rules: Any, resource: int, used: float) -> float:
    """The share of a limit that is left; 1 without a limit."""
    return 1.0 - used / rules.limits[resource]


def _bytes_of(parts: Any) -> int:
    if isinstance(parts, np.ndarray):
        return parts.nbytes
    return sum(_bytes_of(part) for part in parts) if isinstance(parts, tuple) else 0


class OpenCATPVectorBase(NativeVectorEnv):
    """Base of the native OpenCATP environments.

    Args:
        num_envs, autoreset_mode, copy, settings: see `NativeVectorEnv`; `threads` is 1. `render_mode` is not among the
            settings. A custom score table (`scores`) is asked once for each outcome, and the answer is kept.
    """

    kernels: Any
    """The module of the environment's kernels."""
    state: Any
    scalar: Any

    def _make_scalar(self, settings: dict[str, Any]) -> BaseEnv[Any, Any]:
        if settings.get("backend") is not None:
            raise ConfigError("backend", 'the native batch looks outcomes up; execute plans with vectorization_mode="sync"')
        if settings.get("render_mode") is not None:
            raise ConfigError(
                "render_mode",
                f"the native batch draws nothing, got {settings['render_mode']!r}; leave it out, or take SyncVectorEnv: "
                'gymnasium.make_vec(..., vectorization_mode="sync")',
            )
        return super()._make_scalar(settings)

    def _build(self) -> None:
        if self.threads != 1:
            raise ConfigError(
                "threads", f"OpenCATP is played on one thread, because its episodes share scores; got {self.threads}"
            )
        scalar: OpenCATPBase[Any, Any] = self.scalar
        self.scorer = PlanScorer(scalar.evaluator)
        self.scorer.reserve(self.num_envs)
        columns = self.single_observation_space["tools"].shape[1]  # type: ignore[index]
        tools = np.zeros((LEVELS, 10, columns), np.float32)
        for level in range(LEVELS):
            scalar.size_level = level
            tools[level, :, :4] = scalar._tool_costs()
        limits = [np.inf if limit is None else float(limit) for limit in scalar._limits]
        rows = task_rows()
        self.rules = Rules(
            alpha=scalar.alpha,
            loss=(1.0 - scalar.alpha) / scalar.max_price,
            max_price=float(scalar.max_price),
            limits=np.array(limits),
            success_score=float(scalar.success_score),
            choices=np.array([rows[task.task_id] for task in scalar.tasks], np.int64),
            first_sample=scalar.samples.start,
            sample_count=len(scalar.samples),
            level=-1 if scalar.level is None else int(scalar.level),
            tasks=np.stack([_task_row(task) for task in all_tasks()]),
            levels=np.eye(LEVELS, dtype=np.float32),
            tools=tools,
            cumulative=False,
            max_tokens=0,
            max_steps=0,
            time_limit=self.time_limit,
            concurrent=False,
            refuse=False,
            record=False,
        )
        self._pending = np.zeros(self.num_envs, np.int64)
        self._kept: Observation | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the state of all episodes, without shared tables and without the arrays that a step returns."""
        return _bytes_of(self.state) + self._streams.nbytes + self._pending.nbytes + 3 * self.num_envs

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the tables and known scores that all environments share."""
        return self.scorer.nbytes + _bytes_of(self.rules)

    def _chosen(self, options: dict[str, Any]) -> tuple[int, int, int]:
        """The row of ``options["task"]`` (old numbering), ``sample`` and ``level``; -1 for each that is drawn."""
        row = sample = level = -1
        if options.get("task") is not None:
            row = task_rows()[find_task(_int("task", options["task"])).task_id]
        if options.get("sample") is not None:
            sample = check_sample(self.scalar.evaluator.scores, _int("sample", options["sample"]))
        if options.get("level") is not None:
            level = _int("level", options["level"])
            if not 0 <= level < LEVELS:
                raise ConfigError('options["level"]', f"expected a size level 0..{LEVELS - 1}, got {level}")
        return row, sample, level

    def _outcome(self, out: Any) -> Common:
        common: Common = out.common
        return common

    def _conclude(self, conclude: Callable[..., int], out: Any, waiting: int) -> None:
        """End the steps of the `waiting` episodes whose scores the kernel did not know, by looking the scores up."""
        scorer = self.scorer
        while waiting:
            scorer.look_up()
            waiting = conclude(scorer.tables, self.rules, scorer.store, self.state, out, self._pending, waiting)

    def _own_store(self) -> Any:
        """The known scores, with room for each thread to note those that it lacks."""
        missing, lacking = np.zeros((2, WANTS * self.num_envs), np.int64), np.zeros(self.num_envs, np.int64)
        return self.scorer.store._replace(missing=missing, lacking=lacking)

    def _conclude_on(self, device: Device, parts: Parts, out: Any) -> Parts:
        """End the steps that lack scores, by looking the scores up on the CPU."""
        scorer = self.scorer
        while bool((device.tensor(parts.shared[-1].lacking) > 0).any()):
            store = parts.shared[-1]
            lacking = device.get(store.lacking)
            noted = np.arange(WANTS) < lacking[:, None]  # (N, WANTS)
            missing = device.get(store.missing).reshape(2, -1, WANTS)[:, noted]
            scorer.store.missing[:, : missing.shape[1]], scorer.store.lacking[0] = missing, missing.shape[1]
            scorer.look_up()
            store = store._replace(keys=device.put(scorer.store.keys), values=device.put(scorer.store.values))
            parts = parts._replace(shared=(*parts.shared[:-1], store))
            device.launch(self.kernels.conclude_alone, self.num_envs, *parts.shared[:2], store, parts.state, out)
        return parts

    def _common(self, actions: int, kept: Observation | None) -> Common:
        count = self.num_envs
        return Common(
            task=np.empty((count, self.rules.tasks.shape[1]), np.float32) if kept is None else kept["task"],
            level=np.empty((count, LEVELS), np.float32) if kept is None else kept["level"],
            mask=np.empty((count, actions), np.bool_),
            rewards=np.empty(count),
            terminated=np.empty(count, np.bool_),
            truncated=np.empty(count, np.bool_),
            figures=np.empty((len(FIGURES), count)),
            counts=np.empty((len(COUNTS), count), np.int64),
            used=np.empty((2, count), np.int64),
            success=np.empty(count, np.bool_),
            valid=np.empty(count, np.bool_),
        )

    def _figures(self, out: Any) -> dict[str, NDArray[Any]]:
        common = self._outcome(out)
        info: dict[str, NDArray[Any]] = dict(zip(FIGURES, common.figures, strict=True))
        info.update(zip(COUNTS, common.counts, strict=True))
        info["is_success"], info["plan_valid"] = common.success, common.valid
        tokens, calls = common.used
        for name, used, limit in (("tokens", tokens, self.scalar._limits[2]), ("calls", calls, self.scalar._limits[3])):
            info[f"budget_remaining_{name}"] = what_is_left(limit, used)
        cost = self.scalar.cost
        info["cost"] = duplicate(info[f"cost_{cost}"])
        sums = (info["price"], info["execution_time_s"], tokens, calls)
        info["cost_sum"] = duplicate(sums[RESOURCES.index(cost)])
        info["action_mask"] = duplicate(common.mask)
        return info
