"""Results of one or several agents: a read-only sequence of episodes with summaries, comparisons, frames and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from markupsafe import Markup

from costgym.experiments.play.load import load_episodes
from costgym.experiments.play.metric_registry import (
    REGISTRY,
    Group,
    Metric,
    brief,
    cell,
    estimate,
    figure,
    plain,
    with_unit,
    written,
)
from costgym.experiments.play.metrics import PairedDifference, paired_difference, summarise
from costgym.experiments.play.plots import PASS, Plots
from costgym.experiments.play.results import EpisodeResult, outcome
from costgym.experiments.play.statistics import LEVEL, holm
from costgym.simulators.errors import ConfigError, UnknownName, check_known, require
from costgym.simulators.ledger import RESOURCES

ALWAYS = (PASS, "budget_failure_rate", "average_cost")
SHOWN = (
    PASS, "cost_per_success", "budget_failure_rate", "average_cost", "average_seconds", "average_tokens", "score",
    "value_share", "state_correct", "crashed_episodes",
)  # fmt: skip
"""Figures of a table in a notebook; those outside `ALWAYS` are left out where every row has 0 or none."""
_SPREAD = {"budget": "budget_", "errors": "errors_", "errors_by_status": "status_", "replies": "replies_"}
"""Fields with a column of a frame for each entry, and how their names begin."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an environment's episodes of a run have in common, apart from agent and budget."""

    split: str = ""  # of the tasks; "" where it is unknown
    grading: str = "strict"  # grade that counts as success, `strict` or `judge`
    currency: str = ""  # of prices; "" where it is unknown
    seed: int = 0
    seeds: int = 1  # episodes of one task in a row


