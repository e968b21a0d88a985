"""The source of the scenario `one-world`: which kinds of queries it has, and what is on offer in them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from costgym.simulators.bounds import within
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import FailureModel
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.marketplace.sources import Candidates, MarketplaceSource
from costgym.simulators.one_world.kinds import BOTH, KINDS, VISION
from costgym.simulators.retrieval import Retrieval

_Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class OneWorldSource(MarketplaceSource):
    """A generated marketplace with OpenCATP's tools beside its APIs, and queries of five kinds.

    Attributes:
        candidates: Number of tools on offer in a query, or its range. OpenCATP's ten are among them, unless `vision_tools` is
            off; the others are APIs.
        kinds: Weights of the kinds of queries, by name; a kind that is not named does not occur.
        vision_tools: OpenCATP's tools are on offer in every query.
        success_score: Score from which a picture or a text about it answers a query, as in OpenCATP's environments.
    """

    kind: Literal["one-world"] = "one-world"  # type: ignore[assignment]  # another kind of source
    candidates: Candidates | tuple[Candidates, Candidates] | Retrieval = (16, 64)
    kinds: Mapping[str, _Weight] = Field(default_factory=lambda: dict.fromkeys(KINDS, 1.0))
    vision_tools: bool = True
    success_score: float = within("profile.reliability", default=0.5)

    @field_validator("kinds")
    @classmethod
    def _known(cls, kinds: Mapping[str, float]) -> Mapping[str, float]:
        if unknown := sorted(kinds.keys() - set(KINDS)):
            raise ValueError(f"unknown kind of query {unknown[0]!r}; known: {', '.join(KINDS)}")
        if not sum(kinds.values()) > 0:
            raise ValueError("expected a kind of query with a weight above 0, got none")
        return kinds

    def market(self, seed: int, failures: FailureModel) -> Marketplace:
        """The tools, tasks and answers of this source."""
        from costgym.simulators.one_world.tasks import one_world_market

        kinds = {name: weight for name, weight in self.kinds.items() if weight}
        if not self.vision_tools and kinds.keys() & {VISION, BOTH}:
            raise ConfigError("source.vision_tools", "expected true, since there are queries about images; else leave them out")
        apis = self._apis()
        counts = {"train": apis.train, "test": apis.test}
        return one_world_market(apis.market(seed, failures), counts, seed, kinds, self.vision_tools, self.success_score)

    def _apis(self) -> MarketplaceSource:
        """The marketplace of the APIs alone, which offers as many tools less as OpenCATP has."""
        from costgym.simulators.opencatp.tools import TOOLS

        offered = self.candidates
        if isinstance(offered, Retrieval):
            raise ConfigError("source.candidates", "expected a number of tools or a range; in this world all are on offer")
        low, high = (offered, offered) if isinstance(offered, int) else offered
        fewer = len(TOOLS) if self.vision_tools else 0
        if low <= fewer:
            raise ConfigError("source.candidates", f"expected more than the {fewer} tools of OpenCATP, got {low}")
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in self.model_fields_set & MarketplaceSource.model_fields.keys()
        }
        return MarketplaceSource(**{**fields, "kind": "marketplace", "candidates": (low - fewer, high - fewer)})
