"""The language model of a learnt planner: any causal one, made small from a config or published, with its tokenizer.

It is asked for one thing: how likely some texts are to come next. Decoding chooses among them, training changes it, ranking
compares it. All of them read the same numbers.
"""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from costgym.agents.networks import (
    load_published,
    multiplied,
    published_model,
    small_config,
    trained_weights,
    without_adapters,
)
from costgym.agents.toolplanner.settings import LearntSettings
from costgym.agents.toolplanner.words import END, MARKERS, Piece
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import DataError, require

TOKENIZER = "tokenizer"
_MAX_POSITIONS = 4096
_READ_TOGETHER = 4  # options that are read together where the best is looked for


class Tokens(NamedTuple):
    """Token numbers, and which of them are to be learnt; of a text with two endings, where each of them begins."""

    tokens: list[int]
    learnt: list[bool]
    endings: tuple[int, int] | None = None  # the second ending stands behind the first, and follows what is before both


class ReadContext(NamedTuple):
    """A context that a model has read."""

    tokens: list[int]  # their numbers
    cache: Any  # keys and values of the layers
    first: Tensor  # log-probability of each token after it, (vocabulary,)


class PlannerModel:
    """A causal language model with its tokenizer; raises InfrastructureError where a published one cannot be loaded."""

    def __init__(self, settings: LearntSettings, tokenizer: Any, device: str = "auto") -> None:
        self.settings, self.tokenizer = settings, tokenizer
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stable_integer(settings.seed, "weights") >> 1)
            model = _small(settings, len(tokenizer)) if settings.small else published_model(settings)
        self.network: Any = model.to(device)
        self.device = torch.device(device)
        self._known: dict[str, list[int]] = {}

    # -- words to numbers ------------------------------------------------------------------------------------------------

    def numbers(self, text: str) -> list[int]:
        """Return the token numbers of a piece of text; each is tokenised for itself."""
        known = self._known.get(text)
        if known is None:
            if len(self._known) > 50_000:
                self._known.clear()
            known = self._known[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return known

    def sequence(self, pieces: Iterable[Piece]) -> Tokens:
        """Return the numbers of a text, and which of them the model writes."""
        tokens: list[int] = []
        learnt: list[bool] = []
        for piece in pieces:
            numbers = self.numbers(piece.text)
            tokens += numbers
            learnt += [piece.written] * len(numbers)
        return Tokens(tokens, learnt)

    def option(self, text: str) -> list[int]:
        """Return the numbers of something to write, with what ends it."""
        return [*self.numbers(text), *self.numbers(END)]

    # -- how likely ------------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that training changes."""
        return trained_weights(self.network)

    def log_probabilities(self, sequences: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """The log-probability (B, L - 1) of every token after those before it, and which count: what was written."""
        tokens = pad_sequence([torch.tensor(sequence.tokens) for sequence in sequences], batch_first=True)
        counts = pad_sequence([torch.tensor(sequence.learnt) for sequence in sequences], batch_first=True)
        tokens, counts = tokens.to(self.device), counts.to(self.device)[:, 1:]
        # padding stands at the end, where causal attention never looks back to it
        causal = without_adapters(self.network)
        body = getattr(causal, causal.base_model_prefix)
        before = torch.arange(tokens.shape[1] - 1, device=self.device).repeat(len(sequences), 1)  # where each token is foretold
        for row, sequence in enumerate(sequences):
            if sequence.endings is not None:
                before[row, sequence.endings[1] - 1] = sequence.endings[0] - 1
        with multiplied(self.settings, self.device):
            read: Tensor = body(tokens, use_cache=False, **_endings(sequences, tokens)).last_hidden_state
            hidden = read.gather(1, before[..., None].expand(-1, -1, read.shape[-1]))
            logits = causal.get_output_embeddings()(hidden[counts])  # (how many count, vocabulary)
        scores = torch.zeros(counts.shape, device=self.device)
        chosen = F.log_softmax(logits.float(), dim=-1).gather(-1, tokens[:, 1:][counts][:, None])[:, 0]
        return scores.masked_scatter(counts, chosen), counts

    def option_scores(
        self, context: Sequence[int], options: Sequence[Sequence[int]], known: list[ReadContext], best_alone: bool = False
    ) -> list[float]:
        """The log-probability of each option as a whole, after a context, of which nothing is read again that `known` holds.

        With `best_alone` options are read from the likeliest first token on, until no other can be the likeliest as a whole;
        those have a score of minus infinity.
        """
        with torch.inference_mode(), multiplied(self.settings, self.device):
            read = self._read(list(context), known)
            first = read.first[torch.tensor([option[0] for option in options], device=self.device)]
            if not best_alone:
                return [float(score) for score in first + self._after(read, options)]
            scores = torch.full_like(first, -torch.inf)
            order = torch.argsort(first, descending=True, stable=True)
            for indices in order.split(_READ_TOGETHER):
                if first[indices[0]] < scores.max():  # a text is at most as likely as its beginning
                    break
                scores[indices] = first[indices] + self._after(read, [options[index] for index in indices.tolist()])
            return [float(score) for score in scores]

    def _after(self, read: ReadContext, options: Sequence[Sequence[int]]) -> Tensor:
        """Return the log-probability of what follows the first token of each option.  # (options,)"""
        rows = pad_sequence([torch.tensor(option) for option in options], batch_first=True).to(self.device)
        if rows.shape[1] == 1:
            return torch.zeros(len(options), device=self.device)
        # reading on changes the cache in place, and a context that is kept must stay as it was read
        cache = copy.deepcopy(read.cache)
        cache.batch_repeat_interleave(len(options))
        after = F.log_softmax(self.network(rows[:, :-1], past_key_values=cache, use_cache=True).logits.float(), dim=-1)
        scores = after.gather(-1, rows[:, 1:, None])[..., 0]
        real = torch.tensor([[index < len(option) for index in range(1, rows.shape[1])] for option in options])
        return (scores * real.to(self.device)).sum(-1)

    def _read(self, context: list[int], known: list[ReadContext]) -> ReadContext:
        """Read a context, from where the longest known one ends that it begins with."""
        before = max(
            (one for one in known if context[: len(one.tokens)] == one.tokens), key=lambda one: len(one.tokens), default=None
        )
        if before is not None and len(before.tokens) == len(context):
            return before
        rest, past = (context, None) if before is None else (context[len(before.tokens) :], copy.deepcopy(before.cache))
        output = self.network(torch.tensor([rest], device=self.device), past_key_values=past, use_cache=True, logits_to_keep=1)
        read = ReadContext(context, output.past_key_values, F.log_softmax(output.logits[0, -1].float(), dim=-1))
        known.append(read)
        return read


def _endings(sequences: Sequence[Tokens], tokens: Tensor) -> dict[str, Tensor]:
    """Return the positions (B, L) and what is added to the attention (B, 1, L, L) with which each of two endings follows the
    text before both, and neither sees the other; none where no text has two."""
    if all(sequence.endings is None for sequence in sequences):
        return {}
    places = torch.arange(tokens.shape[1], device=tokens.device)
    positions, seen = places.repeat(len(sequences), 1), (places[:, None] >= places).repeat(len(sequences), 1, 1, 1)
    for row, sequence in enumerate(sequences):
        first, second = sequence.endings or (0, 0)
        if second:
            positions[row, second:] -= second - first
            seen[row, 0, second:, first:second] = False
    # a mask of numbers, since not every implementation of attention takes one of truth values
    return {
        "position_ids": positions,
        "attention_mask": torch.zeros(seen.shape, device=tokens.device).masked_fill(~seen, -torch.inf),
    }


# -- losses --------------------------------------------------------------------------------------------------------------


def sft_loss(log_probabilities: Tensor, counts: Tensor) -> Tensor:
    """Cross-entropy (B, L - 1) of `PlannerModel.log_probabilities`, the mean over the tokens that count."""
    return -(log_probabilities * counts).sum() / counts.sum().clamp(min=1)


def sequence_scores(log_probabilities: Tensor, counts: Tensor) -> Tensor:
    """Length-normalised log-probability of each sequence: the mean over the tokens that count, padding left out.  # (B,)

    Source: RRHF (Yuan et al. 2023), as ToolPlanner, Section 4.4, uses it. The published code divides by the padded length.
    """
    return (log_probabilities * counts).sum(-1) / counts.sum(-1).clamp(min=1)


def ranking_loss(better: Tensor, worse: Tensor, margin: float = 0.0) -> Tensor:
    """Mean over pairs of max(0, margin + s_worse - s_better), of scores (B,).

    Source: ToolPlanner, Eq. 3, whose min(0, .) is a misprint: it would reward wrong orders.
    """
    return (margin + worse - better).clamp(min=0).mean()


# -- models --------------------------------------------------------------------------------------------------------------


def small_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """Return a byte-level tokenizer trained on texts. Case and underscores do not matter to it, as they do not between
    names."""
    tokenizers, transformers = require("tokenizers", "train"), require("transformers", "train")
    normal, split = tokenizers.normalizers, tokenizers.pre_tokenizers
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.normalizer = normal.Sequence([normal.NFC(), normal.Replace("_", " "), normal.Lowercase()])
    model.pre_tokenizer = split.Sequence(
        [
            split.Split(tokenizers.Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+"), "isolated"),
            split.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    model.decoder = tokenizers.decoders.ByteLevel()
    markers = [tokenizers.AddedToken(marker, normalized=False, special=True) for marker in MARKERS]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=markers,
        initial_alphabet=sorted(split.ByteLevel.alphabet()),
        show_progress=False,
    )
    model.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token=END, eos_token=END)


def load_tokenizer(settings: LearntSettings, run: Path) -> Any:
    """The tokenizer of a run, its own or the published model's; raises InfrastructureError where that cannot be loaded."""
    transformers = require("transformers", "train")
    if settings.small:
        path = run / TOKENIZER / "tokenizer.json"
        try:
            return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), pad_token=END, eos_token=END)
        except Exception as error:
            raise DataError(path, f"is missing or damaged ({error}); train the policy again") from error
    return load_published(transformers.AutoTokenizer, settings.model)


def _small(settings: LearntSettings, vocabulary: int) -> Any:
    sizes = settings.hidden_size, settings.layers, settings.heads
    shared: dict[str, Any] = {"tie_word_embeddings": True, "pad_token_id": None}
    config = small_config(settings.model, vocabulary, *sizes, _MAX_POSITIONS, 2 * settings.hidden_size, **shared)
    return require("transformers", "train").AutoModelForCausalLM.from_config(config)
