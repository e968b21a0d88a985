"""Generate a marketplace of APIs after RapidAPI, with several providers of everything that differ in price and reliability."""

from collections.abc import Mapping

from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import PRESETS, FailureModel
from costgym.simulators.marketplace.answers import GeneratedAnswers
from costgym.simulators.marketplace.catalogue import build_tools
from costgym.simulators.marketplace.english_market import in_english
from costgym.simulators.marketplace.facts import Database
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.marketplace.tasks import LazyTaskSet, Offers, TaskRules, TaskWriter
from costgym.simulators.marketplace.vocabulary import vocabulary
from costgym.simulators.tools import Catalog


def generate_marketplace(
    seed: int = 0,
    *,
    tools: int = 1432,
    providers: int = 240,
    categories: int = 36,
    tasks: Mapping[str, int] | None = None,
    candidates: int | tuple[int, int] = 16,
    failures: FailureModel | None = None,
    rules: TaskRules | None = None,
    misnamed: float = 0.0,
    world: int = 0,
) -> Marketplace:
    """Make a marketplace's tools, tasks and answers, as a pure function of the arguments.

    The defaults are ToolPlanner's size, 400 tasks each in `train` and `test`, and the preset "rapidapi-2023". No two splits
    name the same entity. `candidates` is the number of tools on offer, or a range; of a share `misnamed` the name promises what
    another capability does and the documentation denies. `world` is the version of the world.

    Raises:
        ConfigError: The sizes do not fit together; says which.
    """
    composed = rules or TaskRules()
    known = vocabulary(links=composed.chain[1] > 2)
    counts = dict(tasks) if tasks is not None else {"train": 400, "test": 400}
    low, high = (candidates, candidates) if isinstance(candidates, int) else candidates
    most = len(known.categories)
    problems = {
        "categories": None if 1 <= categories <= most else f"expected 1 to {most}, got {categories}",
        "providers": None if providers >= categories else f"expected at least one a category ({categories}), got {providers}",
        "tools": None if tools >= providers else f"expected at least one a provider ({providers}), got {tools}",
        "tasks": None
        if counts and min(counts.values()) >= 0 and len(counts) <= 20
        else f"expected counts by split, got {counts}",
        "candidates": None if 1 <= low <= high else f"expected a number of at least 1 or a range, got {candidates}",
    }
    for name, problem in problems.items():
        if problem:
            raise ConfigError(f"marketplace.{name}", problem)
    chosen = known.categories[:categories]
    model = failures or PRESETS["rapidapi-2023"]
    built = build_tools(seed, chosen, tools, providers, model, misnamed)
    catalog = Catalog(built, "marketplace")
    answers = GeneratedAnswers(Database(seed, known.kinds, len(counts)), known.capabilities)
    offers = Offers(catalog, known.capabilities)
    writer = TaskWriter(seed, offers, answers, known, tuple(counts), (low, high), composed)
    if world:
        return in_english(built, writer, counts)
    return Marketplace(catalog, LazyTaskSet(writer, counts), answers)
