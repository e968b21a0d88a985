"""The native vector environment of sessions: compiled steps of N episodes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.envs.features.session_features import FIXED, LAST, opening
from costgym.envs.vector.info import as_mask, figures_info
from costgym.envs.vector.kernels import sessions as kernels
from costgym.envs.vector.marketplace import UNUSED, NativeVectorEnv
from costgym.simulators.batch.rng import say_compiling
from costgym.simulators.batch.sessions import SessionBatch
from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import RESOURCES


class NativeSessions(NativeVectorEnv):
    """N environments of sessions, played in compiled code.

    Every episode draws a session of its own: in the kernel that begins it, or, of version 0 and over a scenario's tools, in
    Python, which takes about 0.7 ms.
    """

    batch: SessionBatch
    kernels = kernels
    fixed_columns = FIXED
    by_field = NativeVectorEnv.by_field | {"progress", "seen", "called_s", "offers", "provider", "limits", "quote", "outage_s"}
    first_kernel: Any = kernels.step_part  # that is compiled, if none is

    def _make_world(self, scalar: Any) -> None:
        say_compiling(self.first_kernel, "its sessions")
        if self.all_tables:
            raise ConfigError("all_tables", "is for costgym/Marketplace-v0; a session is drawn when its episode begins")
        count, rules = self.num_envs, scalar.rules
        at_once = None if scalar.concurrent else 1
        self.batch = batch = SessionBatch(rules, count, scalar._given_budget, scalar.enforcement, at_once, self.step_limit)
        self._by_row, self._numbers = batch.sessions.drawn, {0: np.array(scalar.numbers, np.int64)}
        undrawn = np.full(count, -1, np.int64), np.zeros(count, np.uint64), np.full(count, self._by_row)
        self._undrawn = kernels.Starts(*undrawn, drawn=self._by_row)
        self._shapes = self._shapes_of("tools", "query", "resources")
        shown = {name: np.zeros((count, *shape), np.float32) for name, shape in self._shapes.items()}
        if not self.copy:
            self._observed = list(shown.values())
        names = scalar.column_names["tools"]
        columns = [names[k] for k in self.columns.get("tools_changing", range(len(names)))]
        self._view = kernels.View(
            tools=shown["tools"],
            fixed=shown.get("fixed", UNUSED),
            seen=np.zeros((count, rules.tools), kernels.SEEN),
            called_s=np.zeros((count, rules.tools)),
            outage_s=np.zeros((count, rules.providers)),
            showing=np.zeros(count, np.int32),
            lasted_s=np.zeros(count),
            version=rules.world,
            quota=columns.index("quota_left"),
            serves=columns.index("serves"),
            last=columns.index(LAST[0]),
            factored=self.factored,
            shared=not self.copy,
            first=scalar.numbers[0],
            choices=len(scalar.numbers),
            counted=scalar.memory == "counts",
            useful=scalar.mask == "useful",
            concurrent=scalar.concurrent,
            subtracts=scalar.reward == "value-minus-price",
            success_share=rules.success_share,
            ttl_s=rules.ttl_s,
            max_steps=scalar.max_steps,
            time_limit=self.time_limit,
            autoreset=self.autoreset_mode is self.autoreset_mode.NEXT_STEP,
            judged=False,
            resource=RESOURCES.index(scalar.cost),
        )

    def _rows(self, numbers: NDArray[np.int64], indices: NDArray[np.int64], worlds: Any = None) -> NDArray[np.int64]:
        if not self._by_row:
            return numbers
        for number, i in zip(numbers.tolist(), indices.tolist(), strict=True):
            tools = opening(self.batch.put(i, number), self.scalar.memory, self.scalar.concurrent)
            self._view.tools[i] = tools[:, self.columns["tools_changing"]] if self.factored else tools
            if self.factored:
                self._view.fixed[i] = tools[:, self.columns["tools_fixed"]]
        return indices

    @property
    def nbytes(self) -> int:
        view = sum(part.nbytes for part in self._view if isinstance(part, np.ndarray))
        return self.batch.nbytes + self._streams.nbytes + view

    @property
    def shared_nbytes(self) -> int:
        return sum(part.nbytes for part in (self.batch.tables.factors, self.batch.tables.shapes, self.batch.sessions.factors))

    def fresh(self) -> Any:
        count = self.num_envs
        progress = np.empty(count, np.int64), np.empty(count, np.int64), np.empty((2, count))
        tools, query, resources, *more = self._observing()
        fixed = more[0] if self.factored else UNUSED
        return kernels.Out._make([tools, query, resources, *self._outcomes(self.scalar._actions), *progress, fixed])

    def figures(self, out: Any) -> dict[str, NDArray[Any]]:
        progress = {"query": out.queries, "value": out.values[0], "value_share": out.values[1], "tool": out.reported}
        info = {**figures_info(out, self.scalar.cost), **progress}
        info["action_mask"] = as_mask(info["action_mask"], self.scalar.mask_type)
        return info
