"""Show how often an agent passes a task every time: pass^k for all k up to the seeds of a leaderboard's tasks."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from ..board.conditions import by_condition, condition_label, shown_first
from ..board.rows import is_ranked, is_simulated, shown_name
from ..play.metric_registry import plain, written
from ..play.metrics import GRADINGS
from .html import part


def reliability_section(track: Mapping[str, Any]) -> Markup:
    """The section of a track's page (`tracks.track_documents`); empty where every task is played once."""
    groups = by_condition([row for row in track.get("rows") or [] if is_ranked(row)], track)
    seeds = max((len(row.get("pass_hat_k") or ()) for group in groups for row in group), default=0)
    if seeds < 2:
        return Markup("")
    names = {"strict": "pass_hat_k", "judge": "judged_pass_hat_k"}
    first = shown_first(groups)
    return part(
        "reliability.html",
        counts=range(1, seeds + 1),
        gradings=GRADINGS,
        blocks=[
            {
                "label": condition_label(group[0], track),
                "open": number == first,
                "agents": [
                    {
                        "name": plain(shown_name(row)) + " †" * is_simulated(row),
                        "cells": [
                            written(shares[k] if k < len(shares) else None, "rate")
                            for grading in GRADINGS
                            for shares in [row.get(names[grading]) or ()]
                            for k in range(seeds)
                        ],
                    }
                    for row in group
                ],
            }
            for number, group in enumerate(groups)
        ],
    )
