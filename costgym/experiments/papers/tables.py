"""Show a reproduction as tables of text: the paper's rows beside ours under each protocol, and which effects follow."""

from collections import Counter
from collections.abc import Mapping, Sequence

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


_NONE = "–"  # as `written` shows a figure that is not there
SPLIT = ("protocol", "tasks", "split", "curve")  # columns by which a table is printed in parts


def split(title: str, headings: Sequence[str], lines: Sequence[list[str]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Split a table by its protocol and the like, and by rows that have no figure in common; leave empty columns out."""
    split_columns = [column for column, heading in enumerate(headings) if heading in SPLIT]
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
