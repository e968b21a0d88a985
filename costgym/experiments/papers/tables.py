"""Show a reproduction as tables of text: the paper's rows beside ours under each protocol, and which effects follow."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from costgym.experiments.board.rows import is_simulated
from costgym.experiments.papers.claims import MARGIN, QUALITY_MARGIN, counted
from costgym.experiments.papers.paper import Paper, Row
from costgym.experiments.play.metric_registry import estimate, figure, plain

GROUPS = ("protocol", "tasks", "alpha", "group", "split", "level", "curve", "at", "R")  # entries that tell rows apart
EFFECT_HEADINGS = ("protocol", "claim", "grading", "measured", "paper and here (distance: two-sided)", "follows")


def tables(paper: Paper, rows_by_table: Mapping[str, Sequence[Row]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Format the result of `reproduce` as tables of text: title, headings, rows. Effects are not included."""
    texts = []
    for table in ("paper", "ours", "differences", "curves"):
        rows = rows_by_table.get(table, [])
        columns = paper.other_columns.get(table, paper.columns)
        shown = [column for column in columns if any(figure(row, column[0]) is not None for row in rows)]
        keys = [key for key in GROUPS if any(key in row for row in rows)]
        headings = [*keys, "agent", *[title for _, title, _ in shown]]
        lines = [
            [
                *[_group(row, key) for key in keys],
                plain(row["agent"]),
                *[estimate(row, metric, kind) for metric, _, kind in shown],
            ]
            for row in rows
        ]
        if rows:
            texts.append((f"{paper.name}: {table}", headings, lines))
    return texts


