"""Show a reproduction as tables of text: the paper's rows beside ours under each protocol, and which effects follow."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from costgym.experiments.board.rows import is_simulated
from costgym.experiments.lab.papers import decisions, instructions
from costgym.experiments.lab.papers.claims import MARGIN, QUALITY_MARGIN, counted
from costgym.experiments.lab.papers.common import Row
from costgym.experiments.lab.papers.protocols import PROTOCOLS
from costgym.experiments.lab.papers.reproduce import NOTES
from costgym.experiments.play.metric_registry import figure, interval, plain, written

_SHARES = "rate"
_FIGURES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "btp": (
        ("judged_pass_rate_under_budget", "PBC %", _SHARES),
        ("average_cost", "AC", "number"),
        ("judged_pass_rate", "PR %", _SHARES),
        ("budget_failure_rate", "RFBC %", _SHARES),
        ("pass_rate_under_budget", "PBC strict %", _SHARES),
        ("pass_rate", "PR strict %", _SHARES),
        ("planned_uses", "planned uses", "number"),
        ("uses", "uses", "number"),
        ("planned_cost", "planned cost", "number"),
        ("used_cost", "used cost", "number"),
    ),
    "ecoact": (
        ("judged_pass_rate", "PR %", _SHARES),
        ("average_cost", "cost, ¢", "number"),
        ("cost_change", "change %", _SHARES),
        ("average_tokens", "tokens", "count"),
        ("registered_share", "registered %", _SHARES),
        ("pass_rate", "PR strict %", _SHARES),
    ),
    "deer": (
        ("p_no_search", "NoSearch %", _SHARES),
        ("p_search", "Search %", _SHARES),
        ("p_ds", "DS %", _SHARES),
        ("p_no_call", "NoCall %", _SHARES),
        ("p_call", "Call %", _SHARES),
        ("p_dc", "DC %", _SHARES),
    ),
    "catp": (
        ("quality_of_plan", "QoP", "signed"),
        ("score", "score", "signed"),
        ("average_cost", "price, USD", "signed"),
        ("average_seconds", "seconds", "signed"),
        ("plan_validity", "valid %", _SHARES),
    ),
    "toolplanner": (
        ("match_rate", "Match %", _SHARES),
        ("meaningful_rate", "Pass %", _SHARES),
        ("win_rate", "Win %", _SHARES),
        ("judged_pass_rate", "facts, judged %", _SHARES),
        ("pass_rate", "facts, strict %", _SHARES),
        ("tag_precision", "tags P %", _SHARES),
        ("tag_recall", "R %", _SHARES),
        ("tag_f1", "F1 %", _SHARES),
    ),
}
"""Columns of each paper's table: metric, heading, and kind as in `columns`."""


_SIDES: dict[tuple[str, str], tuple[tuple[str, str, str], ...]] = {
    ("btp", "curves"): (
        ("judged_pass_rate_under_budget", "PBC %", _SHARES),
        ("pass_rate_under_budget", "PBC strict %", _SHARES),
        ("average_cost", "AC", "number"),
    ),
    ("btp", "differences"): (
        ("judged_pass_rate_under_budget", "PBC, points", _SHARES),
        ("pass_rate_under_budget", "PBC strict, points", _SHARES),
        ("judged_pass_rate", "PR, points", _SHARES),
        ("pass_rate", "PR strict, points", _SHARES),
        ("average_cost", "AC", "number"),
        ("budget_failure_rate", "RFBC, points", _SHARES),
    ),
    ("ecoact", "curves"): (("registered_share", "registered %", _SHARES),),
    ("toolplanner", "differences"): (
        ("match_rate", "Match, points", _SHARES),
        ("meaningful_rate", "Pass, points", _SHARES),
        ("win_rate", "Win, points", _SHARES),
        ("judged_pass_rate", "facts, judged, points", _SHARES),
        ("pass_rate", "facts, strict, points", _SHARES),
    ),
}
"""Columns where they differ from those of the paper's table."""
_GROUPS = ("protocol", "tasks", "alpha", "group", "split", "level", "curve", "at", "R")


