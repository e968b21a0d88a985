"""Candidate toolsets, which stand beside the right tool: drawn at random, from one or several clusters, or the nearest ones.

Source: DEER (arXiv 2402.16696), Section 3.2 and Algorithm 1, but for the nearest tools, which are ours.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from costgym.simulators.errors import ConfigError, UnknownName, check_known
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.retrieval.embedding import TextEmbedding, Vectors, centres_of, k_means, squared_distances
from costgym.simulators.tools import Tool, ToolText

RANDOM, INTRA, INTER, NEAREST = "random", "intra-class", "inter-class", "nearest"
STRATEGIES = (RANDOM, INTRA, INTER, NEAREST)
_SENTENCE = re.compile(r"(?<=[.!?])\s")
MIXTURE = {RANDOM: 2, INTRA: 1, INTER: 2}  # Parts of the best mixture. Source: DEER, Section 5.1.


Embed = Callable[[Sequence[str]], Vectors]
"""An encoder of texts as unit vectors, shape (texts, size)."""


def what_it_does(tool: ToolText) -> str:
    """The first sentence of a tool's description. The others are about terms and formats, and do not tell tools apart."""
    return _SENTENCE.split(tool.description, 1)[0]


class CandidateSampler:
    """Draws candidate toolsets from a pool.

    A tool that could replace the right one (same capability) never stands beside it, and never where none shall fit: the
    label would be wrong. Corner cases, which the paper leaves open: an intra-class set whose cluster is too small goes on with
    the nearest clusters; an inter-class set with too few clusters goes on at random.

    Args:
        pool: The tools to draw from.
        size: Candidates of a set (5 in the paper).
        clusters: K-means clusters of the descriptions' embeddings (30 in the paper).
        seed: Keys the clustering.
        embed: The encoder of the descriptions; by default by their words.

    Raises:
        ConfigError: The pool is too small for sets of that size.
    """

    def __init__(
        self, pool: Sequence[Tool], size: int = 5, clusters: int = 30, seed: int = 0, embed: Embed | None = None
    ) -> None:
        self.pool, self.size = tuple(pool), size
        if size < 1 or clusters < 1:
            raise ConfigError("candidate sets", f"expected at least one candidate and one cluster, got {size} and {clusters}")
        if len(self.pool) <= size:
            raise ConfigError("candidate sets", f"expected a pool of more than {size} tools, got {len(self.pool)}")
        descriptions = [what_it_does(tool) for tool in self.pool]
        self._vectors = vectors = (embed or TextEmbedding(descriptions))(descriptions)
        self.labels: list[int] = k_means(vectors, clusters, seed).tolist()
        count = max(self.labels) + 1
        self.members = [[index for index, label in enumerate(self.labels) if label == group] for group in range(count)]
        centres = centres_of(vectors, np.asarray(self.labels), count)
        self._nearest: list[list[int]] = np.argsort(squared_distances(centres, centres), axis=1, kind="stable").tolist()
        self._index = {tool.name: index for index, tool in enumerate(self.pool)}

    def cluster(self, tool: str) -> int:
        """The cluster of a tool of the pool, by the tool's name; raises UnknownName where it is not in the pool."""
        check_known("tool", tool, self._index)
        return self.labels[self._index[tool]]

    def draw(self, strategy: str, gold: str, with_gold: bool, luck: Luck) -> tuple[Tool, ...]:
        """Draw a candidate set for a query.

        Args:
            strategy: One of `STRATEGIES`.
            gold: Name of the right tool.
            with_gold: The right tool stands among the candidates; otherwise none of them fits.
            luck: The source of chance.

        Returns:
            `size` different tools in random order.

        Raises:
            UnknownName: No such strategy, or no such tool in the pool.
            ConfigError: Too few tools of the pool do not fit.
        """
        home = self.cluster(gold)
        right = self.pool[self._index[gold]]
        wanted = self.size - with_gold
        if strategy == RANDOM:
            others = self._at_random(right, wanted, luck, ())
        elif strategy == INTRA:
            others = self._from_one_cluster(right, home, wanted, luck)
        elif strategy == INTER:
            others = self._from_many_clusters(right, home if with_gold else -1, wanted, luck)
        elif strategy == NEAREST:
            others = self._nearest_tools(right, wanted)
        else:
            raise UnknownName("sampling strategy", strategy, STRATEGIES)
        if len(others) < wanted:
            raise ConfigError("candidate sets", f"the pool has too few tools not fitting a query for {right.name}; widen it")
        return tuple(luck.order([*others, right] if with_gold else others))

    def _unfit(self, right: Tool, indices: Sequence[int]) -> list[Tool]:
        tools = [self.pool[index] for index in indices]
        return [t for t in tools if t is not right and not (right.capability and t.capability == right.capability)]

    def _at_random(self, right: Tool, wanted: int, luck: Luck, taken: Sequence[Tool]) -> list[Tool]:
        names = {tool.name for tool in taken}
        tools: list[Tool] = []
        for _ in range(4 * wanted):  # large pools take a few tries at most; the bound is for tiny ones
            if len(tools) == wanted:
                return tools
            tool = luck.pick(self.pool)
            if tool.name not in names and self._unfit(right, [self._index[tool.name]]):
                names.add(tool.name)
                tools.append(tool)
        rest = [tool for tool in self._unfit(right, range(len(self.pool))) if tool.name not in names]
        return tools + luck.order(rest)[: wanted - len(tools)]

    def _from_one_cluster(self, right: Tool, home: int, wanted: int, luck: Luck) -> list[Tool]:
        tools: list[Tool] = []
        for cluster in [home, *[c for c in self._nearest[home] if c != home]]:
            tools += luck.order(self._unfit(right, self.members[cluster]))[: wanted - len(tools)]
            if len(tools) == wanted:
                break
        return tools

    def _nearest_tools(self, right: Tool, wanted: int) -> list[Tool]:
        """Return the tools whose descriptions are most like the right one's, one of each capability."""
        likeness = (self._vectors @ self._vectors[self._index[right.name]]).round(9)  # free of the noise of a sum's order
        nearest: dict[str, Tool] = {}
        for index in np.argsort(-likeness, kind="stable").tolist():
            if len(nearest) >= wanted:
                break
            for tool in self._unfit(right, [index]):
                nearest.setdefault(tool.capability or tool.name, tool)
        return list(nearest.values())

    def _from_many_clusters(self, right: Tool, without: int, wanted: int, luck: Luck) -> list[Tool]:
        existing: list[Tool] = []
        # one tool a cluster: candidates that are far from each other, which the right one has to be told from
        for cluster in luck.order([c for c in range(len(self.members)) if c != without]):
            tools = self._unfit(right, self.members[cluster])
            if tools:
                existing.append(luck.pick(tools))
            if len(existing) == wanted:
                return existing
        return existing + self._at_random(right, wanted - len(existing), luck, existing)


def mixture_cycle(parts: dict[str, int]) -> tuple[str, ...]:
    """The strategies of one round of a mixture, each as often as its part says, so that every round has the exact shares."""
    for name, part in parts.items():
        check_known("sampling strategy", name, STRATEGIES)
        if isinstance(part, bool) or not isinstance(part, int) or part < 0:
            raise ConfigError("mixture", f"{name}: expected a whole number of at least 0, got {part!r}")
    cycle = tuple(name for name in STRATEGIES for _ in range(parts.get(name, 0)))
    if not cycle:
        raise ConfigError("mixture", "expected at least one part of a strategy, got none")
    return cycle
