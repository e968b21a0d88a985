"""The network of learnt session policies: one small network read over the tools that serve the present query.

Exchanging two of those tools exchanges their logits and changes nothing else, so what is learnt of one slot holds for all.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ...envs.sessions.features import COUNTED, LAST, PRICE_UNIT, STATIC, column_names
from ...simulators.sessions.rules import SessionRules

LEFT = ("budget_remaining_price", "budget_remaining_seconds")  # keys of `info` that the network reads beside the observation
_PRICE, _SUCCESS, _SERVES = (STATIC.index(name) for name in ("price", "success", "serves"))
_DERIVED, _SITUATION = 3, 11
_MOST_LEFT = 1e6  # stands for no limit
_BOUND = 6.0


def _layers(width_in: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())


class SessionNetwork(nn.Module):  # type: ignore[misc, unused-ignore]
    """Counted features of a session, over `kinds` with at most `most` tools each, to one logit per action and a value."""

    def __init__(self, kinds: int = 4, most: int = 6, hidden: int = 64) -> None:
        super().__init__()
        self.kinds, self.most, self.hidden = kinds, most, hidden
        width = len(STATIC) + kinds + len(COUNTED) + len(LAST)
        # neither the provider's number nor kinds, which the choice of rows has used
        self._own = [
            i for i in range(width) if i not in (STATIC.index("provider"), _SERVES) and not 0 <= i - len(STATIC) < kinds
        ]
        self.tool = _layers(len(self._own) + _DERIVED + _SITUATION, hidden)
        self.all = _layers(2 * hidden + _SITUATION, hidden)
        self.call = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.others = nn.Linear(hidden, 2)
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        for last in (self.call[-1], self.others):
            nn.init.orthogonal_(last.weight, 0.01)

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint must agree with: the shape, and the meaning of every input."""
        names = column_names(SessionRules(capabilities=self.kinds, tools=self.kinds * self.most), "counts")
        shape = {"kinds": self.kinds, "most": self.most, "hidden": self.hidden}
        return {**shape, "left": list(LEFT), **{part: list(columns) for part, columns in names.items()}}

    def forward(self, seen: dict[str, Tensor], left: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, actions), least where `mask` forbids, and values (B,), of the observation and (B, 2) `LEFT`."""
        tools, query, resources = seen["tools"], seen["query"], seen["resources"]
        rows = tools[..., _SERVES].topk(self.most).indices  # (B, k)
        own = tools.gather(1, rows.unsqueeze(-1).expand(-1, -1, tools.shape[-1]))
        serves = own[..., _SERVES].unsqueeze(-1)
        queries = query[:, -1]
        each = (left.clamp(1e-3, _MOST_LEFT) / (100.0 * queries.clamp_min(0.01)).unsqueeze(-1)).log()  # for one query
        cost = (PRICE_UNIT * own[..., _PRICE]).clamp_min(1e-3).log()
        chance = own[..., len(STATIC) + self.kinds + 1].clamp_min(1e-3).log()
        known = tools[..., len(STATIC) + self.kinds + 1].mean(1, keepdim=True)
        situation = torch.cat([query[:, :1], query[:, 1 + self.kinds :], resources[:, :2], each, known, resources[:, 4:]], -1)
        derived = torch.stack([cost - each[:, :1], cost - chance, own[..., _SUCCESS].clamp_min(1e-3).log() - cost], -1)
        wide = situation.unsqueeze(1).expand(-1, self.most, -1)
        h = self.tool(torch.cat([own[..., self._own], derived, wide], -1)) * serves  # (B, k, H)
        context = self.all(torch.cat([h.sum(1) / serves.sum(1).clamp_min(1.0), h.amax(1), situation], -1))
        calls = self.call(torch.cat([h, context.unsqueeze(1).expand_as(h)], -1)).squeeze(-1)
        logits = torch.zeros_like(mask, dtype=calls.dtype).scatter(1, rows, calls)
        logits = torch.cat([logits[:, :-2], self.others(context)], -1)
        # no action becomes so unlikely that it is never tried again
        logits = _BOUND * torch.tanh(logits / _BOUND)
        # what is still to be had is in proportion to the queries that are left
        return logits.where(mask, torch.full_like(logits, -1e8)), self.value(context).squeeze(-1) * queries


def left_of(info: dict[str, Any]) -> Tensor:
    """Read from `info` the shares of money and time that are left, (..., 2)."""
    return torch.stack([torch.as_tensor(info[name], dtype=torch.float32) for name in LEFT], -1)
