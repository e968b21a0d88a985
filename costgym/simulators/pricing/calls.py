"""Price models of calls: pay per use (function-as-a-service), by duration and memory.

`FaasPricing` has the paper's tables, `ListPricing` what vendors list in 2026.
It takes floats or arrays of one shape, and returns the same. A flat fee per call is the `fee` of a tool's profile; what a
model's tokens cost stands in `prompt_cache`.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from costgym.simulators.errors import ConfigError, InvalidProfile
from costgym.simulators.pricing.prompt_cache import PrefixCache as PrefixCache

FloatArray = npt.NDArray[np.float64]
ArrayLike = FloatArray | npt.NDArray[np.int64] | list[float] | list[int]

TIER_MB = (128, 512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216, 10240)
# The paper prints 8.83e-8 for 5120 MB, a misprint: its own GPU row has 2.499e-7, three times 8.33e-8.
CPU_RATE = (
    2.1e-9, 8.3e-9, 1.67e-8, 2.5e-8, 3.33e-8, 5.0e-8, 6.67e-8, 8.33e-8, 1.0e-7, 1.167e-7, 1.333e-7, 1.5e-7, 1.667e-7
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FaasPricing:
    """Pay-per-use pricing after OpenCATP.

    A run costs ``per_run + ms × rate_per_ms(...)``. Constant memory is what the function is given for the whole run and
    picks the tier; instant memory is what the run added to it, a *difference* of two measurements, which may therefore be
    slightly negative and is taken as it comes.

    Attributes:
        per_run: Fee of one execution, USD.
        tier_mb: Upper edges of the memory tiers, MB, ascending. A size on an edge belongs to the tier below it; sizes
            above the last edge belong to the last tier.
        cpu_rate: One per tier. USD per MB and ms of constant CPU memory; with ``per_tier``, USD per ms of that tier.
        cpu_instant_rate: USD per MB and ms of instant CPU memory.
        gpu_factor: GPU memory costs this many times the CPU rates.
        per_tier: The tier's price already is the price of a function of that size (as AWS Lambda bills), so it is not
            multiplied by the memory again. A function without GPU memory then pays no GPU tier.

    Source: CATP-LLM, Eq. B.1 and Table B.2 (the 5120 MB tier as in its GPU row).

    >>> FaasPricing.opencatp().price(100.0, 1024.0)
    0.00171028
    """

    per_run: float = 2e-7
    tier_mb: tuple[float, ...] = TIER_MB
    cpu_rate: tuple[float, ...] = CPU_RATE
    cpu_instant_rate: float = 3.02e-14
    gpu_factor: float = 3.0
    per_tier: bool = False

    def __post_init__(self) -> None:
        if not self.tier_mb or len(self.tier_mb) != len(self.cpu_rate):
            raise ConfigError(
                "FaasPricing", f"{len(self.tier_mb)} tier_mb and {len(self.cpu_rate)} cpu_rate; give one rate per tier"
            )
        if any(low >= high for low, high in zip(self.tier_mb, self.tier_mb[1:], strict=False)):
            raise ConfigError("FaasPricing.tier_mb", f"expected ascending edges, got {list(self.tier_mb)}")
        for name in ("per_run", "cpu_instant_rate", "gpu_factor"):
            _check_price(f"FaasPricing.{name}", getattr(self, name))
        for edge, rate in zip(self.tier_mb, self.cpu_rate, strict=True):
            _check_price(f"FaasPricing.cpu_rate of the {edge} MB tier", rate)

    @classmethod
    def opencatp(cls) -> "FaasPricing":
        """The prices of OpenCATP: the tier's price is multiplied by the memory, as the paper and its code do."""
        return cls()

    @classmethod
    def aws(cls) -> "FaasPricing":
        """The same tiers billed as AWS Lambda does: a tier's price is that of one ms of a function of that size."""
        return cls(per_tier=True)

    def rate_per_ms(
        self, cpu_cons_mb: float, cpu_inst_mb: float = 0.0, gpu_cons_mb: float = 0.0, gpu_inst_mb: float = 0.0
    ) -> float:
        """Price of one ms of a run with these memory sizes (MB), USD. It is worth keeping: only the duration differs by call.

        Raises:
            InvalidProfile: A constant memory is negative, or any memory is infinite or not a number.
        """
        _check_memory(cpu_cons_mb, cpu_inst_mb, gpu_cons_mb, gpu_inst_mb)
        top = len(self.tier_mb) - 1
        # a size on an edge belongs to the tier below it
        cpu = self.cpu_rate[min(bisect_left(self.tier_mb, cpu_cons_mb), top)]
        gpu = self.cpu_rate[min(bisect_left(self.tier_mb, gpu_cons_mb), top)] * self.gpu_factor
        if self.per_tier:
            constant = (cpu if cpu_cons_mb > 0 else 0.0) + (gpu if gpu_cons_mb > 0 else 0.0)
        else:
            constant = cpu_cons_mb * cpu + gpu_cons_mb * gpu
        gpu_instant_rate = self.cpu_instant_rate * self.gpu_factor
        return float(constant + cpu_inst_mb * self.cpu_instant_rate + gpu_inst_mb * gpu_instant_rate)

    @overload
    def price(  # type: ignore[overload-overlap]
        self,
        exec_time_ms: float,
        cpu_cons_mb: float,
        cpu_inst_mb: float = 0.0,
        gpu_cons_mb: float = 0.0,
        gpu_inst_mb: float = 0.0,
    ) -> float: ...
    @overload
    def price(
        self,
        exec_time_ms: float | ArrayLike,
        cpu_cons_mb: float | ArrayLike,
        cpu_inst_mb: float | ArrayLike = 0.0,
        gpu_cons_mb: float | ArrayLike = 0.0,
        gpu_inst_mb: float | ArrayLike = 0.0,
    ) -> FloatArray: ...
    def price(
        self, exec_time_ms: Any, cpu_cons_mb: Any, cpu_inst_mb: Any = 0.0, gpu_cons_mb: Any = 0.0, gpu_inst_mb: Any = 0.0
    ) -> float | FloatArray:
        """Price of one run, USD, or of many at once (arrays broadcast against each other).

        Args:
            exec_time_ms: Duration, ms.
            cpu_cons_mb, gpu_cons_mb: Constant memory, MB.
            cpu_inst_mb, gpu_inst_mb: Instant memory, MB.

        Raises:
            InvalidProfile: A time or a constant memory is negative, or anything is infinite or not a number.
        """
        args = (exec_time_ms, cpu_cons_mb, cpu_inst_mb, gpu_cons_mb, gpu_inst_mb)
        if any(isinstance(arg, np.ndarray | list | tuple) for arg in args):
            return _elementwise(self.price, args)
        if not 0.0 <= exec_time_ms < math.inf:
            raise _invalid("execution time", "ms, zero or more", exec_time_ms)
        return float(self.per_run + exec_time_ms * self.rate_per_ms(cpu_cons_mb, cpu_inst_mb, gpu_cons_mb, gpu_inst_mb))


