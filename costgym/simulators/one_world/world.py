"""The prices of the one world: flat fees of APIs and pay-per-use of vision tools, in one currency and under one budget."""

from dataclasses import dataclass, fields, replace

from costgym.simulators.calls import Candidate
from costgym.simulators.errors import check_known
from costgym.simulators.opencatp.profile import v100
from costgym.simulators.opencatp.tools import SIGNATURES
from costgym.simulators.opencatp.world import whole_bytes
from costgym.simulators.pricing.prompt_cache import PER_DOLLAR
from costgym.simulators.tasks import Task
from costgym.simulators.world import World


@dataclass(frozen=True)
class OneWorld(World):
    """A world whose vision tools cost what OpenCATP's do, and run on a machine of the user's own, whose memory they share.

    Attributes:
        per_dollar: Units of the scenario's currency that are a USD, in which OpenCATP's prices are.
    """

    per_dollar: float = 1.0

    @property
    def bills_time(self) -> bool:
        return True

    def _candidate(self, task: Task, index: int, name: str, needs: tuple[int, ...]) -> Candidate:
        candidate = super()._candidate(task, index, name, needs)
        if name not in SIGNATURES:
            return replace(candidate, gpu_mb=0.0)  # an API runs on its provider's machine
        profile, level = v100(), task.size_level
        seconds, fee = profile.seconds(name, level), profile.pricing.per_run * self.per_dollar
        rate = (profile.price(name, level) * self.per_dollar - fee) / seconds
        return replace(
            candidate,
            fee=fee,
            quote=fee + rate * seconds,  # as rules work it out for a call of this duration, to the bit
            rate_per_s=rate,
            latency_s=seconds,
            gpu_mb=whole_bytes(profile.gpu_mb(level)[name]),
        )


def with_vision_prices(world: World, currency: str) -> OneWorld:
    """The same world with the prices of vision tools; raises UnknownName for a currency whose rate nobody states."""
    check_known("currency of a world with vision tools", currency, PER_DOLLAR)
    parts = {spec.name: getattr(world, spec.name) for spec in fields(world) if not spec.name.startswith("_")}
    return OneWorld(**parts, per_dollar=PER_DOLLAR[currency])
