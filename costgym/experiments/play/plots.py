"""Figures of results for papers and notebooks: matplotlib's, with the same bytes whenever and wherever they are saved.

Nothing here uses pyplot or changes a global setting. Names of agents and currencies come from others: they are drawn as they
stand, never read as mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costgym.experiments.play.metric_registry import REGISTRY, Group, figure, interval, plain
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


class Plots:
    """The figures of results. Each is a matplotlib `Figure`: ``figure.savefig("frontier.pdf")``, or SVG or PNG.

    Args:
        names: of the rows without their budgets, in the order of the rows.
        rows: their figures.
        currencies: in which their prices are; figures of cost need one and the same.
    """

    def __init__(self, names: Mapping[Group, str], rows: Mapping[Group, dict[str, Any]], currencies: Set[str]) -> None:
        self._names, self._rows, self._currencies = names, rows, currencies

    def pareto(self) -> Figure:
        """Draw passes over cost: a mark for each agent and budget, and the frontier of those that no other one beats.

        Whiskers are 95 % intervals of the pass rate.

        Raises:
            ConfigError: there are no episodes, or their prices are in several currencies.
        """
        points = []
        for number, (agent, groups) in enumerate(self._agents().items()):
            for group in groups:
                cost = figure(self._rows[group], "average_cost")
                share, ends = self._passes(group)
                if cost is not None and share is not None:
                    points.append((cost, share, ends, number, agent))
        with self._chart(f"{REGISTRY['average_cost'].name}{_unit(self._currency())} an episode") as (chart, axes):
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
        """Draw passes over the budget: a line for each agent, in a band of 95 % intervals.

        Rows without a limit of this resource, or with further limits, are left out.

        Args:
            resource: the limited resource: `price`, `seconds`, `tokens` or `calls`.

        Raises:
            UnknownName: there is no such resource.
            ConfigError: no agent was limited in this resource alone, or prices are in several currencies.
        """
        check_known("resource", resource, RESOURCES)
        unit = {"price": self._currency(), "seconds": "s"}.get(resource, resource)
        with self._chart(f"Budget{_unit(unit)} an episode") as (chart, axes):
            entries, ticks = [], set[float]()
            for number, (agent, groups) in enumerate(self._agents().items()):
                limited = {group.budget[0][1]: group for group in groups if [name for name, _ in group.budget] == [resource]}
                shares = [(limit, *self._passes(limited[limit])) for limit in sorted(limited)]
                curve = [(limit, share, ends) for limit, share, ends in shares if share is not None]
                if not curve:
                    continue
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

    @contextmanager
    def _chart(self, x_label: str) -> Iterator[tuple[Figure, Axes]]:
        import matplotlib as mpl

        with mpl.rc_context(_SETTINGS):
            chart: Figure = _figure_class()(figsize=(WIDTH, HEIGHT), layout="constrained")
            axes = chart.add_subplot()
            axes.set_xlabel(plain(x_label), parse_math=False)
            axes.set_ylabel("Passed within the budget, % of episodes")
            axes.set_ylim(-3, 103)
            yield chart, axes


@lru_cache(maxsize=1)
def _figure_class() -> Any:
    """A matplotlib `Figure` that puts no clock into its files; made here because importing matplotlib takes long."""
    import io

    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class ResultsFigure(Figure):
        def __init__(self, **named: Any) -> None:
            super().__init__(**named)
            FigureCanvasAgg(self)

        def savefig(self, fname: Any, **named: Any) -> None:
            suffix = Path(fname).suffix.removeprefix(".") if isinstance(fname, str | Path) else ""
            kind = str(named.get("format") or suffix or "png").lower()
            named["metadata"] = {**_METADATA.get(kind, {}), **(named.get("metadata") or {})}
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
    return f", {currency}" if currency else ""


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