MB_OF_GB = 1024.0


@dataclass(frozen=True, slots=True)
class ListPricing:
    """Pay-per-use pricing by a vendor's list: memory by GB and second, processors and GPUs by the second.

    A run costs ``per_run + duration × rate_per_ms(...)``. Its memory is the constant and the instant memory together. A tool
    that needs GPU memory has one GPU, the cheapest that holds it.

    Attributes:
        source: The list, and the day on which it was read.
        per_run: Fee of one execution, USD.
        per_gb_s: USD for a GB (1,024 MB) of memory and a second.
        per_s: USD for a second of the processors of a run.
        gpus: Memory of each GPU on the list, MB, and USD for a second of it, ascending; none where the vendor has no GPUs.
        minimum_mb: Memory that is billed at least.
        step_ms: Durations are billed in whole steps of so many ms. The world bills them as they are.
        bill_cold_start: Initialisation is billed as execution is.

    >>> ListPricing.aws_lambda().price(100.0, 1024.0)
    1.86667e-06
    """

    source: str
    per_run: float
    per_gb_s: float
    per_s: float = 0.0
    gpus: tuple[tuple[float, float], ...] = ()
    minimum_mb: float = 0.0
    step_ms: float = 0.0
    bill_cold_start: bool = True

    def __post_init__(self) -> None:
        for name in ("per_run", "per_gb_s", "per_s", "minimum_mb", "step_ms"):
            _check_price(f"ListPricing.{name}", getattr(self, name))
        for memory_mb, price in self.gpus:
            _check_price(f"ListPricing.gpus of {memory_mb} MB", price)
        if any(low >= high for low, high in pairwise(self.gpus)):
            raise ConfigError("ListPricing.gpus", f"expected ascending memory, got {list(self.gpus)}")

    @classmethod
    def aws_lambda(cls) -> "ListPricing":
        """AWS Lambda on x86 in US East (N. Virginia): 0.20 USD per million requests, from 128 MB, in whole ms, initialisation
        billed since August 2025, as read on 20 September 2026. The 0.0000166667 USD per GB-second are from a post of 2026 that
        bears no day (notes of 11 May 2026 have the same), not from AWS's own page. It has no GPUs.
        """
        source = "https://aws.amazon.com/lambda/pricing/, 2026-09-20"
        return cls(source, per_run=2e-7, per_gb_s=1.66667e-5, minimum_mb=128.0, step_ms=1.0)

    @classmethod
    def modal(cls) -> "ListPricing":
        """Modal, read on 24 September 2026: 0.0000131 USD for a second of a physical core (a run has one), 0.00000222 USD per
        GiB-second, and a GPU by the second: T4, L4, A100 of 40 and 80 GB, H200. Containers are billed from their start.
        """
        gpus = ((16, 0.000164), (24, 0.000222), (40, 0.000583), (80, 0.000694), (141, 0.001261))
        return cls(
            "https://modal.com/pricing, 2026-09-24",
            per_run=0.0,
            per_gb_s=2.22e-6,
            per_s=1.31e-5,
            gpus=tuple((MB_OF_GB * memory_gb, price) for memory_gb, price in gpus),
        )

    def rate_per_ms(
        self, cpu_cons_mb: float, cpu_inst_mb: float = 0.0, gpu_cons_mb: float = 0.0, gpu_inst_mb: float = 0.0
    ) -> float:
        """Price of one ms of a run with these memory sizes (MB), USD.

        Raises:
            InvalidProfile: A memory is impossible, or no GPU of the list has so much.
        """
        _check_memory(cpu_cons_mb, cpu_inst_mb, gpu_cons_mb, gpu_inst_mb)
        memory_mb = max(self.minimum_mb, cpu_cons_mb + cpu_inst_mb, 0.0)
        return (self.per_gb_s * memory_mb / MB_OF_GB + self.per_s + self._gpu_per_s(gpu_cons_mb + gpu_inst_mb)) / 1000.0

    def _gpu_per_s(self, memory_mb: float) -> float:
        if memory_mb <= 0.0:
            return 0.0
        for holds_mb, price in self.gpus:
            if memory_mb <= holds_mb:
                return price
        largest = f"at most {self.gpus[-1][0]:g} MB on one GPU" if self.gpus else "none, since it has no GPUs"
        raise _invalid(f"GPU memory on {self.source}", largest, f"{memory_mb:g} MB")

    def price(
        self,
        exec_time_ms: float,
        cpu_cons_mb: float,
        cpu_inst_mb: float = 0.0,
        gpu_cons_mb: float = 0.0,
        gpu_inst_mb: float = 0.0,
    ) -> float:
        """Price of one run of this duration, USD; arguments and errors are those of `FaasPricing.price`."""
        if not 0.0 <= exec_time_ms < math.inf:
            raise _invalid("execution time", "ms, zero or more", exec_time_ms)
        billed_ms = self.step_ms * math.ceil(exec_time_ms / self.step_ms) if self.step_ms else exec_time_ms
        return float(self.per_run + billed_ms * self.rate_per_ms(cpu_cons_mb, cpu_inst_mb, gpu_cons_mb, gpu_inst_mb))


