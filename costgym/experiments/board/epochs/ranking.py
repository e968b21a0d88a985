"""The board of an epoch, as it follows from its verdicts: one row for each identity, the mean over all of its tries.

A row's figures are what was played in the secret worlds. Nothing that a submitter wrote enters them: the claim stands beside.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from costgym.experiments.board.board import document_of
from costgym.experiments.board.conditions import condition_key, condition_label, grouped
from costgym.experiments.board.epochs.chain import REFERENCES, Verdict
from costgym.experiments.board.epochs.epoch import Epoch
from costgym.experiments.board.epochs.identities import same_name
from costgym.experiments.board.rows import BY_EPISODE, claim_text
from costgym.experiments.play.metric_registry import plain

RERUN = "rerun"
"""What `verified` says of a row whose agent was played by the judge, and the key of what a row says of that."""
_COUNTS = ("void_episodes", "missing_episodes", "crashed_episodes", "episodes")
_OF_ONE_TRY = ("by_level", "calls_by_form", "errors", "crash_reasons", "void_reasons", "claimed")


def board_document(
    epoch: Epoch, verdicts: Sequence[Verdict], whole: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
) -> dict[str, Any]:
    """The content of `leaderboard.json`. `whole` are the rows with all that tells of single episodes, by entry, once the secret
    is published."""
    played = [verdict for verdict in verdicts if verdict.accepted]
    tries: list[tuple[Verdict, Mapping[str, Any]]] = []
    for verdict in played:
        for number, row in enumerate(verdict.rows):
            tries.append((verdict, row if whole is None else {**whole[verdict.entry][number], "claimed": row.get("claimed")}))
    rows = []
    for group in grouped(tries, lambda one: (_whose(one), condition_of(epoch, one[1]))).values():
        rows.append(_row_of(epoch, group))
    document = document_of(epoch.run, rows)
    about = {
        "name": epoch.name,
        "begin": epoch.begin.isoformat(),
        "end": epoch.end.isoformat(),
        "tasks": epoch.tasks,
        "worlds": epoch.worlds,
        "secret_sha256": epoch.secret_sha256,
        "revealed": whole is not None,
        "registered": len(epoch.identities),
        "entries": len(played) - 1,
        "refused": len(verdicts) - len(played),
    }
    return {**document, "epoch": about}


def _whose(one: tuple[Verdict, Mapping[str, Any]]) -> tuple[str, str]:
    """An identity; each reference is one of its own."""
    verdict, row = one
    return (REFERENCES, str(row["agent"])) if verdict.entry == REFERENCES else ("", same_name(verdict.identity))


def condition_of(epoch: Epoch, row: Mapping[str, Any]) -> str:
    """The track and the condition of a row, as a key."""
    track = epoch.run.track(str(row["track"]))
    varied = {name for condition in track.conditions for name in condition.settings}
    return condition_key(row["budget"], {name: row.get(name) for name in varied}, track.name)


def _row_of(epoch: Epoch, tries: Sequence[tuple[Verdict, Mapping[str, Any]]]) -> dict[str, Any]:
    """The row of an identity in a condition."""
    verdict, first = tries[-1]
    rows = [row for _, row in tries]
    metric = epoch.run.track(str(first["track"])).ranked_by
    figures = {name: value for name, value in (first if len(rows) == 1 else mean_of(rows)).items() if name != "claimed"}
    if verdict.entry == REFERENCES:
        return {**figures, "verified": RERUN}
    agent = str(first["agent"]) if len(rows) == 1 else f"{len(rows)} tries"
    claims = [row.get("claimed") for row in rows]
    played = [row.get(metric) for row in rows]
    about = {
        "metric": metric,
        "claimed": _mean(claims),
        "played": figures.get(metric),
        "tries": len(rows),
        "figures": [
            {"agent": row["agent"], "entry": of.entry, "claimed": claim, "played": figure}
            for (of, row), claim, figure in zip(tries, claims, played, strict=True)
        ],
    }
    submission = {**verdict.about, "name": verdict.identity}
    return {**figures, "agent": f"{agent} ({verdict.identity})", "verified": RERUN, "submission": submission, RERUN: about}


def mean_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of several tries: the mean of each figure and of the ends of its interval; numbers of episodes are summed."""
    first, mean = rows[0], dict[str, Any]()
    for name, value in first.items():
        values = [row.get(name) for row in rows]
        if name in _OF_ONE_TRY:
            continue
        if name in _COUNTS:
            mean[name] = sum(int(count or 0) for count in values)
        elif isinstance(value, bool) or (isinstance(value, str | dict) and name not in ("ci95", BY_EPISODE)):
            mean[name] = value
        elif name == "ci95":
            known = [end for end in value if all(end in row["ci95"] for row in rows)]
            mean[name] = {end: [_mean(row["ci95"][end][side] for row in rows) for side in (0, 1)] for end in known}
        elif name == BY_EPISODE:
            mean[name] = {key: _mean_episodes([row[BY_EPISODE][key] for row in rows]) for key in value}
        elif name == "alarms":
            continue
        elif isinstance(value, list):
            mean[name] = [_mean(column) for column in zip(*(column or () for column in values), strict=False)]
        else:
            mean[name] = _mean(values)
    models = dict.fromkeys(str(row["model"]) for row in rows if row.get("model"))
    mean["model"] = ", ".join(models)
    if any(row.get("metered") is False for row in rows):
        mean["metered"] = False
    if rung := list(dict.fromkeys(text for row in rows for text in row.get("alarms") or ())):
        mean["alarms"] = rung
    return mean


def _mean(values: Iterable[Any]) -> float | None:
    known = list(values)
    if not known or any(value is None for value in known):
        return None
    return float(f"{np.mean([float(value) for value in known]):.12g}")


def _mean_episodes(figures: Sequence[Any]) -> list[float]:
    read = [
        [float(value == "1") for value in figure] if isinstance(figure, str) else [float(value) for value in figure]
        for figure in figures
    ]
    return [float(f"{value:.12g}") for value in np.mean(read, axis=0)]


def verdict_text(epoch: Epoch, verdict: Verdict) -> str:
    """A verdict in a line."""
    if not verdict.accepted:
        return plain(f"refused: {'; '.join(verdict.reasons)}")
    lines = []
    for row in verdict.rows:
        track = epoch.run.track(str(row["track"]))
        metric, limits = track.ranked_by, condition_label(row, track.document())
        about = {"metric": metric, "claimed": row.get("claimed"), "played": row.get(metric)}
        lines.append(" ".join(filter(None, (str(row["track"]), str(row["agent"]), limits))) + f": {claim_text(about)}")
    return plain(f"played: {'; '.join(lines)}")