def effect_lines(effects: Sequence[Row]) -> list[list[str]]:
    """Format effects as rows of text: protocol, claim, grading, measured value, and whether the claim holds."""
    return [
        [
            *map(plain, (row.get("protocol", ""), row["claim"], row["grading"] or "–", row["measured"])),
            _beside(row),
            "by construction" if row["by_construction"] else "yes" if row["follows"] else "DOES NOT FOLLOW",
        ]
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


def print_reproduction(paper: Paper, rows_by_table: Mapping[str, Sequence[Row]], console: Console) -> None:
    """Print the paper's table, our table with 95 % intervals, and whether each effect follows. A table has one protocol and one
    kind of tasks. Where it is wider than the console, it is printed without intervals, and where that is not enough, in
    parts."""
    cut = False
    for title, headings, lines in tables(paper, rows_by_table):
        for part, part_headings, part_lines in _split(title, headings, lines):
            cut |= _print_table(part, part_headings, part_lines, console)
        rows = rows_by_table[title.rpartition(" ")[2]]
        for source in dict.fromkeys(row["source"] for row in rows if "source" in row):
            console.print(f"source: {source}", style="dim", highlight=False)
        if any(is_simulated(row) for row in rows):
            console.print("ours: simulated model; compare effects, not absolute values", style="dim", highlight=False)
    effects = rows_by_table.get("effects", ())
    if effects:
        for title, headings, lines in _split(f"{paper.name}: effects", EFFECT_HEADINGS, effect_lines(effects)):
            table = Table(*headings, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for line in lines:
                table.add_row(*line)
            console.print(table)
        console.print(verdict(effects), highlight=False)
    console.print(notes(paper, rows_by_table), style="dim", highlight=False)
    if cut:
        console.print("Intervals: on the page of --out, with --json, or on a wider terminal.", style="dim", highlight=False)


_NONE = "–"  # as `written` shows a figure that is not there
_SPLIT = ("protocol", "tasks", "split", "curve")  # columns by which a table is printed in parts
_GAP, _NAME = 2, 14  # characters between columns, and least of an agent's name


def _split(title: str, headings: Sequence[str], lines: Sequence[list[str]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Split a table by its protocol and the like, and by rows that have no figure in common; leave empty columns out."""
    split_columns = [column for column, heading in enumerate(headings) if heading in _SPLIT]
    first_figure = headings.index("agent") + 1 if "agent" in headings else 0
    # Rows that share no filled column, such as agents and retrievers, are tables of their own: the sets of columns that some
    # row fills together are merged until none overlap.
    filled: list[frozenset[int]] = []
    for line in lines if first_figure else ():
        columns = frozenset(column for column in range(first_figure, len(line)) if line[column] != _NONE)
        columns = columns.union(*(other for other in filled if other & columns))
        filled = [*(other for other in filled if not other & columns), columns]
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for line in lines:
        kind = next((n for n, columns in enumerate(filled) if any(line[column] != _NONE for column in columns)), 0)
        groups.setdefault((*(line[column] for column in split_columns), str(kind)), []).append(line)
    parts = []
    for (*values, _), group in groups.items():
        shown = [
            column
            for column in range(len(headings))
            if column not in split_columns and any(line[column] not in ("", _NONE) for line in group)
        ]
        name = ", ".join([title, *filter(None, values)])
        parts.append((name, [headings[column] for column in shown], [[line[column] for column in shown] for line in group]))
    return parts


def _print_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], console: Console) -> bool:
    """Print a table of figures within the console's width; return whether intervals were left out."""

    def widths(rows: Sequence[Sequence[str]]) -> list[int]:
        words = [max(map(len, heading.split())) for heading in headings]
        return [max(word, *(len(row[column]) for row in rows)) for column, word in enumerate(words)]

    names, most = headings.index("agent"), console.width
    shown, width = lines, widths(lines)
    cut = sum(width) + _GAP * (len(width) - 1) > most and any(" (" in cell for line in lines for cell in line[names + 1 :])
    if cut:
        shown = [[*line[: names + 1], *(cell.partition(" (")[0] for cell in line[names + 1 :])] for line in lines]
        width = widths(shown)
    keys = list(range(names + 1))
    left = list(range(names + 1, len(headings)))
    least = sum(width[column] for column in keys[:-1]) + min(width[names], _NAME) + _GAP * names
    while left:
        part = [left.pop(0)]
        used = least + _GAP + width[part[0]]
        while left and used + _GAP + width[left[0]] <= most:
            used += _GAP + width[left[0]]
            part.append(left.pop(0))
        table = Table(
            title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        for column in (*keys, *part):
            room = min(width[names], most - used + min(width[names], _NAME)) if column == names else width[column]
            table.add_column(headings[column], width=room, overflow="fold", justify="left" if column <= names else "right")
        for line in shown:
            table.add_row(*(line[column] for column in (*keys, *part)))
        console.print(table)
        console.print()
    return cut


def verdict(effects: Sequence[Row]) -> str:
    """Return sentences with the number of effects that follow under each protocol, those by construction left out."""
    sentences = []
    for protocol in dict.fromkeys(str(row.get("protocol", "")) for row in effects):
        rows = [row for row in effects if str(row.get("protocol", "")) == protocol]
        claims = counted(rows)
        following = sum(row["follows"] for row in claims)
        under = f"Under the {protocol} protocol " if protocol else ""
        built = sum(row["by_construction"] for row in rows)
        beyond = len(rows) - built - len(claims)
        left_out = [f"{built} are so by construction"] * (built > 0) + [f"{beyond} are not claims of the paper"] * (beyond > 0)
        rest = f" ({' and '.join(left_out)}, and not counted)" if left_out else ""
        sentences.append(f"{under}{following} of {len(claims)} effects follow; {len(claims) - following} do not{rest}.")
        tests = Counter(row["two_sided"] for row in claims if "two_sided" in row)
        if tests:
            counts = ", ".join(f"{tests[name]} {name}" for name in ("same", "larger", "smaller", "open") if tests[name])
            within = f"{QUALITY_MARGIN:g}" if any("Quality" in row["claim"] for row in claims) else f"{MARGIN:g} points"
            sentences.append(f"Beside the paper's differences, within {within}: {counts}.")
    return " ".join(sentences)


def notes(paper: Paper, rows_by_table: Mapping[str, Sequence[Row]]) -> str:
    """Return what is particular to a reproduction: its protocols, its past uses, and how its figures are counted."""
    sentences = [f"{protocol.name.capitalize()} protocol: {protocol.summary}." for protocol in paper.protocols]
    for row in rows_by_table.get("experience", ())[:1]:
        sentences.append(
            f"BTP plans from {row['uses']:,} past uses in {row['queries']:,} train queries, {row['uses_per_tool']:.0f} a tool."
        )
    sentences.append(paper.note)
    if paper.trained and not any(row["agent"] == paper.trained for row in rows_by_table.get("ours", ())):
        sentences.append(f"The row of {paper.trained} is left out: it needs the extra `train` (torch), which is not installed.")
    return " ".join(sentences)


def _group(row: Row, key: str) -> str:
    value = row.get(key, "")
    return f"{value:g}" if isinstance(value, float) else plain(value)
