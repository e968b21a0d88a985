"""The policy: a decision transformer over a causal language model, which is given vectors instead of words.

What the model reads: the tools, the tools with their costs, the task with the size of its input, then return, state and choice
of each step in the window.
Returns, states and choices go through a linear layer each, plus a vector for the step, through a shared layer norm. Two heads
read the model at the end of a state: one for tools and EOP, one for dependencies and EOD.

Source: CATP-LLM, section 3.2.2 and Eq. A.1.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costgym.agents.catp.sequences import (
    CHOICE,
    DEPENDENCY_CHOICES,
    FIRST_CHOICE_TOKEN,
    INSTRUCTIONS,
    MAX_STEPS,
    N_TOKENS,
    NOTHING,
    RETURN,
    SOP_TOKEN,
    STATE,
    TOOL_CHOICES,
    WORDS,
    Batch,
    importance,
)
from costgym.agents.catp.settings import CatpSettings
from costgym.agents.networks import learning, load_published, multiplied, padded, published_base, small_config, with_adapters
from costgym.envs.tpl import END, FIRST_TOOL, INPUT, N_ACTIONS
from costgym.simulators.errors import require
from costgym.simulators.opencatp.tools import LEVELS, TOOLS

_TOOL_SIDE = (SOP_TOKEN, FIRST_CHOICE_TOKEN + END, *range(FIRST_CHOICE_TOKEN + FIRST_TOOL, FIRST_CHOICE_TOKEN + INPUT))
_DEPENDENCY_SIDE = tuple(token for token in range(N_TOKENS) if token not in _TOOL_SIDE)
_TOKEN_ROW = tuple((*_TOOL_SIDE, *_DEPENDENCY_SIDE).index(token) for token in range(N_TOKENS))
_TOOLS = slice(FIRST_CHOICE_TOKEN + FIRST_TOOL, FIRST_CHOICE_TOKEN + INPUT)


class TokenEncoder(nn.Module):  # type: ignore[misc]
    """Tokens of the planning language as vectors of `width`, the tools among them with what they cost.

    Tool tokens and dependency tokens have a table each. With `context` (augmentation) a tool's token becomes the fusion of its
    own embedding with its prices at the four size levels: each price goes through a linear layer, the importance of its level
    for the input at hand is added, and one self-attention over the five vectors, read at the tool's own, joins them. Each level
    has a layer of its own, and the tool's embedding is added to what attention returns; as `published`, all levels share one
    layer and nothing is added. The published causal mask is in both: the tool's own vector comes last and sees all others.

    Source: CATP-LLM, section 3.2.1 and Eq. 2; for the shared layer and the mask its published code.
    """

    def __init__(self, width: int, heads: int, settings: CatpSettings) -> None:
        super().__init__()
        self.context, self.residual = settings.context, settings.fusion == "residual"
        self.tools = nn.Embedding(len(_TOOL_SIDE), width)
        self.dependencies = nn.Embedding(len(_DEPENDENCY_SIDE), width)
        if self.context or settings.prompt != "short":
            self.costs = nn.ModuleList(nn.Linear(1, width) for _ in range(LEVELS if self.context and self.residual else 1))
        if self.context:
            self.fusion = nn.MultiheadAttention(width, heads, batch_first=True)
        weights = torch.tensor([importance(level).tolist() for level in range(LEVELS)], dtype=torch.float32)
        self.register_buffer("importance", weights, persistent=False)  # (levels of the input, levels)
        self.register_buffer("token_row", torch.tensor(_TOKEN_ROW), persistent=False)

    def plain(self) -> Tensor:
        """Return all tokens without costs.  # (N_TOKENS, width)"""
        return torch.cat([self.tools.weight, self.dependencies.weight])[self.token_row]

    def priced(self, table: Tensor, prices: Tensor) -> Tensor:
        """The tools with their costs as a prompt states them, by size level, (LEVELS, 10, width): as `forward` has them, or,
        without context augmentation, with the mean over the levels, whatever the input."""
        if self.context:
            return table[:, _TOOLS]
        return table[:, _TOOLS] + self.costs[0](prices.mean(dim=1, keepdim=True))

    def forward(self, prices: Tensor) -> Tensor:
        """All tokens by size level, (LEVELS, N_TOKENS, width), of price features (10, LEVELS)."""
        plain = self.plain()
        table = plain.expand(LEVELS, -1, -1)
        if not self.context:
            return table
        tool_rows = plain[_TOOLS]
        layers = [self.costs[level % len(self.costs)] for level in range(LEVELS)]
        costs = torch.stack([layer(prices[:, level : level + 1]) for level, layer in enumerate(layers)], dim=1)
        items = costs[None] + self.importance[:, None, :, None]  # (levels, 10, LEVELS, width)
        # the tool's own embedding comes last and is the one query, so the attention is computed for a single position
        items = torch.cat([items, tool_rows.expand(LEVELS, -1, -1)[:, :, None]], dim=2).flatten(0, 1)
        fused, _ = self.fusion(items[:, -1:], items, items, need_weights=False)
        tools = fused.view(LEVELS, len(TOOLS), -1)
        tools = tool_rows + tools if self.residual else tools
        return torch.cat([table[:, : _TOOLS.start], tools, table[:, _TOOLS.stop :]], dim=1)


