"""The site's pages in HTML, but for the ranking, which `page` writes.

Every name is escaped here; the scripts write text nodes only.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...leaderboard.metric_columns import figure, interval, is_reference, is_simulated, written
from ...leaderboard.store.runs import Entry, Run, condition, outcome
from ...metrics import EpisodeResult
from ..leaderboard_page import _template
from ..learning_curves import CURVES_NOTE, curves_of_agent, figures_css
from .tables import Comparison, figures_table, framed, heads, p_text, points, text

POLICY = "default-src 'none'; style-src 'self' file: 'unsafe-inline'; script-src 'self' file:"
OUTCOMES = ("passed", "failed", "over budget", "void")
_SLOT = re.compile(r"\[\[(\w+)\]\]")


def title_of(run: Run) -> str:
    """A run in a few words."""
    document = run.document
    scenario = document.get("scenario") or {}
    return f"{document.get('suite', '')}, {scenario.get('name', '')}, seed {document.get('seed', '')}"


def slug(name: object, key: object = "") -> str:
    """A name as part of a file's name: readable, and its own even where others read alike."""
    words = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")[:40]
    return f"{words or 'x'}-{hashlib.blake2b(repr((name, key)).encode('utf-8', 'surrogatepass'), digest_size=3).hexdigest()}"


def agent_file(row: Mapping[str, Any]) -> str:
    """The page of the agent of a row."""
    return f"agent-{slug(row.get('agent'), row.get('model'))}.html"


def navigation(here: str, prefix: str, several: bool) -> str:
    """The bar on top: where one is and where one can go."""
    links = [(f"{prefix}index.html", "All runs")] if several else []
    links += [("index.html", "Ranking"), ("episodes.html", "Episodes")]
    items = "".join(
        f'<li><a href="{href}"{current}>{name}</a></li>'
        for href, name in links
        for current in (' aria-current="page"' if name == here else "",)
    )
    return f'<nav class="bar" aria-label="Site"><ul>{items}</ul></nav>'


def whole(page: str, title: str, bar: str, body: str, assets: str, scripts: Sequence[str], styles: str = "") -> str:
    """A document.

    Args:
        page: its kind, for its scripts.
        title: its heading in the browser.
        bar: navigation.
        body: header and main, in HTML.
        assets: where style and scripts lie.
        scripts: that it needs, besides the common one.
        styles: CSS that it needs, besides the common one.
    """
    slots = {
        "policy": POLICY,
        "title": text(title),
        "page": page,
        "bar": bar,
        "body": body,
        "assets": assets,
        "scripts": "\n".join(f'<script src="{name}" defer></script>' for name in scripts),
        "styles": f"\n<style>\n{styles}\n</style>" if styles else "",
        "footer": "The same results give the same pages. Nothing here asks anything of the network.",
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], _template("site.html")) + "\n"


def runs_page(listed: Sequence[tuple[str, Run]], assets: str) -> str:
    """The list of runs, each with where its pages are."""
    rows = []
    for folder, run in listed:
        ranked = [entry.row for entry in run.entries if not is_reference(entry.row)]
        first = max(ranked, key=lambda row: figure(row, "pass_rate_under_budget") or 0.0, default=None)
        best = "–"
        if first is not None:
            best = f"{text(first['agent'])}, {written(figure(first, 'pass_rate_under_budget'), 'rate')} %"
        about = text((run.document.get("scenario") or {}).get("description", ""))
        played = sum(int(entry.row.get("episodes") or 0) for entry in run.entries)
        rows.append(
            f'<tr><th scope="row"><a href="{folder}/index.html">{text(title_of(run))}</a><small>{about}</small></th>'
            f'<td class="figure">{len(run.entries)}</td><td class="figure">{played:,}</td><td>{best}</td>'
            f"<td>{text(run.document.get('version', ''))}</td></tr>"
        )
    head = f"<tr>{heads('Run', '>Entries', '>Episodes', 'Best in budget', 'Version')}</tr>"
    body = (
        '<main id="content"><header><h1>Results</h1><p class="lede">Leaderboards of tool-using agents under budgets, '
        "each with every episode behind it.</p></header>"
        + framed(head, "".join(rows), 'aria-label="Runs"', "plain-table runs")
        + "</main>"
    )
    here = '<li><a href="index.html" aria-current="page">All runs</a></li>'
    return whole("runs", "costgym results", f'<nav class="bar" aria-label="Site"><ul>{here}</ul></nav>', body, assets, [])


