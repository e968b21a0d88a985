"""Train BTP's classifier as a transformers sequence classifier: a small Longformer or a published model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .... import __version__
from ....agents.btp.usefulness_reader import FORMAT, MANIFEST, LearntReader, in_words
from ....agents.networks import load_published
from ....simulators.draws import stable_generator
from ....simulators.errors import require
from ...play.files import write_atomically
from ..loop import Learner, Loss, optimise, own_chance
from ..run import TrainingResult, TrainingRun
from .data import Labelled, check_kinds
from .settings import UsefulnessSettings

SMALL = "longformer"
"""Model name of a small Longformer with random weights and its own tokenizer."""
MAX_TOKENS = {True: 256, False: 2048}
"""Maximum input tokens of the small model and of a published model. Source: BTP's published code (2,048)."""


class ReaderLearner(Learner):
    """Fine-tunes a sequence classifier on labelled results.

    Args:
        network, tokenizer: model and tokenizer of transformers.
        known: labelled results.
        settings: settings of the run.
        measure: function that computes the final metrics.
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        known: Sequence[Labelled],
        settings: UsefulnessSettings,
        measure: Callable[[LearntReader], dict[str, float]],
    ) -> None:
        self.network, self.tokenizer, self.known, self.settings, self.measure = network, tokenizer, known, settings, measure
        self.weights, self.seed = dict(network.named_parameters()), settings.seed
        self.adamw: dict[str, Any] = {}
        self._texts = [in_words(example.observed) for example in known]
        luck = stable_generator(settings.seed, "usefulness order")
        orders = [luck.permutation(len(known)).tolist() for _ in range(settings.epochs)]
        size = settings.batch_size
        self._batches = [order[start : start + size] for order in orders for start in range(0, len(order), size)]

    @property
    def steps(self) -> int:
        return len(self._batches)

    @property
    def small(self) -> bool:
        """Return whether the model is the small Longformer."""
        return self.settings.model == SMALL

    def rate(self, step: int) -> float:
        return (1e-3 if self.small else 2e-5) * (1.0 - step / self.steps)

    def loss(self, step: int) -> Loss:
        self.network.train()
        chosen, device = self._batches[step], next(iter(self.weights.values())).device
        texts = [self._texts[i] for i in chosen]
        read = self.tokenizer(texts, truncation=True, max_length=MAX_TOKENS[self.small], padding=True, return_tensors="pt").to(
            device
        )
        labels = torch.tensor([int(self.known[i].helpful) for i in chosen], device=device)
        return torch.nn.functional.cross_entropy(self.network(**read).logits.float(), labels), {}

    def reader(self) -> LearntReader:
        """Return the classifier with its current weights."""
        return LearntReader(self.network, self.tokenizer, MAX_TOKENS[self.small], self.documents)

    @property
    def documents(self) -> dict[str, str]:
        """Return the documentation of each tool, by tool name."""
        return {example.tool: example.observed.document for example in self.known}

    def check(self) -> dict[str, float]:
        return self.measure(self.reader())


def fit_transformer(
    run: TrainingRun,
    known: Sequence[Labelled],
    settings: UsefulnessSettings,
    measure: Callable[[LearntReader], dict[str, float]] = lambda reader: {},
) -> TrainingResult:
    """Fine-tune a sequence classifier on labelled results and save it in the run's folder as safetensors.

    Args:
        run: the run.
        known: labelled results.
        settings: settings of the run; `model` is `SMALL`, or a published model by id or folder.
        measure: function that computes the final metrics.

    Raises:
        ConfigError: all examples have the same label.
        TrainingFailed: the loss is not finite.
    """
    check_kinds(known)
    transformers, model = require("transformers", "train"), settings.model or SMALL
    small = model == SMALL
    with own_chance(settings.seed):
        if small:
            tokenizer = _tokenizer([in_words(example.observed) for example in known])
            network = _small(tokenizer)
        else:
            tokenizer, network = load_published(transformers.AutoTokenizer, model), _published(model)
    network.to("cuda" if torch.cuda.is_available() else "cpu")
    learner = ReaderLearner(network, tokenizer, known, settings, measure)
    result = optimise(run, learner)
    if result.finished:
        network.save_pretrained(run.folder / "model")
        tokenizer.save_pretrained(run.folder / "model")
        manifest = {"format": FORMAT, "version": __version__, "longest": MAX_TOKENS[small], "documents": learner.documents}
        write_atomically(run.folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    return result


def _published(model: str) -> Any:
    kind = require("transformers", "train").AutoModelForSequenceClassification
    return load_published(kind, model, num_labels=2, trust_remote_code=False)


def _small(tokenizer: Any) -> Any:
    transformers = require("transformers", "train")
    config = transformers.LongformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        attention_window=32,
        max_position_embeddings=MAX_TOKENS[True] + 34,
        num_labels=2,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.LongformerForSequenceClassification(config)


def _tokenizer(texts: Sequence[str]) -> Any:
    """Train a byte-pair tokenizer on texts."""
    tokenizers = require("tokenizers", "train")
    transformers = require("transformers", "train")
    model = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    model.train_from_iterator(texts, trainer)
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", cls_token="<s>"
    )