_FORBIDDEN = -1e9
_LORA_TARGETS = {"gpt2": ["c_attn"], "gpt_neox": ["query_key_value"], "bloom": ["query_key_value"]}
_MAX_POSITIONS = 320


class CatpPolicy(nn.Module):  # type: ignore[misc]
    """Return, state and choice in; logits of the next choice out. `prices` are `sequences.price_features`, (10, 4)."""

    def __init__(self, settings: CatpSettings, prices: Any) -> None:
        super().__init__()
        self.settings = settings
        self.tokenizer: Any = None
        self.model = _small_model(settings) if settings.small else self._published_model()
        width = int(self.model.config.hidden_size)
        heads = settings.heads if settings.small else 8
        self.encoder = TokenEncoder(width, heads, settings)
        if settings.small:
            self.words = nn.Embedding(len(WORDS), width)
        self.return_in = nn.Linear(1, width)
        self.state_in = nn.Linear(width, width)
        self.choice_in = nn.Linear(N_ACTIONS, width)
        self.steps = nn.Embedding(MAX_STEPS, width)
        self.norm = nn.LayerNorm(width)
        self.tool_head = nn.Linear(width, len(TOOL_CHOICES))
        self.dependency_head = nn.Linear(width, len(DEPENDENCY_CHOICES))
        order = (*TOOL_CHOICES, *DEPENDENCY_CHOICES)
        self.register_buffer("order", torch.tensor([order.index(choice) for choice in range(N_ACTIONS)]), persistent=False)
        self.register_buffer("prices", torch.as_tensor(prices), persistent=False)
        if not settings.small:
            # A published model expects vectors as large as its own words.
            size = float(self.model.get_input_embeddings().weight.float().std())
            nn.init.constant_(self.norm.weight, size)
            for table in (self.encoder.tools, self.encoder.dependencies):
                nn.init.normal_(table.weight, std=size)

    def _published_model(self) -> Any:
        transformers, settings = require("transformers", "train"), self.settings
        self.tokenizer = load_published(transformers.AutoTokenizer, settings.model)
        model = published_base(transformers.AutoModel, settings)
        if settings.lora_rank == 0:
            return model
        targets = _LORA_TARGETS.get(model.config.model_type, ["q_proj", "v_proj"])
        config = require("peft", "train").LoraConfig(
            r=settings.lora_rank, lora_alpha=32, lora_dropout=0.05, bias="none", target_modules=targets
        )
        return with_adapters(model, config)

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits of every choice that the batch asks for, before any mask.  # (B, W, N_ACTIONS)"""
        device = self.prices.device
        level, kind, number = (torch.as_tensor(array, device=device) for array in (batch.level, batch.kind, batch.number))
        table = self.encoder(self.prices)  # (levels, tokens, width)
        value = torch.as_tensor(batch.value, device=device)[..., None] * self.settings.return_scale
        states = self.state_in(table)[level[:, None], number.clamp(max=table.shape[1] - 1)]
        choices = self.choice_in.weight.T[number.clamp(max=N_ACTIONS - 1)] + self.choice_in.bias
        # All three readings are computed at every position and selected by its kind: cheaper than gathering each kind apart.
        body = torch.zeros_like(states)
        for which, vectors in ((RETURN, self.return_in(value)), (STATE, states), (CHOICE, choices)):
            body = torch.where((kind == which)[..., None], vectors, body)
        body = self.norm(body + self.steps(torch.as_tensor(batch.step, device=device)))
        with learning(self.settings, self.model) if self.training else multiplied(self.settings, device):
            hidden = self._hidden(batch, level, table, body, kind != NOTHING).float()
        position = torch.as_tensor(batch.choice_position, device=device)
        at_position = hidden.gather(1, position[..., None].expand(-1, -1, hidden.shape[-1]))
        return torch.cat([self.tool_head(at_position), self.dependency_head(at_position)], dim=-1)[..., self.order]

    def _hidden(self, batch: Batch, level: Tensor, table: Tensor, body: Tensor, present: Tensor) -> Tensor:
        """Return the last hidden states of the body, which follows its prompt.  # (B, L, width)"""
        if self.settings.small:
            prompt, seen, _ = self._prompt(batch, level, table)
            there = torch.cat([seen, present], dim=1)
            read = self.model(
                inputs_embeds=torch.cat([prompt, body], dim=1), attention_mask=there.long(), position_ids=_places(there)
            )
            return read.last_hidden_state[:, prompt.shape[1] :]
        # a published model's prompt is longer than a plan and the same for all of a task and level, and prompts begin alike:
        # each is read once, and so is their beginning
        asked = list(zip(batch.texts, batch.level.tolist(), strict=True))
        prompts = {key: row for row, key in enumerate(dict.fromkeys(asked))}
        once = batch._replace(texts=tuple(text for text, _ in prompts))
        prompt, seen, alike = self._prompt(once, torch.tensor([number for _, number in prompts], device=level.device), table)
        past = None
        if alike:
            past = self.model(inputs_embeds=prompt[:1, :alike], use_cache=True).past_key_values
            past.batch_repeat_interleave(len(prompts))
        past = self.model(
            inputs_embeds=prompt[:, alike:],
            past_key_values=past,
            attention_mask=seen.long(),
            position_ids=_places(seen)[:, alike:],
            use_cache=True,
        ).past_key_values
        which = torch.tensor([prompts[key] for key in asked], device=level.device)
        past.batch_select_indices(which)
        there = torch.cat([seen[which], present], dim=1)
        places = _places(there)[:, prompt.shape[1] :]
        return self.model(
            inputs_embeds=body, past_key_values=past, attention_mask=there.long(), position_ids=places
        ).last_hidden_state

    def _prompt(self, batch: Batch, level: Tensor, table: Tensor) -> tuple[Tensor, Tensor, int]:
        """The task, the tools and the tools with costs, in the order of the prompt, which of it is there, and how many vectors
        at its beginning are the same in all rows.  # (B, P, width), (B, P)"""
        settings, rows, alike = self.settings, len(level), 0
        plain = self._all_seen(self.encoder.plain()[_TOOLS].expand(rows, -1, -1))
        if settings.small:
            words = torch.as_tensor(batch.words, device=level.device)
            task = self.words(words), words > 0
        else:
            task = self._read(batch.texts, level.device)
        if settings.prompt == "short":
            parts = [task, plain, *([self._all_seen(table[level, _TOOLS])] if settings.context else [])]
        else:
            parts = [plain, self._all_seen(self.encoder.priced(table, self.prices)[level]), task]
            if not settings.small:
                before, between = (self._read((text,) * rows, level.device) for text in INSTRUCTIONS)
                alike = sum(vectors.shape[1] for vectors, _ in (before, plain, between))
                parts = [before, plain, between, *parts[1:]]
        return torch.cat([vectors for vectors, _ in parts], dim=1), torch.cat([seen for _, seen in parts], dim=1), alike

    @staticmethod
    def _all_seen(vectors: Tensor) -> tuple[Tensor, Tensor]:
        return vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)

    def _read(self, texts: tuple[str, ...], device: Any) -> tuple[Tensor, Tensor]:
        """Return a text of a published model's prompt, in its own words, which are not trained."""
        numbers, seen = padded([self.tokenizer(text)["input_ids"] for text in texts], 0)
        with torch.no_grad():
            return self.model.get_input_embeddings()(numbers.to(device)), seen.bool().to(device)

    def log_probabilities(self, batch: Batch) -> Tensor:
        """Return the log-probability of every choice among those allowed.  # (B, W, N_ACTIONS)"""
        logits = self(batch)
        allowed = torch.as_tensor(batch.allowed, device=logits.device)
        return F.log_softmax(logits.masked_fill(~allowed, _FORBIDDEN), dim=-1)


def _places(there: Tensor) -> Tensor:
    """Return the position of each vector among those that are there.  # (B, L)"""
    return (there.long().cumsum(1) - 1).clamp(min=0)


def choice_loss(log_probabilities: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of the choices made, (B, W, N_ACTIONS), over the steps where there was more than one to choose from."""
    device = log_probabilities.device
    choice, allowed = torch.as_tensor(batch.choice, device=device), torch.as_tensor(batch.allowed, device=device)
    counts = torch.as_tensor(batch.counts, device=device) & (allowed.sum(-1) > 1)
    chosen = log_probabilities.gather(-1, choice[..., None])[..., 0]
    return -(chosen * counts).sum() / counts.sum().clamp(min=1)


def _small_model(settings: CatpSettings) -> Any:
    """Return a model made from a config, trained in full; it has no words of its own."""
    sizes = settings.hidden_size, settings.layers, settings.heads
    config = small_config(settings.model, 1, *sizes, _MAX_POSITIONS, settings.hidden_size * 8 // 3)
    model = require("transformers", "train").AutoModel.from_config(config)
    model.get_input_embeddings().weight.requires_grad_(False)
    return model
