"""Draw which savings survive the cache of prompts, from the figures of `costgym cost`.

    costgym cost --agents react,react+ecoact,react+btp,dfsdt,dfsdt+ecoact,dfsdt+btp,plan-act,plan-act+ecoact,plan-act+btp \
        --models gpt-5.1,claude-sonnet-5 --budget price=30 --episodes 400 --json benchmarks/results/caching.json
    python benchmarks/caching.py benchmarks/results/caching.json docs/caching.svg

Each bar is the change of an agent's token cost from that of its strategy alone, under the same price rules.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

RULES = {
    ("gpt-5.1", "none"): ("no cache", "#9aa5b1"),
    ("gpt-5.1", "prefix"): ("automatic cache (gpt-5.1)", "#3f7fbf"),
    ("claude-sonnet-5", "prefix"): ("cache with paid writes (claude-sonnet-5)", "#c2592e"),
}


def main(source: Path, target: Path) -> None:
    rows = json.loads(source.read_text(encoding="utf-8"))["rows"]
    usd = {(row["agent"], row["model"], row["cache"]): row["usd_tokens"] for row in rows}
    agents = [agent for agent in dict.fromkeys(row["agent"] for row in rows) if "+" in agent]
    plt.rcParams.update({"svg.hashsalt": "costgym", "svg.fonttype": "none", "font.size": 10})
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for number, (rule, (label, colour)) in enumerate(RULES.items()):
        changes = [100 * (usd[agent, *rule] / usd[agent.partition("+")[0], *rule] - 1) for agent in agents]
        bars = axes.bar([at + 0.27 * (number - 1) for at in range(len(agents))], changes, 0.25, label=label, color=colour)
        axes.bar_label(bars, [f"{change:+.0f}" for change in changes], fontsize=8, padding=2)
    axes.axhline(0, color="#555555", linewidth=0.8)
    axes.set_xticks(range(len(agents)), agents)
    axes.set_ylabel("change of token cost, %")
    axes.set_title("Simulated decisions, 400 test tasks, 30 ¢ a task", fontsize=10, loc="left")
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
