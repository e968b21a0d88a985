"""Scheduled events, as they happen in an episode."""

from typing import Any

from costgym.simulators.rules import layout


def happen(tables: Any, state: Any, i: Any, event: Any) -> None:
    """Let an event happen in an episode, and report it where it is visible. A changed wish is unknown again."""
    e = layout.episode(state, i)
    visible = layout.change(tables, e, event)
    for need in layout.needs(tables, e):
        if layout.changes_wish(tables, event, e, need) and visible:
            layout.forget(e, need)
    if visible:
        layout.report_event(state, i, event)
