"""Price the model calls of logs: at other prices, or with the cache as another vendor's rules would have it.

Two modes are exact for what they assume. *Repriced* takes the tokens by class as the log has them. *Rescheduled* takes the same
requests at the same times, and counts again which part of each prompt is read from the cache.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costgym.experiments.play.call_logs.model_calls import ModelCall, read_model_calls
from costgym.experiments.play.costs.bills import CLASSES
from costgym.experiments.play.costs.price_list import AS_LISTED, PriceList
from costgym.simulators.calls import Segment, Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.pricing.prompt_cache import ModelPrices, PrefixCache

REPRICED, RESCHEDULED = "repriced", "rescheduled"
MODES = (REPRICED, RESCHEDULED)


def trace_costs(
    paths: Sequence[Path],
    models: Sequence[str] = (),
    mode: str = REPRICED,
    tasks_per_month: int = 10_000,
    price_list: PriceList = AS_LISTED,
    where: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Sum up what the model calls of logs cost, in US dollars; a task is a trace.

    Args:
        models: of the price table, each instead of the models that the log names; none for those.
        mode: "repriced" or "rescheduled".
        price_list: a request whose service tier it does not choose is billed in that of the log.
        where: as for `read_log`.

    Returns:
        A row for each log and model; `records` says what was left out of the log.

    Raises:
        ConfigError: the mode is unknown, a log without times is to be rescheduled, a time to live is chosen where nothing is
            counted again, or the table has no price of something that a log is billed for.
        DataError: a log has no tokens of a model.
    """
    if mode not in MODES:
        raise ConfigError("--mode", f"expected {' or '.join(MODES)}, got {mode!r:.40}")
    if mode == REPRICED and price_list.cache_ttl is not None:
        raise ConfigError("--cache-ttl", f"tokens that are repriced were cached as the log says; add --mode {RESCHEDULED}")
    rows = []
    for path in paths:
        calls, records = read_model_calls(path, where)
        for model in models or (None,):
            price_of = prices_of_calls(calls, model, price_list)
            for call in calls:
                _check_listed(path, call, model or call.model, price_of(call), mode)
            if mode == REPRICED:
                usages = [call.usage for call in calls]
                costs = [price_of(call).price(call.usage, call.written_1h_tokens, call.searches) for call in calls]
            else:
                usages = rescheduled(path, calls, price_of)
                costs = [price_of(call).price(usage, 0, call.searches) for call, usage in zip(calls, usages, strict=True)]
            names = sorted({call.model for call in calls}) if model is None else [model]
            row = {"agent": path.name, "model": ", ".join(names), "cache": "recorded" if mode == REPRICED else "prefix"}
            rows.append({**row, **_summary(calls, usages, costs, tasks_per_month), "records": records})
    return rows


def prices_of_calls(calls: Sequence[ModelCall], model: str | None, price_list: PriceList) -> Callable[[ModelCall], ModelPrices]:
    """The prices of each call's model, all looked up before anything is priced."""

    def key(call: ModelCall) -> tuple[str, str]:
        return model or call.model, call.service_tier

    prices = {billed: price_list.of(*billed) for billed in sorted({key(call) for call in calls})}
    return lambda call: prices[key(call)]


def _check_listed(path: Path, call: ModelCall, model: str, prices: ModelPrices, mode: str) -> None:
    """Raise ConfigError where the table has no price of something that the call is billed for."""
    if mode == REPRICED and call.written_1h_tokens and prices.cache_write is not None and prices.cache_write_1h is None:
        lacks = "prompts that are kept for an hour (`cache_write_1h`)"
    elif call.searches and prices.search_per_query is None:
        lacks = "searches (`search_per_query`)"
    else:
        return
    advice = "give a table that does, or price the log as another model with --models"
    raise ConfigError("--prices", f"{path} has {lacks}, for which the table has no price of {model}; {advice}")


def rescheduled(path: Path, calls: Sequence[ModelCall], price_of: Callable[[ModelCall], ModelPrices]) -> list[Usage]:
    """Count the classes of tokens again. A prompt that is at least as long as the one before it in its conversation is taken to
    begin with it: a log has no texts."""
    if any(call.at_s is None for call in calls):
        raise ConfigError("--mode", f"{path} has model calls without a time; only `repriced` needs none")
    caches: dict[tuple[str, str, str], PrefixCache] = {}
    prompts: dict[tuple[str, str, str], list[Segment]] = {}
    usages = []
    for number, call in enumerate(calls):
        key = call.trace, call.thread, call.model
        prompt = prompts.setdefault(key, [])
        appended = call.usage.input_tokens - sum(tokens for _, tokens in prompt)
        if appended < 0:
            prompt.clear()
            appended = call.usage.input_tokens
        prompt.append((str(number), appended))
        cache = caches.setdefault(key, PrefixCache(price_of(call)))
        usages.append(cache.bill(prompt, call.at_s or 0.0, call.usage.output_tokens))
    return usages


def _summary(
    calls: Sequence[ModelCall], usages: Sequence[Usage], costs: Sequence[float], tasks_per_month: int
) -> dict[str, Any]:
    by_trace: dict[str, float] = {}
    for call, cost in zip(calls, costs, strict=True):
        by_trace[call.trace] = by_trace.get(call.trace, 0.0) + cost
    tasks = np.array(list(by_trace.values()))
    classes = {name: sum(getattr(usage, name) for usage in usages) / len(tasks) for name in CLASSES}
    return {
        "tasks": len(tasks),
        "usd": float(tasks.sum()),
        "usd_per_task": float(tasks.mean()),
        "usd_p50": float(np.percentile(tasks, 50)),
        "usd_p95": float(np.percentile(tasks, 95)),
        "usd_per_success": None,
        "usd_per_month": float(tasks.mean() * tasks_per_month),
        "success": None,
        "cached_share": classes["cached_tokens"] / classes["input_tokens"] if classes["input_tokens"] else 0.0,
        "requests": len(calls) / len(tasks),
        **classes,
    }
