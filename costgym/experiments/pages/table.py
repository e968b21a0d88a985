"""The leaderboard in a terminal, and as Markdown, TSV, CSV or JSON."""

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from costgym.envs.registration import class_of
from costgym.experiments.board.conditions import (
    OWN_LIMITS,
    PASS_RATE,
    budget_label,
    by_condition,
    condition_label,
    currency_of,
    grading_of,
    rank_rows,
    settings_of,
)
from costgym.experiments.board.rows import (
    MAX_REASONS,
    SIMULATED,
    UNMETERED,
    badge,
    best,
    blocks,
    claim_text,
    columns_of,
    is_metered,
    is_ranked,
    is_reference,
    is_simulated,
    is_void,
    metrics_of,
    reasons,
    shown_name,
    tracks_in_order,
)
from costgym.experiments.board.tracks import TRACKS
from costgym.experiments.pages.agent_notes import judge_note
from costgym.experiments.pages.answers import answer_first
from costgym.experiments.play.metric_registry import REGISTRY, Metric, Row, estimate, figure, interval, plain, unit_of, written
from costgym.simulators.files import json_text

ALWAYS_SHOWN = {
    PASS_RATE: {PASS_RATE, "cost_per_success", "budget_failure_rate"},
    "quality_of_plan": {"quality_of_plan", "score", "average_cost"},
    "value_share": {"value_share", "average_cost"},
}
"""The columns that the narrowest terminal shows, by the metric that ranks."""
_GRADINGS = {"strict": "strict", "judge": "judge (a seeded stand-in)"}
_APART = {
    SIMULATED: "with a simulated language model",
    UNMETERED: "unmetered: tokens as the agents report them",
}
MIN_NAME = 12  # characters of an agent's name
GAP = 2  # between columns
RANK = 2 + GAP
UNLIMITED = 10**6  # characters of a line


def print_table(leaderboard: Mapping[str, Any], console: Console, wide: bool = False) -> None:
    """Print a leaderboard track by track, as `print_track` does."""
    epoch = leaderboard.get("epoch")
    luck = f"seed {leaderboard.get('seed')}" if not isinstance(epoch, Mapping) else f"epoch {epoch.get('name')}"
    about = plain(f"suite {leaderboard.get('suite')}, {luck}")
    console.print(Text.assemble(("costgym leaderboard", "bold"), (f"  {about}", "dim")))
    tracks = tracks_in_order(leaderboard)
    answers = {}
    for track in tracks:
        if len(tracks) > 1:
            console.print(Text(f"\n{TRACKS[track['track']].title}", style="bold underline"))
        answers[track.get("track")] = print_track(track, console, wide)
    if len(tracks) > 1:
        console.print()
        for name, sentence in answers.items():
            if sentence:
                console.print(Text.assemble((TRACKS[str(name)].title, "bold"), f"  {sentence}"))


def markdown_of(leaderboard: Mapping[str, Any], wide: bool = False) -> str:
    """Write a leaderboard as Markdown: a table for each track and condition, with few columns, or all if it may be wide."""
    parts = []
    for track in tracks_in_order(leaderboard):
        table = _TrackTable(track, UNLIMITED if wide else 0)
        heading = TRACKS[track["track"]].title if "track" in track else ""
        for group in table.groups:
            title = ", ".join(filter(None, (heading, table.condition(group))))
            parts.append(f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in table.markdown(group)))
    return "\n\n".join(parts) + "\n"


def text_of(leaderboard: Mapping[str, Any], format: str, wide: bool = False) -> str:
    """Write a leaderboard for a pipe: as `tsv`, `markdown` or `json`."""
    if format == "markdown":
        return markdown_of(leaderboard, wide)
    return csv_of(leaderboard, "\t") if format == "tsv" else json_text(leaderboard)


def csv_of(leaderboard: Mapping[str, Any], delimiter: str = ",") -> str:
    """Write the rows of all tracks for spreadsheets: a column for each limit, setting, figure, and end of an interval."""
    rows = rank_rows(leaderboard.get("rows") or [], leaderboard)
    limits = sorted({name for row in rows for name in row.get("budget") or {}})
    varied = [settings_of(row, leaderboard) for row in rows]
    settings = sorted({name for row_settings in varied for name in row_settings})
    figures = [key for key in REGISTRY if any(figure(row, key) is not None for row in rows)]
    ends = [key for key in figures if any(interval(row, key) for row in rows)]
    about = ("track", "agent", "model", "env", "grading", "verified")
    text = io.StringIO()
    lines = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    spans = [f"{key}_{end}" for key in ends for end in ("low", "high")]
    lines.writerow([*about, *(f"budget_{name}" for name in limits), *settings, "episodes", *figures, *spans])
    for row, row_settings in zip(rows, varied, strict=True):
        cells = [row.get(name) for name in about] + [(row.get("budget") or {}).get(name) for name in limits]
        cells += [row_settings.get(name) for name in settings] + [row.get("episodes")]
        cells += [figure(row, key) for key in figures]
        cells += [end for key in ends for end in interval(row, key) or ("", "")]
        lines.writerow([_harmless(value) if isinstance(value, str) else value for value in cells])
    return text.getvalue()


