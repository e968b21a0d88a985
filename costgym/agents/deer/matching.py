"""A DEER policy on a sentence encoder: the vectors of a query and of tools decide which tool is meant, if any.

Either the encoder stays as it is, and a query is compared with each candidate after a map of its own and of the tool's vector,
both of which start as the identity; or the encoder itself is tuned, without maps. A learnt score stands for "none fits". A
query is worth a search where it is as close to queries that needed a tool as those are to each other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costgym.agents.checkpoints import load_weights
from costgym.agents.deer.deciders import TrainedDecider
from costgym.agents.deer.settings import DeerConfig, DeerSettings
from costgym.agents.networks import trained_weights
from costgym.simulators.retrieval.embedding import Vectors
from costgym.simulators.retrieval.sentences import MINILM, SentenceEmbedding, sentence_embedding
from costgym.simulators.tools import ToolText

NEIGHBOURS = 3
"""Known queries that a query is compared with, the nearest ones."""
FAR = 0.05
"""Share of the known queries that are themselves farther from the others than a query may be."""
_LONGEST = 400  # characters of a description


def described(tool: ToolText) -> str:
    """Return what the encoder reads of a tool."""
    return f"{tool.name}: {tool.description[:_LONGEST]}"


class Matcher(nn.Module):  # type: ignore[misc]
    """The learnt weights; `known` are the vectors of queries that needed a tool, (n, width), and are not learnt. With an
    `encoder` its layers are, but for the vectors of words, and there are no maps."""

    def __init__(self, width: int, known: int, encoder: Any = None) -> None:
        super().__init__()
        self.query, self.tool = (nn.Linear(width, width) if encoder is None else nn.Identity() for _ in range(2))
        for layer in (self.query, self.tool) if encoder is None else ():
            nn.init.eye_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.encoder = encoder
        if encoder is not None:
            encoder.get_input_embeddings().requires_grad_(False)
        self.sharpness, self.none = nn.Parameter(torch.tensor(12.0)), nn.Parameter(torch.tensor(3.0))
        # saved with the others; without a gradient no optimiser changes them
        self.known, self.search_at = nn.Parameter(torch.zeros(known, width)), nn.Parameter(torch.tensor(0.0))

    def remember(self, queries: Vectors) -> None:
        """Keep the vectors of queries that needed a tool, and take the limit of a search from them."""
        with torch.no_grad():
            self.known.copy_(torch.from_numpy(queries).float())
            likeness = self.known @ self.known.T
            likeness.fill_diagonal_(-1.0)
            self.search_at.copy_(_nearness(likeness).quantile(FAR))

    def scores(self, queries: Tensor, tools: Tensor) -> Tensor:
        """Return the score of each tool for each query: (rows, tools) of (rows, width) and (tools, width)."""
        mapped = F.normalize(self.query(queries), dim=-1), F.normalize(self.tool(tools), dim=-1)
        return self.sharpness * mapped[0] @ mapped[1].T

    def searches(self, queries: Tensor) -> Tensor:
        """Return whether each query is worth a search.  # (rows,)"""
        return _nearness(queries @ self.known.T) >= self.search_at


def _nearness(likeness: Tensor) -> Tensor:
    return likeness.topk(min(NEIGHBOURS, likeness.shape[1]), dim=1).values.mean(dim=1)


class MatchingDecider(TrainedDecider):
    """Decides by a matcher on an encoder's vectors."""

    def __init__(self, matcher: Matcher, embed: Any, name: str, source: str) -> None:
        self._matcher, self._embed = matcher, embed
        self.name, self.model = name, source

    def search_many(self, queries: Sequence[str]) -> list[bool]:
        with torch.no_grad():
            searches: list[bool] = self._matcher.searches(self._vectors(queries)).tolist()
        return searches

    def choose_many(self, questions: Sequence[tuple[str, Sequence[ToolText]]]) -> list[int | None]:
        texts = dict.fromkeys(described(tool) for _, candidates in questions for tool in candidates)
        tools = dict(zip(texts, self._vectors(list(texts)), strict=True))
        queries = self._vectors([query for query, _ in questions])
        chosen: list[int | None] = []
        with torch.no_grad():
            for query, (_, candidates) in zip(queries, questions, strict=True):
                rows = torch.stack([tools[described(tool)] for tool in candidates])
                scores = self._matcher.scores(query[None], rows)[0].numpy()
                best = int(np.argmax(scores))
                chosen.append(best if scores[best] > float(self._matcher.none) else None)
        return chosen

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        return torch.from_numpy(self._embed(texts)).float()


def new_matcher(settings: DeerSettings, known: int) -> tuple[Matcher, SentenceEmbedding]:
    """Return a matcher before its training, and the encoder that it stands on."""
    if not settings.tune_encoder:
        shared = sentence_embedding(settings.model or MINILM)
        return Matcher(shared.size, known), shared
    own = SentenceEmbedding(settings.model or MINILM)
    if torch.cuda.is_available():
        own.network.to("cuda")
    return Matcher(own.size, known, own.network), own


def load_matcher(checkpoint: Path, run: DeerConfig, name: str) -> MatchingDecider:
    """Return the decider of a checkpoint; raises DataError where it is damaged."""
    matcher, embed = new_matcher(run.settings, run.known)
    load_weights(checkpoint, trained_weights(matcher))
    return MatchingDecider(matcher, embed, name, run.settings.model or MINILM)
