"""The tools of a generated marketplace: their providers, prices, latencies and reliabilities.

Every figure of a tool follows from the seed and the tool's name alone, so adding tools changes none of the others.
"""

import math
from collections.abc import Sequence
from typing import Any

from costgym.simulators.draws import stable_generator, stable_integer, stable_uniforms
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import FailureModel, draw_latency_s, draw_reliability
from costgym.simulators.marketplace.english import capability_titled
from costgym.simulators.marketplace.entities import words
from costgym.simulators.marketplace.vocabulary import Capability, Category, vocabulary
from costgym.simulators.tools import Tool, ToolProfile

PROVIDERS_PER_CAPABILITY = 4
_GPU_CATEGORIES = frozenset({"Artificial_Intelligence", "Images"})
SIZE_FACTORS = (0.8, 1.0, 1.3, 1.8)
LOWEST_FEE, HIGHEST_FEE = 1, 10
"""Flat prices of calls are whole numbers between these, as in BTP."""
COLD_SHARE, SLOTS_SHARE = 0.3, 0.25
"""Share of the tools whose new instances take time to load, and of those that run at most 1 to 4 calls at once."""
MEMORY_MB = (64.0, 128.0, 128.0, 256.0, 256.0, 512.0, 1024.0)
TIMEOUT_S = 30.0  # duration at which a call ends as a timeout, seconds
SPREADS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
"""Spreads of a call's duration around its tool's median. There are few, because each needs a table of quantiles."""
_VERBS = ("get", "fetch", "lookup", "query", "")
_MANNERS = (
    "Answers with one JSON record.",
    "Data is refreshed several times a day; the record carries a time stamp where we have one.",
    "Suitable for dashboards and mobile apps. Please cache what you can.",
    "Part of our public collection, documented on the provider's page; all text is UTF-8.",
    "Free tier available. Optional arguments only change how the record is presented.",
    "Built for developers who need dependable figures without a long integration.",
)
_OPTIONALS: tuple[dict[str, Any], ...] = (
    {},
    {"lang": {"type": "string", "description": "Language of the labels.", "enum": ["en", "de", "fr", "es"], "default": "en"}},
    {"verbose": {"type": "boolean", "description": "Whether labels are written out.", "default": False}},
    {"limit": {"type": "integer", "description": "Most records to return.", "minimum": 1, "maximum": 50, "default": 1}},
    {"source": {"type": "string", "description": "Preferred origin of the data, if any.", "default": "any"}},
)


def build_tools(
    seed: int,
    categories: Sequence[Category],
    tools: int,
    providers: int,
    failures: FailureModel,
    misnamed: float = 0.0,
) -> list[Tool]:
    """Make the tools, category by category; raises ConfigError where providers or capabilities do not suffice.

    Of a share `misnamed` the name promises another capability of the category, and the documentation is right.
    """
    built: list[Tool] = []
    names: set[str] = set()
    for position, category in enumerate(categories):
        here = _share(tools, len(categories), position)
        companies = _provider_names(seed, category, _share(providers, len(categories), position))
        offers = _offers(seed, category, companies, here)
        for capability, company in offers:
            wrong = stable_integer(seed, "misnamed", company, capability.name) / 2**64 < misnamed
            promised = _promised(seed, capability, company, offers) if wrong else capability.name
            tool = _tool(seed, capability, company, failures, names, promised)
            names.add(tool.name)
            built.append(tool)
    return built


def _share(total: int, parts: int, position: int) -> int:
    return total // parts + (position < total % parts)


