"""Constrained decoding: token by token, but only along answers that are open."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...simulators.errors import ConfigError

Scores = Callable[[list[list[int]]], "np.ndarray[Any, np.dtype[Any]]"]
"""Scores of the next token behind each of some sequences, shape (sequences, tokens)."""


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
        asked, options = [], []
        for index, answers in enumerate(choices):
            # tokens that all open answers share are written without asking the model
            while len(left[index]) > 1:
                done = len(written[index])
                following = sorted({answers[answer][done] for answer in left[index]})
                if len(following) > 1:
                    asked.append(index)
                    options.append(following)
                    break
                written[index].append(following[0])
        if not asked:
            return [answers[0] for answers in left]
        found = scores([[*prompts[index], *written[index]] for index in asked])
        for index, following, row in zip(asked, options, found, strict=True):
            token = following[int(np.argmax(row[following]))]
            done = len(written[index])
            left[index] = [answer for answer in left[index] if choices[index][answer][done] == token]
            written[index].append(token)


def _check(answers: Sequence[Sequence[int]]) -> None:
    if not answers:
        raise ConfigError("choices", "expected at least one answer to choose from, got none")
    ordered = sorted(tuple(answer) for answer in answers)
    for first, second in pairwise(ordered):
        if second[: len(first)] == first:
            raise ConfigError(
                "choices", f"the answer {list(first)} is {list(second)} or its beginning; end both with an end token"
            )