def _harmless(text: str) -> str:
    """Keep a spreadsheet from taking a name for a formula."""
    return f"'{plain(text)}" if text[:1] in ("=", "+", "-", "@") else plain(text)


def print_row(row: Row, console: Console, world: Mapping[str, Any]) -> None:
    """Print the figures of one agent, a metric a line, with their 95 % intervals, in the world's currency."""
    currency = str(world.get("currency") or "USD")
    own_limits = not row["budget"] and class_of(row["env"]).computes_limits
    budget = OWN_LIMITS if own_limits else budget_label(row["budget"], currency)
    about = (f"{row['env']}", str(world.get("name") or ""), budget, f"{row['episodes']} episodes", f"{row['grading']} grading")
    console.print(Text.assemble((plain(row["agent"]), "bold"), (f"  {plain(' · '.join(filter(None, about)))}", "dim")))
    for metric in metrics_of(row):
        key = metric.key_under(row["grading"])
        if figure(row, key) is not None:
            value, _, ends = estimate(row, key, metric.kind).partition(" ")
            line = Text(f"{metric.heading(currency):28}{value:>10}").append(f" {ends}", style="dim")
            console.print(line, no_wrap=True, crop=False, overflow="ignore")


def print_track(leaderboard: Mapping[str, Any], console: Console, wide: bool = False) -> str:
    """Print the rows of a leaderboard or of one track, one block a condition, best first and the best figure of each column
    bold. A wide terminal shows more columns; a narrow one shortens names, never numbers. A bound has no rank. Returns the
    answer in the first line: the agent to take."""
    table = _TrackTable(leaderboard, UNLIMITED if wide else console.width)
    first = answer_first(leaderboard)
    answer = "" if first is None else first.sentence
    if answer:
        console.print(Text(answer))
    console.print(table.about())
    if not table.rows:
        console.print("no rows yet")
        return answer
    for group in table.groups:
        console.print(Text(f"\n{table.condition(group)}", style="italic"))
        for line in table.lines(group):
            console.print(line, no_wrap=True, crop=False, overflow="ignore")
    console.print()
    for note in table.notes():
        console.print(Text(plain(note), style="dim"))
    return answer


