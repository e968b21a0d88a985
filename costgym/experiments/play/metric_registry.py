"""The registry of metrics: the key, display name, unit, number format and meaning of every figure of a leaderboard's row.

Terminal, pages, `leaderboard.json` and the documentation take their words from here.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = Mapping[str, Any]
CURRENCY = "currency"  # the unit of a price; shown as the scenario's currency
SYMBOLS = {"credits": "¢", "USD": "$"}  # a credit is a cent: price tables count 100 of them `per_dollar`


class Group(NamedTuple):
    """The episodes that make up one row: of one agent and model in one environment under one budget and the same settings."""

    env: str
    agent: str
    model: str | None
    budget: tuple[tuple[str, float], ...]
    settings: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a row."""

    key: str  # its name in `leaderboard.json`
    name: str
    unit: str  # `%`, `s`, `CURRENCY`, or "" for a plain number
    kind: str  # `rate` (in percent), `number` (two decimals, or three digits below 1), `signed` (three decimals) or `count`
    meaning: str
    judge: str = ""  # the key of the same figure under the grading `judge`; "" where the grading does not matter
    higher_is_better: bool = False
    compares: bool = False  # the best value may be set in bold: an agent that achieves nothing does not win here

    def heading(self, currency: str = "") -> str:
        """The display name with the unit, such as ``Success %`` or ``Cost, ¢``."""
        unit = unit_of(currency) if self.unit == CURRENCY else self.unit
        return self.name if not unit else f"{self.name} %" if unit == "%" else f"{self.name}, {unit}"

    def key_under(self, grading: str) -> str:
        """The key of the figure under a grading."""
        return self.judge if grading == "judge" and self.judge else self.key

    def document(self, currency: str = "") -> dict[str, str]:
        """Name, unit and meaning, as `leaderboard.json` states them."""
        return {"name": self.name, "unit": currency if self.unit == CURRENCY else self.unit, "meaning": self.meaning}


