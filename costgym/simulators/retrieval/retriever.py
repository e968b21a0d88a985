"""Find a task's tools in the whole catalogue. The retriever stands on the world's side; agents see what it found."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Literal

from pydantic import model_validator

from costgym.simulators.bounds import StrictModel, within
from costgym.simulators.retrieval.ranking import Bm25, Cosine, best_first, document_of, word_embedding
from costgym.simulators.retrieval.sentences import sentence_embedding
from costgym.simulators.tasks import KeptTasks, Task, TaskSet, normalise
from costgym.simulators.tools import Catalog, Tool

RETRIEVERS = ("bm25", "embedding", "minilm", "oracle")


class Retrieval(StrictModel):
    """Tools on offer that a retriever finds, in YAML ``{from: catalogue, retriever: bm25, k: 5}``."""

    #: "bm25" ranks by the words of query and documentation, "embedding" by static word embeddings (extra `retrieval`), "minilm"
    #: by a sentence encoder (extra `minilm`), "oracle" puts the tools that serve the task first
    retriever: Literal["bm25", "embedding", "minilm", "oracle"] = "bm25"
    #: tools that the query brings, and that each further search of an agent brings
    k: int = within("source.candidates", default=5)
    #: instruction level whose text is the first query; None for the task's plain one
    level: Literal["statement", "category", "tool", "api", "hybrid"] | None = None
    seconds: float = within("source.candidates.seconds", default=0.3)  #: simulated time of a search

    @model_validator(mode="before")
    @classmethod
    def _from_catalogue(cls, value: Any) -> Any:
        """Take `from`, which has one value so far."""
        if isinstance(value, dict) and "from" in value:
            value = dict(value)
            source = value.pop("from")
            if source != "catalogue":
                raise ValueError(f"from: expected 'catalogue', got {source!r}")
        return value


class Retriever:
    """A search engine over a catalogue of `size` tools in the `categories`, which an agent may search in."""

    def __init__(self, settings: Retrieval, catalog: Catalog) -> None:
        self.settings, self._catalog = settings, catalog
        documents = [document_of(tool) for tool in catalog]
        self._ranking: Bm25 | Cosine
        if settings.retriever in ("embedding", "minilm"):
            self._ranking = Cosine(documents, word_embedding() if settings.retriever == "embedding" else sentence_embedding())
        else:
            self._ranking = Bm25(documents)
        self.size = len(catalog)
        self.categories = tuple(sorted({tool.category for tool in catalog}))

    def rank(self, query: str, task: Task | None = None, category: str = "", provider: str = "") -> list[int]:
        """Numbers of all tools (of a `category`, a `provider`; "" for all) in the order in which a search finds them."""
        order = best_first(self._ranking.scores(query))
        if self.settings.retriever == "oracle" and task is not None:
            order = self._serving_first(order, query, task)
        if category or provider:
            wanted = _plain(category), _plain(provider)
            order = [number for number in order if _inside(self._catalog[number], *wanted)]
        return order

    def search(
        self, query: str, task: Task, offered: frozenset[str], category: str = "", provider: str = ""
    ) -> tuple[int, ...]:
        """Numbers of the first `k` tools that are not on offer yet."""
        ranked = (n for n in self.rank(query, task, category, provider) if self._catalog[n].name not in offered)
        return tuple(number for _, number in zip(range(self.settings.k), ranked, strict=False))

    def first(self, task: Task) -> tuple[str, ...]:
        """Names of the tools that the task's own query finds."""
        query = task.instructions.get(self.settings.level or "", task.query)
        return tuple(self._catalog[number].name for number in self.rank(query, task)[: self.settings.k])

    def listing(self, category: str, provider: str = "") -> dict[str, list[str]]:
        """Titles of a category's tools by provider, in the order of the catalogue."""
        facts: dict[str, list[str]] = {}
        for tool in self._catalog:
            if _inside(tool, _plain(category), _plain(provider)):
                facts.setdefault(tool.provider, []).append(tool.title or tool.name)
        return facts

    def _serving_first(self, order: Sequence[int], query: str, task: Task) -> list[int]:
        """The tools that serve the needs in turns, those named in the query first; then the others."""
        position = {number: rank for rank, number in enumerate(order)}
        text = normalise(query)
        needs = sorted(task.needs, key=lambda need: not need.wish or normalise(need.wish) not in text)
        # in turns, so that a short list holds a tool for every need rather than all tools for the first
        tool_numbers = [sorted((self._catalog.number(name) for name in need.tools), key=position.__getitem__) for need in needs]
        turns = [number for lap in zip_longest(*tool_numbers) for number in lap if number is not None]
        serving = dict.fromkeys(turns)
        return [*serving, *(number for number in order if number not in serving)]


class RetrievedTasks(KeptTasks):
    """The tasks of a world, each with the tools on offer that its own query finds in the catalogue.

    A query that nothing is found for stays solvable: the tools are there, and the retriever missed them.
    """

    def __init__(self, tasks: TaskSet, retriever: Retriever) -> None:
        super().__init__({name: tasks.numbers(name) for name in tasks.splits})
        self._inner, self._retriever = tasks, retriever

    def __len__(self) -> int:
        return len(self._inner)

    def _written(self, index: int) -> Task:
        plain: Task = self._inner[index]
        return replace(plain, candidates=self._retriever.first(plain))

    def numbers(self, split: str) -> Sequence[int]:
        return self._inner.numbers(split)

    def has(self, number: int) -> bool:
        return self._inner.has(number)

    @property
    def most_candidates(self) -> int:
        return min(self._retriever.settings.k, self._retriever.size)


def _plain(name: str) -> str:
    return normalise(name.replace("_", " "))


def _inside(tool: Tool, category: str, provider: str) -> bool:
    return (not category or _plain(tool.category) == category) and (not provider or _plain(tool.provider) == provider)
