"""The public rules of sessions: how a session is drawn. Agents may know them; what is drawn they may not."""

import json
from functools import lru_cache

from numpy.random import Generator
from pydantic import Field, model_validator

from costgym.simulators.bounds import StrictModel, WorldVersion, is_none, is_zero
from costgym.simulators.digests import SCHEMA, digest_of, short_hash
from costgym.simulators.draws import stable_generator
from costgym.simulators.failures import FailureModel
from costgym.simulators.scenario import Scenario

VALUES = (2, 20)  # lowest and highest value of a query, whole numbers, in the currency of the prices
FAILURES = FailureModel(
    usable=0.5,
    dead_share=0.15,
    perfect_share=0.1,
    beta=(1.2, 1.2),
    slip=0.08,
    persistence=0.0,
    advertised_spread=0.2,
    advertised_floor=0.5,
    rate_limited_share=0.15,
    quota_share=0.1,
)
"""How tools fail within a session. Calls do not pull the next one towards them: that is what regimes are for."""


class SessionRules(StrictModel):
    """How sessions are drawn.

    Attributes:
        queries: Queries of a session.
        tools, capabilities, providers: Tools of its catalogue, what they can do, and who offers them.
        drift: Chance that a tool enters a new regime between two queries.
        price_drift: Chance that a tool's price changes between two queries.
        repeat: Chance that a query asks for a fact that an earlier one asked for.
        ttl_s: Mean life of a fact, simulated seconds; it is exponential, so a fact does not age, but dies.
        outage_every_s, outage_lasts_s: Mean time between outages of a provider, and their mean length, simulated seconds.
        budget_share: Default limits, as a share of what the informed policy spends without limits.
        success_share: Share of the value from which a session counts as a success.
        failures: Rates of reliabilities, adverts and ways to fail.
        scenario: The world whose tools are on offer, or a folder of worlds, of which every session plays one; None draws tools.
        world: The version of the world, see `bounds.WORLDS`. By 0, sessions are drawn from a table, by 1 by counter, see
            `rules.session_draws`.
        world_seed: Draws the sessions that numbers stand for. 0: those of the benchmark, which everybody can draw.
    """

    queries: int = Field(default=100, ge=1, le=10_000)
    tools: int = Field(default=24, ge=1, le=63)
    capabilities: int = Field(default=4, ge=1, le=6)
    providers: int = Field(default=6, ge=1, le=63)
    drift: float = Field(default=0.003, ge=0, le=1)
    price_drift: float = Field(default=0.01, ge=0, le=1)
    repeat: float = Field(default=0.3, ge=0, le=1)
    ttl_s: float = Field(default=300.0, gt=0, le=1e9, allow_inf_nan=False)
    outage_every_s: float = Field(default=400.0, gt=0, le=1e9, allow_inf_nan=False)
    outage_lasts_s: float = Field(default=20.0, gt=0, le=1e9, allow_inf_nan=False)
    budget_share: float = Field(default=0.4, gt=0, le=100, allow_inf_nan=False)
    success_share: float = Field(default=0.5, gt=0, le=1)
    failures: FailureModel = FAILURES
    scenario: Scenario | None = Field(default=None, exclude_if=is_none)
    world: WorldVersion = Field(default=0, exclude_if=is_zero)
    world_seed: int = Field(default=0, ge=0, lt=2**63, exclude_if=is_zero)

    @model_validator(mode="after")
    def _together(self) -> "SessionRules":
        if self.tools < self.capabilities:
            raise ValueError(f"tools: expected at least one for each of {self.capabilities} capabilities, got {self.tools}")
        if self.failures.bursts is not None or self.failures.persistence:
            raise ValueError("failures: expected neither bursts nor persistence; sessions have their own outages and regimes")
        return self

    @property
    def document(self) -> str:
        """The rules as JSON text, which caches are keyed by."""
        return self.model_dump_json()

    def generator(self, number: int, purpose: str) -> Generator:
        """The generator of what is drawn for a session."""
        return stable_generator(number, purpose, *((self.world_seed,) if self.world_seed else ()))

    def digest_under(self, schema: int) -> str:
        """Hash of everything that defines how sessions are drawn, under a schema of `digests`; of a folder of worlds, its
        content. Empty for a schema that this version does not know."""
        world = "" if self.scenario is None else self.scenario.digest_under(schema)
        rules = self.model_copy(update={"scenario": None})
        if schema == SCHEMA:
            return digest_of(["session", rules, world])
        return short_hash(json.dumps(["session", short_hash(rules.document + world)])) if schema == 0 else ""


@lru_cache(maxsize=64)
def rules_of(document: str) -> SessionRules:
    """The rules of a document."""
    return SessionRules.model_validate_json(document)