_ALL = (
    Metric(
        "pass_rate_under_budget", "Success", "%", "rate",
        "Share of episodes whose answer passes and that keep within every limit of the budget; agents are ranked by it.",
        "judged_pass_rate_under_budget", True, True,
    ),
    Metric(
        "pass_hat_k", "Success every time", "%", "rate",
        "Share of tasks that pass within the budget under every one of their seeds (pass^k).",
        "judged_pass_hat_k", True, True,
    ),
    Metric(
        "cost_per_success", "Cost per success", CURRENCY, "number",
        "Price of all episodes, failed ones included, divided by the number that pass within the budget.",
        "judged_cost_per_success", False, True,
    ),
    Metric(
        "fault_robustness", "Fault robustness", "%", "rate",
        "Success rate with these faults divided by that without any, of the same agent on the same tasks with the same luck.",
        "judged_fault_robustness", True,
    ),
    Metric(
        "pass_rate", "Success at any cost", "%", "rate",
        "Share of episodes whose answer passes, even over the budget; a plan passes with a task score of at least 0.5.",
        "judged_pass_rate", True, True,
    ),
    Metric("budget_failure_rate", "Over budget", "%", "rate", "Share of episodes that overspend a limit of the budget."),
    Metric("average_cost", "Cost", CURRENCY, "number", "Mean price of an episode, tools and tokens together."),
    Metric("tool_cost", "Tool cost", CURRENCY, "number", "Mean fees of the tools in an episode."),
    Metric("token_cost", "Token cost", CURRENCY, "number", "Mean price of the language model's tokens in an episode."),
    Metric(
        "quality_of_plan", "Plan score", "", "signed",
        "Mean of α × task score − (1 − α) × price / highest price; 1 is a perfect answer at no cost.",
        higher_is_better=True, compares=True,
    ),
    Metric("score", "Task score", "", "signed", "Mean score of the outputs, 0 to 1, whatever the cost.", higher_is_better=True),
    Metric(
        "value_share", "Value", "%", "rate",
        "Value of the queries that a session answers rightly, as a share of the value of all its queries.",
        higher_is_better=True, compares=True,
    ),
    Metric("regret", "Regret", "", "signed", "Mean plan score of the best possible episode less the agent's own."),
    Metric("average_seconds", "Time", "s", "number", "Mean simulated time of an episode."),
    Metric(
        "average_seconds_one_by_one", "Sequential time", "s", "number",
        "Mean simulated time of the same tools run one after another.",
    ),
    Metric("average_tokens", "Tokens", "", "count", "Mean number of language-model tokens in an episode."),
    Metric("average_requests", "Requests", "", "count", "Mean number of requests to the language model in an episode."),
    Metric("average_input_tokens", "Input tokens", "", "count", "Mean number of tokens in the prompts of an episode."),
    Metric("cached_share", "Cached", "%", "rate", "Share of all prompt tokens that were read from the cache of prompts."),
    Metric(
        "cost_without_cache", "Cost without cache", CURRENCY, "number",
        "Mean price of the same episodes, tools and tokens together, if no prompt were cached.",
    ),
    Metric("average_cached_tokens", "Cached tokens", "", "count", "Input tokens that were read from the prompt cache."),
    Metric("average_cache_write_tokens", "Tokens written to cache", "", "count", "Input tokens that were written to it."),
    Metric("average_output_tokens", "Output tokens", "", "count", "Mean number of tokens in the replies of an episode."),
    Metric("average_reasoning_tokens", "Reasoning tokens", "", "count", "Output tokens that were thoughts."),
    Metric("plan_validity", "Valid plans", "%", "rate", "Share of answers that are valid plans.", higher_is_better=True),
    Metric(
        "tool_error_rate", "Tool errors", "%", "rate",
        "Share of attempted calls that failed through the tool's fault, not the agent's.",
    ),
    Metric("agent_error_rate", "Agent errors", "%", "rate", "Share of attempted calls that failed through the agent's fault."),
    Metric(
        "infrastructure_error_rate", "Infrastructure errors", "%", "rate",
        "Share of attempted calls that failed because real infrastructure broke.",
    ),
    Metric(
        "state_correct", "Right final state", "%", "rate",
        "Share of episodes that end with every wanted effect there once and no other.", higher_is_better=True,
    ),
    Metric(
        "duplicates", "Double executions", "", "number",
        "Effects per episode that were made although the same was there already, taken back or not.",
    ),
    Metric(
        "uncompensated", "Not taken back", "", "number",
        "Effects per episode that are there at the end and that nobody wants: second ones of the same, and wrong ones.",
    ),
    Metric(
        "money_lost", "Money lost", CURRENCY, "number",
        "What the effects of an episode that nobody wants are worth at the end.",
    ),
    Metric(
        "unsupported_answers", "Unsupported answers", "%", "rate",
        "Share of episodes whose answer states a value that neither the query nor any observation holds.",
    ),
    Metric(
        "model_judge_pass_rate", "Success, model judge", "%", "rate",
        "Share of episodes whose answer the language model of --judge passes, even over the budget; no rank depends on it.",
        higher_is_better=True,
    ),
    Metric(
        "unparsable_verdicts", "Unparsable verdicts", "%", "rate",
        "Share of episodes on which the judge's reply states no verdict, which counts as no pass.",
    ),
    Metric(
        "void_verdicts", "Void verdicts", "%", "rate",
        "Share of episodes on which the judge's infrastructure failed; they are left out of its pass rate.",
    ),
    Metric(
        "budget_area", "Area over budgets", "%", "rate",
        "Area under the success rate over the logarithm of the budget.", "judged_budget_area", True,
    ),
    Metric("void_episodes", "Void", "", "count", "Episodes that a broken back-end made void; in a handed-in row they failed."),
    Metric("retried", "Tried again", "", "count", "Episodes that were played again because a back-end failed."),
    Metric("crashed_episodes", "Crashed", "", "count", "Episodes that an exception of the agent's own code ended as failures."),
    Metric("filtered", "Filtered", "", "count", "Episodes in which a content filter took out a reply of the model."),
    Metric("refused", "Refused", "", "count", "Episodes in which the model refused to reply."),
    Metric("truncated", "Truncated", "", "count", "Episodes in which a reply was cut off at the longest that it may be."),
    Metric(
        "malformed", "Malformed", "", "count",
        "Episodes in which a reply held neither a text nor a call that can be read.",
    ),
    Metric(
        "unread_calls", "Unread calls", "", "count",
        "Episodes in which a reply held a call that was not read: set calls=auto in the model's name, or the server's parser.",
    ),
    Metric(
        "unknown_functions", "Unknown functions", "", "count",
        "Episodes in which the model called a function that was not on offer.",
    ),
    Metric(
        "estimated_tokens", "Estimated tokens", "", "count",
        "Episodes in which the server did not report a reply's tokens, so that they are estimated from its text.",
    ),
    Metric(
        "provider_errors", "Provider errors", "", "count",
        "Episodes in which the server failed inside of an answer and was asked again.",
    ),
)  # fmt: skip
REGISTRY = {metric.key: metric for metric in _ALL}  # every metric by its key


