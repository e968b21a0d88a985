"""Which savings survive the cache of prompts: play, bill under three price rules, and draw.

    python benchmarks/caching.py run [--episodes 400] [--out benchmarks/results/caching.json]
    python benchmarks/caching.py more [--episodes 400]   # again the parts beside the tables: other rules, version 0
    python benchmarks/caching.py page [benchmarks/results/caching.json]   # the picture, and the page's tables on the terminal

Each figure is the change of an agent's cost from that of its strategy alone, over the same tasks under the same price rules.
"""

import argparse
import json
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import matplotlib.pyplot as plt

from costgym.agents.models.prices import PriceTable, load_prices, write_prices
from costgym.experiments.play.costs.forecast import forecast
from costgym.experiments.play.costs.price_list import PriceList
from costgym.simulators.pricing.prompt_cache import CacheRules
from costgym.simulators.scenario import load_scenario

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.picture import INK, STYLE, save

STRATEGIES, FORMS = ("react", "dfsdt", "plan-act"), ("", "+ecoact", "+ecoact-append", "+btp", "+btp-stable")
AGENTS = [f"{strategy}{form}" for strategy in STRATEGIES for form in FORMS] + ["react+prompt", "react+prompt-end"]
REACT = [agent for agent in AGENTS if agent.startswith("react")]
AUTOMATIC, EXPLICIT, BUDGET = "gpt-5.1", "claude-sonnet-5", {"price": 30.0}
RULES = {
    (AUTOMATIC, "none"): ("no cache", "#9aa5b1"),
    (AUTOMATIC, "prefix"): ("automatic cache (gpt-5.1)", "#3f7fbf"),
    (EXPLICIT, "prefix"): ("cache with paid writes (claude-sonnet-5)", "#c2592e"),
}
RESULTS, PICTURE = Path("benchmarks/results/caching.json"), Path("docs/caching.svg")


def bills(
    agents: list[str], models: list[str], episodes: int, candidates: Any = 16, prices: Path | None = None, world: int = 1
) -> list[Any]:
    scenario = load_scenario("marketplace")
    source = scenario.source.model_copy(update={"candidates": candidates, "world": world})
    scenario = scenario.model_copy(update={"source": source})
    arguments = {"scenario": scenario, "budget": BUDGET, "split": "test"}
    return forecast(agents, models, lambda env_id: dict(arguments), episodes=episodes, price_list=PriceList(prices=prices))


def under_rules(model: str, rules: CacheRules, episodes: int) -> list[Any]:
    """Bills of the forms of `react` at a model's prices, with other rules of its cache."""
    table = load_prices("costgym/agents/models/prices/prices_2026_11.yaml")
    prices = table.models[model].model_copy(update={"cache": rules})
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(write_prices(PriceTable(date=table.date, models={model: prices}), "benchmarks/caching.py"))
        file.flush()
        return bills(REACT, [model], episodes, prices=Path(file.name))


def more(episodes: int) -> dict[str, list[Any]]:
    """Bills of the forms of `react` with prefixes of any length, four and two marks a request, and in version 0."""
    return {
        "any_length": under_rules(AUTOMATIC, CacheRules(minimum_tokens=1), episodes),
        "marks": under_rules(EXPLICIT, CacheRules(breakpoints=4), episodes),
        "two_marks": under_rules(EXPLICIT, CacheRules(breakpoints=2), episodes),
        "version_0": bills(REACT, [AUTOMATIC], episodes, world=0),
    }


def add_more(episodes: int, out: Path) -> None:
    document = json.loads(out.read_text(encoding="utf-8")) | more(episodes)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def run(episodes: int, out: Path) -> None:
    """Bill all agents; those of `react` also with 21 to 64 tools on offer, and under what `more` has."""
    parts = {
        "rows": bills(AGENTS, [AUTOMATIC, EXPLICIT], episodes),
        "many_tools": bills(REACT, [AUTOMATIC, EXPLICIT], episodes, (21, 64)),
        **more(episodes),
    }
    out.write_text(json.dumps({"episodes": episodes, "budget": BUDGET, **parts}, indent=1) + "\n", encoding="utf-8")


