"""BTP's classifier as a sequence classifier of transformers, Longformer by default, from a config or by id."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....agents.btp.usefulness_reader import FORMAT, MANIFEST, LearntReader, in_words, load_reader
from ....simulators.draws import stable_generator
from ....simulators.errors import ConfigError, TrainingFailed, require
from ....simulators.version import __version__
from ...files import write_atomically

if TYPE_CHECKING:
    from .train import Labelled

SMALL = "longformer"
"""Instead of an id: a small Longformer from a config, with a tokenizer of its own."""
LONGEST = {True: 256, False: 2048}
"""Tokens of a small, and of a published, model. Source: BTP's published code (2,048)."""


def fit_transformer(
    run: Path, known: Sequence[Labelled], model: str, seed: int, epochs: int = 3, batch: int = 8
) -> LearntReader:
    """Fine-tunes a sequence classifier on labelled results and saves it (safetensors) in the run's folder.

    Args:
        run: the folder.
        known: labelled results.
        model: `SMALL`, or a published model by id or folder.
        seed: of weights and order.
        epochs, batch: of the training.

    Raises:
        ConfigError: the examples are all of one kind.
        TrainingFailed: the loss became infinite or no number; nothing is saved then.
    """
    torch = require("torch", "train")
    transformers = require("transformers", "train")
    if len({example.helpful for example in known}) < 2:
        raise ConfigError("examples", "expected helpful and useless results; record more episodes")
    texts = [in_words(example.observed) for example in known]
    small = model == SMALL
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tokenizer = _tokenizer(texts) if small else transformers.AutoTokenizer.from_pretrained(model)
        network = _small(tokenizer) if small else _published(model)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        network.to(device).train()
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3 if small else 2e-5)
        steps = epochs * math.ceil(len(known) / batch)
        luck = stable_generator(seed, "usefulness order")
        step = 0
        for _ in range(epochs):
            order = luck.permutation(len(known)).tolist()
            for start in range(0, len(order), batch):
                chosen = order[start : start + batch]
                read = tokenizer(
                    [texts[i] for i in chosen], truncation=True, max_length=LONGEST[small], padding=True, return_tensors="pt"
                ).to(device)
                labels = torch.tensor([int(known[i].helpful) for i in chosen], device=device)
                loss = torch.nn.functional.cross_entropy(network(**read).logits.float(), labels)
                if not bool(torch.isfinite(loss)):
                    raise TrainingFailed(step, f"the loss is {float(loss)}")
                for group in optimizer.param_groups:
                    group["lr"] = (1e-3 if small else 2e-5) * (1.0 - step / steps)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                step += 1
    network.save_pretrained(run / "model")
    tokenizer.save_pretrained(run / "model")
    documents = {example.tool: example.observed.document for example in known}
    manifest = {"format": FORMAT, "version": __version__, "longest": LONGEST[small], "documents": documents}
    write_atomically(run / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    return load_reader(run)


def _published(model: str) -> Any:
    transformers = require("transformers", "train")
    return transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=2, trust_remote_code=False)


def _small(tokenizer: Any) -> Any:
    transformers = require("transformers", "train")
    config = transformers.LongformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        attention_window=32,
        max_position_embeddings=LONGEST[True] + 34,
        num_labels=2,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.LongformerForSequenceClassification(config)


def _tokenizer(texts: Sequence[str]) -> Any:
    """Byte pairs of the texts themselves."""
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