def tables(name: str, found: Mapping[str, Sequence[Row]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Format the result of `reproduce` as tables of text: title, headings, rows. Effects are not included."""
    made = []
    for side in ("paper", "ours", "differences", "curves"):
        rows = found.get(side, [])
        columns = _SIDES.get((name, side), _FIGURES[name])
        shown = [column for column in columns if any(figure(row, column[0]) is not None for row in rows)]
        keys = [key for key in _GROUPS if any(key in row for row in rows)]
        headings = [*keys, "agent", *[title for _, title, _ in shown]]
        lines = [
            [*[_group(row, key) for key in keys], plain(row["agent"]), *[_cell(row, metric, kind) for metric, _, kind in shown]]
            for row in rows
        ]
        if rows:
            made.append((f"{name}: {side}", headings, lines))
    return made


def effect_lines(effects: Sequence[Row]) -> list[list[str]]:
    """Format effects as rows of text: protocol, claim, grading, measured value, and whether the claim holds."""
    return [
        [*map(plain, (row.get("protocol", ""), row["claim"], row["grading"] or "–", row["measured"])), _beside(row), _said(row)]
        for row in effects
    ]


def _beside(row: Row) -> str:
    """Both levels and their differences, how far ours is from the paper's, and the two-sided test."""
    if "paper" not in row:
        return "–"
    digits = 3 if max(map(abs, row["paper_levels"])) <= 1 else 1
    (base, ours), here = row["paper_levels"], row.get("levels")
    levels = f": {base:.{digits}f} to {ours:.{digits}f}; here {here[0]:.{digits}f} to {here[1]:.{digits}f}" if here else ""
    spreads = f", {row['spreads']:+.1f} spreads" if "spreads" in row else ""
    return f"{row['paper']:+.{digits}f}{levels} ({row['distance']:+.{digits}f}{spreads}: {row['two_sided']})"


def _said(row: Row) -> str:
    return "by construction" if row["by_construction"] else "yes" if row["follows"] else "DOES NOT FOLLOW"


EFFECT_HEADINGS = ("protocol", "claim", "grading", "measured", "paper and here (distance: two-sided)", "follows")


def print_reproduction(name: str, found: Mapping[str, Sequence[Row]], console: Console) -> None:
    """Print the paper's table, our table with 95 % intervals, and whether each effect follows. A table has one protocol and one
    kind of tasks. Where it is wider than the console, it is printed without intervals, and where that is not enough, in
    parts."""
    cut = False
    for title, headings, lines in tables(name, found):
        for part, own_headings, own in _split(title, headings, lines):
            cut |= _print_table(part, own_headings, own, console)
        rows = found[title.rpartition(" ")[2]]
        for source in dict.fromkeys(row["source"] for row in rows if "source" in row):
            console.print(f"source: {source}", style="dim", highlight=False)
        if any(is_simulated(row) for row in rows):
            console.print("ours: simulated model; compare effects, not absolute values", style="dim", highlight=False)
    if found.get("effects"):
        for title, headings, lines in _split(f"{name}: effects", EFFECT_HEADINGS, effect_lines(found["effects"])):
            table = Table(*headings, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for line in lines:
                table.add_row(*line)
            console.print(table)
        console.print(verdict(found["effects"]), highlight=False)
    console.print(notes(name, found), style="dim", highlight=False)
    if cut:
        console.print("Intervals: on the page of --out, with --json, or on a wider terminal.", style="dim", highlight=False)


_NONE = "–"  # as `written` shows a figure that is not there
_SPLIT = ("protocol", "tasks", "split", "curve")  # columns by which a table is printed in parts
_GAP, _NAME = 2, 14  # characters between columns, and least of an agent's name


def _split(title: str, headings: Sequence[str], lines: Sequence[list[str]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Split a table by its protocol and the like, and by rows that have no figure in common; leave empty columns out."""
    places = [place for place, heading in enumerate(headings) if heading in _SPLIT]
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    figures = headings.index("agent") + 1 if "agent" in headings else 0
    # Rows that share no filled column, such as agents and retrievers, are tables of their own: the sets of columns that some
    # row fills together are merged until none overlap.
    filled: list[frozenset[int]] = []
    for line in lines if figures else ():
        own = frozenset(place for place in range(figures, len(line)) if line[place] != _NONE)
        own = own.union(*(each for each in filled if each & own))
        filled = [*(each for each in filled if not each & own), own]
    for line in lines:
        kind = next((n for n, each in enumerate(filled) if any(line[place] != _NONE for place in each)), 0)
        groups.setdefault((*(line[place] for place in places), str(kind)), []).append(line)
    found = []
    for key, own_lines in groups.items():
        kept = [
            place
            for place in range(len(headings))
            if place not in places and any(line[place] not in ("", _NONE) for line in own_lines)
        ]
        said = ", ".join([title, *filter(None, key[:-1])])
        found.append((said, [headings[place] for place in kept], [[line[place] for place in kept] for line in own_lines]))
    return found


def _print_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], console: Console) -> bool:
    """Print a table of figures within the console's width; return whether intervals were left out."""

    def widths(rows: Sequence[Sequence[str]]) -> list[int]:
        words = [max(map(len, heading.split())) for heading in headings]
        return [max(word, *(len(row[place]) for row in rows)) for place, word in enumerate(words)]

    names, most = headings.index("agent"), console.width
    shown, wide = lines, widths(lines)
    cut = sum(wide) + _GAP * (len(wide) - 1) > most and any(" [" in cell for line in lines for cell in line)
    if cut:
        shown = [[*line[: names + 1], *(cell.partition(" [")[0] for cell in line[names + 1 :])] for line in lines]
        wide = widths(shown)
    keys = list(range(names + 1))
    columns = list(range(names + 1, len(headings)))
    least = sum(wide[place] for place in keys[:-1]) + min(wide[names], _NAME) + _GAP * names
    while columns:
        part = [columns.pop(0)]
        used = least + _GAP + wide[part[0]]
        while columns and used + _GAP + wide[columns[0]] <= most:
            used += _GAP + wide[columns[0]]
            part.append(columns.pop(0))
        table = Table(
            title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        for place in (*keys, *part):
            width = min(wide[names], most - used + min(wide[names], _NAME)) if place == names else wide[place]
            table.add_column(headings[place], width=width, overflow="fold", justify="left" if place <= names else "right")
        for line in shown:
            table.add_row(*(line[place] for place in (*keys, *part)))
        console.print(table)
        console.print()
    return cut


def verdict(effects: Sequence[Row]) -> str:
    """Return sentences with the number of effects that follow under each protocol, those by construction left out."""
    said = []
    for protocol in dict.fromkeys(str(row.get("protocol", "")) for row in effects):
        own = [row for row in effects if str(row.get("protocol", "")) == protocol]
        claims = counted(own)
        following = sum(row["follows"] for row in claims)
        under = f"Under the {protocol} protocol " if protocol else ""
        built = sum(row["by_construction"] for row in own)
        beyond = len(own) - built - len(claims)
        left_out = [f"{built} are so by construction"] * (built > 0) + [f"{beyond} are not claims of the paper"] * (beyond > 0)
        rest = f" ({' and '.join(left_out)}, and not counted)" if left_out else ""
        said.append(f"{under}{following} of {len(claims)} effects follow; {len(claims) - following} do not{rest}.")
        tests = Counter(row["two_sided"] for row in claims if "two_sided" in row)
        if tests:
            counts = ", ".join(f"{tests[name]} {name}" for name in ("same", "larger", "smaller", "open") if tests[name])
            within = f"{QUALITY_MARGIN:g}" if any("Quality" in row["claim"] for row in claims) else f"{MARGIN:g} points"
            said.append(f"Beside the paper's differences, within {within}: {counts}.")
    return " ".join(said)


def notes(name: str, found: Mapping[str, Sequence[Row]]) -> str:
    """Return what is particular to a reproduction: its protocols, its past uses, and how its figures are counted."""
    said = [f"{protocol.name.capitalize()} protocol: {protocol.summary}." for protocol in PROTOCOLS.get(name, ())]
    for row in found.get("experience", ())[:1]:
        said.append(
            f"BTP plans from {row['uses']:,} past uses in {row['queries']:,} train queries, {row['uses_per_tool']:.0f} a tool."
        )
    said.append(NOTES[name])
    trained = {"deer": decisions.TRAINED, "toolplanner": instructions.TRAINED}.get(name)
    if trained and not any(row["agent"] == trained for row in found.get("ours", ())):
        said.append(f"The row of {trained} is left out: it needs the extra `train` (torch), which is not installed.")
    return " ".join(said)


def _group(row: Row, key: str) -> str:
    value = row.get(key, "")
    return f"{value:g}" if isinstance(value, float) else plain(value)


def _cell(row: Row, metric: str, kind: str) -> str:
    text, ends = written(figure(row, metric), kind), interval(row, metric)
    return text if ends is None else f"{text} [{written(ends[0], kind)}, {written(ends[1], kind)}]"
