"""Figures of results for papers and notebooks: matplotlib's, with the same bytes whenever and wherever they are saved. A PNG
holds the figures that it shows and the code that plays and draws them again.

Nothing here uses pyplot or changes a global setting. Names of agents and currencies come from others: they are drawn as they
stand, never read as mathematics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costgym.experiments.play.metric_registry import REGISTRY, Group, figure, interval, plain, unit_of
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.ledger import RESOURCES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PASS = "pass_rate_under_budget"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A06000", "#56B4E9", "#7B3294", "#5A5D63", "#117A8B", "#8C5A2B", "#5B8C00",
    "#C2187A",
)  # fmt: skip
"""After Okabe and Ito's palette, which colour-blind people can tell apart."""
LONGEST_NAME = 32  # characters
WIDTH, HEIGHT = 6.4, 3.6  # inches
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # letters stay letters, as publishers ask
    "svg.fonttype": "none",
    "svg.hashsalt": "costgym",
    "savefig.dpi": 200,
}
_METADATA = {"svg": {"Date": None, "Creator": "costgym"}, "pdf": {"CreationDate": None, "Creator": "costgym"}}
"""No clock in a file, so that the same figure has the same bytes."""
PNG_DATA, PNG_CODE = "costgym:data", "costgym:code"  # keys of a PNG's texts, as `PIL.Image.open(path).text` has them


class Plots:
    """The figures of results. Each is a matplotlib `Figure`: ``figure.savefig("frontier.pdf")``, or SVG or PNG.

    Args:
        names: of the rows without their budgets, in the order of the rows.
        rows: their figures.
        currencies: in which their prices are; figures of cost need one and the same.
        seeds: the seed of each row's run, and its episodes of one task in a row.
    """

    def __init__(
        self,
        names: Mapping[Group, str],
        rows: Mapping[Group, dict[str, Any]],
        currencies: Set[str],
        seeds: Mapping[Group, tuple[int, int]],
    ) -> None:
        self._names, self._rows, self._currencies, self._seeds = names, rows, currencies, seeds

    def pareto(self) -> Figure:
        """Draw success over cost: a mark for each agent and budget, and the frontier of those that no other one beats.

        Whiskers are 95 % intervals of the success rate. A thin line joins the budgets of one agent.

        Raises:
            ConfigError: there are no episodes, or their prices are in several currencies.
        """
        points, shown = [], []
        for number, (agent, groups) in enumerate(self._agents().items()):
            for group in groups:
                cost = figure(self._rows[group], "average_cost")
                share, ends = self._passes(group)
                if cost is not None and share is not None:
                    points.append((cost, share, ends, number, agent))
                    shown.append(group)
        label = f"{REGISTRY['average_cost'].name}{_unit(self._currency())} an episode"
        with self._chart(label, shown, "pareto()") as (chart, axes):
            for number in {number for *_, number, _ in points}:
                line = sorted((cost, 100 * share) for cost, share, _, other, _ in points if other == number)
                axes.plot(*zip(*line, strict=True), color=_colour(number), lw=0.8, alpha=0.5, zorder=1)
            for cost, share, ends, number, _ in points:
                whiskers = [[100 * (share - ends[0])], [100 * (ends[1] - share)]]
                axes.errorbar([cost], [100 * share], whiskers, color=_colour(number), fmt=_marker(number), ms=5, elinewidth=0.8)
            frontier = _frontier([(cost, share) for cost, share, *_ in points])
            costs, shares = [cost for cost, _ in frontier], [100 * share for _, share in frontier]
            (step,) = axes.step(costs, shares, where="post", color="#222222", lw=1, ls="--", zorder=1)
            handles = {agent: _handle(number) for _, _, _, number, agent in points}
            _legend(axes, [*handles.items(), ("frontier", step)])
        return chart

    def budget_curve(self, resource: str = "price") -> Figure:
        """Draw success over the budget: a line for each agent, in a band of 95 % intervals.

        Rows without a limit of this resource, or with further limits, are left out.

        Args:
            resource: the limited resource: `price`, `seconds`, `tokens` or `calls`.

        Raises:
            UnknownName: there is no such resource.
            ConfigError: no agent was limited in this resource alone, or prices are in several currencies.
        """
        check_known("resource", resource, RESOURCES)
        unit = {"price": self._currency(), "seconds": "s"}.get(resource, resource)
        shown: list[Group] = []
        with self._chart(f"Budget{_unit(unit)} an episode", shown, f"budget_curve({resource!r})") as (chart, axes):
            entries, ticks = [], set[float]()
            for number, (agent, groups) in enumerate(self._agents().items()):
                limited = {group.budget[0][1]: group for group in groups if [name for name, _ in group.budget] == [resource]}
                shares = [(limit, *self._passes(limited[limit])) for limit in sorted(limited)]
                curve = [(limit, share, ends) for limit, share, ends in shares if share is not None]
                if not curve:
                    continue
                shown += [limited[limit] for limit, _, _ in curve]
                limits = [limit for limit, _, _ in curve]
                ticks |= set(limits)
                lows, highs = ([100 * ends[side] for _, _, ends in curve] for side in (0, 1))
                colour = _colour(number)
                axes.plot(limits, [100 * share for _, share, _ in curve], color=colour, marker=_marker(number), ms=5, lw=1.4)
                axes.fill_between(limits, lows, highs, color=colour, alpha=0.13, lw=0)
                entries.append((agent, _handle(number, line=True)))
            if not entries:
                raise ConfigError(
                    "plot.budget_curve", f"expected rows limited in {resource} alone, got none; play several budgets"
                )
            axes.set_xscale("log")
            axes.set_xticks(sorted(ticks), [f"{tick:,g}" for tick in sorted(ticks)])
            axes.minorticks_off()
            _legend(axes, entries)
        return chart

    def _agents(self) -> dict[str, list[Group]]:
        """The rows of each agent, one for each budget."""
        groups: dict[str, list[Group]] = {}
        for group, name in self._names.items():
            groups.setdefault(name, []).append(group)
        return groups

    def _passes(self, group: Group) -> tuple[float | None, tuple[float, float]]:
        """The pass rate within the budget and its interval."""
        row = self._rows[group]
        key = REGISTRY[PASS].key_under(row["grading"])
        share = figure(row, key)
        return share, interval(row, key) or (share or 0.0, share or 0.0)

    def _currency(self) -> str:
        if not self._rows:
            raise ConfigError("plot", "expected at least one episode, got none")
        if len(self._currencies) > 1:
            names = ", ".join(sorted(currency or "unknown" for currency in self._currencies))
            raise ConfigError("plot", f"expected prices in one currency, got {names}; choose an environment: select(env=...)")
        return next(iter(self._currencies))

    def _texts(self, shown: Sequence[Group], drawing: str) -> dict[str, str]:
        """The texts of a PNG: the rows that it shows as JSON, and code that plays them and draws it."""
        data = []
        for group in shown:
            row, key = self._rows[group], REGISTRY[PASS].key_under(self._rows[group]["grading"])
            about = {name: row.get(name) for name in ("agent", "model", "env", "split", "budget", "episodes", "grading")}
            settings = json.loads(group.settings)
            figures = {name: figure(row, name) for name in (key, "average_cost")}
            data.append({**about, "settings": settings, **figures, "ci95": {key: interval(row, key)}})
        code = f'{self._code(shown)}results.plot.{drawing}.savefig("figure.png")\n'
        return {PNG_DATA: json.dumps(data, ensure_ascii=False), PNG_CODE: code}

    def _code(self, shown: Sequence[Group]) -> str:
        """Python that plays rows again; of a run with several seeds a task, which a folder has, that reads them."""
        if any(self._seeds[group][1] > 1 for group in shown):
            return 'import costgym\n\nresults = costgym.Results.load("FOLDER")  # of the run\n'
        lines = ["import costgym", "", "results = costgym.Results()"]
        for group in shown:
            row, budget = self._rows[group], dict(group.budget)
            options = {"split": row.get("split"), "grading": row["grading"], "budget": budget, **json.loads(group.settings)}
            model = f"  # with the language model {group.model!r}" if group.model else ""
            lines.append(f"env = costgym.make({group.env!r}, **{options!r})")
            played = f"costgym.rollout(env, {group.agent!r}, episodes={row['episodes']}, seed={self._seeds[group][0]})"
            lines.append(f"results += {played}{model}")
        return "\n".join(lines) + "\n"

    @contextmanager
    def _chart(self, x_label: str, shown: Sequence[Group], drawing: str) -> Iterator[tuple[Figure, Axes]]:
        """An empty chart; what is drawn inside the block has the style of figures, and a PNG of it the texts of these rows."""
        import matplotlib as mpl

        with mpl.rc_context(_SETTINGS):
            chart: Figure = _figure_class()(figsize=(WIDTH, HEIGHT), layout="constrained")
            axes = chart.add_subplot()
            axes.set_xlabel(plain(x_label), parse_math=False)
            axes.set_ylabel("Success within the budget, %")
            axes.set_ylim(-3, 103)
            yield chart, axes
            chart.png_texts = self._texts(shown, drawing)  # type: ignore[attr-defined]


