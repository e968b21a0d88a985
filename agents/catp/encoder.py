"""Tokens of the planning language as vectors, the tools among them with what they cost.

Tool tokens and dependency tokens have a table each. With context augmentation a tool's token becomes the fusion of its own
embedding with its prices at the four size levels: each price goes through a linear layer of its own, the importance of its
level for the input at hand is added, and one self-attention over the five vectors, read at the tool's own, joins them.

Source: CATP-LLM, section 3.2.1 and Eq. 2.
"""

import torch
from torch import Tensor, nn

from ...envs.tpl import END, FIRST_TOOL, INPUT
from ...simulators.opencatp.levels import LEVELS
from ...simulators.opencatp.tools import TOOLS
from .sequences import FIRST_CHOICE_TOKEN, N_TOKENS, SOP_TOKEN, importance

_TOOL_SIDE = (SOP_TOKEN, FIRST_CHOICE_TOKEN + END, *range(FIRST_CHOICE_TOKEN + FIRST_TOOL, FIRST_CHOICE_TOKEN + INPUT))
_DEPENDENCY_SIDE = tuple(token for token in range(N_TOKENS) if token not in _TOOL_SIDE)
_PLACE = tuple((*_TOOL_SIDE, *_DEPENDENCY_SIDE).index(token) for token in range(N_TOKENS))
_TOOLS = slice(FIRST_CHOICE_TOKEN + FIRST_TOOL, FIRST_CHOICE_TOKEN + INPUT)


class TokenEncoder(nn.Module):  # type: ignore[misc]
    """Embeds tokens as vectors of `width`; `context`: tool tokens carry their prices (context augmentation)."""

    def __init__(self, width: int, heads: int, context: bool) -> None:
        super().__init__()
        self.context = context
        self.tools = nn.Embedding(len(_TOOL_SIDE), width)
        self.dependencies = nn.Embedding(len(_DEPENDENCY_SIDE), width)
        if context:
            self.costs = nn.ModuleList(nn.Linear(1, width) for _ in range(LEVELS))
            self.fusion = nn.MultiheadAttention(width, heads, batch_first=True)
        weights = torch.tensor([importance(level).tolist() for level in range(LEVELS)], dtype=torch.float32)
        self.register_buffer("importance", weights, persistent=False)  # (levels of the input, levels)
        self.register_buffer("place", torch.tensor(_PLACE), persistent=False)

    def plain(self) -> Tensor:
        """Return all tokens without costs.  # (N_TOKENS, width)"""
        return torch.cat([self.tools.weight, self.dependencies.weight])[self.place]

    def forward(self, prices: Tensor) -> Tensor:
        """All tokens by size level, (LEVELS, N_TOKENS, width), of price features (10, LEVELS)."""
        plain = self.plain()
        table = plain.expand(LEVELS, -1, -1)
        if not self.context:
            return table
        own = plain[_TOOLS]
        costs = torch.stack([layer(prices[:, level : level + 1]) for level, layer in enumerate(self.costs)], dim=1)
        items = costs[None] + self.importance[:, None, :, None]  # (levels, 10, LEVELS, width)
        # the tool's own embedding comes last and is the one query, so the attention is computed for a single position
        items = torch.cat([items, own.expand(LEVELS, -1, -1)[:, :, None]], dim=2).flatten(0, 1)
        fused, _ = self.fusion(items[:, -1:], items, items, need_weights=False)
        tools = own + fused.view(LEVELS, len(TOOLS), -1)
        return torch.cat([table[:, : _TOOLS.start], tools, table[:, _TOOLS.stop :]], dim=1)