def figure(row: Row, key: str) -> float | None:
    """A figure of a row, or None where it has none. Of a list (`pass_hat_k`) it is the last."""
    value = row.get(key)
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def interval(row: Row, key: str) -> tuple[float, float] | None:
    """The 95 % interval of a figure, or None where it has none."""
    ends = (row.get("ci95") or {}).get(key)
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None
    low, high = (figure({"end": end}, "end") for end in ends)
    return None if low is None or high is None else (low, high)


def written(value: float | None, kind: str) -> str:
    """A figure in its number format (`Metric.kind`), without a unit; a dash where there is none."""
    if value is None:
        return "–"
    if kind == "rate":
        text = f"{100 * value:.1f}"
    elif kind == "signed":
        text = f"{value:.3f}"
    elif kind == "count" or abs(value) >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3f}" if abs(value) >= 0.1 else f"{value:.3g}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]
    return text.replace("-", "−", 1) if text.startswith("-") else text


def unit_of(currency: str) -> str:
    """The symbol of a currency, or its name."""
    return SYMBOLS.get(currency, currency)


def with_unit(text: str, unit: str) -> str:
    """A figure with its unit or currency: ``12 ¢``, ``$0.13``, ``95 %``, ``3 s``."""
    symbol = unit_of(unit)
    return f"{symbol}{text}" if symbol == "$" else f"{text} {symbol}".rstrip()


_DUST = 1e-9  # of sums of floats, where a figure is 0


def brief(value: float | None, kind: str = "number") -> str:
    """A figure in two significant digits, for sentences and pages; larger numbers, shares and counts are whole."""
    if value is None:
        return "–"
    number = 100 * value if kind == "rate" else value
    whole = abs(number) >= 10 or kind == "count" or (kind == "rate" and abs(number) >= 1)
    size = f"{math.floor(abs(number) + 0.5):,}" if whole else f"{abs(number):#.2g}".rstrip(".")  # halves go up, as in tables
    size = size if abs(number) > _DUST else "0"
    return f"−{size}" if number < 0 and size != "0" else size


def signed(value: float) -> str:
    """A difference in two significant digits, with its sign."""
    text = brief(abs(value))
    return text if text == "0" else f"{'+' if value > 0 else '−'}{text}"


def span(low: str, high: str) -> str:
    """An interval as it is written beside its figure: ``(9–15)``, or ``(−3 to +53)`` where a dash would look like a sign."""
    return f"({low} to {high})" if {"−", "+"} & {*low, *high} else f"({low}–{high})"


def estimate(row: Row, key: str, kind: str, write: Callable[[float | None, str], str] = written) -> str:
    """A figure with its interval, as all texts write it: ``12 (9–15)``."""
    value, ends = write(figure(row, key), kind), interval(row, key)
    return value if ends is None else f"{value} {span(write(ends[0], kind), write(ends[1], kind))}"


def cell(row: Row, key: str, kind: str, write: Callable[[float | None, str], str] = written) -> dict[str, Any]:
    """A figure as it is written, and its interval; "" for one without."""
    value, _, ends = estimate(row, key, kind, write).partition(" ")
    return {"value": value, "span": ends}


def plain(text: object) -> str:
    """Replace control characters in a name, so that it cannot move a terminal's cursor or break a line."""
    return "".join(c if c.isprintable() else "�" for c in str(text))