def change(rows: list[Any], agent: str, rule: tuple[str, str], figure: str) -> float:
    """The relative change of a figure from that of the strategy alone."""
    costs = {row["agent"]: row[figure] for row in rows if (row["model"], row["cache"]) == rule}
    return float(100 * (costs[agent] / costs[agent.partition("+")[0]] - 1))


def table(rows: list[Any]) -> str:
    """The forms of ReAct; the report has those of the other strategies."""
    heading = ("agent", "no cache", "automatic cache", "paid writes", "cached", "success", "everything")
    lines = [f"| {' | '.join(heading)} |", "| --- " * 7 + "|"]
    for agent in dict.fromkeys(row["agent"] for row in rows if row["agent"].startswith("react")):
        by_rule = {(row["model"], row["cache"]): row for row in rows if row["agent"] == agent}
        cells = [f"`{agent}`"]
        for rule in RULES if (EXPLICIT, "prefix") in by_rule else list(RULES)[:2]:
            cells.append(_with_change(1000 * by_rule[rule]["usd_tokens"], rows, agent, rule, "usd_tokens"))
        automatic = by_rule[AUTOMATIC, "prefix"]
        cells += [f"{100 * automatic['cached_share']:.0f}", f"{100 * automatic['success']:.0f}"]
        cells.append(_with_change(100 * automatic["usd_per_task"], rows, agent, (AUTOMATIC, "prefix"), "usd_per_task"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _with_change(value: float, rows: list[Any], agent: str, rule: tuple[str, str], figure: str) -> str:
    moved = f" ({change(rows, agent, rule, figure):+.0f})".replace("-", "−") if "+" in agent else ""
    return f"{value:.1f}{moved}"


def page(source: Path) -> None:
    document = json.loads(source.read_text(encoding="utf-8"))
    for part in ("rows", "any_length", "many_tools", "version_0", "marks", "two_marks"):
        print(f"\n{part}\n{table(document[part]) if 'marks' not in part else ''}")
        for row in document[part]:
            if "change" in row and row["agent"].startswith("react"):
                moved = [100 * end for end in (row["change"]["usd_tokens"], *row["change"]["usd_tokens_ci95"])]
                figures = f"tokens {1000 * row['usd_tokens']:.1f}, {moved[0]:+.0f} % ({moved[1]:.0f} to {moved[2]:.0f})"
                print(f"{row['agent']}, {row['model']}, {row['cache']}: {figures}, {row['cached_share']:.0%} read")
    draw(document["rows"], document["episodes"])


def draw(rows: list[Any], episodes: int) -> None:
    agents = [agent for agent in dict.fromkeys(row["agent"] for row in rows) if agent.startswith("react+")]
    plt.rcParams.update(STYLE)
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for number, (rule, (label, colour)) in enumerate(RULES.items()):
        changes = [change(rows, agent, rule, "usd_tokens") for agent in agents]
        bars = axes.bar([at + 0.27 * (number - 1) for at in range(len(agents))], changes, 0.25, label=label, color=colour)
        axes.bar_label(bars, [f"{moved:+.0f}" for moved in changes], fontsize=9, padding=2)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(range(len(agents)), [agent.removeprefix("react") for agent in agents])
    axes.set_ylabel("change of token cost from ReAct, %")
    axes.set_title(f"Simulated decisions, {episodes} test tasks, 30 ¢ a task", fontsize=10, loc="left")
    axes.margins(y=0.2)
    axes.legend(frameon=False, fontsize=9)
    save(figure, PICTURE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "more", "page"))
    parser.add_argument("source", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    works = {"run": lambda: run(chosen.episodes, chosen.out), "more": lambda: add_more(chosen.episodes, chosen.out)}
    works.get(chosen.what, lambda: page(chosen.source))()