Pricing = FaasPricing | ListPricing
PRICINGS: dict[str, Callable[[], Pricing]] = {
    "faas": FaasPricing.opencatp,
    "faas-aws": FaasPricing.aws,
    "aws-lambda-2026": ListPricing.aws_lambda,
    "modal-2026": ListPricing.modal,
}
"""Pay-per-use pricing of scenarios by name."""


def _elementwise(price: Callable[..., float], args: Iterable[Any]) -> FloatArray:
    """Prices of arrays that broadcast against each other, one by one: the same bits as those of single numbers."""
    return np.asarray(np.vectorize(price, otypes=[np.float64])(*args))


def _invalid(what: str, expected: str, value: object) -> InvalidProfile:
    return InvalidProfile(f"{what}: expected {expected}, got {value}; correct the tool's profile or the measurement")


def _check_memory(cpu_cons_mb: float, cpu_inst_mb: float, gpu_cons_mb: float, gpu_inst_mb: float) -> None:
    if not (0.0 <= cpu_cons_mb < math.inf and 0.0 <= gpu_cons_mb < math.inf):
        raise _invalid("constant memory", "MB, zero or more", (cpu_cons_mb, gpu_cons_mb))
    if not (math.isfinite(cpu_inst_mb) and math.isfinite(gpu_inst_mb)):
        raise _invalid("instant memory", "MB, a finite number", (cpu_inst_mb, gpu_inst_mb))


def _check_price(name: str, value: float) -> None:
    if not (isinstance(value, int | float) and 0.0 <= value < math.inf):
        raise ConfigError(name, f"expected a price of zero or more, got {value!r}")
