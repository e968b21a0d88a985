"""The market of a forged world: its tools, tasks and answers."""

from costgym.simulators.failures import FailureModel
from costgym.simulators.forge.answers import ForgedAnswers
from costgym.simulators.forge.requests import RequestWriter
from costgym.simulators.forge.source import ForgedSource
from costgym.simulators.forge.tasks import ForgedTaskWriter
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.marketplace.tasks import LazyTaskSet


def forged_market(source: ForgedSource, seed: int, failures: FailureModel) -> Marketplace:
    """The tools, tasks and answers of a source; see `ForgedSource.catalog` for errors."""
    catalog, answers = source.catalog(seed, failures), ForgedAnswers(source, seed)
    writer = (RequestWriter if source.version else ForgedTaskWriter)(source, catalog, answers, seed)
    tasks = LazyTaskSet(writer, {"train": source.train, "test": source.test})  # type: ignore[arg-type]
    return Marketplace(catalog, tasks, answers)
