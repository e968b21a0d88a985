"""The network of the learnt marketplace policies: one small network read over every tool, whatever their order or number.

Tools that serve the same need compete, so each tool sees what its rivals look like together, and what all needs look like
together. Exchanging two tools, or two needs, exchanges the outputs and changes nothing else; a policy therefore learns from
every slot what holds for all of them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from costgym.agents.settings import NetworkSettings
from costgym.envs.features.templates import MAX_NEEDS, NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES
from costgym.envs.features.writing import EFFECT_FEATURES, ROLE_FEATURES

_NEED = TOOL_FEATURES.index("need_1")
_PRICE, _SUCCESS = TOOL_FEATURES.index("price"), TOOL_FEATURES.index("success")
_OWN = [i for i in range(len(TOOL_FEATURES)) if not _NEED <= i < _NEED + MAX_NEEDS]
_STEP = RESOURCE_FEATURES.index("step")
_LEFT = [RESOURCE_FEATURES.index(f"{name}_left") for name in ("price", "seconds", "tokens", "calls")]
_DERIVED = 2  # log of the price and the advertised success per price


def layers(width_in: int, hidden: int) -> nn.Sequential:
    """Two linear layers of one width, each with a ReLU behind it."""
    return nn.Sequential(nn.Linear(width_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())


class ToolNetwork(nn.Module):  # type: ignore[misc, unused-ignore]
    """Observation to one number per action, and the state's value; in worlds with writes it also reads `roles` and `effects`.

    The share of a resource that is left is 1 where it is unlimited; the number of steps so far is not read, since it depends
    on where an environment cuts episodes.
    """

    def __init__(self, settings: NetworkSettings | None = None, writes: bool = False) -> None:
        super().__init__()
        self.settings, self.writes = settings or NetworkSettings(), writes
        hidden = self.settings.hidden_size
        situation = len(RESOURCE_FEATURES)
        of_need = len(NEED_FEATURES) + writes * len(EFFECT_FEATURES)
        of_tool = len(_OWN) + _DERIVED + writes * len(ROLE_FEATURES)
        self.tool_in = layers(of_tool + of_need + situation, hidden)
        self.need_in = nn.ModuleList(layers(2 * hidden + of_need, hidden) for _ in range(self.settings.rounds))
        self.all_in = nn.ModuleList(layers(hidden + situation, hidden) for _ in range(self.settings.rounds))
        self.tool_out = nn.ModuleList(layers(3 * hidden, hidden) for _ in range(self.settings.rounds))
        self.score = nn.Linear(hidden, 1)
        self.others = nn.Linear(hidden, 2)
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.orthogonal_(module.weight, 2**0.5)
                nn.init.zeros_(module.bias)
        for last in (self.score, self.others):
            nn.init.orthogonal_(last.weight, 0.01)

    def forward(self, observation: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Logits (or action values) (B, T + 2): tools, wait, finish; and state values (B,)."""
        tools, needs = observation["tools"], observation["needs"]
        situation = observation["resources"].clone()  # (B, 8)
        situation[:, _STEP] = 0.0
        situation[:, _LEFT] = situation[:, _LEFT].clamp(-1.0, 1.0)
        serves = tools[..., _NEED : _NEED + MAX_NEEDS]  # (B, T, 6)
        by_need = serves.transpose(1, 2)  # (B, 6, T)
        count = by_need.sum(-1, keepdim=True).clamp(min=1.0)
        wanted = needs[..., :1]  # (B, 6, 1)
        price = tools[..., _PRICE : _PRICE + 1]
        worth = tools[..., _SUCCESS : _SUCCESS + 1] / (price + 0.05)
        wide = situation.unsqueeze(1).expand(-1, tools.shape[1], -1)
        if self.writes:
            needs = torch.cat([needs, observation["effects"]], -1)
        roles = [observation["roles"]] if self.writes else []
        features = [tools[..., _OWN], *roles, (price + 0.01).log(), 0.2 * worth, serves @ needs, wide]
        h = self.tool_in(torch.cat(features, -1))  # (B, T, H)
        for need_in, all_in, tool_out in zip(self.need_in, self.all_in, self.tool_out, strict=True):
            # messages from tools to needs and back: sums over the tools of a need do not depend on their order or number
            total = by_need @ h  # (B, 6, H)
            n = need_in(torch.cat([total / count, 0.25 * total, needs], -1)) * wanted
            context = all_in(torch.cat([n.sum(1) * 0.25, situation], -1))  # (B, H)
            h = h + tool_out(torch.cat([h, serves @ n, context.unsqueeze(1).expand_as(h)], -1))
        logits = torch.cat([self.score(h).squeeze(-1), self.others(context)], -1)
        return logits, self.value(context).squeeze(-1)

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint must agree with: the shape, and the meaning of every input."""
        return {
            **self.settings.model_dump(),
            "tools": list(TOOL_FEATURES),
            "needs": list(NEED_FEATURES),
            "resources": list(RESOURCE_FEATURES),
            **({"roles": list(ROLE_FEATURES), "effects": list(EFFECT_FEATURES)} if self.writes else {}),
        }


def decisions(logits: Tensor) -> Tensor:
    """Return the logits of the environment's default form, which has no `wait`: (B, T + 2) to (B, T + 1)."""
    return torch.cat([logits[:, :-2], logits[:, -1:]], -1)


def masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the logits with forbidden actions far below any allowed one; finite, so that gradients stay finite."""
    return logits.where(mask, torch.full_like(logits, -1e8))


LOGIT_BOUND = 4.0


def bounded(logits: Tensor) -> Tensor:
    """Return the logits of an actor, held within `LOGIT_BOUND`, in the same order.

    So the likeliest action is never more than about 3,000 times as likely as another allowed one: a policy that never gave up
    could not learn to when a multiplier rises.
    """
    return LOGIT_BOUND * torch.tanh(logits / LOGIT_BOUND)
