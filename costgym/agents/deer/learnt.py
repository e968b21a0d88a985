"""A trained DEER policy: `deer:RUN` plays what `costgym train deer` left in a folder."""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from costgym.agents.checkpoints import load_weights, newest
from costgym.agents.deer.deciders import DeerAgent, TrainedDecider
from costgym.agents.deer.language_model import next_scores, next_texts, small_model
from costgym.agents.deer.settings import TOKENIZER, DeerConfig
from costgym.agents.deer.writing import Writing, completion_ids, prompt_ids, read_call
from costgym.agents.networks import multiplied, published_model, trained_weights
from costgym.agents.settings import read_config
from costgym.simulators.errors import ConfigError, DataError, require
from costgym.simulators.retrieval.sentences import is_sentence_encoder
from costgym.simulators.tools import ToolText


class LearntDecider(TrainedDecider):
    """Decides by a causal language model: a small one is decoded along the open answers alone, a published one writes its call
    freely, arguments and all."""

    def __init__(self, model: Any, tokenizer: Any, run: DeerConfig, name: str = "deer") -> None:
        self._model, self._tokenizer, self._writing = model.eval(), tokenizer, writing_of(run)
        self._settings, self.name, self.model = run.settings, name, run.settings.model or "small"

    def search_many(self, queries: Sequence[str]) -> list[bool]:
        prompts = [self._writing.search_prompt(query) for query in queries]
        return [answer == 0 for answer in self._decode(prompts, [self._writing.search_choices] * len(prompts))]

    def choose_many(self, questions: Sequence[tuple[str, Sequence[ToolText]]]) -> list[int | None]:
        if not self._writing.compact:
            calls = self.write_calls(questions, self._opening)  # the arguments do not matter here
            return [read_call(call, candidates) for call, (_, candidates) in zip(calls, questions, strict=True)]
        prompts = [self._writing.call_prompt(query, candidates) for query, candidates in questions]
        answers = self._decode(prompts, [self._writing.call_choices(candidates) for _, candidates in questions])
        return [None if answer == 0 else answer - 1 for answer in answers]

    def write_calls(self, questions: Sequence[tuple[str, Sequence[ToolText]]], last: Sequence[int] = ()) -> list[str]:
        """Return what a published model writes as its second decision, likeliest token by likeliest token, up to the first of
        `last`, if there are any."""
        prompts = [self._writing.call_prompt(query, candidates) for query, candidates in questions]
        read = [prompt_ids(self._tokenizer, prompt) for prompt in prompts]
        with multiplied(self._settings, self._model.device):
            written = next_texts(self._model, read, self._pad, self._tokenizer.eos_token_id, last)
        return [str(self._tokenizer.decode(tokens, skip_special_tokens=True)) for tokens in written]

    @cached_property
    def _opening(self) -> tuple[int, ...]:
        """The tokens with the bracket at which a function's name ends."""
        texts = self._tokenizer.batch_decode([[token] for token in range(len(self._tokenizer))])
        return tuple(token for token, text in enumerate(texts) if "(" in text)

    @property
    def _pad(self) -> int:
        pad = self._tokenizer.pad_token_id
        return int(pad if pad is not None else self._tokenizer.eos_token_id)

    def _decode(self, prompts: Sequence[str], choices: Sequence[Sequence[str]]) -> list[int]:
        options = [[completion_ids(self._tokenizer, text) for text in texts] for texts in choices]
        read = [prompt_ids(self._tokenizer, prompt) for prompt in prompts]
        with multiplied(self._settings, self._model.device):
            return decode(lambda sequences, tokens: next_scores(self._model, sequences, tokens, self._pad), read, options)


def load_decider(folder: str | Path, name: str | None = None) -> TrainedDecider:
    """The decider of a run, with its newest weights; raises DataError where they are missing, damaged or of another kind."""
    torch = require("torch", "train")
    require("transformers", "train")
    require("safetensors", "train")
    path = Path(folder)
    run = read_config(path, DeerConfig)
    checkpoint = newest(path)
    if run.settings.model is not None and is_sentence_encoder(run.settings.model):
        from costgym.agents.deer.matching import load_matcher

        return load_matcher(checkpoint, run, name or f"deer:{folder}")
    tokenizer = load_tokenizer(path)
    model = build_model(run, tokenizer)
    load_weights(checkpoint, trained_weights(model))
    if torch.cuda.is_available():
        model = model.to("cuda")
    return LearntDecider(model.requires_grad_(False), tokenizer, run, name or f"deer:{folder}")


def writing_of(run: DeerConfig) -> Writing:
    """Return the wording of decisions that a run was trained with."""
    return Writing(run.settings.small, frozenset(run.common))


def build_model(run: DeerConfig, tokenizer: Any) -> Any:
    """Return the model of a run before its training."""
    if not run.settings.small:
        return published_model(run.settings)
    return small_model(len(tokenizer), run.settings, tokenizer.pad_token_id, tokenizer.eos_token_id)


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a run; raises DataError where it is missing or damaged."""
    transformers = require("transformers", "train")
    path = folder / TOKENIZER
    try:
        return transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(path, f"cannot be read as a tokenizer ({error}); train the policy again") from error


class LearntDeerAgent(DeerAgent):
    """A trained policy at play, shown as `name` or ``deer:FOLDER``; raises as `load_decider` does."""

    def __init__(self, folder: str | Path, name: str | None = None) -> None:
        super().__init__(load_decider(folder, name))


Scores = Callable[[list[list[int]], list[list[int]]], Sequence["np.ndarray[Any, np.dtype[Any]]"]]
"""Scores of given tokens behind each of some sequences: an array for each sequence, one score a token."""


def decode(scores: Scores, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[Sequence[int]]]) -> list[int]:
    """For each prompt the index of the answer that is found by taking the best open token at each step.

    Where one token alone is open the model is not asked. Of equal scores the smallest token is taken. Raises ConfigError where
    a prompt has no answer, two alike, or one that is the beginning of another.
    """
    if len(prompts) != len(choices):
        raise ConfigError("choices", f"expected answers for {len(prompts)} prompts, got them for {len(choices)}")
    for answers in choices:
        _check(answers)
    written: list[list[int]] = [[] for _ in prompts]
    left = [list(range(len(answers))) for answers in choices]
    while True:
        indices, options = [], []
        for index, answers in enumerate(choices):
            # tokens that all open answers share are written without asking the model
            while len(left[index]) > 1:
                done = len(written[index])
                following = sorted({answers[answer][done] for answer in left[index]})
                if len(following) > 1:
                    indices.append(index)
                    options.append(following)
                    break
                written[index].append(following[0])
        if not indices:
            return [answers[0] for answers in left]
        option_scores = scores([[*prompts[index], *written[index]] for index in indices], options)
        for index, following, row in zip(indices, options, option_scores, strict=True):
            token = following[int(np.argmax(row))]
            done = len(written[index])
            left[index] = [answer for answer in left[index] if choices[index][answer][done] == token]
            written[index].append(token)


def _check(answers: Sequence[Sequence[int]]) -> None:
    if not answers:
        raise ConfigError("choices", "expected at least one answer to choose from, got none")
    ordered = sorted(tuple(answer) for answer in answers)
    for first, second in pairwise(ordered):
        if second[: len(first)] == first:
            raise ConfigError("choices", f"the answer {list(first)} is a prefix of {list(second)}; end both with an end token")
