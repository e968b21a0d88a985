"""The network of learnt session policies: one small network read over the tools that serve the present query.

Exchanging two of those tools exchanges their logits and changes nothing else, so what is learnt of one slot holds for all.
In version 1 it reads the observation alone. In version 0 it is told what is left as well, and where observations are raw, a
recurrent cell keeps a memory of each tool, which is updated when a call of the tool has ended.
"""

from typing import Any

import torch
from torch import Tensor, nn

from costgym.agents.tool_network import layers, masked
from costgym.envs.features.session_columns import CREDITS, QUERIES, SECONDS
from costgym.envs.features.session_features import PRICE_UNIT, RESOURCE_FEATURES, STATIC, column_names, query_features
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import LIMITS

LEFT = ("budget_remaining_price", "budget_remaining_seconds")  # keys of `info` that the network reads in version 0
_PRICE, _SUCCESS, _SERVES = (STATIC.index(name) for name in ("price", "success", "serves"))
_MOST_LEFT = 1e6  # stands for no limit
_BOUND = 6.0


class SessionNetwork(nn.Module):  # type: ignore[misc, unused-ignore]
    """The observation of a session, over `kinds` with at most `most` tools each, to one logit per action and a value.

    `memory` is the environment's: ``counts``, or ``raw`` for a network of version 0 with a memory of its own. `world` is the
    version.
    """

    def __init__(self, memory: str = "counts", kinds: int = 4, most: int = 6, hidden: int = 64, world: int = 0) -> None:
        super().__init__()
        self.memory, self.kinds, self.most, self.hidden, self.world = memory, kinds, most, hidden, world
        self.width = hidden // 2 if memory == "raw" else 0  # of what is remembered of a tool
        self._rules = SessionRules(capabilities=kinds, tools=kinds * most, world=world)
        self._names = column_names(self._rules, memory)
        columns, query_columns = len(self._names["tools"]), len(query_features(self._rules)) - kinds
        of_situation = query_columns + 4 + len(self._names["resources"]) - (len(RESOURCE_FEATURES) - 1)
        # neither the provider's number nor kinds, which the choice of rows has used
        self._own = [
            i for i in range(columns) if i not in (STATIC.index("provider"), _SERVES) and not 0 <= i - len(STATIC) < kinds
        ]
        known, derived = (self.width, 2) if self.width else (1, 3)
        situation = of_situation + known
        self.tool = layers(len(self._own) + derived + self.width + situation, hidden)
        self.all = layers(2 * hidden + situation, hidden)
        self.call = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.others = nn.Linear(hidden, 2)
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        if self.width:
            self.remember = nn.GRUCell(len(self._own) + of_situation - 2, self.width)
        for last in (self.call[-1], self.others):
            nn.init.orthogonal_(last.weight, 0.01)

    @classmethod
    def of_rules(cls, rules: SessionRules) -> "SessionNetwork":
        """A network on counts for sessions of these rules."""
        return cls("counts", rules.capabilities, -(-rules.tools // rules.capabilities), world=rules.world)

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint must agree with: the shape, and the meaning of every input."""
        shape = {"kinds": self.kinds, "most": self.most, "hidden": self.hidden}
        version = {"world": self.world} if self.world else {"left": list(LEFT)}
        return {**shape, **version, **{part: list(columns) for part, columns in self._names.items()}}

    def ended(self, seen: dict[str, Tensor], slots: Tensor) -> Tensor:
        """What is to be remembered of calls that have ended, (..., inputs of `remember`), by the tool (...) called last."""
        tools = seen["tools"]
        row = tools.gather(-2, slots[..., None, None].expand(*slots.shape, 1, tools.shape[-1])).squeeze(-2)
        query, resources = seen["query"], seen["resources"]
        return torch.cat([row[..., self._own], query[..., :1], query[..., 1 + self.kinds :], resources[..., 2:]], -1)

    def updated(self, memory: Tensor, ended: Tensor, slots: Tensor, called: Tensor) -> Tensor:
        """Return the memory (B, tools, width) after calls; `called` (B,) says where the last action was one."""
        index = slots[:, None, None].expand(-1, 1, self.width)
        old = memory.gather(1, index).squeeze(1)
        new = torch.where(called[:, None], self.remember(ended, old), old)
        return memory.scatter(1, index, new[:, None])

    def _left(self, seen: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Read credits and seconds left (B, 2) and the number of queries left (B,) from an observation of version 1."""
        columns = [self._names["resources"].index(name) for name in ("credits", "time")]
        left = (seen["resources"][:, columns] * seen["resources"].new_tensor([CREDITS, SECONDS])).expm1()
        return left, (seen["query"][:, -1] * QUERIES).expm1().clamp_min(1.0)

    def still_open(self, tools: Tensor) -> Tensor:
        """Which actions (B, actions) are no tool that has refused a call for this query, as the tools (B, T, columns) of
        version 1 show."""
        still_open = tools[..., self._names["tools"].index("shut")] < 0.5
        return torch.cat([still_open, torch.ones_like(still_open[:, :2])], 1)

    def read(
        self, seen: dict[str, Tensor], left: Tensor | None, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what was read (B, k, H) of each tool that serves the query, their slots (B, k), the context (B, H), and the
        share of the queries that are left (B,); arguments as for `forward`."""
        tools, query, resources = seen["tools"], seen["query"], seen["resources"]
        rows = tools[..., _SERVES].topk(self.most).indices  # (B, k)
        serving = tools.gather(1, rows.unsqueeze(-1).expand(-1, -1, tools.shape[-1]))
        serves = serving[..., _SERVES].unsqueeze(-1)
        queries = query[:, self._names["query"].index("queries_left")]
        if left is None:
            left, count = self._left(seen)
        else:
            count = 100.0 * queries.clamp_min(0.01)
        share = (left.clamp(1e-3, _MOST_LEFT) / count.unsqueeze(-1)).log()  # for one query
        cost = (PRICE_UNIT * serving[..., _PRICE]).clamp_min(1e-3).log()
        advertised = serving[..., _SUCCESS].clamp_min(1e-3).log() - cost
        if memory is None:
            chance = serving[..., len(STATIC) + self.kinds + 1].clamp_min(1e-3).log()
            known = tools[..., len(STATIC) + self.kinds + 1].mean(1, keepdim=True)
            derived = torch.stack([cost - share[:, :1], cost - chance, advertised], -1)
        else:
            known = memory.mean(1)
            remembered = memory.gather(1, rows.unsqueeze(-1).expand(-1, -1, self.width))
            derived = torch.cat([torch.stack([cost - share[:, :1], advertised], -1), remembered], -1)
        situation = torch.cat([query[:, :1], query[:, 1 + self.kinds :], resources[:, :2], share, known, resources[:, 4:]], -1)
        wide = situation.unsqueeze(1).expand(-1, self.most, -1)
        h = self.tool(torch.cat([serving[..., self._own], derived, wide], -1)) * serves  # (B, k, H)
        context = self.all(torch.cat([h.sum(1) / serves.sum(1).clamp_min(1.0), h.amax(1), situation], -1))
        return h, rows, context, queries

    def score(self, h: Tensor, rows: Tensor, context: Tensor, actions: int) -> Tensor:
        """Return the logits (B, actions) of what `read` returned, or of another context."""
        calls = self.call(torch.cat([h, context.unsqueeze(1).expand_as(h)], -1)).squeeze(-1)
        logits = calls.new_zeros(len(calls), actions - 2).scatter(1, rows, calls)
        logits = torch.cat([logits, self.others(context)], -1)
        # no action becomes so unlikely that it is never tried again
        return _BOUND * torch.tanh(logits / _BOUND)

    def forward(
        self, seen: dict[str, Tensor], left: Tensor | None, mask: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits (B, actions), far below all others where the mask (B, actions) forbids, and state values (B,).

        `left` (B, 2) is what `LEFT` names, None in version 1, and `memory` (B, tools, width) that of the tools, where
        observations are raw.
        """
        h, rows, context, queries = self.read(seen, left, memory)
        if left is None:
            mask = mask & self.still_open(seen["tools"])
        # what is still to be had is in proportion to the queries that are left
        return masked(self.score(h, rows, context, mask.shape[-1]), mask), self.value(context).squeeze(-1) * queries


class Watching:
    """What a policy keeps from step to step in B = `count` sessions of so many tools that are played side by side: the memory
    of a network that reads raw observations, and what is closed. A tool that has refused a call, at its rate limit or quota, is
    masked for the rest of the query: asking again is in vain."""

    def __init__(self, network: SessionNetwork, count: int, tools: int) -> None:
        self._network = network
        self._shut = torch.zeros(count, tools, dtype=torch.bool)
        self._query, self._at_s = torch.full((count,), -1), torch.zeros(count, dtype=torch.float64)
        # (B,) the tool that was called last, whether the last action was a call, and whether a session has begun since
        self.slots, self.called = torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.bool)
        self.began = torch.ones(count, dtype=torch.bool)
        self.memory = torch.zeros(count, tools, network.width) if network.width else None

    def see(self, seen: dict[str, Tensor], info: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Take in what the last actions brought; returns what is left (B, 2), and the mask (B, actions)."""
        query, at_s, status = (torch.as_tensor(info[name]) for name in ("query", "at_s", "status"))
        self.began = (query < self._query) | (at_s < self._at_s)
        self.called &= ~self.began
        self._shut &= ~(self.began | (query != self._query))[:, None]
        refused = self.called & torch.isin(status, torch.tensor(LIMITS))
        self._shut[refused, self.slots[refused]] = True
        self._query, self._at_s = query.clone(), at_s.clone()
        if self.memory is not None:
            fresh = self.memory * ~self.began[:, None, None]
            with torch.no_grad():
                self.memory = self._network.updated(fresh, self._network.ended(seen, self.slots), self.slots, self.called)
        mask = torch.as_tensor(info["action_mask"]).bool().clone()
        mask[:, :-2] &= ~self._shut
        return torch.stack([torch.as_tensor(info[name], dtype=torch.float32) for name in LEFT], -1), mask

    def did(self, actions: Tensor) -> None:
        """Note the actions (B,) that are taken now."""
        tools = self._shut.shape[1]
        self.called = actions < tools
        self.slots = actions.clamp_max(tools - 1)
