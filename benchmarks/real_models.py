"""Draw what five strategies reach with three real models, beside the simulated one.

    costgym leaderboard --suite small --out runs/small
    python benchmarks/real_models.py runs/small docs/realmodels.svg

The board replays the recorded episodes of the real models. Prints each point with its 95 % interval.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

MODELS = {
    "SmolLM2 strategies": "SmolLM2-135M",
    "Qwen2.5-Coder-0.5B strategies": "Qwen2.5-Coder-0.5B",
    "Qwen2.5-Coder-1.5B strategies": "Qwen2.5-Coder-1.5B",
    "simulated": "simulated model",
}
STRATEGIES = {
    "react": ("ReAct", "#444444", "o"),
    "react+btp": ("BTP", "#009E73", "s"),
    "react+ecoact": ("EcoAct", "#0072B2", "^"),
    "dfsdt": ("DFSDT", "#CC79A7", "D"),
    "toolplanner": ("ToolPlanner", "#D55E00", "v"),
}  # of the palette of Okabe and Ito


def points(board: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of the board's text track, by model and strategy."""
    rows = json.loads((board / "leaderboard.json").read_text())["rows"]
    by_name = {row["agent"]: row for row in rows if row["track"] == "text"}
    return {
        (model, strategy): by_name[strategy if model == "simulated" else f"{strategy} ({model})"]
        for model in MODELS
        for strategy in STRATEGIES
    }


def draw(rows: dict[tuple[str, str], dict[str, Any]], path: Path) -> None:
    """One panel a model: success over the cost of an episode, with 95 % intervals."""
    pyplot.rcParams.update({"svg.hashsalt": "costgym", "svg.fonttype": "none", "font.size": 9})
    figure, panels = pyplot.subplots(1, len(MODELS), figsize=(9, 3), layout="constrained", sharex=True, sharey=True)
    for axes, (model, title) in zip(panels, MODELS.items(), strict=True):
        for strategy, (label, colour, marker) in STRATEGIES.items():
            row = rows[model, strategy]
            success, (low, high) = row["pass_rate_under_budget"], row["ci95"]["pass_rate_under_budget"]
            cost, (least, most) = row["average_cost"], row["ci95"]["average_cost"]
            axes.vlines(cost, 100 * low, 100 * high, color=colour, linewidth=1, alpha=0.4)
            axes.hlines(100 * success, least, most, color=colour, linewidth=1, alpha=0.4)
            axes.plot(cost, 100 * success, marker, color=colour, markersize=6, label=label)
        axes.set_title(title, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlim=(0, 20), ylim=(0, 70))
        axes.grid(alpha=0.2)
    panels[0].set_ylabel("success, %")
    figure.supxlabel("cost of an episode, cents", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=5, loc="outside upper center")
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    measured = points(Path(sys.argv[1]))
    for (model, strategy), row in measured.items():
        print(
            f"{MODELS[model]}, {strategy}: success {row['pass_rate_under_budget']:.2f}", row["ci95"]["pass_rate_under_budget"]
        )
        print(f"  cost {row['average_cost']:.2f}", row["ci95"]["average_cost"])
    draw(measured, Path(sys.argv[2]))