class Results(Sequence[EpisodeResult]):
    """The results of episodes, as `costgym.rollout` returns them: a sequence that cannot be changed.

    `+` joins the results of several agents, budgets and environments; a slice is a `Results` too.

    Args:
        episodes: the records, in order.
        split: the tasks' split; "" where it is unknown.
        grading: grade that counts as success, `strict` or `judge`.
        currency: of prices, for display.
        seed: of the run, which the intervals depend on.
        seeds: episodes of one task in a row, which the intervals draw together.

    Raises:
        ConfigError: an agent has two records of one episode under one budget, or joined runs were played differently.

    >>> import costgym
    >>> env = costgym.make("costgym/Marketplace-v0", split="test", budget=20)
    >>> results = costgym.rollout(env, "cheapest", episodes=20) + costgym.rollout(env, "greedy", episodes=20)
    >>> list(results.summary())
    ['cheapest, 20 credits', 'greedy, 20 credits']
    >>> results.compare("greedy", "cheapest").episodes
    20
    """

    def __init__(
        self,
        episodes: Iterable[EpisodeResult] = (),
        *,
        split: str = "",
        grading: str = "strict",
        currency: str = "",
        seed: int = 0,
        seeds: int = 1,
    ) -> None:
        played = tuple(episodes)
        conditions = Conditions(split, grading, currency, seed, seeds)
        self._fill(played, {_view(result): conditions for result in played})

    @classmethod
    def load(cls, folder: str | Path) -> Results:
        """Read the results of a folder that `costgym leaderboard`, `rank`, `collect` or `serve --record` wrote.

        Recorded trajectories are replayed, and every figure follows from their actions. Raises DataError for other folders, and
        for records that cannot be read or do not replay.
        """
        return sum((cls(played.episodes, **played.conditions) for played in load_episodes(folder)), start=cls())

    def _fill(self, episodes: tuple[EpisodeResult, ...], conditions: Mapping[str, Conditions]) -> None:
        groups: dict[Group, dict[int, EpisodeResult]] = {}
        for result in episodes:
            of_group = groups.setdefault(_group(result), {})
            if result.episode in of_group:
                raise ConfigError(
                    "results", f"expected one record of episode {result.episode} of {plain(result.agent)!r}, got two"
                )
            of_group[result.episode] = result
        self._episodes, self._conditions = episodes, dict(conditions)
        self._groups = {group: tuple(of_group.values()) for group, of_group in groups.items()}

    def _of(self, episodes: Iterable[EpisodeResult], conditions: Mapping[str, Conditions] | None = None) -> Results:
        made = Results()
        made._fill(tuple(episodes), self._conditions if conditions is None else conditions)
        return made

    # -- the sequence ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._episodes)

    @overload
    def __getitem__(self, index: int) -> EpisodeResult: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> EpisodeResult | Results:
        return self._of(self._episodes[index]) if isinstance(index, slice) else self._episodes[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Results):
            return self._episodes == other._episodes and self.conditions == other.conditions
        return list(self._episodes) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __add__(self, other: Results) -> Results:
        if not isinstance(other, Results):
            return NotImplemented
        for env in self._conditions.keys() & other._conditions.keys():
            left, right = self._conditions[env], other._conditions[env]
            for field in fields(Conditions):
                values = getattr(left, field.name), getattr(right, field.name)
                if values[0] != values[1]:
                    raise ConfigError(f"results of {env}", f"expected one {field.name}, got {values[0]!r} and {values[1]!r}")
        return self._of(self._episodes + other._episodes, self._conditions | other._conditions)

    @property
    def conditions(self) -> dict[str, Conditions]:
        """Split, grading, currency and seeds of each environment and, where that is a track of its own, scenario."""
        return {view: self._conditions[view] for view in dict.fromkeys(map(_view, self._groups))}

    @property
    def split(self) -> str:
        """The split that was played, such as ``test``; several are listed, and "" stands for an unknown one."""
        return ", ".join(dict.fromkeys(conditions.split for conditions in self.conditions.values()))

    def select(self, **values: Any) -> Results:
        """The episodes whose fields have these values, such as ``select(agent="react", budget={"price": 20})``.

        Raises:
            UnknownName: `EpisodeResult` has no such field.
        """
        known = [field.name for field in fields(EpisodeResult)]
        for name in values:
            check_known("field of an episode", name, known)
        return self._of(result for result in self if all(getattr(result, name) == value for name, value in values.items()))

    # -- figures -----------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[Group, dict[str, Any]]:
        """A row of figures for each agent, model, environment, budget and setting, as a leaderboard has them."""
        by_group = {}
        for group, episodes in self._groups.items():
            conditions = self._conditions[_view(group)]
            by_group[group] = {
                **summarise(episodes, conditions.grading, seed=conditions.seed, seeds=conditions.seeds),
                "split": conditions.split,
            }
        return by_group

    @cached_property
    def names(self) -> dict[Group, str]:
        """A name for each row without its budget: the agent, and model, settings and environment where they tell rows apart."""
        groups = list(self._groups)
        models: dict[str, set[str | None]] = {}
        for group in groups:
            models.setdefault(group.agent, set()).add(group.model)
        several = {name: len({getattr(group, name) for group in groups}) > 1 for name in ("settings", "env")}
        by_group = {}
        for group in groups:
            parts = [group.agent]
            parts += [str(group.model)] if len(models[group.agent]) > 1 else []
            parts += [f"{name} {value}" for name, value in json.loads(group.settings).items()] if several["settings"] else []
            parts += [group.env.removeprefix("costgym/")] if several["env"] else []
            by_group[group] = plain(", ".join(parts))
        return by_group

    @cached_property
    def labels(self) -> dict[Group, str]:
        """A name for each row with its budget."""
        budgets = {group: _budget(group, self._conditions[_view(group)].currency) for group in self._groups}
        return {group: f"{name}, {plain(budgets[group])}" for group, name in self.names.items()}

    def summary(self) -> dict[str, Any]:
        """The row of figures of one agent under one budget, as on a leaderboard: figures, `ci95`, `errors` and counts.

        Returns:
            The row; of several agents or budgets, the rows by agent and budget (``"react, 20 credits"``), in the order played.

        Raises:
            ConfigError: there are no episodes.
        """
        if not self:
            raise ConfigError("summary", "expected at least one episode, got none")
        if len(self.rows) == 1:
            return dict(next(iter(self.rows.values())))
        return {self.labels[group]: dict(row) for group, row in self.rows.items()}

    def compare(self, a: str, b: str, metric: str | None = None) -> PairedDifference:
        """Compare two agents over the episodes that both played, so that differences between worlds cancel out.

        Args:
            a, b: names of agents or, where an agent played under several budgets, names of rows as `summary` has them.
            metric: a figure of a row; by default the pass rate within the budget, under the grading that counts.

        Returns:
            `difference` (figure of `a` less that of `b`), its interval `ci95`, the `p_value` and the number of `episodes`.

        Raises:
            UnknownName: there is no such agent or metric.
            ConfigError: an agent has several rows, or the two have no episode in common.
        """
        one, other = self._row_of(a), self._row_of(b)
        conditions = self._conditions[_view(one)]
        key = REGISTRY[PASS].key_under(conditions.grading) if metric is None else metric
        return paired_difference(self._groups[one], self._groups[other], key, seed=conditions.seed, seeds=conditions.seeds)

    def _row_of(self, name: str) -> Group:
        matching = [group for group in self._groups if name in (group.agent, self.names[group], self.labels[group])]
        if not matching:
            raise UnknownName("agent of these results", name, [*dict.fromkeys(g.agent for g in self._groups)])
        if len(matching) > 1:
            labels = "; ".join(self.labels[group] for group in matching)
            raise ConfigError("comparison", f"expected the name of one row, got {name!r}, which has {len(matching)}: {labels}")
        return matching[0]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row an episode.

        Columns are the fields of `EpisodeResult`, `split`, and `outcome` (``passed``, ``failed``, ``over budget`` or ``void``).
        Limits, errors and replies have a column for each (``budget_price``, ``errors_tool``, ``status_timeout``), as have
        settings and figures of the world. Missing numbers are NaN; an error or reply that never occurred counts 0.

        Raises:
            MissingExtra: pandas is not installed.
        """
        pandas = require("pandas", "data")
        names = {name: sorted({key for r in self for key in getattr(r, name)}) for name in (*_SPREAD, "settings", "figures")}
        names["budget"] = [name for name in RESOURCES if name in names["budget"]]
        whole = [f.name for f in fields(EpisodeResult) if f.name not in names]
        columns: dict[str, list[Any]] = {
            "split": [self._conditions[_view(r)].split for r in self],
            "outcome": [outcome(r, self._conditions[_view(r)].grading) for r in self],
        }
        columns = {name: [getattr(r, name) for r in self] for name in whole} | columns
        for name, start in _SPREAD.items():
            missing = None if name == "budget" else 0
            columns |= {f"{start}{key}": [getattr(r, name).get(key, missing) for r in self] for key in names[name]}
        for name in ("settings", "figures"):  # a world names these itself: one that is a column already gets a longer name
            for key in names[name]:
                columns[f"{name}_{key}" if key in columns else key] = [getattr(r, name).get(key) for r in self]
        first = [name for name in ("agent", "model", "env", "split", "task", "episode", "seed", "outcome") if name in columns]
        frame = pandas.DataFrame({name: columns[name] for name in dict.fromkeys((*first, *columns))})
        for name in ("optimum_price", "regret"):  # a column of None alone would hold objects
            frame[name] = frame[name].astype(float)
        return frame

    @property
    def plot(self) -> Plots:
        """Figures to save as SVG, PDF or PNG: ``plot.pareto()`` and ``plot.budget_curve()``."""
        seeds = {
            group: (conditions.seed, conditions.seeds)
            for group in self._groups
            for conditions in [self._conditions[_view(group)]]
        }
        return Plots(self.names, self.rows, {conditions.currency for conditions in self.conditions.values()}, seeds)

    # -- shown -------------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """A line on what was played; of several agents or budgets also a table, and a sentence on who is ahead."""
        if len(self._groups) < 2:
            return self._line()
        return "\n".join([self._line(), *(text for env in self.conditions for text in (self._text(env), self.conclusion(env)))])

    def _line(self) -> str:
        """Agents, environments, episodes, split; of one agent successes and cost too."""
        if not self:
            return "Results(no episodes)"
        agents, envs = (dict.fromkeys(getattr(group, name) for group in self._groups) for name in ("agent", "env"))
        parts = [f"{len(self)} episode{'s' if len(self) > 1 else ''}", f"split {self.split or 'unknown'}"]
        if len(self._groups) == 1:
            episodes, conditions = next(iter(self._groups.values())), next(iter(self.conditions.values()))
            row = summarise(episodes, conditions.grading, resamples=0)
            parts.append(
                f"{written(figure(row, REGISTRY[PASS].key_under(conditions.grading)), 'rate')} % succeeded within the budget"
            )
            parts.append(f"{with_unit(written(figure(row, 'average_cost'), 'number'), conditions.currency)} an episode")
        who = f"{len(agents)} agents" if len(agents) > 1 else next(iter(agents))
        where = f"{len(envs)} environments" if len(envs) > 1 else next(iter(envs))
        return plain(f"Results({who} in {where}: {', '.join(parts)})")

    def _repr_html_(self) -> str:
        """A table for a notebook, one for each environment; names and messages of others are escaped."""
        if not self:
            return str(Markup("<p>{}</p>").format(repr(self)))
        conclusions = {env: self.conclusion(env) for env in self.conditions}
        return str(Markup("").join(self._table(env) + Markup("<p>{}</p>").format(parts) for env, parts in conclusions.items()))

    def conclusion(self, env: str | None = None) -> str:
        """Say in a sentence which agent is ahead in an environment (None: the first), at what cost, and which others are as
        good by the paired test at 5 %, adjusted after Holm; "" for a single row."""
        env = next(iter(self.conditions)) if env is None else env
        rows = {group: row for group, row in self.rows.items() if _view(group) == env}
        conditions = self._conditions[env]
        key = REGISTRY[PASS].key_under(conditions.grading)
        if len(rows) < 2:
            return ""
        names = self._viewed(env).labels
        leader, *others = sorted(rows, key=lambda group: (-(figure(rows[group], key) or 0.0), rows[group]["average_cost"]))
        text = estimate(rows[leader], key, "rate", brief).replace(" ", " % ", 1)
        parts = f"{names[leader]} has the highest success rate, {text}"
        cost = figure(rows[leader], REGISTRY["cost_per_success"].key_under(conditions.grading))
        parts += "" if cost is None else f", at {with_unit(brief(cost), conditions.currency)} a success"
        tested = {}
        for other in others:
            pair = self._groups[leader], self._groups[other]
            if {r.episode for r in pair[0] if not r.void} & {r.episode for r in pair[1] if not r.void}:
                tested[other] = paired_difference(*pair, key, seed=conditions.seed, seeds=conditions.seeds).p_value
        adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
        alike = [names[other] for other, p in adjusted.items() if p >= LEVEL]
        verdict = f"Not significantly better than {'; '.join(alike)}." if alike else "Significantly better than all others."
        return plain(f"{parts}. {verdict}" if tested else f"{parts}.")

    def _viewed(self, view: str) -> Results:
        return self._of(result for result in self if _view(result) == view)

    def _figures(self, env: str) -> tuple[dict[Group, str], list[tuple[Metric, str]]]:
        """The labels of an environment's rows, and the metrics that say something about them with their keys."""
        labels = self._viewed(env).labels
        rows = [row for group, row in self.rows.items() if group in labels]
        keys = [(m, m.key_under(self._conditions[env].grading)) for m in map(REGISTRY.__getitem__, SHOWN)]
        return labels, [(m, key) for m, key in keys if m.key in ALWAYS or any(figure(row, key) for row in rows)]

    def _text(self, env: str) -> str:
        """The table of an environment in plain text."""
        labels, metrics = self._figures(env)
        lines = [["agent, budget", "episodes", *(m.heading(self._conditions[env].currency).lower() for m, _ in metrics)]]
        for group, label in labels.items():
            row = self.rows[group]
            lines.append([label, str(row["episodes"]), *(estimate(row, key, m.kind) for m, key in metrics)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

        def aligned(line: Sequence[str]) -> str:
            numbers = (f"{text:>{width}}" for text, width in zip(line[1:], widths[1:], strict=True))
            return "  ".join([f"{line[0]:<{widths[0]}}", *numbers])

        return "\n".join(["", *map(aligned, lines), ""])

    def _table(self, env: str) -> Markup:
        conditions = self._conditions[env]
        labels, shown = self._figures(env)  # the caption names the environment
        rows = {group: row for group, row in self.rows.items() if group in labels}
        head = Markup("").join(_HEAD.format(_RIGHT, metric.meaning, metric.heading(conditions.currency)) for metric, _ in shown)
        body = Markup("").join(
            _ROW.format(labels[group], row["episodes"], Markup("").join(_cell(row, key, m.kind) for m, key in shown))
            for group, row in rows.items()
        )
        caption = (
            f"{env}, split {conditions.split or 'unknown'}, {conditions.grading} grading; 95 % intervals below the figures"
        )
        return _TABLE.format(plain(caption), head, body)


# Styles stand in the elements: a notebook has one stylesheet for all of its cells. All that is filled in is escaped.
_RIGHT = "text-align: right; padding: 0.2em 0.6em"
_HEAD = Markup('<th style="{}" title="{}">{}</th>')
_CELL = Markup(f'<td style="{_RIGHT}">{{}}{{}}</td>')
_INTERVAL = Markup('<br><small style="white-space: nowrap">{}</small>')
_ROW = Markup(
    f'<tr><th scope="row" style="text-align: left; white-space: nowrap">{{}}</th><td style="{_RIGHT}">{{}}</td>{{}}</tr>'
)
_TABLE = Markup(
    '<table class="costgym-results"><caption style="caption-side: top; text-align: left">{}</caption>'
    f'<thead><tr><th style="text-align: left">Agent, budget</th><th style="{_RIGHT}">Episodes</th>{{}}</tr></thead>'
    "<tbody>{}</tbody></table>"
)


def _cell(row: Mapping[str, Any], key: str, kind: str) -> Markup:
    shown = cell(row, key, kind)
    return _CELL.format(shown["value"], _INTERVAL.format(shown["span"]) if shown["span"] else "")


def _group(result: EpisodeResult) -> Group:
    settings = json.dumps(dict(result.settings), sort_keys=True) if result.settings else "{}"
    return Group(result.env, result.agent, result.model, tuple(result.budget.items()), settings)


def _view(one: EpisodeResult | Group) -> str:
    """What episodes share conditions by: the environment, and the scenario where the settings name one."""
    settings = json.loads(one.settings) if isinstance(one, Group) else one.settings
    return f"{one.env}, scenario {settings['scenario']}" if "scenario" in settings else one.env


def _budget(group: Group, currency: str) -> str:
    units = {"price": currency, "seconds": "s", "tokens": "tokens", "calls": "calls"}
    return ", ".join(f"{limit:,g} {units[name]}".rstrip() for name, limit in group.budget) or "unlimited"
