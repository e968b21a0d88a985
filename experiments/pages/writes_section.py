"""Show who pays twice: the money that double executions cost each agent, beside how often it passes."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from ..board.conditions import PASS_RATE, condition_label, currency_of
from ..board.rows import is_reference, is_simulated, is_void, shown_name
from ..play.metric_registry import REGISTRY, Row, figure, interval, plain, written
from .charts import Dot, dots
from .html import part

LOST = "money_lost"


def writes_section(track: Mapping[str, Any]) -> Markup:
    """The section of a track's page (`tracks.track_documents`), a picture for each condition; empty where no tool writes."""
    rows = [row for row in track.get("rows") or () if figure(row, LOST) is not None and not is_void(row)]
    if not rows:
        return Markup("")
    currency = plain(currency_of(track))
    blocks = []
    for label in dict.fromkeys(condition_label(row, track) for row in rows):
        own = [row for row in rows if condition_label(row, track) == label]
        own.sort(key=lambda row: (-(figure(row, LOST) or 0.0), figure(row, PASS_RATE) or 0.0))
        blocks.append({"label": label, "sentence": _sentence(own, currency), "chart": _chart(own, currency, label)})
    return part("writes.html", blocks=blocks)


def _chart(rows: list[Row], currency: str, label: str) -> Markup:
    lost = [Dot(_name(row), figure(row, LOST) or 0.0, *_ends(row, LOST)) for row in rows]
    passed = [
        Dot(_name(row), 100 * (figure(row, PASS_RATE) or 0.0), *(100 * end for end in _ends(row, PASS_RATE))) for row in rows
    ]
    said = "; ".join(
        f"{_name(row)} {written(figure(row, LOST), 'number')} lost, {written(figure(row, PASS_RATE), 'rate')} % passed"
        for row in rows
    )
    titles = REGISTRY[LOST].heading(f"{currency} an episode"), REGISTRY[PASS_RATE].heading()
    return dots([lost, passed], f"Who pays twice, {label}: {said}", titles)


def _sentence(rows: list[Row], currency: str) -> str:
    """Write who loses most, and who passes most among those that lose nothing."""
    ranked = [row for row in rows if not is_reference(row)]
    if not ranked:
        return ""
    worst = ranked[0]
    lost, ends = figure(worst, LOST), interval(worst, LOST)
    if not lost:
        return "No agent loses money."
    span = "" if ends is None else f" (95 %: {written(ends[0], 'number')} to {written(ends[1], 'number')})"
    text = (
        f"{_name(worst)} loses most: {written(lost, 'number')} {currency}{span} an episode, with "
        f"{written(figure(worst, 'duplicates'), 'number')} double executions."
    )
    safe = [row for row in ranked if figure(row, LOST) == 0 and figure(row, PASS_RATE)]
    if not safe:
        return text
    best = max(safe, key=lambda row: figure(row, PASS_RATE) or 0.0)
    return f"{text} {_name(best)} loses nothing and passes {written(figure(best, PASS_RATE), 'rate')} %."


def _name(row: Row) -> str:
    mark = " †" if is_simulated(row) else " (bound)" if is_reference(row) else ""
    return plain(shown_name(row)) + mark


def _ends(row: Row, key: str) -> tuple[float, float]:
    value = figure(row, key) or 0.0
    return interval(row, key) or (value, value)
