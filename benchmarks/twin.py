"""Compare predictions of `costgym twin` with the runs that were played after them.

    python benchmarks/twin.py PREDICTIONS.json:RUN[,RUN ...] ... --json RESULT.json
    python benchmarks/twin.py RESULT.json ... --json ALL.json --plot ALL.svg

The runs stand in the order of the predictions, with `-` for one that waits; results that are there are pooled. A figure is a
hit if the predicted interval holds it. The rank correlation is Spearman's, of each figure over all runs, with a 95 % interval
by a bootstrap over the runs.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.stats import spearmanr

from costgym.experiments.fit.twin import FIGURES, figures_of
from costgym.experiments.play.trajectories.format import read_trajectories
from costgym.experiments.play.trajectories.replay import trajectory_files

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.picture import STRATEGIES, STYLE, save


def played(run: Path) -> tuple[dict[str, float], str, Any]:
    """The figures of a run, the digest of its file, and its header with its first episode."""
    (path,) = trajectory_files(run)
    header, recorded = read_trajectories(path)
    episodes = list(recorded)
    finals = [(episode.final, not episode.final["exceeded"]) for episode in episodes]
    finals_told = [(f["strict"] and passed, f["judged"] and passed, f["price"], f["calls"]) for f, passed in finals]
    return figures_of(finals_told), hashlib.sha256(path.read_bytes()).hexdigest(), (header, episodes)


def correlation(predicted: list[float], real: list[float]) -> dict[str, float] | None:
    """Spearman's over runs, with its interval; None where one of the two never differs."""
    pairs = np.array([predicted, real])
    if len(set(predicted)) < 2 or len(set(real)) < 2:
        return None
    draws = np.random.default_rng(0).integers(len(real), size=(1_000, len(real)))
    statistics = [spearmanr(*pairs[:, draw]).statistic for draw in draws if all(len(set(row)) > 1 for row in pairs[:, draw])]
    low, high = np.percentile(statistics, [2.5, 97.5])
    return {"value": float(spearmanr(*pairs).statistic), "low": float(low), "high": float(high)}


def draw(of: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Plot strict passes and price, played over predicted, with the predicted intervals; points on the line are right."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 2, figsize=(7.4, 3.6), layout="constrained")
        for axes, (name, unit, factor) in zip(
            panels, (("passed", "success, %", 100), ("price", "cost, cents", 1)), strict=True
        ):
            for agent, (label, colour, marker) in STRATEGIES.items():
                mine = np.array(
                    [[row[key] for key in ("predicted", "low", "high", "played")] for row in of[name] if row["agent"] == agent]
                )
                predicted, low, high, real = factor * mine.reshape(-1, 4).T
                axes.hlines(real, low, high, color=colour, linewidth=1, alpha=0.5)
                axes.plot(predicted, real, marker, color=colour, markersize=4, label=label)
            end = max(axes.get_xlim()[1], axes.get_ylim()[1])
            axes.plot([0, end], [0, end], color="0.6", linewidth=0.8, zorder=0)
            axes.set(xlabel=f"predicted: {unit}", ylabel=f"played: {unit}", xlim=(0, end), ylim=(0, end), aspect="equal")
        figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=5, loc="outside upper center")
        save(figure, path)
        pyplot.close(figure)


def main(arguments: list[str]) -> None:
    out = Path(arguments[arguments.index("--json") + 1])
    plot = Path(arguments[arguments.index("--plot") + 1]) if "--plot" in arguments else None
    rows: list[dict[str, Any]] = []
    for argument in arguments[: arguments.index("--json")]:
        file, _, names = argument.partition(":")
        text = Path(file).read_text()
        if not names:
            rows += json.loads(text)["rows"]
            continue
        for run, name in zip(json.loads(text)["runs"], names.split(","), strict=True):
            if name == "-":
                continue
            figures, digest, (header, episodes) = played(Path(name))
            agents = {episode.agent for episode in episodes}
            assert agents == {run["agent"]} and len(episodes) == run["episodes"], (name, agents, len(episodes))
            assert header.settings["budget"] == run["budget"] and header.settings["split"] == run["split"], name
            for figure in FIGURES:
                low, value, high = (run["figures"][figure][key] for key in ("low", "value", "high"))
                rows.append({
                    "agent": run["agent"], "budget": run["budget"], "failures": run["failures"], "figure": figure,
                    "predicted": value, "low": low, "high": high, "played": figures[figure],
                    "hit": low - 1e-9 <= figures[figure] <= high + 1e-9,
                    "predictions_sha256": hashlib.sha256(text.encode()).hexdigest(), "trajectories_sha256": digest,
                })  # fmt: skip
    of = {figure: [row for row in rows if row["figure"] == figure] for figure in FIGURES}
    ranks = {
        figure: correlation([row["predicted"] for row in mine], [row["played"] for row in mine]) for figure, mine in of.items()
    }
    hits = sum(row["hit"] for row in rows)
    out.write_text(json.dumps({"hits": hits, "of": len(rows), "rank_correlation": ranks, "rows": rows}, indent=1) + "\n")
    for row in rows:
        print(row["agent"], row["budget"], row["failures"], row["figure"], row["played"], [row["low"], row["high"]], row["hit"])
    print(f"{hits} of {len(rows)} hit; rank correlations: {ranks}")
    if plot is not None:
        draw(of, plot)


if __name__ == "__main__":
    main(sys.argv[1:])