@lru_cache(maxsize=1)
def _figure_class() -> Any:
    """A matplotlib `Figure` that puts no clock into its files; made here because importing matplotlib takes long."""
    import io

    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class ResultsFigure(Figure):
        png_texts: Mapping[str, str] = {}  # never changed

        def __init__(self, **named: Any) -> None:
            super().__init__(**named)
            FigureCanvasAgg(self)

        def savefig(self, fname: Any, **named: Any) -> None:
            suffix = Path(fname).suffix.removeprefix(".") if isinstance(fname, str | Path) else ""
            kind = str(named.get("format") or suffix or "png").lower()
            metadata = self.png_texts if kind == "png" else _METADATA.get(kind, {})
            named["metadata"] = {**metadata, **(named.get("metadata") or {})}
            with mpl.rc_context(_SETTINGS):
                super().savefig(fname, **named)

        def _repr_png_(self) -> bytes:
            store = io.BytesIO()
            self.savefig(store, format="png", dpi=130)
            return store.getvalue()

    return ResultsFigure


def _frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points, by cost, that pass more often than every cheaper one."""
    groups: list[tuple[float, float]] = []
    for cost, share in sorted(points, key=lambda point: (point[0], -point[1])):
        if not groups or share > groups[-1][1]:
            groups.append((cost, share))
    return groups


def _unit(currency: str) -> str:
    return f", {unit_of(currency)}" if currency else ""


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]


def _handle(number: int, line: bool = False) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=_colour(number), marker=_marker(number), ms=5, ls="-" if line else "")


def _legend(axes: Axes, entries: list[tuple[str, Any]]) -> None:
    """Write names beside the axes, where they cover nothing."""
    legend = axes.legend([handle for _, handle in entries], [" "] * len(entries), loc="center left", bbox_to_anchor=(1.0, 0.5))
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_parse_math(False)
        # set late: a legend leaves out names that begin with an underscore
        text.set_text(name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…")
