"""Settings of a retriever, as a scenario's `candidates` holds them."""

from typing import Any, Literal

from pydantic import model_validator

from ..bounds import StrictModel, within

RETRIEVERS = ("bm25", "embedding", "oracle")


class Retrieval(StrictModel):
    """Tools on offer that a retriever finds, in YAML ``{from: catalogue, retriever: bm25, k: 5}``.

    Attributes:
        retriever: "bm25" ranks by the words of query and documentation, "embedding" by static word embeddings (extra
            `retrieval`), "oracle" puts the tools that serve the task first.
        k: Tools that the query brings, and that each further search of an agent brings.
        seconds: Simulated time of a search.
        level: Instruction level whose text is the first query; None for the task's plain one.
    """

    retriever: Literal["bm25", "embedding", "oracle"] = "bm25"
    k: int = within("source.candidates", default=5)
    level: Literal["statement", "category", "tool", "api", "hybrid"] | None = None
    seconds: float = within("source.candidates.seconds", default=0.3)

    @model_validator(mode="before")
    @classmethod
    def _from_catalogue(cls, value: Any) -> Any:
        """Take `from`, which has one value so far."""
        if isinstance(value, dict) and "from" in value:
            value = dict(value)
            place = value.pop("from")
            if place != "catalogue":
                raise ValueError(f"from: expected 'catalogue', got {place!r}")
        return value