def episodes_page(run: Run, bar: str, assets: str) -> str:
    """The list of episodes; the script fills it."""
    return whole(
        "episodes",
        f"Episodes: {title_of(run)}",
        bar,
        _template("site-episodes.html"),
        assets,
        ["data/run.js", f"{assets}/episodes.js"],
    )


def episode_page(run: Run, bar: str, assets: str) -> str:
    """The viewer; the script shows the episode that the address names."""
    return whole(
        "episode",
        f"Episode: {title_of(run)}",
        bar,
        _template("site-episode.html"),
        assets,
        ["data/run.js", f"{assets}/gantt.js", f"{assets}/episode.js"],
    )


def agent_page(
    run: Run,
    group: Sequence[Entry],
    results: Mapping[str, Sequence[EpisodeResult]],
    compared: Mapping[tuple[str, str], Comparison],
    replayed: Mapping[str, tuple[int, int]],
    bar: str,
    assets: str,
) -> str:
    """One agent under all budgets.

    Args:
        run: its run.
        group: its entries, tightest budget first.
        results: every entry's episodes.
        compared: comparisons with other agents, by the ids of both entries.
        replayed: of every entry, how many episodes were replayed for the site, and how many of them agreed with their record.
        bar, assets: as in `whole`.
    """
    row = group[0].row
    agent = str(row["agent"])
    kind = "a bound, not ranked" if is_reference(row) else "simulated model" if is_simulated(row) else row.get("model") or ""
    facts = {
        "Model": kind or "no language model",
        "Environment": row.get("env"),
        "Episodes": " + ".join(f"{int(entry.row.get('episodes') or 0):,}" for entry in group),
        "Replay": _replay_fact(group, replayed),
    }
    submission = row.get("submission") or {}
    if submission:
        facts |= {"Submitted by": submission.get("name"), "Contact": submission.get("contact")}
    listed = "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items() if value)
    curves = curves_of_agent(row)
    outcomes = "".join(_outcomes(entry, results.get(entry.id, ())) for entry in group)
    body = (
        f'<main id="content"><header><p class="kicker">Agent</p><h1>{text(agent)}</h1><dl class="facts">{listed}</dl></header>'
        f'<section aria-labelledby="figures"><h2 id="figures">Figures by budget</h2>'
        f'<p class="note">Small: 95 % intervals, paired bootstrap.</p>{figures_table(group, "Figures by budget")}</section>'
        f'<section aria-labelledby="outcomes"><h2 id="outcomes">How its episodes end</h2><ul class="key" aria-hidden="true">'
        + "".join(f'<li><i class="o-{name.replace(" ", "-")}"></i>{name}</li>' for name in OUTCOMES[:3])
        + f"</ul>{outcomes}</section>"
        f"{_errors(group, results)}{_rivals(group, compared)}{_learnt(curves)}</main>"
    )
    return whole("agent", f"{agent}: {title_of(run)}", bar, body, assets, [], figures_css() if curves else "")


def _learnt(curves: str) -> str:
    if not curves:
        return ""
    return (
        '<section aria-labelledby="learnt"><h2 id="learnt">How it learnt</h2>'
        f'<p class="note">{CURVES_NOTE}</p>{curves}</section>'
    )


def _replay_fact(group: Sequence[Entry], replayed: Mapping[str, tuple[int, int]]) -> str:
    if all(entry.verified for entry in group):
        return "verified"
    shown, agreed = (sum(replayed.get(entry.id, (0, 0))[place] for entry in group) for place in (0, 1))
    return f"agrees with {agreed:,} of {shown:,} episodes" if shown else "no trajectories here"


def _outcomes(entry: Entry, results: Sequence[EpisodeResult]) -> str:
    grading = str(entry.row.get("grading") or "strict")
    counts = Counter(outcome(result, grading) for result in results)
    total = sum(counts.values()) or 1
    label = text(condition(entry.row))
    said = ", ".join(f"{counts[name]:,} {name}" for name in OUTCOMES if counts[name])
    bars = "".join(
        f'<i class="o-{name.replace(" ", "-")}" style="width:{100 * counts[name] / total:.2f}%"></i>'
        for name in OUTCOMES
        if counts[name]
    )
    return (
        f'<div class="stack"><span>{label}</span><span class="bars" role="img" aria-label="{text(said)}">{bars}</span>'
        f'<a href="episodes.html#entry={entry.id}">{said or "no records"}</a></div>'
    )


