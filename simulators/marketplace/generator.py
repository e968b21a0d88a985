"""A seeded marketplace of APIs after RapidAPI: several providers of everything, at different price, speed and reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import ConfigError
from ..failures import PRESETS, FailureModel
from ..tools import Catalog
from .answers import GeneratedAnswers
from .catalogue import ProfileRules, build_tools
from .facts import Database
from .market import Marketplace
from .tasks import SIZE_LEVELS, Candidates, LazyTaskSet, Offers, TaskWriter
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
    profiles: ProfileRules | None = None,
    size_levels: Sequence[float] = SIZE_LEVELS,
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
        profiles: what prices, memory, cold starts and concurrency limits are drawn from.
        size_levels: weights of the four size levels of a task's input.
        chain_share: share of the tasks with several needs in which one call's answer is another's argument.
        alternative_share: share of the needs, among those that nothing depends on, about which the user may change their mind.

    Raises:
        ConfigError: the sizes do not fit together; says which.
    """
    known = vocabulary()
    counts = dict(tasks) if tasks is not None else {"train": 400, "test": 400}
    _check_sizes(tools, providers, categories, counts, candidates, size_levels, len(known.categories))
    capabilities = {c.name: c for category in known.categories for c in category.capabilities}
    chosen = known.categories[:categories]
    model, rules = failures or PRESETS["rapidapi-2023"], profiles or ProfileRules()
    catalog = Catalog(build_tools(seed, chosen, tools, providers, model, rules), "marketplace")
    answers = GeneratedAnswers(Database(seed, known.kinds, len(counts)), capabilities)
    offers = Offers(catalog, capabilities)
    writer = TaskWriter(
        seed, offers, answers, known, tuple(counts), candidates, chain_share, alternative_share, tuple(size_levels)
    )
    return Marketplace(catalog, LazyTaskSet(writer, counts), answers)


def _check_sizes(
    tools: int,
    providers: int,
    categories: int,
    tasks: Mapping[str, int],
    candidates: Candidates,
    size_levels: Sequence[float],
    most: int,
) -> None:
    low, high = (candidates, candidates) if isinstance(candidates, int) else candidates
    problems = {
        "categories": None if 1 <= categories <= most else f"expected 1 to {most}, got {categories}",
        "providers": None if providers >= categories else f"expected at least one a category ({categories}), got {providers}",
        "tools": None if tools >= providers else f"expected at least one a provider ({providers}), got {tools}",
        "tasks": None if tasks and min(tasks.values()) >= 0 and len(tasks) <= 20 else f"expected counts by split, got {tasks}",
        "candidates": None if 1 <= low <= high else f"expected a number of at least 1 or a range, got {candidates}",
        "size_levels": None
        if len(size_levels) == 4 and min(size_levels) >= 0 and sum(size_levels) > 0
        else f"expected four weights, got {tuple(size_levels)}",
    }
    for name, problem in problems.items():
        if problem:
            raise ConfigError(f"marketplace.{name}", problem)
