"""Tokens of requests to a model, by class, and the parts of their prompts."""

from typing import Any, NamedTuple

MAX_MARKS = 16  # of a prompt
Segment = tuple[str, int]  # digest of a part of a prompt, and its tokens


class Prompt(NamedTuple):
    """The parts of a request's prompt, as far as they differ from the prompt before in the episode."""

    same: int  # number of leading parts of that prompt with which this one begins
    parts: tuple[Segment, ...]  # what follows
    marks: tuple[int, ...] = ()  # numbers of leading parts behind which the client set a mark, beside that at the end

    def document(self) -> dict[str, Any]:
        """The prompt as actions write it."""
        written: dict[str, Any] = {"same": self.same, "parts": [list(part) for part in self.parts]}
        return written if not self.marks else {**written, "marks": list(self.marks)}


class Usage(NamedTuple):
    """Tokens of one model call. Of the input tokens, some were read from a prompt cache (`cached_tokens`) and others written to
    it (`cache_write_tokens`); of the output tokens, some were thoughts (`reasoning_tokens`).

    `seconds` is how long a real model took, which counts where a world's thinking is measured; None where nobody measured.
    `prompt` has the parts of the prompt where the world counts what its cache serves; None where a server has counted.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    seconds: float | None = None
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    prompt: Prompt | None = None

    def document(self) -> dict[str, Any]:
        """The fields as actions write them; those after `cached_tokens` stand there only where they say something."""
        written: dict[str, Any] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
        }
        if self.seconds is not None:
            written["seconds"] = self.seconds
        if self.cache_write_tokens:
            written["cache_write_tokens"] = self.cache_write_tokens
        if self.reasoning_tokens:
            written["reasoning_tokens"] = self.reasoning_tokens
        if self.prompt is not None:
            written["prompt"] = self.prompt.document()
        return written