def _provider_names(seed: int, category: Category, count: int) -> list[str]:
    lists = words()
    prefixes, suffixes = lists["provider_prefixes"], lists["provider_suffixes"]
    order = stable_generator(seed, "providers", category.name).permutation(len(prefixes))
    names = []
    for index in range(count):
        lap, position = divmod(index, len(prefixes))
        prefix = prefixes[int(order[position])]
        luck = stable_integer(seed, "provider", category.name, index)
        suffix = suffixes[luck % len(suffixes)]
        word = category.words[luck // 16 % len(category.words)]
        names.append(f"{prefix} {word} {suffix}" + (f" {lap + 1}" if lap else ""))
    return names


def _offers(seed: int, category: Category, companies: Sequence[str], count: int) -> list[tuple[Capability, str]]:
    """Assign capabilities to providers in rounds: about four providers offer each, and every provider offers something."""
    # in rounds, and not at random: every capability then has rivals, without which there is nothing to choose from
    order = stable_generator(seed, "capabilities", category.name).permutation(len(category.capabilities)).tolist()
    needed = -(-count // max(1, len(companies)))
    if needed > len(order):
        raise ConfigError(
            "marketplace",
            f"{count} tools of category {category.name} need {-(-count // len(order))} providers, got {len(companies)}; "
            "ask for more providers or fewer tools",
        )
    used = [category.capabilities[i] for i in order[: max(needed, round(count / PROVIDERS_PER_CAPABILITY), 1)]]
    rounds = (
        (capability, companies[(position + lap) % len(companies)])
        for lap in range(len(companies))
        for position, capability in enumerate(used)
    )
    return [offer for offer, _ in zip(rounds, range(count), strict=False)]


def _promised(seed: int, capability: Capability, company: str, offers: Sequence[tuple[Capability, str]]) -> str:
    """A capability that others of the category offer and this provider does not; its own where there is none."""
    names = {other.name for other, provider in offers if provider == company}
    others = sorted({other.name for other, _ in offers} - names)
    return others[stable_integer(seed, "promised", company, capability.name) % len(others)] if others else capability.name


def false_promise(tool: Tool) -> str:
    """The capability that the name of a generated tool promises and its documentation denies; "" where the name is right."""
    if tool.origin:  # as version 1 shows it
        promised = capability_titled(tool.title)
        return promised if promised != tool.capability else ""
    verb, _, rest = tool.title.partition("_")
    promised = rest if verb in _VERBS else tool.title
    known = vocabulary(links=True).capabilities
    return promised if promised != tool.capability and tool.capability in known and promised in known else ""


def _tool(seed: int, capability: Capability, company: str, failures: FailureModel, taken: set[str], promised: str) -> Tool:
    luck = stable_integer(seed, "api", company, capability.name)
    luck, verb = divmod(luck, len(_VERBS))
    luck, manner = divmod(luck, len(_MANNERS))
    optional = _OPTIONALS[luck % len(_OPTIONALS)]
    title = "_".join(filter(None, (_VERBS[verb], promised)))
    name = full = f"{title}_for_{company.lower().replace(' ', '_')}"[-64:]
    lap = 1
    while name in taken:
        lap += 1
        name = f"{full[:60]}_{lap}"
    blanks = {kind.name: f"a given {kind.noun or kind.name}" for kind in capability.parameters}
    wish = capability.wish.format(**blanks)
    properties = {kind.name: kind.schema() for kind in capability.parameters} | optional
    return Tool(
        name=name,
        description=f"Returns {wish}. {_MANNERS[manner]}",
        category=capability.category,
        provider=company,
        title=title,
        parameters={
            "type": "object",
            "properties": properties,
            "required": [kind.name for kind in capability.parameters],
            "additionalProperties": False,
        },
        profile=draw_profile(seed, name, failures, gpu=capability.category in _GPU_CATEGORIES),
        capability=capability.name,
    )


def stable_fee(name: str) -> int:
    """A tool's flat price: a whole number from a stable hash of its name."""
    return LOWEST_FEE + stable_integer(0, "fee", name) % (HIGHEST_FEE - LOWEST_FEE + 1)


def draw_profile(
    seed: int,
    name: str,
    failures: FailureModel,
    *,
    gpu: bool = False,
    latency_s: float | None = None,
    success: float | None = None,
    popularity: float | None = None,
) -> ToolProfile:
    """Draw a tool's profile from the seed and its name alone.

    `latency_s`, `success` and `popularity` (0 to 10) are the tool's telemetry, where a data set has it.
    """
    # all uniforms at once and by place: a figure keeps its value when another one is no longer drawn
    u = stable_uniforms(15, 0, seed, "profile", name)
    fee = stable_fee(name)
    advert = draw_reliability(failures, seed, name, success)
    spread = SPREADS[int(u[1] * len(SPREADS))]
    # telemetry has averages; the average of a lognormal lies above its median
    median_s = draw_latency_s(seed, name) if latency_s is None else latency_s / math.exp(spread**2 / 2)
    if latency_s is None:
        # dearer ones tend to be a little faster and more dependable: some of them get the better of two draws, as many cheap
        # ones the worse, which leaves the mean where it is
        dear = (fee - LOWEST_FEE) / (HIGHEST_FEE - LOWEST_FEE) - 0.5
        median_s *= 1.5**-dear
        if u[14] < abs(dear):
            second = draw_reliability(failures, seed, f"{name}, again", success)
            advert = (max if dear > 0 else min)(advert, second, key=lambda a: a.reliability)
    cold = u[0] < COLD_SHARE
    return ToolProfile(
        fee=float(fee),
        latency_s=tuple(round(median_s * factor, 4) for factor in SIZE_FACTORS),
        latency_spread=spread,
        cpu_cons_mb=MEMORY_MB[int(u[2] * len(MEMORY_MB))],
        cpu_inst_mb=round(16 + 240 * u[3] ** 2, 1),
        gpu_cons_mb=round(512 + 3584 * u[4], 1) if gpu else 0.0,
        gpu_inst_mb=round(64 + 960 * u[5], 1) if gpu else 0.0,
        cold_start_s=round(0.3 + 3.7 * u[6] ** 2, 3) if cold else 0.0,
        keep_alive_s=round(30 + 570 * u[7], 1),
        concurrency=1 + int(u[9] * 4) if u[8] < SLOTS_SHARE else 0,
        rate_limit=3 + int(u[11] * 8) if u[10] < failures.rate_limited_share else 0,
        window_s=60.0,
        quota=2 + int(u[13] * 5) if u[12] < failures.quota_share else 0,
        timeout_s=TIMEOUT_S,
        reliability=advert.reliability,
        advertised_success=round(advert.success, 3),
        advertised_latency_s=round(median_s * (0.85 + 0.3 * u[4]), 3) if latency_s is None else round(latency_s, 3),
        popularity=advert.popularity if popularity is None else popularity,
    )
