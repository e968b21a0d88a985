"""Draw two pictures of the results: strategies with real models, and the agents of sessions.

    costgym leaderboard --suite small --out runs/small
    python benchmarks/result_pictures.py --board runs/small

The board replays the recorded episodes of the real models, whose points are printed with their 95 % intervals; the agents of
sessions come from `benchmarks/results/session_ladder.json` and `sessions_learners.json`.
"""

import argparse
import json
import sys
from pathlib import Path

from matplotlib import pyplot

from costgym.agents.base import SESSION_1

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.picture import BLUE, GREEN, INK, STRATEGIES, STYLE, save

ROOT = Path(__file__).parents[1]
MODELS = {
    "SmolLM2 strategies": "SmolLM2-135M",
    "Qwen2.5-Coder-0.5B strategies": "Qwen2.5-Coder-0.5B",
    "Qwen2.5-Coder-1.5B strategies": "Qwen2.5-Coder-1.5B",
    "simulated": "simulated model",
}
RULES = {
    "random": "random",
    "greedy": "greedy: the best tool for its price",
    "bayes-index": "beliefs, no pacing",
    "paced": "pacing, no memory",
    "optimistic": "pacing, memory, exploration",
    "tuned": "pacing, memory, tuned constants",
}
LEARNERS = {
    "stock": "PPO, stock network",
    "torchrl": "PPO of TorchRL, flat network",
    "tools, 6,000,000 decisions": "PPO, one network for each tool",
}
BOUNDS = {
    "informed-paced": "pacing, told every tool's state",
    "informed": "told all regimes and queries",
    "bound": "bound: no policy passes it on average",
}


def real_models(board: Path, path: Path) -> None:
    """One panel a model: success over the cost of an episode, with 95 % intervals."""
    rows = json.loads((board / "leaderboard.json").read_text())["rows"]
    by_name = {row["agent"]: row for row in rows if row["track"] == "text"}
    figure, panels = pyplot.subplots(1, len(MODELS), figsize=(9, 3), layout="constrained", sharex=True, sharey=True)
    for axes, (model, title) in zip(panels, MODELS.items(), strict=True):
        for strategy, (label, colour, marker) in STRATEGIES.items():
            row = by_name[strategy if model == "simulated" else f"{strategy} ({model})"]
            success, (low, high) = row["pass_rate_under_budget"], row["ci95"]["pass_rate_under_budget"]
            cost, (least, most) = row["average_cost"], row["ci95"]["average_cost"]
            print(f"{title}, {label}: success {success:.2f} ({low:.3f}–{high:.3f}), cost {cost:.2f} ({least:.2f}–{most:.2f})")
            axes.vlines(cost, 100 * low, 100 * high, color=colour, linewidth=1)
            axes.hlines(100 * success, least, most, color=colour, linewidth=1)
            axes.plot(cost, 100 * success, marker, color=colour, markersize=6, label=label)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set(xlim=(0, 20), ylim=(0, 70))
    panels[0].set_ylabel("success, %")
    figure.supxlabel("cost of an episode, cents", fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=5, loc="outside upper center")
    save(figure, path)


def sessions(path: Path) -> None:
    """Share of the value that rules, learners and bounds earn in 300 test sessions of the level medium, with 95 % intervals."""
    ladder, learners = (
        json.loads((ROOT / f"benchmarks/results/{name}.json").read_text()) for name in ("session_ladder", "sessions_learners")
    )
    (medium,) = [level for level in ladder["splits"]["test"] if level["level"] == "medium"]
    rules = {row["agent"]: row for row in medium["rows"]}
    learnt = {row["learner"]: row["test"] for row in learners["rows"] if row["env"] == SESSION_1}
    rows = [
        *((label, rules[agent]["value_share"], rules[agent]["half"], INK) for agent, label in RULES.items()),
        *(
            (label, learnt[name]["mean"], learnt[name]["mean"] - learnt[name]["ci95"][0], GREEN)
            for name, label in LEARNERS.items()
        ),
        *((label, rules[agent]["value_share"], rules[agent]["half"], BLUE) for agent, label in BOUNDS.items()),
    ]
    rows.sort(key=lambda row: row[1])
    figure, axes = pyplot.subplots(figsize=(7.6, 4.0), layout="constrained")
    for position, (_, share, width, colour) in enumerate(rows):
        value, half = 100 * share, 100 * width
        axes.errorbar(value, position, xerr=half, fmt="o", color=colour, capsize=2)
        axes.annotate(f"{value:.0f}", (value + half, position), (6, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set(xlim=(0, 75), xlabel="share of the value of all queries, %")
    save(figure, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", type=Path, help="the folder of `costgym leaderboard --suite small`")
    chosen = parser.parse_args()
    pyplot.rcParams.update(STYLE)
    sessions(ROOT / "docs/sessions.svg")
    if chosen.board is not None:
        real_models(chosen.board, ROOT / "docs/realmodels.svg")
