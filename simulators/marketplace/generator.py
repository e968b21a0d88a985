"""A seeded marketplace of APIs after RapidAPI: several providers of everything, at different price, speed and reliability."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ConfigError
from ..failures import PRESETS, FailureModel
from ..tools import Catalog
from .answers import GeneratedAnswers
from .catalogue import build_tools
from .facts import Database
from .market import Marketplace
from .tasks import Candidates, LazyTaskSet, Offers, TaskWriter
from .vocabulary import vocabulary


def generate_marketplace(
    seed: int = 0,
    *,
    tools: int = 1432,
    providers: int = 240,
    categories: int = 36,
    tasks: Mapping[str, int] | None = None,
    candidates: Candidates = 16,
    failures: FailureModel | None = None,
    fees: tuple[int, int] = (1, 10),
    chain_share: float = 0.35,
    alternative_share: float = 0.3,
) -> Marketplace:
    """A marketplace: tools, tasks and answers, as a pure function of the arguments.

    Args:
        seed: of all that is drawn.
        tools, providers, categories: its size; ToolPlanner's 36 categories, 240 providers and 1,432 tools by default.
        tasks: how many tasks each split has; 400 each in `train` and `test` by default. No two splits name the same entity.
        candidates: tools on offer in a task, or the lowest and highest number; at most the whole catalog.
        failures: how the tools fail; the preset "rapidapi-2023" by default.
        fees: lowest and highest flat price, whole numbers.
        chain_share: share of the tasks with several needs in which one call's answer is another's argument.
        alternative_share: share of the needs, among those that nothing depends on, about which the user may change their mind.

    Raises:
        ConfigError: the sizes do not fit together; says which.
    """
    known = vocabulary()
    counts = dict(tasks) if tasks is not None else {"train": 400, "test": 400}
    _check_sizes(tools, providers, categories, counts, candidates, fees, len(known.categories))
    capabilities = {c.name: c for category in known.categories for c in category.capabilities}
    chosen = known.categories[:categories]
    catalog = Catalog(build_tools(seed, chosen, tools, providers, failures or PRESETS["rapidapi-2023"], fees), "marketplace")
    answers = GeneratedAnswers(Database(seed, known.kinds, len(counts)), capabilities)
    offers = Offers(catalog, capabilities)
    writer = TaskWriter(seed, offers, answers, known, tuple(counts), candidates, chain_share, alternative_share)
    return Marketplace(catalog, LazyTaskSet(writer, counts), answers)


def _check_sizes(
    tools: int,
    providers: int,
    categories: int,
    tasks: Mapping[str, int],
    candidates: Candidates,
    fees: tuple[int, int],
    most: int,
) -> None:
    low, high = (candidates, candidates) if isinstance(candidates, int) else candidates
    problems = {
        "categories": None if 1 <= categories <= most else f"expected 1 to {most}, got {categories}",
        "providers": None if providers >= categories else f"expected at least one a category ({categories}), got {providers}",
        "tools": None if tools >= providers else f"expected at least one a provider ({providers}), got {tools}",
        "tasks": None if tasks and min(tasks.values()) >= 0 and len(tasks) <= 20 else f"expected counts by split, got {tasks}",
        "candidates": None if 1 <= low <= high else f"expected a number of at least 1 or a range, got {candidates}",
        "fees": None if 0 <= fees[0] <= fees[1] else f"expected the lowest and the highest fee, got {fees}",
    }
    for name, problem in problems.items():
        if problem:
            raise ConfigError(f"marketplace.{name}", problem)