def _errors(group: Sequence[Entry], results: Mapping[str, Sequence[EpisodeResult]]) -> str:
    """What went wrong with its calls, most frequent first."""
    counts: Counter[str] = Counter()
    attempts = 0
    for entry in group:
        for result in results.get(entry.id, ()):
            counts.update(dict(result.errors_by_status))
            attempts += result.attempts
    if not counts:
        return ""
    most = max(counts.values())
    rows = "".join(
        f'<tr><th scope="row">{text(name.replace("_", " "))}</th>'
        f'<td class="meter"><i style="width:{100 * count / most:.1f}%"></i></td>'
        f'<td class="figure">{count:,}</td><td class="figure">{100 * count / attempts:.1f}</td></tr>'
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    bars = '<th scope="col"><span class="unseen">Beside the most frequent</span></th>'
    table = framed(f"<tr>{heads('Status')}{bars}{heads('>Calls', '>%')}</tr>", rows, 'aria-labelledby="errors"')
    return (
        '<section aria-labelledby="errors"><h2 id="errors">What goes wrong with its calls</h2>'
        f'<p class="note">Of {attempts:,} calls under all budgets.</p>{table}</section>'
    )


def _rivals(group: Sequence[Entry], compared: Mapping[tuple[str, str], Comparison]) -> str:
    """How it stands against the others, a table a budget."""
    parts = []
    for entry in group:
        pairs = [pair for (mine, _), pair in compared.items() if mine == entry.id]
        if not pairs:
            continue
        rows = "".join(
            f'<tr><th scope="row"><a href="{agent_file(pair.b.row)}">{text(pair.b.row["agent"])}</a></th>'
            f'<td class="figure">{points(pair.ahead)}'
            f'<small class="ci">{points(pair.ci95[0])} to {points(pair.ci95[1])}</small></td>'
            f'<td class="figure">{p_text(pair.adjusted_p)}</td><td>{_said(pair)}</td></tr>'
            for pair in sorted(pairs, key=lambda pair: (pair.ahead, str(pair.b.row["agent"])))
        )
        head = f"<tr>{heads('Against', '>Points ahead', '>Adjusted p', 'Verdict')}</tr>"
        label = f'<h3 id="against-{entry.id}">{text(condition(entry.row))}</h3>'
        parts.append(label + framed(head, rows, f'aria-labelledby="against-{entry.id}"'))
    if not parts:
        return ""
    return (
        '<section aria-labelledby="rivals"><h2 id="rivals">Against the others</h2><p class="note">Pass rate in budget, '
        f"paired on the same worlds; p-values are adjusted after Holm.</p>{''.join(parts)}</section>"
    )


def _said(pair: Comparison) -> str:
    if not pair.significant:
        return "not separable"
    return "ahead" if pair.ahead > 0 else "behind"


def meta(run: Run, pieces: Mapping[str, int], grading: str) -> dict[str, Any]:
    """What the scripts know of a run: its entries, and how many episodes of each are there in detail."""
    scenario = run.document.get("scenario") or {}
    plans = all(str(entry.row.get("env")).startswith("costgym/OpenCATP") for entry in run.entries)
    return {
        "title": title_of(run),
        "currency": scenario.get("currency", ""),
        "grading": grading,
        "share": "Score, %" if plans else "Facts, %",
        "entries": [
            {
                "id": entry.id,
                "agent": str(entry.row["agent"]),
                "page": agent_file(entry.row),
                "label": condition(entry.row),
                "budget": dict(entry.row.get("budget") or {}),
                "reference": is_reference(entry.row),
                "simulated": is_simulated(entry.row),
                "episodes": int(entry.row.get("episodes") or 0),
                "detailed": pieces.get(entry.id, 0),
                "verified": entry.verified,
                "rate": figure(entry.row, "pass_rate_under_budget"),
                "ci95": interval(entry.row, "pass_rate_under_budget"),
            }
            for entry in run.entries
        ],
    }
