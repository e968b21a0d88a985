"""What passes at the end of an episode."""

from typing import Any

from costgym.simulators.rules import layout
from costgym.simulators.rules.calls import end
from costgym.simulators.rules.writes import is_clean, need_met


def grade(met: Any, required: Any, clean: Any, luck: Any, chance: Any) -> Any:
    """The strict grade and the lenient judge's, of an answer that meets so many of the required needs."""
    return required > 0 and met == required and clean, luck < chance and clean


def finish(tables: Any, rules: Any, state: Any, i: Any) -> None:
    """End with an answer that holds every fact found so far; `Episode.finish` reads one in words."""
    e, met, required = layout.episode(state, i), 0, 0
    for need in layout.needs(tables, e):
        if layout.required(tables, e, need):
            required += 1
            if need_met(tables, state, i, need, layout.knows(e, need)):
                met += 1
    clean = not rules.writes or is_clean(tables, state, i)
    e.strict, e.judged = grade(met, required, clean, layout.judge_luck(tables, e), layout.judge_chance(tables, e, met))
    end(tables, rules, state, i, 0)
