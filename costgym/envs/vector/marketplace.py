"""The native vector environment of the marketplace: compiled steps of N episodes.

It equals Gymnasium's ``SyncVectorEnv`` over `marketplace.MarketplaceEnv` bit for bit: seeds, autoreset, tasks, observations,
rewards, ends, masks and every figure in `info`.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from costgym.envs.base import InvalidAction, LimitedSpec
from costgym.envs.features.templates import MAX_NEEDS, NEED_FEATURES, TOOL_FEATURES
from costgym.envs.features.writing import ROLE_FEATURES
from costgym.envs.vector.attributes import AttributesByName
from costgym.envs.vector.checks import ArrayPool, checked_mode, checked_reset_mask, checked_threads, checked_time_limit
from costgym.envs.vector.info import COUNTS, FIGURES, WRITTEN, figures_info
from costgym.envs.vector.kernels import marketplace as kernels
from costgym.simulators.batch.arguments import BoundArguments, rebound
from costgym.simulators.batch.rng import draw_where, in_threads, stream_words
from costgym.simulators.batch.state import Batch
from costgym.simulators.batch.tables import batch_rules, put_rows, replaced
from costgym.simulators.errors import ConfigError, EpisodeOver
from costgym.simulators.ledger import RESOURCES

Observation = dict[str, NDArray[Any]]
Arrays = NDArray[np.float64]
Mask = NDArray[np.bool_]

_WORD = (1 << 64) - 1
EAGER = 2_048  # tasks of a split up to which all tables are made at the start
KEPT_ROWS = 8_192  # tasks of several worlds whose tables are kept
NO_WRITES = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32), np.zeros((1, 1))
"""The last arrays of `kernels.Out`, which worlds without writes do not use."""


class NativeVectorEnv(LimitedSpec, AttributesByName, gym.vector.VectorEnv[Observation, Any, Any]):
    """N environments in numbers, played in compiled code: the base of those in `envs.native`, which document the arguments.

    Attributes:
        scalar: the scalar environment, which gives the spaces and the settings.
    """

    scalar: Any
    make_scalar: Any  # makes the scalar environment
    kernels: Any = kernels  # the module with the compiled steps
    _several = False

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        all_tables: bool = False,
        max_episode_steps: int | None = None,
        **settings: Any,
    ) -> None:
        self.all_tables = all_tables
        self.autoreset_mode, self.threads = checked_mode(num_envs, autoreset_mode), checked_threads(threads)
        self.time_limit = checked_time_limit(max_episode_steps)
        self.scalar = scalar = self.make_scalar(**settings)
        scalar.keeps_log = False
        self.num_envs, self.copy = num_envs, copy
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self.single_observation_space, self.single_action_space = scalar.observation_space, scalar.action_space
        try:
            self._allocate(num_envs)
        except MemoryError:
            one, two = (type(self)(count, all_tables=all_tables, **settings) for count in (1, 2))
            state, returned = two.nbytes - one.nbytes, sum(array.nbytes for array in one.fresh())
            problem = f"expected as many as memory holds, at {state:,} bytes of state and {returned:,} that a step returns each"
            raise ConfigError("num_envs", f"{problem}, got {num_envs:,}; take fewer") from None

    def _allocate(self, num_envs: int) -> None:
        """Make all that grows with the number of environments."""
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._streams = np.zeros((num_envs, 4), np.uint64)
        self._seeded = np.zeros(num_envs, np.bool_)
        self._ended = np.zeros(num_envs, np.bool_)
        self._begun = np.zeros(num_envs, np.bool_)
        self._all_begun = False
        self._mask: Mask | None = None
        self._mask_names: list[str] = []  # keys of `info` that tell whom a figure is of, spelled once
        self._pool = ArrayPool()
        self._bound: BoundArguments | None = None
        self._used = np.zeros(self.threads, np.int64)
        self._observed: Any = None  # the arrays of observations that are handed out again
        self._everyone = np.ones(num_envs, np.bool_)
        self._make_world(self.scalar)
        # what begins in a step is written into these arrays, so that kernels have their addresses
        self._turn = self._undrawn._replace(tasks=self._undrawn.tasks.copy(), seeds=self._undrawn.seeds.copy())

    def _make_world(self, scalar: Any) -> None:
        """Make the batch, and the tables of what is seen of it."""
        self._several = len(scalar.scenarios) > 1
        if self._several and self.all_tables:
            raise ConfigError("all_tables", "needs one scenario, as do GPUs; tables of several are made when they are drawn")
        # the tables of a small split are made at the start and drawn from by the kernels; those of a large one, and of several
        # worlds, when drawn
        self._by_row = self._several or (len(scalar.numbers) > EAGER and not self.all_tables)
        numbers = [] if self._by_row else list(scalar.numbers)
        self.batch = Batch(
            scalar.world, numbers, self.num_envs, scalar.budget, scalar.enforcement, scalar.max_tools, scalar.max_steps,
            at_once=None if scalar.concurrent else 1, several=self._several,
        )  # fmt: skip
        self._numbers = {scalar._world_index: np.array(scalar.numbers, np.int64)}
        self._row_of = {(scalar._world_index, number): row for row, number in enumerate(numbers)}
        self._common, self._first = self._rules_of(scalar), scalar.scenario.name
        if isinstance(scalar.scenarios, tuple):  # the worlds of a folder are looked at when they are drawn
            for index in (*range(len(scalar.scenarios)), scalar._world_index):
                self._enter(index)
        count = self.num_envs
        undrawn = np.full(count, -1, np.int64), np.zeros(count, np.uint64), np.full(count, self._by_row)
        self._undrawn = kernels.Starts(*undrawn, self._by_row)
        self._view = self._empty_view()
        if numbers:
            self._extend_view(0, len(numbers))
        spaces: Any = self.single_observation_space
        names = ("tools", "needs", "resources", *(("roles", "effects") if scalar.world.writes else ()))
        self._shapes: dict[str, tuple[int, ...]] = {name: spaces[name].shape for name in names}

    def _rules_of(self, scalar: Any) -> tuple[Any, ...]:
        """What the tables do not hold, and worlds have to share."""
        rules = batch_rules(scalar.world, scalar.budget, scalar.enforcement, not scalar.concurrent, self._several)
        return rules, scalar.world.alpha, scalar.world.max_price

    def _enter(self, index: int) -> None:
        """Let the scalar environment enter one of several worlds.

        Raises:
            ConfigError: its rules are not those of the first one.
        """
        self.scalar._enter_world(index)
        self.batch.world = self.scalar.world
        if self._rules_of(self.scalar) != self._common:
            what = "compiled code plays worlds with one set of rules, budget and prices"
            instead = 'play these with compiled=False or vectorization_mode="sync"'
            raise ConfigError("scenario", f"{what}, and {self.scalar.scenario.name} has another than {self._first}; {instead}")

    def _choices(self, index: int) -> NDArray[np.int64]:
        """The numbers of the tasks that a world's split has."""
        if index not in self._numbers:
            self._enter(index)
            numbers, first = np.array(self.scalar.numbers, np.int64), next(iter(self._numbers.values()))
            self._numbers[index] = first if np.array_equal(numbers, first) else numbers  # those of a folder are all alike
        return self._numbers[index]

    @property
    def step_limit(self) -> int:
        return min(self.time_limit, int(self.scalar.max_steps))

    def _empty_view(self) -> kernels.View:
        scalar, width = self.scalar, self.scalar.max_tools
        shares = scalar._shares
        return kernels.View(
            tools=np.zeros((0, width, len(TOOL_FEATURES)), np.float32),
            plain=np.zeros((0, MAX_NEEDS, len(NEED_FEATURES)), np.float32),
            mask=np.zeros((0, 1, scalar.finish_action + 1), np.bool_),
            quote=np.zeros((0, 1, width), np.float32),
            dues=np.zeros((0, 1, width)),
            slots=np.zeros((0, width), np.int16),
            rows=np.zeros((0, width), np.int16),
            roles=np.zeros((0, width, len(ROLE_FEATURES)), np.float32),
            serves=np.zeros((0, width), np.uint8),
            concurrent=scalar.concurrent,
            useful=scalar.mask == "useful",
            highest=float(scalar._highest),
            least=float(scalar._least),
            choices=0 if self._by_row else len(scalar.numbers),
            max_steps=scalar.max_steps,
            time_limit=self.time_limit,
            autoreset=self.autoreset_mode is AutoresetMode.NEXT_STEP,
            fresh=self.copy,
            scale=float(scalar._scale),
            loss=float(scalar._loss),
            alpha=float(scalar.world.alpha),
            price_share=float(shares[0]),
            seconds_share=float(shares[1]),
            calls_share=float(shares[3]),
            judged=scalar.grading == "judge",
            resource=RESOURCES.index(scalar.cost),
        )

    def _extend_view(self, first: int, end: int) -> None:
        """Write what is seen of the tasks in some rows of the tables."""
        scalar, tables = self.scalar, self.batch.tables
        templates = [scalar.template(number) for number in self.batch.numbers[first:end]]
        slots, rows = np.zeros((2, len(templates), scalar.max_tools), np.int16)
        mask = np.repeat(np.stack([template.mask for template in templates])[:, None], tables.banned.shape[1], axis=1)
        for number, template in enumerate(templates):
            count = len(template.slots)
            slots[number, :count], rows[number, :count] = template.slots, template.rows
            mask[number, :, :count] &= ~tables.banned[first + number][:, list(template.slots)]
        # by epoch, as the world's own tables: a kernel then reads mask and price with one index
        blocks: dict[str, NDArray[Any]] = {
            "tools": np.stack([template.tools for template in templates]),
            "plain": np.stack([template.needs for template in templates]),
            "mask": mask,
            "quote": np.minimum(tables.quote[first:end] * scalar._scale, scalar._highest).astype(np.float32),
            "dues": np.take_along_axis(tables.quote[first:end], slots[:, None].astype(np.int64), axis=2),
            "slots": slots,
            "rows": rows,
            "roles": np.stack([template.roles for template in templates]),
            "serves": np.stack([template.serves for template in templates]),
        }
        grown: dict[str, Any] = {name: put_rows(getattr(self._view, name), first, block) for name, block in blocks.items()}
        self._view = replaced(self._view, **grown)

    @property
    def nbytes(self) -> int:
        """Bytes of the state of all episodes, without shared tables and without the arrays that a step returns."""
        return self.batch.nbytes + self._streams.nbytes

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the tables that all environments share."""
        tables: list[NDArray[Any]] = [*self.batch.tables, *(part for part in self._view if isinstance(part, np.ndarray))]
        return sum(array.nbytes for array in tables)

    # -- reset -------------------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: environment i gets ``seed + i``, or the i-th of a list. None continues each environment's generator.
            options: ``reset_mask``, (N,) bool, selects the environments to reset; the other options are those of the scalar
                environment and hold for all.
        """
        where, starts, words, taken = self.read_reset(seed, options)
        self._streams[taken] = words[taken]
        if self._by_row:
            starts = self._draw(where, starts)
        out = self._new()
        self._begin(out, where, starts, True)
        self._begun |= where
        self._all_begun = bool(self._begun.all())
        self._ended[where] = False
        return self.observations(out), self._info(out, None if where.all() else where)

    def read_reset(
        self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None
    ) -> tuple[Mask, kernels.Starts, NDArray[np.uint64], Mask]:
        """Read a reset before any state changes: who is reset, their starts, (N, 4) new generators, and where those hold."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        options, count = options or {}, self.num_envs
        mask = options.get("reset_mask")
        where = np.ones(count, np.bool_) if "reset_mask" not in options else checked_reset_mask(mask, count)
        if options.get("scenario") is not None:
            raise ConfigError('options["scenario"]', "the native batch plays one scenario; make it with that one")
        seeds = [None] * count if seed is None else [seed + i for i in range(count)] if isinstance(seed, int) else list(seed)
        if len(seeds) != count:
            raise ConfigError("seed", f"expected a list of {count} seeds, one per environment, got {len(seeds)}")
        rows = self._undrawn.tasks
        if options.get("task") is not None and self._several:
            raise ConfigError(
                'options["task"]', "a batch of several worlds draws its tasks; to name one, use a batch of one world"
            )
        if options.get("task") is not None:
            number, rows = self.scalar._task_number(options["task"]), rows.copy()
            rows[where] = self._rows(np.full(int(where.sum()), number), np.flatnonzero(where))
        numbers, seeded, words = np.zeros(count, np.uint64), np.zeros(count, np.bool_), np.zeros((count, 4), np.uint64)
        for i in np.flatnonzero(where if seed is not None else where & ~self._seeded).tolist():
            # a seed starts the generator again; without one, it goes on, or starts from the system's entropy the first time
            single = seeds[i]
            if single is not None:
                words[i], numbers[i], seeded[i] = stream_words(int(single)), int(single) & _WORD, True
            elif not self._seeded[i]:
                words[i] = stream_words(None)
        taken = seeded | (where & ~self._seeded)
        self._seeded |= where
        return where, kernels.Starts(rows, numbers, seeded, False), words, taken

    def _rows(
        self, numbers: NDArray[np.int64], indices: NDArray[np.int64], worlds: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The rows of the tasks that the environments at some places play next; those that have none get one now."""
        of = np.zeros(len(numbers), np.int64) if worlds is None else worlds
        wanted = list(zip(of.tolist(), numbers.tolist(), strict=True))
        unknown: dict[int, list[int]] = {}
        for world, number in dict.fromkeys(wanted):
            if (world, number) not in self._row_of:
                unknown.setdefault(world, []).append(number)
        for world, tasks in unknown.items():
            self._enter(world)
            first = len(self.batch.numbers)
            if not self._several or first + len(tasks) <= self._most_rows:
                self._put(world, tasks, first)
                continue
            # the oldest rows that nobody plays or is about to play make room, so that memory is flat in any number of worlds
            played = {*self.batch.state.episodes["task"].tolist(), *(self._row_of.get(key) for key in wanted)}
            spare = iter([key for key, row in self._row_of.items() if row not in played])
            for number in tasks:
                first = len(self.batch.numbers)
                self._put(world, [number], first if first < self._most_rows else self._row_of.pop(next(spare)))
        return np.array([self._row_of[key] for key in wanted], np.int64)

    def _put(self, world: int, tasks: list[int], first: int) -> None:
        """Write tasks of the world that was entered into the rows from `first` on."""
        self.batch.add(tasks, first)
        self._extend_view(first, first + len(tasks))
        self._row_of.update({(world, number): first + n for n, number in enumerate(tasks)})

    @property
    def _most_rows(self) -> int:
        """Rows for tasks of several worlds: enough for all that are played and all that come next."""
        return max(KEPT_ROWS, 2 * self.num_envs + 1)

    def _draw(self, where: Mask | None, starts: kernels.Starts | None = None) -> kernels.Starts:
        """What the episodes that begin in `where` begin with, `given` seeds and rows or drawn ones; -1 where the kernels draw
        them."""
        if not self._by_row or where is None or not where.any():
            return self._turn
        rows, draws = self._turn.tasks, self._turn.seeds
        draw_where(self._streams, where, draws)
        seeds = draws if starts is None else np.where(starts.seeded, starts.seeds, draws)
        if starts is not None and (starts.tasks >= 0).any():
            rows[:] = starts.tasks
        elif not self._several:
            known = self._numbers[0]
            rows[where] = self._rows(known[draws[where] % np.uint64(len(known))], np.flatnonzero(where))
        else:
            drawn, worlds = draws[where].tolist(), [self.scalar._drawn_world(seed) for seed in seeds[where].tolist()]
            chosen = [self._choices(world) for world in worlds]
            numbers = np.array([known[draw % len(known)] for known, draw in zip(chosen, drawn, strict=True)])
            rows[where] = self._rows(numbers, np.flatnonzero(where), np.array(worlds))
        draws[:] = seeds
        return self._turn

    def _begin(self, out: kernels.Out, where: Mask, starts: kernels.Starts, show_all: bool) -> None:
        """Begin the episodes of `where`; with `show_all` also write the present state of the others."""
        self.batch.make_room(self.kernels.reset_where(self._constant(), out, starts, where, show_all))

    # -- step --------------------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Observation, Arrays, Mask, Mask, dict[str, Any]]:
        """Play one action in each environment.

        Args:
            actions: (N,) integers. An action outside the mask has the same effect as in the scalar environment.

        Raises:
            ConfigError: the shape of `actions` is wrong.
            InvalidAction: an action is outside the space.
            EpisodeOver: no episode has begun, or, with autoreset disabled, an ended episode has not been reset.
        """
        numbers = np.asarray(actions)
        if numbers.shape != (self.num_envs,):
            raise ConfigError("actions", f"expected {self.num_envs} integers, got shape {numbers.shape} of {numbers.dtype}")
        count = int(self.single_action_space.n)  # type: ignore[attr-defined]
        # as unsigned numbers, negative ones are large, so one comparison tells both ends
        if numbers.dtype.kind not in "iu" or numbers.astype(np.int64, copy=False).view(np.uint64).max() >= count:
            raise InvalidAction(f"actions: expected whole numbers from 0 to {count - 1}, got {numbers.dtype} {numbers!r:.60}")
        if not self._all_begun:
            raise EpisodeOver("no episode has begun; call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended).tolist()
            raise EpisodeOver(
                f'environments {ended} have ended; call reset(options={{"reset_mask": mask}}) before the next step'
            )
        out = self._new()
        self._draw(self._ended if self._view.autoreset else None)
        self._play(out, numbers)
        # the next step or the caller begins these episodes; until then their arrays show the end
        self._ended = out.terminated | out.truncated
        final: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            final = self._final(out)
            self._begin(out, self._ended, self._draw(self._ended), False)
        info = self._info(out)
        info.update(final)
        return self.observations(out), out.rewards, out.terminated, out.truncated, info

    def _play(self, out: kernels.Out, actions: NDArray[Any]) -> None:
        if self.threads == 1:
            self.kernels.step_part(self._constant(), out, actions, 0)
        else:
            in_threads(self.threads, self.kernels.step_parts, self._constant(), out, actions, self.threads)
        if self.batch.at_once is None:
            self.batch.make_room(int(self._used.max()))

    def _constant(self) -> BoundArguments:
        """The arrays that hardly ever change, unpacked once and not at every call of a kernel."""
        batch = self.batch
        steady = batch.tables, batch.rules, batch.state, self._view, self._streams, self._turn, self._used
        self._bound = bound = rebound(self._bound, steady)
        return bound

    def _final(self, out: Any) -> dict[str, Any]:
        """The last observations and `info` of the episodes that have just ended, taken before they are reset."""
        ended = self._ended
        indices = np.flatnonzero(ended)
        last = {key: array[indices] for key, array in self.observations(out).items()}
        observations = np.full(self.num_envs, None, dtype=object)
        for k, i in enumerate(indices.tolist()):
            observations[i] = {key: array[k] for key, array in last.items()}
        info = self._info(out, ended.copy())
        return {"final_obs": observations, "_final_obs": ended.copy(), "final_info": info, "_final_info": ended.copy()}

    # -- results -----------------------------------------------------------------------------------------------------------

    def fresh(self) -> kernels.Out:
        """Arrays for a step to write to. They are new, except for the observations with ``copy=False``."""
        # one after the other in the order of `kernels.Out`, which is quicker than by name
        tools, needs, resources, *more = self._observing()
        written = (*more, np.empty((len(WRITTEN), self.num_envs))) if more else NO_WRITES
        return kernels.Out(tools, needs, resources, *self._outcomes(self.scalar.finish_action + 1), *written)

    def _observing(self) -> Any:
        """The arrays of observations, in the order of their names."""
        observed = self._observed or [self._pool.empty(self.num_envs, *shape) for shape in self._shapes.values()]
        if not self.copy:
            self._observed = observed
        return observed

    def _outcomes(self, actions: int) -> tuple[NDArray[Any], ...]:
        """New arrays for a step's mask, rewards, ends (terminated, truncated), figures, counts and success."""
        count, empty = self.num_envs, np.empty
        return (
            empty((count, actions), np.bool_), empty(count), empty(count, np.bool_), empty(count, np.bool_),
            empty((len(FIGURES), count)), empty((len(COUNTS), count), np.int64), empty(count, np.bool_),
        )  # fmt: skip

    def observations(self, out: kernels.Out) -> Observation:
        """The observations among a step's arrays."""
        return {name: getattr(out, name) for name in self._shapes}

    def figures(self, out: kernels.Out) -> dict[str, NDArray[Any]]:
        """The scalar environment's `info` as arrays, none of them shared with another step."""
        return figures_info(out, self.scalar.cost)

    def _new(self) -> kernels.Out:
        out = self.fresh()
        self._mask = out.mask
        return out

    def _info(self, out: Any, where: Mask | None = None) -> dict[str, Any]:
        """The figures, each with its mask: of the environments in `where`, zero elsewhere, or of all."""
        info: dict[str, Any] = self.figures(out)
        if where is not None:
            info, outside = {key: array.copy() for key, array in info.items()}, ~where
            for array in info.values():
                array[outside] = 0
        if not self._mask_names:
            self._mask_names = [f"_{key}" for key in info]
        info.update(dict.fromkeys(self._mask_names, self._everyone.copy() if where is None else where))
        return info

    def action_masks(self) -> Mask:
        """The present action masks, (N, actions) bool; raises EpisodeOver where no episode has begun."""
        if self._mask is None:
            raise EpisodeOver("no episode has begun; call reset() first")
        return self._mask.copy()