class _TrackTable:
    """The rows of one track, by condition and best first, and the columns that fit into `width` characters beside the names."""

    def __init__(self, track: Mapping[str, Any], width: int) -> None:
        self.track, self.width = track, width
        self.rows: Sequence[Row] = track.get("rows") or []
        self.grading = grading_of(self.rows)
        self.groups = by_condition(self.rows, track, self.grading)
        self.names = {id(row): _name(row) for row in self.rows}
        self.longest_name = max(map(len, self.names.values()), default=0)
        self.columns = self._fitting() if self.rows else []

    def _fitting(self) -> list[tuple[Metric, str, int]]:
        """The columns in the leaderboard's order: metric, heading and width in characters."""
        columns = []
        for metric in columns_of(self.track):
            heading, key = metric.heading(), metric.key_under(self.grading)
            figures = (written(figure(row, key), metric.kind) for row in self.rows)
            columns.append((metric, heading, max(len(heading), *map(len, figures))))
        always = ALWAYS_SHOWN[columns[0][0].key]
        shown = {metric.key for metric, _, _ in columns if metric.key in always}
        used = RANK + self.longest_name + sum(GAP + size for metric, _, size in columns if metric.key in shown)
        for metric, _, size in columns:
            if metric.key not in shown and used + GAP + size <= self.width:
                shown.add(metric.key)
                used += GAP + size
        return [column for column in columns if column[0].key in shown]

    def condition(self, group: Sequence[Row]) -> str:
        """The condition of a group as text."""
        return condition_label(group[0], self.track)

    def lines(self, group: Sequence[Row]) -> Iterator[Text]:
        """The heading and the rows of a condition, aligned."""
        room = max(MIN_NAME, self.width - RANK - sum(GAP + size for _, _, size in self.columns))
        room = min(room, self.longest_name)
        heading = Text(f"{'#':>{RANK - GAP}}{'':{GAP}}{'Agent':{room}}")
        for _, title, size in self.columns:
            heading.append(f"{'':{GAP}}{title:>{size}}")
        heading.stylize("bold underline")
        yield heading
        for rank, row, cells in self._cells(group):
            if row is None:
                yield Text(f"{'':{RANK}}{rank}", style="dim italic")
                continue
            quiet = "" if is_ranked(row) else "dim"
            line = Text(f"{rank:>{RANK - GAP}}{'':{GAP}}", style=quiet)
            name = self.names[id(row)].copy()
            name.truncate(room, overflow="ellipsis", pad=True)
            line.append_text(name)
            for (value, is_best), (_, _, size) in zip(cells, self.columns, strict=True):
                line.append(f"{'':{GAP}}{'':{size - len(value)}}")
                line.append(value, style="bold" if is_best else quiet)
            yield line

    def markdown(self, group: Sequence[Row]) -> Iterator[list[str]]:
        """The cells of the heading and the rows of a condition."""
        yield ["#", "Agent", *(heading for _, heading, _ in self.columns)]
        yield ["--:", ":--", *["--:"] * len(self.columns)]
        for rank, row, cells in self._cells(group):
            if row is not None:
                shown = (f"**{value}**" if bold else value for value, bold in cells)
                name = re.sub(r"([\\`*_\[\]<|])", r"\\\1", self.names[id(row)].plain + " simulated" * is_simulated(row))
                yield [f"{'' if is_metered(row) else 'u'}{rank}" if rank != "–" else rank, name, *shown]

    def _cells(self, group: Sequence[Row]) -> Iterator[tuple[str, Row | None, list[tuple[str, bool]]]]:
        """Rank, row and figures with whether each is the best; before rows that are ranked apart, their heading and no row."""
        for kind, block in blocks(group):
            if kind in _APART:
                yield _APART[kind], None, []
            ranks = itertools.count(1)
            for row in block:
                cells = []
                for metric, _, _ in self.columns:
                    key = metric.key_under(self.grading)
                    value = figure(row, key)
                    leads = value is not None and is_ranked(row) and is_metered(row) and value == best(group, metric, key)
                    cells.append((written(value, metric.kind), leads))
                yield str(next(ranks)) if is_ranked(row) else "–", row, cells

    def about(self) -> Text:
        """Number of episodes, grading and unit of cost."""
        counts = sorted({row.get("episodes", 0) for row in self.rows})
        episodes = "" if not counts else " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) + " episodes a row"
        unit = unit_of(currency_of(self.track))
        cost = "" if not unit else "cost in cents (¢)" if unit == "¢" else f"cost in {unit}"
        return Text(plain(" · ".join(filter(None, (episodes, f"{_GRADINGS[self.grading]} grading", cost)))), style="dim")

    def notes(self) -> list[str]:
        """What a reader has to know about some of the rows, a sentence each."""
        rows, notes = self.rows, []
        if any(is_simulated(row) for row in rows):
            notes.append("simulated: a language model without weights; its figures say nothing about a real one")
        if any(badge(row) for row in rows):
            notes.append(
                "replayed: recorded episodes of a trained agent, replayed here from their actions; --play-zoo plays it"
            )
        if any(is_reference(row) for row in rows):
            notes.append("–: a bound, not ranked; it reads what the world hides")
        if note := judge_note(self.track):
            notes.append(f"model judge: {note}; no rank depends on it")
        past = self.track.get("experience")
        if isinstance(past, Mapping):
            notes.append(
                f"BTP plans from {past['uses']:,} past uses ({past['uses_per_tool']:.0f} a tool) in {past['queries']:,} train "
                f"queries, explored by {past['explorer']}"
            )
        broken = [str(row.get("agent")) for row in rows if is_void(row)]
        if broken:
            notes.append(
                f"{', '.join(dict.fromkeys(broken))}: no episode could be played (infrastructure failures); not ranked"
            )
        if void := sum(int(row.get("void_episodes") or 0) for row in rows):
            notes.append(f"{void} void episodes (infrastructure failures) are left out of every figure")
            notes += [f"void: {reason}" for reason in reasons(rows)[:MAX_REASONS]]
        if crashed := sum(int(row.get("crashed_episodes") or 0) for row in rows):
            notes.append(f"{crashed} episodes count as failures because the agent's own code crashed")
            notes += [f"crash: {reason}" for reason in reasons(rows, "crash_reasons")[:1]]
        return notes


def _name(row: Row) -> Text:
    """The agent's name, and in dim letters what its figures rest on."""
    name = Text(plain(shown_name(row)), style="" if is_ranked(row) else "dim")
    if badge(row):
        name.append(f" {badge(row)}", style="dim italic")
    elif row.get("model") and not is_simulated(row):  # a heading says that these are simulated
        name.append(f" {plain(row['model'])}", style="dim")
    if row.get("isolated") is False:
        name.append(" not isolated", style="dim italic")
    if isinstance(row.get("rerun"), Mapping):
        name.append(f" {claim_text(row['rerun'])}", style="dim")
    return name
